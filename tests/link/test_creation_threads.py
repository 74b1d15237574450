"""Threads by queue creations, and the rings that lines and probes tell of them (HAND-MADE)."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.threads.creation_threads import match_creations
from tracecorr.model.kinds import QUEUE_CREATED, QUEUES_COUNTED
from tracecorr.model.schema import CAT
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

# One thread creates queues from 1000 to 2000 and from 5000 to 6000 ns.
_RINGS = (0xA000, 0xB000)
_TYPES = {
    "source": CAT, "layer": CAT, "name": CAT, "file": pl.UInt16, "offset": pl.Int64, "pid": pl.UInt32,
    "tid": pl.UInt64, "tid_key": pl.Int64, "ring": pl.UInt64, "ts_ns": pl.Int64, "dur_ns": pl.Int64,
    "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32, "event": pl.Int64,
}  # fmt: skip
_THREAD = {"file": 0, "log_pid": 7, "log_tid": 0xA, "tid_key": 70}


def _match(rings: list[int | None], log_rings: tuple[int | None, ...] = _RINGS) -> tuple[list[dict], list[dict]]:  # type: ignore[type-arg]
    """Match the creations with three ioctls of thread 70, in the first of which ROCr makes its own queue."""
    at = [1000, 5000]
    lines = [
        {"source": "amd_log", "name": name, "pid": 7, "tid": 0xA, "ring": ring if name == QUEUE_CREATED else None,
         "ts_ns": start + shift}
        for start, ring in zip(at, log_rings, strict=True)
        for name, shift in ((QUEUES_COUNTED, 0), (QUEUE_CREATED, 1000))
    ]  # fmt: skip
    starts = [1100, 1500, 5500]
    ioctls = [
        {"source": "ftrace", "layer": "ioctl", "name": CREATE_QUEUE, "pid": 70, "tid_key": 70, "ts_ns": start,
         "dur_ns": 200} for start in starts
    ]  # fmt: skip
    rows = [{**row, "file": 0, "offset": n, "event": n, "err_lo_ns": 0, "err_hi_ns": 0}
            for n, row in enumerate(lines + ioctls)]  # fmt: skip
    placed = pl.DataFrame(rows, schema=_TYPES)
    probes = [{"tid_key": 70, "ts_ns": start + 50, "ring": ring} for start, ring in zip(starts, rings, strict=True)]
    made, others = match_creations(placed, pl.DataFrame(probes, schema={n: _TYPES[n] for n in probes[0]}))
    return made.drop("how").to_dicts(), others.to_dicts()


@pytest.mark.parametrize(
    ("rings", "is_found", "is_other"),
    [
        pytest.param([0x1000, 0xA000, 0xB000], True, False, id="its own rings"),
        pytest.param([None, None, None], True, False, id="rings that no probe tells"),
        pytest.param([0x1000, 0xA000, 0xC000], False, True, id="another ring in one creation"),
        pytest.param([0x1000, 0xB000, 0xA000], False, True, id="the rings of other creations"),
        pytest.param([0x1000, 0x2000, 0x3000], True, False, id="rings of a profiler, of which lines show none"),
    ],
)
def test_ioctls_of_other_rings_are_those_of_another_thread(
    rings: list[int | None], is_found: bool, is_other: bool
) -> None:
    made, others = _match(rings)
    assert made == ([_THREAD] if is_found else [])
    assert others == ([_THREAD] if is_other else [])


def test_lines_that_name_no_ring_contradict_none() -> None:
    assert _match([0x1000, 0xA000, 0xC000], (None, None)) == ([_THREAD], [])
