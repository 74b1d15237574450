"""Lines to records: where each record begins, its time, thread and message; and what all other bytes are.

Compiled code finds the records (`native/records.c`). What is special is done here: records that lost a part to another
writer (`torn.py`), NULs in the place of bytes, a file that ends in a record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import WORST_LEVELS
from tracecorr.model.reasons import (
    BEHIND_NULS,
    BLANK_LINE,
    BROKEN_RECORD,
    CONTINUATION,
    NUL_BYTES,
    PROGRAM_OUTPUT,
    TORN_RECORD,
)
from tracecorr.native import KERNEL, Ints, Scratch, Struct
from tracecorr.read.amdlog.notices import Notice, find_notices
from tracecorr.read.amdlog.tokens import IS_COMPLAINT, IS_INCOMPLETE, IS_ROCR, IS_TORN, Vocabulary, thread_of
from tracecorr.read.amdlog.torn import THREAD, Head, Join, find_joins, find_swapped, is_ended, without_cut_number
from tracecorr.read.byte_text import Text

_NEWLINE = 10
_DONE, _NEW_TEXT = 0, 1
_MULTI_LINE = re.compile(rb"devprogram\.cpp|comgr|code-object", re.IGNORECASE)
# Its enter line holds the source text of the program.
_SOURCE_TEXT = b" hiprtcCreateProgram ("
_BROKEN = re.compile(rb":\d:[A-Za-z_. ]")
# What a piece of a line may be that begins like a record and ends with the file.
_BEGUN = re.compile(rb" *:(?:\d(?::.*)?)?", re.DOTALL)
_ROCR = b"[***rocr***] "
_COLOURED = re.compile("^(?:\x1b|\\^\\[|\u2190)\\[[0-9;]*m *".encode())
_HOLE = re.compile(rb"\0+")
# A program may print single NULs, but hardly so many; in a record none can be.
_LEAST_HOLE = bytes(64)
_LARGE_HOLE = re.compile(_LEAST_HOLE + rb"\0*")
# Errors that a line end was seen in the middle of.
_BROKEN_MESSAGES = (b"HW Exception Error",)
_COLUMNS = ("start", "end", "stamp", "thread", "message")
_OTHER_COLUMNS = ("start", "end", "until", "lines")
# As `records.c` tells them of lines that are no record, and what is found here.
_BLANK, _COLON, _CONTINUATION, _OUTPUT, _TORN, _NULS = range(6)
_REASONS = (BLANK_LINE, BROKEN_RECORD, CONTINUATION, PROGRAM_OUTPUT, TORN_RECORD, NUL_BYTES)


@dataclass
class Records:
    """Hold the records of a block in the order of the file.

    Args:
        start, end: bytes of each, without line end.
        stamp: ns.
        thread: code.
        message: its first byte, behind a colour.
        flags: `IS_TORN`, `IS_ROCR` and others.
        used: number of records and their bytes.
        skipped: reason -> lines and bytes that are no record.
        messages: record -> what is known of the message of a torn record.
        notices: what is printed beside the records when a program fails.
        own_end: end of each on its own line; `end` is behind the line that holds its second half.
        has_holes: whether the block holds NULs.
        is_cut: whether the file ends in the last record before its end.
    """

    start: Ints
    end: Ints
    stamp: Ints
    thread: Ints
    message: Ints
    flags: Any
    used: tuple[int, int]
    skipped: dict[str, tuple[int, int]] = field(default_factory=dict)
    messages: dict[int, bytes] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    own_end: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    has_holes: bool = False
    is_cut: bool = False

    def skip(self, reason: str, lines: int, size: int) -> None:
        """Count more bytes that are no record."""
        if lines:
            before = self.skipped.get(reason, (0, 0))
            self.skipped[reason] = before[0] + lines, before[1] + size

    def is_torn(self, record: int) -> bool:
        """Tell whether another record follows on its line, or a part of it is elsewhere."""
        return bool(self.flags[record] & IS_TORN)

    def tear(self, record: int, message: bytes, *, is_whole: bool = False) -> None:
        """Give a record what is known of its message."""
        self.messages[record] = message
        self.flags[record] |= IS_TORN | IS_INCOMPLETE
        if is_whole:
            self.flags[record] &= 0xFF ^ IS_INCOMPLETE


@dataclass
class _Others:
    """Hold lines and parts of lines that are no record; `until` is behind the line end."""

    start: Ints
    end: Ints
    until: Ints
    lines: Ints
    reason: Any

    def take(self, rows: Any) -> _Others:
        """Return some of them."""
        return _Others(*(column[rows] for column in vars(self).values()))


class RecordReader:
    """Find the records of blocks; remembers threads, and what the lines before leave to the next block."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        # Whether the last record of the blocks before is a message of many lines.
        self._goes_on = False
        # First halves whose rest may be in the next block.
        self._heads: tuple[Head, ...] = ()
        self._scratch, self._room = Scratch(), 1 << 10

    @property
    def context(self) -> tuple[bool, tuple[Head, ...]]:
        """Return what the next block needs to know of the lines before it."""
        return self._goes_on, self._heads

    def read(self, text: Text) -> Records:
        """Return the records of a block that ends at a line end (or at the end of the file)."""
        records, others = self._scan(text)
        others = _take_notices(text, records, _continue_errors(text, records, others))
        self._join_torn(text, records, others)
        if len(records.start):
            if records.has_holes:
                _open_at_holes(text, records)
            if text.raw[text.stop - 1] != _NEWLINE:
                _open_last(text, records)
            self._goes_on = _is_multi_line(text, int(records.start[-1]))
        return records

    def scan(self, text: Text) -> Records:
        """Return the records of a block as they are; another writer may have cut some of them."""
        return self._scan(text)[0]

    def _scan(self, text: Text) -> tuple[Records, _Others]:
        threads, has_holes = self._vocabulary.threads, text.raw.find(b"\0", text.start, text.stop) >= 0
        scan = Struct("Scan", raw=text.bytes, at=text.start, stop=text.stop, merge=not has_holes)
        scan.set(worst_level=max(WORST_LEVELS), **_thread_table(threads))
        self._make_room(scan, self._room)
        while (status := KERNEL.scan_records(scan.address)) != _DONE:
            if status == _NEW_TEXT:
                threads.learn(text.slice(scan["text"], scan["text_end"]), scan["key"])
                scan.set(**_thread_table(threads))
            else:
                self._make_room(scan, 2 * scan["room"])
        count, others = scan["records"], scan["others"]
        columns = {name: scan[name][:count] for name in (*_COLUMNS, "flags")}
        records = Records(**columns, used=(count, scan["used_bytes"]), has_holes=has_holes)
        found = (scan[f"other_{name}"][:others] for name in (*_OTHER_COLUMNS, "reason"))
        return records, _Others(*found)

    def _make_room(self, scan: Struct, room: int) -> None:
        """Make room for so many records, and as many lines that are none."""
        for name in (*_COLUMNS, "flags", *(f"other_{name}" for name in (*_OTHER_COLUMNS, "reason"))):
            grown = self._scratch.take(name, room, np.uint8 if name in ("flags", "other_reason") else np.int64)
            if name in scan.held:
                grown[: len(scan[name])] = scan[name]
            scan.set(**{name: grown})
        scan.set(room=room, other_room=room)
        self._room = room

    def _join_torn(self, text: Text, records: Records, others: _Others) -> None:
        """Put torn records together, and account for all that is no record."""
        is_tail = np.zeros(len(others.start), np.bool_)
        output, more = (0, 0), 0
        torn = (records.flags & IS_TORN) > 0
        for i in np.flatnonzero(torn).tolist():
            records.tear(i, without_cut_number(text.slice(int(records.message[i]), int(records.end[i]))))
        records.own_end = end = records.end.copy()
        pids = [thread.pid for thread in self._vocabulary.threads.values]
        swapped, self._heads = find_swapped(text, records, torn, pids, self._heads)
        for i, stop in swapped.items():
            records.tear(i, without_cut_number(text.slice(int(records.message[i]), stop)))
        for join in find_joins(text, records.message, end, torn, others.start, others.end):
            if join.record in swapped:
                continue
            self._apply(records, join)
            for tail in join.tails:
                records.end[join.record], is_tail[tail] = others.end[tail], True
                more += int(others.until[tail] - others.start[tail])
            more -= join.output
            output = output[0] + (join.output > 0), output[1] + join.output
        records.used = records.used[0], records.used[1] + more
        _count_others(text, records, others.take(~is_tail), self._goes_on)
        records.skip(PROGRAM_OUTPUT, *output)

    def _apply(self, records: Records, join: Join) -> None:
        """Give a record what is known of its message, and its thread where the prefix was cut."""
        i, message = join.record, join.message or b""
        is_whole = bool(message and join.tails)
        prefix = THREAD.match(message)
        if prefix and message[prefix.end() :].startswith(b" "):
            records.thread[i] = self._vocabulary.threads.code_of(thread_of(prefix[0][:-1]))
            message = _COLOURED.sub(b"", message[prefix.end() :].lstrip(b" "))
            records.flags[i] = records.flags[i] & (0xFF ^ IS_ROCR) | message.startswith(_ROCR) * IS_ROCR
            message = message.removeprefix(_ROCR)
        records.tear(i, message, is_whole=is_whole)


