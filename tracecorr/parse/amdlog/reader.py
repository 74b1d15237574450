"""The reader: bytes to blocks of lines, lines to rows, rows to frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.model.parts import Block
from tracecorr.parse.amdlog.calls import NO_EXIT, OPEN, WITHOUT_EXIT, Nesting, Pairs, nest, pair
from tracecorr.parse.amdlog.fold import Folds, fold
from tracecorr.parse.amdlog.messages import Kind
from tracecorr.parse.amdlog.records import Parsed, RecordReader, packet_frame
from tracecorr.parse.amdlog.rows import Rows, coded, conform, nullable
from tracecorr.parse.amdlog.split import Split
from tracecorr.parse.text import Ints, Mask, Text

BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20


def read_amd_log(chunks: Iterable[bytes], file: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the rows of an AMD HIP runtime log, block by block.

    Args:
        chunks: the decompressed bytes of the log, cut anywhere.
        file: key of the file, put into every row.
        block_bytes: about how many bytes are read at once.

    Yields:
        Blocks of rows. A call comes with the block that holds its exit.
    """
    reader = _Reader(file)
    for data in cut_blocks(chunks, block_bytes):
        yield reader.read(data)
    yield reader.finish()


def looks_like_amd_log(head: bytes) -> bool:
    """Return whether the first bytes of a file hold a record of the AMD log."""
    text = Text(head[: 1 << 18])
    return len(RecordReader().splitter.split(text).start) > 0


