"""Records to rows, and rows to columns."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.native.arrays import Bytes, Ints, Words, address, as_ints
from tracecorr.native.library import KERNEL, CallRowsOf, ClassesOf, DescribedOf

ASK_RESULT, IS_CUT, IS_TOLD = 1, 2, 4
# Type of each column that codes of records tell.
_DESCRIBED = {
    "offset": np.int64, "length": np.int64, "kind": np.int8, "layer": np.int8, "name": np.int32, "result": np.int32,
    "told_us": np.int64,
}  # fmt: skip


class Described:
    """Hold what the codes of records say of their rows, as parallel arrays.

    Args:
        columns: offset in the file, bytes, kind, layer, name, result and told duration of the rows, with room for
            others before them.
        asks: what else is to be read of a row, or is special.
        listed, counts: lists of rows: those of a subject each, and how many these are.
    """

    def __init__(self, size: int, lists: int, room: int) -> None:
        self.columns: dict[str, npt.NDArray[Any]] = {n: np.empty(room + size, t) for n, t in _DESCRIBED.items()}
        self.asks = np.empty(size, np.uint8)
        self.listed, self.counts = np.empty((lists, size), np.int64), np.zeros(lists, np.int64)
        self.room = room

    def describe(self) -> DescribedOf:
        """Return where the columns are, behind the room."""
        columns = (column[self.room :] for column in self.columns.values())
        return DescribedOf(*map(address, (*columns, self.asks, self.listed, self.counts)))

    def rows_of(self, number: int) -> Ints:
        """Return the rows of a list."""
        return self.listed[number, : self.counts[number]]


def describe_rows(
    of: ClassesOf,
    raw: Bytes,
    records: tuple[Ints, Ints, Ints],
    messages: tuple[Ints, Ints],
    what: Ints,
    lists: int,
    room: int = 0,
) -> tuple[Described, int]:
    """Return what the codes of records say of their rows, and which `asks` there are.

    Args:
        of: what the codes stand for.
        raw: the bytes.
        records: start of each record, of its message, and its end.
        messages: start and end of each message; those of torn records lie elsewhere.
        what: code of each record.
        lists: how many there are.
        room: for so many rows before them there is room in the columns.
    """
    described = Described(len(what), lists, room)
    to = described.describe()
    held = [as_ints(array) for array in (*records, *messages, what)]
    places = map(address, held)
    asks: int = KERNEL.describe_rows(ctypes.addressof(of), address(raw), len(what), *places, ctypes.addressof(to))
    return described, asks


def end_calls(of: CallRowsOf, rows: Ints) -> tuple[Ints, Ints, Words, npt.NDArray[np.uint16]]:
    """Return of rows that row which is their exit (-1 = none), the same where it ends a span, stream and flags."""
    leave, span = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    stream, flags = np.empty(len(rows), np.uint64), np.empty(len(rows), np.uint16)
    KERNEL.end_calls(ctypes.addressof(of), len(rows), *map(address, (rows, leave, span, stream, flags)))
    return leave, span, stream, flags


def keep_rows(kept: npt.NDArray[np.bool_], *columns: Ints) -> list[Ints]:
    """Return the rows of some columns that are kept; quick where these are nearly all."""
    columns = tuple(map(as_ints, columns))
    taken = [np.empty(len(kept), np.int64) for _ in columns]
    sources, targets = ((ctypes.c_void_p * len(columns))(*map(address, arrays)) for arrays in (columns, taken))
    count = KERNEL.keep_rows(address(kept), len(kept), len(columns), sources, targets)
    return [column[:count] for column in taken]


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