def _thread_table(threads: Any) -> dict[str, Any]:
    table = threads.table
    return {
        "thread_keys": table.keys, "thread_codes": table.codes, "thread_mask": table.mask, "thread_sizes": threads.marks
    }  # fmt: skip


def _is_multi_line(text: Text, record: int) -> bool:
    if _MULTI_LINE.search(text.raw, record, record + 40):
        return True
    found = text.raw.find(_SOURCE_TEXT, record, record + 160)
    return found >= 0 and text.raw.find(b"\n", record, found) < 0


def _continue_errors(text: Text, records: Records, others: _Others) -> _Others:
    """Give errors that are broken over lines their further lines, and return the other lines that are no record.

    That are lines behind it that are indented, and one that ends a message of `_BROKEN_MESSAGES`.
    """
    taken = np.zeros(len(others.start), np.bool_)
    for record in np.flatnonzero(records.flags & IS_COMPLAINT).tolist():
        if _is_multi_line(text, int(records.start[record])):
            continue
        line = int(np.searchsorted(others.start, records.end[record]))
        while line < len(taken) and _goes_on_in(text, records, record, others, line):
            records.used = records.used[0], records.used[1] + int(others.until[line] - others.start[line])
            records.end[record], taken[line] = others.end[line], True
            line += 1
    return others.take(~taken) if taken.any() else others


