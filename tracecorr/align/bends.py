"""Bends: where one change of the rate explains what no single line does, the slopes are those of both lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.align.bounds import Floats
from tracecorr.align.lines import Lines, fit_lines, keep_corners
from tracecorr.align.slopes import Rates, Slopes

# Parts of a span in which the change may lie.
_BLOCKS = 32
# Two lines that leave less than this part of the room of short windows hide more than one change. What room they lack
# a slope that goes on changing may have taken: it differs by this many times that, per length of the span.
_ROOM = 0.75
_HIDDEN = 16.0
# Inequalities in a short window, and how many such windows tell how much room there is without a change, when
# some may hold one.
_ENOUGH = 24
_LEAST_WINDOWS, _MOST_WINDOWS, _CHANGES = 8, 32, 2


@dataclass(frozen=True)
class _Bend:
    """Hold two lines that meet in a block: number of the block, the lines before and behind it."""

    block: int
    before: Lines
    behind: Lines

    @property
    def room(self) -> float:
        """Return the room of the narrower one."""
        return min(self.before.room, self.behind.room)


def narrow_slopes(slopes: Slopes, x: Floats, low: Floats, high: Floats, rates: Rates) -> Slopes | None:
    """Return the limits of the slope with what one change of the rate within a span leaves of them there.

    Args:
        slopes: limits.
        x, low, high: the inequalities of the span, sorted; infinite where there is none.
        rates: what is known of the slope.

    Returns: None when one change alone does not explain the span, or it says too little of that.
    """
    inside = _room_of_windows(x, low, high, rates)
    edges = np.linspace(x[0], x[-1], _BLOCKS + 1)
    bends = _list_bends(edges, x, low, high, rates) if np.isfinite(inside) else []
    if bends:
        # Within the blocks that may hold the change shorter ones tell more.
        first, last = bends[0].block, bends[-1].block + 1
        finer = np.linspace(edges[first], edges[last], _BLOCKS + 1)
        edges = np.concatenate([edges[:first], finer, edges[last + 1 :]])
        bends = _list_bends(edges, x, low, high, rates)
    room = max((bend.room for bend in bends), default=0.0)
    if not bends or room < _ROOM * inside:
        return None
    # Less room than in short windows is what the lines hide.
    margin = rates.wander + _HIDDEN * max(inside - room, 0.0) / (x[-1] - x[0])
    least, most = _limits(bends, len(edges) - 1)
    return _intersect(slopes, edges, least - margin, most + margin)


def _room_of_windows(x: Floats, low: Floats, high: Floats, rates: Rates) -> float:
    """Return the room that short windows of a span have, also where some of them hold a change; infinite if unknown."""
    count = min(len(x) // _ENOUGH, _MOST_WINDOWS)
    if count < _LEAST_WINDOWS:
        return np.inf
    rows = np.array_split(np.arange(len(x)), count)
    found = [fit_lines(x[own], low[own], high[own], rates.middle, rates.reach) for own in rows]
    return float(np.sort([lines.room if lines else np.inf for lines in found])[_CHANGES])


def _list_bends(edges: Floats, x: Floats, low: Floats, high: Floats, rates: Rates) -> list[_Bend]:
    """Return two lines that meet, for each block in which they can."""
    rows = np.split(np.arange(len(x)), np.searchsorted(x, edges[1:-1]))
    corners = [keep_corners(x[own], low[own], high[own]) for own in rows]
    found = []
    for block in range(1, len(rows) - 1):
        before = fit_lines(*_join(corners[:block]), rates.middle, rates.reach)
        if before is None:
            break
        behind = fit_lines(*_join(corners[block + 1 :]), rates.middle, rates.reach)
        if behind is not None and _meet(before, behind, edges[block : block + 2]):
            found.append(_Bend(block, before, behind))
    return found


def _join(parts: list[tuple[Floats, Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    x, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    return x, low, high


def _meet(before: Lines, behind: Lines, at: Floats) -> bool:
    one, other = ((lines.offsets[:, None] + lines.rates[:, None] * at) for lines in (before, behind))
    return bool(one.min() <= other.max() and other.min() <= one.max())


def _limits(bends: list[_Bend], count: int) -> tuple[Floats, Floats]:
    """Return the least and the largest slope of each block."""
    first, last = bends[0].block, bends[-1].block
    before = [bend.before.rates for bend in bends]
    behind = [bend.behind.rates for bend in bends]
    blocks = np.arange(count)
    early, late = blocks <= last, blocks >= first
    least = np.minimum(
        np.where(early, min(r.min() for r in before), np.inf), np.where(late, min(r.min() for r in behind), np.inf)
    )
    most = np.maximum(
        np.where(early, max(r.max() for r in before), -np.inf), np.where(late, max(r.max() for r in behind), -np.inf)
    )
    return least, most


def _intersect(slopes: Slopes, edges: Floats, least: Floats, most: Floats) -> Slopes | None:
    """Return limits narrowed to others between `edges`; None where both exclude each other."""
    cuts = np.union1d(slopes.edges, edges)
    place = np.clip(np.searchsorted(slopes.edges, cuts, side="right") - 1, 0, len(slopes.edges) - 1)
    block = np.searchsorted(edges, cuts, side="right") - 1
    inside = (block >= 0) & (block < len(least))
    block = np.clip(block, 0, len(least) - 1)
    low = np.where(inside, np.maximum(slopes.low[place], least[block]), slopes.low[place])
    high = np.where(inside, np.minimum(slopes.high[place], most[block]), slopes.high[place])
    return Slopes(cuts, low, high) if (low <= high).all() else None
