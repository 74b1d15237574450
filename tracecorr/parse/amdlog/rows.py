"""The records of one block as parallel arrays, and the frames made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.parse.digits import Ints, Mask, Words

Array = npt.NDArray[Any]

# Column -> type and the value that stands for null (or for the usual case).
_COLUMNS: dict[str, tuple[type, int]] = {
    "offset": (np.int64, 0), "length": (np.int64, 0), "stamp": (np.int64, 0), "thread": (np.int32, 0),
    "lane": (np.int32, 0), "kind": (np.int8, 0), "layer": (np.int8, 0), "name": (np.int32, 0),
    "result": (np.int32, -1), "kernel": (np.int32, -1), "flags": (np.uint16, 0), "kernarg_bytes": (np.int64, -1),
    "packet_index": (np.int64, -1), "size_bytes": (np.int64, -1),
    "ring": (np.uint64, 0), "signal": (np.uint64, 0), "command": (np.uint64, 0),
    "stream": (np.uint64, 0), "arg": (np.uint64, 0),
    "is_rocr": (np.bool_, 0), "is_old": (np.bool_, 0), "is_held": (np.bool_, 0), "is_passed": (np.bool_, 0),
    "is_doubtful": (np.bool_, 0),
}  # fmt: skip


def conform(table: schema.Table, frame: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return `frame` (or no rows) with exactly the columns of the table; what does not fit is null."""
    if frame is None:
        return table.empty()
    return frame.select(
        (pl.col(name).cast(dtype, strict=False) if name in frame.columns else pl.lit(None, dtype)).alias(name)
        for name, dtype in table.schema.items()
    )


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
        """Return whether the column was set."""
        return name in self.columns

    def take(self, rows: Array) -> Rows:
        """Return the given rows, in that order."""
        return Rows(len(rows), {name: values[rows] for name, values in self.columns.items()})

    @classmethod
    def join(cls, parts: list[Rows]) -> Rows:
        """Return the rows of all parts, one part after the other."""
        names = {name: None for part in parts for name in part.columns}
        columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
        return cls(sum(len(part) for part in parts), columns)


class Args:
    """Collect rows of `PART_ARGS`."""

    def __init__(self) -> None:
        self._numbers: list[tuple[str, Ints, Words]] = []
        self._texts: list[tuple[int, str, str]] = []

    def add(self, key: str, offsets: Iterable[int] | Ints, values: Iterable[int] | Words) -> None:
        """Add one number per offset."""
        self._numbers.append((key, np.asarray(offsets, np.int64), np.asarray(values, np.uint64)))

    def add_text(self, key: str, offset: int, text: str) -> None:
        """Add one text."""
        self._texts.append((offset, key, text))

    @classmethod
    def join(cls, parts: list[Args]) -> Args:
        """Return the rows of all parts."""
        joined = cls()
        joined._numbers = [item for part in parts for item in part._numbers]
        joined._texts = [item for part in parts for item in part._texts]
        return joined

    def frame(self, file: int) -> pl.DataFrame:
        """Return all rows, as `PART_ARGS`."""
        offsets = [item[1] for item in self._numbers]
        if not sum(map(len, offsets)) and not self._texts:
            return conform(schema.PART_ARGS)
        keys = pl.Series("key", [item[0] for item in self._numbers], pl.String)
        index = np.repeat(np.arange(len(offsets)), [len(rows) for rows in offsets])
        none = np.zeros(0, np.uint64)
        numbers = pl.DataFrame(
            {
                "offset": np.concatenate([none.astype(np.int64), *offsets]),
                "key": keys.cast(pl.Categorical).gather(index),
                "u64": np.concatenate([none, *(item[2] for item in self._numbers)]),
            }
        )
        texts = pl.DataFrame(
            self._texts, schema={"offset": pl.Int64, "key": pl.String, "text": pl.String}, orient="row"
        )
        texts = texts.with_columns(pl.col("key").cast(pl.Categorical))
        rows = pl.concat([numbers, texts], how="diagonal").with_columns(file=pl.lit(file))
        return conform(schema.PART_ARGS, rows).sort("offset", maintain_order=True)


class Ledger:
    """Count records and bytes by outcome and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, outcome: str, reason: str, records: int, size: int) -> None:
        """Count some records more."""
        before = self._counts.get((outcome, reason), (0, 0))
        self._counts[outcome, reason] = before[0] + records, before[1] + size

    def take(self, file: int) -> pl.DataFrame:
        """Return the counts as `LEDGER` and start anew."""
        rows = [(*key, *counts) for key, counts in sorted(self._counts.items()) if counts[0]]
        self._counts = {}
        frame = pl.DataFrame(rows, schema=("outcome", "reason", "records", "bytes"), orient="row")
        return conform(schema.LEDGER, frame.with_columns(file=pl.lit(file), source=pl.lit("amd_log")))


def nullable(name: str, values: Array, present: Mask | None = None) -> pl.Series:
    """Return a column in which the null value of `name`, or what is not present, is null."""
    if present is None:
        present = values != _COLUMNS[name][1]
    series = pl.Series(name, values)
    return series if present.all() else series.zip_with(pl.Series(present), pl.Series([None], dtype=series.dtype))


class Categories:
    """Turn codes into categorical columns; the texts behind the codes only grow."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._texts = pl.Series(dtype=pl.Categorical)

    def column(self, name: str, codes: Array) -> pl.Series:
        """Return the column of the texts behind codes; negative codes are null."""
        if len(self._texts) < len(self._values):
            self._texts = pl.Series(self._values, dtype=pl.String).cast(pl.Categorical)
        index = pl.Series(name, codes.astype(np.uint32))
        if len(codes) and codes.min() < 0:
            index = index.zip_with(pl.Series(codes >= 0), pl.Series([None], dtype=pl.UInt32))
        return self._texts.gather(index).alias(name) if len(self._texts) else index.cast(pl.Categorical)