def _goes_on_in(text: Text, records: Records, record: int, others: _Others, line: int) -> bool:
    start, stop = int(others.start[line]), int(others.end[line])
    if others.lines[line] > 1 or text.slice(int(records.end[record]), start).strip(b"\r") != b"\n":
        return False
    piece = text.slice(start, stop)
    if piece.startswith((b"  ", b"\t")):
        return bool(piece.strip())
    whole = text.slice(int(records.message[record]), int(records.end[record])) + piece.rstrip()
    return whole in _BROKEN_MESSAGES


def _take_notices(text: Text, records: Records, others: _Others) -> _Others:
    """Take the notices from the lines that are no record; return the others."""
    if not len(others.start):
        return others
    spans = list(zip(others.start.tolist(), others.until.tolist(), strict=True))
    records.notices = find_notices(text, spans)
    if not records.notices:
        return others
    pieces: list[tuple[int, int, int, int, int]] = []
    inside = {line for one in records.notices for line in range(one.start, one.end)}
    for start, end, until, lines, reason in zip(*(column.tolist() for column in vars(others).values()), strict=True):
        if lines == 1:
            pieces += [(start, end, until, lines, reason)] if start not in inside else []
            continue
        for line in bytes(text.raw[start:until]).splitlines(keepends=True):
            behind = start + len(line)
            if start not in inside:
                pieces.append((start, behind - line.endswith(b"\n"), behind, 1, reason))
            start = behind
    for one in records.notices:
        records.used = records.used[0] + 1, records.used[1] + one.end - one.start
    columns = np.array(pieces, np.int64).reshape(-1, 5).T
    return _Others(*columns)


