"""Clocks that slew for a moment, run too fast, step or are set back: the truth is inside the bounds, or there are none.

All clocks are SYNTHETIC.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracecorr.clock import runs
from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, join_bounds
from tracecorr.clock.clock_map import ClockMap, fit_clock_map

Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]
SECOND = 1e9
SPAN_S = 20


def slewed(*slews: tuple[float, float, float]) -> Curve:
    """A clock that drifts by 12 ppm, and slews: from second, for seconds, by ppm."""

    def curve(t: Floats) -> Floats:
        drifted = 5e9 + 12e-6 * t
        return drifted + sum(ppm * 1e-6 * np.clip(t - at * SECOND, 0, span * SECOND) for at, span, ppm in slews)

    return curve


def suspended(*steps: tuple[float, float]) -> Curve:
    """A clock that goes on while CLOCK_MONOTONIC stands: at second, for seconds."""
    return lambda t: 5e9 + 12e-6 * t - sum(np.where(t < at * SECOND, 0, span * SECOND) for at, span in steps)


def sample(curve: Curve, seed: int = 1) -> Bounds:
    """Bracket the clock each second, and several times at start and end."""
    rng = np.random.default_rng(seed)
    edges = np.arange(8) * 2e4
    t = np.sort(np.concatenate([edges, np.arange(1, SPAN_S) * SECOND, SPAN_S * SECOND - edges]))
    stamp = np.rint(t - curve(t)).astype(np.int64)
    before, after = t - 700 - rng.exponential(400, len(t)), t + 800 + rng.exponential(700, len(t))
    return Bounds(stamp, np.floor(before - stamp).astype(np.int64), np.ceil(after - stamp).astype(np.int64))


def pair(curve: Curve, seed: int = 1, per_s: int = 500) -> Bounds:
    """Pair doorbells with the lines before and behind them, each of which bounds one side."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, SPAN_S * SECOND, SPAN_S * per_s))
    stamp = np.rint(t - curve(t)).astype(np.int64)
    is_dispatch = rng.random(len(t)) < 0.6
    low = np.floor(t - rng.uniform(5e3, 1e4, len(t)) - stamp).astype(np.int64)
    high = np.ceil(t + rng.uniform(9e3, 6.1e4, len(t)) - stamp).astype(np.int64)
    return Bounds(stamp, np.where(is_dispatch, low, NO_LOW), np.where(is_dispatch, NO_HIGH, high))


def measure(fitted: ClockMap, curve: Curve) -> tuple[float, float, NDArray[np.int64]]:
    """Return the share of moments inside the bounds, the farthest outside, ns, and the widths."""
    t = np.random.default_rng(0).uniform(0, SPAN_S * SECOND, 20_000)
    stamp = np.rint(t - curve(t)).astype(np.int64)
    low, high = fitted.bound(stamp)
    outside = np.maximum(np.maximum(low - 1 - (t - stamp), t - stamp - high - 1), 0)
    return float((outside == 0).mean()), float(outside.max()), high - low


