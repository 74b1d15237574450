"""SYNTHETIC and HAND-MADE: clocks that were set back, step near an end, or are sampled at both ends alone."""

from __future__ import annotations

import numpy as np
import pytest
from test_align_odd_clocks import SECOND, SPAN_S, Curve, measure, pair, sample, slewed, suspended

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, Inequalities, join_bounds
from tracecorr.clock.clock_map import fit_clock_map
from tracecorr.clock.set_back import find_set_back

US = 1000.0


def evidence(moments: list[tuple[int, int]], around_us: int = 10) -> Inequalities:
    """Return stamps, and bounds of the offset, of samples: (stamp, true time), us, known to `around_us`."""
    stamp, true = (np.array(column) * US for column in zip(*sorted(moments), strict=True))
    return Inequalities(stamp, true - around_us * US - stamp, true + around_us * US - stamp)


def one_sided(moments: list[tuple[int, int]], around_us: int = 10) -> Inequalities:
    """Return what pairs tell: each moment twice, once with a lower bound and once with an upper one."""
    stamp, low, high = evidence(moments, around_us)
    nothing = np.full(len(stamp), np.inf)
    sides = np.stack([low, -nothing], axis=1).ravel(), np.stack([nothing, high], axis=1).ravel()
    return Inequalities(np.repeat(stamp, 2), *sides)


# Ten moments a millisecond apart; before the tenth of each row the clock is set back.
GOING = [(n * 1000, n * 1000) for n in range(10)]


def gone_on(back_us: int, count: int = 10) -> list[tuple[int, int]]:
    return [((10 + n) * 1000 - back_us, (10 + n) * 1000) for n in range(count)]


def test_a_steady_clock_was_not_set_back() -> None:
    assert find_set_back(one_sided(GOING + gone_on(0))).size == 0
    assert find_set_back(evidence(GOING + gone_on(0))).size == 0


def test_a_suspend_is_not_a_clock_that_was_set_back() -> None:
    """The clock goes on while CLOCK_MONOTONIC stands: larger stamps are later ones all the same."""
    assert find_set_back(one_sided(GOING + gone_on(-500_000))).size == 0


def test_five_stamps_shown_twice_tell_it() -> None:
    """Set back by 5.5 ms: the first five stamps of the second row lie between the last six of the first one."""
    back = find_set_back(one_sided(GOING + gone_on(5_500)))
    # What the two bounds leave, 10 us each, is missing of it.
    assert back.tolist() == [5_480 * US] * 5


def test_lower_bounds_of_the_one_time_and_upper_bounds_of_the_other_tell_it() -> None:
    """Ten stamps were shown after 100 ms, ten larger ones before 20 ms: none has bounds of both sides."""
    stamp, nothing = np.arange(20) * 1_000 * US, np.full(10, np.inf)
    low = np.concatenate([100_000 * US - stamp[:10], -nothing])
    high = np.concatenate([nothing, np.arange(10, 20) * 1_000 * US - stamp[10:]])
    assert len(find_set_back(Inequalities(stamp, low, high))) == 10


def test_four_stamps_may_be_wrong_pairs() -> None:
    assert find_set_back(one_sided(GOING + gone_on(4_500))).size == 0
    assert find_set_back(one_sided(GOING + gone_on(4_500)), sure=False).size


def test_two_samples_tell_it_and_one_may_be_wrong() -> None:
    assert find_set_back(evidence(GOING + gone_on(2_500))).size
    assert find_set_back(evidence(GOING + gone_on(1_500))).size == 0


def test_stamps_that_are_no_farther_apart_than_they_are_known_tell_nothing() -> None:
    assert find_set_back(one_sided(GOING + gone_on(5_500), around_us=3_000)).size == 0


