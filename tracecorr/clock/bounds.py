"""Inequalities that speak of one clock, and what can be said of them before any line is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

NO_LOW, NO_HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max

# Neighbours in time that are asked together which of them contradict the others.
_WINDOW = 64
# A window whose largest agreement is smaller than this share says nothing of who is wrong.
_MAJORITY = 0.75
# Parts of the trace in which a tight inequality of either side is kept.
_BUCKETS = 1500
# What is longer than so many typical steps from one to the next is a pause.
_PAUSE = 100
# Of many inequalities the very tightest are the likeliest to be wrong: this share of a part is passed over.
_TRIM = 0.02
# Where some may be wrong, a part holds at least so many inequalities.
_FULL = 80


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

    def keep(self, chosen: Mask | Ints) -> Bounds:
        """Return the inequalities that a mask or indices select."""
        return Bounds(self.stamp_ns[chosen], self.low_ns[chosen], self.high_ns[chosen])

    def sort(self) -> Bounds:
        """Return the inequalities in the order of their stamps."""
        return self.keep(np.argsort(self.stamp_ns, kind="stable"))

    def around(self, base_stamp_ns: int, base_offset_ns: int) -> Inequalities:
        """Return the inequalities as floats around an origin."""
        low = np.where(self.low_ns == NO_LOW, -np.inf, (self.low_ns - base_offset_ns).astype(np.float64))
        high = np.where(self.high_ns == NO_HIGH, np.inf, (self.high_ns - base_offset_ns).astype(np.float64))
        return Inequalities((self.stamp_ns - base_stamp_ns).astype(np.float64), low, high)


@dataclass(frozen=True)
class Inequalities:
    """Hold inequalities as floats around an origin, which stay small and exact there.

    Args:
        x: stamps, ns; sorted unless said otherwise.
        low, high: bounds of the offset at each stamp, ns; infinite where there is none.
    """

    x: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[Floats]:
        """Yield stamps, lower and upper bounds."""
        yield from (self.x, self.low, self.high)

    def __getitem__(self, rows: Mask | Ints | slice | list[int]) -> Inequalities:
        """Return the inequalities that a mask, indices or a slice select."""
        return Inequalities(self.x[rows], self.low[rows], self.high[rows])

    def level(self, by: Floats) -> Inequalities:
        """Return the inequalities of what is left of the offset when `by` is taken off."""
        return Inequalities(self.x, self.low - by, self.high - by)

    @property
    def width(self) -> Floats:
        """Return how far the bounds of each lie apart."""
        return self.high - self.low

    @property
    def has_both_sides(self) -> Mask:
        """Tell which of them bound the offset on both sides."""
        both: Mask = np.isfinite(self.low) & np.isfinite(self.high)
        return both

    @property
    def is_two_sided(self) -> bool:
        """Tell whether they bound the offset on both sides, if not at one stamp."""
        return bool(np.isfinite(self.low).any() and np.isfinite(self.high).any())


def no_bounds() -> Bounds:
    """Return bounds that say nothing."""
    return Bounds(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def join_bounds(*parts: Bounds) -> Bounds:
    """Return all the inequalities of `parts`."""
    return Bounds(
        np.concatenate([p.stamp_ns for p in parts]),
        np.concatenate([p.low_ns for p in parts]),
        np.concatenate([p.high_ns for p in parts]),
    )


def find_outliers(given: Inequalities, rate: float, max_rate: float) -> Mask:
    """Mark the inequalities that contradict the majority of their neighbours in time.

    Within a window every inequality is widened by what the clock may drift there, so that one offset must
    satisfy all of them; those that the most allowed offset violates are marked, when others that it satisfies lie on
    both sides of them.

    Args:
        given: the inequalities.
        rate: known slope of the offset.
        max_rate: how far the slope may lie from it.
    """
    out = np.zeros(len(given), dtype=np.bool_)
    for shift in (0, _WINDOW // 2):
        rows = (len(given) - shift) // _WINDOW
        if rows <= 0:
            continue
        part = slice(shift, shift + rows * _WINDOW)
        out[part] |= _contradicting(given[part], rate, max_rate).ravel()
    return out


def _contradicting(given: Inequalities, rate: float, max_rate: float) -> Mask:
    x, low, high = (side.reshape(-1, _WINDOW) for side in given)
    centre = (x[:, :1] + x[:, -1:]) / 2
    drift = (x - centre) * rate
    reach = np.abs(x - centre) * max_rate
    low, high = low - drift - reach, high - drift + reach
    lows, highs = np.sort(low, axis=1), np.sort(high, axis=1)
    edges = np.concatenate([lows, highs], axis=1)
    allowed = np.stack([
        np.searchsorted(a, e, side="right") - np.searchsorted(b, e, side="left")
        for a, b, e in zip(lows, highs, edges, strict=True)
    ])  # fmt: skip
    allowed[~np.isfinite(edges)] = -1
    best = allowed.argmax(axis=1)
    at = np.take_along_axis(edges, best[:, None], axis=1)
    agreed = np.take_along_axis(allowed, best[:, None], axis=1)
    marked: Mask = (_inside(low > at, low) | _inside(high < at, high)) & (agreed >= _MAJORITY * x.shape[1])
    return marked


def _inside(marked: Mask, side: Floats) -> Mask:
    """Return the marks without those at either end of their window: the clock may have stepped in between."""
    alike = marked | ~np.isfinite(side)
    ends = np.logical_and.accumulate(alike, axis=1) | np.logical_and.accumulate(alike[:, ::-1], axis=1)[:, ::-1]
    within: Mask = marked & ~ends
    return within


def pick_tightest(given: Inequalities, trim: bool) -> Ints:
    """Return the indices of tight lower and upper bounds in each short part of the time, as many as tell enough of it.

    Few inequalities are all returned.

    Args:
        given: the inequalities.
        trim: whether some may be wrong: the very tightest of each part are passed over.
    """
    x = given.x
    if len(x) <= 2 * _BUCKETS:
        return np.arange(len(x), dtype=np.int64)
    count = min(_BUCKETS, len(x) // _FULL) if trim else _BUCKETS
    # Where there is nothing for long (a suspend, a pause) no part is needed.
    step = np.diff(x, prepend=x[0])
    along = np.cumsum(np.minimum(step, _PAUSE * max(float(np.median(step)), 1.0)))
    bucket = np.minimum((along / max(along[-1], 1.0) * count).astype(np.int64), count - 1)
    # Of few parts several each: what happened within one, such as a step, is seen, too.
    each = _BUCKETS // count
    best = [_tight_of_each(bucket, -given.low, each, trim), _tight_of_each(bucket, given.high, each, trim)]
    picked: Ints = np.unique(np.concatenate(best)).astype(np.int64)
    return picked


def _tight_of_each(bucket: Ints, key: Floats, each: int, trim: bool) -> Ints:
    rows = np.flatnonzero(np.isfinite(key))
    order = rows[np.argsort(key[rows], kind="stable")]
    # Of 16 bits: numpy sorts those by radix.
    order = order[np.argsort(bucket[order].astype(np.int16), kind="stable")]
    _, first, size = np.unique(bucket[order], return_index=True, return_counts=True)
    passed = np.where((size >= _FULL // 4) & trim, (size * _TRIM).astype(np.int64) + 2, 0)
    rank = np.arange(len(order)) - np.repeat(first + passed, size)
    chosen: Ints = order[(rank >= 0) & (rank < each)]
    return chosen
