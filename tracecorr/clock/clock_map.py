"""A clock map: what is known of the offset of one clock from CLOCK_MONOTONIC, at every time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracecorr.clock.bounds import (
    NO_HIGH,
    NO_LOW,
    Bounds,
    Floats,
    Inequalities,
    Ints,
    Mask,
    find_outliers,
    pick_tightest,
)
from tracecorr.clock.brackets import allow_any_rate, follow_samples
from tracecorr.clock.pieces import Pieces, split_pieces
from tracecorr.clock.set_back import describe_set_back, find_set_back
from tracecorr.clock.shown import Shown, draw_lines
from tracecorr.clock.slopes import Rates
from tracecorr.clock.suspends import allow_unseen, settle_steps

# NTP slews CLOCK_MONOTONIC by at most 500 ppm (adjtimex); the crystal behind an unslewed clock adds some.
MAX_RATE = 600e-6
# Within seconds the rate of a disciplined clock (NTP) moves by less than this unseen; pairs, which are wider than
# samples, hide more, and are so many that it costs nothing to allow for it.
_WANDER, _HIDDEN_WANDER = 0.5e-6, 2e-6
# A clock of which more than one inequality in twenty is contradicted by the others is not understood.
_MAX_WRONG = 0.05
# More pieces than one in this time are no corrections of a clock: the evidence contradicts itself.
_SHORTEST_PIECE_NS = 1_000_000_000


@dataclass(frozen=True)
class ClockMap:
    """Map one clock to the host's CLOCK_MONOTONIC.

    Args:
        method: `same_clock`, `samples`, `causal_pairs` or `unaligned`.
        shift_ns: offset of a map without pieces.
        base_offset_ns, base_stamp_ns: origin of the curve; floats stay small and exact around it.
        curve: spans of one rate; None where the offset is `shift_ns` throughout.
        pairs, violated: inequalities given, and how many of them the map contradicts.
        reason: why the clock is unaligned.
        likely_ns: offset that is shown where the bounds allow it, instead of their middle.
        steps_by: the inequalities of a clock that runs at one rate with CLOCK_MONOTONIC, and is only ever stepped.
        shown: the lines that are shown within the bounds; None = not drawn yet, the middle of the bounds is.
    """

    method: str
    shift_ns: int = 0
    base_offset_ns: int = 0
    base_stamp_ns: int = 0
    curve: Pieces | None = None
    pairs: int = 0
    violated: int = 0
    reason: str = ""
    likely_ns: int | None = None
    steps_by: Bounds | None = None
    shown: Shown | None = None

    @property
    def aligned(self) -> bool:
        """Tell whether the map has bounds."""
        return self.method != "unaligned"

    def offset_at(self, stamps: Ints) -> tuple[Ints, Ints, Ints]:
        """Return offset, and how far the true offset may lie below and above it, at each stamp."""
        if self.curve is None:
            nothing = np.zeros(len(stamps), dtype=np.int64)
            return nothing + self.shift_ns, nothing, nothing
        low, high = self.curve.bound((stamps - self.base_stamp_ns).astype(np.float64))
        if self.shown is not None:
            centre = (self.shown.offset_at(stamps) - self.base_offset_ns).astype(np.float64)
        elif self.likely_ns is not None:
            centre = np.rint(np.clip(self.likely_ns - self.base_offset_ns, low, high))
        else:
            centre = np.rint((low + high) / 2)
        below = np.ceil(np.maximum(centre - low, 0)).astype(np.int64)
        above = np.ceil(np.maximum(high - centre, 0)).astype(np.int64)
        return centre.astype(np.int64) + self.base_offset_ns, below, above

    def to_common(self, stamps: Ints) -> Ints:
        """Return the times on CLOCK_MONOTONIC that the map shows for stamps of the source."""
        return stamps + self.offset_at(stamps)[0]

    def bound(self, stamps: Ints) -> tuple[Ints, Ints]:
        """Return the least and the largest offset that each stamp can have."""
        offset, below, above = self.offset_at(stamps)
        return offset - below, offset + above

    def shifted(self, shift_ns: int) -> ClockMap:
        """Return the map of a clock that shows `shift_ns` less than this one, to the same common clock."""
        likely = None if self.likely_ns is None else self.likely_ns + shift_ns
        return replace(
            self, shift_ns=self.shift_ns + shift_ns, base_offset_ns=self.base_offset_ns + shift_ns,
            base_stamp_ns=self.base_stamp_ns - shift_ns, likely_ns=likely,
            shown=self.shown and self.shown.shifted(shift_ns),
        )  # fmt: skip

    def settle(self, stamps: Ints) -> ClockMap:
        """Return the map with its steps where the source's own stamps jump, and wide where an unseen one may be.

        Args:
            stamps: all stamps of the source, sorted.
        """
        if self.curve is None:
            return self
        at = (stamps - self.base_stamp_ns).astype(np.float64)
        curve = settle_steps(self.curve, at)
        if self.steps_by:
            curve = allow_unseen(curve, at, self.steps_by.around(self.base_stamp_ns, self.base_offset_ns))
        return replace(self, curve=curve, steps_by=None)

    def drawn(self, stamps: Ints) -> ClockMap:
        """Return the map with the lines that are shown for a source's stamps, sorted, instead of the bounds' middle."""
        if self.curve is None or not len(stamps):
            return self
        return replace(
            self, shown=draw_lines(self.curve, stamps, (self.base_stamp_ns, self.base_offset_ns), self.likely_ns)
        )

    def summarize(self, source: str, first_ns: int, last_ns: int) -> list[dict[str, Any]]:
        """Return the map's rows of the table `clock_map`: one per line that is shown.

        Args:
            source: source and clock.
            first_ns, last_ns: first and last stamp of the source; evidence of the clock may lie beyond.
        """
        drawn = self if self.shown else self.drawn(np.array([first_ns, last_ns]))
        if drawn.shown is None:
            known = 0 if self.aligned else None
            one = {"from_ns": first_ns, "to_ns": last_ns, "offset_ns": self.shift_ns, "rate_ppb": 0}
            pieces: list[dict[str, int | None]] = [{**one, "lo_ns": known, "hi_ns": known, "width_ns": known}]
        else:
            pieces = drawn.list_pieces(drawn.shown)
        # Counted once, so that their sum is right.
        counts = [(self.pairs, self.violated), *[(None, None)] * (len(pieces) - 1)]
        return [
            {"source": source, **piece, "pairs": pairs, "violated": violated, "method": self.method}
            for piece, (pairs, violated) in zip(pieces, counts, strict=True)
        ]

    def list_pieces(self, shown: Shown) -> list[dict[str, int | None]]:
        """Return the lines that are shown, with how far the bounds lie from each, and how wide they are."""
        stamps, starts = shown.spread_grid(self._list_turns())
        _, below, above = self.offset_at(stamps)
        sides = (np.maximum.reduceat(side, starts) for side in (below, above, below + above))
        columns = (shown.from_ns, shown.to_ns, shown.offset_ns, shown.rate_ppb, *sides)
        names = ("from_ns", "to_ns", "offset_ns", "rate_ppb", "lo_ns", "hi_ns", "width_ns")
        return [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def _list_turns(self) -> Ints:
        turns = np.concatenate([piece.list_turns() for piece in self.curve.pieces]) if self.curve else np.empty(0)
        stamps: Ints = np.concatenate([np.floor(turns), np.ceil(turns)]).astype(np.int64) + self.base_stamp_ns
        return stamps


def fit_clock_map(bounds: Bounds, method: str, max_rate: float = MAX_RATE, rate: float = 0.0) -> ClockMap:
    """Return the map that satisfies `bounds`, or one that is unaligned with its reason.

    The offset runs along straight pieces; a new one starts where no single rate satisfies all, as after a
    suspend or an NTP correction. Inequalities that contradict their neighbours are left out and counted as
    violated; when they are more than one in twenty the clock counts as unaligned.

    Args:
        bounds: inequalities in any order.
        method: `samples` or `causal_pairs`.
        max_rate: largest drift against `rate`; 0 for clocks that run at one rate with CLOCK_MONOTONIC.
        rate: known growth of the offset per ns of stamp (a clock that counts other units).
    """
    usable = bounds.keep((bounds.low_ns != NO_LOW) | (bounds.high_ns != NO_HIGH)).sort()
    total = len(usable)
    if not (usable.low_ns != NO_LOW).any() or not (usable.high_ns != NO_HIGH).any():
        return ClockMap("unaligned", pairs=total, reason="no pair bounds the offset on both sides")
    base_stamp = int(usable.stamp_ns[0])
    base_offset = int(np.median(np.where(usable.low_ns != NO_LOW, usable.low_ns, usable.high_ns)))
    given = usable.around(base_stamp, base_offset)
    back = find_set_back(given)
    if len(back):
        return ClockMap("unaligned", pairs=total, violated=len(back), reason=describe_set_back(back, total))
    good = ~find_outliers(given, rate, max_rate)
    # A mark names its sample; a causal pair may be of two things that only look alike.
    rates = Rates(rate, max_rate, (_WANDER if method == "samples" else _HIDDEN_WANDER) if max_rate else 0.0)
    if method == "samples" and max_rate:
        good &= ~_contradict_samples(given, rates)
    curve = _fit_curve(given[good], rates, trim=method != "samples")
    violated = _count_violated(curve, given) if curve else total
    reason = ""
    if curve is None:
        reason = _describe_misfit(given, max_rate)
    elif violated > _MAX_WRONG * total:
        reason = f"{violated} of {total} pairs contradict the others"
    elif len(curve.runs) > 3 + np.ptp(given.x) * (1 + rate) / _SHORTEST_PIECE_NS:
        reason = f"{total} pairs allow no steady clock: it would change its rate {len(curve.runs) - 1} times"
    if curve is None or reason:
        return ClockMap("unaligned", pairs=total, violated=violated, reason=reason)
    curve = curve.admit(given)
    steps_by = None if max_rate else usable
    return ClockMap(method, 0, base_offset, base_stamp, curve, total, violated, steps_by=steps_by)


def _contradict_samples(given: Inequalities, rates: Rates) -> Mask:
    """Mark the pairs that no curve through the samples allows, whatever the clock does between these."""
    sampled = given.has_both_sides
    parts = follow_samples(given[sampled], rates) if sampled.any() else []
    if len(parts) != 1:
        return np.zeros(len(given), dtype=np.bool_)
    least, largest = allow_any_rate(given[sampled][parts[0]], given.x, rates)
    return ~sampled & _contradict(given, least, largest)


def _describe_misfit(given: Inequalities, max_rate: float) -> str:
    back = find_set_back(given, sure=False)
    if len(back):
        return describe_set_back(back, len(given))
    rate = f"within {max_rate * 1e6:.0f} ppm of CLOCK_MONOTONIC's rate" if max_rate else "at CLOCK_MONOTONIC's rate"
    return f"no clock {rate} fits the {len(given)} pairs"


def _fit_curve(given: Inequalities, rates: Rates, trim: bool) -> Pieces | None:
    if not len(given):
        return None
    # What has both sides is a sample; marks name theirs, so that none is wrong but for a file that is.
    sampled = given.has_both_sides & (not trim)
    tight = pick_tightest(given.level(rates.middle * given.x), trim)
    chosen = np.union1d(tight, np.flatnonzero(sampled))
    found = split_pieces(given[chosen], rates, sampled[chosen])
    if found is None or len(chosen) == len(given):
        return found
    # Measured from the first result, other inequalities may be the tight ones of their time.
    least, largest = found.bound(given.x)
    tight = pick_tightest(given.level((least + largest) / 2), trim)
    chosen = np.union1d(tight, np.flatnonzero(sampled))
    return split_pieces(given[chosen], rates, sampled[chosen]) or found


def _count_violated(curve: Pieces, given: Inequalities) -> int:
    return int(_contradict(given, *curve.bound(given.x)).sum())


def _contradict(given: Inequalities, least: Floats, largest: Floats) -> Mask:
    """Mark the inequalities that an offset between two bounds does not satisfy, by more than floats may be off."""
    # Stamps are whole nanoseconds: floats may differ in the last digit.
    contradicts: Mask = (given.low > largest + 1) | (given.high < least - 1)
    return contradicts
