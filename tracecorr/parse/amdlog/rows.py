"""The records of one block as parallel arrays, and the frames made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.parse.text import Ints, Mask, Words

Array = npt.NDArray[Any]

# Column -> type and the value that stands for null (or for the usual case).
_COLUMNS: dict[str, tuple[type, int]] = {
    "offset": (np.int64, 0), "length": (np.int64, 0), "stamp": (np.int64, 0), "thread": (np.int64, 0),
    "lane": (np.int64, 0), "kind": (np.int64, 0), "layer": (np.int64, 0), "name": (np.int64, 0),
    "result": (np.int64, -1), "kernel": (np.int64, -1), "flags": (np.int64, 0), "kernarg_bytes": (np.int64, -1),
    "packet_index": (np.int64, -1), "size_bytes": (np.int64, -1),
    "ring": (np.uint64, 0), "signal": (np.uint64, 0), "command": (np.uint64, 0),
    "stream": (np.uint64, 0), "arg": (np.uint64, 0),
    "is_rocr": (np.bool_, 0), "is_old": (np.bool_, 0),
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
    """Hold one value per record and column."""

    def __init__(self, columns: dict[str, Array]) -> None:
        self.columns = columns

    @classmethod
    def blank(cls, size: int) -> Rows:
        """Return `size` rows without values."""
        return cls({name: np.full(size, null, dtype) for name, (dtype, null) in _COLUMNS.items()})

    def __len__(self) -> int:
        return len(self.columns["offset"])

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __setitem__(self, name: str, values: Array) -> None:
        self.columns[name] = values

    def take(self, rows: Array) -> Rows:
        """Return the given rows, in that order."""
        return Rows({name: values[rows] for name, values in self.columns.items()})

    def behind(self, other: Rows) -> Rows:
        """Return these rows behind the rows of `other`."""
        return Rows({name: np.concatenate((other[name], values)) for name, values in self.columns.items()})


class Args:
    """Collect rows of `PART_ARGS`."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []

    def add(self, key: str, offsets: Iterable[int] | Ints, values: Iterable[int] | Words) -> None:
        """Add one number per offset."""
        columns = {"offset": pl.Series(offsets, dtype=pl.Int64), "u64": pl.Series(values, dtype=pl.UInt64)}
        self._frames.append(pl.DataFrame(columns).with_columns(key=pl.lit(key)))

    def add_text(self, key: str, offset: int, text: str) -> None:
        """Add one text."""
        self._frames.append(pl.DataFrame({"offset": [offset], "key": [key], "text": [text]}))

    def frame(self, file: int) -> pl.DataFrame:
        """Return all rows, as `PART_ARGS`."""
        frames = [f for f in self._frames if len(f)]
        if not frames:
            return conform(schema.PART_ARGS)
        rows = pl.concat(frames, how="diagonal").with_columns(file=pl.lit(file))
        return conform(schema.PART_ARGS, rows).sort("offset", maintain_order=True)


def nullable(name: str, values: Array, present: Mask | None = None) -> pl.Series:
    """Return a column in which the null value of `name`, or what is not present, is null."""
    if present is None:
        present = values != _COLUMNS[name][1]
    series = pl.Series(name, values)
    return series if present.all() else series.zip_with(pl.Series(present), pl.Series([None], dtype=series.dtype))


def coded(name: str, codes: Array, values: list[Any]) -> pl.Series:
    """Return the categorical column of texts behind codes; negative codes are null."""
    present = codes >= 0
    if not present.any():
        return pl.Series(name, [None], pl.Categorical).new_from_index(0, len(codes))
    used, place = np.unique(np.where(present, codes, codes[present][0]), return_inverse=True)
    texts = pl.Series(name, [values[i] for i in used.tolist()], pl.String).cast(pl.Categorical)
    return _gather(texts, place, present)


def _gather(texts: pl.Series, place: Array, present: Mask) -> pl.Series:
    index = pl.Series("index", place.astype(np.uint32))
    if not present.all():
        index = index.zip_with(pl.Series(present), pl.Series([None], dtype=pl.UInt32))
    return texts.gather(index)
