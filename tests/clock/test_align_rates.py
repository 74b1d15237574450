"""SYNTHETIC: clocks that change their rate, seen by few or many pairs: the truth is in the bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, Inequalities, join_bounds
from tracecorr.clock.clock_map import fit_clock_map
from tracecorr.clock.slopes import Rates, Slopes, find_slopes

Floats = NDArray[np.float64]
SECOND, PPM = 1e9, 1e-6
RATES = Rates(0.0, 600 * PPM)


def offset_of(t: Floats, changes: list[tuple[float, float]]) -> Floats:
    """Return the offset of a clock that takes up a rate (ppm) at each of some seconds, and drifts by 20 ppm before."""
    grown = 5e9 + 20 * PPM * t
    before = 20.0
    for at_s, ppm in changes:
        grown = grown + (ppm - before) * PPM * np.clip(t - at_s * SECOND, 0, None)
        before = ppm
    return grown


def pair(t: Floats, changes: list[tuple[float, float]], seed: int) -> Bounds:
    """Return a lower or an upper bound of each moment: a line of the log before, or one behind it."""
    rng = np.random.default_rng(seed)
    stamp = np.rint(t - offset_of(t, changes)).astype(np.int64)
    low = np.floor(t - rng.uniform(3.5e3, 1e4, len(t)) - stamp).astype(np.int64)
    high = np.ceil(t + rng.uniform(2e3, 4e4, len(t)) - stamp).astype(np.int64)
    is_dispatch = rng.random(len(t)) < 0.6
    return Bounds(stamp, np.where(is_dispatch, low, NO_LOW), np.where(is_dispatch, NO_HIGH, high))


def share_inside(span_s: float, per_s: float, changes: list[tuple[float, float]], seed: int) -> tuple[float, float]:
    """Return the share of moments inside the bounds that pairs leave, and the median width."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, span_s * SECOND, max(int(span_s * per_s), 16)))
    fitted = fit_clock_map(pair(t, changes, seed), "causal_pairs")
    assert fitted.aligned, fitted.reason
    at = np.linspace(0, span_s * SECOND, 4001)
    stamp = np.rint(at - offset_of(at, changes)).astype(np.int64)
    low, high = fitted.bound(stamp)
    inside = (low - 1 <= at - stamp) & (at - stamp <= high + 1)
    return float(inside.mean()), float(np.median(high - low))


@settings(max_examples=60, deadline=None)
@given(
    span_s=st.floats(0.05, 20), per_s=st.sampled_from([20, 50, 200, 1000]), seed=st.integers(0, 10**6),
    lengths=st.lists(st.floats(1, 6), min_size=1, max_size=4),
    steps=st.lists(st.floats(-100, 100), min_size=4, max_size=4), start=st.floats(0, 1),
)  # fmt: skip
@example(span_s=0.826, per_s=24, seed=1, lengths=[1.0], steps=[95.0, 0, 0, 0], start=0.75)
@example(span_s=0.15, per_s=270, seed=1, lengths=[1.0], steps=[-99.0, 0, 0, 0], start=0.52)
@example(span_s=7.7, per_s=71, seed=2, lengths=[1.0], steps=[95.0, 0, 0, 0], start=0.98)
@example(span_s=18.0, per_s=1000, seed=3, lengths=[1.0], steps=[-56.0, 0, 0, 0], start=0.988)
def test_a_clock_that_holds_its_rates_for_a_second_is_inside_nearly_always(
    span_s: float, per_s: float, seed: int, lengths: list[float], steps: list[float], start: float
) -> None:
    moments = start * span_s + np.concatenate([[0.0], np.cumsum(lengths)[:-1]])
    changes = list(zip(moments.tolist(), (20 + np.cumsum(steps))[: len(lengths)].tolist(), strict=True))
    assert share_inside(span_s, per_s, changes, seed)[0] >= 0.999


@pytest.mark.parametrize(("per_s", "most_us"), [(5, 120), (20, 50), (100, 20), (1000, 12)])
def test_few_pairs_are_wide_and_many_are_narrow(per_s: float, most_us: float) -> None:
    inside, width = share_inside(30, per_s, [], 7)
    assert inside == 1
    assert width < most_us * 1000


def around(t: Floats, offset: Floats, room: float = 1_000.0) -> Inequalities:
    return Inequalities(t, offset - room, offset + room)


