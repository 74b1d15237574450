"""Of the pairs that a clock map was given it violates no more, also where the clock is doubted (SYNTHETIC).

What a clock is doubted for, such as requests outside of calls, is no pair.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.clock.build import fit_clocks
from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.evidence import ClockEvidence
from tracecorr.model.kinds import QUEUE_CREATED, QUEUES_COUNTED
from tracecorr.model.schema import CAT
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_ALLOC = "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU"
_SHIFT_NS, _CALL_NS, _APART_NS = 7_000_000, 30_000, 100_000
_TYPES = {
    "ring": pl.UInt64, "packet_index": pl.Int64, "signal": pl.UInt64, "end_stamp_ns": pl.Int64, "thread": pl.UInt32,
    "process": pl.UInt32, "file": pl.UInt16, "source": CAT, "clock": CAT, "layer": CAT, "name": CAT,
}  # fmt: skip
_ARGS = {"file": pl.UInt16, "offset": pl.Int64, "key": CAT, "u64": pl.UInt64, "text": pl.String}


def _row(source: str, layer: str, name: str, start_ns: int, end_ns: int | None, clock: str) -> dict[str, Any]:
    return {"source": source, "layer": layer, "name": name, "stamp_ns": start_ns, "end_stamp_ns": end_ns,
            "clock": clock, "file": int(source == "ftrace"), "process": 0, "thread": 0, "offset": start_ns,
            "ring": None, "packet_index": None, "signal": None, "step_lo_ns": 500, "step_hi_ns": 500}  # fmt: skip


def _fit(requests: int, late_ns: int, torn: int = 0, clock: str = "local") -> tuple[ClockMap, list[dict[str, Any]]]:
    """Return the map of a trace, and its rows.

    A thread calls hipMalloc again and again and makes three queues in between, whose ioctls fit one clock.

    Args:
        requests: so many of its calls ask the KFD for memory.
        late_ns: how long after the beginning of its call each does.
        torn: so many further queues are made, whose ioctls lie elsewhere.
        clock: of the trace.
    """
    rows = []
    for n in range(requests + 2):
        at = _APART_NS * (n + 1)
        rows.append(_row("amd_log", "hip", "hipMalloc", at, at + _CALL_NS, "mono"))
        if 0 < n <= requests:
            start = at + late_ns + _SHIFT_NS
            rows.append(_row("ftrace", "ioctl", _ALLOC, start, start + 10_000, clock))
    for n in range(3 + torn):
        at = _APART_NS * (4 * n + 2) + 50_000
        rows.append(_row("amd_log", "aql", QUEUES_COUNTED, at, None, "mono"))
        rows.append(_row("amd_log", "aql", QUEUE_CREATED, at + 20_000, None, "mono"))
        start = at + 5_000 + _SHIFT_NS + (0 if n < 3 else 35_000 * n)
        rows.append(_row("ftrace", "ioctl", CREATE_QUEUE, start, start + 10_000, clock))
    evidence = ClockEvidence(pl.DataFrame(rows, schema_overrides=_TYPES), pl.DataFrame(schema=_ARGS), {"samples": []})
    fitted = fit_clocks(evidence)[f"ftrace:{clock}"]
    return fitted, fitted.summarize(f"ftrace:{clock}", 0, 10**9)


@pytest.mark.parametrize("requests", [5, 18, 60])
def test_requests_outside_of_calls_make_a_clock_doubted_and_are_no_violated_pairs(requests: int) -> None:
    by_right, right_rows = _fit(requests, 10_000)
    assert by_right.aligned and by_right.violated == 0
    doubted, rows = _fit(requests, 50_000)
    assert not doubted.aligned and "lie outside of the HIP calls" in (doubted.reason or "")
    assert [row["method"] for row in rows] == ["unaligned"]
    # The pairs are those of the queue creations, and of silences by their clock; none contradicts the others.
    assert doubted.pairs >= by_right.pairs > 0
    assert {(row["pairs"], row["violated"]) for row in rows} == {(doubted.pairs, 0)}
    assert {(row["pairs"], row["violated"]) for row in right_rows} == {(by_right.pairs, 0)}


@pytest.mark.parametrize("clock", ["local", "mono"])
@pytest.mark.parametrize(("torn", "late_ns"), [(0, 10_000), (0, 50_000), (6, 10_000), (6, 50_000)])
def test_no_row_violates_more_pairs_than_it_has(clock: str, torn: int, late_ns: int) -> None:
    fitted, rows = _fit(30, late_ns, torn, clock)
    assert rows
    assert all(0 <= row["violated"] <= row["pairs"] for row in rows), fitted.reason
