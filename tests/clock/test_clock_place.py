"""HAND-MADE: rows of several clocks on the common one, each with the error of its time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from placed_rows import complete

from tracecorr.clock.clock_map import ClockMap, fit_clock_map
from tracecorr.clock.hull import Bounds
from tracecorr.clock.placing import place_records
from tracecorr.model.kinds import Flag

SAME = ClockMap("same_clock")


def falling() -> ClockMap:
    """Return the map of a clock that counts half nanoseconds: at stamp x its offset lies within 4 ns of 1 - x / 2."""
    low = np.array([-3, -503])
    return fit_clock_map(Bounds(np.array([0, 1000]), low, low + 8), "samples", 0.0, -0.5)


def records(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return rows of parts; of each only what differs from a log row at offset 0 of the first file is given."""
    usual = {
        "source": "amd_log", "clock": "mono", "stamp_ns": 0, "end_stamp_ns": None, "step_lo_ns": 0, "step_hi_ns": 0,
        "file": 0, "offset": 0, "flags": None, "name": "",
    }  # fmt: skip
    types = {
        "source": pl.Categorical, "clock": pl.Categorical, "stamp_ns": pl.Int64, "end_stamp_ns": pl.Int64,
        "step_lo_ns": pl.Int64, "step_hi_ns": pl.Int64, "flags": pl.UInt16,
    }  # fmt: skip
    return complete(pl.DataFrame([usual | row for row in rows], schema_overrides=types))


def place(maps: dict[str, ClockMap], *rows: dict[str, Any]) -> list[dict[str, Any]]:
    return place_records(records(*rows), maps).to_dicts()


def test_each_row_is_on_its_own_clock_and_all_are_in_time_order() -> None:
    """Stamps 300 and 100 of the trace are 151 and 51 ns; those of the log as printed, of the unnamed clock 7 more."""
    maps = {"amd_log:mono": SAME, "ftrace:local": falling(), "ftrace:unknown": ClockMap("unaligned", shift_ns=7)}
    trace = {"source": "ftrace", "clock": "local"}
    placed = place(
        maps, trace | {"stamp_ns": 300}, {"stamp_ns": 100, "name": "log"},
        {"source": "ftrace", "clock": None, "stamp_ns": 60}, trace | {"stamp_ns": 100},
    )  # fmt: skip
    assert [(row["event"], row["ts_ns"], row["stamp_ns"]) for row in placed] == [
        (0, 51, 100), (1, 67, 60), (2, 100, 100), (3, 151, 300),
    ]  # fmt: skip
    assert [row["name"] for row in placed] == ["", "", "log", ""]


def test_rows_of_one_moment_are_in_the_order_of_their_files() -> None:
    rows = [{"file": 1, "offset": 5}, {"file": 0, "offset": 9}, {"file": 1, "offset": 2}]
    assert [(row["file"], row["offset"]) for row in place({"amd_log:mono": SAME}, *rows)] == [(0, 9), (1, 2), (1, 5)]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.integers(0, 9)), min_size=1, max_size=12, unique=True)
)
def test_all_columns_are_put_in_the_order_of_times(rows: list[tuple[int, int, int]]) -> None:
    """Few rows that move, and many."""
    given = [{"stamp_ns": at, "file": file, "offset": offset, "name": f"{at}"} for at, file, offset in rows]
    for shift, clock in ((0, SAME), (5, ClockMap("same_clock", shift_ns=5))):
        placed = place({"amd_log:mono": clock}, *given)
        told = [(row["stamp_ns"], row["file"], row["offset"], row["ts_ns"], row["name"]) for row in placed]
        assert told == [(at, file, offset, at + shift, f"{at}") for at, file, offset in sorted(rows)]
        assert [row["event"] for row in placed] == list(range(len(rows)))


def test_start_and_end_have_each_their_own_offset() -> None:
    """Of a clock that runs twice as fast as the common one a call of 200 ns took 100; also one that ends at 0."""
    trace = {"source": "ftrace", "clock": "local"}
    rows = [{"stamp_ns": -200, "end_stamp_ns": 0}, {"stamp_ns": 100}, {"stamp_ns": 100, "end_stamp_ns": 300}]
    placed = place({"ftrace:local": falling()}, *(trace | row for row in rows))
    assert [(row["ts_ns"], row["dur_ns"]) for row in placed] == [(-99, 100), (51, None), (51, 100)]