def limits_at(found_at: Floats, t: Floats, offset: Floats, rates: Rates = RATES) -> tuple[Floats, Floats]:
    return find_slopes(around(t, offset), rates).between(found_at, found_at)


def test_the_slope_of_a_steady_clock_is_that_of_a_line_through_nearly_a_second() -> None:
    """Known to 1 us on both sides, fifteen sixteenths of a second tell the rate to 2.1 ppm."""
    t = np.arange(0, 4 * SECOND + 1, SECOND / 100)
    low, high = limits_at(np.array([2 * SECOND]), t, 30 * PPM * t)
    assert low[0] == pytest.approx(30 * PPM - 2_000 / (0.9375 * SECOND), rel=1e-2)
    assert high[0] == pytest.approx(30 * PPM + 2_000 / (0.9375 * SECOND), rel=1e-2)


def test_before_the_end_the_clock_may_have_begun_another_rate() -> None:
    """A tenth of a second before the end a new rate is bounded by what it does until the end, then by 100 ppm."""
    t = np.arange(0, 4 * SECOND + 1, SECOND / 1000)
    middle, late, later, last = limits_at(np.array([2.0, 3.74, 3.93, 3.999]) * SECOND, t, 0 * t)[1] / PPM
    assert middle < 3
    assert 2_000 / 0.26 / 1000 < late < 2_000 / 0.24 / 1000
    assert 2_000 / 0.07 / 1000 < later < 2_000 / 0.05 / 1000
    assert 100 + 2_000 / 0.9375 / 1000 < last + 0.1 < 100.2 + 2_000 / 0.5 / 1000
    mirrored = limits_at(np.array([2.0, 0.26, 0.07, 0.001]) * SECOND, t, 0 * t)[1] / PPM
    assert mirrored == pytest.approx([middle, late, later, last], rel=0.03)


def test_both_ends_are_told_in_blocks_of_two_milliseconds() -> None:
    """Known to 10 ns each 0.1 ms: 1.9 ms tell the rate to 5.3 ppm, 3.9 ms to 2.6; in the last 1.95 ms it may be new."""
    t = np.arange(0, 2 * SECOND + 1, SECOND / 10_000)
    at = np.array([0.001, 0.003, 1.997, 1.999]) * SECOND
    low, high = find_slopes(around(t, 0 * t, 5.0), RATES).between(at, at)
    assert (high[1:3] < 5.3 * PPM).all()
    assert (low[1:3] > -5.3 * PPM).all()
    assert high[[0, 3]] == pytest.approx(100 * PPM, rel=0.01)


def test_where_no_line_fits_a_second_a_rate_at_the_end_may_be_any() -> None:
    t = np.arange(0, 4 * SECOND + 1, SECOND / 1000)
    changed = 400 * PPM * np.clip(t - 3.8 * SECOND, 0, None)
    low, high = limits_at(np.array([3.9, 3.999]) * SECOND, t, changed)
    assert (low <= 400 * PPM).all()
    assert (high >= 400 * PPM).all()
    assert high[1] == 600 * PPM


def test_limits_grow_around_some_stamps_alone() -> None:
    """By a factor, about their middle, in the part of the stamp and its neighbours."""
    grown = Slopes(np.arange(6.0), np.full(6, 2.0), np.full(6, 4.0)).widened(np.array([2.5]), 3.0)
    assert grown.low.tolist() == [2, 0, 0, 0, 2, 2]
    assert grown.high.tolist() == [4, 6, 6, 6, 4, 4]


def test_around_a_change_both_rates_are_allowed_and_far_from_it_one() -> None:
    t = np.arange(0, 6 * SECOND + 1, SECOND / 200)
    offset = np.where(t < 3 * SECOND, 0.0, 100 * PPM * (t - 3 * SECOND))
    low, high = (side / PPM for side in limits_at(np.array([1.5, 2.99, 3.01, 4.5]) * SECOND, t, offset))
    assert (low <= [0, 0, 0, 100]).all()
    assert (high >= [0, 100, 100, 100]).all()
    assert high[0] < 5
    assert low[3] > 95
    assert (high - low < 130).all()


