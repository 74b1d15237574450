"""Clock maps of simulated clocks: the true offset lies inside the bounds, whatever the clock did."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracecorr.clock.clock_map import MAX_RATE, ClockMap, fit_clock_map
from tracecorr.clock.hull import NO_HIGH, NO_LOW, Bounds, join_bounds

Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]
SECOND = 1e9


def steady(ppm: float) -> Curve:
    return lambda t: 5e9 + ppm * 1e-6 * t


def slewed(ppm: float, at_s: float) -> Curve:
    return lambda t: np.where(t < at_s * SECOND, 5e9, 5e9 + ppm * 1e-6 * (t - at_s * SECOND))


def settling(ppm: float, seconds: float) -> Curve:
    """A rate that decays, as the kernel's phase-locked loop (adjtimex) works off an offset."""
    tau = seconds * SECOND
    return lambda t: 5e9 + ppm * 1e-6 * tau * (1 - np.exp(-t / tau))


def wandering(ppm: float, each_s: float) -> Curve:
    """A rate that is changed by a random amount each few seconds, as a daemon does that keeps the time."""
    rng = np.random.default_rng(3)
    rates = np.cumsum(rng.normal(0, ppm * 1e-6, 4000))
    knots = np.arange(4001) * each_s * SECOND
    values = np.concatenate([[0], np.cumsum(rates * each_s * SECOND)])
    return lambda t: 5e9 + np.interp(t, knots, values)


def stepped(step_ns: float, at_s: float) -> Curve:
    return lambda t: np.where(t < at_s * SECOND, 5e9, 5e9 + step_ns)


def sample(rng: np.random.Generator, curve: Curve, span_s: float) -> Bounds:
    """Bracket the clock each second, and several times at start and end."""
    edges = rng.uniform(0, 2e5, 8)
    t = np.sort(np.concatenate([edges, np.arange(SECOND, span_s * SECOND, SECOND), span_s * SECOND - edges]))
    stamp = np.rint(t - curve(t))
    before, after = t - 700 - rng.exponential(400, len(t)), t + 800 + rng.exponential(700, len(t))
    return Bounds(
        stamp.astype(np.int64), np.floor(before - stamp).astype(np.int64), np.ceil(after - stamp).astype(np.int64)
    )


def pair(rng: np.random.Generator, curve: Curve, span_s: float, per_s: int, wrong: float = 0.0) -> Bounds:
    """Pair doorbells with dispatch and barrier lines: one-sided bounds, some of them of other packets."""
    count = int(span_s * per_s)
    t = np.sort(rng.uniform(0, span_s * SECOND, count))
    stamp = np.rint(t - curve(t))
    dispatch = rng.random(count) < 0.6
    # The line of another packet lies at least one launch away.
    shift = rng.choice([-1, 1], count) * rng.uniform(6e4, 5e6, count) * (rng.random(count) < wrong)
    low = np.floor(t - rng.uniform(5e3, 1e4, count) - stamp + shift).astype(np.int64)
    high = np.ceil(t + rng.uniform(9e3, 6.1e4, count) - stamp + shift).astype(np.int64)
    return Bounds(stamp.astype(np.int64), np.where(dispatch, low, NO_LOW), np.where(dispatch, NO_HIGH, high))


def measure(rng: np.random.Generator, fitted: ClockMap, curve: Curve, span_s: float) -> tuple[float, NDArray[np.int64]]:
    """Return the share of moments whose true offset lies inside the bounds, and the widths there."""
    t = rng.uniform(0, span_s * SECOND, 20_000)
    stamp = np.rint(t - curve(t)).astype(np.int64)
    low, high = fitted.bound(stamp)
    inside = (t - stamp >= low - 1) & (t - stamp <= high + 1)
    return float(inside.mean()), high - low


CURVES = {
    "steady": steady(0), "drifting": steady(-37), "fast": steady(500), "slow": steady(-500),
    "slew 2 ppm": slewed(2, 8.6), "slew 100 ppm": slewed(100, 8.6), "slew 500 ppm": slewed(500, 8.6),
}  # fmt: skip


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("span_s", [20, 200])
def test_samples_each_second_bound_the_clock(name: str, span_s: int) -> None:
    rng = np.random.default_rng(span_s)
    fitted = fit_clock_map(sample(rng, CURVES[name], span_s), "samples")
    covered, width = measure(rng, fitted, CURVES[name], span_s)
    assert fitted.aligned, fitted.reason
    assert (covered, fitted.violated) == (1.0, 0)
    if "slew" not in name:
        assert width.max() < 12_000
    # Between samples the moment of a slew is not known: only around it may the bounds be wide.
    assert (width >= 12_000).mean() < 20 / span_s


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("per_s", [50, 2000])
@pytest.mark.parametrize("wrong", [0.0, 0.01])
def test_causal_pairs_bound_the_clock(name: str, per_s: int, wrong: float) -> None:
    rng = np.random.default_rng(per_s)
    fitted = fit_clock_map(pair(rng, CURVES[name], 20, per_s, wrong), "causal_pairs")
    covered, width = measure(rng, fitted, CURVES[name], 20)
    assert fitted.aligned, fitted.reason
    assert covered == 1
    assert np.median(width) < (26_000 if per_s == 50 else 20_000)


