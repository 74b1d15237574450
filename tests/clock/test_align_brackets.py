"""HAND-MADE: samples a second apart of a clock that changes its rate at one of them, and what is told of each gap."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tracecorr.clock.bounds import Inequalities
from tracecorr.clock.brackets import Gaps, find_gaps, follow_samples
from tracecorr.clock.slopes import Rates, Slopes

Floats = NDArray[np.float64]
SECOND, PPM = 1e9, 1e-6
RATES = Rates(0.0, 600 * PPM)
COUNT = 12


def changing(*changes: tuple[int, float]) -> Inequalities:
    """Return samples of 1 us; each change says at which of them the rate grows, and by how much (ppm)."""
    x = np.arange(COUNT) * SECOND
    offset = sum((ppm * PPM * np.clip(x - at * SECOND, 0, None) for at, ppm in changes), np.zeros(COUNT))
    return Inequalities(x, offset - 500, offset + 500)


@pytest.mark.parametrize(
    ("at", "unsteady"),
    [(1, [0, 1]), (2, [0, 1, 2]), (3, [2, 3]), (6, [5, 6]), (8, [7, 8]), (9, [8, 9, 10]), (10, [9, 10])],
)
def test_a_gap_is_steady_if_a_line_goes_on_for_as_long_on_both_sides(at: int, unsteady: list[int]) -> None:
    """Where there is no sample on one side it has to go on for twice as long on the other one."""
    gaps = find_gaps(changing((at, 60.0)), RATES)
    assert np.flatnonzero(~gaps.steady).tolist() == [*unsteady, COUNT - 1]
    assert (gaps.low[unsteady] == -600 * PPM).all()
    assert (gaps.high[unsteady] == 600 * PPM).all()
    # Three seconds, known to 1 us at both ends.
    steady = gaps.steady.copy()
    steady[[0, COUNT - 2]] = False
    true = np.where(np.arange(COUNT) < at, 0.0, 60 * PPM)[steady]
    assert gaps.low[steady] == pytest.approx(true - 1_000 / (3 * SECOND), abs=1e-9)
    assert gaps.high[steady] == pytest.approx(true + 1_000 / (3 * SECOND), abs=1e-9)


def test_a_rate_counts_from_where_it_has_shown() -> None:
    """The gaps around a change count with the rate before them, at the start with the one behind."""
    for changes, told in [
        ([], [(0, 0.0)]),
        ([(6, 60.0)], [(0, 60 / 7), (7, 60.0)]),
        ([(1, 60.0)], [(0, 600 / 11)]),
        ([(3, 60.0), (8, -20.0)], [(0, 60 / 4), (4, (4 * 60 + 40) / 5), (9, 40.0)]),
    ]:
        samples = changing(*changes)
        runs = find_gaps(samples, RATES).list_runs(samples)
        assert [at / SECOND for at, _ in runs] == [at for at, _ in told]
        assert [rate / PPM for _, rate in runs] == pytest.approx([rate for _, rate in told])


@pytest.mark.parametrize(("steps", "parts"), [(2, 3), (5, 6), (6, 0)])
def test_a_clock_steps_in_one_gap_of_four_at_most(steps: int, parts: int) -> None:
    """Twenty gaps of a second, and a burst at the start, whose gaps do not count."""
    x = np.concatenate([np.arange(30) * 1e5, np.arange(1, 21) * SECOND])
    offset = -SECOND / 2 * np.searchsorted((np.arange(steps) * 3 + 1.5) * SECOND, x)
    assert len(follow_samples(Inequalities(x, offset - 500, offset + 500), RATES)) == parts


def test_other_evidence_that_tells_more_of_a_gap_goes_first() -> None:
    """Gaps of 10 s; others know the rate to 20 ppm in the first two. What samples beyond tell counts there, too."""
    edges = np.arange(4) * 10 * SECOND
    gaps = Gaps(edges, np.array([-5.0, -600, -600, -600]) * PPM, np.array([5.0, 600, 600, 600]) * PPM,
                np.array([True, False, False, False]))  # fmt: skip
    others = Slopes(np.array([5 * SECOND]), np.array([-20 * PPM]), np.array([20 * PPM]))
    found = gaps.apply(others, np.array([True, True, False, False]))
    low, high = found.between(*[np.array([1.0, 11, 21, 31]) * SECOND] * 2)
    assert (low / PPM).tolist() == [-5, -20, -600, -600]
    assert (high / PPM).tolist() == [5, 20, 600, 600]
