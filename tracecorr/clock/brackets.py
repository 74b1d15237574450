"""Brackets: clock samples with both sides, and how the clock may have run in the gap between each two of them.

A sample holds by itself. What the clock did between two samples only their neighbours tell: where one line goes through
a gap and through as much on both sides of it, the clock is taken to have kept its rate. Where none does it changed
somewhere in there, and within such a gap every rate is allowed that it can have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities, Ints, Mask
from tracecorr.clock.lines import fit_lines
from tracecorr.clock.slopes import Rates, Slopes

# Lines through a gap and its neighbours that leave less than this part of the narrowest bracket hide a change.
_ROOM = 0.6
# A parabola goes through any three samples: it takes so many gaps to tell one.
_PARABOLA = 5
# Samples that lie less than this part of a gap beyond it, on either side, tell nothing of the rate within. In so short
# a gap (samples are taken each second, and at both ends) it is taken to move by no more than this.
_BEYOND = 0.5
_BRIEF_NS, _BRIEF_WANDER = 1.1e9, 5e-6
# A bracket that is so many times wider than most is no sample: what it spans is one gap.
_LOOSE = 4
# So many samples on each side are asked which of two that contradict each other is wrong.
_NEIGHBOURS = 3
# Steps in more gaps than one of so many are a clock that runs faster than any that is known.
_GAPS_PER_STEP = 4


@dataclass(frozen=True)
class Gaps:
    """Hold what is known of the rate between samples.

    Args:
        edges: the samples' stamps, in order.
        low, high: limits of the slope behind each of them; the last ones hold behind the last sample.
        steady: whether the clock is taken to have kept its rate behind each of them.
    """

    edges: Floats
    low: Floats
    high: Floats
    steady: Mask

    def apply(self, slopes: Slopes, told: Mask) -> Slopes:
        """Return other limits of the slope, with these in the gaps of which other inequalities do not tell more.

        Args:
            slopes: limits of all inequalities.
            told: for each edge, whether others tell what the clock did behind it.
        """
        cuts = np.union1d(slopes.edges, self.edges)
        place = slopes.find(cuts)
        gap = np.searchsorted(self.edges, cuts, side="right") - 1
        own = (gap >= 0) & ~told[gap]
        low, high = np.where(own, self.low[gap], slopes.low[place]), np.where(own, self.high[gap], slopes.high[place])
        # What both say of a gap in which the clock kept its rate, as samples beyond it show.
        seen = told & self.steady & np.append(_is_seen_beyond(self.edges), False)
        both = (gap >= 0) & seen[gap] & (self.low[gap] <= high) & (low <= self.high[gap])
        return Slopes(cuts, np.where(both, np.maximum(low, self.low[gap]), low),
                      np.where(both, np.minimum(high, self.high[gap]), high))  # fmt: skip

    def alone(self) -> Slopes:
        """Return the limits when there are no other inequalities."""
        return Slopes(self.edges, self.low, self.high)

    def list_runs(self, samples: Inequalities) -> list[tuple[float, float]]:
        """Return from where on each rate has shown, and the mean one until the next; gaps of a change count before it.

        Args:
            samples: those at the edges.
        """
        starts = np.flatnonzero(self.steady & ~np.concatenate([[False], self.steady[:-1]]))
        ends = np.concatenate([starts[1:], [len(self.edges) - 1]])
        starts = np.concatenate([[0], starts[1:]]) if len(starts) else np.array([0])
        ends = ends if len(ends) == len(starts) else np.array([len(self.edges) - 1])
        middle = (samples.low + samples.high) / 2
        rates = (middle[ends] - middle[starts]) / np.maximum(self.edges[ends] - self.edges[starts], 1.0)
        return list(zip(self.edges[starts].tolist(), rates.tolist(), strict=True))


def find_gaps(given: Inequalities, rates: Rates, others: Inequalities | None = None) -> Gaps:
    """Return how the clock may have run between samples.

    Args:
        given: at least two samples, none of them wrong, without a step between them.
        rates: what is known of the slope.
        others: other inequalities.
    """
    limits = rates.middle - rates.reach, rates.middle + rates.reach
    seen = _is_seen_beyond(given.x)
    found = [
        _slopes_of_gap(given, i, rates) if seen[i] else _slopes_of_lone_gap(given, i, rates, others)
        for i in range(len(given) - 1)
    ]
    slopes = np.array([limits if each is None else each for each in [*found, None]])
    steady = np.array([*(each is not None for each in found), False])
    return Gaps(given.x, np.maximum(slopes[:, 0], limits[0]), np.minimum(slopes[:, 1], limits[1]), steady)


def _slopes_of_gap(given: Inequalities, i: int, rates: Rates) -> tuple[float, float] | None:
    """Return the slopes of the lines through gap `i` and as much on both sides; None where the clock changed."""
    x = given.x
    length = x[i + 1] - x[i]
    if length <= 0:
        return None
    first, last = _reach_out(x, i, length)
    straight, sure = _fit_slopes(given[first : last + 1], length, rates)
    if sure:
        return straight
    # A rate that changes by as much each second (the kernel works off an offset) leaves a parabola.
    first, last = _reach_out(x, i, 2 * length)
    if (np.diff(x[first : last + 1]) >= length / 4).sum() < _PARABOLA:
        return None
    near = given[first : last + 1]
    since = near.x - x[i]
    bend = float(np.polyfit(since / length, (near.low + near.high) / 2, 2)[0]) / length**2
    bent, sure = _fit_slopes(near.level(bend * since**2), length, rates)
    if bent is None or not sure:
        return None
    steepest = 2 * bend * length
    bent = bent[0] + min(steepest, 0.0), bent[1] + max(steepest, 0.0)
    # Where a line goes through, too, with little room, it may be the true one: brackets happen to be so.
    return bent if straight is None else (min(bent[0], straight[0]), max(bent[1], straight[1]))


def _slopes_of_lone_gap(
    given: Inequalities, i: int, rates: Rates, others: Inequalities | None
) -> tuple[float, float] | None:
    """Return the slopes of the lines through all samples and what else is known within gap `i`, where it is brief.

    A line through the two ends of a gap always exists: the others in it may tell that it is not the clock's.
    """
    length = given.x[i + 1] - given.x[i]
    if not 0 < length * (1 + rates.middle) <= _BRIEF_NS:
        return None
    narrowest = float(given.width.min())
    if others is not None:
        inner = others[slice(*np.searchsorted(others.x, given.x[i : i + 2]).tolist())]
        both = Inequalities(*(np.concatenate(sides) for sides in zip(given, inner, strict=True)))
        given = both[np.argsort(both.x, kind="stable")]
    lines = fit_lines(given, rates.middle, rates.reach)
    if lines is None or lines.room < _ROOM * narrowest:
        return None
    margin = rates.wander + _BRIEF_WANDER
    return float(lines.rates.min()) - margin, float(lines.rates.max()) + margin


def _is_seen_beyond(x: Floats) -> Mask:
    """Tell of each gap between samples whether others lie far enough beyond it to show what the clock did in it."""
    seen: Mask = np.maximum(x[:-1] - x[0], x[-1] - x[1:]) >= _BEYOND * np.diff(x)
    return seen


def _fit_slopes(given: Inequalities, length: float, rates: Rates) -> tuple[tuple[float, float] | None, bool]:
    """Return the slopes of the lines through samples, with what they may hide, and whether that is little."""
    lines = fit_lines(given, rates.middle, rates.reach)
    if lines is None:
        return None, False
    narrowest = float(given.width.min())
    margin = rates.wander + max(narrowest - lines.room, 0.0) / length
    slopes = float(lines.rates.min()) - margin, float(lines.rates.max()) + margin
    return slopes, lines.room >= _ROOM * narrowest


def _reach_out(x: Floats, i: int, length: float) -> tuple[int, int]:
    """Return the first and last sample of the window around a gap: `length` on each side, else twice that on one."""
    missing_left, missing_right = x[0] > x[i] - length, x[-1] < x[i + 1] + length
    left = x[i] - length * (2 if missing_right else 1)
    right = x[i + 1] + length * (2 if missing_left else 1)
    first = max(int(np.searchsorted(x, left, side="right")) - 1, 0)
    return first, min(int(np.searchsorted(x, right, side="left")), len(x) - 1)


def pick_narrow(samples: Inequalities) -> Ints:
    """Return the indices of the samples that are as narrow as most."""
    return np.flatnonzero(samples.width <= _LOOSE * np.median(samples.width))


def find_parts(given: Inequalities, rates: Rates) -> list[tuple[Inequalities, Gaps]]:
    """Return the samples between each two steps of the clock, with the gaps between them.

    What is too fast for a clock in one gap is a step. It may have begun or gone on in the gaps beside that one: where
    these are not steady, they are steps, too.

    Args:
        given: samples.
        rates: what is known of the slope.
    """
    given = given[pick_narrow(given)]
    parts = follow_samples(given, rates)
    found = []
    for number, part in enumerate(parts):
        steady = np.flatnonzero(find_gaps(given[part], rates).steady)
        first = 0 if number == 0 else (steady[0] if len(steady) else len(part) - 1)
        last = len(part) - 1 if number == len(parts) - 1 else (steady[-1] + 1 if len(steady) else 0)
        if first <= last:
            found += [*part[:first, None], part[first : last + 1], *part[last + 1 :, None]]
        else:
            found += [*part[:, None]]
    return [(given[own], find_gaps(given[own], rates)) for own in found]


def follow_samples(given: Inequalities, rates: Rates) -> list[Ints]:
    """Return the samples between each two steps of the clock, without those that are wrong.

    Args:
        given: samples.
        rates: what is known of the slope.

    Returns: none where the clock steps so often that nothing is known of it, or is set back.
    """
    x, low, high = given
    parts = [[0]]
    # What the samples of a part leave at each of them of the offset.
    left = [[(float(low[0]), float(high[0]))]]
    for i in range(1, len(x)):
        part, ranges = parts[-1], left[-1]
        found = _move_on(given, (part[-1], i), ranges[-1], rates)
        if found is None:
            without_last, without_this = (_fit_around(given, part, i, rates, left_out=k) for k in (part[-1], i))
            if without_this:
                continue
            if without_last:
                part.pop(), ranges.pop()
                found = _move_on(given, (part[-1], i), ranges[-1], rates)
            if found is None and x[i] + high[i] < x[part[-1]] + low[part[-1]]:
                # What showed more was earlier: such a clock was set back, and a stamp may be of two moments.
                return []
            if found is None:
                parts.append([])
                left.append([])
                found = float(low[i]), float(high[i])
        parts[-1].append(i)
        left[-1].append(found)
    steps = len(parts) - 1
    if steps > 2 and steps * _GAPS_PER_STEP > _count_gaps(x):
        return []
    return [np.array(part) for part in parts]


def allow_any_rate(given: Inequalities, at: Floats, rates: Rates) -> tuple[Floats, Floats]:
    """Return the bounds of the offset at other stamps that samples leave a clock of any rate within its limits.

    Args:
        given: samples without a step between them.
        at: the stamps.
        rates: what is known of the slope.
    """
    x, low, high = given
    place = np.searchsorted(x, at)
    sides = np.stack([np.maximum(place - 1, 0), np.minimum(place, len(x) - 1)])
    way = at - x[sides]
    reach = rates.reach * np.abs(way)
    least, most = low[sides] + rates.middle * way - reach, high[sides] + rates.middle * way + reach
    return least.max(axis=0), most.min(axis=0)


def _move_on(
    given: Inequalities, pair: tuple[int, int], left: tuple[float, float], rates: Rates
) -> tuple[float, float] | None:
    """Return what is left of the offset at the second sample of a pair, given that at the first; None for nothing."""
    before, this = pair
    step = given.x[this] - given.x[before]
    lowest = max(left[0] + (rates.middle - rates.reach) * step, given.low[this])
    highest = min(left[1] + (rates.middle + rates.reach) * step, given.high[this])
    return (float(lowest), float(highest)) if lowest <= highest else None


def _fit_around(given: Inequalities, part: list[int], i: int, rates: Rates, *, left_out: int) -> bool:
    """Tell whether one line goes through the samples on both sides of two that contradict each other, but for one."""
    near = [*part[-_NEIGHBOURS - 1 :], *range(i, min(i + _NEIGHBOURS + 1, len(given)))]
    near.remove(left_out)
    # Without samples on both sides of the one left out, it is as good as those.
    if not near[0] < left_out < near[-1]:
        return False
    return fit_lines(given[near], rates.middle, rates.reach) is not None


def _count_gaps(x: Floats) -> int:
    """Return the number of gaps that are no shorter than a quarter of the typical one; bursts have none."""
    gaps = np.diff(x)
    typical = float((gaps**2).sum() / max(gaps.sum(), 1.0))
    return int((gaps >= typical / 4).sum())
