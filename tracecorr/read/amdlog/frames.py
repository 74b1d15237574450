"""Arrays to Arrow tables: the columns of a block as a table of the parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr import native
from tracecorr.model.columns import Table
from tracecorr.model.parts import arrow_types
from tracecorr.read.digits import Ints, Mask, Words

Array = npt.NDArray[Any]

# What every row of a log has; a column without nulls is written in less time.
_NEVER_NULL = frozenset({"file", "offset", "length", "stamp_ns", "clock", "layer", "name", "depth", "flags", "key"})
# What no log tells takes time to write, too.
_NEVER_TOLD = frozenset({"comm", "cpu", "fd", "cmd"})


class Texts:
    """Turn codes into columns of texts; the texts behind the codes only grow.

    The texts that occur are numbered anew: the fewer of them, the fewer bits takes a row.
    """

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._seen: list[int] = []
        # Of each code, -1 = it has none yet; never empty.
        self._numbers = np.full(1, -1, np.int32)
        self._texts = pa.array([], pa.string())

    def column(self, codes: npt.NDArray[np.int32], rows: Ints) -> pa.DictionaryArray:
        """Return the column of the texts of some rows; code -1, and row -1, are null."""
        if len(self._numbers) < len(self._values):
            self._numbers = np.append(self._numbers, np.full(len(self._values) - len(self._numbers), -1, np.int32))
        numbers, bits, nulls = native.gather_texts(codes, rows, self._numbers)
        if nulls < 0:
            used = codes[rows[rows >= 0]]
            new = np.unique(used[used >= 0])
            new = new[self._numbers[new] < 0]
            self._numbers[new] = np.arange(len(new)) + len(self._seen)
            self._seen += new.tolist()
            self._texts = pa.array([self._values[i] for i in self._seen], pa.string())
            numbers, bits, nulls = native.gather_texts(codes, rows, self._numbers)
        return pa.DictionaryArray.from_arrays(_with_bitmap(numbers, bits, nulls), self._texts, safe=False)


@dataclass(frozen=True)
class _Types:
    """Hold the types of a table's columns: as Arrow and, of numbers, as numpy names them."""

    schema: pa.Schema
    numbers: dict[str, np.dtype[Any]]


@cache
def _types_of(table: Table) -> _Types:
    kinds = {name: kind for name, kind in arrow_types(table).items() if name not in _NEVER_TOLD}
    schema = pa.schema([pa.field(name, kind, nullable=name not in _NEVER_NULL) for name, kind in kinds.items()])
    # Both libraries name numbers alike; Arrow's own way asked for pandas before pyarrow 26.
    return _Types(schema, {name: np.dtype(str(kind)) for name, kind in kinds.items() if pa.types.is_integer(kind)})


class Columns:
    """Collect the columns of a table that a log may tell; those that are not set are null."""

    def __init__(self, table: Table, size: int) -> None:
        self._types, self._size = _types_of(table), size
        self._arrays: dict[str, pa.Array] = {}

    def add(self, name: str, values: Array, present: Mask | None = None) -> None:
        """Set a column of numbers; what is not present, and numbers that its type cannot hold, are null."""
        dtype = self._types.numbers[name]
        if not np.can_cast(values.dtype, dtype) and len(values):
            limits = np.iinfo(dtype)
            if int(values.min()) < limits.min or int(values.max()) > limits.max:
                fits = (values >= max(limits.min, np.iinfo(values.dtype).min)) & (values <= limits.max)
                present = fits if present is None else present & fits
        self._arrays[name] = _masked(values.astype(dtype, copy=False), present)

    def add_rows(self, name: str, values: Array, rows: Ints, null: int | None = None, via: Ints | None = None) -> None:
        """Set a column of numbers to the values of some rows (-1 = null), through `via` where it is given.

        Args:
            name: of the column.
            values: one per row; `null` stands for null, as do numbers that the column cannot hold.
            rows: which.
            null: None = no value stands for it.
            via: of each row the one whose value it takes, -1 = null.
        """
        dtype = self._types.numbers[name]
        if null is None:
            # No offset, length or time is the lowest number.
            null = int(np.iinfo(values.dtype).min)
        self._arrays[name] = _with_bitmap(*native.gather(values, rows, dtype, null, via))

    def add_array(self, name: str, values: pa.Array) -> None:
        """Set a column of texts or lists."""
        self._arrays[name] = values

    def table(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        schema, arrays = self._types.schema, self._arrays
        columns = [
            arrays[name] if name in arrays else _nulls(kind, self._size)
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)


class Args:
    """Collect rows of `PART_ARGS`."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._offsets: list[Ints] = []
        self._values: list[Words] = []
        self._texts: list[tuple[int, str, str]] = []

    def add(self, key: str, offsets: Ints, values: Words) -> None:
        """Add one number per offset."""
        if len(offsets):
            self._keys.append(key)
            self._offsets.append(offsets)
            self._values.append(values)

    def add_one(self, key: str, offset: int, value: int) -> None:
        """Add one number."""
        self.add(key, np.array([offset], np.int64), np.array([value], np.uint64))

    def add_text(self, key: str, offset: int, text: str) -> None:
        """Add one text."""
        self._texts.append((offset, key, text))

    def table(self, table: Table, file: int) -> pa.Table:
        """Return all rows, as `PART_ARGS`."""
        numbers = sum(map(len, self._offsets))
        if not numbers and not self._texts:
            return Columns(table, 0).table()
        keys = list(dict.fromkeys([*self._keys, *(key for _, key, _ in self._texts)]))
        counts = [*map(len, self._offsets), *(1 for _ in self._texts)]
        number_of = [keys.index(key) for key in [*self._keys, *(key for _, key, _ in self._texts)]]
        offset = np.concatenate([*self._offsets, np.array([offset for offset, _, _ in self._texts], np.int64)])
        order = np.argsort(offset, kind="stable")
        columns = Columns(table, len(offset))
        columns.add("file", np.full(len(offset), file, np.uint16))
        columns.add("offset", offset[order])
        key_of = np.repeat(np.array(number_of, np.int32), counts)
        columns.add_array(
            "key", pa.DictionaryArray.from_arrays(pa.array(key_of[order]), pa.array(keys, pa.string()), safe=False)
        )
        values = np.concatenate([*self._values, np.zeros(len(self._texts), np.uint64)])
        columns.add("u64", values[order], order < numbers)
        if self._texts:
            # Not taken by arrow: that alone would import what it computes with, which takes some 60 ms.
            given = [*[None] * numbers, *(text for _, _, text in self._texts)]
            columns.add_array("text", pa.array([given[row] for row in order.tolist()], pa.large_string()))
        return columns.table()


def _with_bitmap(values: Array, bits: npt.NDArray[np.uint8], nulls: int) -> pa.Array:
    if not nulls:
        return pa.array(values)
    buffers = [pa.py_buffer(bits), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers, nulls)


def _nulls(kind: pa.DataType, size: int) -> pa.Array:
    """Return nulls; those of the blocks before are taken where there are enough."""
    if kind not in _NULLS or len(_NULLS[kind]) < size:
        _NULLS[kind] = pa.nulls(size + size // 4, kind)
    return _NULLS[kind].slice(0, size)


_NULLS: dict[pa.DataType, pa.Array] = {}


def _masked(values: Array, present: Mask | None) -> pa.Array:
    if present is None or present.all():
        return pa.array(values)
    bits = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)