def test_many_wrong_pairs_among_right_ones_are_no_clock_that_was_set_back() -> None:
    """Every tenth bound is that of a moment 50 ms later or earlier: never two after each other."""
    stamp, low, high = one_sided([(n * 1000, n * 1000) for n in range(400)])
    wrong = np.where(np.arange(len(stamp)) % 20 < 10, 50_000 * US, -50_000 * US) * (np.arange(len(stamp)) % 10 == 0)
    assert find_set_back(Inequalities(stamp, low + wrong, high + wrong)).size == 0


def test_one_bound_that_contradicts_all_others_is_one_wrong_pair() -> None:
    stamp, low, high = one_sided([(n * 1000, n * 1000) for n in range(100)])
    low[0] = 10**9
    assert find_set_back(Inequalities(stamp, low, high)).size == 0
    assert find_set_back(Inequalities(stamp, low, high), sure=False).size


@pytest.mark.parametrize("rare", ["low", "high"])
def test_rare_bounds_that_are_wrong_one_after_the_other_do_not_tell_it_alone(rare: str) -> None:
    """Six wrong ones of one side in a row, each 20 ms from the next: of the other side only every twentieth differs."""
    row = np.arange(240)
    stamp, few = row * 1_000 * US, row % 20 == 7
    wrong = np.where(few & (row > 80) & (row < 200), 50_000 * US, 0.0)
    above = np.where(few == (rare == "high"), 10 * US, np.inf)
    below = np.where(few == (rare == "low"), -10 * US, -np.inf)
    assert (
        find_set_back(
            Inequalities(stamp, below + (wrong if rare == "low" else 0), above - (wrong if rare == "high" else 0))
        ).size
        == 0
    )


@pytest.mark.parametrize("at_s", [0.3, 9.3, 19.6])
@pytest.mark.parametrize("back_s", [0.3, 4])
@pytest.mark.parametrize("evidence", ["pairs", "both"])
def test_pairs_of_a_clock_that_is_set_back_say_so(at_s: float, back_s: float, evidence: str) -> None:
    """Half of the stamps there are of the time before, half of the time after: none may get a narrow time."""
    curve = suspended((at_s, -back_s))
    bounds = pair(curve) if evidence == "pairs" else join_bounds(pair(curve), sample(curve))
    fitted = fit_clock_map(bounds, "causal_pairs" if evidence == "pairs" else "samples")
    assert not fitted.aligned
    assert f"set back by about {back_s * 1000:.3g} ms" in fitted.reason
    assert "trace with trace_clock mono" in fitted.reason


@pytest.mark.parametrize("max_rate", [0.0, 600e-6])
@pytest.mark.parametrize("back_s", [0.002, 0.05, 0.9])
@pytest.mark.parametrize("at_s", [0.4, 5.01, 9.3, 18.99])
def test_a_clock_that_is_set_back_between_two_samples_is_wide_there(
    at_s: float, back_s: float, max_rate: float
) -> None:
    """No sample shows a stamp of the other side, but the rows there may be of either."""
    curve: Curve = lambda t: 5e9 + np.where(t < at_s * SECOND, 0, back_s * SECOND)  # noqa: E731
    fitted = fit_clock_map(sample(curve), "samples", max_rate)
    if not fitted.aligned:
        assert "set back" in fitted.reason
        return
    covered, _, width = measure(fitted, curve)
    assert covered == 1
    # Two samples are a second apart, and so far around them.
    assert (width > back_s * SECOND / 2).mean() < (3 + 2 * back_s) / SPAN_S


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("at_s", "step_s"), [(0.05, 4), (0.2, 1), (0.2, 4), (19.8, 4)])
def test_a_step_near_an_end_is_followed_by_pairs_alone(at_s: float, step_s: float, seed: int) -> None:
    """A hundred of ten thousand pairs lie before it: enough to tell where the clock was, in so short a part."""
    curve = suspended((at_s, step_s))
    fitted = fit_clock_map(pair(curve, seed), "causal_pairs")
    assert fitted.aligned, fitted.reason
    assert measure(fitted, curve)[0] == 1


