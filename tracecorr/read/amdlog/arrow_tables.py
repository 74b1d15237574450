"""Rows of a block to the tables of its part, as Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr import native
from tracecorr.model import schema
from tracecorr.model.columns import Table
from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.model.parts import arrow_types
from tracecorr.native import Ints, Struct, Words
from tracecorr.read.amdlog.calls import NULLS, Joined, Rows
from tracecorr.read.amdlog.details import Args, Details
from tracecorr.read.amdlog.tokens import Vocabulary

_Mask = npt.NDArray[np.bool_]

_NUMBERS = ("ring", "packet_index", "signal", "command", "arg", "size_bytes")
# Columns of a packet that its event has.
_OF_EVENT = frozenset({"ring", "signal", "packet_index", "size_bytes"})
# Told durations are those between the stamps; a release that reads the clock again for them is off by so much.
_STEP_NS = 3000
_CLOCKS = ("mono", "mono_raw")
_Array = npt.NDArray[Any]

# What every row of a log has; a column without nulls is written in less time.
_NEVER_NULL = frozenset({"file", "offset", "length", "stamp_ns", "clock", "layer", "name", "depth", "flags", "key"})
# What no log tells takes time to write, too.
_NEVER_TOLD = frozenset({"comm", "cpu", "fd", "cmd"})


class _Texts:
    """Turn codes into columns of texts; the texts behind the codes only grow.

    The texts that occur are numbered again: the fewer of them, the fewer bits takes a row.
    """

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._seen: list[int] = []
        # Of each code; -1 = none yet; never empty.
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


class _Columns:
    """Collect the columns of a table that a log may tell; those that are not set are null."""

    def __init__(self, table: Table, size: int) -> None:
        self._types, self._size = _types_of(table), size
        self._arrays: dict[str, pa.Array] = {}

    def add(self, name: str, values: _Array, present: _Mask | None = None) -> None:
        """Set a column of numbers; what is not present, and numbers that its type cannot hold, are null."""
        dtype = self._types.numbers[name]
        if not np.can_cast(values.dtype, dtype) and len(values):
            limits = np.iinfo(dtype)
            if int(values.min()) < limits.min or int(values.max()) > limits.max:
                fits = (values >= max(limits.min, np.iinfo(values.dtype).min)) & (values <= limits.max)
                present = fits if present is None else present & fits
        self._arrays[name] = _masked(values.astype(dtype, copy=False), present)

    def add_rows(self, name: str, values: _Array, rows: Ints, null: int | None = None, via: Ints | None = None) -> None:
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


def _with_bitmap(values: _Array, bits: npt.NDArray[np.uint8], nulls: int) -> pa.Array:
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


def _masked(values: _Array, present: _Mask | None) -> pa.Array:
    if present is None or present.all():
        return pa.array(values)
    bits = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


class TableMaker:
    """Make the tables of each block; remembers the texts of the blocks before.

    Args:
        file: key of the file.
        vocabulary: texts and threads behind the codes in the rows; they may grow.
    """

    def __init__(self, file: int, vocabulary: Vocabulary) -> None:
        self._file, self._threads = file, vocabulary.threads.values
        values = {"layer": list(LAYERS), "name": vocabulary.names.values, "kernel": vocabulary.kernels.values}
        self._texts = {name: _Texts(texts) for name, texts in values.items()}
        self._clocks, self._results = _Texts(list(_CLOCKS)), _Texts(vocabulary.results.values)

    def events(self, rows: Rows, joined: Joined) -> pa.Table:
        """Return the rows that are complete as `PART_EVENTS`."""
        emitted = joined.emitted
        columns = _Columns(schema.PART_EVENTS, len(emitted))
        self._add_common(columns, rows, emitted)
        self._add_calls(columns, rows, emitted, joined.partner)
        columns.add("depth", np.minimum(joined.depth.take(emitted), 0xFFFF).astype(np.uint16))
        columns.add_rows("parent_offset", rows["offset"], emitted, via=joined.parent)
        return columns.table()

    def _add_common(self, columns: _Columns, rows: Rows, emitted: Ints) -> None:
        """Add what every row has."""
        thread = rows["thread"].astype(np.int64)
        pids = np.array([-1 if t.pid is None else t.pid for t in self._threads], np.int64)
        no_tid = next(n for n in count() if all(t.tid != n for t in self._threads))
        tids = np.array([no_tid if t.tid is None else t.tid for t in self._threads], np.uint64)
        columns.add("file", np.full(len(emitted), self._file, np.uint16))
        columns.add_rows("stamp_ns", rows["stamp"], emitted)
        columns.add_array("clock", self._clocks.column(rows["is_rocr"].astype(np.int32), emitted))
        for name, texts in self._texts.items():
            columns.add_array(name, texts.column(rows[name].astype(np.int32, copy=False), emitted))
        columns.add_rows("pid", pids, emitted, -1, via=thread)
        columns.add_rows("tid", tids, emitted, no_tid, via=thread)
        for name in _NUMBERS:
            if rows.has(name):
                columns.add_rows(name, rows[name], emitted, NULLS[name])
        columns.add_rows("offset", rows["offset"], emitted)
        columns.add_rows("length", rows["length"], emitted)

    def _add_calls(self, columns: _Columns, rows: Rows, emitted: Ints, partner: Ints) -> None:
        """Add what the exit of a call gives."""
        given = {name: rows[name] for name in ("kind", "stamp", "told_us", "stream", "flags")}
        # The exit of an orphan is the row itself: it has an exit record, but no duration.
        of = Struct(
            "CallRows", partner=partner, step_ns=_STEP_NS, enter_only=Flag.ENTER_ONLY, exit_only=Flag.EXIT_ONLY,
            span_told=Flag.SPAN_TOLD, span_differs=Flag.SPAN_DIFFERS, **given,
        )  # fmt: skip
        leave, span, stream, flags = native.end_calls(of, emitted)
        columns.add_rows("end_stamp_ns", rows["stamp"], span)
        columns.add_rows("end_offset", rows["offset"], leave)
        columns.add_rows("end_length", rows["length"], leave)
        columns.add_array("result", self._results.column(rows["result"], leave))
        columns.add("stream", stream, stream > 0)
        columns.add("flags", flags)

    def packets(self, rows: Rows, details: Details, joined: Joined) -> pa.Table:
        """Return the packets and copies of a block as `PART_PACKETS`: what their lines, and those before them, say."""
        size = len(details.packets)
        if size == 0:
            return _Columns(schema.PART_PACKETS, 0).table()
        columns = _Columns(schema.PART_PACKETS, size)
        columns.add("file", np.full(size, self._file, np.uint16))
        columns.add("offset", details.rows["offset"][details.packets])
        own = details.packets + (len(rows) - len(details.rows))
        command, kernarg = joined.folds.command[own], joined.folds.kernarg[own]
        columns.add("command_offset", rows["offset"][np.maximum(command, 0)], command >= 0)
        kernarg_bytes = rows["kernarg_bytes"][np.maximum(kernarg, 0)]
        columns.add("kernarg_bytes", kernarg_bytes, (kernarg >= 0) & (kernarg_bytes >= 0))
        _add_fields(columns, size, details)
        return columns.table()


def make_table(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a few rows as an Arrow table; what they do not tell is null."""
    return pa.Table.from_pylist(list(rows), schema=_types_of(table).schema)


