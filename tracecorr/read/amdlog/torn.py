"""Records that other output cut apart: which line is the rest of which record.

A program's text that reaches the log between two writes of one record stands in the middle of it:
behind the first half, on its line, and the second half stands alone on a later line. The halves are
put together where only one reading of them is a whole message; a call's arguments are free text, so
of a torn call the halves are known, its arguments are not. Records that were wrapped: `wraps.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.read.amdlog import wholeness
from tracecorr.read.amdlog.wraps import Wraps, join_known_end, without_cut_number
from tracecorr.read.digits import Ints, Mask
from tracecorr.read.text import Text

_CALL_END = b" ) \x1b[0m"
_COLOUR, _COLOUR_END = b"\x1b[32m ", b"\x1b[0m"
# So many lines of the program may stand between the halves.
_MOST_LINES = 8
# So many lines may hold the rest of a wrapped record: 4095 bytes at 64 columns.
_MOST_WRAPPED = 64
# So many messages are remembered.
_MOST_KNOWN = 1 << 12
# A message so short may be the beginning of any other.
_SHORT = 24
# What a record begins with; behind a colon and a blank the rest of one may follow.
_COLON = re.compile(rb":(?! )")
_EXIT_TAIL = re.compile(rb".*Returned hip\w+ :|.*: duration: \d+d? us$")


@dataclass
class Join:
    """Name the parts of one record.

    Args:
        record: index of the record.
        tails: the lines that are its other parts; empty where none is found.
        message: the whole message, or what is sure of it; None where the place of the cut is not known.
        output: bytes of the program's text on the record's line; 0 where they are not known.
    """

    record: int
    tails: range
    message: bytes | None
    output: int


@dataclass
class Foreign:
    """Hold the lines of a block that are no record, each with the record before it (-1 = none)."""

    start: Ints
    end: Ints
    record: Ints


class Joiner:
    """Find the parts of records; remembers the width at which a paste is wrapped.

    Args:
        width: where that is known.
    """

    def __init__(self, width: int = 0) -> None:
        self._wraps = Wraps(width)
        # Of each message (by its hash, and whether it is in colour) whether it may be a part of one.
        self._lacking: dict[int, bool] = {}

    @property
    def width(self) -> int:
        """Return the width at which the lines before were wrapped; 0 = they were not."""
        return self._wraps.width

    def find(
        self, text: Text, message: Ints, end: Ints, torn: Mask, other_start: Ints, other_end: Ints
    ) -> Iterator[Join]:
        """Yield the records of which a part stands on another line, and those that surely lack one.

        Args:
            message, end, torn: of the records; `torn` ones are followed by another record on their line.
            other_start, other_end: lines that are no record.
        """
        if len(message) == 0 or len(other_start) == 0:
            return
        others = Foreign(other_start, other_end, np.searchsorted(message, other_start) - 1)
        # The line behind a line; a torn record has another one, on its line, before it.
        is_first = (others.record >= 0) & (np.diff(others.record, prepend=-1) != 0)
        lines = np.flatnonzero(is_first & ~_begins_record(text, other_start))
        behind = others.record[lines]
        # A record before it on its line may go on, too.
        is_alone = ~torn[behind] & ~((behind > 0) & torn[behind - 1])
        begins, ends = message[behind], end[behind]
        is_green = text.starts_with(begins - len(_COLOUR), _COLOUR)
        columns = (lines, behind, is_alone, begins, ends, native.hash_spans(text.bytes, begins, ends) ^ is_green)
        for line, record, alone, at, stop, known in zip(*(column.tolist() for column in columns), strict=True):
            if alone and not self._wraps.width and not self._lacks_end(text, at, stop, known):
                continue
            last = min(line + _MOST_WRAPPED, len(other_start))
            spans = [(int(other_start[i]), int(other_end[i])) for i in range(line, last) if others.record[i] == record]
            yield from self._join_behind(text, record, line, spans, message, end, torn)

    def _lacks_end(self, text: Text, at: int, end: int, known: int) -> bool:
        """Tell whether a message, whose hash is known, may be a part of one; many records have the same message."""
        lacks = self._lacking.get(known)
        if lacks is None:
            if len(self._lacking) == _MOST_KNOWN:
                self._lacking.clear()
            lacks = self._lacking[known] = _lacks_end(text.slice(at, end), is_coloured(text, at))
        return lacks

    def _join_behind(
        self, text: Text, head: int, line: int, spans: list[tuple[int, int]], message: Ints, end: Ints, torn: Mask
    ) -> Iterator[Join]:
        """Yield the record (the last one first) to which the lines `spans` belong, the first of them being `line`."""
        if not torn[head] and text.raw[spans[0][0] - 1] == 10:
            wrapped = self._unwrap(text, int(message[head]), int(end[head]), spans)
            if wrapped:
                yield Join(head, range(line, line + wrapped[0]), wrapped[1], 0)
                return
        for record in _candidates(text, head, message, end, torn):
            found = _join(text, int(message[record]), int(end[record]), bool(torn[record]), spans[:_MOST_LINES])
            if found:
                yield Join(record, range(line + found[0], line + found[0] + 1), found[1], found[2])
                return
            sure = _sure_of(text.slice(int(message[record]), int(end[record])))
            if sure is not None:
                yield Join(record, range(0), sure, 0)

    def _unwrap(self, text: Text, at: int, end: int, spans: list[tuple[int, int]]) -> tuple[int, bytes | None] | None:
        start = text.raw.rfind(b"\n", 0, at) + 1
        pieces = []
        for first, last in spans:
            piece = text.slice(first, last).rstrip(b"\r")
            if not piece.strip() or _COLON.match(piece) or text.raw[last] != 10:
                break
            pieces.append(piece)
        return self._wraps.unwrap(text.slice(max(start, text.start), end), text.slice(at, end), pieces)


def _begins_record(text: Text, start: Ints) -> Mask:
    """Return which lines begin like a record: with a colon, and no blank behind it."""
    begins: Mask = (text.bytes[start] == ord(":")) & (text.bytes[start + 1] != ord(" "))
    return begins


def _candidates(text: Text, head: int, message: Ints, end: Ints, torn: Mask) -> Iterator[int]:
    """Yield the records, the last one first, that may go on behind the line of record `head`."""
    while head >= 0:
        at, stop = int(message[head]), int(end[head])
        coloured = text.slice(at - len(_COLOUR), at) == _COLOUR
        if (coloured and not text.slice(at, stop).endswith(_COLOUR_END)) or _is_cut(text.slice(at, stop)):
            yield head
        head -= 1
        if head < 0 or not torn[head]:
            return


def _lacks_end(head: bytes, is_coloured: bool) -> bool:
    """Tell whether a message may be a part of one; few are."""
    return bool(
        _is_cut(head)
        or len(head) < _SHORT
        or not 0x41 <= head[0] <= 0x7A
        or (wholeness.is_call(head) and not wholeness.is_whole_call(head))
        or (is_coloured and not head.endswith(_COLOUR_END))
    )


def _is_cut(message: bytes) -> bool:
    if wholeness.has_known_end(message):
        return not wholeness.is_with_known_end(message)
    kernel = wholeness.shader_of(message)
    if kernel is not None:
        return not wholeness.is_whole_kernel(kernel)
    return wholeness.is_cut_name(message) or wholeness.is_surely_cut(message)


def is_coloured(text: Text, at: int) -> bool:
    """Tell whether a message begins in colour, as calls do."""
    return text.slice(at - len(_COLOUR), at) == _COLOUR


def may_go_on_with(head: bytes, coloured: bool, line: bytes) -> bool:
    """Tell whether a piece of the log ends a message that is torn.

    Args:
        head: the beginning of the message.
        coloured: whether it is in colour (`is_coloured`).
        line: the piece.
    """
    line = line.rstrip(b"\r ")
    return not _COLON.match(line) and _go_on(head, coloured, True, line) is not None


def _join(
    text: Text, at: int, end: int, torn: bool, spans: list[tuple[int, int]]
) -> tuple[int, bytes | None, int] | None:
    """Return number of the line, whole message and bytes of output; None where nothing fits."""
    head, coloured = text.slice(at, end), is_coloured(text, at)
    for i, (start, stop) in enumerate(spans):
        line = text.slice(start, stop).rstrip(b"\r ")
        if _COLON.match(line):
            return None
        found = _go_on(head, coloured, torn, line)
        if found:
            return i, *found
    return None


def _go_on(head: bytes, coloured: bool, torn: bool, line: bytes) -> tuple[bytes | None, int] | None:
    """Return whole message and bytes of output where a line ends a message; None where it does not."""
    if wholeness.is_call(head) or coloured:
        if line.endswith(_CALL_END) and b"\x1b[32m" not in line:
            return head + line if torn else None, 0
    elif wholeness.is_cut_name(head):
        if _EXIT_TAIL.match(line):
            return head + line if torn and wholeness.is_exit(head + line) else None, 0
    elif wholeness.has_known_end(head):
        return join_known_end(head, line, [len(head)] if torn else range(1, len(head) + 1)) or None
    elif torn and _closes(head, line):
        return head + line, 0
    return None


def _closes(head: bytes, line: bytes) -> bool:
    """Tell whether a line closes the brackets that the first half of a message left open."""
    kernel = wholeness.shader_of(head + line)
    if kernel is not None:
        return wholeness.is_whole_kernel(kernel)
    return wholeness.open_brackets(line) < 0 and wholeness.open_brackets(head + line) == 0


def _sure_of(message: bytes) -> bytes | None:
    """Return what is sure of a first half; None where it may be a whole message in a wording that is not known here."""
    if wholeness.has_known_end(message):
        packet = wholeness.sure_of_packet(message)
        return None if packet is None else without_cut_number(packet)
    is_cut = wholeness.shader_of(message) is not None or wholeness.is_surely_cut(message)
    return b"" if is_cut and not wholeness.is_call(message) else None
