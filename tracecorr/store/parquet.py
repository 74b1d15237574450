"""Frames as Parquet files: integers as differences, texts as a dictionary, both compressed.

Times, offsets and pointers grow or jump little from row to row: delta encoding keeps them at a byte or two per row.
The encodings that arrow takes by itself need twice the CPU time and room.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

# The index of a row group takes some kilobytes; fewer rows would not fill its encodings. Two groups are in memory, the
# one that is encoded and the next. Of a large frame, which is there anyway, more are encoded at once.
_GROUP_ROWS, _MOST_GROUP_ROWS = 1 << 17, 1 << 20
# Each page starts its compression and its encodings; larger ones would take more memory.
_PAGE_ROWS, _BATCH_ROWS = 1 << 16, 1 << 12


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame; its schema comes back with it, Categoricals as such."""
    with FrameWriter(path) as out:
        out.write(frame)


class FrameWriter:
    """Write frames of the same columns one after the other into one file; at least one frame.

    A thread encodes one group of rows while the next is made.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._empty: pl.DataFrame | pa.Table | None = None
        self._held: list[pa.Table] = []
        self._rows = 0
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._encoding: Future[None] | None = None

    def write(self, frame: pl.DataFrame | pa.Table) -> None:
        """Add the rows of a frame (or of a table as `arrow_types` says); small ones wait until they fill a group."""
        if len(frame) == 0:
            self._empty = frame
            return
        self._hold(frame)
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Leaving this waits for the thread, also where the work on the rows failed.
        with self._thread:
            if kind is None:
                if self._empty is not None and not self._held and not self._encoding:
                    self._hold(self._empty)
                self._flush()
                self._wait()
        if self._writer:
            self._writer.close()

    def _hold(self, frame: pl.DataFrame | pa.Table) -> None:
        self._held.append(_to_arrow(frame) if isinstance(frame, pl.DataFrame) else frame)
        self._rows += len(frame)

    def _flush(self) -> None:
        if not self._held:
            return
        self._wait()
        self._encoding = self._thread.submit(self._encode, self._held)
        self._held, self._rows = [], 0

    def _wait(self) -> None:
        """Wait until the group before is written, and raise what stopped that."""
        if self._encoding:
            self._encoding.result()

    def _encode(self, held: list[pa.Table]) -> None:
        table = pa.concat_tables(held).unify_dictionaries()
        if self._writer is None:
            self._writer = _open(self._path, table.schema)
        self._writer.write_table(table, row_group_size=_MOST_GROUP_ROWS)


def _open(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    numbers = [column.name for column in columns if pa.types.is_integer(column.type)]
    return pq.ParquetWriter(
        path, columns, compression="zstd", compression_level=1,
        use_dictionary=[name for name in columns.names if name not in numbers],
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED") or None, write_statistics=numbers,
        max_rows_per_page=_PAGE_ROWS, write_batch_size=_BATCH_ROWS,
    )  # fmt: skip


def _to_arrow(frame: pl.DataFrame) -> pa.Table:
    columns = [_to_dictionary(c) if c.dtype == pl.Categorical else c.to_arrow() for c in frame.iter_columns()]
    return pa.Table.from_arrays(columns, names=frame.columns)


def _to_dictionary(column: pl.Series) -> pa.DictionaryArray:
    """Return a Categorical with a dictionary of the values that occur, in the order of their texts.

    Of this type alone the writer takes the codes as they are; polars has 64-bit texts, and all values of the process
    in an order that differs from run to run.
    """
    codes = column.to_physical()
    most = codes.max()
    if not isinstance(most, int):  # nothing but nulls
        return pa.DictionaryArray.from_arrays(pa.nulls(len(codes), pa.int32()), pa.array([], pa.string()))
    if most == codes.min() and not codes.null_count():
        text = pa.array(column.head(1).cast(pl.String).to_list(), pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(codes), np.int32)), text, safe=False)
    occurs = np.zeros(most + 1, np.bool_)
    occurs[codes.drop_nulls().to_numpy()] = True
    listed = pl.Series(np.flatnonzero(occurs), dtype=codes.dtype)
    texts = listed.cat.to(column.dtype).cast(pl.String)
    order = texts.arg_sort()
    number = np.zeros(most + 1, np.int32)
    number[listed.gather(order).to_numpy()] = np.arange(len(listed))
    mask = codes.is_null().to_numpy() if codes.null_count() else None
    numbers = pa.array(number[codes.fill_null(0).to_numpy()], mask=mask)
    # Not cast by arrow: that alone would import what it computes with, which takes some 60 ms.
    return pa.DictionaryArray.from_arrays(numbers, pa.array(texts.gather(order).to_list(), pa.string()), safe=False)
