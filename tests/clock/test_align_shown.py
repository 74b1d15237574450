"""The lines by which stamps become times: within the bounds, few, and told by `clock_map` to the nanosecond.

All clocks are SYNTHETIC.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, Floats, Inequalities, Ints
from tracecorr.clock.clock_map import ClockMap, fit_clock_map
from tracecorr.clock.shown import _pull_taut

MS, SECOND = 10**6, 10**9
SPAN = 10 * SECOND


def _pair(offset: Floats, t: Floats, loose_ns: float = 5e3) -> Bounds:
    """Pair moments with what happened before and behind them, each of which bounds one side."""
    rng = np.random.default_rng(1)
    stamp = np.rint(t - offset).astype(np.int64)
    is_low = rng.random(len(t)) < 0.5
    low, high = (
        np.rint(t + sign * rng.uniform(2e3, 2e3 + loose_ns, len(t)) - stamp).astype(np.int64) for sign in (-1, 1)
    )
    return Bounds(stamp, np.where(is_low, low, NO_LOW), np.where(is_low, NO_HIGH, high))


def _times() -> Floats:
    return np.sort(np.random.default_rng(2).uniform(0, SPAN, 5_000))


def _turned(t: Floats) -> Floats:
    """The offset of a clock that changes its rate from 12 to 72 ppm after 4 s."""
    return 5e9 + 12e-6 * t + 60e-6 * np.clip(t - 4 * SECOND, 0, None)


def _suspended(t: Floats) -> Floats:
    """The offset of a clock that went on for 3 s while CLOCK_MONOTONIC stood."""
    return np.where(t < 5 * SECOND, -7e9, -10e9)


def _by_rows(rows: list[dict[str, Any]], stamps: Ints) -> tuple[Floats, Ints]:
    """Return what the rows of `clock_map` say of the offset at each stamp, and the row that says it."""
    begins = np.array([row["from_ns"] for row in rows])
    at = np.searchsorted(begins, stamps, side="right") - 1
    offset, rate = (np.array([row[name] for row in rows])[at] for name in ("offset_ns", "rate_ppb"))
    return offset + rate * 1e-9 * (stamps - begins[at]), at


def _check_rows(fitted: ClockMap, stamps: Ints) -> list[dict[str, Any]]:
    """Compare the rows with the map that they tell: its offset, its bounds, and the order that it leaves."""
    drawn = fitted.drawn(stamps)
    rows = drawn.summarize("ftrace:local", int(stamps[0]), int(stamps[-1]))
    told, at = _by_rows(rows, stamps)
    offset, below, above = drawn.offset_at(stamps)
    assert np.abs(told - offset).max() <= 1
    assert (stamps <= np.array([row["to_ns"] for row in rows])[at]).all()
    for name, side in (("lo_ns", below), ("hi_ns", above), ("width_ns", below + above)):
        assert (side <= np.array([row[name] for row in rows])[at]).all()
    assert (np.diff(drawn.to_common(stamps)) >= 0).all()
    # What is shown lies between the bounds, so that these are as wide as without it.
    low, high = fitted.bound(stamps)
    assert np.array_equal(np.stack([offset - below, offset + above]), np.stack([low, high]))
    return rows


@settings(max_examples=200, deadline=None)
@given(
    corridor=st.lists(st.tuples(st.integers(-200, 200), st.integers(0, 100)), min_size=2, max_size=40),
    steps=st.lists(st.integers(1, 1000), min_size=40, max_size=40),
)
def test_a_string_stays_in_its_corridor_and_is_the_least_steep(
    corridor: list[tuple[int, int]], steps: list[int]
) -> None:
    x = np.cumsum(steps[: len(corridor)]).astype(np.float64)
    low, width = (np.array(side, dtype=np.float64) for side in zip(*corridor, strict=True))
    at, y = _pull_taut(Inequalities(x, low, low + width), (0.0, 0.0))
    string = np.interp(x, at, y)
    assert (string >= low - 1e-6).all() and (string <= low + width + 1e-6).all()
    assert set(at) <= set(x)
    for share in (0.0, 0.3, 0.5, 1.0):
        other = np.abs(np.diff(low + share * width) / np.diff(x)).max()
        # Towards its ends, which are held far away, it rises by a little.
        assert np.abs(np.diff(y) / np.diff(at)).max() <= other + 1e-3 * (np.ptp(low) + 200) / np.ptp(x)


def test_bounds_that_wander_invent_no_rate() -> None:
    """A clock that is CLOCK_MONOTONIC: its bounds are microseconds wide here, a millisecond there, and one-sided."""
    t = _times()[::10]
    given_bounds = _pair(np.zeros(len(t)), t, loose_ns=1e6)
    fitted = fit_clock_map(given_bounds, "causal_pairs")
    stamps = np.sort(given_bounds.stamp_ns)
    middle = np.diff(fitted.to_common(stamps)) - np.diff(stamps)
    assert np.abs(middle).max() > 1_000
    (row,) = _check_rows(fitted, stamps)
    assert row["rate_ppb"] == 0
    assert (np.diff(fitted.drawn(stamps).to_common(stamps)) == np.diff(stamps)).all()


def test_a_rate_that_the_bounds_show_is_shown() -> None:
    t = _times()
    fitted = fit_clock_map(_pair(5e9 + 30e-6 * t, t), "causal_pairs")
    stamps = np.rint(t - 5e9 - 30e-6 * t).astype(np.int64)
    (row,) = _check_rows(fitted, stamps)
    assert abs(row["rate_ppb"] - 30_000) < 500


def test_a_change_of_the_rate_is_a_few_lines() -> None:
    t = _times()
    fitted = fit_clock_map(_pair(_turned(t), t), "causal_pairs")
    stamps = np.rint(t - _turned(t)).astype(np.int64)
    rows = _check_rows(fitted, stamps)
    assert 2 <= len(rows) <= 40
    rates = np.array([row["rate_ppb"] for row in rows])
    assert abs(rates[0] - 12_000) < 3_000 and abs(rates[-1] - 72_000) < 3_000
    assert rates.min() > 5_000 and rates.max() < 80_000
    assert np.abs(fitted.drawn(stamps).offset_at(stamps)[0] - _turned(t)).max() < 4_000


@pytest.mark.parametrize("method", ["causal_pairs", "samples"])
def test_a_step_is_between_two_rows(method: str) -> None:
    t = _times()
    t = t[np.abs(t - 5 * SECOND) > SECOND / 4]
    stamps = np.rint(t - _suspended(t)).astype(np.int64)
    offset = _suspended(t).astype(np.int64)
    given_bounds = _pair(_suspended(t), t) if method == "causal_pairs" else Bounds(stamps, offset - 900, offset + 900)
    fitted = fit_clock_map(given_bounds, method, 0.0).settle(stamps)
    before, behind = _check_rows(fitted, stamps)
    assert (before["rate_ppb"], behind["rate_ppb"]) == (0, 0)
    assert abs(before["offset_ns"] + 7 * SECOND) < 3_000 and abs(behind["offset_ns"] + 10 * SECOND) < 3_000


def test_cycles_of_a_day_are_told_to_the_nanosecond() -> None:
    """A rate of whole ns per s would lie microseconds beside them in the end: a line is told anew before."""
    ticks = np.linspace(0, 86_400 * 2.4e9, 5_001).astype(np.int64)
    offset = np.rint(ticks / 2.4 - ticks).astype(np.int64)
    fitted = fit_clock_map(Bounds(ticks, offset - 1_000, offset + 1_000), "samples", rate=1 / 2.4 - 1)
    rows = _check_rows(fitted, ticks)
    assert 10 < len(rows) < 10_000
    assert np.abs(_by_rows(rows, ticks)[0] - offset).max() < 500


def test_an_offset_that_is_likely_is_shown_where_the_bounds_hold_it() -> None:
    at = np.arange(5) * SECOND
    for likely, shown in ((0, 0), (90_000, 4_000)):
        fitted = fit_clock_map(Bounds(at, at * 0 - 2_000, at * 0 + 4_000), "samples", 0.0)
        drawn = ClockMap(**{**vars(fitted), "likely_ns": likely}).drawn(at)
        assert drawn.offset_at(at)[0].tolist() == [shown] * 5


def test_the_lines_of_a_clock_that_shows_less_are_the_same_times() -> None:
    t = _times()
    stamps = np.rint(t - _turned(t)).astype(np.int64)
    drawn = fit_clock_map(_pair(_turned(t), t), "causal_pairs").drawn(stamps)
    assert np.array_equal(drawn.shifted(1_000).to_common(stamps - 1_000), drawn.to_common(stamps))


def test_one_stamp_is_one_row() -> None:
    at = np.array([5, 5])
    fitted = fit_clock_map(Bounds(at, at * 0 + 10, at * 0 + 20), "samples")
    (row,) = _check_rows(fitted, at[:1])
    assert (row["from_ns"], row["to_ns"], row["offset_ns"], row["width_ns"]) == (5, 5, 15, 10)
