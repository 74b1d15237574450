"""The reader: bytes to blocks of lines, lines to rows, rows to frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import ArrowBlock, Block
from tracecorr.model.reasons import NUL_BYTES, TORN_RECORD
from tracecorr.read.amdlog.blocks import BLOCK_BYTES, BlockCutter, ByteStream
from tracecorr.read.amdlog.details import DetailReader, Details, Question
from tracecorr.read.amdlog.events import TableMaker
from tracecorr.read.amdlog.joining import Joiner
from tracecorr.read.amdlog.records import RecordReader
from tracecorr.read.amdlog.rows import NULLS, Ledger, Rows
from tracecorr.read.amdlog.severity import add_complaints
from tracecorr.read.amdlog.unended import list_holes
from tracecorr.read.text import Text

# So much of a log's beginning is looked at for the width at which a paste is wrapped.
HEAD_BYTES = 1 << 16


def read_amd_log(stream: ByteStream, file: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the rows of an AMD HIP runtime log, block by block.

    Args:
        stream: the decompressed bytes of the log: a binary file, or what reads like one.
        file: key of the file, put into every row.
        block_bytes: about how many bytes are read at once.

    Yields:
        Blocks of rows. A call comes with the block that holds its exit, or a later one; rows behind a call inside of an
        open one wait for its exit, at most `WAIT_BYTES` of the file.
    """
    blocks = BlockCutter(stream, block_bytes)
    reader = Reader(file, head=blocks.read_head(HEAD_BYTES))
    for text in blocks.cut():
        yield reader.read(text)
    yield reader.finish()


def looks_like_amd_log(head: bytes) -> bool:
    """Tell whether some bytes of a file, as a rule its first ones, hold a record of the AMD log."""
    text = Text(head)
    return RecordReader().splitter.split(text).used[0] > 0


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
        head: the first `HEAD_BYTES` of the file: a paste may be wrapped before a line shows the width.
    """

    def __init__(self, file: int, offset: int = 0, head: bytes = b"") -> None:
        self._file = file
        self._offset = offset
        self._records = RecordReader()
        self._records.splitter.learn_width(head[:HEAD_BYTES])
        self._details = DetailReader(self._records.classifier)
        self._carried = Rows(0)
        self._joiner = Joiner(self._records)
        texts = self._records.names, self._records.results.values, self._details.kernels.values
        self._tables = TableMaker(file, *texts, self._records.threads)
        self._ledger = Ledger()

    def read(self, text: Text) -> Block:
        """Return the rows of the next block of lines, as far as they are complete."""
        split = self._records.splitter.split(text)
        lines = self._records.read(text, split, self._offset, len(self._carried))
        has_holes = NUL_BYTES in split.skipped
        holes = list_holes(text, self._offset, lines.rows) if has_holes else schema.LOSSES.empty()
        self._offset += text.stop - text.start
        self._ledger.add("used", "", *split.used)
        for reason, counts in split.skipped.items():
            self._ledger.add("skipped", reason, *counts)
        if split.is_cut:
            # What is there of it is used.
            self._ledger.add("lost", TORN_RECORD, 1, 0)
        details = self._details.read(lines, self._records.threads)
        add_complaints(details.args, lines.complaints, lines.text, lines.rows["offset"], lines.at, lines.end)
        return self._block(lines.rows, details, holes, is_last=False)

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
        rows = Rows(0, room=len(self._carried))
        return self._block(rows, Details.none(), schema.LOSSES.empty(), is_last=True)

    def _block(self, new: Rows, details: Details, holes: pl.DataFrame, *, is_last: bool) -> Block:
        rows = new.behind(self._carried)
        rows["is_old"][: len(self._carried)] = True
        joined = self._joiner.join(rows, self._offset, is_last=is_last)
        tables = {
            "events": self._tables.events(rows, joined),
            "packets": self._tables.packets(rows, new, details, joined),
            "args": details.args.table(schema.PART_ARGS, self._file),
        }
        self._carried = joined.carry(rows)
        return ArrowBlock(tables, self._ledger.frame(self._file) if is_last else schema.LEDGER.empty(), holes)