@settings(max_examples=80, deadline=None)
@given(
    at_s=st.floats(0.5, 17), span_s=st.floats(0.01, 3), shift_us=st.floats(4, 1500), sign=st.sampled_from([-1, 1]),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_a_slew_between_two_samples_widens_the_bounds(
    at_s: float, span_s: float, shift_us: float, sign: int, seed: int
) -> None:
    """Whatever a slew of at most 550 ppm does between two samples, the bounds hold it, if the samples show it."""
    ppm = sign * min(shift_us / span_s, 550)
    curve = slewed((at_s, span_s, ppm))
    samples = sample(curve, seed)
    fitted = fit_clock_map(samples, "samples")
    covered, outside, width = measure(fitted, curve)
    assert fitted.aligned, fitted.reason
    assert fitted.violated == 0
    # A shift that fits into the brackets hides, and may leave the bounds by less than that.
    assert covered == 1 or outside < (samples.high_ns - samples.low_ns).max()
    assert np.median(width) < 5_000


def test_slews_of_all_lengths_are_inside_nearly_always() -> None:
    covered = [
        measure(fit_clock_map(sample(curve, k), "samples"), curve)[0]
        for k, span_s in enumerate([0.02, 0.05, 0.1, 0.2, 0.5, 1, 1.3, 1.5, 2.2, 3])
        for ppm in (5, -30, 100, -500)
        for curve in [slewed((8 + 0.09 * k, span_s, ppm))]
    ]
    assert np.mean(covered) > 0.999


def test_a_steady_clock_keeps_narrow_bounds() -> None:
    wide = [
        (measure(fit_clock_map(sample(slewed(), seed), "samples"), slewed())[2] > 5_500).mean() for seed in range(40)
    ]
    assert np.mean(wide) < 0.01


@pytest.mark.parametrize("ppm", [-590, 300, 580])
def test_a_rate_that_a_clock_can_have_is_aligned(ppm: float) -> None:
    curve = slewed((0, SPAN_S, ppm))
    for evidence in (sample(curve), pair(curve)):
        fitted = fit_clock_map(evidence, "samples")
        assert fitted.aligned, fitted.reason
        assert measure(fitted, curve)[0] == 1


@pytest.mark.parametrize("ppm", [-700, 700, 1000, -2000, 5000, 53000, 100000])
def test_a_clock_that_always_runs_too_fast_is_unaligned(ppm: float) -> None:
    curve = slewed((0, SPAN_S, ppm))
    samples = fit_clock_map(sample(curve), "samples")
    assert not samples.aligned
    assert "600 ppm" in samples.reason
    pairs = fit_clock_map(pair(curve), "causal_pairs")
    assert not pairs.aligned
    assert pairs.reason


@pytest.mark.parametrize(
    ("span_s", "ppm"), [(1, 1000), (3, 2000), (0.5, -5000), (2.5, 5000), (1, 53000), (0.02, 83333)]
)
@pytest.mark.parametrize("evidence", ["samples", "pairs"])
def test_a_slew_that_is_too_fast_is_a_wide_place(span_s: float, ppm: float, evidence: str) -> None:
    curve = slewed((8.3, span_s, ppm))
    bounds = sample(curve) if evidence == "samples" else pair(curve)
    fitted = fit_clock_map(bounds, "samples" if evidence == "samples" else "causal_pairs")
    assert fitted.aligned
    covered, outside, width = measure(fitted, curve)
    assert covered >= (1 if evidence == "samples" else 0.98)
    assert outside < 0.01 * abs(ppm) * span_s * 1000
    assert width.max() > min(300_000, 100 * abs(ppm) * span_s)


def test_the_kernels_loop_is_followed_between_samples() -> None:
    """A rate that decays leaves no line through neighbours, but no gap in which every rate is allowed."""
    tau = 16 * SECOND
    curve: Curve = lambda t: 5e9 + 60e-6 * tau * (1 - np.exp(-t / tau))  # noqa: E731
    fitted = fit_clock_map(sample(curve), "samples")
    covered, _, width = measure(fitted, curve)
    assert covered >= 0.999
    assert np.median(width) < 6_000


@pytest.mark.parametrize(
    "steps", [[(0.4, 7)], [(19.6, 7)], [(8.3, 3), (8.6, 2)], [(8.3, 3), (9.8, 2)], [(0.5, 3), (19.5, 1)]]
)
@pytest.mark.parametrize("evidence", ["samples", "pairs", "both"])
def test_suspends_are_steps_wherever_they_are(steps: list[tuple[float, float]], evidence: str) -> None:
    curve = suspended(*steps)
    bounds = {"samples": sample(curve), "pairs": pair(curve)}
    bounds["both"] = join_bounds(*bounds.values())
    fitted = fit_clock_map(bounds[evidence], "causal_pairs" if evidence == "pairs" else "samples")
    assert fitted.aligned, fitted.reason
    assert (fitted.violated, measure(fitted, curve)[0]) == (0, 1)


@pytest.mark.parametrize("at_s", [5, 12])
def test_a_clock_that_changes_its_rate_is_followed_up_to_a_suspend_and_behind_it(at_s: float) -> None:
    """It slews by 300 ppm from one second on, and is suspended in the ninth: pairs tell all of both rates."""
    curve: Curve = lambda t: slewed((at_s, SPAN_S, 300))(t) - np.where(t < 9 * SECOND, 0, 3 * SECOND)  # noqa: E731
    fitted = fit_clock_map(pair(curve), "causal_pairs")
    covered, _, width = measure(fitted, curve)
    assert (fitted.violated, covered) == (0, 1)
    assert (width < 40_000).mean() > 0.99


@pytest.mark.parametrize("at_s", [0.1, 19.9])
@pytest.mark.parametrize("seed", range(4))
def test_a_step_that_few_pairs_see_is_inside_the_bounds_or_nothing_is(at_s: float, seed: int) -> None:
    curve = suspended((at_s, 1))
    fitted = fit_clock_map(pair(curve, seed), "causal_pairs")
    assert not fitted.aligned or measure(fitted, curve)[0] == 1


@pytest.mark.parametrize(("at_s", "back_s"), [(9.3, 4), (19.6, 7), (0.4, 7)])
def test_a_clock_that_is_set_back_is_unaligned(at_s: float, back_s: float) -> None:
    fitted = fit_clock_map(sample(suspended((at_s, -back_s))), "samples")
    assert not fitted.aligned


@pytest.mark.parametrize("shift_ns", [40_000, -40_000, 5 * 10**9])
@pytest.mark.parametrize("which", [1, 5, 30])
def test_one_wrong_sample_is_left_out(which: int, shift_ns: int) -> None:
    good = sample(slewed())
    wrong = np.where(np.arange(len(good)) == which, shift_ns, 0)
    fitted = fit_clock_map(Bounds(good.stamp_ns, good.low_ns + wrong, good.high_ns + wrong), "samples")
    covered, _, width = measure(fitted, slewed())
    assert (fitted.violated, covered) == (1, 1)
    assert width.max() < 10_000


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("start", [0, 8])
def test_few_samples_are_enough_for_wide_bounds(count: int, start: int) -> None:
    few = sample(slewed()).keep(np.arange(start, start + count))
    fitted = fit_clock_map(few, "samples")
    covered, _, width = measure(fitted, slewed())
    assert covered == 1
    # Seconds away from all samples the clock may have run at any rate.
    assert width.max() > 10e-6 * SECOND


def test_beyond_its_samples_a_clock_may_run_at_any_rate() -> None:
    """By 600 ppm for a second, around what the first and the last sample leave."""
    at = np.arange(21) * 10**9
    fitted = fit_clock_map(Bounds(at, at * 0 - 1_000, at * 0 + 1_000), "samples")
    low, high = fitted.bound(np.array([-(10**9), 0, 20 * 10**9, 21 * 10**9]))
    assert low.tolist() == [-601_000, -1_000, -1_000, -601_000]
    assert high.tolist() == [601_000, 1_000, 1_000, 601_000]


@pytest.mark.parametrize("side", ["low", "high"])
def test_pairs_of_one_side_say_that_the_other_one_lacks(side: str) -> None:
    at = np.arange(50) * 10**8
    low, high = (at * 0, at * 0 + NO_HIGH) if side == "low" else (at * 0 + NO_LOW, at * 0)
    fitted = fit_clock_map(Bounds(at, low, high), "causal_pairs")
    assert (fitted.reason, fitted.pairs) == ("no pair bounds the offset on both sides", 50)


@pytest.mark.parametrize("per_ns", [1, 3])
@pytest.mark.parametrize(("hold", "aligned"), [(10, True), (5, False)])
def test_a_clock_that_changes_its_rate_more_often_than_each_second_is_unaligned(
    per_ns: int, hold: int, aligned: bool
) -> None:
    """By 300 ppm each half or quarter of a second, for 2 s: three changes are allowed, and one for each second.

    Cycles of 3 GHz are three for each nanosecond, and not longer for that.
    """
    t = np.arange(41) * 50_000_000
    slewed_ns = np.concatenate([[0], np.cumsum(np.where(np.arange(40) // hold % 2, 15_000, 0))])
    stamp = (t - slewed_ns) * per_ns
    offset = t - stamp
    fitted = fit_clock_map(Bounds(stamp, offset - 10, offset + 10), "samples", rate=1 / per_ns - 1)
    assert fitted.aligned == aligned
    assert fitted.reason == ("" if aligned else "41 pairs allow no steady clock: it would change its rate 7 times")


def test_pairs_of_one_stamp_tell_nothing_of_the_rate() -> None:
    at = np.full(20, 5 * 10**9)
    fitted = fit_clock_map(Bounds(at, at * 0 - 1_000, at * 0 + 1_000), "causal_pairs")
    low, high = fitted.bound(at[0] + np.array([-(10**9), 0, 10**9]))
    assert low.tolist() == [-603_000, -1_000, -603_000]
    assert high.tolist() == [603_000, 1_000, 603_000]


def test_huge_brackets_among_good_ones_say_nothing() -> None:
    good = sample(slewed())
    late = np.where(np.arange(len(good)) % 6 == 3, 5_000_000, 0)
    fitted = fit_clock_map(Bounds(good.stamp_ns, good.low_ns, good.high_ns + late), "samples")
    covered, _, width = measure(fitted, slewed())
    assert (fitted.violated, covered) == (0, 1)
    assert width.max() < 20_000


def test_samples_and_distant_pairs_are_no_better_than_samples() -> None:
    """Lines of the log that lie milliseconds around a stamp do not tell what the clock did between two samples."""
    curve = slewed((8.2, 0.5, 100))
    far = pair(curve, per_s=200)
    loose = Bounds(
        far.stamp_ns, np.where(far.low_ns == NO_LOW, NO_LOW, far.low_ns - 3_000_000),
        np.where(far.high_ns == NO_HIGH, NO_HIGH, far.high_ns + 3_000_000),
    )  # fmt: skip
    fitted = fit_clock_map(join_bounds(sample(curve), loose), "samples")
    assert measure(fitted, curve)[0] == 1


def test_pairs_that_allow_nothing_are_unaligned_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock at twenty times the rate leaves no run of any length."""
    looks = []
    find_runs = runs.find_runs
    monkeypatch.setattr(runs, "find_runs", lambda *args: looks.append(1) or find_runs(*args))
    curve = slewed((0, SPAN_S, 50_000))
    assert not fit_clock_map(pair(curve, per_s=100), "causal_pairs").aligned
    assert len(looks) == 1