def test_two_rates_that_do_not_meet_are_not_those_of_a_change() -> None:
    """The clock moves by 40 us within 0.1 s and runs on as before: at neither of its rates, but faster."""
    t = np.arange(0, 6 * SECOND + 1, SECOND / 200)
    offset = 400 * PPM * np.clip(t - 3 * SECOND, 0, SECOND / 10)
    low, high = limits_at(np.array([1.0, 3.05]) * SECOND, t, offset)
    assert high[0] < 5 * PPM
    assert low[1] <= 400 * PPM <= high[1]


def test_a_window_with_bounds_of_one_side_alone_tells_nothing() -> None:
    t = np.arange(0, 4 * SECOND + 1, SECOND / 100)
    x, low, high = around(t, 0 * t)
    found = find_slopes(Inequalities(x, low, np.where(t < 2 * SECOND, np.inf, high)), RATES)
    assert found.between(np.array([SECOND]), np.array([SECOND]))[1] == 600 * PPM
    assert found.between(np.array([3.2 * SECOND]), np.array([3.2 * SECOND]))[1] < 5 * PPM


def test_a_known_rate_and_a_wandering_one() -> None:
    t = np.arange(0, 4 * SECOND + 1, SECOND / 100)
    known = find_slopes(around(t, 0 * t), Rates(7 * PPM, 0.0, 3 * PPM))
    assert (known.low, known.high) == (7 * PPM, 7 * PPM)
    still, wandering = (find_slopes(around(t, 0 * t), Rates(0.0, 600 * PPM, w)) for w in (0.0, 3 * PPM))
    assert np.allclose(still.high + 3 * PPM, wandering.high)
    assert np.allclose(still.low - 3 * PPM, wandering.low)


def test_a_second_of_cycles_is_as_long_as_it_takes() -> None:
    """Cycles of 4 GHz: four times as many in a second, and the limits are those of a nanosecond clock, a quarter."""
    t = np.arange(0, 4 * SECOND + 1, SECOND / 100)
    rate = 1 / 4 - 1
    plain = find_slopes(around(t, 0 * t), RATES)
    cycles = find_slopes(Inequalities(4 * t, rate * 4 * t - 1_000, rate * 4 * t + 1_000), Rates(rate, 600 * PPM))
    at = np.array([2 * SECOND])
    assert cycles.between(4 * at, 4 * at)[1] - rate == pytest.approx(plain.between(at, at)[1] / 4, rel=1e-6)


def test_long_captures_are_cut_into_no_more_blocks() -> None:
    t = np.linspace(0, 86_400 * SECOND, 40_000)
    found = find_slopes(around(t, 0 * t), RATES)
    assert 1_000 < len(found.edges) < 2_100
    assert found.high.max() <= 600 * PPM


def test_short_captures_are_cut_into_sixteen_blocks() -> None:
    """And those at both ends are halved five times."""
    t = np.arange(0, 0.3 * SECOND + 1, SECOND / 100_000)
    assert len(find_slopes(around(t, 0 * t), RATES).edges) == 16 + 2 * 5


@pytest.mark.parametrize(("pause_s", "most_ms"), [(1.5, 0.08), (13, 16)])
def test_what_a_clock_does_in_a_long_pause_is_not_known(pause_s: float, most_ms: float) -> None:
    """It slews for 1 s, or for 4.5 s, while nothing is paired; before and behind it runs at the same rate."""
    rng = np.random.default_rng(5)
    t = np.sort(np.concatenate([rng.uniform(0, 5, 2500), 5 + pause_s + rng.uniform(0, 5, 2500)])) * SECOND
    changes = [] if pause_s < 2 else [(8.0, 345.0), (12.5, 20.0)]
    fitted = fit_clock_map(pair(t, changes, 1), "causal_pairs")
    at = np.linspace(0, (10 + pause_s) * SECOND, 4001)
    stamp = np.rint(at - offset_of(at, changes)).astype(np.int64)
    low, high = fitted.bound(stamp)
    assert ((low - 1 <= at - stamp) & (at - stamp <= high + 1)).all()
    assert (high - low)[(at > SECOND / 2) & (at < 4.5 * SECOND)].max() < 20_000
    assert (high - low).max() < most_ms * 1e6


