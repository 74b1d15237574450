"""Compressed raw files: every byte at its place, killed writers, damage, other tools."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracecorr.model.errors import InputError
from tracecorr.store.raw import copy_in, open_read_at, read_at, read_chunks, read_head
from tracecorr.store.zstd_frames import FRAME_BYTES, FrameReader, FrameWriter

PIECES = [b"first line\nsecond", b" line\n" * 50, b"x", b"last\n" * 7]


def write(path: Path, pieces: list[bytes], *, finish: bool = True) -> FrameWriter:
    writer = FrameWriter.create(path)
    for piece in pieces:
        writer.append(piece)
    if finish:
        writer.finish()
    return writer


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    start=st.integers(0, 2000),
    size=st.integers(0, 999),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("finish", [True, False])
def test_any_range_reads_as_of_the_plain_file(
    tmp_path: Path, pieces: list[bytes], start: int, size: int, finish: bool
) -> None:
    path, whole = tmp_path / "x.zst", b"".join(pieces)
    path.unlink(missing_ok=True)
    write(path, pieces, finish=finish)
    reader = FrameReader(path)
    assert reader.size == len(whole)
    assert reader.read(start, size) == whole[start : start + size]
    assert b"".join(read_chunks(path)) == whole


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd command: apt-get install zstd")
def test_other_tools_read_it(tmp_path: Path) -> None:
    write(tmp_path / "x.zst", PIECES)
    done = subprocess.run(["zstd", "-dc", tmp_path / "x.zst"], check=True, capture_output=True)
    assert done.stdout == b"".join(PIECES)
    assert read_head(tmp_path / "x.zst") == b"".join(PIECES)


def test_a_killed_writer_leaves_its_whole_frames(tmp_path: Path) -> None:
    whole = tmp_path / "whole.zst"
    write(whole, PIECES, finish=False)
    data = whole.read_bytes()
    seen = set()
    for length in range(len(data) + 1):
        torn = tmp_path / "torn.zst"
        torn.write_bytes(data[:length])
        writer = FrameWriter.reopen(torn)
        seen.add(writer.size)
        writer.append(b"after")
        writer.finish()
        assert b"".join(read_chunks(torn)) == b"".join(PIECES)[: writer.size - 5] + b"after"
    ends = [sum(map(len, PIECES[:n])) for n in range(len(PIECES) + 1)]
    assert seen == set(ends)


def test_a_last_frame_of_zeros_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    writer = write(path, PIECES, finish=False)
    stored = writer.table.sizes[-1][0]
    data = path.read_bytes()
    path.write_bytes(data[: -stored + 12] + bytes(stored - 12))
    assert FrameWriter.reopen(path).size == sum(map(len, PIECES[:-1]))


def test_where_the_source_began_anew_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    writer = write(path, PIECES[:2], finish=False)
    writer.mark_begin()
    writer.append(PIECES[2])
    begins = len(PIECES[0]) + len(PIECES[1])
    assert FrameWriter.reopen(path).table.begins == begins
    assert FrameReader(path).begins == begins
    writer.finish()
    assert b"".join(read_chunks(path)) == b"".join(PIECES[:3])


@pytest.mark.parametrize(
    "content", [b"no frames at all", b"\x28\xb5\x2f\xfd", zstandard.compress(b"a" * (FRAME_BYTES * 3))]
)
def test_what_holds_no_frames_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zst").write_bytes(content)
    with pytest.raises(InputError, match="cannot decompress"):
        FrameReader(tmp_path / "x.zst")


def test_damage_is_said_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    writer = write(path, PIECES)
    data = bytearray(path.read_bytes())
    data[writer.table.sizes[0][0] + 10] ^= 0xFF
    path.write_bytes(data)
    assert FrameReader(path).read(0, 5) == b"first"
    with pytest.raises(InputError, match="cannot decompress"):
        FrameReader(path).read(20, 50)


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, zstandard.compress, lambda data: zstandard.compress(data[:99]) + zstandard.compress(data[99:])],
)
@pytest.mark.parametrize("size", [1000, FRAME_BYTES + 999])
def test_a_compressed_file_comes_in_readable_at_random(tmp_path: Path, pack, size: int) -> None:  # type: ignore[no-untyped-def]
    data = (b"0123456789abcdef\n" * (size // 17 + 1))[:size]
    (tmp_path / "in").write_bytes(pack(data))
    stored = copy_in(tmp_path / "in", tmp_path / "out", compress=True)
    assert stored.name == ("out" if size < FRAME_BYTES else "out.zst")
    assert b"".join(read_chunks(stored)) == data
    assert read_at(stored, size - 100, 50) == data[-100:-50]
    with open_read_at(stored) as (read, length):
        assert (length, read(5, 7)) == (size, data[5:12])
    plain = copy_in(tmp_path / "in", tmp_path / "plain")
    assert plain.read_bytes() == data


def test_a_zstd_file_that_is_cut_short_is_no_input(tmp_path: Path) -> None:
    packed = zstandard.compress(b"line\n" * 10_000)
    (tmp_path / "in.zst").write_bytes(packed[:-9])
    with pytest.raises(InputError, match=r"in\.zst: it ends inside a frame"):
        copy_in(tmp_path / "in.zst", tmp_path / "out")
