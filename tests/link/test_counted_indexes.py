"""HAND-MADE logs of releases that print no packet index: where threads, queues and stores leave one count."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.packets.doorbells import list_contradicted
from tracecorr.link.packets.packet_index import complete_indexes
from tracecorr.link.packets.packet_losses import list_short_files
from tracecorr.link.packets.stored_indexes import check_indexes
from tracecorr.model.kinds import COMMAND_MENTIONS, SUBMITTED, Flag
from tracecorr.model.schema import CAT

RING = 0x3C00000
_LINE: dict[str, Any] = {
    "layer": "aql", "flags": 0, "source": "amd_log", "clock": "mono", "process": 0, "thread": 0, "ring": None,
    "packet_index": None, "signal": None, "command": None, "end_stamp_ns": None, "end_offset": None,
    "parent_offset": None, "file": 0, "result": None,
    "ring_learned": False,
}  # fmt: skip
_HALVES = (0, 0, int(Flag.EXIT_ONLY))
_TYPES = {
    "layer": CAT, "name": CAT, "source": CAT, "clock": CAT, "packet_index": pl.Int64, "ring": pl.UInt64,
    "signal": pl.UInt64, "end_stamp_ns": pl.Int64, "end_offset": pl.Int64, "parent_offset": pl.Int64,
    "flags": pl.UInt16,
}  # fmt: skip


def records(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return part events, of which each is one microsecond behind the one before."""
    made = [{**_LINE, "stamp_ns": 1000 * n, "offset": 10 * n, **row} for n, row in enumerate(rows)]
    return pl.DataFrame(made, schema_overrides=_TYPES)


def made() -> dict[str, Any]:
    return {"name": "queue_created", "ring": RING}


def packet(thread: int = 0, index: int | None = None, name: str = "dispatch", **more: Any) -> dict[str, Any]:
    return {"name": name, "ring": RING, "thread": thread, "packet_index": index, **more}


def line(thread: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": "InternalMarker", "layer": "command", "thread": thread, **more}


def store(thread: int, value: int) -> dict[str, Any]:
    return {"name": "doorbell", "layer": "doorbell", "source": "ftrace", "clock": "mono", "ring": RING,
            "packet_index": value, "thread": thread}  # fmt: skip


def counted(rows: pl.DataFrame) -> list[int | None]:
    return rows.filter(pl.col("layer") == "aql", pl.col("name") != "queue_created")["packet_index"].to_list()


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


def test_printed_indexes_leave_one_for_the_rest() -> None:
    """HIP 6.4: the dispatches of thread 1 print theirs, the barriers of thread 0 between them have what is left."""
    rows = records(
        made(), line(0), line(1), packet(1, 1), packet(0, name="barrier_and"), packet(0, name="barrier_and"),
        packet(1, 3), line(0), line(1), packet(1, 4),
    )  # fmt: skip
    assert counted(complete_indexes(rows)) == [1, 0, 2, 3, 4]
    # What one turn has left is none of the next one's.
    more = [packet(1, 6), packet(0, name="barrier_and"), line(0), line(1), packet(1, 7)]
    again = records(*rows.drop("stamp_ns", "offset").to_dicts(), line(0), line(1), *more)
    assert counted(complete_indexes(again)) == [1, 0, 2, 3, 4, 6, 5, 7]


def test_printed_indexes_that_leave_too_few_tell_nothing() -> None:
    rows = records(made(), line(0), line(1), packet(1, 2), packet(0), line(0), line(1), packet(1, 2))
    assert counted(complete_indexes(rows)) == [2, None, 2]


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


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([{"name": "host_wait", "layer": "signal", "signal": 0x80}], id="nothing completes a signal"),
        pytest.param([line(0, name="KernelExecution"), line(0)], id="a kernel without its dispatch"),
        pytest.param([{"name": "hipFree", "layer": "hip", "flags": f} for f in _HALVES], id="halves of calls"),
    ],
)
def test_in_a_log_that_lacks_packets_nothing_is_counted(more: list[dict[str, Any]]) -> None:
    rows = records(made(), line(0), packet(0), line(0), packet(0), *more)
    assert list_short_files(rows).to_list() == [0]
    assert counted(complete_indexes(rows)) == [None, None]


