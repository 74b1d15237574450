"""The reader: bytes to blocks of lines, lines to rows, rows to frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from mmap import mmap

import numpy as np

from tracecorr.model import schema
from tracecorr.model.parts import ArrowBlock, Block
from tracecorr.parse.amdlog.details import DetailReader, Details, Question
from tracecorr.parse.amdlog.events import TableMaker
from tracecorr.parse.amdlog.joining import Joiner
from tracecorr.parse.amdlog.records import RecordReader
from tracecorr.parse.amdlog.rows import NULLS, Ledger, Rows
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
    reader = Reader(file)
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
            stop = cut_at(data, start, end, size)
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


def cut_at(data: bytearray | mmap | bytes, start: int, end: int, size: int) -> int:
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


def find_borders(data: bytes | mmap, block_bytes: int = BLOCK_BYTES) -> list[int]:
    """Return where the blocks of a whole log begin, and its size at the end: those that `cut_blocks` makes of it."""
    borders = [0]
    while len(data) - borders[-1] >= block_bytes:
        stop = cut_at(data, borders[-1], len(data), block_bytes)
        if not stop:
            break
        borders.append(stop)
    return borders if borders[-1] == len(data) else [*borders, len(data)]


@dataclass(frozen=True)
class State:
    """Hold what a reader knows between two blocks, in a form that two readers can be compared by.

    Args:
        carried: digest of the rows that the next block needs again, and of what it must know of the lines before it.
        rings, queues: addresses of rings and queues seen.
        asked: what was read by the addresses seen before it.
    """

    carried: bytes
    rings: frozenset[int]
    queues: frozenset[int]
    asked: frozenset[Question]


class Reader:
    """Hold what one block leaves to the next: open calls and lines that wait for their packet.

    Whatever is added to it that changes the rows of later blocks must be in its `State`, too.

    Args:
        file: key of the file.
        offset: where in the file the first block begins.
    """

    def __init__(self, file: int, offset: int = 0) -> None:
        self._file = file
        self._offset = offset
        self._records = RecordReader()
        self._details = DetailReader(self._records.classifier)
        self._carried = Rows(0)
        self._joiner = Joiner(self._records)
        texts = self._records.names, self._records.results.values, self._details.kernels.values
        self._tables = TableMaker(file, *texts, self._records.threads)
        self._ledger = Ledger()

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

    def state(self) -> State:
        """Return what is known behind the last block."""
        rows = self._carried.take(np.arange(len(self._carried)))
        digest = sha256(repr(self._records.splitter.context).encode())
        threads, names = self._records.threads, self._records.names
        # Codes are those of this reader; what they stand for is the same for all.
        for column in sorted(NULLS.keys() - {"thread", "lane", "name", "result", "kernel"}):
            digest.update(np.ascontiguousarray(rows[column]).tobytes())
        for i in range(len(rows)):
            result, kernel = int(rows["result"][i]), int(rows["kernel"][i])
            told = (
                threads[int(rows["thread"][i])], names[int(rows["name"][i])],
                self._records.results.values[result] if result >= 0 else None,
                self._details.kernels.values[kernel] if kernel >= 0 else None,
            )  # fmt: skip
            digest.update(repr(told).encode())
        details = self._details
        return State(digest.digest(), frozenset(details.rings), frozenset(details.queues), frozenset(details.asked))

    def learn(self, known: State) -> None:
        """Take over the addresses that were seen before the first block of this reader."""
        self._details.rings |= known.rings
        self._details.queues |= known.queues

    def take_counts(self) -> Block:
        """Return a block without rows that books what was read, and count anew."""
        ledger, self._ledger = self._ledger.frame(self._file), Ledger()
        return Block(ledger=ledger)

    def finish(self) -> Block:
        """Return the rows left, also those that waited for something the file does not hold."""
        return self._block(Rows(0), Details.none(), is_last=True)

    def _block(self, new: Rows, details: Details, *, is_last: bool) -> Block:
        rows = Rows.join([self._carried, new])
        rows["is_old"][: len(self._carried)] = True
        joined = self._joiner.join(rows, self._offset, is_last=is_last)
        tables = {
            "events": self._tables.events(rows, joined),
            "packets": self._tables.packets(rows, new, details, joined),
            "args": details.args.table(schema.PART_ARGS, self._file),
        }
        self._carried = joined.carry(rows)
        return ArrowBlock(tables, self._ledger.frame(self._file) if is_last else schema.LEDGER.empty())
