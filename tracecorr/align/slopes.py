"""Slopes: within what limits the rate of a clock lies, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tracecorr.align.bounds import Floats, Ints
from tracecorr.align.lines import fit_lines

# A window that tells the rate better than this is cut in two: a shorter one follows a rate that changes.
_SHARP = 1e-6
# Of what the slopes around a moment surely differ by, these shares are added on both sides: where windows lie on both
# sides of the moment, and where no line fits. At the ends of the evidence it is all that they seem to differ by.
_CHANGING, _UNCLEAR = 0.5, 1.0
# A line that leaves less than this part of the room of shorter windows hides a change.
_ROOM = 0.6
_HIDDEN = 16 / 3
# Segments per window, and how often the longest window is halved.
_PARTS, _LEVELS = 4, 12
# A window with fewer inequalities says too little; the room of windows with fewer of them says nothing.
_LEAST, _ENOUGH, _MANY = 4, 24, 150


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


class _Part(NamedTuple):
    """Hold a segment: its start, its windows' length, their slopes (NaN: none tells), and what these may hide."""

    start: float
    length: float
    least: float
    most: float
    hidden: float


class _Fit(NamedTuple):
    """Hold the least and the largest slope of the lines through a window, and their room."""

    least: float
    most: float
    room: float


def find_slopes(x: Floats, low: Floats, high: Floats, rates: Rates) -> Slopes:
    """Return the limits of the slope that inequalities leave, when the clock runs on as in windows around a moment.

    A line through all inequalities of a window has the rate of the clock there, but for what it wanders. Which windows
    are asked depends on what they tell: longer ones where few inequalities bound the rate, shorter ones where the rate
    changes, so that no line satisfies a longer one, or that lines have less room than in short windows. Around a change
    the rates of both sides are allowed, and more where they go on to change.

    Args:
        x, low, high: sorted stamps and bounds, infinite where there is none.
        rates: what is known of the slope.
    """
    if rates.reach == 0 or x[-1] <= x[0]:
        return Slopes(x[:1], np.array([rates.middle - rates.reach]), np.array([rates.middle + rates.reach]))
    windows = _Windows(x, low, high, rates)
    parts = [part for i in range(_PARTS) for part in windows.settle(0, i)]
    return Slopes(np.array([part.start for part in parts]), *_fill(parts, rates))


def _fill(parts: list[_Part], rates: Rates) -> tuple[Floats, Floats]:
    """Return the limits of the slope in each part; one of which no window tells anything has its neighbours' ones."""
    start, length, least, most, hidden = (np.array(column) for column in zip(*parts, strict=True))
    known = np.flatnonzero(np.isfinite(least))
    if not len(known):
        return np.full(len(least), rates.middle - rates.reach), np.full(len(least), rates.middle + rates.reach)
    part = np.arange(len(least))
    place = np.searchsorted(known, part)
    after, before = np.minimum(place, len(known) - 1), np.maximum(place - 1, 0)
    before = np.where(np.isfinite(least), after, before)
    low = np.minimum(least[known][before], least[known][after])
    high = np.maximum(most[known][before], most[known][after])
    middle = start + length / _PARTS / 2
    sides = [_compare(known, middle, way * length, least, most) for way in (-1, 1)]
    sure = [np.nan_to_num(side[0]) for side in sides]
    near = [_compare(known, middle, way * length / 2, least, most)[1] for way in (-1, 1)]
    margin = np.maximum(hidden[known][before], hidden[known][after])
    margin += _UNCLEAR * np.maximum(sure[0][before], sure[1][after])
    at_end = np.isnan(near[0]) | np.isnan(near[1])
    ahead = np.nan_to_num(np.fmax(np.fmax(*near), np.fmax(sides[0][1], sides[1][1])))
    trend = np.where(at_end, ahead, _CHANGING * np.maximum(*sure))
    margin[known] = hidden[known] + trend
    # Of what lies beyond all that is known nothing but the clock's limits is.
    margin[(part < known[0]) | (part > known[-1])] = 2 * rates.reach
    low, high = low - margin - rates.wander, high + margin + rates.wander
    return np.maximum(low, rates.middle - 2 * rates.reach), np.minimum(high, rates.middle + 2 * rates.reach)


def _compare(known: Ints, middle: Floats, distance: Floats, least: Floats, most: Floats) -> Floats:
    """Return by how much the slopes of known segments differ from those of the last known ones up to some distance.

    Returns: by how much they differ at least, and by how much their middles differ; NaN where that lies outside.
    """
    at = (middle + distance)[known]
    before, behind = (np.searchsorted(middle[known], at, side="right") - 1, np.searchsorted(middle[known], at))
    other = known[np.clip(np.where(distance[known] > 0, before, behind), 0, len(known) - 1)]
    apart = np.maximum(least[known] - most[other], least[other] - most[known])
    centre = (least + most) / 2
    outside = (at < middle[known[0]]) | (at > middle[known[-1]])
    both = np.stack([np.maximum(apart, 0.0), np.abs(centre[known] - centre[other])])
    return np.where(outside, np.nan, both)


