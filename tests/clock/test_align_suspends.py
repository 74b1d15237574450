"""HAND-MADE: suspends of a clock that goes on meanwhile, which the evidence shows or cannot show."""

from __future__ import annotations

import numpy as np
import pytest

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds
from tracecorr.clock.clock_map import ClockMap, fit_clock_map

MS = 10**6
KNOWN_NS = 5_000


def settled(lows_ms: list[int], highs_ms: list[int], stamps_ms: list[int], max_rate: float = 0.0) -> ClockMap:
    """Return the map of a clock of offset 0 that bounds of 5 us are known of, and that was seen at some stamps."""
    at = np.array(lows_ms + highs_ms) * MS
    is_low = np.arange(len(at)) < len(lows_ms)
    bounds = Bounds(at, np.where(is_low, -KNOWN_NS, NO_LOW), np.where(is_low, NO_HIGH, KNOWN_NS))
    fitted = fit_clock_map(bounds, "causal_pairs", max_rate)
    assert fitted.aligned, fitted.reason
    return fitted.settle(np.array(stamps_ms) * MS)


def bounds_at(fitted: ClockMap, at_ms: list[int]) -> list[tuple[int, int]]:
    """Return the bounds of the offset at some stamps, us."""
    low, high = fitted.bound(np.array(at_ms) * MS)
    return list(zip((low // 1000).tolist(), (high // 1000).tolist(), strict=True))


BOTH = list(range(0, 1000, 10))
KNOWN = (-5, 5)


def test_a_gap_behind_the_last_pair_may_have_been_a_suspend() -> None:
    """Seen until 1.2 s, and from 3.2 s on: of these 2 s the machine may have slept all."""
    fitted = settled(BOTH, BOTH, [*range(0, 1200, 10), 1200, 3200, 3400])
    assert bounds_at(fitted, [500, 1200, 3200, 3400]) == [KNOWN, KNOWN, (-2_000_005, 5), (-2_000_005, 5)]


def test_gaps_before_the_first_pair_may_have_been_suspends_and_add_up() -> None:
    fitted = settled([t + 4000 for t in BOTH], [t + 4000 for t in BOTH], [0, 1000, 3000, *range(3200, 5200, 10)])
    assert bounds_at(fitted, [0, 1000, 3000, 4500]) == [(-5, 3_000_005), (-5, 2_000_005), KNOWN, KNOWN]


def test_a_gap_with_pairs_on_both_sides_was_none() -> None:
    fitted = settled([*BOTH, 4000, 4010], [*BOTH, 4000, 4010], [*range(0, 1200, 10), 3200, 3400, 4000, 4010])
    assert bounds_at(fitted, [500, 1190, 3200, 4010]) == [KNOWN] * 4


@pytest.mark.parametrize(("lows", "highs", "told"), [([4000], [], True), ([], [4000], False)])
def test_behind_a_gap_lower_bounds_alone_tell_that_the_offset_did_not_fall(
    lows: list[int], highs: list[int], told: bool
) -> None:
    fitted = settled(BOTH + lows, BOTH + highs, [*range(0, 1200, 10), 3200, 4000])
    assert bounds_at(fitted, [3200]) == [KNOWN if told else (-2_010_005, 5)]


@pytest.mark.parametrize(("lows", "highs", "told"), [([-4000], [], False), ([], [-4000], True)])
def test_before_a_gap_upper_bounds_alone_tell_it(lows: list[int], highs: list[int], told: bool) -> None:
    fitted = settled(lows + BOTH, highs + BOTH, [-4000, -3200, *range(0, 1200, 10)])
    assert bounds_at(fitted, [-4000]) == [KNOWN if told else (-5, 4_000_005)]


def test_short_gaps_are_no_suspends() -> None:
    fitted = settled(BOTH, BOTH, [*range(0, 1000, 10), 1280, 1570])
    assert bounds_at(fitted, [1570]) == [KNOWN]


def test_a_clock_that_drifts_does_not_go_on_in_a_suspend() -> None:
    fitted = settled(BOTH, BOTH, [*range(0, 1000, 10), 1000, 2000], max_rate=1e-6)
    low, high = bounds_at(fitted, [2000])[0]
    assert -20 < low < high < 20


def test_a_suspend_that_was_seen_and_one_that_was_not() -> None:
    """Asleep for 5 s after 0.5 s, which pairs on both sides show; a gap of 1 s follows the last of them."""
    at = np.array([*range(0, 500, 10), *range(5500, 6000, 10)])
    offset = np.where(at < 5000, 0, -5000) * MS
    fitted = fit_clock_map(Bounds(at * MS, offset - KNOWN_NS, offset + KNOWN_NS), "causal_pairs", 0.0)
    fitted = fitted.settle(np.array([*at.tolist(), 7000]) * MS)
    assert bounds_at(fitted, [490, 5500, 5990, 7000]) == [
        KNOWN, (-5_000_005, -4_999_995), (-5_000_005, -4_999_995), (-6_010_005, -4_999_995),
    ]  # fmt: skip


def stepped(step_ms: int, stamps_ms: list[int]) -> ClockMap:
    """Return the map of a clock that stepped between 0.5 s and 5.5 s, and was seen at some stamps in between, too."""
    at = np.array([*range(0, 500, 10), *range(5500, 6000, 10)])
    offset = np.where(at < 5000, 0, step_ms) * MS
    fitted = fit_clock_map(Bounds(at * MS, offset - KNOWN_NS, offset + KNOWN_NS), "causal_pairs", 0.0)
    return fitted.settle(np.array(sorted([*at.tolist(), *stamps_ms])) * MS)


BEFORE, BEHIND = KNOWN, (-3_000_005, -2_999_995)
OPEN = (-3_000_005, 5)


def test_a_step_lies_in_the_one_gap_that_is_long_enough() -> None:
    """Of 3 s: seen at 0.7 s and at 5.3 s, it slept in between."""
    assert bounds_at(stepped(-3000, [700, 5300]), [490, 700, 5300, 5500]) == [BEFORE, BEFORE, BEHIND, BEHIND]


def test_two_steps_lie_in_a_gap_each() -> None:
    """Of 3 s: seen at 0.7 s and 5.3 s, and of 2 s: seen at 6.2 s and 10.8 s."""
    at = np.array([*range(0, 500, 10), *range(5500, 6000, 10), *range(11000, 11500, 10)])
    offset = np.where(at < 5000, 0, np.where(at < 7000, -3000, -5000)) * MS
    fitted = fit_clock_map(Bounds(at * MS, offset - KNOWN_NS, offset + KNOWN_NS), "causal_pairs", 0.0)
    fitted = fitted.settle(np.array(sorted([*at.tolist(), 700, 5300, 6200, 10800])) * MS)
    last = (-5_000_005, -4_999_995)
    assert bounds_at(fitted, [490, 700, 5300, 6200, 10800, 11490]) == [BEFORE, BEFORE, BEHIND, BEHIND, last, last]


def test_of_a_step_a_part_may_lie_in_another_gap() -> None:
    """The gaps before 1 s and behind 4.5 s are too short for 3 s, but it may have slept in them, too."""
    assert bounds_at(stepped(-3000, [1000, 4500]), [490, 1000, 4500, 5500]) == [
        BEFORE, (-510_005, 5), (-3_000_005, -1_999_995), BEHIND,
    ]  # fmt: skip


def test_a_step_that_two_gaps_may_hold_or_none_stays_open() -> None:
    assert bounds_at(stepped(-2000, [3000]), [490, 3000]) == [KNOWN, (-2_000_005, 5)]
    assert bounds_at(stepped(-3000, [2000, 3500]), [490, 2000, 3500, 5500]) == [BEFORE, OPEN, OPEN, BEHIND]


def test_a_clock_that_was_set_back_left_no_gap() -> None:
    low, high = stepped(300, [2000, 3000]).bound(np.array([2000, 3000]) * MS)
    assert (low <= 0).all()
    assert (high >= 300 * MS).all()


def test_a_clock_without_pieces_is_as_good_with_gaps() -> None:
    same = ClockMap("same_clock", shift_ns=7)
    assert same.settle(np.array([0, 5000]) * MS) == same
