"""The reader: bytes to blocks of lines, lines to rows, rows to frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.model.parts import Block
from tracecorr.parse.amdlog.calls import NO_EXIT, OPEN, WITHOUT_EXIT, Calls, Held, Nesting, find_held, nest, pair
from tracecorr.parse.amdlog.details import DetailReader, Details
from tracecorr.parse.amdlog.fold import Folds, fold
from tracecorr.parse.amdlog.messages import Kind
from tracecorr.parse.amdlog.packet_frame import packet_frame
from tracecorr.parse.amdlog.records import RecordReader
from tracecorr.parse.amdlog.rows import Categories, Ledger, Rows, conform, nullable
from tracecorr.parse.digits import Ints, Mask
from tracecorr.parse.text import PAD, Text, pad

BLOCK_BYTES = 8 << 20
_NUMBERS = ("ring", "packet_index", "signal", "command", "arg", "size_bytes")
_LONGEST_LINE = 64 << 20
_NEWLINE = 10
# Where no line begins like a record, a block is cut at any line.
_LOOK_AHEAD = 1 << 20


def read_amd_log(chunks: Iterable[bytes], file: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the rows of an AMD HIP runtime log, block by block.

    Args:
        chunks: the decompressed bytes of the log, cut anywhere.
        file: key of the file, put into every row.
        block_bytes: about how many bytes are read at once.

    Yields:
        Blocks of rows. A call comes with the block that holds its exit, or a later one; rows behind a call inside of an
        open one wait for its exit, at most `WAIT_BYTES` of the file.
    """
    reader = _Reader(file)
    for text in cut_blocks(chunks, block_bytes):
        yield reader.read(text)
    yield reader.finish()


def looks_like_amd_log(head: bytes) -> bool:
    """Return whether the first bytes of a file hold a record of the AMD log."""
    text = Text(head[: 1 << 18])
    return len(RecordReader().splitter.split(text).start) > 0


def cut_blocks(chunks: Iterable[bytes], size: int) -> Iterator[Text]:
    """Yield the bytes in blocks that end at a line end; the cuts depend on the content only."""
    parts: list[bytes | bytearray] = []
    held, enough = 0, size
    for chunk in chunks:
        parts.append(chunk)
        held += len(chunk)
        if held < enough:
            continue
        data = pad(*parts)
        start, end = PAD, PAD + held
        while end - start >= size:
            stop = _cut(data, start, end, size)
            if not stop:
                break
            ends_line = data[stop - 1] == _NEWLINE
            yield Text.within(data, start, stop) if ends_line else Text(data[start:stop])
            start = stop
        parts, held = [data[start:end]], end - start
        # A line longer than a block: look again when there is more of it.
        enough = size if held < size else 2 * held
    if held:
        yield Text(b"".join(parts))


def _cut(data: bytearray, start: int, end: int, size: int) -> int:
    """Return where a block ends that begins at `start`; 0 = the data up to `end` does not show it yet.

    A block begins with a line that may be a record: what follows a record stays with it.
    """
    stop = data.rfind(b"\n:", start + 1, min(start + size + 1, end)) + 1
    if stop > start + 1:
        return stop
    stop = data.find(b"\n:", start + size, min(start + size + _LOOK_AHEAD, end)) + 1
    if stop:
        return stop
    if end - start < size + _LOOK_AHEAD:
        return 0
    stop = data.rfind(b"\n", start, start + size) + 1
    stop = stop or data.find(b"\n", start + size, min(start + _LONGEST_LINE, end)) + 1
    if not stop and end - start >= _LONGEST_LINE:
        stop = start + _LONGEST_LINE
    return stop


