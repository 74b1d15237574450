"""The shift of a trace's clock that puts a CREATE_QUEUE ioctl into every queue creation of the log.

For when nothing tells which thread of the trace is which of the log's.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.bounds import Bounds, Floats, Ints, Mask, no_bounds
from tracecorr.align.clock_map import MAX_RATE

# Fewer creations are put together by chance; more of them than this tell nothing new.
_LEAST, _MOST = 3, 32
_MOST_IOCTLS = 256
# What the clock may drift within one creation.
_SLACK_NS = 1_000


def bound_by_shift(creations: pl.DataFrame, ioctls: pl.DataFrame, steps: tuple[int, int]) -> Bounds:
    """Return what queue creations say of a trace's clock by themselves, when one shift alone explains all of them.

    Args:
        creations: columns process, from_ns, to_ns (log clock).
        ioctls: CREATE_QUEUE ioctls of the trace: columns process, stamp_ns, end_stamp_ns.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    creations, ioctls = creations.sort("to_ns").head(_MOST), ioctls.sort("stamp_ns").head(_MOST_IOCTLS)
    # Another run of the same program makes its queues at the same pace: only a process that both sides name will do.
    fits = creations["process"].to_numpy()[:, None] == ioctls["process"].to_numpy()
    if len(creations) < _LEAST or not fits.any():
        return no_bounds()
    stamp, end = ioctls["stamp_ns"].to_numpy(), ioctls["end_stamp_ns"].to_numpy()
    low = creations["from_ns"].to_numpy()[:, None] - stamp - steps[1]
    high = creations["to_ns"].to_numpy()[:, None] - end + steps[0]
    fits &= low <= high
    shifts = [found for j in np.flatnonzero(fits[0]) if (found := _shift(low, high, fits, stamp, int(j))) is not None]
    if not shifts or any(_apart(shifts[0], other) for other in shifts[1:]):
        return no_bounds()
    return _hull(low, high, np.logical_or.reduce(shifts), stamp)


def _shift(low: Ints, high: Ints, fits: Mask, stamp: Ints, first: int) -> Mask | None:
    """Return which ioctls lie in which creations when ioctl `first` lies in the first one; None if some hold none."""
    drift: Floats = MAX_RATE * np.abs(stamp - stamp[first])
    least, most = low[0, first], high[0, first]
    while True:
        chosen: Mask = fits & (low - drift <= most) & (high + drift >= least)
        if not chosen.any(axis=1).all() or chosen.any(axis=0).sum() < len(low):
            return None
        lows, highs = np.where(chosen, low - drift, np.inf), np.where(chosen, high + drift, -np.inf)
        narrower = lows.min(axis=1).max(), highs.max(axis=1).min()
        if narrower[0] > narrower[1]:
            return None
        if narrower[0] <= least and narrower[1] >= most:
            return chosen
        least, most = max(least, narrower[0]), min(most, narrower[1])


def _apart(one: Mask, other: Mask) -> bool:
    """Tell whether two shifts share no ioctl in some creation."""
    return not (one & other).any(axis=1).all()


def _hull(low: Ints, high: Ints, chosen: Mask, stamp: Ints) -> Bounds:
    """Return the bounds of each creation; where several ioctls may be its own, what each of them allows."""
    at = stamp[chosen.argmax(axis=1)]
    far = np.iinfo(np.int64).max // 4
    return Bounds(
        at, np.where(chosen, low, far).min(axis=1) - _SLACK_NS, np.where(chosen, high, -far).max(axis=1) + _SLACK_NS
    )