def _count_others(text: Text, records: Records, others: _Others, goes_on: bool) -> None:
    """Count what is no record by reason, holes apart; `goes_on`: a message of many lines was before this block."""
    if len(others.start) == 0:
        return
    reason = others.reason.astype(np.int64)
    for i in np.flatnonzero(reason == _COLON).tolist():
        piece = text.slice(int(others.start[i]), int(others.end[i])).lstrip(b" \r\t")
        if others.until[i] == others.end[i] == text.stop and _BEGUN.fullmatch(piece):
            reason[i] = _TORN
        elif not _BROKEN.match(piece):
            reason[i] = _OUTPUT
    last = np.searchsorted(records.start, others.start) - 1
    for i in np.unique(last[reason == _OUTPUT]).tolist():
        if _is_multi_line(text, int(records.start[i])) if i >= 0 else goes_on:
            reason[(last == i) & (reason == _OUTPUT)] = _CONTINUATION
    size = others.until - others.start
    holes = _measure_holes(text, others) if records.has_holes else np.zeros_like(size)
    reason[(holes > 0) & (holes == others.end - others.start)] = _NULS
    holes[reason == _NULS] = 0
    lines = np.bincount(reason, others.lines, minlength=len(_REASONS)).astype(np.int64)
    sizes = np.bincount(reason, size - holes, minlength=len(_REASONS)).astype(np.int64)
    lines[_NULS] += np.count_nonzero(holes)
    sizes[_NULS] += holes.sum()
    for name, count, total in zip(_REASONS, lines.tolist(), sizes.tolist(), strict=True):
        records.skip(name, count, total)


# ---- records that miss their ends: the file ends in one, or holds NULs in the place of bytes. A file system that had
# written the length of a file, but not yet its bytes, shows NULs after a crash.


def _open_last(text: Text, records: Records) -> None:
    """Take what is sure of the message of a record that the text ends in: its last number may go on in lost bytes."""
    last = len(records.start) - 1
    message = records.messages.get(last, text.slice(int(records.message[last]), int(records.end[last])))
    if records.end[last] == text.stop and not is_ended(message):
        records.tear(last, without_cut_number(message))
        records.is_cut = True


def _open_at_holes(text: Text, records: Records) -> None:
    """Take what is sure of the messages of records with NULs in them: what is behind these is of another line."""
    places = np.array([hole.start() for hole in _HOLE.finditer(text.raw, text.start, text.stop)], np.int64)
    found = np.searchsorted(records.start, places, side="right") - 1
    torn, first = np.unique(found, return_index=True)
    for record, place in zip(torn.tolist(), places[first].tolist(), strict=True):
        if record >= 0 and place < records.end[record]:
            records.tear(record, without_cut_number(text.slice(int(records.message[record]), place)))
            _count_hole(text, records, record, place)


def _count_hole(text: Text, records: Records, record: int, place: int) -> None:
    """Count the rest of a record's line, from its first NUL on, as what it is."""
    line_end = text.raw.find(b"\n", place, text.stop) + 1 or text.stop
    stop = min(line_end, int(records.start[record + 1])) if record + 1 < len(records.start) else line_end
    rest = text.bytes[place:stop]
    holes = int(np.count_nonzero(rest == 0))
    behind = len(rest) - holes
    if behind == 1 and rest[-1] == _NEWLINE:
        holes, behind = len(rest), 0
    records.used = records.used[0], records.used[1] - len(rest)
    records.skip(NUL_BYTES, 1, holes)
    records.skip(BEHIND_NULS, int(behind > 0), behind)


def list_holes(text: Text, records: Records) -> pl.DataFrame:
    """Return the large holes of a block as rows of `LOSSES`: each from the record before it to the one behind.

    Args:
        text: the block.
        records: its records. A hole before the first or after the last one is not returned.
    """
    if not records.has_holes:
        return schema.LOSSES.empty()
    holes = [hole.start() for hole in _LARGE_HOLE.finditer(text.raw, text.start, text.stop)]
    # ROCr's own lines show another clock.
    own = np.flatnonzero(records.flags & IS_ROCR == 0)
    behind = np.searchsorted(records.start[own], holes)
    behind = behind[(behind > 0) & (behind < len(own))]
    before, after = (records.stamp[own[place]] for place in (behind - 1, behind))
    found = {"source": "amd_log", "from_ns": before, "to_ns": np.maximum(before, after)}
    return schema.LOSSES.conform(pl.DataFrame(found))


def _measure_holes(text: Text, others: _Others) -> Ints:
    """Return the bytes of large holes in pieces of lines that are no records."""
    sizes = np.zeros(len(others.start), np.int64)
    for i, (first, stop) in enumerate(zip(others.start.tolist(), others.end.tolist(), strict=True)):
        if text.raw.find(_LEAST_HOLE, first, stop) >= 0:
            sizes[i] = sum(hole.end() - hole.start() for hole in _LARGE_HOLE.finditer(text.raw, first, stop))
    return sizes
