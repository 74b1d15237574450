"""The hull of a clock: between which bounds its offset from CLOCK_MONOTONIC lies at every stamp.

Each inequality (`Bounds`) says between which offsets the clock is at one stamp. They are cut into cells of about a
second. In each cell the lines that satisfy all of its inequalities give the rates that the clock may have there; a cell
without such a line allows any rate. A bound then follows from every inequality by how far the offset can get from it at
these rates.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NO_LOW, NO_HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Bounds:
    """Hold inequalities: at `stamp_ns` of a source, MONOTONIC minus stamp lies in [low, high].

    Args:
        stamp_ns: stamps on the source's clock, ns.
        low_ns: lower bounds of the offset, ns; `NO_LOW` where there is none.
        high_ns: upper bounds of the offset, ns; `NO_HIGH` where there is none.
    """

    stamp_ns: Ints
    low_ns: Ints
    high_ns: Ints

    def __len__(self) -> int:
        return len(self.stamp_ns)

    @property
    def sides(self) -> tuple[Ints, Ints, Ints]:
        """Return stamps, lower and upper bounds."""
        return self.stamp_ns, self.low_ns, self.high_ns

    @property
    def is_two_sided(self) -> bool:
        """Tell whether they bound the offset on both sides, if not at one stamp."""
        return bool((self.low_ns != NO_LOW).any() and (self.high_ns != NO_HIGH).any())

    def select_usable(self) -> Bounds:
        """Return those that say anything, in the order of their stamps."""
        rows = np.flatnonzero((self.low_ns != NO_LOW) | (self.high_ns != NO_HIGH))
        rows = rows[np.argsort(self.stamp_ns[rows], kind="stable")]
        return Bounds(self.stamp_ns[rows], self.low_ns[rows], self.high_ns[rows])


def join_bounds(*parts: Bounds) -> Bounds:
    """Return all the inequalities of `parts`."""
    return Bounds(*(np.concatenate(side) for side in zip(*(part.sides for part in parts), strict=True)))


# The kernel changes the rate of CLOCK_MONOTONIC once a second; chrony holds a slew for a second.
_CELL_NS = 1e9
# A line through so few inequalities shows a rate.
_FEWEST = 6
# In a longer gap between two inequalities the clock may run at any rate.
_PAUSE_NS = 2.1e9
# Within seconds NTP changes the rate of CLOCK_MONOTONIC by less than this without a line showing it.
_WANDER = 2e-6
# Of the inequalities of a cell, and of all, at most this share may be wrong: pairs of two things that look alike.
_MAX_WRONG = 0.05
# Neighbours that are asked together which of them contradict the others, and how many of them may.
_WINDOW, _MINORITY = 64, 0.25
# Both halves of a cell tell whether the rate changes in it, where each has so many inequalities and this share of room.
_HALF, _SAME_ROOM = 16, 0.5
# A bisection halves the range of rates so often.
_HALVINGS = 40
# Stamps are whole nanoseconds.
_ROUNDING_NS = 1.0
# Beyond every stamp of a recording.
_FAR_NS = 4e15


class ContradictionError(Exception):
    """The inequalities allow no clock.

    Args:
        bounds: the inequalities.
        wrong: which of them contradict others.
    """

    def __init__(self, bounds: Bounds, wrong: Mask) -> None:
        super().__init__(_describe(bounds, wrong))
        self.violated = int(wrong.sum())


@dataclass(frozen=True)
class Hull:
    """Bound the offset of a clock at every stamp.

    Args:
        base_stamp_ns, base_offset_ns: origin of the numbers below, which stay small and exact around it.
        rate: growth of the offset per unit of stamp that all numbers below leave out.
        x: stamps of the inequalities, sorted.
        low, high: bounds of the offset at each, ns; infinite where there is none.
        edges: stamps between which the rate of the clock has limits.
        least, most: the limits of each span between two edges.
    """

    base_stamp_ns: int
    base_offset_ns: int
    rate: float
    x: Floats
    low: Floats
    high: Floats
    edges: Floats
    least: Floats
    most: Floats

    def bound(self, stamps: Ints) -> tuple[Floats, Floats]:
        """Return the least and the largest offset that each stamp can have, ns above `base_offset_ns`."""
        x = (stamps - self.base_stamp_ns).astype(np.float64)
        low, high = self.bound_level(x)
        return low + self.rate * x, high + self.rate * x

    def bound_level(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the bounds at stamps above `base_stamp_ns`, without `rate`."""
        behind = np.searchsorted(self.x, x, side="right")
        before = np.searchsorted(self.x, x, side="left")
        slow, fast = self._grow(x)
        own_slow, own_fast = self._grow(self.x)
        # From earlier inequalities the offset grows by the limits of the rate, from later ones it shrinks by them.
        low = np.maximum(
            _after(np.maximum.accumulate(self.low - own_slow), -np.inf)[behind] + slow,
            _until(np.maximum.accumulate((self.low - own_fast)[::-1]), -np.inf)[before] + fast,
        )
        high = np.minimum(
            _after(np.minimum.accumulate(self.high - own_fast), np.inf)[behind] + fast,
            _until(np.minimum.accumulate((self.high - own_slow)[::-1]), np.inf)[before] + slow,
        )
        return low, high

    def list_turns(self) -> Ints:
        """Return the stamps at which the bounds are narrowest and widest."""
        x = np.unique(np.concatenate([self.x, self.edges[np.abs(self.edges) < _FAR_NS]]))
        low, high = self.bound_level(x)
        slow, fast = (np.diff(side) for side in self._grow(x))
        with np.errstate(invalid="ignore", divide="ignore"):
            # Between two stamps the upper bound rises at the one limit of the rate, then falls at the other.
            parts = (np.diff(high) - slow) / (fast - slow), (fast - np.diff(low)) / (fast - slow)
        peaks = [x[:-1] + np.diff(x) * np.clip(np.nan_to_num(part), 0, 1) for part in parts]
        turns = np.concatenate([x, *peaks])
        stamps: Ints = np.unique(np.concatenate([np.floor(turns), np.ceil(turns)])).astype(np.int64)
        return stamps + self.base_stamp_ns

    def _grow(self, x: Floats) -> tuple[Floats, Floats]:
        """Return by how much the offset grows at least, and at most, from the second edge to each stamp."""
        grown = [np.cumsum([0.0, *(np.diff(self.edges) * rates)]) for rates in (self.least, self.most)]
        slow, fast = (np.interp(x, self.edges, side - side[1]) for side in grown)
        return slow, fast