def make_args(args: Args, file: int) -> pa.Table:
    """Return args as `PART_ARGS`, by offset."""
    if not args.numbers and not args.texts:
        return _Columns(schema.PART_ARGS, 0).table()
    keys = list(dict.fromkeys([*args.fields, *(key for _, key, _ in args.texts)]))
    number_of = np.array([keys.index(key) for key in args.fields], np.int32)
    of_text = np.array([keys.index(key) for _, key, _ in args.texts], np.int32)
    key = np.concatenate([*(number_of[fields] for fields, _, _ in args.numbers), of_text])
    offset = np.concatenate([*(offsets for _, offsets, _ in args.numbers), _ints(o for o, _, _ in args.texts)])
    values = np.concatenate([*(found for _, _, found in args.numbers), np.zeros(len(args.texts), np.uint64)])
    order = np.argsort(offset, kind="stable")
    columns, numbers = _Columns(schema.PART_ARGS, len(offset)), len(offset) - len(args.texts)
    columns.add("file", np.full(len(offset), file, np.uint16))
    columns.add("offset", offset[order])
    columns.add_array(
        "key", pa.DictionaryArray.from_arrays(pa.array(key[order]), pa.array(keys, pa.string()), safe=False)
    )
    columns.add("u64", values[order], order < numbers)
    if args.texts:
        # Not taken by arrow: that alone would import what it computes with, which takes some 60 ms.
        given = [*[None] * numbers, *(text for _, _, text in args.texts)]
        columns.add_array("text", pa.array([given[row] for row in order.tolist()], pa.large_string()))
    return columns.table()


def _ints(values: Any) -> Ints:
    return np.array(list(values), np.int64)


def _add_fields(columns: _Columns, size: int, details: Details) -> None:
    for name, (values, present) in details.packet_fields.items():
        if name not in _OF_EVENT:
            columns.add(name, values, present)
    if len(details.waits[0]):
        columns.add_array("dep_signals", _waits(*details.waits, size))


def _waits(at: Ints, values: Words, size: int) -> pa.LargeListArray:
    """Return the list of signals (not zero) of each packet; null if the packet waits for none at all."""
    present = np.zeros(size, np.bool_)
    present[at] = True
    at, values = at[values != 0], values[values != 0]
    order = np.argsort(at, kind="stable")
    ends = np.cumsum(np.bincount(at, minlength=size))
    starts = np.concatenate((np.zeros(1, np.int64), ends))
    # From buffers: the constructor from arrays imports the compute functions of Arrow to turn the mask round.
    buffers = [pa.py_buffer(np.packbits(present, bitorder="little")), pa.py_buffer(starts)]
    return pa.LargeListArray.from_buffers(pa.large_list(pa.uint64()), size, buffers, children=[pa.array(values[order])])
