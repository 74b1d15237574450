"""Blocks of the log: no byte is lost, whatever the chunks, and a line of any length ends somewhere."""

from __future__ import annotations

import pytest
from amdlog_cases import DISPATCH, ChunkStream, enter, leave, line, read

from tracecorr.read.amdlog import blocks
from tracecorr.read.amdlog.blocks import BlockCutter


def _contents(chunks: list[bytes], size: int) -> list[bytes]:
    return [block.slice(block.start, block.stop) for block in BlockCutter(ChunkStream(iter(chunks)), size).cut()]


@pytest.mark.parametrize("chunk", [1, 7, 100, 5000])
def test_blocks_are_the_bytes_of_the_file(chunk: int) -> None:
    data = "".join(line(message) for message in [enter("hipA"), DISPATCH, leave("hipA")] * 40).encode() + b"no line end"
    found = _contents([data[i : i + chunk] for i in range(0, len(data), chunk)], 700)
    assert b"".join(found) == data
    assert all(block.startswith(b":") for block in found)
    assert len(found) > 5


def test_a_very_long_line_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_LONGEST_LINE", 3000)
    monkeypatch.setattr(blocks, "_LOOK_AHEAD", 100)
    data = b"x" * 10_000 + b"\n" + line(DISPATCH).encode()
    found = _contents([data[i : i + 64] for i in range(0, len(data), 64)], 500)
    assert b"".join(found) == data
    assert max(map(len, found)) <= 3000


def test_lines_of_a_program_far_behind_a_record_are_counted_together() -> None:
    records = [line(enter("hipA")), line(leave("hipA"))]
    noise = "x\n" * 300 + "\n" * 200 + ":3:broken\n" * 3 + " \t\n" * 100 + "y\n"
    counts = read(noise.join(records) + noise).counts()
    assert counts["blank_line"] == (600, 2 * (200 + 300))
    assert counts["program_output"] == (602, 1204)
    assert counts["broken_record"] == (6, 6 * len(":3:broken\n"))


@pytest.mark.parametrize("calls", [1, 5, 200])
@pytest.mark.parametrize("ends", [b"\r\n", b"\n"])
def test_a_return_is_no_part_of_a_record_only_at_the_end_of_its_line(calls: int, ends: bytes) -> None:
    data = "".join(line(message) for message in [enter("hipA"), "Arg0: a\rb", leave("hipA")] * calls).encode()
    wanted, found = read(data.decode()).events, read((data.replace(b"\n", ends)).decode()).events
    assert len(wanted) == calls
    assert found["length"].to_list() == wanted["length"].to_list()
    assert found["end_length"].to_list() == wanted["end_length"].to_list()
    assert found["end_stamp_ns"].to_list() == wanted["end_stamp_ns"].to_list()
