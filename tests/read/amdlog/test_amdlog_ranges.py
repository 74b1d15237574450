"""A log read in several places at once gives exactly the rows of one pass, or the border says that it does not."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from amdlog_cases import ChunkStream

from tracecorr.model.parts import Block
from tracecorr.read.amdlog.blocks import BlockCutter, find_borders
from tracecorr.read.amdlog.reader import (
    LogRange,
    Reader,
    State,
    agrees,
    join_states,
    look_back,
    plan_ranges,
    read_amd_log,
    read_range,
)

LOGS = ("caseB-4streams", "mt-threads", "gemm-rocblas-300", "hip-5.7.1", "hip-6.4.3")


def told(blocks: list[Block]) -> dict[str, pl.DataFrame]:
    """Return what blocks say: their rows, and the sums of their ledgers."""
    frames = {name: pl.concat([getattr(b, name) for b in blocks]) for name in ("events", "packets", "args")}
    ledger = pl.concat([b.ledger for b in blocks]).group_by("outcome", "reason").agg(pl.col("records", "bytes").sum())
    texts = {n: f.with_columns(pl.col(pl.Categorical).cast(pl.String)) for n, f in frames.items()}
    return texts | {"ledger": ledger.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort("outcome", "reason")}


def read_alone(data: bytes, part: LogRange) -> tuple[list[Block], State, State]:
    """Read a range from its lookback on, as a worker does."""
    reader = Reader(3, part.borders[0])
    look_back(reader, data, part)
    start = reader.state()
    return list(read_range(reader, data, part)), start, reader.state()


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("count", [5])
@pytest.mark.parametrize("lookback", [0, 3])
def test_ranges_that_agree_are_one_pass(data_folder: Path, name: str, count: int, lookback: int) -> None:
    data = (data_folder / "captures" / name / "amd.log").read_bytes()
    size = max(len(data) // 30, 2000)
    borders = find_borders(data, size)
    single = list(read_amd_log(BytesIO(data), 3, size))
    ranges = plan_ranges(borders, count, lookback)
    assert ranges[0].borders[ranges[0].lookback] == 0
    reader = Reader(3)
    true_end, agreed, blocks = reader.state(), 0, []
    for part in ranges:
        alone, start, end = read_alone(data, part)
        right = list(read_range(reader, data, part))
        if agrees(true_end, start, end):
            agreed += 1
            for ours, theirs in zip(told(alone).items(), told(right).items(), strict=True):
                assert ours[1].equals(theirs[1]), (name, part.borders[part.lookback], ours[0])
            blocks += alone
            true_end = join_states(true_end, end)
        else:
            blocks += right
            true_end = reader.state()
        assert true_end.carried == reader.state().carried
        assert true_end.rings == reader.state().rings
    assert agreed >= 1, "the first range knows all there is to know"
    for ours, theirs in zip(told(blocks).items(), told(single).items(), strict=True):
        assert ours[1].equals(theirs[1]), ours[0]


def test_most_borders_agree_after_a_lookback(data_folder: Path) -> None:
    """One thread that makes short calls: nothing is open for longer than a batch."""
    data = (data_folder / "captures" / "caseB-4streams" / "amd.log").read_bytes()
    borders = find_borders(data, len(data) // 100)
    ranges = plan_ranges(borders, 5, 8)
    states = [read_alone(data, part)[1:] for part in ranges]
    pairs = pairwise(states)
    assert [agrees(before[1], after[0], after[1]) for before, after in pairs].count(True) == 4


def test_borders_are_those_of_one_pass(data_folder: Path) -> None:
    data = (data_folder / "captures" / "mt-threads" / "amd.log").read_bytes()
    for size in (500, 4096, 100_000, len(data), len(data) + 1):
        places = [0]
        pieces = ChunkStream(data[i : i + 777] for i in range(0, len(data), 777))
        for block in BlockCutter(pieces, size).cut():
            places.append(places[-1] + block.stop - block.start)
        assert find_borders(data, size) == places


def test_a_call_open_across_a_range_is_told() -> None:
    """SYNTHETIC: a thread waits in one call throughout; no lookback shows it, and the border says so."""
    line = b":3:hip_stream.cpp           :326 : 4976205223 us: [pid:7 tid: 0x%x] %s\n"
    enter, leave = b"\x1b[32m %s (  ) \x1b[0m", b"%s: Returned hipSuccess : "
    calls = [line % (0x7F7BD2EB0880, enter % b"hipDeviceSynchronize")]
    for _ in range(3000):
        calls += [line % (0x7F9196C57880, enter % b"hipGetDevice"), line % (0x7F9196C57880, leave % b"hipGetDevice")]
    calls.append(line % (0x7F7BD2EB0880, leave % b"hipDeviceSynchronize"))
    data = b"".join(calls)
    assert told(list(read_amd_log(BytesIO(data), 3)))["events"].height == 3001
    ranges = plan_ranges(find_borders(data, len(data) // 100), 4, 8)
    states = [read_alone(data, part)[1:] for part in ranges]
    assert len(ranges) == 4
    pairs = pairwise(states)
    # The range behind the first one begins in its lookback, the start of the log: it has seen the call.
    assert [agrees(before[1], after[0], after[1]) for before, after in pairs].count(False) >= 1
