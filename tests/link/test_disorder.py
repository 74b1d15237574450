"""SYNTHETIC rows of logs whose lines are not in the order in which they were printed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.losses.disorder import add_displaced, drop_displaced, find_displaced, part_displaced
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT

_TYPES = {
    "file": pl.UInt16, "thread": pl.UInt32, "source": CAT, "clock": CAT, "layer": CAT, "flags": pl.UInt16,
    "end_offset": pl.Int64, "dur_ns": pl.Int64, "parent": pl.Int64,
}  # fmt: skip


def events_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return placed rows of one log in the order of their times."""
    whole = {
        "file": 0, "thread": 0, "source": "amd_log", "clock": "mono", "layer": "command", "flags": 0, "parent": None,
        "end_offset": None, "dur_ns": None,
    }  # fmt: skip
    ordered = sorted(rows, key=lambda row: (row["ts_ns"], row["offset"]))
    return pl.DataFrame([{"event": n, **whole, **row} for n, row in enumerate(ordered)], schema_overrides=_TYPES)


def displaced(times: list[int], thread: int = 0) -> list[int]:
    """Return the places that may be displaced, of lines with these times in the order of the file."""
    other = [{"offset": 5 + 10 * n, "ts_ns": 1000 + n, "thread": 9} for n in range(len(times))]
    rows = [{"offset": 10 * n, "ts_ns": at, "thread": thread} for n, at in enumerate(times)]
    found = find_displaced(events_of(rows + other))
    assert set(found["thread"]) <= {thread}
    return [offset // 10 for offset in found["offset"]]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param([1, 2, 2, 2, 3, 9], [], id="in order"),
        pytest.param([1, 3, 2, 4], [1, 2], id="two changed places"),
        pytest.param([1, 2, 6, 7, 3, 8], [2, 3, 4], id="a line came late"),
        pytest.param([1, 2, 3, 2, 3, 4], [2, 3], id="written twice"),
        pytest.param([1, 5, 2, 5, 5, 5, 4], [1, 2, 3, 4, 5, 6], id="lines of one microsecond between"),
    ],
)
def test_lines_between_a_displaced_one_and_its_place_are_doubtful(times: list[int], expected: list[int]) -> None:
    assert displaced(times) == expected


def test_two_halves_in_the_wrong_order_are_doubtful_where_they_meet_only() -> None:
    found = displaced([*range(10_000, 15_000), *range(5_000)])
    assert (min(found), max(found), len(found)) == (4_000, 5_999, 2_000)


