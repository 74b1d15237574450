"""Loops over the lines of a log and over rows: lines and texts, what belongs together, columns."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.native.binding import KERNEL, STRUCTS, Bytes, Ints, Struct, Words, address, as_ints

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
            Of an enter its exit, of an exit its enter, -1 = open, -2 = none; the next call's row of the same
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


# Lines are hardly ever shorter; where they are, they are looked for once more.
_USUAL_LINE_BYTES = 32
_LEAST_PLACES = 64


def find_lines(raw: Bytes, start: int, stop: int) -> tuple[Ints, Ints]:
    """Return start and end (without the newline) of every line between two positions."""
    for room in ((stop - start) // _USUAL_LINE_BYTES + 1, stop - start):
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = KERNEL.find_lines(address(raw), start, stop, room, address(starts), address(ends))
        if count >= 0:
            return starts[:count], ends[:count]
    raise AssertionError("each line has a byte")


class HashTable:
    """Map 64-bit hashes to small codes."""

    def __init__(self) -> None:
        self.keys, self.codes = np.zeros(_LEAST_PLACES, np.uint64), np.zeros(_LEAST_PLACES, np.int64)
        self._count = 0

    @property
    def mask(self) -> int:
        """Return what of a hash names its place."""
        return len(self.keys) - 1

    def add(self, hashes: Words, codes: Ints) -> None:
        """Remember the codes of new hashes."""
        self._count += len(hashes)
        if 4 * self._count > len(self.keys):
            keys, kept = self.keys, self.codes
            used = np.flatnonzero(keys)
            room = 1 << (8 * self._count).bit_length()
            self.keys, self.codes = np.zeros(room, np.uint64), np.zeros(room, np.int64)
            self._put(keys[used], kept[used])
        self._put(np.ascontiguousarray(hashes), as_ints(codes))

    def add_one(self, key: int, code: int) -> None:
        """Remember the code of one hash."""
        self.add(np.array([key], np.uint64), np.array([code], np.int64))

    def _put(self, hashes: Words, codes: Ints) -> None:
        KERNEL.table_add(*self.pointers, len(hashes), address(hashes), address(codes))

    @property
    def pointers(self) -> tuple[int, int, int]:
        """Return the table as compiled functions take it."""
        return address(self.keys), address(self.codes), self.mask

    def find(self, hashes: Words) -> tuple[Ints, bool]:
        """Return the codes of hashes, -1 where they are not known, and whether all are known."""
        found, hashes = np.empty(len(hashes), np.int64), np.ascontiguousarray(hashes)
        unknown = KERNEL.table_find(*self.pointers, len(hashes), address(hashes), address(found))
        return found, unknown == 0


def hash_text(text: bytes) -> int:
    """Return the hash of a text as compiled code makes it."""
    raw, at = np.frombuffer(bytes(64) + text + bytes(64), np.uint8), np.array([64], np.int64)
    return int(hash_spans(raw, at, at + len(text))[0])


def hash_spans(raw: Bytes, at: Ints, end: Ints) -> Words:
    """Return the hash of the text between two positions, of any length; outside of the bytes it is that of no text."""
    at, end, hashes = as_ints(at), as_ints(end), np.empty(len(at), np.uint64)
    KERNEL.hash_spans(address(raw), len(raw), len(at), address(at), address(end), address(hashes))
    return hashes


def code_spans(table: HashTable, raw: Bytes, at: Ints, end: Ints) -> tuple[Ints, Words, bool]:
    """Return codes (-1 = not known) and hashes of the texts between two positions, and whether all are known."""
    at, end = as_ints(at), as_ints(end)
    hashes, codes = np.empty(len(at), np.uint64), np.empty(len(at), np.int64)
    places = address(at), address(end), address(hashes), address(codes)
    unknown = KERNEL.code_spans(*table.pointers, address(raw), len(raw), len(at), *places)
    return codes, hashes, unknown == 0


def end_calls(of: Struct, rows: Ints) -> tuple[Ints, Ints, Words, npt.NDArray[np.uint16]]:
    """Return of rows that row which is their exit (-1 = none), the same where it ends a span, stream and flags."""
    leave, span = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    stream, flags = np.empty(len(rows), np.uint64), np.empty(len(rows), np.uint16)
    KERNEL.end_calls(of.address, len(rows), *map(address, (rows, leave, span, stream, flags)))
    return leave, span, stream, flags


_GATHERS = {
    (np.dtype(np.int64), np.dtype(np.int64)): KERNEL.gather_i64,
    (np.dtype(np.uint64), np.dtype(np.uint64)): KERNEL.gather_u64,
    (np.dtype(np.int64), np.dtype(np.uint32)): KERNEL.gather_u32,
}


def gather(
    values: npt.NDArray[Any], rows: Ints, dtype: npt.DTypeLike, null: int, via: Ints | None = None
) -> tuple[npt.NDArray[Any], Bytes, int]:
    """Return the values of some rows, a bitmap of those that are not null, and how many are.

    Args:
        values: one per row; 64 bits.
        rows: which; -1 = null.
        dtype: what the values become; those that it cannot hold are null.
        null: the value that stands for null.
        via: of each row the one whose value it takes, -1 = null.
    """
    taken, bits = np.empty(len(rows), dtype), np.empty(-(-len(rows) // 8), np.uint8)
    taking = _GATHERS[values.dtype, taken.dtype]
    through = None if via is None else address(via)
    nulls = taking(len(rows), address(rows), through, address(values), null, address(taken), address(bits))
    return taken, bits, nulls


def gather_texts(
    codes: npt.NDArray[np.int32], rows: Ints, numbers: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    """Return the numbers of the texts of some rows, a bitmap of those that have one, and how many have none.

    Args:
        codes: of the text of each row, -1 = none.
        rows: which; -1 = none.
        numbers: of each code, at least one.

    Returns: -1 as the last one where a text has no number yet.
    """
    taken, bits = np.empty(len(rows), np.int32), np.empty(-(-len(rows) // 8), np.uint8)
    places = map(address, (rows, codes, numbers, taken, bits))
    return taken, bits, KERNEL.gather_texts(len(rows), *places)