SMOOTH = {
    "settling 10 ppm": settling(10, 16), "settling 60 ppm": settling(60, 16), "wandering 0.3 ppm": wandering(0.3, 1),
    "wandering 1 ppm": wandering(1, 4),
}  # fmt: skip


@pytest.mark.parametrize("evidence", ["samples", "pairs", "both"])
@pytest.mark.parametrize("name", SMOOTH)
def test_a_rate_that_changes_all_the_time_stays_inside_the_bounds(name: str, evidence: str) -> None:
    rng = np.random.default_rng(1)
    curve = SMOOTH[name]
    bounds = {"samples": sample(rng, curve, 20), "pairs": pair(rng, curve, 20, 500)}
    bounds["both"] = join_bounds(*bounds.values())
    fitted = fit_clock_map(bounds[evidence], "causal_pairs" if evidence == "pairs" else "samples")
    covered, width = measure(rng, fitted, curve, 20)
    assert fitted.aligned, fitted.reason
    assert covered >= 0.999
    # A rate that samples show to change all the time may be any between two of them.
    assert np.median(width) < (400_000 if evidence == "samples" else 25_000)


def decaying(ppm: float, keep: float, at_s: float) -> Curve:
    """A rate that the kernel changes each second, each time by the same share of it, from some moment on."""
    rates = ppm * 1e-6 * keep ** np.arange(60)
    knots = (at_s + np.arange(61)) * SECOND
    values = np.concatenate([[0], np.cumsum(rates * SECOND)])
    return lambda t: 5e9 + np.interp(t, knots, values)


def dense(rng: np.random.Generator, curve: Curve, span_s: float) -> Bounds:
    """Pair 2,500 doorbells a second with dispatch lines, printed some microseconds around them."""
    t = np.sort(rng.uniform(0, span_s * SECOND, int(span_s * 2500)))
    stamp = np.rint(t - curve(t)).astype(np.int64)
    low = np.floor(t - rng.uniform(3.5e3, 1e4, len(t)) - stamp).astype(np.int64)
    high = np.ceil(t + rng.uniform(1e3, 5e3, len(t)) - stamp).astype(np.int64)
    nothing = np.zeros(len(t), dtype=np.int64)
    return join_bounds(Bounds(stamp, low, nothing + NO_HIGH), Bounds(stamp, nothing + NO_LOW, high))