class _Reader:
    """Hold what one block leaves to the next: open calls and lines that wait for their packet."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._offset = 0
        self._records = RecordReader()
        self._details = DetailReader(self._records.classifier)
        self._carried = Rows(0)
        self._leaves = self._records.code_of(WITHOUT_EXIT)
        self._dispatch = int(self._records.code_of(("dispatch",))[0])
        self._ledger = Ledger()
        layers, clocks = list(LAYERS), ["mono", "mono_raw"]
        values = {"layer": layers, "clock": clocks, "name": self._records.names, "result": self._records.results.values}
        self._categories = {name: Categories(texts) for name, texts in values.items()}
        self._categories["kernel"] = Categories(self._details.kernels.values)

    def read(self, text: Text) -> Block:
        """Return the rows of the next block of lines, as far as they are complete."""
        split = self._records.splitter.split(text)
        lines = self._records.read(text, split, self._offset)
        self._offset += text.stop - text.start
        self._ledger.add("used", "", len(split.start), split.used_bytes)
        for reason, counts in split.skipped.items():
            self._ledger.add("skipped", reason, *counts)
        details = self._details.read(lines.text, lines.rows, lines.found, lines.at, lines.end, self._records.threads)
        return self._block(lines.rows, details, is_last=False)

    def finish(self) -> Block:
        """Return the rows left, also those that waited for something the file does not hold."""
        return self._block(Rows(0), Details.none(), is_last=True)

    def _block(self, new: Rows, details: Details, *, is_last: bool) -> Block:
        rows = Rows.join([self._carried, new])
        rows["is_old"][: len(self._carried)] = True
        joined = self._join(rows, is_last=is_last)
        events = self._events(rows, joined)
        packets = self._packets(details, rows, new, joined)
        self._carried = self._carry(rows, joined)
        args = details.args.frame(self._file)
        return Block(events, packets, args, self._ledger.take(self._file), conform(schema.LOSSES))

    def _carry(self, rows: Rows, joined: _Joined) -> Rows:
        """Return the rows that the next batch needs again."""
        held = joined.held
        rows["is_old"] = np.zeros(len(rows), np.bool_)
        rows["is_held"], rows["is_passed"] = joined.in_file(held.rows), joined.in_file(held.passed)
        return rows.take(np.flatnonzero(joined.in_file(joined.stays_open | joined.waiting | held.rows)))

    def _join(self, rows: Rows, *, is_last: bool) -> _Joined:
        # Rows are in the order of the file; a stable sort by lane keeps it inside of each lane.
        narrow = rows["lane"].astype(np.int16) if rows["lane"].max(initial=0) < 1 << 15 else rows["lane"]
        order = np.argsort(narrow, kind="stable")
        lane, kind, name = rows["lane"][order], rows["kind"][order], rows["name"][order]
        is_rocr = rows["is_rocr"][order]
        leaf = (name == self._leaves[0]) | (name == self._leaves[1])
        has_no_tid = np.array([t.tid is None for t in self._records.threads], np.bool_)
        offset, shared = rows["offset"][order], has_no_tid[rows["thread"]][order]
        calls = Calls(lane, kind, name, offset, shared, rows["is_passed"][order], rows["is_doubtful"][order])
        partner = pair(calls, leaf)
        nesting, held = nest(calls, partner), find_held(calls, partner, self._offset)
        rows["is_doubtful"][order] = calls.doubtful
        held.rows &= not is_last
        stays_open = (kind == Kind.ENTER) & (partner == OPEN) & (not is_last)
        is_dispatch = (name == self._dispatch) & (kind == Kind.PACKET) & ~is_rocr
        folds = fold(lane, kind, is_dispatch, is_rocr)
        waiting = folds.waiting & (not is_last)
        is_done = (rows["is_old"] & ~rows["is_held"])[order]
        emitted = _emitted(kind, is_done, partner, folds, stays_open, waiting) & ~held.rows
        return _Joined(order, partner, nesting, held, folds, stays_open, waiting, emitted)

    def _events(self, rows: Rows, joined: _Joined) -> pl.DataFrame:
        order, folds = joined.order, joined.folds
        for name, source in (("kernel", folds.shader), ("command", folds.command)):
            to = np.flatnonzero(source >= 0)
            rows[name][order[to]] = rows[name][order[source[to]]]
        emitted = np.flatnonzero(joined.in_file(joined.emitted))
        place = joined.place()[emitted]
        partner, parent = joined.partner[place], joined.nesting.parent[place]
        parent_offset = rows["offset"][order[np.maximum(parent, 0)]]
        own = rows.take(emitted)
        is_call = (own["kind"] == Kind.ENTER) | (own["kind"] == Kind.EXIT)
        half = is_call & (partner < 0)
        orphan = half & (own["kind"] == Kind.EXIT)
        has_exit = (is_call & (partner >= 0)) | orphan
        # The exit of an orphan is the row itself: it has an exit record, but no duration.
        leave = np.where(partner >= 0, order[np.maximum(partner, 0)], emitted)
        stream = rows["stream"][leave]
        columns = self._common(own)
        columns += [
            nullable("end_stamp_ns", rows["stamp"][leave], has_exit & ~orphan),
            nullable("end_offset", rows["offset"][leave], has_exit),
            nullable("end_length", rows["length"][leave], has_exit),
            self._categories["result"].column("result", np.where(has_exit, rows["result"][leave], -1)),
            nullable("stream", np.where(has_exit & (stream > 0), stream, own["stream"])),
            pl.Series("depth", np.minimum(joined.nesting.depth[place], 0xFFFF).astype(np.uint16)),
            nullable("parent_offset", parent_offset, parent >= 0),
        ]
        flags = own["flags"] | np.where(has_exit, rows["flags"][leave], 0)
        flags |= np.where(orphan, int(Flag.EXIT_ONLY), np.where(half, int(Flag.ENTER_ONLY), 0)).astype(np.uint16)
        columns.append(pl.Series("flags", flags))
        return conform(schema.PART_EVENTS, pl.DataFrame(columns))

    def _common(self, own: Rows) -> list[pl.Series]:
        threads = self._records.threads
        pids = np.array([-1 if t.pid is None else t.pid for t in threads], np.int64)[own["thread"]]
        has_tid = np.array([t.tid is not None for t in threads], np.bool_)[own["thread"]]
        tids = np.array([t.tid or 0 for t in threads], np.uint64)[own["thread"]]
        return [
            pl.Series("file", np.full(len(own), self._file, np.uint16)),
            pl.Series("stamp_ns", own["stamp"]),
            self._categories["clock"].column("clock", own["is_rocr"]),
            *(self._categories[name].column(name, own[name]) for name in ("layer", "name", "kernel")),
            nullable("pid", pids, pids >= 0),
            nullable("tid", tids, has_tid),
            *(
                nullable(n, own[n])
                for n in ("ring", "packet_index", "signal", "command", "arg", "size_bytes")
                if own.has(n)
            ),
            pl.Series("offset", own["offset"]),
            pl.Series("length", own["length"]),
        ]

    def _packets(self, details: Details, rows: Rows, new: Rows, joined: _Joined) -> pl.DataFrame:
        frame = packet_frame(new, details, ["ring", "signal", "packet_index", "size_bytes"])
        if len(frame) == 0:
            return conform(schema.PART_PACKETS)
        at = np.flatnonzero(((rows["kind"] == Kind.PACKET) | (rows["kind"] == Kind.COPY)) & ~rows["is_old"])
        place = joined.place()[at]
        command, kernarg = joined.folds.command[place], joined.folds.kernarg[place]
        frame = frame.with_columns(
            nullable("command_offset", rows["offset"][joined.order[np.maximum(command, 0)]], command >= 0),
            nullable("kernarg_bytes", rows["kernarg_bytes"][joined.order[np.maximum(kernarg, 0)]], kernarg >= 0),
            file=pl.lit(self._file),
        )
        return conform(schema.PART_PACKETS, frame)


@dataclass
class _Joined:
    """Hold what belongs together in a batch; all but `order` are sorted by lane.

    Args:
        order: rows sorted by lane.
        partner: of an enter its exit, of an exit its enter, or `OPEN` or `NO_EXIT`.
        held: rows whose depth and parent the next batch may show.
        stays_open: calls whose exit may come in the next batch.
        waiting: rows whose packet may come in the next batch.
        emitted: rows that become events.
    """

    order: Ints
    partner: Ints
    nesting: Nesting
    held: Held
    folds: Folds
    stays_open: Mask
    waiting: Mask
    emitted: Mask

    def in_file(self, mask: Mask) -> Mask:
        """Return the mask in the order of the file."""
        moved = np.empty_like(mask)
        moved[self.order] = mask
        return moved

    def place(self) -> Ints:
        """Return for each row of the file its place in the order of lanes."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        return place


def _emitted(kind: Ints, is_done: Mask, partner: Ints, folds: Folds, stays_open: Mask, waiting: Mask) -> Mask:
    """Return the rows that become events, unless they are held back; `is_done` ones did so in an earlier batch."""
    simple = ~is_done & _IS_SIMPLE[kind]
    folded = np.zeros(len(kind), np.bool_)
    folded[folds.shader[folds.shader >= 0]] = True
    shader = (kind == Kind.SHADER) & ~folded & ~waiting
    orphan = (kind == Kind.EXIT) & (partner == NO_EXIT)
    call = (kind == Kind.ENTER) & ~stays_open
    emitted: Mask = simple | shader | orphan | call
    return emitted


_IS_SIMPLE = np.zeros(16, np.bool_)
_IS_SIMPLE[[Kind.ROW, Kind.COMMAND, Kind.VERSION, Kind.PACKET, Kind.COPY]] = True