@pytest.mark.parametrize("name", ["handler", "gpu_time", "host_wait", "host_active_wait"])
def test_a_signal_that_only_another_process_completes_shows_a_loss(name: str) -> None:
    wait = {"name": name, "layer": "signal", "signal": 0x80}
    rows = records(packet(signal=0x80, process=1, file=1), packet(signal=0x90), wait)
    assert list_short_files(rows).to_list() == [0]
    copied = {"name": "copy", "layer": "copy", "signal": 0x80}
    assert list_short_files(records(copied, wait)).is_empty()
    # A line that names none.
    assert list_short_files(records(packet(), {**wait, "signal": 0}, {**wait, "signal": None})).is_empty()


def test_commands_end_in_the_order_of_time_whatever_part_of_the_log_was_read_first() -> None:
    begin, end = ({"name": name, "layer": "command", "command": 0x51} for name in ("KernelExecution", "complete"))
    rows = records(*(row for n in range(3) for row in (begin, packet(0, n), end)))
    assert list_short_files(rows).is_empty()
    assert list_short_files(pl.concat([rows[2:], rows[:2]])).is_empty()
    # A line that enqueued one lacks.
    assert list_short_files(rows.filter(pl.col("offset") != 30)).to_list() == [0]


@pytest.mark.parametrize("name", ["barrier_and", "barrier_value"])
def test_a_barrier_may_end_before_its_line_is_printed(name: str) -> None:
    """HIP prints a barrier's line behind its doorbell store; ROCr's thread may tell of its end in between."""
    ended = {"name": "handler", "layer": "signal", "signal": 0x80, "thread": 1}
    rows = records(made(), line(0), packet(0), line(0), ended, packet(0, name=name, signal=0x80))
    assert list_short_files(rows).is_empty()
    assert counted(complete_indexes(rows)) == [0, 1]
    # Its thread had not begun with it, or writes a dispatch, whose line comes first: a line lacks.
    early = records(line(0), ended, line(0), packet(0, name=name, signal=0x80))
    assert list_short_files(early).to_list() == [0]
    assert list_short_files(records(line(0), ended, packet(0, signal=0x80))).to_list() == [0]


def test_a_signal_is_completed_in_the_part_of_the_log_that_was_read_last() -> None:
    """The file that was read first goes on where the other one ends."""
    wait = {"name": "host_wait", "layer": "signal", "signal": 0x80}
    rows = records(
        {**wait, "stamp_ns": 8000}, packet(signal=0x80, stamp_ns=9000),
        packet(signal=0x80, stamp_ns=1000, file=1), {**wait, "stamp_ns": 2000, "file": 1},
    )  # fmt: skip
    assert list_short_files(rows).is_empty()


@pytest.mark.parametrize("between", [*COMMAND_MENTIONS, SUBMITTED, "complete"])
def test_lines_that_enqueue_nothing_may_stand_before_a_kernels_dispatch(between: str) -> None:
    kernel = line(0, name="KernelExecution")
    whole = [kernel, line(0, name=between), packet(0)]
    # The log ends before the last one's.
    assert list_short_files(records(*whole, *whole, kernel)).is_empty()
    wait = {"name": "host_blocked_wait", "layer": "signal", "signal": 0x80}
    assert list_short_files(records(*whole, kernel, line(0, name=between), wait, *whole)).to_list() == [0]


def test_a_kernels_dispatch_is_that_of_its_thread_and_log() -> None:
    kernels = [line(thread, name="KernelExecution") for thread in (0, 1)]
    assert list_short_files(records(*kernels, packet(0), packet(1))).is_empty()
    # The second log shows no dispatch at all.
    rows = records(kernels[0], packet(0), *({**kernels[0], "file": 1, "process": 1, "thread": 5} for _ in range(2)))
    assert list_short_files(rows).to_list() == [1]


@pytest.mark.parametrize(("between", "expected"), [([], [0]), ([{"name": SUBMITTED}], [])])
def test_a_log_of_workers_lacks_a_kernel_that_none_submits_before_its_pointer_comes_again(
    between: list[dict[str, Any]], expected: list[int]
) -> None:
    command = {"layer": "command", "command": 0x10}
    kernels = [{**line(0, name="KernelExecution"), **command}, *({**line(2, **row), **command} for row in between)]
    again = [{**line(0), **command}]
    worked = [{**line(1, name="KernelExecution"), "command": 0x20}, {**line(2, name=SUBMITTED), "command": 0x20}]
    rows = records(made(), *worked, packet(2), *kernels, *again, packet(2))
    assert list_short_files(rows).to_list() == expected