def _after(values: Floats, nothing: float) -> Floats:
    return np.concatenate([[nothing], values])


def _until(values: Floats, nothing: float) -> Floats:
    return np.concatenate([values[::-1], [nothing]])


def fit_hull(bounds: Bounds, rate: float, max_rate: float) -> tuple[Hull, Mask]:
    """Return the hull of some inequalities, and which of them are left out because others contradict them.

    Args:
        bounds: inequalities in the order of their stamps; each has a lower or an upper bound, and all together both.
        rate: known growth of the offset per unit of stamp (a clock that counts other units than ns).
        max_rate: how far the clock's own growth may lie from it.

    Raises:
        ContradictionError: more of them contradict each other than single wrong ones would.
    """
    base_stamp = int(bounds.stamp_ns[0])
    base_offset = int(np.median(np.where(bounds.low_ns != NO_LOW, bounds.low_ns, bounds.high_ns)))
    x = (bounds.stamp_ns - base_stamp).astype(np.float64)
    low = np.where(bounds.low_ns == NO_LOW, -np.inf, (bounds.low_ns - base_offset) - rate * x)
    high = np.where(bounds.high_ns == NO_HIGH, np.inf, (bounds.high_ns - base_offset) - rate * x)
    wrong = _find_outliers(x, low, high, max_rate)
    rows = np.flatnonzero(~wrong)
    if not len(rows):
        raise ContradictionError(bounds, wrong)
    starts = _cut_cells(x[rows] * (1 + rate))
    rates = []
    for first, last in itertools.pairwise([*starts, len(rows)]):
        # A cell reaches to the first inequality of the next one.
        cell = rows[first : last + 1]
        least, most, violated = _fit_cell(x[cell], low[cell], high[cell], max_rate)
        rates.append((least, most))
        wrong[cell] |= violated
    edges, slowest, fastest = _limit_rates(x, rows[starts], np.array(rates), max_rate, 1 + rate)
    while True:
        kept = ~wrong
        hull = Hull(base_stamp, base_offset, rate, x[kept], low[kept], high[kept], edges, slowest, fastest)
        lowest, highest = hull.bound_level(x)
        too_high, too_low = low > highest + _ROUNDING_NS, high < lowest - _ROUNDING_NS
        conflicts = [kept & too_high, kept & too_low]
        if not conflicts[0].any() and not conflicts[1].any():
            return hull, too_high | too_low
        # What contradicts many is wrong itself.
        wrong |= min(conflicts, key=lambda side: int(side.sum()) or len(x))
        if wrong.sum() > _MAX_WRONG * len(x):
            raise ContradictionError(bounds, conflicts[0] | conflicts[1])


