"""What belongs together in the rows of a block: calls and their exits, packets and the lines before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.read.amdlog.calls import OPEN, WITHOUT_EXIT, Held, find_held, nest, pair
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.amdlog.records import RecordReader
from tracecorr.read.amdlog.rows import Rows
from tracecorr.read.digits import Ints, Mask


@dataclass
class Folds:
    """Hold for each row the earlier row of its thread that belongs to it (-1 = none), and what waits at the end.

    Args:
        shader: ShaderName of a dispatch.
        kernarg: KernargSegment line of a dispatch.
        command: last enqueued command of a packet or copy.
        waiting: rows whose packet may still come in the next block.
    """

    shader: Ints
    kernarg: Ints
    command: Ints
    waiting: Mask


@dataclass
class Joined:
    """Hold what belongs together in a block, in the order of the file.

    Args:
        partner: of an enter its exit, of an exit its enter, or `OPEN` or `NO_EXIT`.
        depth: how many calls enclose each row.
        parent: the innermost one; -1 = none.
        held: rows whose depth and parent the next block may show.
        stays_open: calls whose exit may come in the next block.
        emitted: rows that become events.
    """

    partner: Ints
    depth: Ints
    parent: Ints
    held: Held
    folds: Folds
    stays_open: Mask
    emitted: Ints

    def carry(self, rows: Rows) -> Rows:
        """Return the rows that the next block needs again."""
        held = self.held
        kept = np.flatnonzero(self.stays_open | self.folds.waiting | held.rows)
        carried = rows.take(kept).without_nulls()
        carried["is_old"] = np.zeros(len(kept), np.bool_)
        carried["is_held"], carried["is_passed"] = held.rows[kept], held.passed[kept]
        return carried


class Joiner:
    """Join rows; knows the codes of their names."""

    def __init__(self, records: RecordReader) -> None:
        self._records = records
        self._leaves = records.code_of(WITHOUT_EXIT)
        self._dispatch = int(records.code_of(("dispatch",))[0])

    def join(self, rows: Rows, position: int, *, is_last: bool) -> Joined:
        """Return what belongs together in some rows, when the file is read up to byte `position`."""
        has_no_tid = np.array([t.tid is None for t in self._records.threads], np.bool_)
        # Mostly all lines without one look alike: they are of the first thread.
        shared = has_no_tid[rows["thread"]] if has_no_tid[1:].any() else rows["thread"] == 0
        own = {name: rows[name] for name in ("lane", "name", "kind", "offset", "stamp", "is_rocr")}
        records = native.Records(**own, shared=shared, passed=rows["is_passed"])
        kind, name = own["kind"], own["name"]
        is_leaf = (name == self._leaves[0]) | (name == self._leaves[1])
        partner, following = pair(records, is_leaf, rows["is_doubtful"])
        depth, parent = nest(records, partner)
        held = find_held(records, partner, following, position)
        held.rows &= not is_last
        stays_open = (kind == Kind.ENTER) & (partner == OPEN) & (not is_last)
        is_dispatch = (name == self._dispatch) & (kind == Kind.PACKET) & ~own["is_rocr"]
        shader, kernarg, command, waiting = records.fold(is_dispatch, rows["kernel"], rows["command"])
        folds = Folds(shader, kernarg, command, waiting.view(np.bool_) & (not is_last))
        is_done = rows["is_old"] & ~rows["is_held"]
        emitted = records.list_events(_IS_SIMPLE, is_done, partner, shader, folds.waiting, held.rows, is_last=is_last)
        return Joined(partner, depth, parent, held, folds, stays_open, emitted)


# Rows of these kinds become events whatever is beside them.
_IS_SIMPLE = np.zeros(16, np.bool_)
_IS_SIMPLE[[Kind.ROW, Kind.COMMAND, Kind.TEXT, Kind.PACKET, Kind.COPY]] = True
