"""SYNTHETIC calls of a log that lost lines, and the doorbell stores in them: one that holds too many is two calls."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.losses.call_stores import list_misplaced, list_overstored, list_stores
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.model.schema import CAT

_TYPES: dict[str, Any] = {
    "layer": CAT, "name": CAT, "source": CAT, "ts_ns": pl.Int64, "dur_ns": pl.Int64, "thread": pl.UInt32,
    "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32,
}  # fmt: skip
_CALLS = 12


def _events(stores: list[tuple[int, int]], error: int | None = 0) -> pl.DataFrame:
    """Return calls of thread 1, each from 10 to 60 us of its own 100 us, and stores (us, thread)."""
    calls = [("hip", "hipSync", "amd_log", 100_000 * n + 10_000, 50_000, 1, 0, 0) for n in range(_CALLS)]
    made = [("doorbell", "doorbell", "ftrace", 1000 * at, None, thread, error, error) for at, thread in stores]
    return pl.DataFrame([*calls, *made], schema=_TYPES, orient="row")


def _damaged(count: int = _CALLS) -> pl.DataFrame:
    rows = [(n, 0, "hipSync", 0.1) for n in range(count)]
    types = {"event": pl.Int64, "file": pl.UInt16, "name": CAT, "lost": pl.Float64}
    return pl.DataFrame(rows, schema=types, orient="row")


@pytest.mark.parametrize(
    ("at", "error", "thread", "expected"), [
        (330, 0, 1, [3]), (370, 0, 1, []), (305, 0, 1, []), (330, 0, 2, []),
        pytest.param(330, 15_000, 1, [3], id="surely inside"),
        pytest.param(330, 25_000, 1, [], id="perhaps before"),
        pytest.param(330, None, 1, [], id="on a clock that is not known"),
    ],
)  # fmt: skip
def test_a_store_lies_in_the_call_of_its_thread(at: int, error: int | None, thread: int, expected: list[int]) -> None:
    assert list_stores(_damaged(), _events([(at, thread)], error))["parent"].to_list() == expected


def test_without_stores_or_calls_none_lies_in_any() -> None:
    assert list_stores(_damaged(), _events([])).is_empty()
    assert list_stores(_damaged(0), _events([(330, 1)])).is_empty()


def test_a_call_in_which_its_thread_stored_more_often_than_in_others_is_two() -> None:
    """Its exit and the enter of the next one were lost, at a level that prints no packets."""
    once = [(100 * n + 20, 1) for n in range(_CALLS)]
    for stores, expected in ((once, []), ([*once, (540, 1)], [5]), ([*once, (575, 1)], [])):
        assert list_overstored(_damaged(), _events(stores))["event"].to_list() == expected


def test_calls_of_threads_whose_stores_the_trace_does_not_show_tell_nothing_of_others() -> None:
    assert list_overstored(_damaged(), _events([(120, 1), (220, 1)])).is_empty()


@pytest.mark.parametrize(
    ("asked", "others", "expected"), [
        pytest.param([5], 10, [5], id="one alone"),
        pytest.param([5], 8, [], id="of few"),
        pytest.param([5, 7], 10, [], id="others hold it too"),
        pytest.param([], 10, [], id="none"),
    ],
)  # fmt: skip
def test_a_call_that_holds_a_request_of_another_function_is_two(
    asked: list[int], others: int, expected: list[int]
) -> None:
    """All requests of that kind but for these lie in calls of hipMalloc, which tell their duration."""
    waits = _events([]).rows()
    mallocs = [("hip", "hipMalloc", "amd_log", 10_000_000 + 100_000 * n, 50_000, 1, 0, 0) for n in range(others)]
    at = [100_000 * n + 30_000 for n in asked] + [10_000_000 + 100_000 * n + 10_000 for n in range(others)]
    requests = [("ioctl", "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "ftrace", ns, 5, 1, 0, 0) for ns in at]
    events = pl.DataFrame([*waits, *mallocs, *requests], schema=_TYPES, orient="row").with_row_index("event")
    calls = HipCalls(events.filter(pl.col("layer") == "hip").select("name", row="event"))
    assert list_misplaced(_damaged(), calls, events)["event"].to_list() == expected