def test_the_error_is_what_the_source_rounds_and_what_the_map_leaves() -> None:
    trace = {"source": "ftrace", "clock": "local", "stamp_ns": 100, "step_lo_ns": 500, "step_hi_ns": 30}
    maps = {"amd_log:mono": SAME, "ftrace:local": falling()}
    placed = place(maps, trace, {"stamp_ns": 200, "step_hi_ns": 999, "flags": int(Flag.CUT)})
    assert [(row["err_lo_ns"], row["err_hi_ns"], row["flags"]) for row in placed] == [(504, 34, 0), (0, 999, Flag.CUT)]


def test_an_error_that_its_column_does_not_hold_is_told() -> None:
    """The largest one that it holds counts as told, too: it may be larger."""
    most = 2**32 - 1
    steps = [(most - 1, 0), (most + 5, 0), (0, most)]
    rows = [{"offset": n, "step_lo_ns": lo, "step_hi_ns": hi} for n, (lo, hi) in enumerate(steps)]
    placed = place({"amd_log:mono": SAME}, *rows)
    assert [(row["err_lo_ns"], row["err_hi_ns"]) for row in placed] == [(most - 1, 0), (most, 0), (0, most)]
    assert [row["flags"] for row in placed] == [0, Flag.ERROR_CLAMPED, Flag.ERROR_CLAMPED]


def test_rows_of_a_clock_that_is_not_understood_have_no_error() -> None:
    (row,) = place({"amd_log:mono": ClockMap("unaligned", shift_ns=-40)}, {"stamp_ns": 100, "flags": int(Flag.TORN)})
    assert (row["ts_ns"], row["err_lo_ns"], row["err_hi_ns"]) == (60, None, None)
    assert row["flags"] == Flag.TORN | Flag.UNALIGNED


def test_a_row_without_a_time_stands_behind_the_one_before_it_in_its_file() -> None:
    """The first ones stand with the one behind them; of all of them nothing tells how near that is."""
    stamps = {(0, 10): None, (0, 20): 700, (0, 30): None, (1, 25): 900, (1, 40): None}
    rows = [{"file": file, "offset": at, "stamp_ns": stamp} for (file, at), stamp in reversed(stamps.items())]
    placed = place({"amd_log:mono": SAME}, *rows)
    assert [(row["offset"], row["ts_ns"], row["err_lo_ns"], row["flags"]) for row in placed] == [
        (10, 700, None, Flag.NO_TIME), (20, 700, 0, 0), (30, 700, None, Flag.NO_TIME), (25, 900, 0, 0),
        (40, 900, None, Flag.NO_TIME),
    ]  # fmt: skip
    first, second = place({"amd_log:mono": SAME}, *rows[:2])
    assert (first["offset"], first["err_lo_ns"], second["ts_ns"], second["err_lo_ns"]) == (25, 0, 900, None)
    (alone,) = place({"amd_log:mono": SAME}, {"stamp_ns": None})
    assert (alone["ts_ns"], alone["err_lo_ns"]) == (0, None)


def test_nothing_has_the_same_columns() -> None:
    one = place_records(records({}), {"amd_log:mono": SAME})
    assert place_records(records({}).clear(), {}).schema == one.clear().schema


def test_a_call_whose_start_has_no_time_or_lies_behind_its_end_has_no_duration() -> None:
    rows = [{"offset": 10, "stamp_ns": 700}, {"offset": 20, "stamp_ns": None, "end_stamp_ns": 600}]
    rows += [{"offset": 30, "stamp_ns": 800, "end_stamp_ns": 790}, {"offset": 40, "stamp_ns": 900, "end_stamp_ns": 900}]
    placed = place({"amd_log:mono": SAME}, *rows)
    assert [(row["ts_ns"], row["dur_ns"]) for row in placed] == [(700, None), (700, None), (800, None), (900, 0)]
