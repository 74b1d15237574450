"""Records that other output cut apart: which line is the rest of which record.

Text of the program that reaches the log between two writes of one record stands in the middle of it: behind the first
half, on its line, and the second half stands alone on a later line. The halves are put together if only one reading of
them is a whole message: a form that the runtime prints, to its last byte. The arguments of a call are free text, so of
a torn call only the halves are known.

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
from tracecorr.read.byte_text import Mask, Text

if TYPE_CHECKING:
    from tracecorr.read.amdlog.records import Records

# Process and thread of a prefix, behind the time.
THREAD = re.compile(
    rb"\[pid:(\d+) *tid: ?(?:0x)? *([0-9a-fA-F]+)\]"
    rb"|(\d+) *: \[(?:tid:)?(0x)?([0-9a-fA-F]+)\]"
    rb"|\[(?:tid:)?(?:0x)?([0-9a-fA-F]{6,16})\]"
)
# Colours, also as a paste shows them.
_ANSI = re.compile("(?:\x1b|\\^\\[|\u2190)\\[[0-9;]*m".encode())
_NUMBER = rb"(?:0x[0-9a-f]+|-?\d+)"
_KEYS = (
    rb"setup|grid|workgroup|cluster_count|cluster_size|private_seg_size|group_seg_size|kernel_obj|kernarg_address"
    rb"|completion_signal|correlation_id|rptr|wptr|dep_signal|signal|value|mask|cond"
)
_LIST = rb"\[" + _NUMBER + rb"(?:,? " + _NUMBER + rb")*\]"
_FRONT = (
    rb"(?:SWq=0x[0-9a-f]+, )?HWq=0x[0-9a-f]+, (?:(?:id|priority|virtual_pipe_id)=\d+, )*"
    rb"(?:Dispatch|Barrier-?AND|Barrier-?OR|BarrierValue) Header = 0x[0-9a-f]+ "
    rb"(?:AmdFormat = 0x[0-9a-f]+ )?\(type=\d+, barrier=\d+, acquire=\d+, release=\d+\)"
)
_PAIRS = rb"(?:,? (?:" + _KEYS + rb")(?: ?= ?|: )(?:" + _NUMBER + rb"|" + _LIST + rb"|EQ|NE|LT|GTE))*"
_PACKET = re.compile(_FRONT + _PAIRS)
_NEW_KEY = re.compile(rb",? ?\w+ ?[=:]")
# Of ROCm 4.5 to 7.2. Any word would fit what a torn line has lost of it.
_COMMAND_KINDS = (
    rb"(?:Internal)?Marker|KernelExecution|NativeKernel|Copy(?:DeviceToHost|HostToDevice|DeviceToDevice)(?:2D)?"
    rb"|Fill(?:Buffer|Image)|Task|(?:Read|Write|Copy)Image|CopyImageToBuffer|CopyBufferToImage|Map(?:Buffer|Image)"
    rb"|UnmapMemObject|MigrateMemObjects|User|Barrier|Svm(?:Free|Memcpy|MemFill|Map|Unmap)|Stream(?:Wait|Write)"
    rb"|Unknown command kind"
)
_WITH_KNOWN_END = re.compile(
    _FRONT + _PAIRS + rb"[, ]+(?:completion_signal=0x[0-9a-f]+|rptr=\d+, wptr=\d+)"
    rb"|HSA (?:Async )?Copy (?:on )?(?:(?:copy_engine|dst|src|size|forceSDMA|engineType|wait_event)="
    + _NUMBER
    + rb", |engineOp=[\w/]+, )+completion_signal=0x[0-9a-f]+(?:, engine(?:Type=\d+|Op=[\w/]+))?"
    rb"|Command \((?:" + _COMMAND_KINDS + rb")\) enqueued: 0x[0-9a-f]+ to queue: 0x[0-9a-f]+"
    rb"|Created SWq=0x[0-9a-f]+ to map on HWq=0x[0-9a-f]+ with size \d+ with priority \d, cooperative: [01]"
    rb"|Created SWq=0x[0-9a-f]+ HWq=0x[0-9a-f]+ size \d+ priority \d cooperative [01] flags 0x[0-9a-f]+ "
    rb"device_mem_ring_buf [01](?: CU mask 0x(?:[0-9a-f]{8})+)?"
    rb"|[Nn]umber of allocated hardware queues with low priority: \d+, with normal priority: \d+, "
    rb"with high priority: \d+, maximum per priority is: \d+"
)
_HAS_KNOWN_END = re.compile(
    rb"SWq=|HWq=|HSA (?:Async )?Copy (?!Using|staged)|Command \(|Created SWq=|[Nn]umber of allocated hardware queues"
)
_CALL = re.compile(rb"\w+ \( ")
_WHOLE_CALL_END = re.compile(rb" \)\s*$")
_EXIT = re.compile(rb"\w+: Returned hip\w+ :.*")
# Behind these nothing of a call's line is missing: the colour's end, and the unit of its duration.
_LINE_END = re.compile(rb"(?:\x1b\[0m|: duration: \d+d? us) *")
# A call's name, or what is left of it, without the text that makes it an enter or an exit.
_CUT_NAME = re.compile(rb"_{0,2}i?hip(?!\w*: Returned hip\w+ :|\w* \( )")
_SHADER = re.compile(rb"(?:Graph )?(?:ShaderName|shader name) : ")
_DEVICE = re.compile(rb", device id : \d+$")
# What may stand behind the arguments of a demangled name.
_NAME_END = re.compile(rb"\)(?: ?(?:const|volatile|noexcept|&&?|\[clone [^\]]*\]|\[abi:\w+\]|\(\.[\w.]+\)|\.[\w.]+))*$")
_NO_ARGUMENTS = (b"(anonymous namespace)", b"operator()")
_TEXT_IN_NUMBER = re.compile(rb"\b0x[0-9a-f]+(?!h\b)[g-zG-Z_]")
_BRACKET = re.compile(rb"[\[\](){}]")
_PAIRS_OF_BRACKETS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))


def _has_known_end(message: bytes) -> bool:
    """Tell whether the message is of a kind whose last field is known: packets, copies, commands."""
    return bool(_HAS_KNOWN_END.match(message))


def _is_with_known_end(message: bytes) -> bool:
    """Tell whether a message of such a kind is there to its last byte."""
    return bool(_WITH_KNOWN_END.fullmatch(message))


def _is_call(message: bytes) -> bool:
    """Tell whether the message begins like an entered call."""
    return bool(_CALL.match(message))


def _is_whole_call(message: bytes) -> bool:
    """Tell whether an entered call is there to the end of its arguments."""
    return bool(_CALL.match(message) and _WHOLE_CALL_END.search(_ANSI.sub(b"", message)))


def _is_exit(message: bytes) -> bool:
    """Tell whether the message is a call's exit with its result."""
    return bool(_EXIT.fullmatch(message))