def find_rates(bounds: Bounds, rough: float, reach: float) -> tuple[float, float]:
    """Return the least and the largest growth of the offset per unit of stamp that one line through all can have.

    Args:
        bounds: inequalities in the order of their stamps.
        rough: about how much the offset grows.
        reach: how far the growth may lie from that.
    """
    x = (bounds.stamp_ns - bounds.stamp_ns[0]).astype(np.float64)
    base = int(np.median(bounds.low_ns[bounds.low_ns != NO_LOW]))
    low = np.where(bounds.low_ns == NO_LOW, -np.inf, (bounds.low_ns - base) - rough * x)
    high = np.where(bounds.high_ns == NO_HIGH, np.inf, (bounds.high_ns - base) - rough * x)
    least, most, _ = _fit_cell(x, low, high, reach)
    return rough + least, rough + most


def widest_line(x: Floats, low: Floats, high: Floats, reach: float) -> tuple[float, float, float]:
    """Return the line that stays farthest from all bounds: its rate, its offset at 0, and how far it stays (half).

    Args:
        x: stamps.
        low, high: bounds of the offset at each; some of both are finite.
        reach: the largest rate, up or down.
    """
    least, most = -reach, reach
    rate = 0.0
    for _ in range(_HALVINGS if reach else 1):
        lower, upper = int(np.argmax(low - rate * x)), int(np.argmin(high - rate * x))
        if x[lower] == x[upper]:
            break
        # A steeper line has more room where the lower bound that limits it lies behind the upper one.
        least, most = (rate, most) if x[lower] > x[upper] else (least, rate)
        rate = (least + most) / 2
    lowest, highest = float((low - rate * x).max()), float((high - rate * x).min())
    return rate, (lowest + highest) / 2, (highest - lowest) / 2


