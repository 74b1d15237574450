"""Foreign files come into a capture as a copy; where the file system can, it shares their blocks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tracecorr.store import raw


def test_a_copy_is_a_file_of_its_own(tmp_path: Path) -> None:
    source, target = tmp_path / "a.log", tmp_path / "raw" / "a.log"
    source.write_bytes(b"one\n")
    assert raw.copy_in(source, target) == target
    source.write_bytes(b"two\n")
    assert target.read_bytes() == b"one\n"


def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "a.log", tmp_path / "a.copy"
    source.write_bytes(b"one\n")

    def clone(stored: int, number: int, given: int) -> int:
        assert number == 0x40049409
        return os.write(stored, os.pread(given, 100, 0))

    monkeypatch.setattr(raw.fcntl, "ioctl", lambda stored, *words: clone(stored.fileno(), *words))
    monkeypatch.setattr(shutil, "copyfile", lambda *_: pytest.fail("it was copied byte by byte"))
    assert raw.copy_in(source, target).read_bytes() == b"one\n"
