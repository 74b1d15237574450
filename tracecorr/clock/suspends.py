"""Suspends: a clock that goes on while CLOCK_MONOTONIC stands jumps in its own stamps, seen by the evidence or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities
from tracecorr.clock.pieces import Piece, Pieces

# No machine stops its devices and starts them again faster: shorter gaps between stamps hold no suspend.
SHORTEST_NS = 3e8


def settle_steps(curve: Pieces, stamps: Floats) -> Pieces:
    """Return the curve with each step at the gap in the source's own stamps that the step made.

    Where no gap is long enough, or two are, the moment of the step stays open.

    Args:
        curve: the pieces.
        stamps: sorted stamps of everything that the source recorded, on the scale of the curve.
    """
    pieces = list(curve.pieces)
    for k in range(len(pieces) - 1):
        ends = np.array([pieces[k].last]), np.array([pieces[k + 1].first])
        jump = float(pieces[k].bound(ends[0])[0][0] - pieces[k + 1].bound(ends[1])[1][0])
        inside = stamps[(stamps >= ends[0][0]) & (stamps <= ends[1][0])]
        long = np.flatnonzero(np.diff(inside) >= jump)
        if jump > 0 and len(long) == 1:
            pieces[k] = replace(pieces[k], last=float(inside[long[0]]))
            pieces[k + 1] = replace(pieces[k + 1], first=float(inside[long[0] + 1]))
    return replace(curve, pieces=tuple(pieces))


def allow_unseen(curve: Pieces, stamps: Floats, given: Inequalities) -> Pieces:
    """Return the curve with wider bounds where the source may have been suspended without any inequality to show it.

    Such a clock's offset falls, by no more than the gap in its stamps. A lower bound from before the gap says nothing
    behind it but with that length taken off, an upper one from behind it nothing before it: a suspend behind the last
    lower bound, or before the first upper one, would be seen by nothing.

    Args:
        curve: of a clock that runs at one rate with CLOCK_MONOTONIC.
        stamps: sorted stamps of everything that the source recorded, on the scale of the curve.
        given: the inequalities.
    """
    x, low, high = given
    lowest, highest = curve.bound(x)
    kept = Inequalities(x, np.where(low > highest, -np.inf, low), np.where(high < lowest, np.inf, high))
    spans = []
    for piece, start, end in zip(curve.pieces, *curve.reach, strict=True):
        inside, own = (x >= start) & (x <= end), stamps[(stamps >= start) & (stamps <= end)]
        spans += [
            (max(first, start), min(last, end), least, most)
            for first, last, least, most in _list_unseen(piece, own, kept[inside])
        ]
    return replace(curve, unclear=(*curve.unclear, *spans))


def _list_unseen(piece: Piece, stamps: Floats, given: Inequalities) -> list[tuple[float, float, float, float]]:
    """Return each stretch of stamps without a long gap, with the bounds there, if they are wider than the piece's."""
    gaps = np.flatnonzero(np.diff(stamps) >= SHORTEST_NS)
    if not len(gaps):
        return []
    slept = np.concatenate([[0.0], np.cumsum(stamps[gaps + 1] - stamps[gaps])])
    stretch = np.searchsorted(stamps[gaps + 1], given.x, side="right")
    lows, highs = np.full(len(slept), -np.inf), np.full(len(slept), np.inf)
    np.maximum.at(lows, stretch, given.low)
    np.minimum.at(highs, stretch, given.high)
    lowest = np.maximum(np.maximum.accumulate(lows[::-1])[::-1], np.maximum.accumulate(lows + slept) - slept)
    highest = np.minimum(np.minimum.accumulate(highs), np.minimum.accumulate((highs + slept)[::-1])[::-1] - slept)
    firsts, lasts = np.append(-np.inf, stamps[gaps + 1]), np.append(stamps[gaps], np.inf)
    wider = (lowest < piece.low.min() - 1) | (highest > piece.high.max() + 1)
    columns = (side[wider].tolist() for side in (firsts, lasts, lowest, highest))
    return list(zip(*columns, strict=True))
