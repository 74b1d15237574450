"""SYNTHETIC rows of traces that lost single records: which system calls are those of two."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.false_syscalls import open_false_syscalls
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT

_TYPES = {
    "file": pl.UInt16, "thread": pl.UInt32, "source": CAT, "layer": CAT, "name": CAT, "flags": pl.UInt16,
    "parent": pl.Int64, "enclosing_call": pl.Int64, "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32,
}  # fmt: skip
CREATE, ALLOC = "AMDKFD_IOC_CREATE_QUEUE", "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU"
MAP, DESTROY = "AMDKFD_IOC_MAP_MEMORY_TO_GPU", "AMDKFD_IOC_DESTROY_QUEUE"
NO_LINES = pl.DataFrame(schema={"thread": pl.UInt32, "at": pl.Int64})


def call(name: str, at: int, dur: int | None, flags: int = 0) -> dict[str, Any]:
    return {"name": name, "ts_ns": at, "dur_ns": dur, "flags": flags, "layer": "ioctl", "parent": None, "call": None}


def function(name: str, at: int, inside: int) -> dict[str, Any]:
    return {**call(name, at, 5), "layer": "kfd", "parent": inside, "call": inside}


def opened(rows: list[dict[str, Any]], lines: pl.DataFrame = NO_LINES) -> tuple[list[int], list[int]]:
    """Return the calls that lost their end, and the functions that lost their call."""
    shared = {"file": 0, "thread": 1, "source": "ftrace", "err_lo_ns": 500, "err_hi_ns": 500}
    events = pl.DataFrame(
        [{"event": n, "offset": 10 * n, **shared, **row, "enclosing_call": row["call"]} for n, row in enumerate(rows)],
        schema_overrides=_TYPES,
    )
    after = open_false_syscalls(events, lines)
    ends, calls = (events[name].is_not_null() & after[name].is_null() for name in ("dur_ns", "enclosing_call"))
    assert (after["flags"].gather(ends.arg_true()) & int(Flag.ENTER_ONLY) > 0).all()
    assert after["parent"].equals(after["enclosing_call"])
    return ends.arg_true().to_list(), calls.arg_true().to_list()


@pytest.mark.parametrize(
    ("printed", "thread", "expected"),
    [(15_000, 1, [0]), (15_000, 2, []), (10_400, 1, []), (19_000, 1, []), (25_000, 1, [])],
)
def test_a_thread_prints_nothing_while_it_is_in_the_kernel(printed: int, thread: int, expected: list[int]) -> None:
    """Times within the errors, or of another thread, say nothing."""
    lines = pl.DataFrame({"thread": [thread], "at": [printed]}, schema_overrides={"thread": pl.UInt32})
    assert opened([call(CREATE, 10_000, 10_000), call(ALLOC, 30_000, 10_000)], lines) == (expected, [])


def test_the_driver_runs_the_function_of_the_request() -> None:
    rows = [call(ALLOC, 10, 90), function("kfd_ioctl_create_queue", 50, 0), function("kfd_ioctl_svm", 60, 0)]
    assert opened(rows) == ([0], [1, 2])
    own = [call(CREATE, 10, 90), function("kfd_ioctl_create_queue", 50, 0), function("init_mqd", 60, 0)]
    assert opened(own) == ([], [])
    # Pages without the definitions of their probes name them as they were called.
    assert opened([call(CREATE, 10, 90), function("kfd_create_queue", 50, 0)]) == ([], [])
    assert opened([call(ALLOC, 10, 90), function("kfd_create_queue", 50, 0)]) == ([0], [1])
    assert opened([call(ALLOC, 10, 90), function("kfd_create_queue", 20, 0), *rows[1:]]) == ([0], [1, 2, 3])


def test_where_single_records_are_missing_the_longest_calls_are_open() -> None:
    whole = [call(ALLOC, 100 * n, 10 + n % 7) for n in range(500)]
    enters = [call(ALLOC, 50_000 + n, None, int(Flag.ENTER_ONLY)) for n in range(15)]
    exits = [call("ioctl", 60_000 + n, None, int(Flag.EXIT_ONLY)) for n in range(15)]
    last = [call(ALLOC, 90_000, 5)]
    assert opened([*whole, call(ALLOC, 50_000, 90), *last]) == ([], [])
    assert opened([*whole, call(ALLOC, 50_000, 90), *enters, *exits, *last]) == ([500], [])
    # Where many are missing, nothing tells which.
    assert len(opened([*whole[:50], *enters, *exits, *last])[0]) == 51
    # A filter leaves out the enters, or the exits, of calls that it does not want.
    assert opened([*whole, call(ALLOC, 50_000, 90), *exits, *last]) == ([], [])
    assert opened([*whole, call(ALLOC, 50_000, 90), *enters, *last]) == ([], [])


def test_of_few_calls_the_share_that_lacks_records_may_be_larger_than_seen() -> None:
    """4 halves of 60 calls: the share is 7 %, or up to 13 %, as where too many records are missing to tell."""
    whole = [call(ALLOC, 100 * n, 10 + n % 7) for n in range(56)]
    halves = [
        call(ALLOC, 10_000, None, int(Flag.ENTER_ONLY)), call(ALLOC, 11_000, None, int(Flag.ENTER_ONLY)),
        call("ioctl", 12_000, None, int(Flag.EXIT_ONLY)), call("ioctl", 13_000, None, int(Flag.EXIT_ONLY)),
    ]  # fmt: skip
    assert len(opened([*whole, *halves, call(ALLOC, 90_000, 5)])[0]) == 57


@pytest.mark.parametrize(
    ("following", "length", "expected"), [
        (DESTROY, 30, [24]), (MAP, 30, []),
        pytest.param(DESTROY, 11, [], id="too short for both"),
        pytest.param(CREATE, 30, [], id="what never follows a mapping"),
    ],
)  # fmt: skip
def test_a_request_that_lacks_the_one_that_follows_it_may_be_both(
    following: str, length: int, expected: list[int]
) -> None:
    """No record shows that others are missing: the exit of the one and the enter of the other are side by side."""
    rows = [call(name, 100 * n, dur) for n in range(12) for name, dur in ((ALLOC, 10), (MAP, 5), (DESTROY, 1))]
    for n, row in enumerate(rows):
        row["ts_ns"] += 20 * (n % 3)
    assert opened(rows) == ([], [])
    assert opened([*rows[:24], call(ALLOC, 800, length), call(following, 840, 5), *rows[27:]]) == (expected, [])


@pytest.mark.parametrize(("thread", "expected"), [(3, [4]), (2, [])])
def test_a_call_over_a_place_where_two_threads_lost_records_is_open(thread: int, expected: list[int]) -> None:
    """Of the calls of one thread that lack their exits no two can be at one place."""
    lone = int(Flag.ENTER_ONLY)
    begun = [{**call(CREATE, 100, None, lone), "thread": 2}, {**call(CREATE, 200, None, lone), "thread": thread}]
    ends = [{**call(ALLOC, 900, 5), "thread": 2}, {**call(ALLOC, 901, 5), "thread": 3}]
    whole = [call(CREATE, 1000 + 10 * n, 5) for n in range(40)]
    rows = [*begun, *ends, call(CREATE, 50, 700), call(CREATE, 910, 5), *whole]
    assert opened(rows) == (expected, [])