def is_ended(message: bytes) -> bool:
    """Tell whether a message without a line end shows that it is there to its last byte."""
    return any(found.end() == len(message) for found in _LINE_END.finditer(message))


def _is_cut_name(message: bytes) -> bool:
    """Tell whether the message begins with (a part of) a call's name, but is neither enter nor exit."""
    return bool(_CUT_NAME.match(message))


def _shader_of(message: bytes) -> bytes | None:
    """Return the kernel's name in a ShaderName message; None for other messages."""
    found = _SHADER.match(message)
    return _DEVICE.sub(b"", message[found.end() :]).strip() if found else None


def _is_one_word(name: bytes) -> bool:
    """Tell whether a kernel's name is one word, mangled or without arguments: its end cannot be told."""
    return not re.search(rb"[ (,]", name)


def is_whole_kernel(name: bytes) -> bool:
    """Tell whether a kernel's name, mangled or not, is not cut apart.

    A name without arguments is one word; of such a name the end cannot be told.
    """
    if _is_one_word(name):
        return bool(name)
    known_end = _NAME_END.search(name) and not name.endswith(_NO_ARGUMENTS)
    return bool(known_end) and not name.startswith(b"_Z") and _open_brackets(name) == 0


def _open_brackets(text: bytes) -> int:
    """Return how many round, square or curly brackets are open at the end of a text; negative = more were closed."""
    if not _BRACKET.search(text):
        return 0
    text = _ANSI.sub(b"", text)
    counts = [text.count(first) - text.count(last) for first, last in _PAIRS_OF_BRACKETS]
    return next((count for count in counts if count), 0)


