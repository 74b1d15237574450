"""HAND-MADE logs of releases that print no packet index: where threads and queues leave one count."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from index_logs import RING, counted, line, made, packet, records

from tracecorr.link.packet_index import complete_indexes
from tracecorr.model.kinds import BEGINNINGS


def test_threads_whose_packets_may_have_another_order_have_no_index() -> None:
    """Thread 1 was silent since before thread 0 wrote: which of them took its index first is not known."""
    rows = records(made(), line(0), packet(0), line(0), line(1), line(0), packet(0), packet(1), line(0), packet(0))
    assert counted(complete_indexes(rows)) == [0, None, None, 3]


def test_a_line_between_tells_the_order() -> None:
    rows = records(made(), line(0), line(1), packet(0), line(0), line(1), packet(1), line(1), line(0), packet(0))
    assert counted(complete_indexes(rows)) == [0, 1, 2]


def test_lines_of_one_microsecond_tell_no_order() -> None:
    near = {"stamp_ns": 5000}
    rows = records(made(), line(0), line(1), packet(0, **near), line(1, **near), packet(1, stamp_ns=6000))
    assert counted(complete_indexes(rows)) == [None, None]


def test_a_graph_launch_takes_its_indexes_before_it_prints() -> None:
    """Both packets of the launch may have the first two indexes, though thread 1 printed between them."""
    launch = {"name": "hipGraphLaunch", "layer": "hip", "end_stamp_ns": 9000}
    inside = {"parent_offset": 10}
    rows = records(
        made(), launch, packet(0, **inside), line(1), line(0), packet(1), line(0), packet(0, **inside), line(0)
    )
    assert counted(complete_indexes(rows)) == [None, None, None]


def test_of_two_logs_each_has_the_graph_launches_of_its_own() -> None:
    """Both begin with one; of the second launch of the second log the order is not known."""
    launch, other = {"name": "hipGraphLaunch", "layer": "hip"}, {"process": 1, "file": 1}
    rows = records(
        {**made(), **other}, {**launch, "offset": 5, "thread": 2}, made(), packet(2, parent_offset=5),
        {**launch, **other, "offset": 3}, packet(0, parent_offset=3, **other),
        {**launch, **other, "offset": 5}, packet(0, parent_offset=5, **other), line(1, **other), line(0, **other),
        packet(1, **other), line(0, **other), packet(0, parent_offset=5, **other), line(0, **other),
    )  # fmt: skip
    assert counted(complete_indexes(rows)) == [0, 0, None, None, None]


def test_a_plain_launch_takes_its_index_behind_the_line_before() -> None:
    launch = {"name": "hipLaunchKernel", "layer": "hip"}
    rows = records(made(), launch, line(1), packet(1), line(0), packet(0, parent_offset=10))
    assert counted(complete_indexes(rows)) == [0, 1]


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([line(1, source="ftrace")], id="a record of the trace"),
        pytest.param([line(1, clock="mono_raw")], id="a line with another clock"),
        pytest.param([line(2), {**packet(2), "ring": RING + 1}], id="a packet of another queue"),
    ],
)
def test_what_is_no_line_of_their_clock_or_queue_tells_no_order(between: list[dict[str, Any]]) -> None:
    rows = records(made(), line(0), line(1), line(0), packet(0), *between, packet(1), line(0), line(1), packet(0))
    assert counted(complete_indexes(rows).filter(pl.col("ring") == RING)) == [None, None, 2]


def test_packets_of_one_thread_are_counted_whatever_other_queues_and_turns_have() -> None:
    """Thread 2, silent before, writes to another queue; thread 1 wrote before the launch, with a line between."""
    launch, other = {"name": "hipGraphLaunch", "layer": "hip", "offset": 5}, {"ring": RING + 1}
    rows = records(
        line(0), line(1), packet(1, 5), line(1), launch, {**packet(2), **other}, packet(0, 6, parent_offset=5),
        packet(0, parent_offset=5), line(2), {**packet(2), **other},
    )  # fmt: skip
    assert counted(complete_indexes(rows).filter(pl.col("ring") == RING)) == [5, 6, 7]


def test_packets_of_a_log_that_names_no_thread_may_be_of_several() -> None:
    nameless: Any = None
    assert counted(complete_indexes(records(made(), packet(nameless), packet(nameless)))) == [None, None]


def test_barriers_between_packets_of_another_thread_have_no_index() -> None:
    """HIP 6.4: the dispatches of thread 1 print theirs, the barriers of thread 0 print none."""
    rows = records(
        made(), line(0), line(1), packet(1, 1), packet(0, name="barrier_and"), packet(1, 2), line(0), line(1),
        packet(1, 3),
    )  # fmt: skip
    assert counted(complete_indexes(rows)) == [1, None, 2, 3]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        pytest.param([made()], [None, None, None, None], id="not known which queue was which"),
        pytest.param([{"name": "queue_deleted", "ring": RING}, made()], [0, 1, None, 0, 1], id="deleted before"),
        pytest.param([], [0, 1, 2, 3], id="the same queue"),
    ],
)
def test_a_ring_that_was_made_again(between: list[dict[str, Any]], expected: list[int | None]) -> None:
    first = [packet(), packet()] if expected[0] is None else [made(), packet(), packet()]
    rows = records(*first, *between, packet(), packet()) if expected[0] is not None else records(
        *first, *between, packet(), made(), packet()
    )  # fmt: skip
    assert counted(complete_indexes(rows)) == expected
    # So in a log that names no process.
    assert counted(complete_indexes(rows.with_columns(process=pl.lit(None, pl.Int64)))) == expected


_UNNAMED = {"name": "queue_created"}


@pytest.mark.parametrize(
    ("rows", "expected"), [
        pytest.param([_UNNAMED, packet(), packet(), packet()], [0, 1, 2], id="as many as rings"),
        pytest.param([packet(), _UNNAMED, packet()], [0, 1], id="one ring, whose line comes late"),
        pytest.param([packet(), packet()], [None, None], id="fewer than rings"),
        # A further queue may have the same ring; the packets before it are of the first one.
        pytest.param([_UNNAMED, packet(), packet(), _UNNAMED, packet()], [0, 1, None], id="more than rings"),
        pytest.param([_UNNAMED, packet(), {**_UNNAMED, "process": 1}, packet()], [0, 1], id="that of another process"),
    ],
)  # fmt: skip
def test_creations_that_name_no_ring_are_as_many_as_rings(
    rows: list[dict[str, Any]], expected: list[int | None]
) -> None:
    """Up to ROCm 6.1 no Created line names its ring."""
    assert counted(complete_indexes(records(*rows))) == expected


def test_a_created_line_that_comes_late_is_that_of_the_packets_before_it() -> None:
    rows = records(packet(1), made(), line(0), packet(0), line(1), packet(1))
    assert counted(complete_indexes(rows)) == [0, 1, 2]


def test_packets_that_may_be_of_a_queue_made_again_are_not_counted_with_those_before() -> None:
    """The Created line is printed behind the queue's first packets; it was made behind its thread's line before."""
    between = [line(0), packet(1), line(1), {**made(), "thread": 0}]
    rows = records({**made(), "thread": 0}, packet(0), packet(0), *between, packet(0), packet(0))
    assert counted(complete_indexes(rows)) == [0, 1, None, None, None]
    # Once the one before was deleted none is of that.
    deleted = {"name": "queue_deleted", "ring": RING}
    rows = records({**made(), "thread": 0}, packet(0), packet(0), deleted, *between, packet(0))
    assert counted(complete_indexes(rows)[4:]) == [None, None]
    # Before that line no packet is of the new queue.
    early = [packet(1), line(1), line(0), {**made(), "thread": 0}]
    rows = records({**made(), "thread": 0}, packet(0), line(1), line(0), *early, packet(0))
    assert counted(complete_indexes(rows)) == [0, 1, None]


def test_packets_before_the_first_lines_of_the_runtime_are_of_a_process_that_had_the_number_before() -> None:
    """The head of its log was cut off; the one Created line is that of the next process with its pid."""
    begin, other = {"name": BEGINNINGS[0], "layer": "other"}, {"file": 1}
    next_log = [{**row, **other} for row in (begin, made(), packet(), packet())]
    assert counted(complete_indexes(records(*next_log))[2:]) == [0, 1]
    assert counted(complete_indexes(records(line(), packet(), packet(), *next_log))) == [None] * 4