@dataclass
class _Windows:
    """Fit lines to windows; those of level k are 2**k times shorter than the span, and begin at each segment."""

    x: Floats
    low: Floats
    high: Floats
    rates: Rates
    _fits: dict[tuple[int, int], _Fit | None] = field(default_factory=dict)
    _rooms: dict[tuple[int, int], float] = field(default_factory=dict)

    def settle(self, level: int, segment: int) -> list[_Part]:
        """Return the parts of a segment."""
        # A window that no line fits holds a change, and one beside it may hold some of it.
        unclear = len(self._containing(level, segment)) < _PARTS or self._is_crowded(level, segment)
        if self._can_halve(level, segment):
            children = [(level + 1, 2 * segment), (level + 1, 2 * segment + 1)]
            if unclear or all(self._is_sharp(*each) for each in [(level, segment), *children]):
                return [part for child in children for part in self.settle(*child)]
        start = float(self.x[0] + segment * self._length(level))
        told = (np.nan, np.nan) if unclear else self._around(level, segment)
        return [_Part(start, _PARTS * self._length(level), *told, self._hidden(level, segment))]

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

    def _fit(self, level: int, first: int) -> _Fit | None:
        """Return the least and the largest slope of the lines through a window; None where there is none."""
        key = level, self._clip(level, first)
        if key not in self._fits:
            begin, end = self._range(*key)
            part = slice(begin, end)
            lines = fit_lines(self.x[part], self.low[part], self.high[part], self.rates.middle, self.rates.reach)
            self._fits[key] = _Fit(float(lines.rates.min()), float(lines.rates.max()), lines.room) if lines else None
        return self._fits[key]

    def _room_inside(self, level: int, first: int) -> float:
        """Return the least room that short windows have in a window; infinite where it holds too little for them."""
        key = level, self._clip(level, first)
        if key not in self._rooms:
            halves = [(level + 1, 2 * key[1] + shift) for shift in (0, _PARTS // 2, _PARTS)]
            counts = [self._count(*half) for half in halves]
            rooms = [self._room(*half, deeper=min(counts) >= _MANY) for half in halves]
            self._rooms[key] = min(rooms) if min(counts) >= _ENOUGH else np.inf
        return self._rooms[key]

    def _room(self, level: int, first: int, *, deeper: bool) -> float:
        inside = self._room_inside(level, first) if deeper else np.inf
        fit = self._fit(level, first)
        if np.isfinite(inside):
            return inside
        return fit.room if fit else np.inf

    def _rooms_containing(self, level: int, segment: int) -> list[tuple[float, float]]:
        """Return the room of each window around a segment, and that of short windows in it, where both are known."""
        rooms = []
        for first in range(segment - _PARTS + 1, segment + 1):
            fit, inside = self._fit(level, first), self._room_inside(level, first)
            if fit and np.isfinite(inside):
                rooms.append((fit.room, inside))
        return rooms

    def _is_crowded(self, level: int, segment: int) -> bool:
        return any(room < _ROOM * inside for room, inside in self._rooms_containing(level, segment))

    def _hidden(self, level: int, segment: int) -> float:
        """Return by how much a slope may differ from those of the lines, when its change is what takes their room."""
        # A parabola that lies s off a line in its middle takes s of the room, and its slope differs by 4 s / length.
        missing = max((inside - room for room, inside in self._rooms_containing(level, segment)), default=0.0)
        return _HIDDEN * max(missing, 0.0) / (_PARTS * self._length(level))

    def _containing(self, level: int, segment: int) -> list[_Fit]:
        fits = (self._fit(level, segment - back) for back in range(_PARTS))
        return [fit for fit in fits if fit is not None]

    def _is_sharp(self, level: int, segment: int) -> bool:
        found = self._containing(level, segment)
        return bool(found) and all(fit.most - fit.least <= 2 * _SHARP for fit in found)

    def _around(self, level: int, segment: int) -> tuple[float, float]:
        """Return the slopes of all windows that contain a segment or touch it."""
        inside = self._containing(level, segment)
        beside = [fit for fit in (self._fit(level, segment - _PARTS), self._fit(level, segment + 1)) if fit is not None]
        # A window that happens to hold next to nothing would allow any slope.
        told = [fit for fit in inside + beside if fit.most - fit.least <= self.rates.reach] or inside
        return min(fit.least for fit in told), max(fit.most for fit in told)
