"""HAND-MADE: which inequalities one line satisfies, and which of them are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tracecorr.clock import runs as runs_module
from tracecorr.clock.bounds import Inequalities
from tracecorr.clock.pieces import split_pieces
from tracecorr.clock.runs import Run, find_runs, find_sound_runs
from tracecorr.clock.slopes import Rates

Floats = NDArray[np.float64]
RATES = Rates(0.0, 600e-6)
MS = 1e6


def find(offset: Floats, room: Floats | float = 1_000.0, rates: Rates = RATES) -> list[Run]:
    """Return the runs of samples a millisecond apart, known to `room` ns on both sides."""
    return find_runs(Inequalities(np.arange(len(offset)) * MS, offset - room, offset + room), rates)


def test_one_line_is_one_run_and_its_rate_is_known() -> None:
    """A clock of 100 ppm, 99 ms long: samples of 1 us on both sides leave 20 ppm around it."""
    (run,) = find(np.arange(100) * 100.0)
    assert run.chosen.tolist() == run.sure.tolist() == list(range(100))
    assert run.rate == pytest.approx(100e-6, abs=1e-9)
    assert run.spread == pytest.approx(2_000 / 99e6, rel=1e-3)


def test_a_step_parts_two_runs_where_it_is() -> None:
    runs = find(np.where(np.arange(40) < 17, 0.0, -50_000.0))
    assert [(run.sure[0], run.sure[-1], len(run.sure)) for run in runs] == [(0, 16, 17), (17, 39, 23)]


def test_what_both_runs_satisfy_is_sure_of_neither() -> None:
    """The rate rises by 400 ppm at sample 20; the lines of the second run reach back through some of the first.

    A line that leaves the last sample by -1 us and one near the change by +1 us is flatter by 50 ppm: it is within the
    samples' microsecond for some samples before the change, too.
    """
    offset = np.where(np.arange(61) < 20, 0.0, (np.arange(61) - 20) * 400.0)
    first, second = find(offset)
    assert first.chosen[-1] >= 20
    assert first.sure[-1] < 18
    assert second.sure[-1] == 60
    # Beyond the moment of the change both are true.
    assert second.sure[0] > 20


def test_one_wrong_among_right_ones_is_left_out() -> None:
    for place in (1, 5, 39):
        offset = np.where(np.arange(60) == place, 9_000.0, 0.0)
        (run,) = find(offset)
        assert run.chosen.tolist() == [i for i in range(60) if i != place]


def test_three_after_each_other_are_a_run_and_two_are_wrong() -> None:
    """At the end: nothing behind them tells whether the clock went on there."""
    for count, runs in ((1, 1), (2, 1), (3, 2)):
        found = find(np.where(np.arange(30) >= 30 - count, 90_000.0, 0.0))
        assert len(found) == runs, count
        assert found[0].chosen.tolist() == list(range(30 - count))


def test_wrong_ones_far_apart_are_left_out_one_by_one() -> None:
    wrong = np.arange(400) % 97 == 50
    (run,) = find(np.where(wrong, -9_000.0, 0.0))
    assert run.chosen.tolist() == np.flatnonzero(~wrong).tolist()


def test_one_sided_inequalities_alone_are_no_run() -> None:
    at = np.arange(20) * MS
    nothing = np.full(20, np.inf)
    assert find_runs(Inequalities(at, at * 0, nothing), RATES) == []
    assert find_runs(Inequalities(at, -nothing, at * 0), RATES) == []


def test_one_sided_inequalities_before_the_first_upper_bound_belong_to_the_run() -> None:
    """Two hundred lower bounds, and upper ones behind them."""
    at = np.arange(260) * MS
    low = np.where(np.arange(260) < 200, -1_000.0, -np.inf)
    high = np.where(np.arange(260) < 200, np.inf, 1_000.0)
    (run,) = find_runs(Inequalities(at, low, high), RATES)
    assert run.sure.tolist() == list(range(260))


def test_a_change_of_the_rate_is_no_wrong_inequality() -> None:
    """At 300 ppm more a sample leaves the line of a long run, but not that of its neighbours."""
    offset = np.where(np.arange(300) < 150, 0.0, (np.arange(300) - 150) * 300.0)
    runs = find(offset)
    assert len(runs) == 2
    assert set(np.concatenate([run.chosen for run in runs]).tolist()) == set(range(300))


@pytest.mark.parametrize("count", [1, 2])
def test_few_inequalities_are_one_run_when_there_are_no_others(count: int) -> None:
    (run,) = find(np.zeros(count))
    assert run.chosen.tolist() == list(range(count))


def test_two_samples_that_contradict_each_other_are_one_run_at_most() -> None:
    """A millisecond at 600 ppm is 0.6 us: which of both is wrong is not known, one of them stays."""
    assert [run.chosen.tolist() for run in find(np.array([0.0, 9_000.0]))] == [[1]]


def test_a_clock_of_one_rate_follows_no_drift() -> None:
    """Steps of 100 ns each millisecond leave 1 us after eleven of them, and the lines are flat."""
    runs = find(np.arange(60) * 100.0, 500.0, Rates(0.0, 0.0))
    assert all(run.rate == run.spread == 0 for run in runs)
    assert len(runs[0].chosen) == 11


def test_nothing_has_no_runs() -> None:
    assert find(np.zeros(0)) == []


def test_a_wrong_bound_among_those_of_its_own_side_is_told_by_the_next_ones_of_the_other_side() -> None:
    """Lower bounds, and an upper one after each ten of them; a wrong lower bound has none among its next few."""
    row = np.arange(120)
    high = np.where(row % 10 == 0, 1_000.0, np.inf)
    low = np.where(row % 10 == 0, -np.inf, -1_000.0)
    low[55] = 90_000.0
    (run,) = find_runs(Inequalities(row * MS, low, high), RATES)
    assert run.chosen.tolist() == [i for i in row if i != 55]


def test_a_step_that_few_bounds_show_is_a_step_and_not_a_row_of_wrong_ones() -> None:
    """The offset falls after 60 rows; only the upper bounds behind contradict what was before, one in ten."""
    row = np.arange(200)
    offset = np.where(row < 60, 0.0, -9e6)
    high = np.where(row % 10 == 0, offset + 1_000.0, np.inf)
    low = np.where(row % 10 == 0, -np.inf, offset - 1_000.0)
    runs = find_runs(Inequalities(row * MS, low, high), RATES)
    assert len(runs) == 2
    assert np.union1d(*(run.chosen for run in runs)).tolist() == row.tolist()


def test_what_ends_a_run_and_is_too_little_for_another_one_still_counts() -> None:
    """Five lower bounds behind 300 samples, too high for their line by 0.02 us, but not for the last of them alone."""
    offset = np.where(np.arange(305) < 300, 0.0, 2_030.0)
    high = np.where(np.arange(305) < 300, 1_000.0, np.inf)
    (run,) = find_runs(Inequalities(np.arange(305) * MS, offset - 1_000, high), RATES)
    assert run.chosen.tolist() == list(range(305))
    assert run.sure.tolist() == list(range(300))


def changing(wrong: dict[int, float]) -> Inequalities:
    """Return bounds of alternate sides each 20 ms for 4 s, known to 5 us; at 2 s the rate grows by 60 ppm.

    Args:
        wrong: by how much some of them lie beside it, ns.
    """
    row = np.arange(200)
    x = row * 20 * MS
    offset = 60e-6 * np.clip(x - 2e9, 0, None) + np.array([wrong.get(i, 0.0) for i in row])
    low, high = np.where(row % 2 == 0, offset - 5_000, -np.inf), np.where(row % 2 == 1, offset + 5_000, np.inf)
    return Inequalities(x, low, high)


@pytest.mark.parametrize("one", [92, 100, 104, 112])
def test_a_wrong_bound_near_a_change_of_the_rate_is_no_run(one: int) -> None:
    """20 us above: a steeper line leads to it from those before, or a flatter one from it to those behind."""
    x, low, high = changing({one: 20_000.0})
    assert len(find_runs(Inequalities(x, low, high), RATES)) == 3
    runs = find_sound_runs(Inequalities(x, low, high), RATES, np.zeros(200, dtype=np.bool_))
    assert len(runs) == 2
    assert np.unique(np.concatenate([run.chosen for run in runs])).tolist() == [i for i in range(200) if i != one]
    # A sample is not wrong.
    assert len(find_sound_runs(Inequalities(x, low, high), RATES, np.arange(200) == one)) == 3


def test_wrong_bounds_near_several_changes_of_the_rate_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(runs_module, "find_runs", lambda *args: looks.append(1) or find_runs(*args))
    # Four times what `changing` makes, each on from where the one before ended.
    x, low, high = changing({104: 20_000.0})
    lift = 60e-6 * (x[-1] - 2e9)
    many = [(x + n * 4e9, low + n * lift, high + n * lift) for n in range(4)]
    evidence = [np.concatenate(part) for part in zip(*many, strict=True)]
    found = find_sound_runs(Inequalities(*evidence), RATES, np.zeros(800, dtype=np.bool_))
    wrong = 104 + 200 * np.arange(4)
    assert np.isin(wrong, np.concatenate([run.chosen for run in find_runs(Inequalities(*evidence), RATES)])).all()
    assert not np.isin(wrong, np.concatenate([run.chosen for run in found])).any()
    assert len(looks) == 2


@pytest.mark.parametrize("count", [3, 12])
def test_a_short_run_that_several_bounds_show_stays(count: int) -> None:
    runs = find_sound_runs(changing(dict.fromkeys(range(100, 100 + count), 60_000.0)), RATES, np.zeros(200, np.bool_))
    assert len(runs) == 3
    assert set(range(100, 100 + count)) <= set(runs[1].chosen.tolist())


@pytest.mark.parametrize("one", [92, 96, 104])
def test_a_wrong_bound_near_a_change_of_the_rate_leaves_the_clock_inside(one: int) -> None:
    x, low, high = changing({one: 20_000.0})
    curve = split_pieces(Inequalities(x, low, high), RATES)
    assert curve
    least, most = curve.bound(x)
    true = 60e-6 * np.clip(x - 2e9, 0, None)
    assert ((least <= true) & (true <= most)).all()
