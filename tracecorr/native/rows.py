"""Rows of a HIP log to columns of its tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.native.library import KERNEL, Bytes, Ints, Struct, Words, address


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
