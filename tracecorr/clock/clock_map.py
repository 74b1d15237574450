"""A clock map: the offset of one clock from CLOCK_MONOTONIC at every time, and how far the truth may lie from it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracecorr.clock.hull import Bounds, ContradictionError, Floats, Hull, Ints, fit_hull, widest_line

# NTP slews CLOCK_MONOTONIC by at most 500 ppm (adjtimex); the crystal behind an unslewed clock adds some.
MAX_RATE = 600e-6
# If a line of the clock's own rate has this share of the room of the best line, durations stay as printed.
_OWN_RATE_ROOM = 0.5
_PPB = 1e9


@dataclass(frozen=True)
class Lines:
    """Hold the lines that are shown as the offset of a clock.

    Args:
        from_ns, to_ns: first and last stamp of each line.
        offset_ns: the offset at the first stamp.
        rate_ppb: growth of the offset, ns per s of stamp.
    """

    from_ns: Ints
    to_ns: Ints
    offset_ns: Ints
    rate_ppb: Ints

    def find(self, stamps: Ints) -> Ints:
        """Return the line of each stamp; the first and the last one go on."""
        at: Ints = np.clip(np.searchsorted(self.from_ns, stamps, side="right") - 1, 0, None)
        return at

    def offset_at(self, stamps: Ints) -> Ints:
        """Return the offset that is shown at each stamp."""
        at = self.find(stamps)
        grown = np.rint(self.rate_ppb[at] / _PPB * (stamps - self.from_ns[at])).astype(np.int64)
        offset: Ints = self.offset_ns[at] + grown
        return offset


@dataclass(frozen=True)
class ClockMap:
    """Map one clock to the host's CLOCK_MONOTONIC.

    Args:
        method: `same_clock`, `samples`, `causal_pairs` or `unaligned`.
        shift_ns: offset of a map without a hull; with one, what is added to all of its offsets, and taken from stamps.
        hull: bounds of the offset; None if it is `shift_ns` throughout.
        lines: what is shown between the bounds; there where a hull is.
        pairs, violated: inequalities given, and how many of them the map contradicts.
        reason: why the clock is unaligned.
    """

    method: str
    shift_ns: int = 0
    hull: Hull | None = None
    lines: Lines | None = None
    pairs: int = 0
    violated: int = 0
    reason: str = ""

    @property
    def aligned(self) -> bool:
        """Tell whether the map has bounds."""
        return self.method != "unaligned"

    def offset_at(self, stamps: Ints) -> tuple[Ints, Ints, Ints]:
        """Return offset, and how far the true offset may lie below and above it, at each stamp."""
        if self.hull is None or self.lines is None:
            nothing = np.zeros(len(stamps), dtype=np.int64)
            return nothing + self.shift_ns, nothing, nothing
        own = stamps + self.shift_ns
        low, high = self.hull.bound(own)
        offset = self.lines.offset_at(own)
        centre = (offset - self.hull.base_offset_ns).astype(np.float64)
        below = np.ceil(np.maximum(centre - low, 0)).astype(np.int64)
        above = np.ceil(np.maximum(high - centre, 0)).astype(np.int64)
        return offset + self.shift_ns, below, above

    def to_common(self, stamps: Ints) -> Ints:
        """Return the times on CLOCK_MONOTONIC that the map shows for stamps of the source."""
        return stamps + self.offset_at(stamps)[0]

    def bound(self, stamps: Ints) -> tuple[Ints, Ints]:
        """Return the least and the largest offset that each stamp can have."""
        offset, below, above = self.offset_at(stamps)
        return offset - below, offset + above

    def shifted(self, shift_ns: int) -> ClockMap:
        """Return the map of a clock that shows `shift_ns` less than this one, to the same common clock."""
        return replace(self, shift_ns=self.shift_ns + shift_ns)

    def drawn(self, first_ns: int, last_ns: int, likely_ns: int | None = None) -> ClockMap:
        """Return the map with the lines that are shown from the first to the last stamp of its source.

        Args:
            first_ns, last_ns: the stamps.
            likely_ns: the offset that is shown where the bounds allow it.
        """
        if self.hull is None:
            return self
        return replace(self, lines=_draw_lines(self.hull, first_ns, last_ns, likely_ns))

    def summarize(self, source: str, first_ns: int, last_ns: int) -> list[dict[str, Any]]:
        """Return the map's rows of the table `clock_map`: one per line that is shown.

        Args:
            source: source and clock.
            first_ns, last_ns: first and last stamp of the source; evidence of the clock may lie beyond.
        """
        if self.hull is None or self.lines is None:
            known = 0 if self.aligned else None
            one = {"from_ns": first_ns, "to_ns": last_ns, "offset_ns": self.shift_ns, "rate_ppb": 0}
            pieces: list[dict[str, int | None]] = [{**one, "lo_ns": known, "hi_ns": known, "width_ns": known}]
        else:
            pieces = self._list_lines(self.hull, self.lines)
        # Counted once, so that their sum is right.
        counts = [(self.pairs, self.violated), *[(None, None)] * (len(pieces) - 1)]
        return [
            {"source": source, **piece, "pairs": pairs, "violated": violated, "method": self.method}
            for piece, (pairs, violated) in zip(pieces, counts, strict=True)
        ]

    def _list_lines(self, hull: Hull, lines: Lines) -> list[dict[str, int | None]]:
        """Return the lines, with how far the bounds lie from each at most, and how wide they are."""
        turns = np.unique(np.concatenate([hull.list_turns(), lines.from_ns, lines.to_ns]))
        turns = turns[(turns >= lines.from_ns[0]) & (turns <= lines.to_ns[-1])]
        _, below, above = self.offset_at(turns - self.shift_ns)
        starts = np.searchsorted(turns, lines.from_ns)
        sides = (np.maximum.reduceat(side, starts) for side in (below, above, below + above))
        columns = (
            lines.from_ns - self.shift_ns, lines.to_ns - self.shift_ns, lines.offset_ns + self.shift_ns,
            lines.rate_ppb, *sides,
        )  # fmt: skip
        names = ("from_ns", "to_ns", "offset_ns", "rate_ppb", "lo_ns", "hi_ns", "width_ns")
        return [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]


def fit_clock_map(bounds: Bounds, method: str, max_rate: float = MAX_RATE, rate: float = 0.0) -> ClockMap:
    """Return the map that satisfies `bounds`, or one that is unaligned with its reason.

    It shows lines from the first to the last inequality; `drawn` makes those of a source's own stamps.

    Args:
        bounds: inequalities in any order.
        method: `samples` or `causal_pairs`.
        max_rate: largest drift against `rate`; 0 for clocks that run at one rate with CLOCK_MONOTONIC.
        rate: known growth of the offset per unit of stamp (a clock that counts other units).
    """
    usable = bounds.select_usable()
    if not usable.is_two_sided:
        return ClockMap("unaligned", pairs=len(usable), reason="no pair bounds the offset on both sides")
    try:
        hull, wrong = fit_hull(usable, rate, max_rate)
    except ContradictionError as error:
        return ClockMap("unaligned", pairs=len(usable), violated=error.violated, reason=str(error))
    fitted = ClockMap(method, hull=hull, pairs=len(usable), violated=int(wrong.sum()))
    return fitted.drawn(int(usable.stamp_ns[0]), int(usable.stamp_ns[-1]))


def _draw_lines(hull: Hull, first_ns: int, last_ns: int, likely_ns: int | None) -> Lines:
    """Return one line where one lies within the bounds, else as few as their bends need."""
    own = np.unique(np.concatenate([hull.x, [first_ns - hull.base_stamp_ns, last_ns - hull.base_stamp_ns]]))
    own = own[(own >= first_ns - hull.base_stamp_ns) & (own <= last_ns - hull.base_stamp_ns)]
    low, high = hull.bound_level(own)
    if likely_ns is not None:
        offset = np.clip(likely_ns - hull.base_offset_ns, low.max(), max(high.min(), low.max()))
        return _one_line(hull, first_ns, last_ns, 0.0, float(offset))
    rate, offset, room = widest_line(own, low, high, float(np.abs([hull.least, hull.most]).max()))
    flat = float(high.min() - low.max()) / 2
    if flat > 0 and flat >= _OWN_RATE_ROOM * room:
        rate, offset, room = 0.0, float(high.min() + low.max()) / 2, flat
    return _one_line(hull, first_ns, last_ns, rate, offset) if room >= 0 else _many_lines(hull, own)


def _one_line(hull: Hull, first_ns: int, last_ns: int, rate: float, offset: float) -> Lines:
    rate_ppb = round((rate + hull.rate) * _PPB)
    start = offset + (rate + hull.rate) * (first_ns - hull.base_stamp_ns)
    columns = ([first_ns], [last_ns], [round(start) + hull.base_offset_ns], [rate_ppb])
    return Lines(*(np.array(column, dtype=np.int64) for column in columns))


def _many_lines(hull: Hull, own: Floats) -> Lines:
    """Return lines through the middle of the bounds, from one of some stamps to another, that stay within the bounds.

    Args:
        hull: the bounds.
        own: stamps at which they are narrow, above `base_stamp_ns`.
    """
    low, high = (side + hull.rate * own for side in hull.bound_level(own))
    middle = np.rint((low + high) / 2)
    knots = np.array([0, len(own) - 1])
    while True:
        shown = np.interp(own, own[knots], middle[knots])
        beyond = np.maximum(low - shown, shown - high)
        # Of what a line leaves out the farthest becomes the end of two lines.
        farthest = [first + int(np.argmax(beyond[first : last + 1])) for first, last in itertools.pairwise(knots)]
        more = [row for row in farthest if beyond[row] > 1]
        if not more:
            break
        knots = np.unique([*knots, *more])
    stamps, offsets = own[knots], middle[knots]
    starts = stamps.astype(np.int64) + hull.base_stamp_ns
    return Lines(
        starts[:-1], np.append(starts[1:-1] - 1, starts[-1]), offsets[:-1].astype(np.int64) + hull.base_offset_ns,
        np.rint(np.diff(offsets) / np.diff(stamps) * _PPB).astype(np.int64),
    )  # fmt: skip
