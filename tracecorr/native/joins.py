"""What belongs together in the rows of a block; all rows are in the order of the file."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.native.library import KERNEL, STRUCTS, Bytes, Ints, Words, address, as_ints

# Type of each column of the rows that are joined.
_ROW_COLUMNS = {
    "lane": np.int32, "name": np.int32, "kind": np.int8, "offset": np.int64, "stamp": np.int64, "shared": np.bool_,
    "passed": np.bool_, "is_rocr": np.bool_,
}  # fmt: skip


def set_lanes(
    thread: npt.NDArray[np.int32],
    key_of: Ints,
    lane_now: Ints,
    stamp: Ints,
    is_rocr: npt.NDArray[np.bool_],
    last: Ints,
    room: int = 0,
) -> tuple[npt.NDArray[np.int32], Ints, tuple[int, int, int]]:
    """Return the lane of each row, the last times, and what tells whether a clock went back.

    Args:
        thread: of each row.
        key_of: of each thread.
        lane_now, last: of each key: its lane, and its last time before these rows.
        stamp: of each row.
        is_rocr: rows whose times are left out.
        room: for so many rows before them there is room in the lanes.

    Returns: as the last one the least time, the latest one of the keys before these rows, and how far a time lies
        behind an earlier one at most; without times the first one is greater than the second one.
    """
    stamp, now, told = as_ints(stamp), last.copy(), np.empty(3, np.int64)
    lane = np.empty(room + len(thread), np.int32)
    places = map(address, (thread, key_of, lane_now, stamp, is_rocr, last, now, lane[room:], told))
    KERNEL.set_lanes(len(thread), *places)
    least, latest, behind = told.tolist()
    return lane, now, (least, latest, behind)


class Records:
    """Hold the rows of a block in the order of the file, as the functions take them that join rows.

    Args:
        lane: one per thread.
        name, kind: what each row is.
        offset: byte of the file.
        stamp: ns.
        shared: rows without a thread: their lane may be that of several.
        passed: calls of earlier blocks that enclose nothing in this one.
        is_rocr: rows that ROCr printed.
    """

    def __init__(self, **columns: npt.NDArray[Any]) -> None:
        self.columns: dict[str, npt.NDArray[Any]] = {
            name: np.ascontiguousarray(columns[name], dtype) for name, dtype in _ROW_COLUMNS.items()
        }
        self.count = len(self.columns["lane"])
        self.lanes = int(self.columns["lane"].max(initial=-1)) + 1
        self._of = STRUCTS["Rows"](self.count, self.lanes, *map(address, self.columns.values()))

    def pair_calls(self, is_leaf: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints, Ints]:
        """Join calls that nest.

        Args:
            is_leaf: calls without an exit line: one ends where the next call of its lane begins, if not by an exit.

        Returns:
            Of an enter its exit, of an exit its enter, -1 = open, -2 = it has none; the next call's row of the same
            lane of each call (-1 = none); the calls that are left; enters of joined calls with calls inside.
        """
        partner, following, left, outer, below, place = (np.empty(self.count, np.int64) for _ in range(6))
        counts, (top, last, depth) = np.zeros(2, np.int64), np.empty((3, self.lanes), np.int64)
        places = (is_leaf, partner, following, left, outer, counts, top, last, depth, below, place)
        KERNEL.pair_calls(ctypes.addressof(self._of), *map(address, places))
        return partner, following, left[: counts[0]], outer[: counts[1]]

    def nest_calls(self, partner: Ints, wait_bytes: int) -> tuple[Ints, Ints]:
        """Return how many calls enclose each row, and the innermost one (-1 = none).

        A call encloses what follows up to its exit where that is at most `wait_bytes` behind it, else up to the next
        call's line.
        """
        depth, parent, below = (np.empty(self.count, np.int64) for _ in range(3))
        top, last, opened = np.empty((3, self.lanes), np.int64)
        places = (depth, parent, top, last, opened, below)
        KERNEL.nest_calls(ctypes.addressof(self._of), address(partner), wait_bytes, *map(address, places))
        return depth, parent

    def fold(
        self, is_dispatch: npt.NDArray[np.bool_], kernel: npt.NDArray[np.int32], pointer: Words
    ) -> tuple[Ints, Ints, Ints, Bytes]:
        """Return names and argument sizes of dispatches, commands of packets and copies (-1 = none), and what waits.

        Args:
            is_dispatch: HIP's dispatches.
            kernel: of rows that name one; -1 = its name is not known. Dispatches take it over from their names.
            pointer: of commands. Packets and copies take it over from theirs.
        """
        shader, kernarg, command = (np.empty(self.count, np.int64) for _ in range(3))
        waiting, calls, seen = (
            np.empty(self.count, np.uint8),
            np.empty(self.lanes, np.int64),
            np.empty((self.lanes, 6), np.int64),
        )
        places = (is_dispatch, kernel, pointer, shader, kernarg, command, waiting, calls, seen)
        KERNEL.fold_rows(ctypes.addressof(self._of), *map(address, places))
        return shader, kernarg, command, waiting

    def list_events(
        self, is_simple: npt.NDArray[np.bool_], is_done: npt.NDArray[np.bool_], partner: Ints, shader: Ints,
        waiting: npt.NDArray[np.bool_], held: npt.NDArray[np.bool_], *, is_last: bool,
    ) -> Ints:  # fmt: skip
        """Return the rows that become events.

        Args:
            is_simple: of each kind, whether its rows do whatever is beside them.
            is_done: rows that became events in an earlier block.
            partner: of an enter its exit, of an exit its enter (`pair_calls`).
            shader: of a dispatch the row of its name (`fold`).
            waiting: names whose dispatch may still come.
            held: rows that wait for the exit of a call.
            is_last: no exit can come any more.
        """
        rows, folded = np.empty(self.count, np.int64), np.empty(self.count, np.uint8)
        given = map(address, (is_simple, is_done, partner, shader, waiting, held))
        count = KERNEL.list_events(ctypes.addressof(self._of), *given, is_last, address(folded), address(rows))
        return rows[:count]
