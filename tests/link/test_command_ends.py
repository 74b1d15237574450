"""SYNTHETIC rows of commands: which ends tell that the line which enqueued their command was lost."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.losses.command_ends import CommandLines, list_command_ends, list_headless, list_unended
from tracecorr.model.kinds import BEGINNINGS
from tracecorr.model.schema import CAT

Line = tuple[str, int] | tuple[str, int, int]
_WORKER = [("processing", 7), ("submitted", 7), ("complete", 7)]


def events_of(lines: list[Line], *, begun: bool = True) -> pl.DataFrame:
    """Return rows, the n-th at byte 10 n: commands by name and pointer, calls by name, 0 and the line of their exit.

    The log has the beginning of its process, or lacks it.
    """
    rows = [
        {"file": 0, "process": 0, "offset": 10 * n, "name": line[0], "layer": "command" if line[1] else "hip",
         "command": line[1] or None, "end_offset": 10 * line[2] if len(line) == 3 else None}
        for n, line in enumerate(lines)
    ]  # fmt: skip
    rows += [{"file": 0, "process": 0, "name": BEGINNINGS[0], "layer": "other"}] if begun else []
    types = {"file": pl.UInt16, "process": pl.UInt32, "name": CAT, "layer": CAT, "command": pl.UInt64,
             "end_offset": pl.Int64}  # fmt: skip
    return pl.DataFrame(rows, schema_overrides=types).with_columns(
        thread=pl.lit(0, pl.UInt32), stream=pl.lit(None, pl.UInt64)
    )


def lines_of(lines: list[Line]) -> CommandLines:
    return CommandLines.of(events_of(lines))


def alone(lines: list[Line]) -> list[bool]:
    return list_command_ends(events_of(lines))["alone"].to_list()


def test_the_end_of_a_command_that_nothing_enqueued_is_alone() -> None:
    assert alone([("KernelExecution", 7), ("complete", 7), ("complete", 8), ("complete", 7)]) == [False, True, True]


@pytest.mark.parametrize(
    ("lines", "expected"), [
        pytest.param([("hipStreamDestroy", 0, 9), *_WORKER], [False], id="while a stream is destroyed"),
        pytest.param([("hipDeviceReset", 0, 9), *_WORKER], [False], id="while all streams are destroyed"),
        pytest.param([("hipStreamDestroy", 0, 9), ("hipStreamDestroy", 0, 2), ("x", 0, 3), *_WORKER], [False],
                     id="by one of two threads"),
        pytest.param([("hipStreamDestroy", 0, 2), ("processing", 7), ("submitted", 7), ("complete", 7)], [True],
                     id="taken up behind it"),
        pytest.param([*_WORKER[:2], ("hipStreamDestroy", 0, 9), ("complete", 7)], [True], id="taken up before it"),
        pytest.param([("hipStreamDestroy", 0), *_WORKER], [True], id="a call without end"),
        pytest.param([("hipFree", 0, 9), *_WORKER], [True], id="in another call"),
        pytest.param([("hipStreamDestroy", 0, 9), ("complete", 7)], [True], id="no worker took it up"),
    ],
)  # fmt: skip
def test_the_last_marker_of_a_destroyed_stream_lacks_no_line(lines: list[Line], expected: list[bool]) -> None:
    """Without Direct Dispatch a worker takes it up, though no line enqueued it."""
    assert alone(lines) == expected
    enqueued: list[Line] = [("KernelExecution", 9), ("complete", 9)] * 2
    assert list_headless(list_command_ends(events_of([*lines, *enqueued]))).height == sum(expected)


@pytest.mark.parametrize(("whole", "found"), [(1, 0), (2, 0), (3, 2)])
def test_where_most_ends_are_alone_the_log_does_not_show_what_enqueues(whole: int, found: int) -> None:
    lines: list[Line] = [("complete", 7), ("complete", 8)]
    lines += [("KernelExecution", 9), ("complete", 9)] * whole
    assert list_headless(list_command_ends(events_of(lines))).height == found


def test_each_command_is_followed_by_its_own_end() -> None:
    crossed: list[Line] = [("KernelExecution", 7), ("KernelExecution", 8), ("complete", 7), ("complete", 8)]
    assert list_unended(lines_of(crossed * 2)).is_empty()
    # What uses the pointer next tells that an end lacks; the last one may still come.
    lacking: list[Line] = [("KernelExecution", 7), ("KernelExecution", 7), ("complete", 7)]
    assert list_unended(lines_of([*crossed * 20, *lacking]))["file"].to_list() == [0]
    assert list_unended(lines_of([*crossed * 20, ("KernelExecution", 7)])).is_empty()
    # Of a kind that shows hardly any end the level does not print them.
    assert list_unended(lines_of([("KernelExecution", 7)] * 20)).is_empty()
