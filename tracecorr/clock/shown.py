"""The map that is shown: straight lines through what the bounds leave, bent only where these force them to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities, Ints
from tracecorr.clock.pieces import Pieces

# A line keeps this part of the bounds' width from them, but where they are wider than usual: their middle wanders.
_MARGIN = 0.25
# The best line is sought among slopes so far from the usual one, to a part of it that moves no line by a nanosecond.
_RATES, _HALVINGS = 2e-3, 60
# What a clock tells by itself is kept where its line has this part of the room of the best one.
_OWN = 0.5
# A string that is held so many times its length away has the rate of what it is drawn through at both ends of that.
_AWAY = 1000
# Between the ends of all lines so many stamps, of each line at least so many, show how wide the bounds are there.
_GRID, _LEAST = 1000, 4
# Rates are told in whole ns per s: a line is told anew before that moves it by so much.
_ROUNDED_NS = 20
# What rounding left of an offset is made up for in this time at least, lest it passes for a rate.
_MAKES_UP_NS = 1e8


@dataclass(frozen=True)
class Shown:
    """Hold the offset that is shown at each stamp, as the table `clock_map` tells it.

    Args:
        from_ns: first stamp of each line, on the source's clock.
        to_ns: its last stamp; no stamp of the source lies between one line and the next.
        offset_ns: CLOCK_MONOTONIC minus the source's clock at `from_ns`.
        rate_ppb: growth of the offset, ns per s.
    """

    from_ns: Ints
    to_ns: Ints
    offset_ns: Ints
    rate_ppb: Ints

    def offset_at(self, stamps: Ints) -> Ints:
        """Return the offset at each stamp; the outer lines go on without an end."""
        row = np.maximum(np.searchsorted(self.from_ns, stamps, side="right") - 1, 0)
        return self.offset_ns[row] + _grow(self.rate_ppb[row], stamps - self.from_ns[row])

    def spread_grid(self, turns: Ints) -> tuple[Ints, Ints]:
        """Return stamps of each line at which the bounds are as wide as anywhere, and where those of each line begin.

        Args:
            turns: stamps at which the bounds turn; where several of them speak, they may turn elsewhere, too.
        """
        each = np.linspace(0, 1, max(_GRID // len(self.from_ns), _LEAST) + 1)
        own = self.from_ns + np.rint(each[:, None] * (self.to_ns - self.from_ns)).astype(np.int64)
        row = np.searchsorted(self.from_ns, turns, side="right") - 1
        inside = turns[(row >= 0) & (turns <= self.to_ns[row])]
        stamps = np.unique(np.concatenate([own.ravel(), inside]))
        return stamps, np.searchsorted(stamps, self.from_ns).astype(np.int64)

    def shifted(self, shift_ns: int) -> Shown:
        """Return the map of a clock that shows `shift_ns` less."""
        return replace(
            self, from_ns=self.from_ns - shift_ns, to_ns=self.to_ns - shift_ns, offset_ns=self.offset_ns + shift_ns
        )


def _grow(rate_ppb: Ints, span_ns: Ints) -> Ints:
    grown: Ints = np.rint(rate_ppb * 1e-9 * span_ns).astype(np.int64)
    return grown


def draw_lines(curve: Pieces, stamps: Ints, base: tuple[int, int], likely_ns: int | None = None) -> Shown:
    """Return the map that is shown for a source: few lines between the bounds, with a step where these have one.

    Args:
        curve: the bounds.
        stamps: all stamps of the source, sorted; at least one.
        base: stamp and offset that are the origin of the curve.
        likely_ns: offset that is shown where the bounds allow it.
    """
    starts = np.unique(np.concatenate([[np.iinfo(np.int64).min], _list_starts(curve) + base[0]]))
    rows = np.unique(np.append(np.searchsorted(stamps, starts), len(stamps)))
    likely = None if likely_ns is None else likely_ns - base[1]
    lines = []
    for first, end in pairwise(rows.tolist()):
        corridor = _list_corridor(curve, float(stamps[first] - base[0]), float(stamps[end - 1] - base[0]))
        x, y = _draw(corridor, _list_rates(curve, corridor.x), likely)
        lines.append(_tell(x, y, base, int(stamps[end - 1])))
    return Shown(*(np.concatenate(column) for column in zip(*lines, strict=True)))


def _list_starts(curve: Pieces) -> Ints:
    """Return the stamps, from the curve's origin, at which other bounds begin that do not go on from those before."""
    starts, ends = curve.reach
    unclear = np.array([span[:2] for span in curve.unclear]).reshape(-1, 2)
    begin, behind = np.concatenate([starts, unclear[:, 0]]), np.concatenate([ends, unclear[:, 1]])
    begin, behind = np.ceil(begin[np.isfinite(begin)]), np.floor(behind[np.isfinite(behind)]) + 1
    found: Ints = np.concatenate([begin, behind]).astype(np.int64)
    return found