def test_a_thread_whose_kernels_workers_submit_may_write_a_dispatch_itself() -> None:
    """HIP 6.4.3 without Direct Dispatch: a copy that its thread waits for is no work of the worker's."""
    kernels = [{**line(0, name="KernelExecution"), "command": command} for command in (0x10, 0x20)]
    taken = [{**line(1, name=SUBMITTED), "command": command} for command in (0x10, 0x20)]
    rows = [made(), *kernels, taken[0], packet(1), line(0), taken[1], packet(1), line(0), packet(0)]
    assert list_short_files(records(*rows)).is_empty()
    # What the thread submits itself is its own to write.
    assert list_short_files(records(*({**row, "thread": 0} for row in rows))).to_list() == [0]


def test_a_log_without_dispatches_lacks_those_of_its_kernels() -> None:
    barrier = packet(0, name="barrier_and", signal=0x80)
    wait = {"name": "host_wait", "layer": "signal", "signal": 0x80}
    kernel, worker = line(0, name="KernelExecution"), packet(1)
    assert list_short_files(records(made(), kernel, kernel, barrier, wait)).to_list() == [0]
    assert list_short_files(records(made(), kernel, worker, kernel, worker, barrier, wait)).to_list() == []


def _shared(*stores: dict[str, Any]) -> pl.DataFrame:
    """Return a log in which the second packets of two threads may have any order, and stores of the trace."""
    log = [made(), line(0), line(1), packet(0), line(0), line(1), packet(1), line(1), line(0), packet(0), packet(1),
           line(1), line(0), packet(0)]  # fmt: skip
    rows = complete_indexes(records(*log, *stores))
    assert counted(rows) == [0, 1, None, None, 4]
    return check_indexes(rows)


@pytest.mark.parametrize(("more", "expected"), [({}, [None] * 3), ({"signal": 9}, [0, 1, 2])])
def test_of_packets_whose_lines_are_there_twice_none_is_counted(
    more: dict[str, Any], expected: list[int | None]
) -> None:
    """A block of the log was copied behind itself: the second line is no packet, but no index says so."""
    twice = packet(0, stamp_ns=5000)
    assert counted(complete_indexes(records(made(), twice, {**twice, **more}, packet(0, stamp_ns=9000)))) == expected


def test_stores_tell_the_order_of_threads() -> None:
    rows = _shared(store(0, 0), store(1, 1), store(1, 2), store(0, 3), store(0, 4))
    assert counted(rows) == [0, 1, 3, 2, 4]
    assert rows.filter(pl.col("name") == "dispatch")["index_counted"].to_list() == [True] * 5


def test_a_store_that_was_lost_tells_no_order() -> None:
    assert counted(_shared(store(0, 0), store(1, 1), store(0, 3), store(0, 4))) == [0, 1, 3, None, 4]


def told(printed: list[int | None], stored: list[int], *more: dict[str, Any]) -> list[int | None]:
    """Return the indexes of packets of one thread after its stores were compared; the latest store comes first."""
    lines = [packet(0, index, index_counted=False) for index in printed]
    stores = [{**store(0, value), "stamp_ns": 10 * value, "index_counted": False} for value in reversed(stored)]
    found = check_indexes(records(*lines, *stores, *({**row, "index_counted": False} for row in more)))
    return counted(found.filter(pl.col("ring") == RING, pl.col("source") == "amd_log"))


