"""A thread makes its requests to the KFD in its HIP calls: a clock by which it does not is a wrong one (SYNTHETIC)."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.outside_calls import count_outside

_ALLOC, _WAIT = "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "AMDKFD_IOC_WAIT_EVENTS"
_CALLS = pl.DataFrame(
    [(1, 100_000 * n, 100_000 * n + 30_000) for n in range(20)], schema=["thread", "stamp_ns", "end_stamp_ns"],
    orient="row",
)  # fmt: skip


def _requests(shift_ns: int, name: str = _ALLOC, count: int = 18) -> pl.DataFrame:
    """Return requests of the thread, each in a call where the shift is 0."""
    rows = [(1, name, 100_000 * n + 10_000 + shift_ns, 100_000 * n + 20_000 + shift_ns) for n in range(1, count + 1)]
    return pl.DataFrame(rows, schema=["thread", "name", "stamp_ns", "end_stamp_ns"], orient="row")


def _count(requests: pl.DataFrame, calls: pl.DataFrame = _CALLS, offset_ns: int = 0) -> tuple[int, int]:
    return count_outside(requests, calls, ClockMap("causal_pairs", shift_ns=offset_ns), (500, 500))


def test_by_the_right_clock_requests_lie_in_calls() -> None:
    assert _count(_requests(0)) == (0, 0)
    assert _count(_requests(7_000_000), offset_ns=-7_000_000) == (0, 0)


def test_by_another_clock_most_lie_outside() -> None:
    assert _count(_requests(50_000)) == (18, 18)
    assert _count(_requests(0), offset_ns=50_000) == (18, 18)


@pytest.mark.parametrize(("foreign", "told"), [(18, False), (19, True)])
def test_some_may_be_of_others_that_use_rocr(foreign: int, told: bool) -> None:
    rest = [_requests(50_000 + 100 * n, count=1) for n in range(foreign)]
    assert (_count(pl.concat([_requests(0), *rest])) != (0, 0)) == told


def test_few_requests_and_those_of_events_tell_nothing() -> None:
    assert _count(_requests(50_000, count=4)) == (0, 0)
    assert _count(_requests(50_000, _WAIT)) == (0, 0)
    # Nor do those before the first call and behind the last one.
    assert _count(_requests(10_000_000)) == (0, 0)


def test_calls_that_lack_a_line_may_reach_to_the_next_ones() -> None:
    torn = _CALLS.with_columns(end_stamp_ns=pl.when(pl.int_range(pl.len()) % 2 > 0).then("end_stamp_ns"))
    assert _count(_requests(50_000), torn) == (0, 0)
