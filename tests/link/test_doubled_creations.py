"""In a log that lost lines a call that made two queues between the lines of one creation is two calls (SYNTHETIC)."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.link.losses.doubled_creations import list_doubled
from tracecorr.model.kinds import QUEUE_CREATED, QUEUES_COUNTED
from tracecorr.model.schema import CAT
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_TYPES: dict[str, Any] = {
    "layer": CAT, "name": CAT, "ts_ns": pl.Int64, "parent": pl.Int64, "thread": pl.UInt32, "process": pl.UInt32,
    "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32, "arg": pl.UInt64,
}  # fmt: skip


def _doubled(
    requests: list[tuple[int, int]],
    damaged: tuple[int, ...] = (0, 1, 2, 3),
    mapped: tuple[tuple[int, int, int], ...] = (),
) -> list[int]:
    """Return which of four calls of thread 1, each making a queue, are two.

    Args:
        requests: time, thread.
        damaged: the calls whose log lost lines.
        mapped: time, kind and gpu_id of the pages of /dev/kfd that thread 1 mapped.
    """
    lines = [
        ("aql", name, 1000 * call + at, call, 1, 0, 5, 5, None)
        for call in range(4)
        for at, name in ((10, QUEUES_COUNTED), (90, QUEUE_CREATED))
    ]
    made = [("ioctl", CREATE_QUEUE, at, None, thread, 0, 5, 5, None) for at, thread in requests]
    made += [("syscall", "mmap", at, None, 1, 0, 5, 5, kind << 62 | gpu << 46) for at, kind, gpu in mapped]
    calls = pl.DataFrame({"event": damaged}, schema={"event": pl.Int64})
    return sorted(list_doubled(calls, pl.DataFrame([*lines, *made], schema=_TYPES, orient="row"))["event"])


_ONCE = [(1000 * call + 40, 1) for call in range(4)]


def test_two_requests_between_the_lines_of_one_creation_are_of_two_calls() -> None:
    assert _doubled(_ONCE) == []
    assert _doubled([*_ONCE, (2070, 1)]) == [2]
    assert _doubled([*_ONCE, (2070, 1)], (0, 1, 3)) == []
    assert _doubled([*_ONCE, (2070, 2)]) == []


def test_what_may_lie_outside_of_the_creation_tells_nothing() -> None:
    assert _doubled([*_ONCE, (2012, 1)]) == []
    assert _doubled([*_ONCE, (2088, 1)]) == []
    assert _doubled([*_ONCE, (2200, 1)]) == []


def test_rocr_makes_a_queue_of_its_own_before_the_first_one_of_a_process() -> None:
    assert _doubled([*_ONCE, (25, 1)]) == []


def test_the_queue_that_rocr_makes_before_the_first_one_is_on_the_same_gpu() -> None:
    doorbells, events_page = 3, 2
    made = [*_ONCE, (25, 1)]
    assert _doubled(made, mapped=((30, doorbells, 7), (50, doorbells, 7))) == []
    assert _doubled(made, mapped=((30, doorbells, 7), (50, doorbells, 8))) == [0]
    assert _doubled(made, mapped=((30, doorbells, 7), (150, doorbells, 8))) == []
    assert _doubled(made, mapped=((30, doorbells, 7), (50, events_page, 8))) == []


def test_without_requests_or_calls_nothing_is_found() -> None:
    assert _doubled([]) == []
    assert _doubled([*_ONCE, (2070, 1)], ()) == []