def test_evidence_at_random_is_no_clock_that_was_set_back() -> None:
    at = np.arange(0, 10**9, 10**6)
    low = np.random.default_rng(2).integers(-(10**8), 10**8, len(at))
    fitted = fit_clock_map(Bounds(at, low, low + 5_000), "causal_pairs")
    assert not fitted.aligned
    assert "pairs contradict the others in which of two stamps is the later one" in fitted.reason


@pytest.mark.parametrize(
    ("max_rate", "told"), [(0.0, "at CLOCK_MONOTONIC's rate"), (1e-6, "within 1 ppm of CLOCK_MONOTONIC's rate")]
)
def test_pairs_that_no_clock_of_its_kind_fits_say_which_kind(max_rate: float, told: str) -> None:
    """Two samples 1 ms apart of which each would be a run of its own, and an upper bound below both of them."""
    stamps, ms = np.array([0, 10**7, 2 * 10**7]), 10**6
    bounds = Bounds(stamps, np.array([5 * ms, 4 * ms, NO_LOW]), np.array([5 * ms + 10, 4 * ms + 10, 3 * ms]))
    assert fit_clock_map(bounds, "causal_pairs", max_rate).reason == f"no clock {told} fits the 3 pairs"


def test_a_slew_faster_than_any_clock_is_one_wide_place_however_many_pairs_see_it() -> None:
    """A second of 20,000 ppm: short lines fit in it here and there, but the clock is not on any of them for long."""
    curve = slewed((8.3, 1, 20_000))
    for seed in range(1, 4):
        fitted = fit_clock_map(pair(curve, seed), "causal_pairs")
        covered, _, width = measure(fitted, curve)
        # But for some rows at its very edges.
        assert covered > 0.998
        assert (width > 15_000_000).mean() > 0.8 / SPAN_S


def test_a_bound_far_below_does_not_tell_that_a_clock_has_not_stepped_yet() -> None:
    """Suspended for 0.6 s after 0.4 s, and for minutes after 0.8 s; in between there is one lower bound alone.

    It lies below both offsets, so that it tells nothing of which it was.
    """
    ms = 10**6
    at = [0, 1, 2, 3, 1_200, 900_000, 900_001, 900_002, 900_003]
    offset = [0, 0, 0, 0, -600, -899_000, -899_000, -899_000, -899_000]
    low = np.array(offset) * ms - 2_000
    high = np.where(np.array(at) == 1_200, NO_HIGH, np.array(offset) * ms + 2_000)
    fitted = fit_clock_map(Bounds(np.array(at) * ms, low, high), "causal_pairs", 0.0)
    least, most = fitted.bound(np.array([2, 1_100, 1_200, 1_300, 900_002]) * ms)
    assert (least <= np.array([0, -600, -600, -600, -899_000]) * ms).all()
    assert (most >= np.array([0, -600, -600, -600, -899_000]) * ms).all()
    assert (most - least)[[0, 4]].tolist() == [4_000, 4_000]


def test_a_bound_far_above_does_not_tell_that_a_clock_has_stepped_for_the_last_time() -> None:
    """The same clock; what lies between is one upper bound: above the last offset, so that it may be the one before.

    The last one before it is a lower bound alone, the first one behind it an upper one: they tell all the same.
    """
    ms = 10**6
    at = [0, 1, 2, 3, 1_200, 900_000, 900_001, 900_002, 900_003]
    offset = [0, 0, 0, 0, -600, -899_000, -899_000, -899_000, -899_000]
    high = np.where(np.array(at) == 3, NO_HIGH, np.array(offset) * ms + 2_000)
    low = np.where((np.array(at) == 1_200) | (np.array(at) == 900_000), NO_LOW, np.array(offset) * ms - 2_000)
    fitted = fit_clock_map(Bounds(np.array(at) * ms, low, high), "causal_pairs", 0.0)
    least, most = fitted.bound(np.array([3, 1_100, 1_200, 1_300, 900_000]) * ms)
    assert (least <= np.array([0, -600, -600, -600, -899_000]) * ms).all()
    assert (most >= np.array([0, -600, -600, -600, -899_000]) * ms).all()
    assert (most - least)[[0, 4]].tolist() == [4_000, 4_000]


