"""Frames as Parquet files: each column in the encoding that suits it.

Times, offsets and pointers grow or jump little from row to row: delta encoding keeps them at a byte
or two per row. Columns with few values are written as a dictionary. Tables are not compressed on top of
that, parts are: nobody reads them often.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tracecorr.model.arrow import take_column
from tracecorr.model.columns import CAT

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
# Of parts: sizes of a kernel, which compress as well without a dictionary, and what does not become smaller at all.
_SIZES = frozenset(
    {
        "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "private_bytes", "group_bytes",
        "kernarg_bytes",
    }
)  # fmt: skip
_STEPS = frozenset({"parent_offset", "end_stamp_ns", "end_offset", "command_offset", "result"})
# What grows and is looked for by value: readers leave out the groups of rows that a filter excludes. Others hold all
# their values in every group, or nobody asks for some of them alone.
_SOUGHT = frozenset(
    {"event", "ts_ns", "offset", "parent", "chain", "call_event", "packet_ns", "from_event", "to_event"}
)  # fmt: skip
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

    A thread encodes one group of rows while the next is made.

    Args:
        path: the file.
        compressed: make it as small as it can be; else readers can leave out groups of rows (`_SOUGHT`).
        known: columns of frames that have a value in every row of all of them.
    """

    def __init__(self, path: Path, *, compressed: bool = False, known: Collection[str] = ()) -> None:
        self._path, self._compressed, self._known = path, compressed, known
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
        self._held.append(_to_arrow(frame, self._known) if isinstance(frame, pl.DataFrame) else frame)
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
            self._writer = _open(self._path, table.schema, compressed=self._compressed)
        self._writer.write_table(table, row_group_size=_MOST_GROUP_ROWS)


def _open(path: Path, columns: pa.Schema, *, compressed: bool) -> pq.ParquetWriter:
    coded = [c.name for c in columns if pa.types.is_dictionary(c.type)]
    numbers = [c.name for c in columns if pa.types.is_integer(c.type)]
    runs = _IN_RUNS | _SIZES if compressed else _IN_RUNS
    few = [name for name in numbers if name in _FEW_VALUES - runs]
    texts = [c.name for c in columns if pa.types.is_string(c.type) or pa.types.is_large_string(c.type)]
    deltas = {name: "DELTA_BINARY_PACKED" for name in numbers if name not in few and name not in runs}
    plain = _STEPS if compressed else {*coded, *few, *deltas}
    return pq.ParquetWriter(
        path, columns, compression={name: "none" if name in plain else "zstd" for name in columns.names},
        compression_level={name: 1 for name in columns.names if name not in plain},
        use_dictionary=[*coded, *few, *texts], column_encoding=deltas or None,
        write_statistics=[] if compressed else [name for name in deltas if name in _SOUGHT],
        max_rows_per_page=_PAGE_ROWS, write_batch_size=_BATCH_ROWS,
    )  # fmt: skip


def _to_arrow(frame: pl.DataFrame, known: Collection[str]) -> pa.Table:
    columns = [_to_dictionary(c) if c.dtype == pl.Categorical else c.to_arrow() for c in frame.iter_columns()]
    named = zip(frame.columns, columns, strict=True)
    schema = pa.schema([pa.field(name, column.type, name not in known) for name, column in named])
    return pa.Table.from_arrays(columns, schema=schema)


def _to_dictionary(column: pl.Series) -> pa.DictionaryArray:
    """Return a Categorical with a dictionary of the values that occur, in the order of their first rows.

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
    listed = codes.drop_nulls().unique(maintain_order=True)
    number = np.zeros(most + 1, np.int32)
    number[listed.to_numpy()] = np.arange(len(listed))
    numbers = pa.array(number[codes.fill_null(0).to_numpy()], mask=codes.is_null().to_numpy())
    texts = listed.cat.to(column.dtype).cast(pl.String)
    # Not cast by arrow: that alone would import what it computes with, which takes some 60 ms.
    return pa.DictionaryArray.from_arrays(numbers, pa.array(texts.to_list(), pa.string()), safe=False)


def read_categories(files: Sequence[pq.ParquetFile], name: str) -> pl.Series | pl.Expr:
    """Return a column of several files, one behind the other; as a literal where it holds one value throughout.

    Polars itself looks up the text of each row, which takes twice as long as all that is done here.

    Args:
        files: their rows are in the order of the column.
        name: the column.
    """
    groups = list(_read_groups(files, name))
    # As long as these are there, a category keeps its number.
    texts = pl.concat([pl.Series(dtype=pl.String), *(take_column(group.dictionary) for group in groups)]).cast(CAT)
    values = texts.unique()
    if values.is_empty() or (len(values) == 1 and not any(group.null_count for group in groups)):
        return pl.lit(values.first(), CAT).alias(name)
    bounds = itertools.accumulate((len(group.dictionary) for group in groups), initial=0)
    numbers = texts.to_physical().to_numpy()
    codes = [_number(group, numbers[a:b]) for group, (a, b) in zip(groups, itertools.pairwise(bounds), strict=True)]
    return pl.concat(codes).rechunk().cat.to(CAT).alias(name)


def _read_groups(files: Sequence[pq.ParquetFile], name: str) -> Iterator[pa.DictionaryArray]:
    for file in files:
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, [name], use_threads=False).column(0).chunks


def _number(group: pa.DictionaryArray, numbers: npt.NDArray[np.uint32]) -> pl.Series:
    """Return the number of each row's category, given those of the group's texts."""
    indices, count = group.indices, len(group)
    if not len(numbers):
        return pl.repeat(None, count, dtype=pl.UInt32, eager=True)
    valid, places = indices.buffers()
    at = np.frombuffer(places, np.int32, indices.offset + count)
    # Where a row is null any number may stand.
    taken = pa.py_buffer(numbers.take(at, mode="clip"))
    return take_column(pa.Array.from_buffers(pa.uint32(), count, [valid, taken], indices.null_count, indices.offset))