def _list_corridor(curve: Pieces, first: float, last: float) -> Inequalities:
    """Return the bounds at the knots of a stretch; between two of them they lie no nearer to each other than lines."""
    knots = np.concatenate([piece.x for piece in curve.pieces])
    at = np.unique(np.concatenate([[first, last], knots[(knots > first) & (knots < last)]]))
    return Inequalities(at, *curve.bound(at))


def _list_rates(curve: Pieces, x: Floats) -> Floats:
    """Return the rates of the curve along a stretch, one for each hundredth of it."""
    begins, rates = (np.array(side) for side in zip(*curve.runs, strict=True))
    at = np.linspace(x[0], x[-1], 101)
    along: Floats = rates[np.maximum(np.searchsorted(begins, at, side="right") - 1, 0)]
    return along


def _draw(corridor: Inequalities, rates: Floats, likely: float | None) -> tuple[Floats, Floats]:
    """Return the corners of what is shown in a stretch without a step."""
    ends = corridor.x[[0, -1]]
    least, most = corridor.low.max(), corridor.high.min()
    if likely is not None and least <= most:
        return ends, np.full(2, np.clip(likely, least, most))
    slope, offset, room = _fit_line(corridor, float(np.median(rates)))
    if room >= _MARGIN * corridor.width.min():
        return ends, offset + slope * ends
    margin = _MARGIN * np.minimum(corridor.width, np.median(corridor.width))
    inner = Inequalities(corridor.x, corridor.low + margin, corridor.high - margin)
    return _pull_taut(inner, (float(rates[0]), float(rates[-1])))


