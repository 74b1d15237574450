"""SYNTHETIC logs whose head was cut off: what lacks lies before the first line, what follows is whole."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from index_logs import RING, counted, line, made, packet, records

from tracecorr.link.losses.command_ends import CommandLines, list_command_ends, list_headless
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.link.losses.late_beginnings import list_head_losses, list_late_files, list_late_logs
from tracecorr.link.losses.lossy_files import find_losses, list_half_calls
from tracecorr.link.packets.packet_index import complete_indexes
from tracecorr.model.kinds import BEGINNINGS, QUEUE_DELETED, Flag

_BEGIN = {"name": BEGINNINGS[0], "layer": "other"}
_EXIT = {"name": "hipFree", "layer": "hip", "flags": int(Flag.EXIT_ONLY)}
_CALL = {"name": "hipFree", "layer": "hip"}
# Up to ROCm 6.1 these lines name no ring.
_UNNAMED, _DELETED = {**made(), "ring": None}, {"name": QUEUE_DELETED, "layer": "aql"}


def enqueue(pointer: int, stream: int | None = None) -> dict[str, Any]:
    return line(0, name="KernelExecution", command=pointer, stream=stream)


def end(pointer: int, thread: int = 0) -> dict[str, Any]:
    return line(thread, name="complete", command=pointer)


def ends_of(*rows: dict[str, Any]) -> pl.DataFrame:
    return list_command_ends(records(*rows))


def halves_of(events: pl.DataFrame) -> pl.DataFrame:
    return list_half_calls(events, HipCalls.of(events))


def before(*rows: dict[str, Any]) -> list[bool]:
    """Tell of each end whether its command was enqueued before the log begins."""
    return ends_of(*rows)["before"].to_list()


def test_ends_of_commands_from_before_the_first_line_are_no_loss() -> None:
    rows = [end(1), enqueue(2, 7), end(3, 1), end(2), end(4, 1), enqueue(5, 8), end(5)]
    assert before(*rows) == [True, True, False, True, False]
    assert list_headless(ends_of(*rows)).is_empty()
    events = records(*rows)
    lines = CommandLines.of(events)
    assert find_losses(events, HipCalls.of(events), halves_of(events), lines, ends_of(*rows)).is_empty()
    # In a file that lost lines by other signs none is sure.
    lossy = pl.DataFrame({"file": [0], "lost": [0.1]})
    assert list_headless(ends_of(*rows, *[enqueue(9), end(9)] * 9), lossy).height == 3
    # The log has the beginning of the process, or its pointer was named before.
    assert before(_BEGIN, *rows) == [False] * 5
    assert before(*rows, end(2)) == [False] * 6


def test_when_all_streams_have_ended_commands_of_the_log_those_from_before_are_over() -> None:
    held = [enqueue(2, 7), enqueue(3, 8), end(2), end(9), end(3)]
    assert before(*held) == [False, True, False]
    assert before(*held, end(1)) == [False] * 4
    # A stream that the log shows being made has no command from before, and of an unnamed one nothing is known.
    made_here = {"name": "hipStreamCreate", "layer": "hip", "stream": 8}
    assert before(made_here, *held) == [False] * 3
    assert before(enqueue(2), enqueue(3), end(2), end(9), end(3)) == [False] * 3
    assert before(end(9), end(8)) == [True, True]


@pytest.mark.parametrize(
    ("streams", "expected"), [((None, None), False), ((7, 7), False), ((7, None), False), ((7, 8), True)]
)
def test_an_end_among_those_of_one_stream_is_that_of_a_command_whose_line_was_lost(
    streams: tuple[int | None, int | None], expected: bool
) -> None:
    """A thread prints the ends of a stream's commands in their order; another stream's may be older."""
    first, second = (enqueue(n, stream) for n, stream in enumerate(streams, 1))
    # Another stream may hold commands from before all the time.
    third, ended = enqueue(3, 9), end(3)
    assert before(first, second, third, end(1), end(9), end(2), ended) == [False, expected, False, False]
    # Behind it an earlier command ends: there begins another stream.
    assert before(first, second, third, end(2), end(9), end(1), ended) == [False, True, False, False]
    assert before(first, second, third, end(1), end(9, 1), end(2), ended) == [False, True, False, False]


@pytest.mark.parametrize(
    ("rows", "late"), [
        ([end(1), line()], True),
        ([_BEGIN, end(1)], False),
        ([line(), _EXIT, _CALL], True),
        pytest.param([_EXIT, _CALL], False, id="up to ROCm 5.6 no line enters the first call"),
        pytest.param([line(), _CALL, _EXIT, _CALL], False, id="an enter was lost"),
        pytest.param([{**_BEGIN, "process": None}, line(), _EXIT, _CALL], False, id="only calls name their process"),
        pytest.param(
            [line(), _EXIT, _CALL, {**_BEGIN, "process": None, "file": 1}], True, id="the beginning of another log"
        ),
        ([packet(0, 5), packet(0, 6)], True),
        ([made(), packet(0, 5)], False),
        ([packet(0, 0), packet(0, 1)], False),
        ([packet(0, None)], False),
        pytest.param([packet(0, 5), {**_BEGIN, "file": 1}], False, id="the piece of the log before has it"),
        ([line(), _DELETED], True),
        ([_UNNAMED, _DELETED, _DELETED], True),
        ([_UNNAMED, _DELETED], False),
        ([_BEGIN, line(), _DELETED], False),
    ],
)  # fmt: skip
def test_a_log_that_lacks_its_first_lines_and_shows_what_began_before_begins_late(
    rows: list[dict[str, Any]], late: bool
) -> None:
    events = records(*rows)
    assert len(list_late_logs(events)) == late
    placed = events.with_columns(ts_ns=pl.col("stamp_ns") + 7)
    found = list_late_files(placed, HipCalls.of(events), list_command_ends(events))
    assert found.rows() == ([(0, 7)] if late else [])
    assert list_head_losses(found).select("from_ns", "to_ns", "count").rows() == ([(None, 7, None)] if late else [])


def test_of_two_calls_that_the_head_entered_both_exits_are_no_loss() -> None:
    rows = records(line(), _EXIT, _EXIT, {**_CALL, "end_offset": 35})
    assert halves_of(rows).is_empty()
    # Of a log with its beginning the first exit alone may be one that no line enters.
    assert halves_of(records(_BEGIN, line(), _EXIT, _EXIT, _CALL)).height == 1
    assert halves_of(records(line(), _CALL, _EXIT, _CALL)).height == 1


def test_packets_of_a_ring_that_may_have_been_made_before_the_first_line_are_not_counted() -> None:
    """One Created line names no ring, and one ring has packets: in a whole log it is this one."""
    unnamed = {**made(), "ring": None}
    whole = records(_BEGIN, unnamed, packet(), packet())
    assert counted(complete_indexes(whole)) == [0, 1]
    late = records(end(1), unnamed, packet(), packet())
    assert counted(complete_indexes(late)) == [None, None]
    # Its line names the ring, which had packets before: those behind it are of the new queue.
    again = [packet(), packet(), {"name": "queue_deleted", "ring": RING}, made(), packet(), packet()]
    assert (
        counted(complete_indexes(records(end(1), *again).filter(pl.col("name") != "queue_deleted")))[:2] == [None] * 2
    )
    assert counted(complete_indexes(records(end(1), *again)).filter(pl.col("name") == "dispatch")) == [None, None, 0, 1]
