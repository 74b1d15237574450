"""A clock map: every straight line (offset, rate) that agrees with all the bounds seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# NTP slews CLOCK_MONOTONIC by at most 500 ppm (adjtimex); no clock of the kernel drifts more from it.
MAX_RATE = 500e-6


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

    def keep(self, mask: NDArray[np.bool_]) -> Bounds:
        """Return the inequalities that `mask` selects."""
        return Bounds(self.stamp_ns[mask], self.low_ns[mask], self.high_ns[mask])


NO_LOW, NO_HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def join_bounds(*parts: Bounds) -> Bounds:
    """Return all the inequalities of `parts`."""
    return Bounds(
        np.concatenate([p.stamp_ns for p in parts]),
        np.concatenate([p.low_ns for p in parts]),
        np.concatenate([p.high_ns for p in parts]),
    )


@dataclass(frozen=True)
class ClockMap:
    """Map one clock to the host's CLOCK_MONOTONIC.

    Args:
        base_offset_ns, base_stamp_ns: origin of the lines; floats stay small and exact around it.
        offsets, rates: corners of the set of lines that satisfy every bound; the offset of line i at
            stamp t is base_offset_ns + offsets[i] + rates[i] * (t - base_stamp_ns).
        method: `same_clock`, `samples`, `causal_pairs` or `unaligned`.
    """

    method: str
    base_offset_ns: int = 0
    base_stamp_ns: int = 0
    offsets: Floats = field(default_factory=lambda: np.zeros(1))
    rates: Floats = field(default_factory=lambda: np.zeros(1))
    pairs: int = 0
    violated: int = 0
    reason: str = ""

    @property
    def aligned(self) -> bool:
        """Tell whether the map has bounds."""
        return self.method != "unaligned"

    def offset_at(self, stamps: Ints) -> tuple[Ints, Ints, Ints]:
        """Return offset, and how far the true offset may lie below and above it, at each stamp."""
        since = (stamps - self.base_stamp_ns).astype(np.float64)
        centre = self.offsets.mean() + self.rates.mean() * since
        low = np.full(len(stamps), np.inf)
        high = np.full(len(stamps), -np.inf)
        for offset, rate in zip(self.offsets, self.rates, strict=True):
            line = offset + rate * since
            low, high = np.minimum(low, line), np.maximum(high, line)
        rounded = np.rint(centre)
        below = np.ceil(np.maximum(rounded - low, 0)).astype(np.int64)
        above = np.ceil(np.maximum(high - rounded, 0)).astype(np.int64)
        return rounded.astype(np.int64) + self.base_offset_ns, below, above

    def summarize(self, source: str, first_ns: int, last_ns: int) -> dict[str, Any]:
        """Return the map's row of the table `clock_map`."""
        offset, below, above = self.offset_at(np.array([first_ns, last_ns], dtype=np.int64))
        return {
            "source": source, "from_ns": first_ns, "to_ns": last_ns, "offset_ns": int(offset[0]),
            "rate_ppb": round(float(self.rates.mean()) * 1e9),
            "lo_ns": int(below.max()) if self.aligned else None,
            "hi_ns": int(above.max()) if self.aligned else None,
            "pairs": self.pairs, "violated": self.violated, "method": self.method,
        }  # fmt: skip


def fit_clock_map(bounds: Bounds, method: str) -> ClockMap:
    """Return the map of all lines that satisfy `bounds`, or one that is unaligned with its reason.

    Bounds that contradict the largest set of agreeing ones are left out and counted as violated;
    when they are more than one in a hundred the clock counts as unaligned.
    """
    usable = bounds.keep((bounds.low_ns != NO_LOW) | (bounds.high_ns != NO_HIGH))
    if not (usable.low_ns != NO_LOW).any() or not (usable.high_ns != NO_HIGH).any():
        return ClockMap("unaligned", pairs=len(usable), reason="no pair bounds the offset on both sides")
    fitted = _fit(usable, method)
    if fitted is not None:
        return fitted
    agreeing = usable.keep(_largest_agreement(usable))
    violated = len(usable) - len(agreeing)
    fitted = _fit(agreeing, method)
    if fitted is None or violated * 100 > len(usable):
        return ClockMap(
            "unaligned", pairs=len(usable), violated=violated,
            reason=f"{violated} of {len(usable)} pairs contradict the others",
        )  # fmt: skip
    return ClockMap(
        method, fitted.base_offset_ns, fitted.base_stamp_ns, fitted.offsets, fitted.rates, len(usable), violated
    )


def _fit(bounds: Bounds, method: str) -> ClockMap | None:
    if len(bounds) == 0:
        return None
    base_stamp = int(bounds.stamp_ns.min())
    base_offset = int(np.median(np.where(bounds.low_ns != NO_LOW, bounds.low_ns, bounds.high_ns)))
    since = (bounds.stamp_ns - base_stamp).astype(np.float64)
    has_low, has_high = bounds.low_ns != NO_LOW, bounds.high_ns != NO_HIGH
    if not has_low.any() or not has_high.any():
        return None
    floor = _hull(since[has_low], (bounds.low_ns[has_low] - base_offset).astype(np.float64), upper=True)
    roof = _hull(since[has_high], (bounds.high_ns[has_high] - base_offset).astype(np.float64), upper=False)
    offsets, rates = _candidate_lines(np.vstack([floor, roof]))
    # 0.01 ns of slack absorbs the rounding of floats; stamps are whole nanoseconds.
    fits = np.abs(rates) <= MAX_RATE * (1 + 1e-9)
    for x, y in floor:
        fits &= offsets + rates * x >= y - 0.01
    for x, y in roof:
        fits &= offsets + rates * x <= y + 0.01
    if not fits.any():
        return None
    corners = np.unique(np.column_stack([offsets[fits], rates[fits]]), axis=0)
    return ClockMap(method, base_offset, base_stamp, corners[:, 0], corners[:, 1], len(bounds), 0)


def _candidate_lines(points: Floats) -> tuple[Floats, Floats]:
    # A corner of the feasible set is a line through two hull points, or through one at the largest rate.
    first, second = np.triu_indices(len(points), k=1)
    distance = points[second, 0] - points[first, 0]
    apart = distance != 0
    rates = (points[second, 1] - points[first, 1])[apart] / distance[apart]
    offsets = points[first, 1][apart] - rates * points[first, 0][apart]
    steep = np.repeat([-MAX_RATE, MAX_RATE], len(points))
    through = np.tile(points, (2, 1))
    return np.concatenate([offsets, through[:, 1] - steep * through[:, 0]]), np.concatenate([rates, steep])


def _hull(x: Floats, y: Floats, *, upper: bool) -> Floats:
    sign = -1.0 if upper else 1.0
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), (sign * y).tolist(), strict=True)):
        while len(hull) >= 2 and _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return np.array([(px, sign * py) for px, py in hull])


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0


def _largest_agreement(bounds: Bounds) -> NDArray[np.bool_]:
    """Mark the bounds that hold at the constant offset which the most of them allow."""
    edges = np.unique(
        np.concatenate([bounds.low_ns[bounds.low_ns != NO_LOW], bounds.high_ns[bounds.high_ns != NO_HIGH]])
    )
    low, high = np.sort(bounds.low_ns), np.sort(bounds.high_ns)
    allowed = np.searchsorted(low, edges, side="right") - np.searchsorted(high, edges, side="left")
    best = edges[int(np.argmax(allowed))]
    return np.asarray((bounds.low_ns <= best) & (best <= bounds.high_ns))