@pytest.mark.parametrize(
    ("printed", "stored", "expected"), [
        ([None, 1, None], [0, 1, 2], [0, 1, 2]),
        pytest.param([None, 1, None], [1, 2], [None, 1, 2], id="the trace begins late"),
        pytest.param([None, 1, None], [0, 1], [0, 1, None], id="the trace ends early"),
        pytest.param([None, None], [3, 4], [3, 4], id="no packet prints its index"),
        pytest.param([0, None, 4, None, 9, None, 20, None, 22], [0, 2, 5, 7, 9, 20, 21, 22],
                     [0, None, 4, None, 9, None, 20, 21, 22], id="beside a known packet stands another store"),
    ],
)  # fmt: skip
def test_each_store_is_that_of_one_packet_where_none_lacks(
    printed: list[int | None], stored: list[int], expected: list[int | None]
) -> None:
    assert told(printed, stored) == expected
    lost = [{"name": "hipFree", "layer": "hip", "flags": f} for f in _HALVES]
    assert told(printed, stored, *lost) == printed
    # What another queue or process lacks says nothing.
    other = {"ring": RING + 1}
    bare = [{**packet(0, None), **other}, {**store(0, 1), **other}, {**store(0, 2), **other}]
    assert told(printed, stored, *bare) == expected
    again = [{**packet(5, 7), "process": 1, "file": 1}, {**store(5, 8), "process": 1}]
    assert told(printed, stored, *again) == [*expected, 7]
    # They may have the same indexes.
    same = [{**packet(0, None), **other}, {**store(0, stored[0]), **other}]
    assert told(printed, stored, *same) == expected
    same = [{**packet(5, None), "process": 1, "file": 1}, {**store(5, stored[0]), "process": 1}]
    assert told(printed, stored, *same) == [*expected, stored[0]]


def test_stores_that_fall_or_come_twice_tell_no_index() -> None:
    assert counted(_shared(store(0, 0), store(1, 2), store(1, 1), store(0, 3), store(0, 4))) == [0, 1, 3, None, 4]
    assert counted(_shared(store(0, 0), store(1, 1), store(1, 2), store(0, 2), store(0, 4))) == [0, 1, None, None, 4]
    falling = records(packet(), packet(), store(0, 4), store(0, 3)).with_columns(index_counted=pl.lit(value=False))
    assert counted(check_indexes(falling)) == [None, None]


def test_an_index_that_is_stored_without_a_packet_disproves_the_counts() -> None:
    """Thread 1 stored once more than it printed: a line of it was lost, and all packets behind it are further on."""
    assert counted(_shared(store(0, 0), store(1, 1), store(1, 2), store(0, 3), store(1, 4), store(0, 5))) == [None] * 5


def test_an_index_that_is_stored_without_a_packet_disproves_the_counts_of_rings_without_stores() -> None:
    """Ring 1 lacks a packet, so its log lost lines: of ring 2 only what lies before a printed index is sure."""
    other, third = {"ring": RING + 1}, {"ring": RING + 2}
    log = [packet(0, 0, index_counted=True), {**packet(0, 0, index_counted=True), **other},
           {**packet(0, 1, index_counted=False), **other}, {**packet(0, 2, index_counted=True), **other},
           {**packet(0, 0, index_counted=True), **third}, {**store(0, 0), **third},
           {**packet(0, 0, index_counted=True), "file": 1, "process": 1}]  # fmt: skip
    few = [{**row, "index_counted": row.get("index_counted")} for row in (*log, store(0, 0))]
    assert counted(check_indexes(records(*few))) == [0, 0, 1, 2, 0, 0]
    more = {**store(0, 1), "index_counted": None}
    assert counted(check_indexes(records(*few, more))) == [None, 0, 1, None, 0, 0]


def test_stores_at_other_times_disprove_the_counts_of_their_queue() -> None:
    shape = {"queue": pl.UInt32, "thread": pl.UInt32}
    packets = pl.DataFrame(
        [{"event": n, "queue": n // 3, "thread": 0, "chain": n, "name": "dispatch", "graph": False,
          "packet_index": n % 3, "doorbell_lo_ns": 100 * n, "doorbell_hi_ns": 100 * n + 99, "index_counted": n != 1}
         for n in range(6)],
        schema_overrides={**shape, "name": CAT},
    )  # fmt: skip
    stores = pl.DataFrame(
        [{"event": 100 + n, "queue": n // 3, "thread": 0, "ts_ns": 100 * n + (150 if n == 2 else 50),
          "packet_index": n % 3, "err_lo_ns": 0, "err_hi_ns": 0, "ring_learned": False} for n in (0, 2, 3)],
        schema_overrides=shape,
    )  # fmt: skip
    # Packet 0 has its store, packet 1 prints its index; queue 1 lacks stores, which disproves nothing.
    assert list_contradicted(stores, packets).to_list() == [2]
