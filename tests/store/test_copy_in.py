"""Foreign files come into a capture as a copy; where the file system can, it shares their blocks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import InputError
from tracecorr.store import raw


def test_a_copy_is_a_file_of_its_own(tmp_path: Path) -> None:
    source, target = tmp_path / "a.log", tmp_path / "raw" / "a.log"
    source.write_bytes(b"one\n")
    seen = Checksum()
    assert raw.copy_in(source, target, seen) == target
    source.write_bytes(b"two\n")
    assert target.read_bytes() == b"one\n"
    assert (seen.size, seen.text()) == raw.describe_file(target)


def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "a.log", tmp_path / "a.copy"
    source.write_bytes(b"one\n")

    def clone(stored: int, number: int, given: int) -> int:
        assert number == 0x40049409
        size = os.pwrite(stored, os.pread(given, 100, 0), 0)
        with source.open("ab") as log:
            log.write(b"two\n")
        return size

    monkeypatch.setattr(raw.fcntl, "ioctl", lambda stored, *words: clone(stored.fileno(), *words))
    monkeypatch.setattr(raw, "reserve_space", lambda *_: pytest.fail("it was copied byte by byte"))
    seen = Checksum()
    assert raw.copy_in(source, target, seen).read_bytes() == b"one\n"
    # A log that is still written to has grown since.
    assert (seen.size, seen.text()) == raw.describe_file(target)


@pytest.mark.parametrize("read", [raw.read_head, lambda path: list(raw.read_chunks(path))], ids=["head", "chunks"])
def test_what_a_disk_does_not_give_is_not_called_damaged_compression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "plain.log").write_bytes(b"one\n")
    monkeypatch.setattr(raw.os, "preadv", fail)
    with pytest.raises(InputError, match="Input/output error") as raised:
        read(tmp_path / "plain.log")
    assert "compressed" not in raised.value.next_step
