"""SYNTHETIC rows of logs whose lines are not in the order in which they were printed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.disorder import find_displaced, part_displaced
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
    ],
)
def test_lines_between_a_displaced_one_and_its_place_are_doubtful(times: list[int], expected: list[int]) -> None:
    assert displaced(times) == expected


def test_two_halves_in_the_wrong_order_are_doubtful_where_they_meet_only() -> None:
    found = displaced([*range(10_000, 15_000), *range(5_000)])
    assert (min(found), max(found), len(found)) == (4_000, 5_999, 2_000)


def test_an_exit_before_its_enter_is_displaced_though_no_row_is() -> None:
    rows = events_of([
        {"offset": 0, "ts_ns": 10, "layer": "hip", "end_offset": 10, "dur_ns": -4}, {"offset": 20, "ts_ns": 30},
    ])  # fmt: skip
    assert find_displaced(rows)["offset"].to_list() == [0, 10]


def test_an_exit_behind_the_next_enter_is_displaced_though_no_row_is() -> None:
    """The call of 10 to 20 ended before the one that stands inside of it began; in another thread all is in order."""
    rows = events_of([
        {"offset": 0, "ts_ns": 10, "layer": "hip", "end_offset": 20, "dur_ns": 10},
        {"offset": 10, "ts_ns": 21, "layer": "hip", "end_offset": 40, "dur_ns": 20},
        {"offset": 5, "ts_ns": 12, "layer": "hip", "end_offset": 25, "dur_ns": 10, "thread": 1},
        {"offset": 15, "ts_ns": 22, "layer": "hip", "end_offset": 22, "dur_ns": 0, "thread": 1},
    ])  # fmt: skip
    assert find_displaced(rows).select("thread", "offset").rows() == [(0, 10), (0, 20)]


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
