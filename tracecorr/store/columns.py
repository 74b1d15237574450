"""Frames as Parquet files: each column in the encoding that suits it.

Times, offsets and pointers grow or jump little from row to row: delta encoding keeps them at a byte
or two per row. Columns with few values are written as a dictionary.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

_FEW_VALUES = frozenset(
    {
        "length", "end_length", "dur_ns", "gap_ns", "tid", "cpu", "ring", "stream", "signal", "arg", "fd",
        "cmd", "size_bytes", "queue", "kernel", "swq", "log_id",
        "header", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "private_bytes",
        "group_bytes", "kernel_object", "kernarg_bytes", "engine",
    }
)  # fmt: skip
# The same in many rows behind each other: such runs are left to the compression.
_IN_RUNS = frozenset({"file", "process", "pid", "gpu", "err_lo_ns", "err_hi_ns", "gap_err_ns"})
# The index of a row group takes some kilobytes; fewer rows would not fill its encodings. Two groups are in memory, the
# one that is encoded and the next. Of a large frame, which is there anyway, more are encoded at once.
_GROUP_ROWS, _MOST_GROUP_ROWS = 1 << 17, 1 << 20
# Each page begins its compression and its encodings anew; larger ones would take more memory.
_PAGE_ROWS, _BATCH_ROWS = 1 << 16, 1 << 12


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame; its schema comes back with it, Categoricals as such."""
    with FrameWriter(path) as out:
        out.write(frame)


class FrameWriter:
    """Write frames of the same columns one after the other into one file; at least one frame.

    A thread encodes one group of rows while the next is made. With `statistics` readers can leave out groups of rows
    that a filter excludes: of columns that grow, as others hold all their values in every group.
    """

    def __init__(self, path: Path, *, statistics: bool = True) -> None:
        self._path, self._statistics = path, statistics
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
            self._writer = _open(self._path, table.schema, statistics=self._statistics)
        self._writer.write_table(table, row_group_size=_MOST_GROUP_ROWS)


def _open(path: Path, columns: pa.Schema, *, statistics: bool) -> pq.ParquetWriter:
    coded = [c.name for c in columns if pa.types.is_dictionary(c.type)]
    numbers = [c.name for c in columns if pa.types.is_integer(c.type)]
    few = [name for name in numbers if name in _FEW_VALUES]
    texts = [c.name for c in columns if pa.types.is_string(c.type) or pa.types.is_large_string(c.type)]
    deltas = {name: "DELTA_BINARY_PACKED" for name in numbers if name not in few and name not in _IN_RUNS}
    return pq.ParquetWriter(
        path, columns, compression="zstd", compression_level=1, use_dictionary=[*coded, *few, *texts],
        column_encoding=deltas or None, write_statistics=list(deltas) if statistics else False,
        max_rows_per_page=_PAGE_ROWS, write_batch_size=_BATCH_ROWS,
    )  # fmt: skip


def _to_arrow(frame: pl.DataFrame) -> pa.Table:
    columns = [_to_dictionary(c) if c.dtype == pl.Categorical else c.to_arrow() for c in frame.iter_columns()]
    return pa.table(dict(zip(frame.columns, columns, strict=True)))


def _to_dictionary(column: pl.Series) -> pa.DictionaryArray:
    """Return a Categorical with a sorted dictionary of the values that occur.

    Of this type alone the writer takes the codes as they are; polars has 64-bit texts, and all values of the process
    in an order that differs from run to run.
    """
    codes = column.to_physical()
    low = codes.min()
    if low is None:
        return pa.DictionaryArray.from_arrays(pa.nulls(len(codes), pa.int32()), pa.array([], pa.string()))
    if low == codes.max() and not codes.null_count():
        text = pa.array(column.head(1).cast(pl.String).to_list(), pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(codes), np.int32)), text)
    filled = codes.fill_null(low).to_numpy().astype(np.intp)
    seen = np.zeros(int(filled.max()) + 1, bool)
    seen[filled] = True
    used = np.flatnonzero(seen)
    texts = pl.Series(used, dtype=codes.dtype).cat.to(column.dtype).cast(pl.String)
    order = texts.arg_sort().to_numpy()
    number = np.zeros(len(seen), np.int32)
    number[used[order]] = np.arange(len(used), dtype=np.int32)
    # Not cast by arrow: that alone would import what it computes with, which takes some 60 ms.
    sorted_texts = pa.array(texts.gather(order).to_list(), pa.string())
    return pa.DictionaryArray.from_arrays(_put(number, filled, codes), sorted_texts)


def _put(number: npt.NDArray[np.int32], at: npt.NDArray[np.intp], nulls: pl.Series) -> pa.Array:
    """Return the numbers at some places, null where a column is; its bits tell that, as they are."""
    valid, missing = nulls.to_arrow(), nulls.null_count()
    if not missing:
        return pa.array(number.take(at))
    # The bits begin within a byte, and the numbers with as many that nobody reads.
    first = valid.offset % 8
    values = np.zeros(first + len(at), np.int32)
    number.take(at, out=values[first:], mode="clip")
    bits = valid.buffers()[0].slice(valid.offset // 8)
    return pa.Array.from_buffers(pa.int32(), len(at), [bits, pa.py_buffer(values)], missing, first)
