"""Records that other output cut apart: which line is the rest of which record.

A program's text that reaches the log between two writes of one record stands in the middle of it:
behind the first half, on its line, and the second half stands alone on a later line. The halves are
put together where only one reading of them is a whole message; a call's arguments are free text, so
of a torn call the halves are known, its arguments are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.digits import Ints, Mask
from tracecorr.parse.text import Text

_NUMBER = rb"(?:0x[0-9a-f]+|-?\d+)"
_KEYS = (
    rb"setup|grid|workgroup|cluster_count|cluster_size|private_seg_size|group_seg_size|kernel_obj|kernarg_address"
    rb"|completion_signal|correlation_id|rptr|wptr|dep_signal|signal|value|mask|cond"
)
_LIST = rb"\[" + _NUMBER + rb"(?:,? " + _NUMBER + rb")*\]"
_FRONT = (
    rb"(?:SWq=0x[0-9a-f]+, )?HWq=0x[0-9a-f]+, (?:id=\d+, )?(?:Dispatch|Barrier-?AND|Barrier-?OR|BarrierValue) "
    rb"Header = 0x[0-9a-f]+ (?:AmdFormat = 0x[0-9a-f]+ )?\(type=\d+, barrier=\d+, acquire=\d+, release=\d+\)"
)
_PAIRS = rb"(?:,? (?:" + _KEYS + rb")(?: ?= ?|: )(?:" + _NUMBER + rb"|" + _LIST + rb"|EQ|NE|LT|GTE))*"
_PACKET = re.compile(_FRONT + _PAIRS)
_WHOLE = (
    re.compile(_FRONT + _PAIRS + rb"[, ]+(?:completion_signal=0x[0-9a-f]+|rptr=\d+, wptr=\d+)"),
    re.compile(
        rb"HSA (?:Async )?Copy (?:on )?(?:(?:copy_engine|dst|src|size|forceSDMA|engineType|wait_event)="
        + _NUMBER
        + rb", )+completion_signal=0x[0-9a-f]+"
    ),
    re.compile(rb"Command \(\w+\) enqueued: 0x[0-9a-f]+ to queue: 0x[0-9a-f]+"),
)
_READ_WHOLE = re.compile(rb"SWq=|HWq=|HSA (?:Async )?Copy |Command \(")
_NEW_KEY = re.compile(rb",? ?\w+ ?[=:]")
_CALL = re.compile(rb"\w+ \( ")
_CALL_END = b" ) \x1b[0m"
_COLOUR_END = b"\x1b[0m"
# So many lines of the program may stand between the halves.
_MOST_LINES = 8
_CUT_NUMBER = re.compile(rb"[\w.]*$")
_DIGITS = re.compile(rb"^[0-9a-fA-Fx]+")
_EXIT_HEAD = re.compile(rb"_{0,2}i?hip(?!\w*: Returned hip\w+ :|\w* \( )")
_EXIT_TAIL = re.compile(rb".*Returned hip\w+ :|.*: duration: \d+ us$")
_READ_WHOLE = re.compile(rb"SWq=|HWq=|HSA (?:Async )?Copy |Command \(")
_CALL = re.compile(rb"\w+ \( ")
_CALL_END = b" ) \x1b[0m"
_COLOUR_END = b"\x1b[0m"
# So many lines of the program may stand between the halves.
_MOST_LINES = 8
_CUT_NUMBER = re.compile(rb"[\w.]*$")


@dataclass
class Join:
    """Name the halves of one record.

    Args:
        record: index of the record.
        tail: index of the line that is its second half; null where none is found.
        message: the whole message, or what is sure of it; null where the place of the cut is not known.
        output: bytes of the program's text on the record's line; 0 where they are not known.
    """

    record: int
    tail: int | None
    message: bytes | None
    output: int


def find_joins(text: Text, message: Ints, end: Ints, torn: Mask, other_start: Ints, other_end: Ints) -> Iterator[Join]:
    """Yield the records whose second half is one of the other lines.

    Args:
        message, end, torn: of the records; `torn` ones are followed by another record on their line.
        other_start, other_end: lines that are no record.
    """
    if len(message) == 0 or len(other_start) == 0:
        return
    head = np.searchsorted(message, other_start) - 1
    # The line behind a line; a torn record has another one, on its line, before it.
    first = np.flatnonzero((head >= 0) & (np.diff(head, prepend=-1) != 0) & (text.bytes[other_start] != ord(":")))
    for line in first.tolist():
        for record in _candidates(text, int(head[line]), message, end, torn):
            lines = range(line, min(line + _MOST_LINES, len(other_start)))
            spans = [(int(other_start[i]), int(other_end[i])) for i in lines if head[i] == head[line]]
            found = _join(text, int(message[record]), int(end[record]), bool(torn[record]), spans)
            if found:
                yield Join(record, line + found[0], found[1], found[2])
                break
            sure = _sure_of(text.slice(int(message[record]), int(end[record])))
            if sure is not None:
                yield Join(record, None, sure, 0)


def _candidates(text: Text, head: int, message: Ints, end: Ints, torn: Mask) -> Iterator[int]:
    """Yield the records, the last one first, that may go on behind the line of record `head`."""
    while head >= 0:
        at, stop = int(message[head]), int(end[head])
        coloured = text.slice(at - 6, at) == b"\x1b[32m "
        if (coloured and not text.slice(at, stop).endswith(_COLOUR_END)) or _is_cut(text.slice(at, stop)):
            yield head
        head -= 1
        if head < 0 or not torn[head]:
            return


def _is_cut(message: bytes) -> bool:
    if _READ_WHOLE.match(message):
        return not any(whole.fullmatch(message) for whole in _WHOLE)
    return bool(_EXIT_HEAD.match(message))


def _join(
    text: Text, at: int, end: int, torn: bool, spans: list[tuple[int, int]]
) -> tuple[int, bytes | None, int] | None:
    """Return number of the line, whole message and bytes of output; null where nothing fits."""
    head = text.slice(at, end)
    for i, (start, stop) in enumerate(spans):
        line = text.slice(start, stop).rstrip(b"\r")
        if line.startswith(b":"):
            return None
        if _CALL.match(head) or text.slice(at - 6, at) == b"\x1b[32m ":
            if line.endswith(_CALL_END) and b"\x1b[32m" not in line:
                return i, head + line if torn else None, 0
            continue
        if _EXIT_HEAD.match(head):
            if _EXIT_TAIL.match(line):
                return i, None, 0
            continue
        cuts = [len(head)] if torn else range(1, len(head))
        whole = [cut for cut in cuts if any(w.fullmatch(head[:cut] + line) for w in _WHOLE)]
        if whole:
            cut = whole[-1]
            if any(_DIGITS.fullmatch(head[other:cut]) for other in whole[:-1]):
                # Cut inside of a number, which may or may not go on in the text: all but that number is known.
                return i, without_cut_number(head[:cut]) + _DIGITS.sub(b"", line, count=1), 0
            return i, head[:cut] + line, len(head) - cut
    return None


def _sure_of(message: bytes) -> bytes | None:
    """Return what is sure of a packet's first half; null where it may be a wording that is not known here."""
    found = _PACKET.match(message)
    if not found or _NEW_KEY.match(message, found.end()):
        return None
    return without_cut_number(found[0])


def without_cut_number(message: bytes) -> bytes:
    """Return what a torn message holds for sure: all but the number or word at its end."""
    return _CUT_NUMBER.sub(b"", message)
