"""Slopes: within what limits the rate of a clock lies, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tracecorr.align.bounds import Floats
from tracecorr.align.lines import fit_lines

# A window that tells the rate better than this is cut in two: a shorter one follows a rate that changes.
_SHARP = 1e-6
# Of what the slopes around a moment differ by, this share is added on both sides.
_CHANGING = 0.25
# Segments per window, and how often the longest window is halved.
_PARTS, _LEVELS = 4, 12
# A window with fewer inequalities says too little.
_LEAST = 4


@dataclass(frozen=True)
class Rates:
    """Hold what is known of the slope of a clock's offset beforehand.

    Args:
        middle: the slope.
        reach: how far it may lie from that; 0 = it is known.
        wander: how far it may move, within a window that one line fits, from the slope of that line.
    """

    middle: float
    reach: float
    wander: float = 0.0


@dataclass(frozen=True)
class Slopes:
    """Hold limits of the slope of the offset.

    Args:
        edges: where each limit begins to hold, in order; the first one also holds before it.
        low, high: the limits.
    """

    edges: Floats
    low: Floats
    high: Floats

    def between(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest slope of each span that no edge cuts."""
        place = np.clip(np.searchsorted(self.edges, (left + right) / 2, side="right") - 1, 0, len(self.edges) - 1)
        return self.low[place], self.high[place]

    def widened(self, at: Floats, factor: float) -> Slopes:
        """Return the limits with those around some stamps `factor` times as far apart."""
        place = np.clip(np.searchsorted(self.edges, at, side="right") - 1, 0, len(self.edges) - 1)
        near = np.unique(np.clip(place[:, None] + np.array([-1, 0, 1]), 0, len(self.edges) - 1))
        grown = np.zeros(len(self.edges))
        grown[near] = (factor - 1) * (self.high - self.low)[near] / 2
        return Slopes(self.edges, self.low - grown, self.high + grown)


def find_slopes(x: Floats, low: Floats, high: Floats, rates: Rates) -> Slopes:
    """Return the limits of the slope that inequalities leave, when the clock runs on as in windows around a moment.

    A line through all inequalities of a window has the rate of the clock there, but for what it wanders. Which windows
    are asked depends on what they tell: longer ones where few inequalities bound the rate, shorter ones where the rate
    changes, so that no line satisfies a longer one. Around a change the rates of both sides are allowed.

    Args:
        x, low, high: sorted stamps and bounds, infinite where there is none.
        rates: what is known of the slope.
    """
    if rates.reach == 0 or x[-1] <= x[0]:
        return Slopes(x[:1], np.array([rates.middle - rates.reach]), np.array([rates.middle + rates.reach]))
    windows = _Windows(x, low, high, rates)
    parts = [part for i in range(_PARTS) for part in windows.settle(0, i)]
    edges, least, most = (np.array(column) for column in zip(*parts, strict=True))
    return Slopes(edges, *_fill(least, most, rates))


def _fill(least: Floats, most: Floats, rates: Rates) -> tuple[Floats, Floats]:
    """Give the segments of which no window tells anything the slopes of both neighbours."""
    known = np.flatnonzero(np.isfinite(least))
    if not len(known):
        return np.full(len(least), rates.middle - rates.reach), np.full(len(least), rates.middle + rates.reach)
    place = np.searchsorted(known, np.arange(len(least)))
    after, before = known[np.minimum(place, len(known) - 1)], known[np.maximum(place - 1, 0)]
    alone = np.isfinite(least)
    low = np.where(alone, least, np.minimum(least[before], least[after]))
    high = np.where(alone, most, np.maximum(most[before], most[after]))
    # Where the windows around a moment tell different rates, the rate changes, and by more within them.
    margin = rates.wander + _CHANGING * (high - low)
    low, high = low - margin, high + margin
    return np.maximum(low, rates.middle - 2 * rates.reach), np.minimum(high, rates.middle + 2 * rates.reach)


@dataclass
class _Windows:
    """Fit lines to windows; those of level k are 2**k times shorter than the span, and begin at each segment."""

    x: Floats
    low: Floats
    high: Floats
    rates: Rates
    _fits: dict[tuple[int, int], tuple[float, float] | None] = field(default_factory=dict)

    def settle(self, level: int, segment: int) -> list[tuple[float, float, float]]:
        """Return (edge, least slope, largest slope) of the parts of a segment; NaN where no window tells."""
        # A window that no line fits holds a change, and one beside it may hold some of it.
        unclear = len(self._containing(level, segment)) < _PARTS
        if self._can_halve(level, segment):
            children = [(level + 1, 2 * segment), (level + 1, 2 * segment + 1)]
            if unclear or all(self._is_sharp(*each) for each in [(level, segment), *children]):
                return [part for child in children for part in self.settle(*child)]
        start = float(self.x[0] + segment * self._length(level))
        return [(start, *((np.nan, np.nan) if unclear else self._around(level, segment)))]

    def _length(self, level: int) -> float:
        return float(self.x[-1] - self.x[0]) / (_PARTS << level)

    def _can_halve(self, level: int, segment: int) -> bool:
        return level + 1 < _LEVELS and self._count(level, segment) >= _LEAST

    def _range(self, level: int, first: int) -> tuple[int, int]:
        start = self.x[0] + first * self._length(level)
        end = start + _PARTS * self._length(level)
        return int(np.searchsorted(self.x, start - 1)), int(np.searchsorted(self.x, end + 1))

    def _count(self, level: int, segment: int) -> int:
        begin, end = self._range(level, self._clip(level, segment))
        return end - begin

    def _clip(self, level: int, first: int) -> int:
        return min(max(first, 0), (_PARTS << level) - _PARTS)

    def _fit(self, level: int, first: int) -> tuple[float, float] | None:
        """Return the least and the largest slope of the lines through a window; None where there is none."""
        key = level, self._clip(level, first)
        if key not in self._fits:
            begin, end = self._range(*key)
            part = slice(begin, end)
            lines = fit_lines(self.x[part], self.low[part], self.high[part], self.rates.middle, self.rates.reach)
            self._fits[key] = (float(lines.rates.min()), float(lines.rates.max())) if lines else None
        return self._fits[key]

    def _containing(self, level: int, segment: int) -> list[tuple[float, float]]:
        fits = (self._fit(level, segment - back) for back in range(_PARTS))
        return [fit for fit in fits if fit is not None]

    def _is_sharp(self, level: int, segment: int) -> bool:
        found = self._containing(level, segment)
        return bool(found) and all(most - least <= 2 * _SHARP for least, most in found)

    def _around(self, level: int, segment: int) -> tuple[float, float]:
        """Return the slopes of all windows that contain a segment or touch it."""
        inside = self._containing(level, segment)
        beside = [fit for fit in (self._fit(level, segment - _PARTS), self._fit(level, segment + 1)) if fit is not None]
        # A window that happens to hold next to nothing would allow any slope.
        told = [fit for fit in inside + beside if fit[1] - fit[0] <= self.rates.reach] or inside
        return min(least for least, _ in told), max(most for _, most in told)