def test_a_slew_and_back_in_a_long_pause_is_inside() -> None:
    """By 325 ppm for 2 s, and by as much the other way: 650 us off, and nothing behind the pause tells it."""
    rng = np.random.default_rng(5)
    t = np.sort(np.concatenate([rng.uniform(0, 5, 2500), 18 + rng.uniform(0, 5, 2500)])) * SECOND
    changes = [(8.0, 345.0), (10.0, -305.0), (12.0, 20.0)]
    fitted = fit_clock_map(pair(t, changes, 1), "causal_pairs")
    at = np.linspace(0, 23 * SECOND, 4001)
    stamp = np.rint(at - offset_of(at, changes)).astype(np.int64)
    low, high = fitted.bound(stamp)
    assert ((low - 1 <= at - stamp) & (at - stamp <= high + 1)).all()
    assert (high - low)[(at > SECOND / 2) & (at < 4.5 * SECOND)].max() < 20_000


def share_between(span_s: float, per_s: float, changes: list[tuple[float, float]], seed: int) -> tuple[float, float]:
    """Return what `share_inside` does for samples at both ends and few pairs between them."""
    rng = np.random.default_rng(seed)
    ends = np.arange(8) * 2e4
    t = np.concatenate([ends, span_s * SECOND - ends])
    stamp, offset = np.rint(t - offset_of(t, changes)).astype(np.int64), np.rint(offset_of(t, changes)).astype(np.int64)
    pairs = pair(np.sort(rng.uniform(0, span_s * SECOND, int(span_s * per_s))), changes, seed)
    fitted = fit_clock_map(join_bounds(Bounds(stamp, offset - 1_000, offset + 1_000), pairs), "samples")
    assert fitted.aligned, fitted.reason
    at = np.linspace(0, span_s * SECOND, 4001)
    stamp = np.rint(at - offset_of(at, changes)).astype(np.int64)
    low, high = fitted.bound(stamp)
    return float(((low - 1 <= at - stamp) & (at - stamp <= high + 1)).mean()), float(np.median(high - low))


@pytest.mark.parametrize("ppm", [-30, 60, -100, 300])
@pytest.mark.parametrize("lasts_s", [1.0, 1.2, 2.0])
@pytest.mark.parametrize("per_s", [3, 7, 14, 30])
def test_a_slew_that_is_over_before_few_pairs_have_come_is_inside(per_s: float, lasts_s: float, ppm: float) -> None:
    """Samples stand at both ends alone: between them three pairs may fall into the second that the slew lasts."""
    found = [share_between(12, per_s, [(at_s, 20 + ppm), (at_s + lasts_s, 20)], seed)
             for seed, at_s in enumerate((3.3, 5.1, 7.45))]  # fmt: skip
    assert min(inside for inside, _ in found) >= 0.995
    assert np.mean([inside for inside, _ in found]) >= 0.998


@pytest.mark.parametrize(("per_s", "most_us"), [(3, 42), (7, 32), (14, 27), (30, 17), (100, 12)])
def test_few_pairs_between_samples_keep_a_steady_clock_narrow(per_s: float, most_us: float) -> None:
    found = [share_between(12, per_s, [], seed) for seed in range(8)]
    assert min(inside for inside, _ in found) == 1
    assert np.mean([width for _, width in found]) < most_us * 1000


@pytest.mark.parametrize("side", [-1, 1])
def test_where_one_side_alone_is_bounded_for_long_the_rate_is_not_known(side: int) -> None:
    """Half a minute of pairs, one a second; the clock took up another rate while they bounded one side alone."""
    t = np.arange(0.5, 30) * SECOND
    offset = side * -500 * PPM * np.clip(t - 12 * SECOND, 0, None)
    low, high = offset - 20_000, offset + 20_000
    if side > 0:
        high = np.where(t < 13 * SECOND, np.inf, high)
    else:
        low = np.where(t < 13 * SECOND, -np.inf, low)
    least, most = find_slopes(Inequalities(t, low, high), RATES).between(
        np.array([5.0]) * SECOND, np.array([5.0]) * SECOND
    )
    assert (least[0], most[0]) == (-600 * PPM, 600 * PPM)


def test_a_second_of_one_side_at_an_end_does_not_make_the_rate_unknown() -> None:
    t = np.arange(0, 10 * SECOND + 1, SECOND / 20)
    found = find_slopes(Inequalities(t, 0 * t - 5_000, np.where(t > 9.2 * SECOND, np.inf, 5_000.0)), RATES)
    assert found.between(np.array([9.6 * SECOND]), np.array([9.6 * SECOND]))[1][0] < 200 * PPM