@pytest.mark.parametrize(("span_s", "ppm"), [(0.3, 9), (1, -9), (1.5, 66), (4, -300)])
def test_a_change_of_the_rate_between_samples_at_both_ends_alone_is_inside_the_bounds(
    span_s: float, ppm: float
) -> None:
    """A line goes through them, whatever the clock did in between: within a second it is taken to move by 5 ppm."""
    curve = slewed((span_s / 2, SPAN_S, ppm))
    t = np.concatenate([np.arange(8) * 2e4, span_s * 1e9 - np.arange(8) * 2e4])
    stamp = np.sort(np.rint(t - curve(t)).astype(np.int64))
    offset = np.rint(curve(np.sort(t))).astype(np.int64)
    fitted = fit_clock_map(Bounds(stamp, offset - 1_000, offset + 1_000), "samples")
    at = np.linspace(0, span_s * 1e9, 1001)
    low, high = fitted.bound(np.rint(at - curve(at)).astype(np.int64))
    assert ((low - 1 <= curve(at)) & (curve(at) <= high + 1)).all()
    # Ten ppm and what the brackets hide, or any rate that a clock can have.
    assert (high - low).max() < 3_000 + (11e-6 if span_s <= 1 else 600e-6) * span_s * 1e9


@pytest.mark.parametrize(("ppm", "most"), [(0.0, 8_000), (90.0, np.inf), (-90.0, np.inf)])
def test_few_pairs_tell_whether_the_line_between_samples_at_both_ends_is_the_clocks(ppm: float, most: float) -> None:
    """Half a second; the line is 11 us beside a clock that slews by 90 ppm, pairs are known to 6 us in the middle."""
    curve = slewed((0.25, SPAN_S, ppm))
    ends = np.arange(8) * 2e4
    t = np.concatenate([ends, 0.5e9 - ends, [0.24e9, 0.25e9, 0.26e9]])
    wide = np.repeat([1_000, 3_000], [16, 3])
    is_pair = np.arange(len(t)) >= 16
    stamp, offset = np.rint(t - curve(t)).astype(np.int64), np.rint(curve(t)).astype(np.int64)
    low = Bounds(stamp, offset - wide, np.where(is_pair, NO_HIGH, offset + wide))
    high = Bounds(stamp, np.where(is_pair, NO_LOW, offset - wide), offset + wide)
    fitted = fit_clock_map(join_bounds(low, high), "samples")
    at = np.linspace(0, 0.5e9, 1001)
    least, largest = fitted.bound(np.rint(at - curve(at)).astype(np.int64))
    assert ((least - 1 <= curve(at)) & (curve(at) <= largest + 1)).all()
    assert (largest - least).max() < most


def test_a_gap_of_cycles_is_as_long_as_it_takes() -> None:
    """0.9 s are 2.7e9 cycles of 3 GHz: brief all the same."""
    ticks = np.sort(np.concatenate([np.arange(8) * 60_000, 2_700_000_000 - np.arange(8) * 60_000]))
    offset = 10**9 + np.rint(ticks / 3).astype(np.int64) - ticks
    fitted = fit_clock_map(Bounds(ticks, offset - 1_000, offset + 1_000), "samples", rate=1 / 3 - 1)
    low, high = fitted.bound(np.arange(0, 2_700_000_000, 10**7))
    assert (high - low).max() < 50_000


def test_three_groups_of_samples_are_no_parabola() -> None:
    """The clock slews by 60 ppm for the last 2 of 10 s; groups of samples at 0, 5 and 10 s always lie on a parabola."""
    curve = slewed((8, SPAN_S, 60))
    t = np.sort(np.concatenate([middle * 1e9 + np.arange(8) * 2e4 for middle in (0, 5, 10)]))
    stamp, offset = np.rint(t - curve(t)).astype(np.int64), np.rint(curve(t)).astype(np.int64)
    fitted = fit_clock_map(Bounds(stamp, offset - 1_000, offset + 1_000), "samples")
    at = np.linspace(0, 10e9, 1001)
    low, high = fitted.bound(np.rint(at - curve(at)).astype(np.int64))
    assert ((low - 1 <= curve(at)) & (curve(at) <= high + 1)).all()


