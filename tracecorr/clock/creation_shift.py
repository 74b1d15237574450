"""The shift of a trace's clock that puts a CREATE_QUEUE ioctl into every queue creation of the log."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import Bounds, Floats, Ints, Mask, no_bounds
from tracecorr.clock.clock_map import MAX_RATE

# Fewer creations are put together by chance; more of them than this tell nothing new.
_LEAST, _MOST = 3, 32
_MOST_IOCTLS = 256
# What the clock may drift within one creation.
_SLACK_NS = 1_000


def bound_by_shift(creations: pl.DataFrame, ioctls: pl.DataFrame, steps: tuple[int, int]) -> Bounds:
    """Return what queue creations say of a trace's clock by themselves, when one shift alone explains all of them.

    For when nothing tells which thread of the trace is which of the log's.

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
    chosen = choose_ioctls(low, high, fits, stamp)
    return no_bounds() if chosen is None else _bound_each(low, high, chosen, stamp)


def choose_ioctls(low: Ints, high: Ints, fits: Mask, stamp: Ints) -> Mask | None:
    """Return which ioctls may be those of which creations; None where no shift puts one into each, or several do.

    Args:
        low: least shift of the clock that puts an ioctl (column) into a creation (row), ns.
        high: greatest such shift, ns.
        fits: which of them can be at all.
        stamp: when the ioctls began, ns of the trace's clock.
    """
    shifts = [found for j in np.flatnonzero(fits[0]) if (found := _shift(low, high, fits, stamp, int(j))) is not None]
    if not shifts or any(_apart(shifts[0], other) for other in shifts[1:]):
        return None
    return _likeliest(low, high, np.logical_or.reduce(shifts), stamp)


def _likeliest(low: Ints, high: Ints, chosen: Mask, stamp: Ints) -> Mask | None:
    """Return the ioctls of those neighbouring shifts that put most of them into creations; None where two do.

    A shift that is too long by one creation leaves the last ioctl over, and ROCr's own queue to the first creation.
    """
    row, column = np.nonzero(chosen)
    drift = MAX_RATE * np.abs(stamp[column] - stamp[column[0]])
    least, most = low[row, column] - drift, high[row, column] + drift
    ends = np.unique([*least, *most])
    counts: list[int] = []
    found: list[Mask] = []
    was_fit = False
    for shift in np.unique([*ends, *(ends[1:] + ends[:-1]) / 2]):
        inside = (least <= shift) & (shift <= most)
        is_fit = len(np.unique(row[inside])) == len(low)
        if is_fit and not was_fit:
            counts.append(0)
            found.append(np.zeros(len(row), dtype=bool))
        if is_fit:
            counts[-1] = max(counts[-1], len(np.unique(column[inside])))
            found[-1] |= inside
        was_fit = is_fit
    if counts.count(max(counts, default=0)) != 1:
        return None
    best = found[int(np.argmax(counts))]
    left = np.zeros_like(chosen)
    left[row[best], column[best]] = True
    return left


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


def _bound_each(low: Ints, high: Ints, chosen: Mask, stamp: Ints) -> Bounds:
    """Return the bounds of each creation; where several ioctls may be its own, what each of them allows."""
    at = stamp[chosen.argmax(axis=1)]
    far = np.iinfo(np.int64).max // 4
    return Bounds(
        at, np.where(chosen, low, far).min(axis=1) - _SLACK_NS, np.where(chosen, high, -far).max(axis=1) + _SLACK_NS
    )