# A change that leaves a line only just possible is no precise knowledge of the rate.
ABRUPT = {
    "settling 400 ppm in 4 s": (settling(400, 4), 20), "settling, short": (settling(400, 4), 2),
    "kernel's loop": (decaying(400, 0.75, 0.37), 20), "slew, short": (slewed(-60, 0.135), 0.3),
    "slew": (slewed(60, 8.6), 20), "slew and back": (lambda t: slewed(100, 0.8)(t) - slewed(100, 0.9)(t) + 5e9, 2),
    "slew of a second": (lambda t: slewed(100, 0.8)(t) - slewed(100, 1.8)(t) + 5e9, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", ABRUPT)
@pytest.mark.parametrize("evidence", ["pairs", "both"])
def test_a_rate_that_changes_fast_stays_inside_the_bounds(name: str, evidence: str) -> None:
    rng = np.random.default_rng(4)
    curve, span_s = ABRUPT[name]
    pairs = dense(rng, curve, span_s)
    bounds = pairs if evidence == "pairs" else join_bounds(sample(rng, curve, span_s), pairs)
    fitted = fit_clock_map(bounds, "causal_pairs" if evidence == "pairs" else "samples")
    covered, width = measure(rng, fitted, curve, span_s)
    assert fitted.aligned, fitted.reason
    assert covered >= 0.999
    assert np.median(width) < 8_000


@pytest.mark.parametrize("ppm", [-60, 8, 60, 400])
def test_one_change_of_the_rate_is_known_from_both_sides(ppm: float) -> None:
    """Pairs tell when it was, and samples bound the lines on both sides: nowhere is it much wider than 5 us."""
    rng = np.random.default_rng(9)
    curve = slewed(ppm, 8.6)
    fitted = fit_clock_map(join_bounds(sample(rng, curve, 20), dense(rng, curve, 20)), "samples")
    covered, width = measure(rng, fitted, curve, 20)
    assert covered == 1.0
    assert np.quantile(width, 0.99) < 8_000


def test_a_clock_that_was_stepped_is_unaligned_and_the_pairs_that_disagree_are_told() -> None:
    rng = np.random.default_rng(5)
    curve = stepped(-7e9, 12.2)
    for bounds, rate in ((sample(rng, curve, 20), 0.0), (pair(rng, curve, 20, 500), MAX_RATE)):
        fitted = fit_clock_map(bounds, "samples", rate)
        assert not fitted.aligned
        low, high = (
            int(word) for word in re.findall(r"the offset is (\S+) ns or more, .* (\S+) ns or less", fitted.reason)[0]
        )
        assert 4e9 < low < 6e9 and -3e9 < high < -1e9
        assert 0 < fitted.violated <= fitted.pairs == len(bounds)


def test_one_wrong_sample_of_a_long_drifting_clock_is_left_out() -> None:
    rng = np.random.default_rng(6)
    curve = steady(123)
    good = sample(rng, curve, 200)
    fitted = fit_clock_map(
        join_bounds(
            good, Bounds(*(side[100:101] + by for side, by in zip(good.sides, (10, 40_000, 40_000), strict=True)))
        ),
        "samples",
    )
    covered, width = measure(rng, fitted, curve, 200)
    assert fitted.violated >= 1
    assert covered == 1.0
    # Which of both is wrong is told by their neighbours, how the clock ran between these is not.
    assert width.max() < 2_000_000


def test_evidence_that_contradicts_itself_is_unaligned() -> None:
    rng = np.random.default_rng(7)
    stamps = np.arange(0, 10**10, 10**7)
    low = rng.integers(-(10**9), 10**9, len(stamps))
    fitted = fit_clock_map(Bounds(stamps, low, low + 5_000), "causal_pairs")
    assert not fitted.aligned
    assert fitted.reason


def test_one_sided_evidence_is_unaligned() -> None:
    stamps = np.arange(0, 10**10, 10**7)
    fitted = fit_clock_map(Bounds(stamps, stamps * 0, stamps * 0 + NO_HIGH), "causal_pairs")
    assert not fitted.aligned


@given(
    ppm=st.floats(-500, 500), seed=st.integers(0, 2**32 - 1), count=st.integers(2, 400),
    width=st.integers(1, 10**6), base=st.integers(-(10**18), 10**18),
)  # fmt: skip
@example(ppm=0.0, seed=246741, count=384, width=16337, base=0)
def test_the_true_line_is_never_excluded(ppm: float, seed: int, count: int, width: int, base: int) -> None:
    """Whatever true bounds are given of a clock of one rate, its offset stays inside, also beyond them."""
    rng = np.random.default_rng(seed)
    stamps = np.sort(rng.integers(0, 10**11, count))
    truth = base + np.rint(stamps * ppm * 1e-6).astype(np.int64)
    below, above = rng.integers(1, width + 1, (2, count))
    fitted = fit_clock_map(Bounds(stamps, truth - below, truth + above), "samples")
    assert fitted.aligned
    at = rng.integers(-(10**10), 12 * 10**10, 200)
    low, high = fitted.bound(at)
    offset = base + np.rint(at * ppm * 1e-6).astype(np.int64)
    assert ((low - 2 <= offset) & (offset <= high + 2)).all()
    assert MAX_RATE >= 500e-6


def test_bounds_are_rounded_outwards() -> None:
    """The offset grows by half a nanosecond each; at stamp 1 it lies in [-0.5, 1.5]."""
    fitted = fit_clock_map(Bounds(np.array([0, 10]), np.array([-1, 4]), np.array([1, 6])), "samples", 0.0, 0.5)
    assert [side.tolist() for side in fitted.bound(np.array([0, 1]))] == [[-1, -1], [1, 2]]


def test_a_clock_that_shows_less_has_the_same_time() -> None:
    """The offset lies in [96, 104], and falls by 1 ns in 2; stamps are shifted by 1,000 ns."""
    low = np.array([96, -404])
    fitted = fit_clock_map(Bounds(np.array([0, 1000]), low, low + 8), "samples", 0.0, -0.5)
    stamps, shown = np.array([0, 2, 500]), [100, 99, -150]
    for clock, less in ((fitted, 0), (fitted.shifted(1000), 1000)):
        assert clock.offset_at(stamps - less)[0].tolist() == [each + less for each in shown]
        low, high = clock.bound(stamps - less)
        assert (low - less).tolist() == [96, 95, -154]
        assert (high - less).tolist() == [104, 103, -146]
    same = ClockMap("same_clock", shift_ns=5).shifted(1000)
    assert [side.tolist() for side in same.offset_at(stamps)] == [[1005] * 3, [0] * 3, [0] * 3]


def test_a_likely_offset_is_shown_where_the_bounds_allow_it() -> None:
    bounds = Bounds(np.array([0, 1000]), np.array([-50, -40]), np.array([50, 60]))
    for likely, shown in ((0, 0), (55, 50), (-99, -40)):
        fitted = fit_clock_map(bounds, "samples", 0.0).drawn(0, 1000, likely)
        assert [side.tolist() for side in fitted.offset_at(np.array([500]))] == [[shown], [shown + 40], [50 - shown]]


@pytest.mark.parametrize("apart_ns", [SECOND, SECOND / 20])
def test_a_rate_that_moves_a_little_between_the_evidence_stays_inside(apart_ns: float) -> None:
    """It goes off by 2 ppm for half of each gap, and comes back: all that is known of it lies on one line."""
    at = np.arange(0, 10 * SECOND + 1, apart_ns).astype(np.int64)
    fitted = fit_clock_map(Bounds(at, at * 0 - 5, at * 0 + 5), "samples")
    middle = np.arange(3 * SECOND, 6 * SECOND, apart_ns) + apart_ns / 2
    low, high = fitted.bound(middle.astype(np.int64))
    assert (high >= 2e-6 * apart_ns / 2).all() and (low <= -2e-6 * apart_ns / 2).all()
    # What the line itself may hide, 10 ns in a gap, is all that comes to it.
    assert (high - low).max() <= 2.2 * 2e-6 * apart_ns / 2 + 30


def test_in_a_pause_a_clock_may_run_at_any_rate() -> None:
    at = np.concatenate([np.arange(20), 25 + np.arange(20)]) * 10**9
    fitted = fit_clock_map(Bounds(at, at * 0 - 1_000, at * 0 + 1_000), "samples")
    _, high = fitted.bound(np.array([10, 20, 22, 24]) * 10**9)
    assert high[0] < 10_000
    assert (high[1:] > [500_000, 1_700_000, 500_000]).all()


def test_the_rows_of_a_map_tell_its_rates() -> None:
    """A change by 60 ppm at 8.5 s, samples each second: between the two around it, the mean of both rates is shown."""
    at = np.arange(21) * 10**9
    offset = 5 * 10**9 + 60 * np.clip(at - 8_500_000_000, 0, None) // 10**6
    fitted = fit_clock_map(Bounds(at, offset - 1_000, offset + 1_000), "samples")
    rows = fitted.summarize("ftrace:local", 0, 20 * 10**9)
    assert [(row["from_ns"], row["to_ns"]) for row in rows] == [
        (0, 8 * 10**9 - 1), (8 * 10**9, 9 * 10**9 - 1), (9 * 10**9, 2 * 10**10)
    ]  # fmt: skip
    assert np.abs([rows[0]["rate_ppb"], rows[1]["rate_ppb"] - 30_000, rows[2]["rate_ppb"] - 60_000]).max() < 3_000
    assert max(row["width_ns"] for row in rows) > 500_000, "between two samples the moment of the change is not known"
    assert all(row["width_ns"] <= row["lo_ns"] + row["hi_ns"] for row in rows)
    assert [(row["pairs"], row["violated"]) for row in rows] == [(21, 0), (None, None), (None, None)]
    assert {row["method"] for row in rows} == {"samples"}
    (same,) = ClockMap("same_clock", shift_ns=7).summarize("ftrace:mono", 3, 9)
    assert (same["from_ns"], same["to_ns"], same["offset_ns"], same["rate_ppb"]) == (3, 9, 7, 0)
    assert [same[name] for name in ("lo_ns", "hi_ns", "pairs", "violated")] == [0] * 4
    (unknown,) = ClockMap("unaligned").summarize("ftrace:local", 3, 9)
    assert (unknown["lo_ns"], unknown["hi_ns"]) == (None, None)
