"""Logs as ROCm 10 would print them: the converter that the tests of recorded captures use.

The forms are those of the format strings of its sources (rocvirtual.cpp, rocdevice.cpp, rocblit.cpp, debug.cpp). What a
line of the older release does not print, as the index of a barrier up to 6.4, the new line does not get.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

_WORD = (1 << 64) - 1
_PREFIX = re.compile(rb"(:\d:\S+ *:\d+ *: \d+d? us: )\[pid:(\d+) *tid: ?0x([0-9a-f]+)\] ?")
_ENGINES = {b"0": b"Compute", b"1": b"D2H", b"2": b"H2D", b"3": b"D2D/P2P", b"4": b"D2D/P2P"}
_CREATED = re.compile(
    rb"Created SWq=(0x[0-9a-f]+) to map on HWq=(0x[0-9a-f]+) with size (\d+) with priority (\d), cooperative: (\d)"
)
_PACKET = re.compile(rb"SWq=(0x[0-9a-f]+), HWq=(0x[0-9a-f]+), id=(\d+), ")
_Replacement = bytes | Callable[[re.Match[bytes]], bytes]
_FORMS: tuple[tuple[re.Pattern[bytes], _Replacement], ...] = tuple(
    (re.compile(old), new)
    for old, new in (
        (rb"Barrier(AND|OR) Header", rb"Barrier-\1 Header"),
        (rb"value = (0x[0-9a-f]+) mask = (0x[0-9a-f]+) cond: (\w+)", rb"value=\1, mask=\2, cond=\3"),
        (rb", correlation_id=\d+", b""),
        (rb"KernargSegmentByteSize = (\d+) K", rb"argSize = \1, KernargSegmentByteSize = \1, K"),
        (rb"Handler: value\((-?\d+)\), timestamp\((0x[0-9a-f]+)\), handle\(0x[0-9a-f]+\)",
         rb"Handler: value(\1), timestamp(\2), callback_signal(0x0)"),
        (rb"engineType=(\d)", lambda found: b"engineOp=" + _ENGINES.get(found[1], b"Unknown")),
        (rb"^Graph shader name : (.*)$", rb"Graph ShaderName : \1, device id : 0"),
        (rb"^(HSA Async Copy Rect .* wait_event=0x[0-9a-f]+) completion", rb"\1, completion"),
    )
)  # fmt: skip
# Lines that ROCm 10 no longer prints.
_GONE = re.compile(rb"Host blocked wait for Signal|(?:\x1b\[32m )?__hip\w+(?: \(|: Returned)")


def hash_thread(address: int) -> int:
    """Return what ROCm 10 prints of a pthread address: 20 bits of `std::hash` of libstdc++."""
    multiplier = 0xC6A4A7935BD1E995
    mixed = address * multiplier & _WORD
    mixed = (mixed ^ mixed >> 47) * multiplier & _WORD
    hashed = ((0xC70F6907 ^ 8 * multiplier & _WORD) ^ mixed) * multiplier & _WORD
    hashed = (hashed ^ hashed >> 47) * multiplier & _WORD
    return (hashed ^ hashed >> 47) & 0xFFFFF


class Converter:
    """Write the lines of a log anew; remembers the priorities of queues."""

    def __init__(self) -> None:
        self._priorities: dict[bytes, bytes] = {}

    def convert(self, log: bytes) -> bytes:
        """Return the log in the new form."""
        return b"".join(self.convert_lines(log.splitlines(keepends=True)))

    def convert_lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield each line in the new form; an empty one for a line that is no longer printed."""
        return map(self._line, lines)

    def _line(self, line: bytes) -> bytes:
        found = _PREFIX.match(line)
        if not found:
            return line
        message = line[found.end() :]
        if _GONE.match(message):
            return b""
        prefix = found[1] + b"[pid:%s tid: 0x%05x] " % (found[2], hash_thread(int(found[3], 16)))
        message = _PACKET.sub(self._packet, _CREATED.sub(self._created, message))
        for old, text in _FORMS:
            message = old.sub(text, message)
        return prefix + message

    def _created(self, found: re.Match[bytes]) -> bytes:
        swq, ring, size, priority, cooperative = found.groups()
        self._priorities[swq] = {b"2": b"3"}.get(priority, priority)
        queue = b"Created SWq=%s HWq=%s size %s priority %s cooperative %s" % (swq, ring, size, priority, cooperative)
        return queue + b" flags 0x0 device_mem_ring_buf 0"

    def _packet(self, found: re.Match[bytes]) -> bytes:
        swq, ring, number = found.groups()
        front = b"SWq=%s, HWq=%s, id=%s, priority=%s, " % (swq, ring, number, self._priorities.get(swq, b"1"))
        return front + b"virtual_pipe_id=%d, " % (int(number) % 4)


class Write(NamedTuple):
    """Hold a system call of a trace that wrote bytes of a log.

    Args:
        position, length: its bytes in the log.
        pid: process that wrote them.
        trace_offset: where its record starts in the trace.
    """

    position: int
    length: int
    pid: int
    trace_offset: int


def convert_written(log: bytes, trace: bytes, writes: list[Write]) -> tuple[bytes, bytes]:
    """Return a log in the new form, and its trace with writes of the new sizes.

    What each process wrote is converted for itself, since several may have cut each other's lines. A piece of a line
    keeps its size, but for the last one, which ends where the new line does.

    Args:
        log: the log in the old form.
        trace: the text of its trace.
        writes: the writes of all bytes of the log, by position.
    """
    converted: dict[int, bytes] = {}
    for pid in {write.pid for write in writes}:
        own = [write for write in writes if write.pid == pid]
        lines = b"".join(log[w.position : w.position + w.length] for w in own).splitlines(keepends=True)
        news = list(Converter().convert_lines(lines))
        starts, new_starts = ([0, *accumulate(map(len, part))] for part in (lines, news))

        def move(position: int, starts: list[int] = starts, new_starts: list[int] = new_starts) -> int:
            line = bisect_right(starts, position) - 1
            return min(new_starts[line] + position - starts[line], new_starts[min(line + 1, len(new_starts) - 1)])

        text, ends = b"".join(news), [move(end) for end in accumulate(w.length for w in own)]
        for write, start, end in zip(own, [0, *ends], ends, strict=False):
            converted[write.trace_offset] = text[start:end]
    sizes = {offset: len(text) for offset, text in converted.items()}
    return b"".join(converted[write.trace_offset] for write in writes), _resize(trace, sizes)


_CALL = re.compile(rb" *\S*-(\d+) .* sys_write(?:\(.* count: ((?:0x)?[0-9a-f]+)\)| -> (0x[0-9a-f]+))$")


def _resize(trace: bytes, sizes: dict[int, int]) -> bytes:
    """Return a trace whose writes at some offsets have other sizes; without those of size 0, which it never had."""
    lines, offset, inside = list[bytes](), 0, dict[bytes, int]()
    for line in trace.splitlines(keepends=True):
        found = _CALL.match(line)
        size = None
        if found and found[2]:
            size = sizes.get(offset)
            inside |= {} if size is None else {found[1]: size}
        elif found:
            size = inside.pop(found[1], None)
        offset += len(line)
        if found and size is not None:
            at = 2 if found[2] else 3
            line = line[: found.start(at)] + b"0x%x" % size + line[found.end(at) :]
        lines += [line] if size != 0 else []
    entries = b"%d" % sum(not line.startswith(b"#") for line in lines)
    return re.sub(rb"(?<=written: )\d+/\d+", entries + b"/" + entries, b"".join(lines), count=1)
