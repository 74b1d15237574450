"""The reader of a HIP log: bytes to blocks of lines, lines to rows, rows to frames; one log in several places at once.

The ledger counts every byte. Records are `used`; the rest is `skipped` for a reason of `model.reasons`. What stands
behind NULs on the line of a record is no part of it. A record that the file ends in, and whose end may be missing, is
used as far as it goes, and counts as lost, too.

A log is cut into ranges where one pass ends its blocks. A reader of a later range starts some blocks before it
(`lookback`), and what it read there is thrown away: at the border it then knows what one pass knows, unless a call was
open for longer than that. Whether it does is not assumed: both sides of each border tell their `State`, and a range
whose start differs from the end of the one before it is read again from there (`agrees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from tracecorr.model import frames, schema
from tracecorr.model.frames import gives
from tracecorr.model.kinds import UNKNOWN_FORM
from tracecorr.model.parts import ArrowBlock, Block
from tracecorr.model.reasons import TORN_RECORD
from tracecorr.read.amdlog.arrow_tables import TableMaker, make_args, make_table
from tracecorr.read.amdlog.blocks import BLOCK_BYTES, BlockCutter, ByteStream, LogBytes
from tracecorr.read.amdlog.calls import NULLS, Joiner, Lanes, Ledger, Rows
from tracecorr.read.amdlog.details import DetailReader, Details, Question
from tracecorr.read.amdlog.notices import list_rows
from tracecorr.read.amdlog.records import RecordReader, Records, list_holes
from tracecorr.read.amdlog.tokens import IS_ROCR, Vocabulary
from tracecorr.read.byte_text import Text


def read_amd_log(stream: ByteStream, file: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the rows of an AMD HIP runtime log, block by block.

    Args:
        stream: the decompressed bytes of the log: a binary file, or what reads like one.
        file: key of the file, put into every row.
        block_bytes: about how many bytes are read at once.

    Yields:
        Blocks of rows. A call comes with the block that holds its exit, or a later one; rows behind a call inside of an
        open one wait for its exit, at most 8 MiB of the file.
    """
    blocks = BlockCutter(stream, block_bytes)
    reader = Reader(file)
    for text in blocks.cut():
        yield reader.read(text)
    yield reader.finish()
    yield reader.take_counts()


@gives(frames.LOG_STARTS)
def list_starts(stream: ByteStream) -> pl.DataFrame:
    """Return where each record of a log starts, when and by whom it was printed, without reading what it says.

    Args:
        stream: the decompressed bytes of the log.
    """
    reader, offset, found = RecordReader(Vocabulary()), 0, [frames.LOG_STARTS.empty()]
    for text in BlockCutter(stream, BLOCK_BYTES).cut():
        records = reader.scan(text)
        is_rocr = (records.flags & IS_ROCR) > 0
        # The memory of a block's records is that of the next one's.
        stamp, thread = records.stamp.copy(), records.thread.copy()
        rows = pl.DataFrame({"offset": records.start + (offset - text.start), "stamp_ns": stamp, "thread": thread})
        found.append(frames.LOG_STARTS.conform(rows.with_columns(pl.when(~pl.Series(is_rocr)).then("stamp_ns"))))
        offset += text.stop - text.start
    return pl.concat(found)