def cut_blocks(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the bytes in blocks that end at a line end; the cuts depend on the content only."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start >= size:
            stop = buffer.rfind(b"\n", start, start + size) + 1
            if stop <= start:
                stop = buffer.find(b"\n", start + size, start + _LONGEST_LINE) + 1
            if stop <= start:
                if len(buffer) - start < _LONGEST_LINE:
                    break
                stop = start + _LONGEST_LINE
            yield bytes(memoryview(buffer)[start:stop])
            start = stop
        del buffer[:start]
    if buffer:
        yield bytes(buffer)


class _Reader:
    """Hold what one block leaves to the next: open calls and lines that wait for their packet."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._offset = 0
        self._records = RecordReader()
        self._carried = Rows.blank(0)
        self._leaves = self._records.code_of(WITHOUT_EXIT)

    def read(self, data: bytes) -> Block:
        """Return the rows of the next block of lines."""
        text = Text(data)
        split = self._records.splitter.split(text)
        parsed = self._records.read(text, split, self._offset)
        self._offset += len(data)
        return self._block(parsed, split, is_last=False)

    def finish(self) -> Block:
        """Return the rows that waited for something the file does not hold."""
        split = self._records.splitter.split(Text(b""))
        parsed = self._records.read(Text(b""), split, self._offset)
        return self._block(parsed, split, is_last=True)

    def _block(self, parsed: Parsed, split: Split, *, is_last: bool) -> Block:
        old = len(self._carried)
        rows = parsed.rows.behind(self._carried)
        rows["is_old"][:old] = True
        order = np.lexsort((rows["offset"], rows["lane"]))
        rows = rows.take(order)
        pairs = pair(rows["lane"], rows["kind"], rows["name"], np.isin(rows["name"], self._leaves))
        nesting = nest(rows["lane"], rows["kind"], pairs)
        stays_open = (rows["kind"] == Kind.ENTER) & (pairs.partner == OPEN) & (not is_last)
        is_dispatch = rows["name"] == self._records.code_of(("dispatch",))[0]
        is_dispatch &= (rows["kind"] == Kind.PACKET) & ~rows["is_rocr"]
        folds = fold(rows, nesting, is_dispatch, stays_open)
        waiting = folds.waiting & (not is_last)
        events = self._events(rows, pairs, nesting, folds, _emitted(rows, pairs, folds, stays_open, waiting))
        packets = self._packets(parsed, rows, folds)
        carried = rows.take(np.flatnonzero(stays_open | waiting))
        self._carried = carried.take(np.argsort(carried["offset"], kind="stable"))
        return Block(events, packets, parsed.args.frame(self._file), self._ledger(split), conform(schema.LOSSES))

    def _events(self, rows: Rows, pairs: Pairs, nesting: Nesting, folds: Folds, emitted: Ints) -> pl.DataFrame:
        rows["kernel"] = np.where(folds.shader >= 0, rows["kernel"][folds.shader], rows["kernel"])
        copied = folds.command >= 0
        rows["command"] = np.where(copied, rows["command"][folds.command], rows["command"])
        parent = np.where(nesting.parent >= 0, rows["offset"][nesting.parent], -1)
        emitted = emitted[np.argsort(rows["offset"][emitted], kind="stable")]
        partner, depth = pairs.partner[emitted], nesting.depth[emitted]
        parent = parent[emitted]
        own = rows.take(emitted)
        is_call = (own["kind"] == Kind.ENTER) | (own["kind"] == Kind.EXIT)
        half = is_call & (partner < 0)
        orphan = half & (own["kind"] == Kind.EXIT)
        has_exit = (is_call & (partner >= 0)) | orphan
        # The exit of an orphan is the row itself: it has an exit record, but no duration.
        leave = rows.take(np.where(partner >= 0, partner, emitted))
        columns = self._common(own)
        columns += [
            nullable("end_stamp_ns", leave["stamp"], has_exit & ~orphan),
            nullable("end_offset", leave["offset"], has_exit),
            nullable("end_length", leave["length"], has_exit),
            coded("result", np.where(has_exit, leave["result"], -1), self._records.results.values),
            nullable("stream", np.where(has_exit & (leave["stream"] > 0), leave["stream"], own["stream"])),
            pl.Series("depth", np.minimum(depth, 0xFFFF)),
            nullable("parent_offset", parent, parent >= 0),
        ]
        flags = own["flags"] | np.where(has_exit, leave["flags"], 0)
        flags |= np.where(orphan, int(Flag.EXIT_ONLY), np.where(half, int(Flag.ENTER_ONLY), 0))
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
            coded("clock", own["is_rocr"].astype(np.int64), ["mono", "mono_raw"]),
            coded("layer", own["layer"], list(LAYERS)),
            coded("name", own["name"], self._records.names),
            nullable("pid", pids, pids >= 0),
            nullable("tid", tids, has_tid),
            coded("kernel", own["kernel"], self._records.kernels.values),
            *(nullable(name, own[name]) for name in ("ring", "packet_index", "signal", "command", "arg", "size_bytes")),
            pl.Series("offset", own["offset"]),
            pl.Series("length", own["length"]),
        ]

    def _packets(self, parsed: Parsed, rows: Rows, folds: Folds) -> pl.DataFrame:
        frame = packet_frame(parsed, ["ring", "signal", "packet_index", "size_bytes"])
        if len(frame) == 0:
            return conform(schema.PART_PACKETS)
        at = np.flatnonzero(((rows["kind"] == Kind.PACKET) | (rows["kind"] == Kind.COPY)) & ~rows["is_old"])
        at = at[np.argsort(rows["offset"][at], kind="stable")]
        command, kernarg = folds.command[at], folds.kernarg[at]
        frame = frame.with_columns(
            nullable("command_offset", rows["offset"][command], command >= 0),
            nullable("kernarg_bytes", rows["kernarg_bytes"][kernarg], kernarg >= 0),
            file=pl.lit(self._file),
        )
        return conform(schema.PART_PACKETS, frame)

    def _ledger(self, split: Split) -> pl.DataFrame:
        found = [("used", "", len(split.start), split.used_bytes)]
        found += [("skipped", reason, *counts) for reason, counts in sorted(split.skipped.items())]
        names = ("outcome", "reason", "records", "bytes")
        frame = pl.DataFrame([r for r in found if r[2]], schema=names, orient="row")
        frame = frame.with_columns(file=pl.lit(self._file), source=pl.lit("amd_log"))
        return conform(schema.LEDGER, frame)


def _emitted(rows: Rows, pairs: Pairs, folds: Folds, stays_open: Mask, waiting: Mask) -> Ints:
    """Return the rows that become events in this block."""
    kind = rows["kind"]
    is_new = ~rows["is_old"]
    simple = (kind == Kind.ROW) | (kind == Kind.COMMAND) | (kind == Kind.VERSION)
    simple |= (kind == Kind.PACKET) | (kind == Kind.COPY)
    folded = np.zeros(len(kind), np.bool_)
    folded[folds.shader[folds.shader >= 0]] = True
    shader = (kind == Kind.SHADER) & ~folded & ~waiting
    orphan = (kind == Kind.EXIT) & (pairs.partner == NO_EXIT)
    call = (kind == Kind.ENTER) & ~stays_open
    return np.flatnonzero((simple & is_new) | shader | orphan | call)
