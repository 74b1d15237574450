"""Lines to records: where each record starts, its time, its process and thread, its message.

Most lines have a prefix like one before them (`layout.py`). Only those that do not, or that hold
two times, are searched with a regular expression: records glued behind the text of the program,
foreign lines, broken ones. What one record lost to another is put together in `torn.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.model.kinds import WORST_LEVELS
from tracecorr.model.reasons import BLANK_LINE, BROKEN_RECORD, CONTINUATION, NUL_BYTES, PROGRAM_OUTPUT, TORN_RECORD
from tracecorr.read.amdlog.blocks import cut_pieces
from tracecorr.read.amdlog.classify import Classifier
from tracecorr.read.amdlog.layout import SITE, Layouts, Matched
from tracecorr.read.amdlog.line_edges import (
    MOST_BLANKS,
    NEWLINE,
    skip_blanks,
    skip_colour,
    without_return,
)
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.amdlog.records_found import Split, concatenate
from tracecorr.read.amdlog.swapped import PIECE, Head, find_swapped
from tracecorr.read.amdlog.torn import Join, Joiner
from tracecorr.read.amdlog.unended import is_begun, measure_holes, open_at_holes, open_last
from tracecorr.read.amdlog.wholeness import THREAD
from tracecorr.read.amdlog.wraps import without_cut_number
from tracecorr.read.digits import Ints, Mask, Words
from tracecorr.read.text import Codes, Text, decimal

_RECORD = re.compile(SITE + rb"(\d{5,15})d? us:")
# ROCm 3.5 prints no ` us` behind the time.
_WITHOUT_UNIT = re.compile(rb" *:\d:[A-Za-z_.]{1,60} *:\d+ *: (\d{9,15}):(?= )")
_MULTI_LINE = re.compile(rb"devprogram\.cpp|comgr|code-object", re.IGNORECASE)
# Its enter line holds the source text of the program.
_SOURCE_TEXT = b" hiprtcCreateProgram ("
_BROKEN = re.compile(rb":\d:[A-Za-z_. ]")

_WORST = np.frombuffer("".join(map(str, WORST_LEVELS)).encode(), np.uint8)
_ROCR = b"[***rocr***] "
_COLOURED = re.compile("^(?:\x1b|\\^\\[|\u2190)\\[[0-9;]*m *".encode())


@dataclass(frozen=True)
class Thread:
    """Name a process and thread as a prefix prints them.

    Args:
        pid: process, None where the prefix has none.
        tid: thread, None where the prefix has none.
        lane: keeps threads apart.
        length: bytes of the prefix.
        prints_ring: whether releases with this prefix print queues as HWq; None = some do.
    """

    pid: int | None = None
    tid: int | None = None
    lane: tuple[object, ...] = ()
    length: int = 0
    prints_ring: bool | None = None


def _thread_of(text: bytes) -> Thread:
    found = THREAD.match(text + b"]")
    if not found:
        return Thread()
    pid, tid = found[1] or found[3], found[2] or found[5] or found[6]
    number = int(tid, 16)
    # ROCm <= 4.5 prints the pid with HIP calls only: there the tid alone names the thread.
    bare = found[6] or (found[3] and not found[4])
    lane = ("tid", number) if bare else ("pid", int(pid), number)
    # `tid: ` came with 6.3, queues are printed as HWq since 6.2; `N : [` went with 5.6.
    prints_ring = True if b"tid: " in text else (None if found[1] else False)
    printed = int(pid) if pid else None
    return Thread(
        printed if printed is None or printed < 1 << 32 else None, number if number < 1 << 64 else None, lane,
        len(text) + 1, prints_ring,
    )  # fmt: skip


@dataclass
class _Pieces:
    """Hold lines, or parts of lines, as parallel arrays.

    Args:
        until: byte behind the line end.
        mark: byte behind the digits of the time, where the piece is a record.
        size: number of those digits; 0 where it is none.
        torn: whether a record follows on the same line.
    """

    start: Ints
    end: Ints
    until: Ints
    mark: Ints
    size: Ints
    torn: Mask

    def take(self, rows: Ints | Mask) -> _Pieces:
        return _Pieces(*(column[rows] for column in vars(self).values()))

    def join(self, other: _Pieces) -> _Pieces:
        """Return the pieces of both in the order of the file."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        joined = _Pieces(*(np.concatenate(columns) for columns in both))
        return joined.take(np.argsort(joined.start, kind="stable"))


_SAMPLE = 200
# Lines are hardly ever shorter on average.
_USUAL_BYTES = 32


