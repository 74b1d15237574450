"""Records that other output cut apart: which line is the rest of which record.

Text of the program that reaches the log between two writes of one record stands in the middle of it: behind the first
half, on its line, and the second half stands alone on a later line. The halves are put together if only one reading of
them is a whole message. The arguments of a call are free text, so of a torn call only the halves are known.

A long line may leave unbuffered stderr in pieces. If two processes print at once, the first piece of one line is
followed by that of another one, and what follows then is the rest of either: of both only the first piece is sure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tracecorr.native import Ints
from tracecorr.read.amdlog import wholeness
from tracecorr.read.text import Mask, Text

if TYPE_CHECKING:
    from tracecorr.read.amdlog.records import Records

_CALL_END = b" ) \x1b[0m"
_COLOUR, _COLOUR_END = b"\x1b[32m ", b"\x1b[0m"
# So many lines of the program may stand between the halves.
_MOST_LINES = 8
# So many messages are remembered.
_MOST_KNOWN = 1 << 12
# A message so short may be the beginning of any other.
_SHORT = 24
# What a record begins with; behind a colon and a blank the rest of one may follow.
_COLON = re.compile(rb":(?! )")
_EXIT_TAIL = re.compile(rb".*Returned hip\w+ :|.*: duration: \d+d? us$")
_CUT_NUMBER = re.compile(rb"[\w.]*$")
_DIGITS = re.compile(rb"^[0-9a-fA-Fx]+")
# Bytes of a piece (measured with the C library that HIP 7.2.4 and 6.4.3 ran on).
_PIECE = 128
# So many lines of other processes may stand between the halves of one.
_MOST_RECORDS = 63


@dataclass
class Join:
    """Name the parts of one record.

    Args:
        record: index of the record.
        tails: the lines that are its other parts; empty if none is found.
        message: the whole message, or what is sure of it; None if the place of the cut is not known.
        output: bytes of the program's text on the record's line; 0 if they are not known.
    """

    record: int
    tails: range
    message: bytes | None
    output: int


@dataclass(frozen=True)
class Head:
    """Hold the first half of a record whose rest may be on a later line.

    Args:
        message: what is sure of its message.
        coloured: whether that is in colour.
        pid: its process.
        left: so many records may still come before the rest.
    """

    message: bytes
    coloured: bool
    pid: int | None
    left: int = _MOST_RECORDS


def without_cut_number(message: bytes) -> bytes:
    """Return what a torn message holds for sure: all but the number or word at its end."""
    return _CUT_NUMBER.sub(b"", message)


def find_joins(text: Text, message: Ints, end: Ints, torn: Mask, other_start: Ints, other_end: Ints) -> Iterator[Join]:
    """Yield the records of which a part stands on another line, and those that surely miss one.

    Args:
        text: the block.
        message, end, torn: of the records; `torn` ones are followed by another record on their line.
        other_start, other_end: lines that are no record.
    """
    if len(message) == 0 or len(other_start) == 0:
        return
    before = np.searchsorted(message, other_start) - 1
    # The line behind a line; a torn record has another one, on its line, before it.
    is_first = (before >= 0) & (np.diff(before, prepend=-1) != 0) & ~_begins_record(text, other_start)
    for line in np.flatnonzero(is_first).tolist():
        record = int(before[line])
        # A record before it on its line may go on, too.
        is_alone = not torn[record] and not (record > 0 and torn[record - 1])
        at, stop = int(message[record]), int(end[record])
        if is_alone and not _misses_end(text.slice(at, stop), _is_coloured(text, at)):
            continue
        last = min(line + _MOST_LINES, len(other_start))
        spans = [(int(other_start[i]), int(other_end[i])) for i in range(line, last) if before[i] == record]
        yield from _join_behind(text, record, line, spans, message, end, torn)


def _join_behind(
    text: Text, head: int, line: int, spans: list[tuple[int, int]], message: Ints, end: Ints, torn: Mask
) -> Iterator[Join]:
    """Yield the record (the last one first) to which one of the lines `spans` belongs; the first is `line`."""
    for record in _candidates(text, head, message, end, torn):
        found = _join(text, int(message[record]), int(end[record]), bool(torn[record]), spans)
        if found:
            yield Join(record, range(line + found[0], line + found[0] + 1), found[1], found[2])
            return
        sure = _sure_of(text.slice(int(message[record]), int(end[record])))
        if sure is not None:
            yield Join(record, range(0), sure, 0)


def _begins_record(text: Text, start: Ints) -> Mask:
    """Return which lines begin like a record: with a colon, and no blank behind it."""
    begins: Mask = (text.bytes[start] == ord(":")) & (text.bytes[start + 1] != ord(" "))
    return begins


def _candidates(text: Text, head: int, message: Ints, end: Ints, torn: Mask) -> Iterator[int]:
    """Yield the records, the last one first, that may go on behind the line of record `head`."""
    while head >= 0:
        at, stop = int(message[head]), int(end[head])
        half = text.slice(at, stop)
        if (_is_coloured(text, at) and not half.endswith(_COLOUR_END)) or _is_cut(half):
            yield head
        head -= 1
        if head < 0 or not torn[head]:
            return


@lru_cache(_MOST_KNOWN)
def _misses_end(head: bytes, coloured: bool) -> bool:
    """Tell whether a message may be a part of one; few are, and many records have the same message."""
    return bool(
        _is_cut(head)
        or len(head) < _SHORT
        or not 0x41 <= head[0] <= 0x7A
        or (wholeness.is_call(head) and not wholeness.is_whole_call(head))
        or (coloured and not head.endswith(_COLOUR_END))
    )


def _is_cut(message: bytes) -> bool:
    if wholeness.has_known_end(message):
        return not wholeness.is_with_known_end(message)
    kernel = wholeness.shader_of(message)
    if kernel is not None:
        return not wholeness.is_whole_kernel(kernel)
    return wholeness.is_cut_name(message) or wholeness.is_surely_cut(message)


def _is_coloured(text: Text, at: int) -> bool:
    """Tell whether a message begins in colour, as calls do."""
    return text.slice(at - len(_COLOUR), at) == _COLOUR


def _join(
    text: Text, at: int, end: int, torn: bool, spans: list[tuple[int, int]]
) -> tuple[int, bytes | None, int] | None:
    """Return number of the line, whole message and bytes of output; None if nothing fits."""
    head, coloured = text.slice(at, end), _is_coloured(text, at)
    for i, (start, stop) in enumerate(spans):
        line = text.slice(start, stop).rstrip(b"\r ")
        if _COLON.match(line):
            return None
        found = _go_on(head, coloured, torn, line)
        if found:
            return i, *found
    return None


def _go_on(head: bytes, coloured: bool, torn: bool, line: bytes) -> tuple[bytes | None, int] | None:
    """Return whole message and bytes of output if a line ends a message; None if it does not."""
    if wholeness.is_call(head) or coloured:
        if line.endswith(_CALL_END) and b"\x1b[32m" not in line:
            return head + line if torn else None, 0
    elif wholeness.is_cut_name(head):
        if _EXIT_TAIL.match(line):
            return head + line if torn and wholeness.is_exit(head + line) else None, 0
    elif wholeness.has_known_end(head):
        return _join_known_end(head, line, [len(head)] if torn else range(1, len(head) + 1)) or None
    elif torn and _closes(head, line):
        return head + line, 0
    return None


def _join_known_end(head: bytes, line: bytes, cuts: Sequence[int]) -> tuple[bytes, int] | None:
    """Return the message that a first half, cut at one of `cuts`, and a line make, and the bytes of output."""
    whole = [cut for cut in cuts if wholeness.is_with_known_end(head[:cut] + line)]
    if not whole:
        return None
    cut = whole[-1]
    if any(_DIGITS.fullmatch(head[other:cut]) for other in whole[:-1]):
        # Cut inside of a number, which may or may not go on in the text: all but that number is known.
        return without_cut_number(head[:cut]) + _DIGITS.sub(b"", line, count=1), 0
    return head[:cut] + line, len(head) - cut


def _closes(head: bytes, line: bytes) -> bool:
    """Tell whether a line closes the brackets that the first half of a message left open."""
    kernel = wholeness.shader_of(head + line)
    if kernel is not None:
        return wholeness.is_whole_kernel(kernel)
    return wholeness.open_brackets(line) < 0 and wholeness.open_brackets(head + line) == 0


def _sure_of(message: bytes) -> bytes | None:
    """Return what is sure of a first half; None if it may be a whole message in a wording that is not known here."""
    if wholeness.has_known_end(message):
        packet = wholeness.sure_of_packet(message)
        return None if packet is None else without_cut_number(packet)
    is_cut = wholeness.shader_of(message) is not None or wholeness.is_surely_cut(message)
    return b"" if is_cut and not wholeness.is_call(message) else None


# ---- lines of several processes


def find_swapped(
    text: Text, records: Records, torn: Mask, pids: Sequence[int | None], waiting: Sequence[Head]
) -> tuple[dict[int, int], tuple[Head, ...]]:
    """Return the records that may have the rest of another one for their own, and the end of their first piece.

    Args:
        text: the block.
        records: its records.
        torn: which are followed by another record on their line.
        pids: the process of each thread code; the lines of one process never mix.
        waiting: what the block before leaves to this one.

    Returns: with them what this block leaves to the next one.
    """
    swapped: dict[int, int] = {}
    start, end, thread = records.start, records.end, records.thread

    def cut(i: int, stop: int) -> tuple[Head, int]:
        at = int(records.message[i])
        return Head(text.slice(at, stop), _is_coloured(text, at), pids[thread[i]]), i

    heads = [(head, -1) for head in waiting]
    halves = np.flatnonzero(torn)
    heads += [cut(i, int(end[i])) for i in halves[(end[halves] - start[halves]) % _PIECE == 0].tolist()]
    left = []
    while heads:
        head, at = heads.pop()
        others = range(at + 1, min(at + 1 + head.left, len(start)))
        for other in others:
            # The next line of its process begins behind the rest of this one.
            if pids[thread[other]] == head.pid:
                break
            rests = range(int(start[other]) + _PIECE, int(end[other]), _PIECE)
            if any(_may_go_on_with(head, text.slice(rest, int(end[other]))) for rest in rests):
                if other not in swapped and not torn[other]:
                    heads.append(cut(other, int(start[other]) + _PIECE))
                swapped |= {i: min(int(end[i]), int(start[i]) + _PIECE) for i in (at, other) if i >= 0}
        else:
            if len(others) < head.left:
                left.append(replace(head, left=head.left - len(others)))
    return swapped, tuple(left)


def _may_go_on_with(head: Head, line: bytes) -> bool:
    """Tell whether a piece of the log ends a message of which the first half is known."""
    line = line.rstrip(b"\r ")
    return not _COLON.match(line) and _go_on(head.message, head.coloured, True, line) is not None