def test_a_wide_sample_does_not_split_a_gap() -> None:
    """Two samples after each other are known to 2 ms: between their neighbours nothing tells when the rate changed."""
    curve = slewed((2.7, SPAN_S, 40))
    t = np.arange(11) * 1e9
    stamp, offset = np.rint(t - curve(t)).astype(np.int64), np.rint(curve(t)).astype(np.int64)
    late = np.where((np.arange(11) == 3) | (np.arange(11) == 4), 2_000_000, 0)
    fitted = fit_clock_map(Bounds(stamp, offset - 1_000, offset + 1_000 + late), "samples")
    at = np.linspace(0, 10e9, 1001)
    low, high = fitted.bound(np.rint(at - curve(at)).astype(np.int64))
    assert ((low - 1 <= curve(at)) & (curve(at) <= high + 1)).all()
    assert (high - low)[at > 7e9].max() < 5_000


def test_samples_on_the_other_side_of_a_step_are_no_outliers() -> None:
    """Few samples, a suspend, and a burst of pairs: these are the majority, but they tell of another time."""
    rng = np.random.default_rng(3)
    t = np.concatenate([np.arange(14) * 1e9, 30e9 + np.sort(rng.uniform(0, 1e7, 50))])
    curve = suspended((20, 3000))
    stamp, offset = np.rint(t - curve(t)).astype(np.int64), np.rint(curve(t)).astype(np.int64)
    one = np.arange(64) < 14
    low = np.where(one | (rng.random(64) < 0.6), offset - 2_000, NO_LOW)
    high = np.where(one | (low == NO_LOW), offset + 2_000, NO_HIGH)
    fitted = fit_clock_map(Bounds(stamp, low, high), "causal_pairs")
    assert fitted.aligned, fitted.reason
    least, most = fitted.bound(stamp)
    assert ((least - 1 <= offset) & (offset <= most + 1)).all()
    assert (most - least)[:14].max() < 5_000


def test_three_suspends_in_seconds_are_followed_though_stamps_lie_hours_apart() -> None:
    """Nearly all of what the stamps span are pauses; what lies between these is told as finely as ever."""
    curve = suspended((0.3, 875), (9.8, 1116), (19.2, 1.5))
    fitted = fit_clock_map(pair(curve, per_s=400), "causal_pairs", 20e-6)
    assert fitted.aligned, fitted.reason
    assert measure(fitted, curve)[0] == 1


def test_pairs_that_no_clock_leads_to_from_the_samples_are_wrong() -> None:
    """Many samples at both ends of 4 s, and four pairs soon after the start that lie 1 ms beside them.

    From there the clock could reach the samples of the end, at 250 ppm, but it could not come there from the start.
    """
    curve = slewed()
    t = np.concatenate([np.arange(60) * 2e4, 6e6 + np.arange(4) * 1e5, 4e9 - np.arange(60)[::-1] * 2e4])
    stamp, offset = np.rint(t - curve(t)).astype(np.int64), np.rint(curve(t)).astype(np.int64)
    wrong = np.where((np.arange(124) >= 60) & (np.arange(124) < 64), 1_000_000, 0)
    low, high = offset - 1_500 + wrong, offset + 1_500 + wrong
    high[[60, 62]], low[[61, 63]] = NO_HIGH, NO_LOW
    fitted = fit_clock_map(Bounds(stamp, low, high), "samples")
    assert fitted.aligned, fitted.reason
    # The upper ones are far above, and so no contradiction.
    assert fitted.violated == 2
    at = np.linspace(0, 4e9, 2001)
    least, most = fitted.bound(np.rint(at - curve(at)).astype(np.int64))
    assert ((least - 1 <= curve(at)) & (curve(at) <= most + 1)).all()
