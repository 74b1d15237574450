"""Blocks of the log: no byte is lost, whatever the chunks, and a line of any length ends somewhere."""

from __future__ import annotations

import tracemalloc
from io import BytesIO

import pytest
from amdlog_cases import DISPATCH, enter, leave, line, read

from tracecorr.read.amdlog import blocks
from tracecorr.read.amdlog.blocks import BlockCutter, cut_pieces
from tracecorr.read.amdlog.classify import Classifier
from tracecorr.read.amdlog.split import Splitter
from tracecorr.read.text import Text
from tracecorr.store.raw import ChunkStream


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


def test_many_short_lines_are_read_in_pieces_as_the_whole_block_is(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [enter("hipA"), "Arg0: = 1", "ShaderName : k(int)", DISPATCH, leave("hipA"), "No HW event"]
    data = "\n\nnoise\r\n".join(line(message) + "\n" * 30 for message in texts * 20) + line("Free hsa memory 0x1")
    whole = read(data)
    pieces = [block for text in BlockCutter(BytesIO(data.encode()), 1 << 20).cut() for block in cut_pieces(text)]
    assert len(pieces) == 1
    monkeypatch.setattr(blocks, "_PIECE_BYTES", 400)
    pieces = [block for text in BlockCutter(BytesIO(data.encode()), 1 << 20).cut() for block in cut_pieces(text)]
    assert len(pieces) > 10
    split = read(data)
    for name in ("events", "packets", "args", "ledger"):
        assert getattr(split, name).equals(getattr(whole, name)), name


@pytest.mark.parametrize(("unit", "most"), [(b"\n", 220), (b"a\n", 140), (b"abc\n", 140)])
def test_blocks_of_very_short_lines_take_little_memory(unit: bytes, most: int) -> None:
    """SYNTHETIC: of 4 MiB one piece after the other is read; what is told of all lines at once takes twice as much."""
    text, splitter = Text(unit * ((4 << 20) // len(unit))), Splitter(Classifier())
    tracemalloc.start()
    try:
        splitter.split(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most << 20


@pytest.mark.parametrize("calls", [1, 5, 200])
@pytest.mark.parametrize("ends", [b"\r\n", b"\n"])
def test_a_return_is_no_part_of_a_record_only_at_the_end_of_its_line(calls: int, ends: bytes) -> None:
    data = "".join(line(message) for message in [enter("hipA"), "Arg0: a\rb", leave("hipA")] * calls).encode()
    wanted, found = read(data.decode()).events, read((data.replace(b"\n", ends)).decode()).events
    assert len(wanted) == calls
    assert found["length"].to_list() == wanted["length"].to_list()
    assert found["end_length"].to_list() == wanted["end_length"].to_list()
    assert found["end_stamp_ns"].to_list() == wanted["end_stamp_ns"].to_list()
