"""The records of a block as parallel arrays, and the bytes that are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracecorr.read.digits import Ints, Mask


@dataclass
class Split:
    """Hold records in the order of the file.

    Args:
        what: what each message is, a code of `Classifier`.
        used: number of records and their bytes, with those that were left out (`take`).
        skipped: reason -> lines and bytes that are no record.
        messages: index of a torn record -> what is known of its message.
        whole: torn records of whose message nothing lacks.
        may_complain: whether errors or warnings may be among them.
        is_cut: whether the file ends in the last one, which lacks its end.
    """

    start: Ints
    end: Ints
    stamp_ns: Ints
    thread: Ints
    message: Ints
    what: Ints
    is_rocr: Mask
    torn: Mask
    used: tuple[int, int]
    skipped: dict[str, tuple[int, int]] = field(default_factory=dict)
    messages: dict[int, bytes] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    may_complain: bool = False
    is_cut: bool = False

    def skip(self, reason: str, lines: int, size: int) -> None:
        """Count more bytes that are no record."""
        if lines:
            self.skipped[reason] = _sum(self.skipped.get(reason, (0, 0)), (lines, size))

    def merge(self, other: Split) -> Split:
        """Return the records of both in the order of the file; neither has skipped bytes or messages yet."""
        place = np.searchsorted(self.start, other.start)
        columns: dict[str, Any] = {name: np.insert(mine, place, vars(other)[name]) for name, mine in self._columns()}
        may_complain = self.may_complain or other.may_complain
        return Split(**columns, used=_sum(self.used, other.used), may_complain=may_complain)

    def take(self, rows: Ints) -> Split:
        """Return some of the records, in the same order."""
        columns: dict[str, Any] = {name: mine.take(rows) for name, mine in self._columns()}
        taken = Split(
            **columns, used=self.used, skipped=self.skipped, may_complain=self.may_complain, is_cut=self.is_cut
        )  # fmt: skip
        if self.messages and len(rows):
            torn = np.array(sorted(self.messages), np.int64)
            place = np.minimum(np.searchsorted(rows, torn), len(rows) - 1)
            pairs = zip(place.tolist(), torn.tolist(), strict=True)
            at = {row: i for i, row in pairs if rows[i] == row}
            taken.messages = {i: self.messages[row] for row, i in at.items()}
            taken.whole = {at[row] for row in self.whole if row in at}
        return taken

    def _columns(self) -> Iterator[tuple[str, Any]]:
        return ((name, column) for name, column in vars(self).items() if isinstance(column, np.ndarray))


def concatenate(parts: list[Split]) -> Split:
    """Return the records of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    names = [name for name, column in vars(parts[0]).items() if isinstance(column, np.ndarray)]
    columns: dict[str, Any] = {name: np.concatenate([vars(part)[name] for part in parts]) for name in names}
    complain = any(part.may_complain for part in parts)
    used, is_cut = _sum(*(part.used for part in parts)), parts[-1].is_cut
    joined = Split(**columns, used=used, may_complain=complain, is_cut=is_cut)
    before = 0
    for part in parts:
        joined.messages.update({before + i: text for i, text in part.messages.items()})
        joined.whole |= {before + i for i in part.whole}
        before += len(part.start)
        for reason, counts in part.skipped.items():
            joined.skip(reason, *counts)
    return joined


def _sum(*counts: tuple[int, int]) -> tuple[int, int]:
    return sum(one for one, _ in counts), sum(other for _, other in counts)