def looks_like_amd_log(head: bytes) -> bool:
    """Tell whether some bytes of a file, as a rule its first ones, hold a record of the AMD log."""
    text = Text(head)
    return RecordReader(Vocabulary()).read(text).used[0] > 0


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
        self._vocabulary = Vocabulary()
        self._records, self._lanes = RecordReader(self._vocabulary), Lanes()
        self._details = DetailReader(self._vocabulary)
        self._carried = Rows(0)
        self._joiner = Joiner(self._vocabulary)
        self._tables = TableMaker(file, self._vocabulary)
        self._ledger = Ledger()
        # Rows of events and args; the time of a notice is that of the record before it.
        self._notices: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        self._last_stamp: int | None = None

    def read(self, text: Text) -> Block:
        """Return the rows of the next block of lines, as far as they are complete."""
        records = self._records.read(text)
        holes, room = list_holes(text, records), len(self._carried)
        details = self._details.read(text, records, self._offset, room)
        rows = details.rows
        threads = self._vocabulary.threads.values
        rows.put("lane", self._lanes.of(threads, rows["thread"], rows["stamp"], rows["is_rocr"], room))
        if records.notices:
            self._read_notices(records, self._offset - text.start)
        if len(own := records.stamp[(records.flags & IS_ROCR) == 0]):
            self._last_stamp = int(own[-1])
        self._offset += text.stop - text.start
        unknown = details.unknown_forms
        counts = len(unknown), int(rows["length"][unknown].sum()) if len(unknown) else 0
        self._ledger.add("used", UNKNOWN_FORM, *counts)
        self._ledger.add("used", "", records.used[0] - counts[0], records.used[1] - counts[1])
        for reason, counts in records.skipped.items():
            self._ledger.add("skipped", reason, *counts)
        if records.is_cut:
            # What is there of it is used.
            self._ledger.add("lost", TORN_RECORD, 1, 0)
        return self._block(details, holes, is_last=False)

    def state(self) -> State:
        """Return what is known behind the last block."""
        rows, known = self._carried.take(np.arange(len(self._carried))), self._vocabulary
        digest = sha256(repr(self._records.context).encode())
        threads, names, results, kernels = (
            codes.values for codes in (known.threads, known.names, known.results, known.kernels)
        )
        # Codes are those of this reader; what they stand for is the same for all.
        for column in sorted(NULLS.keys() - {"thread", "lane", "name", "result", "kernel"}):
            digest.update(np.ascontiguousarray(rows[column]).tobytes())
        for i in range(len(rows)):
            result, kernel = int(rows["result"][i]), int(rows["kernel"][i])
            told = (
                threads[int(rows["thread"][i])], names[int(rows["name"][i])],
                results[result] if result >= 0 else None,
                kernels[kernel] if kernel >= 0 else None,
            )  # fmt: skip
            digest.update(repr(told).encode())
        details = self._details
        return State(digest.digest(), frozenset(details.rings), frozenset(details.queues), frozenset(details.asked))

    def learn(self, known: State) -> None:
        """Take over the addresses that were seen before the first block of this reader."""
        self._details.rings |= known.rings
        self._details.queues |= known.queues

    def take_counts(self) -> Block:
        """Return a block that books what was read, with the notices beside the records, and count from zero."""
        (events, args), self._notices = self._notices, ([], [])
        ledger, self._ledger = self._ledger.frame(self._file), Ledger()
        if not events:
            return Block(ledger=ledger)
        rows = {"events": (schema.PART_EVENTS, events), "packets": (schema.PART_PACKETS, []),
                "args": (schema.PART_ARGS, args)}  # fmt: skip
        return ArrowBlock({name: make_table(*told) for name, told in rows.items()}, ledger, schema.LOSSES.empty())

    def _read_notices(self, records: Records, base: int) -> None:
        """Take the notices of a block; before the first record of a log they have the time of that one."""
        own = np.flatnonzero((records.flags & IS_ROCR) == 0)
        before = np.searchsorted(records.start[own], [one.start for one in records.notices]) - 1
        known = records.stamp[own].tolist()
        first = self._last_stamp if self._last_stamp is not None else known[0] if known else 0
        stamps = [known[place] if place >= 0 else first for place in before.tolist()]
        for held, new in zip(self._notices, list_rows(records.notices, self._file, base, stamps), strict=True):
            held.extend(new)

    def finish(self) -> Block:
        """Return the rows left, also those that waited for something the file does not hold."""
        return self._block(Details.none(len(self._carried)), schema.LOSSES.empty(), is_last=True)

    def _block(self, details: Details, holes: pl.DataFrame, *, is_last: bool) -> Block:
        rows = details.rows.behind(self._carried)
        rows["is_old"][: len(self._carried)] = True
        joined = self._joiner.join(rows, self._offset, is_last=is_last)
        tables = {
            "events": self._tables.events(rows, joined),
            "packets": self._tables.packets(rows, details, joined),
            "args": make_args(details.args, self._file),
        }
        self._carried = joined.carry(rows)
        return ArrowBlock(tables, schema.LEDGER.empty(), holes)


# A block is twice the bytes for which rows wait for the exit of an open call.
_LOOKBACK_BLOCKS = 1


@dataclass(frozen=True)
class LogRange:
    """Name the blocks of a range.

    Args:
        borders: first byte of each block of the lookback and the range, and the byte behind the last one.
        lookback: how many of these blocks are read only for what they leave to the next.
        is_last: whether the log ends with it.
    """

    borders: tuple[int, ...]
    lookback: int
    is_last: bool


def plan_ranges(borders: Sequence[int], count: int, lookback: int = _LOOKBACK_BLOCKS) -> list[LogRange]:
    """Return at most `count` ranges of whole blocks, as equal as blocks allow.

    Args:
        borders: of all blocks, from `find_borders`.
        count: how many ranges are wanted.
        lookback: how many blocks before its range a reader starts.
    """
    blocks = len(borders) - 1
    count = max(1, min(count, blocks))
    starts = [blocks * i // count for i in range(count)]
    ranges = []
    for start, stop in zip(starts, [*starts[1:], blocks], strict=True):
        early = max(0, start - lookback)
        ranges.append(LogRange(tuple(borders[early : stop + 1]), start - early, stop == blocks))
    return ranges


def _feed(reader: Reader, data: LogBytes, borders: Sequence[int]) -> Iterator[Block]:
    """Yield the rows of some blocks.

    Args:
        reader: stands at the first of them.
        data: the whole log.
        borders: first byte of each block, and the byte behind the last one.
    """
    for start, stop in pairwise(borders):
        yield reader.read(Text(data[start:stop]))


def read_range(reader: Reader, data: LogBytes, part: LogRange) -> Iterator[Block]:
    """Yield the rows of a range, and what it books.

    Args:
        reader: stands behind the lookback.
        data: the whole log.
        part: which blocks of it.
    """
    reader.take_counts()
    yield from _feed(reader, data, part.borders[part.lookback :])
    if part.is_last:
        yield reader.finish()
    yield reader.take_counts()


def look_back(reader: Reader, data: LogBytes, part: LogRange) -> None:
    """Read the lookback of a range for what it leaves to the range."""
    for _ in _feed(reader, data, part.borders[: part.lookback + 1]):
        pass


def agrees(true_end: State, start: State, end: State) -> bool:
    """Tell whether a reader of a range read it as one pass does.

    Args:
        true_end: what one pass knows at the border.
        start, end: what the reader of the range behind it knew at its start and its end.
    """
    if true_end.carried != start.carried:
        return False
    return all(q.answer() == _with_more(q, true_end).answer() for q in end.asked - start.asked)


def _with_more(question: Question, known: State) -> Question:
    as_ring, as_queue = question.address in known.rings, question.address in known.queues
    return replace(question, as_ring=question.as_ring or as_ring, as_queue=question.as_queue or as_queue)


def join_states(true_end: State, end: State) -> State:
    """Return what one pass knows at the end of a range that agreed with what one pass knew at its start."""
    return State(end.carried, true_end.rings | end.rings, true_end.queues | end.queues, end.asked)
