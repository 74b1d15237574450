"""The records of one block as parallel arrays, and the account of its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema

_Array = npt.NDArray[Any]

# Column -> type and the value that stands for null (or for the usual case).
_COLUMNS: dict[str, tuple[type, int]] = {
    "offset": (np.int64, 0), "length": (np.int64, 0), "stamp": (np.int64, 0), "thread": (np.int32, 0),
    "lane": (np.int32, 0), "kind": (np.int8, 0), "layer": (np.int8, 0), "name": (np.int32, 0),
    "result": (np.int32, -1), "kernel": (np.int32, -1), "flags": (np.uint16, 0), "kernarg_bytes": (np.int64, -1),
    "packet_index": (np.int64, -1), "size_bytes": (np.int64, -1), "told_us": (np.int32, -1),
    "ring": (np.uint64, 0), "signal": (np.uint64, 0), "command": (np.uint64, 0),
    "stream": (np.uint64, 0), "arg": (np.uint64, 0),
    "is_rocr": (np.bool_, 0), "is_old": (np.bool_, 0), "is_held": (np.bool_, 0), "is_passed": (np.bool_, 0),
    "is_doubtful": (np.bool_, 0),
}  # fmt: skip
COLUMNS = frozenset(_COLUMNS)
NULLS = {name: null for name, (_, null) in _COLUMNS.items()}


class Rows:
    """Hold one value per record and column; a column that nobody has set is null.

    Args:
        size: how many records.
        columns: their values, with the room before them.
        room: how many other rows may be put before them without a copy of them.
    """

    def __init__(self, size: int, columns: dict[str, _Array] | None = None, room: int = 0) -> None:
        self._size, self._room = size, room
        self._columns = columns or {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> _Array:
        return self._whole(name)[self._room :]

    def __setitem__(self, name: str, values: _Array) -> None:
        dtype, _ = _COLUMNS[name]
        if not self._room:
            self._columns[name] = values.astype(dtype, copy=False)
            return
        self._columns[name] = np.empty(self._room + self._size, dtype)
        self._columns[name][self._room :] = values

    def put(self, name: str, values: _Array) -> None:
        """Set a column with the room before it."""
        self._columns[name] = values

    def has(self, name: str) -> bool:
        """Tell whether the column was set."""
        return name in self._columns

    def take(self, rows: _Array, columns: frozenset[str] = COLUMNS) -> Rows:
        """Return the given rows, in that order, with some of the columns."""
        return Rows(len(rows), {name: self[name].take(rows) for name in self._columns if name in columns})

    def without_nulls(self) -> Rows:
        """Return the rows without the columns that are null throughout, which nobody needs to look at again."""
        return Rows(
            len(self), {name: column for name in self._columns if ((column := self[name]) != NULLS[name]).any()}
        )

    def behind(self, others: Rows) -> Rows:
        """Return these rows with as many others before them as there is room for; both share their memory."""
        for name in {**others._columns, **self._columns}:
            self._whole(name)[: self._room] = others[name]
        return Rows(self._room + self._size, dict(self._columns))

    def _whole(self, name: str) -> _Array:
        if name not in self._columns:
            dtype, null = _COLUMNS[name]
            self._columns[name] = np.full(self._room + self._size, null, dtype)
        return self._columns[name]


class Ledger:
    """Count records and bytes by outcome and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, outcome: str, reason: str, records: int, size: int) -> None:
        """Count some records more."""
        before = self._counts.get((outcome, reason), (0, 0))
        self._counts[outcome, reason] = before[0] + records, before[1] + size

    def frame(self, file: int) -> pl.DataFrame:
        """Return the counts as `LEDGER`."""
        rows = [(*key, *counts) for key, counts in sorted(self._counts.items()) if counts[0]]
        frame = pl.DataFrame(rows, schema=("outcome", "reason", "records", "bytes"), orient="row")
        return schema.LEDGER.conform(frame.with_columns(file=pl.lit(file), source=pl.lit("amd_log")))
