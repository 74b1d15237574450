"""HAND-MADE: which of many inequalities are asked, and which of them contradict their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tracecorr.clock.bounds import Inequalities, find_outliers, pick_tightest

Floats = NDArray[np.float64]


def sawtooth(count: int, teeth: int) -> tuple[Floats, Floats]:
    """Return stamps, and lower bounds that fall by 1 ns each within every row of `teeth` inequalities."""
    x = np.arange(count, dtype=np.float64)
    return x, -(x % teeth)


@pytest.mark.parametrize("side", ["low", "high"])
def test_of_pairs_the_very_tightest_of_each_part_are_passed_over(side: str) -> None:
    """Four thousand make fifty parts of eighty, of which 1,500 are asked: thirty each.

    Of eighty three may be wrong: one in fifty, and two.
    """
    x, low = sawtooth(4000, 80)
    nothing = np.full(4000, np.inf)
    sides = (low, nothing) if side == "low" else (-nothing, -low)
    picked = pick_tightest(Inequalities(x, *sides), trim=True)
    assert picked.tolist() == [row for row in range(4000) if 3 <= row % 80 < 33]


def test_a_pause_takes_the_place_of_a_hundred_inequalities_at_most() -> None:
    """Both halves are asked as if there were none, but for one part or two of the fifty."""
    x, low = sawtooth(4000, 80)
    picked = pick_tightest(Inequalities(x + np.where(x < 2000, 0, 1e9), low, np.full(4000, np.inf)), trim=True)
    assert (picked < 2000).sum() >= 24 * 30
    assert (picked >= 2000).sum() >= 24 * 30


def test_of_samples_the_tightest_of_each_part_are_asked() -> None:
    """Of 1,500 parts of four, though those of later parts are all tighter."""
    x, low = sawtooth(6000, 4)
    picked = pick_tightest(Inequalities(x, low + 10 * (x // 4), np.full(6000, np.inf)), trim=False)
    assert picked.tolist() == list(range(0, 6000, 4))


def test_stamps_that_are_shown_several_times_are_parted_like_others() -> None:
    x, low = sawtooth(6000, 4)
    assert len(pick_tightest(Inequalities(x // 4 * 1e6, low, np.full(6000, np.inf)), trim=False)) == 1500


def test_three_thousand_inequalities_are_all_asked() -> None:
    x, low = sawtooth(3000, 80)
    assert len(pick_tightest(Inequalities(x, low, -low), trim=True)) == 3000


def marked(count: int, wrong: dict[int, float], rate: float = 0.0, max_rate: float = 0.0) -> list[int]:
    """Return which of some inequalities, a millisecond and 10 ns wide each, are marked, when some lie elsewhere."""
    x = np.arange(count) * 1e6
    offset = rate * x
    for row, shift in wrong.items():
        offset[row] += shift
    return np.flatnonzero(find_outliers(Inequalities(x, offset - 10, offset + 10), rate, max_rate)).tolist()


def test_what_most_neighbours_contradict_is_marked() -> None:
    assert marked(64, {20: 100.0, 40: -21.0}, rate=-0.5) == [20, 40]
    assert marked(64, {20: 19.0}) == []


def test_what_the_clock_may_have_drifted_in_a_window_is_no_contradiction() -> None:
    """By 10 ppm: 315 ns at either end, 31.5 ms from the middle of the window, and 5 ns beside it."""
    assert marked(64, {1: 300.0, 32: 300.0}, max_rate=10e-6) == [32]


def test_at_the_ends_of_a_window_the_clock_may_have_stepped() -> None:
    """Row 63 ends the first window, and stands in the middle of the one that begins at row 32."""
    assert marked(64, {0: 100.0, 63: 100.0}) == []
    assert marked(96, {63: 100.0}) == [63]


@pytest.mark.parametrize(("wrong", "told"), [(16, True), (17, False)])
def test_of_a_window_of_which_too_few_agree_nobody_is_marked(wrong: int, told: bool) -> None:
    """Every third of 64 lies elsewhere, each of them at another place."""
    rows = {2 + 3 * n: 100.0 * (n + 1) for n in range(wrong)}
    assert marked(64, rows) == (sorted(rows) if told else [])