def _find_outliers(x: Floats, low: Floats, high: Floats, max_rate: float) -> Mask:
    """Mark the inequalities that contradict the majority of their neighbours, however the clock drifts among these.

    Only such as have neighbours that are right on both sides: what contradicts the others at an end may be a step.
    """
    wrong = np.zeros(len(x), dtype=np.bool_)
    for shift in (0, _WINDOW // 2):
        count = (len(x) - shift) // _WINDOW
        part = slice(shift, shift + max(count, 0) * _WINDOW)
        at, least, most = (side[part].reshape(-1, _WINDOW) for side in (x, low, high))
        reach = np.abs(at - (at[:, :1] + at[:, -1:]) / 2) * max_rate
        least, most = least - reach, most + reach
        # As many upper bounds lie below the best offset as lower ones above it.
        middle = np.sort(np.concatenate([least, most], axis=1), axis=1)[:, _WINDOW - 1 : _WINDOW + 1]
        middle = np.where(np.isfinite(middle), middle, middle[:, ::-1])
        offset = middle.mean(axis=1, keepdims=True)
        marked = (least > offset + _ROUNDING_NS) | (most < offset - _ROUNDING_NS)
        marked &= marked.sum(axis=1, keepdims=True) <= _WINDOW * _MINORITY
        inner = ~(
            np.logical_and.accumulate(marked, axis=1) | np.logical_and.accumulate(marked[:, ::-1], axis=1)[:, ::-1]
        )
        wrong[part] |= (marked & inner).ravel()
    return wrong


def _cut_cells(at_ns: Floats) -> list[int]:
    """Return the first inequality of each cell; what is left at the end belongs to the last one."""
    starts, total = [0], len(at_ns)
    while True:
        start = starts[-1]
        follows = max(start + _FEWEST, int(np.searchsorted(at_ns, at_ns[start] + _CELL_NS)))
        if total - follows < _FEWEST or at_ns[-1] - at_ns[follows] < _CELL_NS:
            return starts
        starts.append(follows)


def _fit_cell(x: Floats, low: Floats, high: Floats, max_rate: float) -> tuple[float, float, Mask]:
    """Return the least and the largest rate of the lines through a cell, and which inequalities are left out.

    If there is no line the rate changes, or single inequalities are wrong: any rate is possible then, and what the
    nearest line violates is not used, if it is little.
    """
    violated = np.zeros(len(x), dtype=np.bool_)
    if not (np.isfinite(low).any() and np.isfinite(high).any()):
        return -max_rate, max_rate, violated
    x = x - (x[0] + x[-1]) / 2
    rate, _, room = widest_line(x, low, high, max_rate)
    if room >= 0 and not _is_bent(x, low, high, max_rate, room):
        least, most = (_find_limit(x, low, high, rate, limit) for limit in (-max_rate, max_rate))
        return least, most, violated
    nearest = _find_violated(x, low, high, max_rate)
    return -max_rate, max_rate, nearest if nearest.sum() <= _MAX_WRONG * len(x) else violated


def _is_bent(x: Floats, low: Floats, high: Floats, max_rate: float, room: float) -> bool:
    """Tell whether lines through both halves of a cell have much more room than that through the whole.

    A change of the rate that leaves a line only just possible is no precise knowledge of the rate.
    """
    middle = len(x) // 2
    if middle < _HALF or not max_rate:
        return False
    rooms = [widest_line(x[part], low[part], high[part], max_rate)[2] for part in (slice(middle), slice(middle, None))]
    return room < _SAME_ROOM * min(rooms)


def _find_limit(x: Floats, low: Floats, high: Floats, fits: float, limit: float) -> float:
    """Return the rate nearest to `limit` at which a line satisfies all, if one does at the rate `fits`."""
    for _ in range(_HALVINGS if limit else 0):
        rate = (fits + limit) / 2
        if (low - rate * x).max() <= (high - rate * x).min():
            fits = rate
        else:
            limit = rate
    return limit


def _find_violated(x: Floats, low: Floats, high: Floats, max_rate: float) -> Mask:
    """Mark what is violated by the line with the least sum of violations."""
    lows, highs = np.isfinite(low), np.isfinite(high)
    count = int(lows.sum())
    least, most, rate = -max_rate, max_rate, 0.0
    for _ in range(_HALVINGS if max_rate else 1):
        level = np.concatenate([low[lows] - rate * x[lows], high[highs] - rate * x[highs]])
        # As many upper bounds lie below the best offset as lower ones above it.
        near = np.partition(level, [count - 1, count])[count - 1 : count + 1]
        offset = float(near.mean())
        above, below = low - rate * x > offset, high - rate * x < offset
        slope = x[below].sum() - x[above].sum()
        if not slope:
            break
        least, most = (rate, most) if slope < 0 else (least, rate)
        rate = (least + most) / 2
    violated: Mask = (low - rate * x > offset + _ROUNDING_NS) | (high - rate * x < offset - _ROUNDING_NS)
    return violated


def _limit_rates(
    x: Floats, starts: Ints, rates: Floats, max_rate: float, scale: float
) -> tuple[Floats, Floats, Floats]:
    """Return edges, and the least and the largest rate between them.

    A cell has the rates of its neighbours, too: where in it the rate changes is not known.

    Args:
        x: stamps.
        starts: the first inequality of each cell.
        rates: the least and the largest rate of each cell, one row each.
        max_rate: the limit of all.
        scale: ns per unit of stamp.
    """
    gaps = np.flatnonzero(np.diff(x) * scale > _PAUSE_NS)
    reach = _CELL_NS / scale
    edges = np.unique([x[0] - reach, *x[starts], *x[gaps], *x[gaps + 1], x[-1] + reach])
    middle = (edges[1:] + edges[:-1]) / 2
    cell = np.searchsorted(x[starts], middle, side="right")[:, None] - 1
    near = rates[np.clip(cell + np.array([-1, 0, 1]), 0, len(rates) - 1)]
    is_pause = ((middle[:, None] > x[gaps]) & (middle[:, None] < x[gaps + 1])).any(axis=1)
    wander = np.where(is_pause, 2 * max_rate, min(_WANDER, max_rate))
    least = np.maximum(near[:, :, 0].min(axis=1) - wander, -max_rate)
    most = np.minimum(near[:, :, 1].max(axis=1) + wander, max_rate)
    any_rate = [max_rate]
    return (
        np.concatenate([[-_FAR_NS], edges, [_FAR_NS]]),
        np.concatenate([np.negative(any_rate), least, np.negative(any_rate)]),
        np.concatenate([any_rate, most, any_rate]),
    )


def _describe(bounds: Bounds, wrong: Mask) -> str:
    """Return which inequalities contradict each other, and by how much."""
    lows = np.flatnonzero(wrong & (bounds.low_ns != NO_LOW))
    highs = np.flatnonzero(wrong & (bounds.high_ns != NO_HIGH))
    told = f"{int(wrong.sum())} of {len(bounds)} pairs contradict the others"
    if not len(lows) or not len(highs):
        return told
    low, high = lows[np.argmax(bounds.low_ns[lows])], highs[np.argmin(bounds.high_ns[highs])]
    return (
        f"{told}: at stamp {bounds.stamp_ns[low]} the offset is {bounds.low_ns[low]} ns or more, at stamp "
        f"{bounds.stamp_ns[high]} {bounds.high_ns[high]} ns or less; the clock was set or suspended in between, it "
        "differs from CPU to CPU, or the sides are of two runs; trace with trace_clock mono"
    )
