"""Records to rows: every record of a block with its class, name and fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.parse.amdlog import messages
from tracecorr.parse.amdlog.classify import Classifier, fields
from tracecorr.parse.amdlog.messages import MESSAGES, Kind
from tracecorr.parse.amdlog.packets import PacketReader
from tracecorr.parse.amdlog.rows import Args, Rows
from tracecorr.parse.amdlog.split import Split, Splitter, Thread
from tracecorr.parse.digits import Ints, Words
from tracecorr.parse.text import PAD, Codes, Text

_LAYER = np.array([LAYERS.index(m.layer or "other") for m in MESSAGES] + [LAYERS.index("other")], np.int64)
_HANDLE = re.compile(rb"(?:stream:)?(0x[0-9a-fA-F]+)")
_DEVICE = re.compile(r", device id : \d+$")
# The runtime cuts messages at 4095 bytes; the colour in front of a call is part of them.
_SUCCESS = b"hipSuccess :"
_CUT_LENGTH = 4095 - len("\x1b[32m ")

Fields = dict[str, tuple[Ints, Words]]


@dataclass
class Parsed:
    """Hold the rows of one block and what goes beside them."""

    rows: Rows
    packets: Ints
    packet_fields: Fields
    args: Args = field(default_factory=Args)


class RecordReader:
    """Turn the records of blocks into rows; remembers names, threads and queue addresses."""

    def __init__(self) -> None:
        self.splitter = Splitter()
        self.classifier = Classifier()
        self.results = Codes(lambda text: text.decode("utf-8", "replace"))
        self.kernels = Codes(lambda text: _DEVICE.sub("", text.decode("utf-8", "replace").strip()))
        self._packets = PacketReader()
        self._lanes: dict[tuple[object, ...], int] = {}
        self._lane_of = np.zeros(0, np.int64)
        self._rings: set[int] = set()
        self._queues: set[int] = set()

    @property
    def names(self) -> list[str]:
        """Return the names behind the name codes."""
        return self.classifier.names.values

    @property
    def threads(self) -> list[Thread]:
        """Return the threads behind the thread codes."""
        return self.splitter.threads.values

    def code_of(self, names: tuple[str, ...]) -> Ints:
        """Return the codes of some names."""
        return np.array([self.classifier.names.code_of(n) for n in names], np.int64)

    def read(self, text: Text, split: Split, base: int) -> Parsed:
        """Return the rows of a block whose first byte has offset `base` in the file.

        Records that fold into others without leaving a value are no rows.
        """
        classes = self.classifier.classify(text, split.message, split.end, split.keys, split.is_rocr)
        kept = np.flatnonzero(classes.kind != Kind.FOLDED)
        at, end, found = split.message[kept], split.end[kept], classes.found[kept]
        rows = self._rows(split, kept, base)
        rows["kind"], rows["layer"], rows["name"] = classes.kind[kept], _LAYER[found], classes.name[kept]
        parsed = Parsed(rows, np.zeros(0, np.int64), {})
        self._read_calls(text, rows, classes.stop[kept], end)
        self._read_commands(text, rows, at, end)
        self._read_kernels(text, rows, found, at, end)
        self._read_fields(text, parsed, found, at, end)
        self._read_packets(text, parsed, at, end)
        self._read_streams(text, parsed, at, end)
        self._read_others(text, parsed, at, end)
        return parsed

    def _rows(self, split: Split, kept: Ints, base: int) -> Rows:
        rows = Rows(len(kept))
        start, end = split.start[kept], split.end[kept]
        rows["offset"] = start + (base - PAD)
        rows["length"] = end - start
        rows["stamp"], rows["thread"] = split.stamp_ns[kept], split.thread[kept]
        if split.is_rocr.any():
            rows["is_rocr"] = split.is_rocr[kept]
        cut = end - split.message[kept] >= _CUT_LENGTH
        if cut.any() or split.torn.any():
            rows["flags"] = split.torn[kept] * int(Flag.TORN) + cut * int(Flag.CUT)
        for thread in self.threads[len(self._lane_of) :]:
            lane = self._lanes.setdefault(thread.lane, len(self._lanes))
            self._lane_of = np.append(self._lane_of, lane)
        rows["lane"] = self._lane_of[rows["thread"]]
        return rows

    def _read_calls(self, text: Text, rows: Rows, stop: Ints, end: Ints) -> None:
        kind = rows["kind"]
        leave = np.flatnonzero(kind == Kind.EXIT)
        rows["layer"][(kind == Kind.ENTER) | (kind == Kind.EXIT)] = LAYERS.index("hip")
        start = stop[leave] + len(": Returned ")
        good = text.starts_with(start, _SUCCESS) & (start + len(_SUCCESS) <= end[leave])
        result = np.full(len(leave), self.results.code_of("hipSuccess"), np.int64)
        rest = np.flatnonzero(~good)
        behind, code = text.token(start[rest], b" :", 64)
        result[rest] = self.results.encode(text, start[rest], behind, code)
        rows["result"][leave] = result

    def _read_commands(self, text: Text, rows: Rows, at: Ints, end: Ints) -> None:
        commands = np.flatnonzero(rows["kind"] == Kind.COMMAND)
        commands = commands[text.starts_with(at[commands], b"Command (")]
        start = at[commands] + len("Command (")
        stop, code = text.token(start, b")", 64)
        is_enqueue = text.starts_with(stop, b") enqueued: ") & (stop < end[commands])
        rows["kind"][commands[~is_enqueue]] = Kind.OTHER
        commands, stop = commands[is_enqueue], stop[is_enqueue]
        name = self.classifier.names.encode(text, start[is_enqueue], stop, code[is_enqueue])
        rows["name"][commands] = name
        value, stop, good = text.number(stop + len(") enqueued: "))
        good &= stop <= end[commands]
        rows["command"][commands[good]] = value[good]
        commands, stop = commands[good], stop[good]
        more = text.starts_with(stop, b" to queue: ")
        value, stop, good = text.number(stop[more] + len(" to queue: "))
        good &= stop <= end[commands[more]]
        rows["stream"][commands[more][good]] = value[good]

    def _read_kernels(self, text: Text, rows: Rows, found: Ints, at: Ints, end: Ints) -> None:
        shaders = np.flatnonzero(rows["kind"] == Kind.SHADER)
        skip = np.array([len(m.prefix) for m in MESSAGES] + [0], np.int64)[found[shaders]]
        start, stop = at[shaders] + skip, end[shaders]
        rows["kernel"][shaders] = self.kernels.encode(text, start, stop, text.span_hash(start, stop))

    def _read_fields(self, text: Text, parsed: Parsed, found: Ints, at: Ints, end: Ints) -> None:
        rows = parsed.rows
        addresses: list[tuple[int, str, int]] = []
        for item in fields(text, found, at, end):
            if item.name in ("ring", "swq", "queue"):
                pairs = zip(item.rows.tolist(), item.values.tolist(), strict=True)
                addresses += [(row, item.name, value) for row, value in pairs]
            if item.name == "kernarg_bytes":
                rows["kernarg_bytes"][item.rows] = _signed(item.values)
            elif item.name == "size_bytes":
                rows["size_bytes"][item.rows] = _signed(item.values)
            elif item.name in messages.COLUMNS:
                rows[item.name][item.rows] = item.values
            elif item.name != "queue":
                parsed.args.add(item.name, rows["offset"][item.rows], item.values)
            if item.name == "ring":
                parsed.args.add("hwq", rows["offset"][item.rows], item.values)
        # In the order of the file: a line says nothing about those before it.
        for row, name, value in sorted(addresses):
            if name == "queue":
                self._read_queue(parsed, row, value)
            else:
                (self._rings if name == "ring" else self._queues).add(value)

    def _read_queue(self, parsed: Parsed, row: int, value: int) -> None:
        """Tell ring (HWq) from queue (SWq): ROCm <= 6.1 prints the latter without saying so."""
        style = self.threads[int(parsed.rows["thread"][row])].prints_ring
        if value in self._rings or (value not in self._queues and style):
            parsed.rows["ring"][row] = value
        else:
            is_queue = value in self._queues or style is False
            parsed.args.add("swq" if is_queue else "queue", [int(parsed.rows["offset"][row])], [value])

    def _read_packets(self, text: Text, parsed: Parsed, at: Ints, end: Ints) -> None:
        rows = parsed.rows
        packets = np.flatnonzero((rows["kind"] == Kind.PACKET) | (rows["kind"] == Kind.COPY))
        found, names, kind = self._packets.read(text, at[packets], end[packets])
        is_packet = rows["kind"][packets] == Kind.PACKET
        # A line that was cut before its header is no packet that could be counted.
        broken = is_packet & (kind < 0)
        rows["kind"][packets[broken]] = Kind.OTHER
        rows["layer"][packets[broken]] = LAYERS.index("other")
        known = is_packet & ~broken
        codes = self.code_of(tuple(names))
        if known.any():
            rows["name"][packets[known]] = codes[kind[known]]
        rocr = packets[known & rows["is_rocr"][packets]]
        parsed.args.add("rocr", rows["offset"][rocr], np.ones(len(rocr), np.uint64))
        parsed.packets = packets[~broken]
        place = np.cumsum(~broken) - 1
        for name, (at_rows, values) in found.items():
            good = ~broken[at_rows]
            at_rows, values = at_rows[good], values[good]
            if name in ("ring", "signal"):
                rows[name][packets[at_rows]] = values
            elif name in ("packet_index", "size_bytes"):
                rows[name][packets[at_rows]] = _signed(values)
            parsed.packet_fields[name] = place[at_rows], values

    def _read_streams(self, text: Text, parsed: Parsed, at: Ints, end: Ints) -> None:
        rows = parsed.rows
        is_call = (rows["kind"] == Kind.ENTER) | (rows["kind"] == Kind.EXIT)
        wanted = [i for i, n in enumerate(self.names) if n.startswith(("hipStreamCreate", "hipStreamDestroy"))]
        for row in np.flatnonzero(is_call & np.isin(rows["name"], wanted)).tolist():
            name, offset = self.names[rows["name"][row]], [int(rows["offset"][row])]
            line = text.slice(int(at[row]), int(end[row]))
            if rows["kind"][row] == Kind.EXIT:
                handle = _HANDLE.search(line.partition(b": Returned hipSuccess : ")[2])
                if handle and name.startswith("hipStreamCreate"):
                    rows["stream"][row] = int(handle[1], 16) & 0xFFFFFFFFFFFFFFFF
                continue
            given = [a.strip() for a in line.partition(b" ( ")[2].rpartition(b")")[0].split(b",")]
            if name.startswith("hipStreamDestroy"):
                handle = _HANDLE.match(given[0])
                rows["stream"][row] = int(handle[1], 16) & 0xFFFFFFFFFFFFFFFF if handle else 0
            for key, value in zip(("flags", "priority"), given[1:], strict=False):
                if re.fullmatch(rb"-?\d{1,18}", value) and name != "hipStreamDestroy":
                    parsed.args.add(key, offset, [int(value) & 0xFFFFFFFFFFFFFFFF])

    def _read_others(self, text: Text, parsed: Parsed, at: Ints, end: Ints) -> None:
        rows = parsed.rows
        others = np.flatnonzero(rows["kind"] == Kind.OTHER)
        rows["name"][others] = self.classifier.general(text, at[others], end[others])
        rows["layer"][others] = LAYERS.index("other")
        rows["kind"][others] = Kind.ROW
        for row in np.flatnonzero(rows["kind"] == Kind.VERSION).tolist():
            line = text.read(int(at[row]), int(end[row]))
            parsed.args.add_text("version", int(rows["offset"][row]), line)


def _signed(values: Words) -> Ints:
    # A number that cannot be a size or an index (garbage of 5.4) becomes null.
    return np.maximum(values.astype(np.int64), -1)


def packet_frame(parts: list[Parsed], without: list[str]) -> pl.DataFrame:
    """Return packets as columns of `PART_PACKETS` (key, and what the lines say), but for those in `without`."""
    offsets = [part.rows["offset"][part.packets] for part in parts]
    size = sum(map(len, offsets))
    if size == 0:
        return pl.DataFrame()
    columns: dict[str, pl.Series] = {"offset": pl.Series(np.concatenate(offsets), dtype=pl.Int64)}
    fields = _join_fields(parts)
    waits = [name for name in fields if name.startswith(("dep_", "wait_"))]
    for name, (at, values) in fields.items():
        if name in waits or name in without:
            continue
        column, present = np.zeros(size, np.uint64), np.zeros(size, np.bool_)
        column[at], present[at] = values, True
        series = pl.Series(name, column)
        if not present.all():
            series = series.zip_with(pl.Series(present), pl.Series([None], dtype=pl.UInt64))
        columns[name] = series
    if waits:
        columns["dep_signals"] = _waits([fields[name] for name in waits], size)
    return pl.DataFrame(columns)


def _join_fields(parts: list[Parsed]) -> Fields:
    before = np.cumsum([0, *(len(part.packets) for part in parts)])
    joined: dict[str, list[tuple[Ints, Words]]] = {}
    for base, part in zip(before.tolist(), parts, strict=False):
        for name, (at, values) in part.packet_fields.items():
            joined.setdefault(name, []).append((at + base, values))
    return {
        name: (np.concatenate([at for at, _ in found]), np.concatenate([values for _, values in found]))
        for name, found in joined.items()
    }


def _waits(fields: list[tuple[Ints, Words]], size: int) -> pl.Series:
    """Return the list of signals (not zero) of each packet; null where the packet waits for none at all."""
    at = np.concatenate([rows for rows, _ in fields])
    values = np.concatenate([values for _, values in fields])
    present = np.zeros(size, np.bool_)
    present[at] = True
    at, values = at[values != 0], values[values != 0]
    order = np.argsort(at, kind="stable")
    ends = np.cumsum(np.bincount(at, minlength=size))
    lists = pa.LargeListArray.from_arrays(
        pa.array(np.concatenate((np.zeros(1, np.int64), ends))), pa.array(values[order]), mask=pa.array(~present)
    )
    return pl.Series("dep_signals", pl.from_arrow(lists))
