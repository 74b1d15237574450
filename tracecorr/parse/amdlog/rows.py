"""The records of one block as parallel arrays, and the account of its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema

Array = npt.NDArray[Any]

# Column -> type and the value that stands for null (or for the usual case).
_COLUMNS: dict[str, tuple[type, int]] = {
    "offset": (np.int64, 0), "length": (np.int64, 0), "stamp": (np.int64, 0), "thread": (np.int32, 0),
    "lane": (np.int32, 0), "kind": (np.int8, 0), "layer": (np.int8, 0), "name": (np.int32, 0),
    "result": (np.int32, -1), "kernel": (np.int32, -1), "flags": (np.uint16, 0), "kernarg_bytes": (np.int64, -1),
    "packet_index": (np.int64, -1), "size_bytes": (np.int64, -1), "told_us": (np.int64, -1),
    "ring": (np.uint64, 0), "signal": (np.uint64, 0), "command": (np.uint64, 0),
    "stream": (np.uint64, 0), "arg": (np.uint64, 0),
    "is_rocr": (np.bool_, 0), "is_old": (np.bool_, 0), "is_held": (np.bool_, 0), "is_passed": (np.bool_, 0),
    "is_doubtful": (np.bool_, 0),
}  # fmt: skip
COLUMNS = frozenset(_COLUMNS)
NULLS = {name: null for name, (_, null) in _COLUMNS.items()}


class Rows:
    """Hold one value per record and column; a column that nobody has set is null."""

    def __init__(self, size: int, columns: dict[str, Array] | None = None) -> None:
        self._size = size
        self.columns = columns or {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            dtype, null = _COLUMNS[name]
            self.columns[name] = np.full(self._size, null, dtype)
        return self.columns[name]

    def __setitem__(self, name: str, values: Array) -> None:
        self.columns[name] = values.astype(_COLUMNS[name][0], copy=False)

    def has(self, name: str) -> bool:
        """Tell whether the column was set."""
        return name in self.columns

    def take(self, rows: Array, columns: frozenset[str] = COLUMNS) -> Rows:
        """Return the given rows, in that order, with some of the columns."""
        return Rows(len(rows), {name: values.take(rows) for name, values in self.columns.items() if name in columns})

    @classmethod
    def join(cls, parts: list[Rows]) -> Rows:
        """Return the rows of all parts, one part after the other."""
        names = {name: None for part in parts for name in part.columns}
        columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
        return cls(sum(len(part) for part in parts), columns)


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