class Splitter:
    """Split blocks into records; remembers the layouts and threads seen."""

    def __init__(self, classifier: Classifier) -> None:
        self.threads = Codes(_thread_of)
        self.threads.code_of(Thread())
        self._classifier = classifier
        self._layouts = Layouts(classifier)
        self._joiner = Joiner()
        self._room = 1 << 17
        # Whether the last record of the blocks before is a message of many lines.
        self._goes_on = False
        # First halves whose rest may be in the next block.
        self._heads: tuple[Head, ...] = ()

    @property
    def context(self) -> tuple[bool, int, tuple[Head, ...]]:
        """Return what the next block needs to know of the lines before it."""
        return self._goes_on, self._joiner.width, self._heads

    def learn_width(self, head: bytes) -> None:
        """Learn from the first lines of a log at which width it is wrapped, before they are read."""
        if re.search(rb"\n[^:]", head):
            probe = Splitter(Classifier())
            probe.split(Text(head[: head.rfind(b"\n") + 1]))
            self._joiner = Joiner(probe.context[1])

    def split(self, text: Text) -> Split:
        """Return the records of a block that ends at a line end (or at the end of the file).

        Those that fold into others without leaving a value are only counted.
        """
        most = (text.stop - text.start) // _USUAL_BYTES + 1
        # Room for as many lines as the block before had, and some more: more would spread over more memory.
        scanned = self._layouts.scan(text, min(self._room, most)) or self._layouts.scan(text, most)
        if scanned:
            self._room = len(scanned[0].start) * 5 // 4
            return self._split_lines(text, *scanned)
        # So many short lines are read part by part: what is told of each takes more memory than the line.
        parts = []
        for piece in cut_pieces(text):
            scanned = self._layouts.scan(piece, piece.stop - piece.start)
            if scanned:
                parts.append(self._split_lines(piece, *scanned))
        return concatenate(parts)

    def _split_lines(self, text: Text, scanned: native.Scanned, matched: Matched) -> Split:
        split = self._find_records(text, scanned, matched)
        is_row = (self._classifier.kind_of != Kind.FOLDED).take(split.what)
        is_row[list(split.messages)] = True
        return split.take(np.flatnonzero(is_row))

    def _find_records(self, text: Text, scanned: native.Scanned, matched: Matched) -> Split:
        start, end, bare = scanned.start, scanned.end, scanned.bare
        if len(start) > 4 * _SAMPLE and 2 * len(matched.line) < len(start):
            # New layouts: learn them from a few lines, and what messages look like from some more, not from all.
            pick = np.arange(0, len(start), len(start) // _SAMPLE)
            known = self._layouts.match(text, start[pick], bare[pick])
            self._cut_records(text, start[pick], end[pick], bare[pick], known, scanned.units)
            pick = np.arange(0, len(start), max(len(start) // (16 * _SAMPLE), 1))
            self._layouts.match(text, start[pick], bare[pick])
            matched = self._layouts.match(text, start, bare)
        split, foreign = self._cut_records(text, start, end, bare, matched, scanned.units)
        # A record behind other text on its line is not among the lines that begin with a level.
        split.may_complain |= any(scanned.levels[level] for level in WORST_LEVELS)
        self._join_torn(text, split, foreign)
        if len(split.start):
            if scanned.has_holes:
                open_at_holes(text, split)
            if text.raw[text.stop - 1] != NEWLINE:
                open_last(text, split)
            self._goes_on = _is_multi_line(text, int(split.start[-1]))
        return split

    def _cut_records(
        self, text: Text, start: Ints, end: Ints, bare: Ints, matched: Matched, units: int
    ) -> tuple[Split, _Pieces]:
        """Return the records, and the lines and parts of lines that are none.

        Args:
            start, end: of the lines; `bare` ends are before a carriage return.
            matched: those that fit a layout.
            units: how many times may stand in the block.
        """
        is_matched = np.zeros(len(start), np.bool_)
        is_matched[matched.line] = True
        rest = np.flatnonzero(~is_matched)
        pieces, foreign = _pieces_of(text, start, end, rest[:0]), _pieces_of(text, start, end, rest)
        # Each of the matched lines holds a time; where there are no more, each holds one only.
        if units - native.count_units_in(text.bytes, foreign.start, foreign.end) == len(matched.line):
            times = native.count_times(text.bytes, foreign.start, foreign.end)
        else:
            counted = native.count_times(text.bytes, start, end)
            is_odd = is_matched & (counted != 1)
            pieces = _search(text, _pieces_of(text, start, end, np.flatnonzero(is_odd)))
            matched, times = matched.take(~is_odd[matched.line]), counted[rest]
            is_matched &= ~is_odd
        if times.any():
            pieces, foreign = pieces.join(_search(text, foreign.take(times > 0))), foreign.take(times == 0)
        if len(foreign.start):
            old = _records_without_unit(text, foreign)
            foreign, pieces = foreign.take(old.size == 0), pieces.join(old.take(old.size > 0))
        start, end, bare = native.keep_rows(is_matched, start, end, bare)
        split = _split_of(text, start, end, bare, matched)
        if len(pieces.start):
            stamp, good = decimal(text, pieces.mark, pieces.size)
            good &= pieces.size > 0
            foreign, pieces = foreign.join(pieces.take(~good)), pieces.take(good)
            split = split.merge(self._read_pieces(text, pieces, stamp[good]))
        return split, foreign

    def _join_torn(self, text: Text, split: Split, foreign: _Pieces) -> None:
        """Put torn and wrapped records together, and account for all that is no record."""
        is_tail = np.zeros(len(foreign.start), np.bool_)
        output, more = (0, 0), 0
        for i in np.flatnonzero(split.torn).tolist():
            split.messages[i] = without_cut_number(text.slice(int(split.message[i]), int(split.end[i])))
        glued, end = split.torn.copy(), split.end.copy()
        pids = [thread.pid for thread in self.threads.values]
        found = find_swapped(text, split.start, split.message, end, glued, split.thread, pids, self._heads)
        swapped, self._heads = found
        for i in swapped:
            first = min(int(end[i]), int(split.start[i]) + PIECE)
            split.torn[i], split.messages[i] = True, without_cut_number(text.slice(int(split.message[i]), first))
        for join in self._joiner.find(text, split.message, end, glued, foreign.start, foreign.end):
            if join.record in swapped:
                continue
            self._apply(split, join)
            for tail in join.tails:
                split.end[join.record], is_tail[tail] = foreign.end[tail], True
                more += int(foreign.until[tail] - foreign.start[tail])
            more -= join.output
            output = output[0] + (join.output > 0), output[1] + join.output
        split.used = split.used[0], split.used[1] + more
        split.skipped = _skipped(text, foreign.take(~is_tail), split.start, self._goes_on)
        split.skip(PROGRAM_OUTPUT, *output)

    def _apply(self, split: Split, join: Join) -> None:
        """Give a record what is known of its message, and its thread where the prefix was cut."""
        i, message = join.record, join.message or b""
        split.torn[i] = True
        if message and join.tails:
            split.whole.add(i)
        prefix = THREAD.match(message)
        if prefix and message[prefix.end() :].startswith(b" "):
            split.thread[i] = self.threads.code_of(_thread_of(prefix[0][:-1]))
            message = _COLOURED.sub(b"", message[prefix.end() :].lstrip(b" "))
            split.is_rocr[i] = message.startswith(_ROCR)
            message = message.removeprefix(_ROCR)
        split.messages[i] = message

    def _read_pieces(self, text: Text, pieces: _Pieces, stamp: Words) -> Split:
        end = without_return(text, pieces.end)
        thread, behind, message, is_rocr = self._threads(text, pieces.mark, end)
        plain = ~pieces.torn & ~is_rocr & (text.bytes[pieces.mark] != ord(":"))
        self._layouts.learn(
            text, pieces.start[plain], pieces.mark[plain], pieces.size[plain], behind[plain], thread[plain]
        )
        return Split(
            pieces.start, end, (stamp * np.uint64(1000)).astype(np.int64), thread, message,
            self._classifier.look(text, message, end, is_rocr), is_rocr, pieces.torn,
            (len(end), int((pieces.until - pieces.start).sum())),
            may_complain=bool(np.isin(text.bytes[pieces.start + 1], _WORST).any()),
        )  # fmt: skip

    def _threads(self, text: Text, mark: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Mask]:
        """Return thread code, end of the prefix, start of the message (behind a colour), and whether ROCr prints it."""
        behind = text.bytes[mark]
        at = mark + np.where(behind == ord(":"), 1, 4 + (behind == ord("d")))
        at = skip_blanks(text, at, end, b" ")
        stop, code = text.token(at, b"]", 48)
        first = text.bytes[at]
        maybe = (stop < end) & ((first == ord("[")) | ((first >= 48) & (first <= 57)))
        # A longer prefix was cut, perhaps in a number.
        maybe &= text.bytes[stop] == ord("]")
        thread = np.zeros(len(at), np.int64)
        thread[maybe] = self.threads.encode(text, at[maybe], stop[maybe], code[maybe])
        length = np.array([t.length for t in self.threads.values], np.int64)
        at = skip_blanks(text, np.minimum(at + length[thread], end), end, b" !\t")
        is_rocr = text.starts_with(at, _ROCR)
        return thread, at, np.minimum(skip_colour(text, at + len(_ROCR) * is_rocr, end), end), is_rocr


def _pieces_of(text: Text, start: Ints, end: Ints, rows: Ints) -> _Pieces:
    """Return some of the lines, of which no time is known."""
    none = np.zeros(len(rows), np.int64)
    return _Pieces(start[rows], end[rows], np.minimum(end[rows] + 1, text.stop), none, none, none > 0)


def _split_of(text: Text, start: Ints, end: Ints, bare: Ints, matched: Matched) -> Split:
    """Return the lines that fit a layout as records."""
    none = np.zeros(len(start), np.bool_)
    # Behind the last line of a file no newline may stand.
    newlines = len(end) - (len(end) > 0 and int(end[-1]) == text.stop)
    used = len(start), int(end.sum()) - int(start.sum()) + newlines
    stamp = matched.stamp * 1000
    return Split(start, bare, stamp, matched.thread, matched.message, matched.what, none, none.copy(), used)


def _records_without_unit(text: Text, lines: _Pieces) -> _Pieces:
    """Return the lines with time and its digits where they are records of ROCm 3.5."""
    mark, size = np.zeros(len(lines.start), np.int64), np.zeros(len(lines.start), np.int64)
    first = skip_blanks(text, lines.start, lines.end, b" ")
    level = (text.word(first) & np.uint64(0xFF00FF)) == np.uint64(0x3A003A)
    for i in np.flatnonzero(level).tolist():
        found = _WITHOUT_UNIT.match(text.raw, int(lines.start[i]), int(lines.end[i]))
        if found:
            mark[i], size[i] = found.end(1), len(found[1])
    return _Pieces(lines.start, lines.end, lines.until, mark, size, lines.torn)


def _search(text: Text, lines: _Pieces) -> _Pieces:
    """Return the pieces of lines that no layout fits, or that hold several times, cut where a record starts."""
    pieces: list[tuple[int, int, int, int, int, bool]] = []
    for start, end, until in zip(lines.start.tolist(), lines.end.tolist(), lines.until.tolist(), strict=True):
        found = list(_RECORD.finditer(text.raw, start, end))
        cuts = [start, *(m.start() for m in found if m.start() > start), end]
        marks, sizes = {m.start(): m.end(1) for m in found}, {m.start(): len(m[1]) for m in found}
        for j in range(len(cuts) - 1):
            is_last = j == len(cuts) - 2
            digits = marks.get(cuts[j], 0)
            width = sizes.get(cuts[j], 0)
            line_end = until if is_last else cuts[j + 1]
            pieces.append((cuts[j], cuts[j + 1], line_end, digits, width, bool(digits) and not is_last))
    start, end, until, mark, size, torn = np.array(pieces, np.int64).reshape(-1, 6).T
    return _Pieces(start, end, until, mark, size, torn > 0)


def _is_multi_line(text: Text, record: int) -> bool:
    if _MULTI_LINE.search(text.raw, record, record + 40):
        return True
    found = text.raw.find(_SOURCE_TEXT, record, record + 160)
    return found >= 0 and text.raw.find(b"\n", record, found) < 0


def _skipped(text: Text, others: _Pieces, records: Ints, goes_on: bool) -> dict[str, tuple[int, int]]:
    """Return records and bytes of what is no record, by reason.

    Args:
        records: starts of the records.
        goes_on: whether a message of many lines may go on before the first record.
    """
    if len(others.start) == 0:
        return {}
    first = skip_blanks(text, others.start, others.end, b" \r\t")
    reason = np.where(first >= others.end, 0, 3)
    for i in np.flatnonzero((reason == 3) & (first - others.start >= MOST_BLANKS)).tolist():
        if not text.slice(int(first[i]), int(others.end[i])).strip(b" \r\t"):
            reason[i] = 0
    for i in np.flatnonzero((reason == 3) & (text.bytes[first] == ord(":"))).tolist():
        piece = text.slice(int(first[i]), int(others.end[i]))
        if others.until[i] == others.end[i] == text.stop and is_begun(piece):
            reason[i] = 4
        elif _BROKEN.match(piece):
            reason[i] = 1
    last = np.searchsorted(records, others.start) - 1
    for i in np.unique(last[reason == 3]).tolist():
        if _is_multi_line(text, int(records[i])) if i >= 0 else goes_on:
            reason[(last == i) & (reason == 3)] = 2
    return _count_skipped(text, others, reason)


def _count_skipped(text: Text, others: _Pieces, reason: Ints) -> dict[str, tuple[int, int]]:
    """Return records and bytes by reason, holes in the pieces apart; `reason` has the place of each among the names."""
    names = (BLANK_LINE, BROKEN_RECORD, CONTINUATION, PROGRAM_OUTPUT, TORN_RECORD, NUL_BYTES)
    size = others.until - others.start
    holes = measure_holes(text, others.start, others.end)
    reason[(holes > 0) & (holes == others.end - others.start)] = 5
    holes[reason == 5] = 0
    counts = np.bincount(reason, minlength=len(names))
    sizes = np.bincount(reason, size - holes, minlength=len(names)).astype(np.int64)
    counts[5] += np.count_nonzero(holes)
    sizes[5] += holes.sum()
    return {name: (int(counts[i]), int(sizes[i])) for i, name in enumerate(names) if counts[i]}
