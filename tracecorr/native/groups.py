"""Rows of large frames: groups of them, and where they are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.native.arrays import Groups, Ints, address, as_ints, places_of
from tracecorr.native.library import KERNEL

# For so many groups there is room at first, and so many times more each time that they are too few.
_FEW_GROUPS, _MORE_GROUPS = 1 << 8, 1 << 4
# Numbers of `Thread` in C.
_THREAD = 34


def number_values(values: pa.Array, group: Groups) -> tuple[Groups, Ints]:
    """Return the groups of rows of one group and one value, and the first row of each; null is a value like others.

    They are numbered in the order of their first rows, in the smallest type that holds the numbers.

    Args:
        values: numbers of one, two, four or eight bytes.
        group: of each row, numbers of one, two or four bytes; perhaps changed in place.
    """
    first, before = np.empty(0, np.int64), np.empty(0, np.uint32)
    done, told, most = 0, np.zeros(1, np.int64), _FEW_GROUPS
    width = {8: 1, 16: 2, 32: 4, 64: 8}[values.type.bit_width]
    value, bits, first_bit = places_of(values)
    while done < len(group):
        if told[0] == most:
            most *= _MORE_GROUPS
        group = group.astype(np.promote_types(group.dtype, np.min_scalar_type(most - 1)), copy=False)
        first, before = np.resize(first, most), np.resize(before, most)
        slots = np.zeros((2 * most, 2), np.int64)
        done = KERNEL.number_values(
            len(group), address(group), group.itemsize, value, width, bits, first_bit, done,
            told[0], most, address(slots), len(slots) - 1, address(first), address(before), address(told),
        )  # fmt: skip
    return group, first[: told[0]].copy()


def find_near(
    own: Groups, wanted: Ints, asked: npt.NDArray[np.bool_], group: Groups, keys: Ints, groups: int,
    *, forward: bool, exact: bool,
) -> pa.Array:  # fmt: skip
    """Return the last row of its group at or before each wanted key, or the first one at or behind it; null for none.

    Args:
        own: the group of each wanted key, below `groups`, in the type of `group`.
        wanted: keys.
        asked: of which of them a row is wanted.
        group: of each row, below `groups`.
        keys: of each row, sorted.
        groups: how many there are.
        forward: whether the first one at or behind each is wanted.
        exact: whether a row with the same key is one of these.
    """
    own, group, wanted, keys = np.ascontiguousarray(own), np.ascontiguousarray(group), as_ints(wanted), as_ints(keys)
    order = None if (wanted[1:] >= wanted[:-1]).all() else np.argsort(wanted, kind="stable")
    asked, count, last = np.ascontiguousarray(asked, np.bool_), len(wanted), np.empty(groups, np.int64)
    found, bits = np.empty(count, np.uint32), np.zeros(count // 8 + 1, np.uint8)
    hits = KERNEL.find_near(
        count, address(own), own.itemsize, address(wanted), None if order is None else address(order), address(asked),
        len(keys), address(group), address(keys), forward, exact, groups, *map(address, (last, found, bits)),
    )  # fmt: skip
    return pa.Array.from_buffers(pa.uint32(), count, [*map(pa.py_buffer, (bits, found))], count - hits)


def place_values(height: int, rows: npt.NDArray[np.uint32], values: pa.Array) -> pa.Array:
    """Return a column with some values in their rows, and null in all others.

    Args:
        height: how many rows the column has.
        rows: of each value, below `height`.
        values: numbers of one, two, four or eight bytes.

    Raises:
        IndexError: the column has no such row.
    """
    rows = np.ascontiguousarray(rows, np.uint32)
    if len(rows) and int(rows.max()) >= height:
        raise IndexError(f"a column of {height} rows has no row {rows.max()}")
    value, known, first = places_of(values)
    width = values.type.bit_width // 8
    out, bits = np.zeros(height * width, np.uint8), np.zeros(height // 8 + 1, np.uint8)
    KERNEL.place_values(len(rows), address(rows), value, width, known, first, address(out), address(bits))
    return pa.Array.from_buffers(values.type, height, [pa.py_buffer(bits), pa.py_buffer(out)])


def find_rows(keys: Ints, rows: Ints, wanted: Ints) -> pa.Array:
    """Return the row of each wanted key, of several the first one; null where there is none.

    Args:
        keys: sorted.
        rows: of each key.
        wanted: keys; below zero it is none.
    """
    keys, rows, wanted = as_ints(keys), as_ints(rows), as_ints(wanted)
    found, bits = np.empty(len(wanted), np.int64), np.zeros(len(wanted) // 8 + 1, np.uint8)
    hits = KERNEL.find_rows(len(wanted), address(wanted), len(keys), *map(address, (keys, rows, found, bits)))
    return pa.Array.from_buffers(pa.int64(), len(wanted), [*map(pa.py_buffer, (bits, found))], len(wanted) - hits)
