"""Arrays to Arrow tables: the columns of a block as a table of the parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.model.columns import Table
from tracecorr.model.parts import arrow_types
from tracecorr.parse.digits import Ints, Mask, Words

Array = npt.NDArray[Any]

# What every row of a log has; a column without nulls is written in less time.
_NEVER_NULL = frozenset({"file", "offset", "length", "stamp_ns", "clock", "layer", "name", "depth", "flags", "key"})


class Texts:
    """Turn codes into columns of texts; the texts behind the codes only grow.

    The texts that occur are numbered anew: the fewer of them, the fewer bits takes a row.
    """

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._seen: list[int] = []
        # The last one is that of code -1.
        self._numbers = np.full(1, -1, np.int32)
        self._texts = pa.array([], pa.string())

    def column(self, codes: Array) -> pa.DictionaryArray:
        """Return the column of the texts behind codes; code -1 is null."""
        if len(self._numbers) <= len(self._values):
            added = np.full(len(self._values) + 1 - len(self._numbers), -1, np.int32)
            self._numbers = np.append(self._numbers, added)
        numbers = self._numbers[codes]
        present = numbers >= 0
        if not present.all():
            new = np.unique(codes[~present & (codes >= 0)])
            if len(new):
                self._numbers[new] = np.arange(len(new)) + len(self._seen)
                self._seen += new.tolist()
                self._texts = pa.array([self._values[i] for i in self._seen], pa.string())
                numbers = self._numbers[codes]
                present = numbers >= 0
        return pa.DictionaryArray.from_arrays(_masked(numbers, present), self._texts, safe=False)


class Columns:
    """Collect the columns of a table; those that are not set are null."""

    def __init__(self, table: Table, size: int) -> None:
        self._types, self._size = arrow_types(table), size
        self._arrays: dict[str, pa.Array] = {}

    def add(self, name: str, values: Array, present: Mask | None = None) -> None:
        """Set a column of numbers; what is not present, and numbers that its type cannot hold, are null."""
        # Both libraries name numbers alike; Arrow's own way asked for pandas before pyarrow 26.
        dtype = np.dtype(str(self._types[name]))
        if not np.can_cast(values.dtype, dtype) and len(values):
            limits = np.iinfo(dtype)
            if int(values.min()) < limits.min or int(values.max()) > limits.max:
                fits = (values >= max(limits.min, np.iinfo(values.dtype).min)) & (values <= limits.max)
                present = fits if present is None else present & fits
        self._arrays[name] = _masked(values.astype(dtype, copy=False), present)

    def add_array(self, name: str, values: pa.Array) -> None:
        """Set a column of texts or lists."""
        self._arrays[name] = values

    def table(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        arrays = [
            self._arrays[name] if name in self._arrays else pa.nulls(self._size, kind)
            for name, kind in self._types.items()
        ]
        fields = [pa.field(name, kind, nullable=name not in _NEVER_NULL) for name, kind in self._types.items()]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


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
        columns.add_array("key", Texts(keys).column(np.repeat(number_of, counts)[order]))
        values = np.concatenate([*self._values, np.zeros(len(self._texts), np.uint64)])
        columns.add("u64", values[order], order < numbers)
        if self._texts:
            texts = pa.array([None] * numbers + [text for _, _, text in self._texts], pa.large_string())
            columns.add_array("text", texts.take(pa.array(order)))
        return columns.table()


def _masked(values: Array, present: Mask | None) -> pa.Array:
    if present is None or present.all():
        return pa.array(values)
    bits = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)