def test_lines_of_one_microsecond_are_in_order() -> None:
    """Behind the place where the halves meet, two lines each show one time."""
    assert max(displaced([*range(10_000, 12_000), *(n // 2 for n in range(4_000))])) == 2_999


@pytest.mark.parametrize("other", [{"clock": "mono_raw"}, {"source": "ftrace"}, {"thread": None}])
def test_only_lines_of_one_thread_and_clock_have_an_order(other: dict[str, Any]) -> None:
    times = [(0, 4), (10, 1), (20, 3), (30, 2)]
    rows = [{"offset": offset, "ts_ns": at, **other} for offset, at in times]
    assert find_displaced(events_of(rows)).is_empty()
    # Among lines that have one they are not seen.
    mine = [{"offset": 5 + 10 * n, "ts_ns": at} for n, at in enumerate([1, 3, 2, 4])]
    assert find_displaced(events_of([*rows, *mine]))["offset"].to_list() == [15, 25]


def test_displaced_lines_of_all_threads_stand_in_the_order_of_their_log() -> None:
    """The exit alone at 5 tells no time of its call's end."""
    rows = [
        {"offset": 10 * n + thread, "ts_ns": at, "thread": thread}
        for thread in (0, 1) for n, at in enumerate([1, 3, 2, 4])
    ]  # fmt: skip
    rows.append({"offset": 5, "ts_ns": 2, "layer": "hip", "end_offset": 5, "flags": int(Flag.EXIT_ONLY)})
    assert find_displaced(events_of(rows))["offset"].to_list() == [10, 11, 20, 21]


def test_an_exit_before_its_enter_is_displaced_though_no_row_is() -> None:
    rows = events_of([
        {"offset": 0, "ts_ns": 10, "layer": "hip", "end_offset": 10, "dur_ns": -4}, {"offset": 20, "ts_ns": 30},
    ])  # fmt: skip
    assert find_displaced(rows)["offset"].to_list() == [0, 10]
    parted = part_displaced(rows.with_columns(flags=pl.lit(int(Flag.CUT), pl.UInt16)), find_displaced(rows))
    assert parted["dur_ns"].to_list() == [None, None]
    assert parted["flags"].to_list() == [Flag.CUT | Flag.ENTER_ONLY, Flag.CUT]
    bare = part_displaced(rows.with_columns(flags=pl.lit(None, pl.UInt16)), find_displaced(rows))
    assert bare["flags"].to_list() == [Flag.ENTER_ONLY, None]


def test_an_exit_behind_the_next_enter_is_displaced_though_no_row_is() -> None:
    """The call of 10 to 20 ended before the one that stands inside of it began; in another thread all is in order."""
    rows = events_of([
        {"offset": 0, "ts_ns": 10, "layer": "hip", "end_offset": 20, "dur_ns": 10},
        {"offset": 10, "ts_ns": 21, "layer": "hip", "end_offset": 40, "dur_ns": 20},
        {"offset": 5, "ts_ns": 12, "layer": "hip", "end_offset": 25, "dur_ns": 10, "thread": 1},
        {"offset": 15, "ts_ns": 22, "layer": "hip", "end_offset": 22, "dur_ns": 0, "thread": 1},
        # A call in a call, in order.
        {"offset": 50, "ts_ns": 50, "layer": "hip", "end_offset": 80, "dur_ns": 30},
        {"offset": 60, "ts_ns": 60, "layer": "hip", "end_offset": 70, "dur_ns": 10},
    ])  # fmt: skip
    assert find_displaced(rows).select("thread", "offset").rows() == [(0, 10), (0, 20)]


def test_an_exit_in_front_of_lines_that_were_printed_before_it_is_displaced_though_no_row_is() -> None:
    """The exit at 10 is a copy of a later call's; that of its own call comes behind the next one's enter."""
    rows = [
        {"offset": 0, "ts_ns": 10, "layer": "hip", "end_offset": 10, "dur_ns": 50},
        {"offset": 30, "ts_ns": 30, "layer": "hip", "end_offset": 40, "dur_ns": 5},
        {"offset": 50, "ts_ns": 70},
    ]  # fmt: skip
    assert find_displaced(events_of(rows))["offset"].to_list() == [10, 30, 40]
    # At the same time, and in another thread, they are in order.
    assert find_displaced(events_of([{**rows[0], "dur_ns": 20}, *rows[1:]])).is_empty()
    assert find_displaced(events_of([rows[0], *({**row, "thread": 1} for row in rows[1:])])).is_empty()


def test_a_call_around_a_displaced_line_has_no_end_and_no_children() -> None:
    """Calls at 0..40 and 50..90; of the second one's lines two changed places."""
    rows = events_of([
        {"offset": 0, "ts_ns": 0, "layer": "hip", "end_offset": 40, "dur_ns": 40},
        {"offset": 20, "ts_ns": 20, "parent": 0},
        {"offset": 50, "ts_ns": 50, "layer": "hip", "end_offset": 90, "dur_ns": 40},
        {"offset": 70, "ts_ns": 60, "parent": 2},
        {"offset": 60, "ts_ns": 70, "parent": 2}, {"offset": 80, "ts_ns": 80, "parent": 2},
    ])  # fmt: skip
    parted = part_displaced(rows, find_displaced(rows))
    assert parted["parent"].to_list() == [None, 0, None, None, None, None]
    assert parted["dur_ns"].to_list() == [40, None, None, None, None, None]
    assert [f & int(Flag.ENTER_ONLY) > 0 for f in parted["flags"]] == [False, False, True, False, False, False]


def test_a_displaced_line_is_in_no_open_call_either() -> None:
    """The call prints no exit, so that no other line shows that it is torn; another log is in order."""
    rows = events_of([
        {"offset": 0, "ts_ns": 0, "layer": "hip"}, {"offset": 20, "ts_ns": 10, "parent": 0},
        {"offset": 10, "ts_ns": 20, "parent": 0}, {"offset": 30, "ts_ns": 30, "parent": 0},
        {"offset": 0, "ts_ns": 40, "layer": "hip", "file": 1}, {"offset": 10, "ts_ns": 50, "parent": 4, "file": 1},
    ])  # fmt: skip
    assert part_displaced(rows, find_displaced(rows))["parent"].to_list() == [None, None, None, 0, None, 4]


_TYPES_OF_PLACES: dict[str, Any] = {"thread": pl.UInt32, "file": pl.UInt16}
_PLACES = pl.DataFrame({"offset": [20, 60], "thread": [0, 0], "file": [0, 0]}).cast(_TYPES_OF_PLACES)


@pytest.mark.parametrize(
    ("line", "packet", "kept"), [
        (10, 30, False), (20, 30, False), (10, 20, False), (30, 50, True),
        pytest.param(None, 20, False, id="no command line before it"), (None, 30, True),
    ],
)  # fmt: skip
def test_a_packet_has_no_command_where_a_line_between_them_is_displaced(
    line: int | None, packet: int, kept: bool
) -> None:
    found = pl.DataFrame({"event": [7, 8], "command_event": [1, 2]})
    launches = pl.DataFrame(
        {"event": [8, 7], "thread": [0, 0], "file": [0, 0], "offset": [90, packet], "command_offset": [80, line]}
    ).cast(_TYPES_OF_PLACES)
    assert drop_displaced(found, launches, _PLACES)["event"].to_list() == ([7, 8] if kept else [8])


def test_displaced_lines_are_missing_where_they_belong() -> None:
    """Two of 8 rows of file 0, three of 4 of file 1, and more lines than rows of file 2."""
    events = pl.DataFrame({"file": [0] * 8 + [1] * 4 + [2] * 2}, schema={"file": pl.UInt16})
    moved = pl.DataFrame({"file": [0, 0, 1, 1, 1, 2, 2, 2], "offset": range(8)}, schema_overrides={"file": pl.UInt16})
    losses = pl.DataFrame({"file": [0, 1, 3], "lost": [0.2, 0.1, 0.3]}, schema_overrides={"file": pl.UInt16})
    found = add_displaced(losses, moved, events).sort("file")
    assert found.rows() == [(0, 0.2), (1, 0.375), (2, 0.5), (3, 0.3)]
