"""Inequalities that speak of one clock: between which offsets from CLOCK_MONOTONIC it is at a stamp."""

from __future__ import annotations

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