def _fit_line(corridor: Inequalities, rate: float) -> tuple[float, float, float]:
    """Return slope, offset and room of the line that stays farthest from the bounds; it has none if it crosses one.

    The clock's own rate is kept where the bounds hardly speak against it: they show no other one.
    """
    low, high = rate - _RATES, rate + _RATES
    for _ in range(_HALVINGS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if _measure_room(corridor, left)[0] < _measure_room(corridor, right)[0]:
            low = left
        else:
            high = right
    slope = (low + high) / 2
    best, own = _measure_room(corridor, slope)[0], _measure_room(corridor, 0.0)[0]
    slope = 0.0 if own >= _OWN * best >= 0 else slope
    return slope, _measure_room(corridor, slope)[1], best


def _measure_room(corridor: Inequalities, slope: float) -> tuple[float, float]:
    """Return how far the lowest and the highest line of a slope lie apart, and the offset of the middle one."""
    level = corridor.level(slope * corridor.x)
    least, most = float(level.low.max()), float(level.high.min())
    return most - least, (least + most) / 2


def _pull_taut(corridor: Inequalities, rates: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return the corners of the string through a corridor that is pulled taut: no other one has less steep slopes.

    Args:
        corridor: what it must not leave.
        rates: slopes with which it enters and leaves, if the corridor lets it.
    """
    x, low, high = corridor
    away = _AWAY * (x[-1] - x[0])
    middle = (low[[0, -1]] + high[[0, -1]]) / 2
    beyond = middle + np.array([-away, away]) * np.array(rates)
    ends = [(float(x[0] - away), float(beyond[0])), (float(x[-1] + away), float(beyond[1]))]
    string = [ends[0]]
    floor, roof = [ends[0]], [ends[0]]
    for at, least, most in [*zip(x.tolist(), low.tolist(), high.tolist(), strict=True), (*ends[1], ends[1][1])]:
        floor, roof = _narrow(floor, roof, (at, least), string, 1.0)
        roof, floor = _narrow(roof, floor, (at, most), string, -1.0)
    corners = np.array([*string, ends[1]])
    inside = corners[(corners[:, 0] > x[0]) & (corners[:, 0] < x[-1]), 0]
    at = np.unique(np.concatenate([x[[0, -1]], inside]))
    return at, np.interp(at, corners[:, 0], corners[:, 1])


_Point = tuple[float, float]


def _narrow(
    own: list[_Point], other: list[_Point], point: _Point, string: list[_Point], sign: float
) -> tuple[list[_Point], list[_Point]]:
    """Return both sides of the funnel that starts where the string is sure, narrowed by one more point of a side.

    Args:
        own, other: corners of the side of the point, and of the other one; both begin where the string is sure.
        point: what the string must not lie beyond.
        string: its sure corners; what the point makes sure is added.
        sign: 1 for a point of the floor, -1 for one of the roof.
    """
    while len(own) > 1 and sign * (_slope(own[-1], point) - _slope(own[-2], own[-1])) >= 0:
        own.pop()
    if len(own) == 1:
        while len(other) > 1 and sign * (_slope(other[0], point) - _slope(other[0], other[1])) > 0:
            other = other[1:]
            string.append(other[0])
        own = [other[0]]
    own.append(point)
    return own, other


def _slope(start: _Point, end: _Point) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])


def _tell(x: Floats, y: Floats, base: tuple[int, int], last_ns: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the lines between corners in the whole numbers of the table: first and last stamp, offset, rate.

    Each line starts where the one before ends, so that rounding turns no order of stamps around.
    """
    x, y = _split_long(x, y)
    begins, kept = np.unique(np.rint(x).astype(np.int64) + base[0], return_index=True)
    x, y = x[kept], y[kept]
    offset, rates, offsets = int(np.rint(y[0])), [], []
    y = y - (y[0] - offset)
    for k in range(max(len(x) - 1, 1)):
        span = float(x[k + 1] - x[k]) if len(x) > 1 else 0.0
        slope = (y[k + 1] - y[k]) / span if span else 0.0
        rate = round((slope + (y[k] - offset) / max(span, _MAKES_UP_NS)) * 1e9)
        offsets.append(offset + base[1])
        rates.append(rate)
        offset += int(np.rint(rate * 1e-9 * (begins[min(k + 1, len(begins) - 1)] - begins[k])))
    starts = begins[: len(rates)]
    return starts, np.append(starts[1:] - 1, last_ns), np.array(offsets), np.array(rates)


def _split_long(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the corners with more of them on lines so long that a rate in whole ns per s would leave them."""
    if x[0] == x[-1]:
        return x[:1], y[:1]
    span = np.diff(x)
    ppb = np.diff(y) / span * 1e9
    parts = np.ceil(np.abs(ppb - np.rint(ppb)) * 1e-9 * span / _ROUNDED_NS).astype(np.int64)
    inner = [np.linspace(*ends, max(n, 1), endpoint=False) for ends, n in zip(pairwise(x), parts.tolist(), strict=True)]
    at = np.append(np.concatenate(inner), x[-1])
    return at, np.interp(at, x, y)
