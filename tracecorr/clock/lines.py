"""Straight lines between bounds: whether one exists, and the slopes that such lines can have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities

# Absorbs the rounding of floats; stamps are whole nanoseconds.
_SLACK_NS = 0.02


@dataclass(frozen=True)
class Lines:
    """Hold the corners of the set of lines offset + rate * x between bounds.

    Args:
        offsets, rates: of each corner.
        room: how far the set reaches up and down, ns: the most that two parallel lines of it lie apart.
    """

    offsets: Floats
    rates: Floats
    room: float

    @property
    def rate(self) -> float:
        """Return the middle slope."""
        return float((self.rates.min() + self.rates.max()) / 2)

    @property
    def spread(self) -> float:
        """Return how far the slopes lie from the middle one."""
        return float((self.rates.max() - self.rates.min()) / 2)


def fit_lines(given: Inequalities, rate: float, max_rate: float) -> Lines | None:
    """Return all lines with low <= line <= high, or None when there is none.

    Args:
        given: the inequalities.
        rate: middle of the allowed slopes.
        max_rate: how far a slope may lie from `rate`; 0 allows only that slope.
    """
    if not given.is_two_sided:
        return None
    level = given.level(rate * given.x)
    if max_rate == 0:
        floor_at, roof_at = level.low.max(), level.high.min()
        if floor_at > roof_at + _SLACK_NS:
            return None
        return Lines(np.array([floor_at, roof_at]), np.array([rate, rate]), float(roof_at - floor_at))
    has_low, has_high = np.isfinite(level.low), np.isfinite(level.high)
    floor = _hull(level.x[has_low], level.low[has_low], upper=True)
    roof = _hull(level.x[has_high], level.high[has_high], upper=False)
    offsets, rates = _candidates(np.vstack([floor, roof]), max_rate)
    fits = np.abs(rates) <= max_rate * (1 + 1e-9)
    offsets, rates = offsets[fits], rates[fits]
    fits = np.ones(len(offsets), dtype=np.bool_)
    for at, y in floor:
        fits &= offsets + rates * at >= y - _SLACK_NS
    for at, y in roof:
        fits &= offsets + rates * at <= y + _SLACK_NS
    if not fits.any():
        return None
    offsets, rates = offsets[fits], rates[fits]
    return Lines(offsets, rates + rate, _measure_room(floor, roof, rates))


def _measure_room(floor: Floats, roof: Floats, rates: Floats) -> float:
    """Return how far floor and roof lie apart along the best of some slopes, which those of the corners hold."""
    along = rates[:, None]
    high = (roof[:, 1] - along * roof[:, 0]).min(axis=1)
    low = (floor[:, 1] - along * floor[:, 0]).max(axis=1)
    return float((high - low).max())


def _candidates(points: Floats, max_rate: float) -> tuple[Floats, Floats]:
    # A corner of the set is a line through two hull points, or through one at the largest slope.
    first, second = np.triu_indices(len(points), k=1)
    distance = points[second, 0] - points[first, 0]
    apart = distance != 0
    rates = (points[second, 1] - points[first, 1])[apart] / distance[apart]
    offsets = points[first, 1][apart] - rates * points[first, 0][apart]
    steep = np.repeat([-max_rate, max_rate], len(points))
    through = np.tile(points, (2, 1))
    return np.concatenate([offsets, through[:, 1] - steep * through[:, 0]]), np.concatenate([rates, steep])


def _hull(x: Floats, y: Floats, *, upper: bool) -> Floats:
    """Return the corners of the upper or lower convex hull of points (monotone chain); `x` is sorted."""
    sign = -1.0 if upper else 1.0
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), (sign * y).tolist(), strict=True)):
        while len(hull) >= 2 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return np.array([(px, sign * py) for px, py in hull]).reshape(-1, 2)


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0
