"""What belongs together in the rows of a block: calls and their exits, packets and the lines before them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracecorr.parse.amdlog.calls import (
    NO_EXIT,
    OPEN,
    WITHOUT_EXIT,
    Calls,
    Held,
    Nesting,
    find_held,
    nest,
    next_calls,
    pair,
)
from tracecorr.parse.amdlog.fold import Folds, fold
from tracecorr.parse.amdlog.messages import Kind
from tracecorr.parse.amdlog.records import RecordReader
from tracecorr.parse.amdlog.rows import Rows
from tracecorr.parse.digits import Ints, Mask


@dataclass
class Joined:
    """Hold what belongs together in a batch; all but `order` are sorted by lane.

    Args:
        order: rows sorted by lane.
        partner: of an enter its exit, of an exit its enter, or `OPEN` or `NO_EXIT`.
        held: rows whose depth and parent the next batch may show.
        stays_open: calls whose exit may come in the next batch.
        waiting: rows whose packet may come in the next batch.
        emitted: rows that become events.
    """

    order: Ints
    partner: Ints
    nesting: Nesting
    held: Held
    folds: Folds
    stays_open: Mask
    waiting: Mask
    emitted: Mask

    def in_file(self, mask: Mask) -> Mask:
        """Return the mask in the order of the file."""
        moved = np.empty_like(mask)
        moved[self.order] = mask
        return moved

    def carry(self, rows: Rows) -> Rows:
        """Return the rows that the next block needs again."""
        held = self.held
        kept = np.flatnonzero(self.stays_open | self.waiting | held.rows)
        kept = kept[np.argsort(self.order[kept])]
        carried = rows.take(self.order[kept])
        carried["is_old"] = np.zeros(len(kept), np.bool_)
        carried["is_held"], carried["is_passed"] = held.rows[kept], held.passed[kept]
        return carried

    @cached_property
    def place(self) -> Ints:
        """Return for each row of the file its place in the order of lanes."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        return place


class Joiner:
    """Join rows; knows the codes of their names."""

    def __init__(self, records: RecordReader) -> None:
        self._records = records
        self._leaves = records.code_of(WITHOUT_EXIT)
        self._dispatch = int(records.code_of(("dispatch",))[0])

    def join(self, rows: Rows, position: int, *, is_last: bool) -> Joined:
        """Return what belongs together in some rows, when the file is read up to byte `position`."""
        # Rows are in the order of the file; a stable sort by lane keeps it inside of each lane.
        narrow = rows["lane"].astype(np.int16) if rows["lane"].max(initial=0) < 1 << 15 else rows["lane"]
        order = np.argsort(narrow, kind="stable")
        lane, kind, name = rows["lane"][order], rows["kind"][order], rows["name"][order]
        is_rocr = rows["is_rocr"][order]
        leaf = (name == self._leaves[0]) | (name == self._leaves[1])
        has_no_tid = np.array([t.tid is None for t in self._records.threads], np.bool_)
        offset, shared = rows["offset"][order], has_no_tid[rows["thread"]][order]
        calls = Calls(lane, kind, name, offset, shared, rows["is_passed"][order], rows["is_doubtful"][order])
        partner = pair(calls, leaf)
        following = next_calls(lane, kind)
        nesting, held = nest(calls, partner, following), find_held(calls, partner, following, position)
        rows["is_doubtful"][order] = calls.doubtful
        held.rows &= not is_last
        stays_open = (kind == Kind.ENTER) & (partner == OPEN) & (not is_last)
        is_dispatch = (name == self._dispatch) & (kind == Kind.PACKET) & ~is_rocr
        stamp = np.where(shared, 0, rows["stamp"][order])
        folds = fold(lane, kind, stamp, is_dispatch, is_rocr, rows["kernel"][order] < 0)
        waiting = folds.waiting & (not is_last)
        is_done = (rows["is_old"] & ~rows["is_held"])[order]
        emitted = _emitted(kind, is_done, partner, folds, stays_open, waiting) & ~held.rows
        return Joined(order, partner, nesting, held, folds, stays_open, waiting, emitted)


def _emitted(kind: Ints, is_done: Mask, partner: Ints, folds: Folds, stays_open: Mask, waiting: Mask) -> Mask:
    """Return the rows that become events, unless they are held back; `is_done` ones did so in an earlier batch."""
    simple = ~is_done & _IS_SIMPLE[kind]
    folded = np.zeros(len(kind), np.bool_)
    folded[folds.shader[folds.shader >= 0]] = True
    shader = (kind == Kind.SHADER) & ~folded & ~waiting
    orphan = (kind == Kind.EXIT) & (partner == NO_EXIT)
    call = (kind == Kind.ENTER) & ~stays_open
    emitted: Mask = simple | shader | orphan | call
    return emitted


_IS_SIMPLE = np.zeros(16, np.bool_)
_IS_SIMPLE[[Kind.ROW, Kind.COMMAND, Kind.TEXT, Kind.PACKET, Kind.COPY]] = True
