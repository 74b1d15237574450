"""Rows of a block, joined, to the tables of its part."""

from __future__ import annotations

from itertools import count

import numpy as np
import pyarrow as pa

from tracecorr import native
from tracecorr.model import schema
from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.read.amdlog.details import Details
from tracecorr.read.amdlog.frames import Columns, Texts
from tracecorr.read.amdlog.joining import Joined
from tracecorr.read.amdlog.rows import NULLS, Rows
from tracecorr.read.amdlog.split import Thread
from tracecorr.read.digits import Ints, Words

_NUMBERS = ("ring", "packet_index", "signal", "command", "arg", "size_bytes")
# Columns of a packet that its event has.
_OF_EVENT = frozenset({"ring", "signal", "packet_index", "size_bytes"})
# Told durations are those between the stamps; a release that reads the clock anew for them is off by so much.
_STEP_NS = 3000
_CLOCKS = ("mono", "mono_raw")


class TableMaker:
    """Make the tables of each block; remembers the texts of the blocks before.

    Args:
        file: key of the file.
        names, results, kernels: texts behind the codes in the rows; they may grow.
        threads: threads behind the codes in the rows; they may grow.
    """

    def __init__(
        self, file: int, names: list[str], results: list[str], kernels: list[str], threads: list[Thread]
    ) -> None:
        self._file, self._threads = file, threads
        values = {"layer": list(LAYERS), "name": names, "kernel": kernels}
        self._texts = {name: Texts(texts) for name, texts in values.items()}
        self._clocks, self._results = Texts(list(_CLOCKS)), Texts(results)

    def events(self, rows: Rows, joined: Joined) -> pa.Table:
        """Return the rows that are complete as `PART_EVENTS`."""
        emitted = joined.emitted
        columns = Columns(schema.PART_EVENTS, len(emitted))
        self._add_common(columns, rows, emitted)
        self._add_calls(columns, rows, emitted, joined.partner)
        columns.add("depth", np.minimum(joined.depth.take(emitted), 0xFFFF).astype(np.uint16))
        columns.add_rows("parent_offset", rows["offset"], emitted, via=joined.parent)
        return columns.table()

    def _add_common(self, columns: Columns, rows: Rows, emitted: Ints) -> None:
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

    def _add_calls(self, columns: Columns, rows: Rows, emitted: Ints, partner: Ints) -> None:
        """Add what the exit of a call gives."""
        given = [rows["kind"], partner, *(rows[name] for name in ("stamp", "told_us", "stream", "flags"))]
        told = (Flag.ENTER_ONLY, Flag.EXIT_ONLY, Flag.SPAN_TOLD, Flag.SPAN_DIFFERS)
        # The exit of an orphan is the row itself: it has an exit record, but no duration.
        of = native.CallRowsOf(*map(native.address, given), _STEP_NS, *map(int, told))
        leave, span, stream, flags = native.end_calls(of, emitted)
        columns.add_rows("end_stamp_ns", rows["stamp"], span)
        columns.add_rows("end_offset", rows["offset"], leave)
        columns.add_rows("end_length", rows["length"], leave)
        columns.add_array("result", self._results.column(rows["result"], leave))
        columns.add("stream", stream, stream > 0)
        columns.add("flags", flags)

    def packets(self, rows: Rows, new: Rows, details: Details, joined: Joined) -> pa.Table:
        """Return the packets and copies of a block as `PART_PACKETS`: what their lines, and those before them, say."""
        size = len(details.packets)
        if size == 0:
            return Columns(schema.PART_PACKETS, 0).table()
        columns = Columns(schema.PART_PACKETS, size)
        columns.add("file", np.full(size, self._file, np.uint16))
        columns.add("offset", new["offset"][details.packets])
        own = details.packets + (len(rows) - len(new))
        command, kernarg = joined.folds.command[own], joined.folds.kernarg[own]
        columns.add("command_offset", rows["offset"][np.maximum(command, 0)], command >= 0)
        kernarg_bytes = rows["kernarg_bytes"][np.maximum(kernarg, 0)]
        columns.add("kernarg_bytes", kernarg_bytes, (kernarg >= 0) & (kernarg_bytes >= 0))
        _add_fields(columns, size, details)
        return columns.table()


def _add_fields(columns: Columns, size: int, details: Details) -> None:
    for name, (values, present) in details.packet_fields.items():
        if name not in _OF_EVENT:
            columns.add(name, values, present)
    if details.waits:
        columns.add_array("dep_signals", _waits(details.waits, size))


def _waits(fields: list[tuple[Ints, Words]], size: int) -> pa.LargeListArray:
    """Return the list of signals (not zero) of each packet; null where the packet waits for none at all."""
    at = np.concatenate([rows for rows, _ in fields])
    values = np.concatenate([values for _, values in fields])
    present = np.zeros(size, np.bool_)
    present[at] = True
    at, values = at[values != 0], values[values != 0]
    order = np.argsort(at, kind="stable")
    ends = np.cumsum(np.bincount(at, minlength=size))
    starts = np.concatenate((np.zeros(1, np.int64), ends))
    # From buffers: the constructor from arrays imports the compute functions of Arrow to turn the mask round.
    buffers = [pa.py_buffer(np.packbits(present, bitorder="little")), pa.py_buffer(starts)]
    return pa.LargeListArray.from_buffers(pa.large_list(pa.uint64()), size, buffers, children=[pa.array(values[order])])