def _is_surely_cut(message: bytes) -> bool:
    """Tell whether a message of any kind misses a part: a bracket is open, or text stands in a hexadecimal number.

    The runtime prints a single `h` behind some numbers.
    """
    return _open_brackets(message) > 0 or bool(_TEXT_IN_NUMBER.search(message))


def _sure_of_packet(message: bytes) -> bytes | None:
    """Return what is sure of a packet's first half; None if it may be a wording that is not known here."""
    found = _PACKET.match(message)
    if not found or _NEW_KEY.match(message, found.end()):
        return None
    return found[0]


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
    """Yield the records with a part on another line, and those that surely miss a part.

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
        or (_is_call(head) and not _is_whole_call(head))
        or (coloured and not head.endswith(_COLOUR_END))
    )


def _is_cut(message: bytes) -> bool:
    if _has_known_end(message):
        return not _is_with_known_end(message)
    kernel = _shader_of(message)
    if kernel is not None:
        return not is_whole_kernel(kernel)
    return _is_cut_name(message) or _is_surely_cut(message)


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
    if _is_call(head) or coloured:
        if line.endswith(_CALL_END) and b"\x1b[32m" not in line:
            return head + line if torn else None, 0
    elif _is_cut_name(head):
        if _EXIT_TAIL.match(line):
            return head + line if torn and _is_exit(head + line) else None, 0
    elif _has_known_end(head):
        return _join_known_end(head, line, [len(head)] if torn else range(1, len(head) + 1)) or None
    elif torn and _closes(head, line):
        return head + line, 0
    return None


def _join_known_end(head: bytes, line: bytes, cuts: Sequence[int]) -> tuple[bytes, int] | None:
    """Return the message that a first half, cut at one of `cuts`, and a line make, and the bytes of output."""
    whole = [cut for cut in cuts if _is_with_known_end(head[:cut] + line)]
    if not whole:
        return None
    cut = whole[-1]
    if any(_DIGITS.fullmatch(head[other:cut]) for other in whole[:-1]):
        # Cut inside of a number, which may or may not go on in the text: all but that number is known.
        return without_cut_number(head[:cut]) + _DIGITS.sub(b"", line, count=1), 0
    return head[:cut] + line, len(head) - cut


def _closes(head: bytes, line: bytes) -> bool:
    """Tell whether a line closes the brackets that the first half of a message left open."""
    kernel = _shader_of(head + line)
    if kernel is not None:
        return is_whole_kernel(kernel)
    return _open_brackets(line) < 0 and _open_brackets(head + line) == 0


def _sure_of(message: bytes) -> bytes | None:
    """Return what is sure of a first half; None if it may be a whole message in a wording that is not known here."""
    if _has_known_end(message):
        packet = _sure_of_packet(message)
        return None if packet is None else without_cut_number(packet)
    is_cut = _shader_of(message) is not None or _is_surely_cut(message)
    return b"" if is_cut and not _is_call(message) else None


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
    """Tell whether a piece of the log ends a message whose first half is known."""
    line = line.rstrip(b"\r ")
    return not _COLON.match(line) and _go_on(head.message, head.coloured, True, line) is not None
