"""Lines to records: where each record starts, its time, its process and thread, its message.

The layout of a prefix is tried at the places where earlier lines had it (one word compare per
line). Only lines that fit nowhere are searched with a regular expression: records glued behind
the text of the program, foreign lines, broken ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tracecorr.parse.text import Codes, Ints, Mask, Text, decimal

_RECORD = re.compile(rb":(?:\d:)?(?:[A-Za-z]:)?[^:\n\[\]]{0,200}:\d+ *: (\d{5,15})d? us:")
_THREAD = re.compile(
    rb"\[pid:(\d+) *tid: ?(?:0x)? *([0-9a-fA-F]+)\]"
    rb"|(\d+) *: \[(?:tid:)?(0x)?([0-9a-fA-F]+)\]"
    rb"|\[(?:tid:)?(?:0x)?([0-9a-fA-F]{6,16})\]"
)
_MULTI_LINE = re.compile(rb"devprogram\.cpp|comgr|code-object", re.IGNORECASE)
_BROKEN = re.compile(rb":\d:[A-Za-z_. ]")

PROGRAM_OUTPUT, BLANK_LINE, CONTINUATION, BROKEN_RECORD = (
    "program_output", "blank_line", "continuation", "broken_record",
)  # fmt: skip


@dataclass(frozen=True)
class Thread:
    """Name a process and thread as a prefix prints them.

    Args:
        pid: process, null where the prefix has none.
        tid: thread, null where the prefix has none.
        lane: keeps threads apart.
        length: bytes of the prefix.
        prints_ring: whether releases with this prefix print queues as HWq; null = some do.
    """

    pid: int | None = None
    tid: int | None = None
    lane: tuple[object, ...] = ()
    length: int = 0
    prints_ring: bool | None = None


@dataclass
class Split:
    """Hold the records of one block as parallel arrays, and the bytes that are none."""

    start: Ints
    end: Ints
    stamp_ns: Ints
    thread: Ints
    message: Ints
    is_rocr: Mask
    torn: Mask
    used_bytes: int
    skipped: dict[str, tuple[int, int]] = field(default_factory=dict)


def _thread_of(text: bytes) -> Thread:
    found = _THREAD.match(text + b"]")
    if not found:
        return Thread()
    pid, tid = found[1] or found[3], found[2] or found[5] or found[6]
    number = int(tid, 16) & 0xFFFFFFFFFFFFFFFF
    # ROCm <= 4.5 prints the pid with HIP calls only: there the tid alone names the thread.
    bare = found[6] or (found[3] and not found[4])
    lane = ("tid", number) if bare else ("pid", int(pid), number)
    # `tid: ` came with 6.3, queues are printed as HWq since 6.2; `N : [` went with 5.6.
    prints_ring = True if b"tid: " in text else (None if found[1] else False)
    return Thread(int(pid) & 0xFFFFFFFF if pid else None, number, lane, len(text) + 1, prints_ring)


class Splitter:
    """Split blocks into records; remembers the layouts and threads seen."""

    def __init__(self) -> None:
        self.threads = Codes(_thread_of)
        self.threads.code_of(Thread())
        self._places = [(46, 10), (47, 11), (48, 12), (49, 13)]

    def split(self, text: Text) -> Split:
        """Return the records of a block that ends at a line end (or at the end of the file)."""
        start, end = text.lines()
        until = np.minimum(end + 1, text.stop)
        mark, size = self._find_layout(text, start, end)
        torn = np.zeros(len(start), np.bool_)
        odd = self._odd_lines(text, mark, start)
        if self._learn(text, start, end, odd):
            mark, size = self._find_layout(text, start, end)
            odd = self._odd_lines(text, mark, start)
        if len(odd):
            start, end, until, mark, size, torn = _search(text, start, end, until, mark, size, odd)
        stamp, good = decimal(text, mark, size)
        is_record = (size > 0) & good
        skipped = _skipped(text, start, end, until, is_record)
        used = int((until - start)[is_record].sum())
        start, end, mark = start[is_record], end[is_record], mark[is_record]
        end = end - (text.bytes[end - 1] == 13)
        thread, message, is_rocr = self._threads(text, mark, end)
        ns = (stamp[is_record] * np.uint64(1000)).astype(np.int64)
        return Split(start, end, ns, thread, message, is_rocr, torn[is_record], used, skipped)

    def _find_layout(self, text: Text, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        mark = np.zeros(len(start), np.int64)
        size = np.zeros(len(start), np.int64)
        left = np.flatnonzero(text.bytes[start] == ord(":"))
        counts = []
        for place, digits in self._places:
            if len(left) == 0:
                break
            hit = self._fits(text, start[left], end[left], place, digits)
            mark[left[hit]], size[left[hit]] = start[left[hit]] + place, digits
            counts.append((int(hit.sum()), (place, digits)))
            left = left[~hit]
        best = [place for _, place in sorted(counts, key=lambda c: -c[0])]
        self._places = best + [p for p in self._places if p not in best]
        return mark, size

    @staticmethod
    def _fits(text: Text, start: Ints, end: Ints, place: int, digits: int) -> Mask:
        # mark = first byte after the digits; 6.3 prints a `d` between them and ` us:`
        at = np.minimum(start + place, text.stop)
        is_typo = text.bytes[at] == ord("d")
        head = text.word(at + is_typo) & np.uint64(0xFFFFFFFF)
        before = text.word(at - digits - 2) & np.uint64(0xFFFF)
        fits = (head == np.uint64(0x3A737520)) & (before == np.uint64(0x203A)) & (at + 4 <= end)
        level = (text.words[start] >> np.uint64(16)) & np.uint64(0xFF)
        rocr = text.bytes[start + 1] > ord("9")
        good: Mask = fits & ((level == np.uint64(ord(":"))) | rocr)
        return good

    @staticmethod
    def _odd_lines(text: Text, mark: Ints, start: Ints) -> Ints:
        """Return the lines that hold more or fewer times than the layouts found there."""
        if len(start) == 0 or text.raw.count(b" us:") == int((mark > 0).sum()):
            return np.zeros(0, np.int64)
        marks = np.array([m.start() for m in re.finditer(b" us:", text.raw)], np.int64)
        _, is_time = decimal(text, marks - (text.bytes[marks - 1] == ord("d")), np.full(len(marks), 5))
        marks = marks[is_time]
        per_line = np.bincount(np.searchsorted(start, marks, side="right") - 1, minlength=len(start))
        return np.flatnonzero(per_line != (mark > 0))

    def _learn(self, text: Text, start: Ints, end: Ints, odd: Ints) -> bool:
        known = len(self._places)
        for i in odd[:256].tolist():
            found = _RECORD.match(text.raw, int(start[i]), int(end[i]))
            if found and len(self._places) < 64:
                place = (found.end(1) - int(start[i]), len(found[1]))
                self._places += [place] * (place not in self._places)
        return len(self._places) > known

    def _threads(self, text: Text, mark: Ints, end: Ints) -> tuple[Ints, Ints, Mask]:
        at = mark + 4 + (text.bytes[mark] == ord("d"))
        at = _skip_blanks(text, at, end, b" ")
        stop, code = text.token(at, b"]", 48)
        first = text.bytes[at]
        maybe = (stop < end) & ((first == ord("[")) | ((first >= 48) & (first <= 57)))
        thread = np.zeros(len(at), np.int64)
        thread[maybe] = self.threads.encode(text, at[maybe], stop[maybe], code[maybe])
        length = np.array([t.length for t in self.threads.values], np.int64)
        at = _skip_blanks(text, np.minimum(at + length[thread], end), end, b" !\t")
        is_rocr = text.starts_with(at, b"[***rocr***] ")
        return thread, np.minimum(_skip_colour(text, at + 13 * is_rocr, end), end), is_rocr


def _skip_blanks(text: Text, at: Ints, end: Ints, blanks: bytes) -> Ints:
    is_blank = np.zeros(256, np.bool_)
    is_blank[list(blanks)] = True
    for _ in range(64):
        more = is_blank[text.bytes[at]] & (at < end)
        if not more.any():
            break
        at = at + more
    return at


def _skip_colour(text: Text, at: Ints, end: Ints) -> Ints:
    first = text.bytes[at]
    for escape in (b"\x1b[", b"^[[", "\u2190[".encode()):
        rows = np.flatnonzero(first == escape[0])
        rows = rows[text.starts_with(at[rows], escape)]
        if len(rows):
            stop, _ = text.token(at[rows], b"m", 8)
            at = at.copy()
            at[rows] = stop + 1
    return _skip_blanks(text, np.minimum(at, end), end, b" ")


def _search(
    text: Text, start: Ints, end: Ints, until: Ints, mark: Ints, size: Ints, odd: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, Mask]:
    """Cut the odd lines where a record starts inside them."""
    keep = np.ones(len(start), np.bool_)
    keep[odd] = False
    pieces: list[tuple[int, int, int, int, int, bool]] = []
    for i in odd.tolist():
        found = list(_RECORD.finditer(text.raw, int(start[i]), int(end[i])))
        cuts = [int(start[i]), *(m.start() for m in found if m.start() > start[i]), int(end[i])]
        marks, sizes = {m.start(): m.end(1) for m in found}, {m.start(): len(m[1]) for m in found}
        for j in range(len(cuts) - 1):
            is_last = j == len(cuts) - 2
            digits = marks.get(cuts[j], 0)
            width = sizes.get(cuts[j], 0)
            line_end = int(until[i]) if is_last else cuts[j + 1]
            pieces.append((cuts[j], cuts[j + 1], line_end, digits, width, bool(digits) and not is_last))
    more = np.array(pieces, np.int64).reshape(-1, 6).T
    columns = [np.concatenate((a[keep], b)) for a, b in zip((start, end, until, mark, size), more, strict=False)]
    torn = np.concatenate((np.zeros(int(keep.sum()), np.int64), more[5])).astype(np.bool_)
    order = np.argsort(columns[0], kind="stable")
    start, end, until, mark, size = (c[order] for c in columns)
    return start, end, until, mark, size, torn[order]


def _skipped(text: Text, start: Ints, end: Ints, until: Ints, is_record: Mask) -> dict[str, tuple[int, int]]:
    """Return records and bytes of what is no record, by reason."""
    others = np.flatnonzero(~is_record)
    first = _skip_blanks(text, start[others], end[others], b" \r\t")
    reason = np.where(first >= end[others], 0, 3)
    for i in np.flatnonzero((reason == 3) & (text.bytes[first] == ord(":"))).tolist():
        if _BROKEN.match(text.slice(int(first[i]), int(end[others[i]]))):
            reason[i] = 1
    records = np.flatnonzero(is_record)
    last = np.searchsorted(records, others) - 1
    for i in np.unique(last[(reason == 3) & (last >= 0)]).tolist():
        at = int(start[records[i]])
        if _MULTI_LINE.search(text.slice(at, at + 40)):
            reason[(last == i) & (reason == 3)] = 2
    counts = np.bincount(reason, minlength=4)
    sizes = np.bincount(reason, (until - start)[others], minlength=4).astype(np.int64)
    names = (BLANK_LINE, BROKEN_RECORD, CONTINUATION, PROGRAM_OUTPUT)
    return {name: (int(counts[i]), int(sizes[i])) for i, name in enumerate(names) if counts[i]}
