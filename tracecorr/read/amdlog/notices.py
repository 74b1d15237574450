"""What runtime, C library and shell print beside the records of a log when a program fails.

Such lines have no time and no thread. ROCr prints the memory errors and the exception itself (runtime.cpp), CLR the
packet at which a queue aborted or stands (rocdevice.cpp, AnalyzeAqlQueue), device code its assertions, the shell how
the program ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracecorr.model.kinds import ABORTED_PACKET, HUNG_PACKET, IDLE_QUEUE, LOG_MESSAGE, NOTICES, Flag
from tracecorr.read.byte_text import Text

_NODE = rb"(?P<node>\d+) \(Agent handle: (?P<agent>0x[0-9a-f]+|\(nil\))\)"
_SIGNALS = (
    rb"(?P<signal>Segmentation fault|Aborted|Killed|Bus error|Floating point exception|Illegal instruction|Terminated)"
)
# Of a queue they print its SWq.
_QUEUE = rb"VGPU\((?P<virtual_gpu>0x[0-9a-f]+)\) Queue\((?P<swq>0x[0-9a-f]+)\)"
_PATTERNS = {
    "memory_access_fault": rb"Memory access fault by GPU node-" + _NODE + rb" on address (?P<address>0x[0-9a-f]+)?.*",
    "memory_critical_error": rb"Memory critical error by agent node-" + _NODE + rb" on address (?P<address>0x\w+)?.*",
    "hardware_exception": rb"HW Exception by GPU node-" + _NODE + rb".*",
    "device_assertion": rb".*Device-side assertion .*failed\.",
    ABORTED_PACKET: rb"Kernel Name: *(?P<kernel>.*)",
    HUNG_PACKET: rb"VGPU\((?P<virtual_gpu>0x[0-9a-f]+)\) hang analysis:",
    IDLE_QUEUE: _QUEUE + rb" is idle",
    "hung_queue": _QUEUE + rb"(?: rptr=(?P<rptr>\d+), wptr=(?P<wptr>\d+))?\. "
    rb"(?:A barrier packet in the queue!|Vendor packet \(amd_format=(?P<amd_format>\d+)\)|Couldn't find .*)",
    # Bash: `bash: line 1: 7001 Segmentation fault (core dumped) ./app`; alone where it is the shell's own child.
    "ended_by_signal": rb"(?:\S+: line \d+: +(?P<pid>\d+) )? *" + _SIGNALS + rb"(?: .*)?",
}
assert tuple(_PATTERNS) == NOTICES
_LINES = [(name, re.compile(pattern)) for name, pattern in _PATTERNS.items()]
_BARE = re.compile(_SIGNALS + rb"(?: +\(core dumped\))?")
# A block without any of these has no such line.
_ANY = re.compile(
    rb"Memory access fault|Memory critical error|HW Exception by|Device-side assertion|Kernel Name:|Segmentation fault"
    rb"|VGPU\(|Aborted|Killed|Bus error|Floating point exc|Illegal instr|Terminated"
)
# Lines behind the first one of a packet, and what they say of it. A second one of a hung packet is its metadata.
_OF_PACKET = {ABORTED_PACKET: re.compile(rb"VGPU=|\t"), HUNG_PACKET: re.compile(rb"SWq=")}
_FIELDS = {
    "swq": rb"SWq=(0x[0-9a-f]+)", "ring": rb"HWq=(0x[0-9a-f]+)", "header": rb"Header *= *(0x[0-9a-f]+)",
    "grid_x": rb"grid=\[(\d+)", "grid_y": rb"grid=\[\d+, (\d+)", "grid_z": rb"grid=\[\d+, \d+, (\d+)",
    "workgroup_x": rb"workgroup=\[(\d+)", "workgroup_y": rb"workgroup=\[\d+, (\d+)",
    "workgroup_z": rb"workgroup=\[\d+, \d+, (\d+)", "private_bytes": rb"private_seg_size=(\d+)",
    "group_bytes": rb"group_seg_size=(\d+)", "kernel_object": rb"kernel_obj=(0x[0-9a-f]+)",
    "kernarg": rb"kernarg_address=(?:0x)*(0x[0-9a-f]+)", "signal": rb"completion_signal=(0x[0-9a-f]+)",
    "rptr": rb"rptr=(\d+)", "wptr": rb"wptr=(\d+)",
}  # fmt: skip
_OF_EVENT = ("ring", "signal")


@dataclass(frozen=True)
class Notice:
    """Hold one notice.

    Args:
        name: one of `NOTICES`.
        start, end: its bytes in the block, without the last line end.
        lines: how many it has.
        message: its lines as one.
        kernel: that it names.
        numbers: what else it tells, by name.
    """

    name: str
    start: int
    end: int
    lines: int
    message: str
    kernel: str | None
    numbers: dict[str, int]


def find_notices(text: Text, spans: Sequence[tuple[int, int]]) -> list[Notice]:
    """Return the notices among lines that are no records.

    Args:
        text: the block.
        spans: start of such lines, and the place behind their line end; one span may hold several lines.
    """
    if not _ANY.search(b"".join(bytes(text.raw[start:until]) for start, until in spans)):
        return []
    lines = [line for span in spans for line in _split(text, *span)]
    found, place = [], 0
    while place < len(lines):
        start, until, line = lines[place]
        place += 1
        name, match = _recognize(line)
        if not match:
            continue
        last, whole, count = until, [line], 1
        while name in _OF_PACKET and place < len(lines) and lines[place][0] == last:
            _, behind, more = lines[place]
            if not _OF_PACKET[name].match(more):
                break
            last, count, place = behind, count + 1, place + 1
            whole.append(more)
        found.append(_read(name, match, start, last, count, b" ".join(part.strip() for part in whole)))
    return found


def _split(text: Text, start: int, until: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, place behind the line end, and text of each line of a span."""
    for line in bytes(text.raw[start:until]).splitlines(keepends=True):
        yield start, start + len(line), line.rstrip(b"\r\n")
        start += len(line)


def _recognize(line: bytes) -> tuple[str, re.Match[bytes] | None]:
    bare = line.strip()
    for name, pattern in _LINES:
        match = pattern.fullmatch(bare)
        # Words of a program may begin like the shell's: it names the process, or says nothing else.
        if match and (name != "ended_by_signal" or match["pid"] or _BARE.fullmatch(bare)):
            return name, match
    return "", None


def _read(name: str, match: re.Match[bytes], start: int, until: int, lines: int, whole: bytes) -> Notice:
    told = {key: value for key, value in match.groupdict().items() if value and key not in ("kernel", "signal")}
    if name in _OF_PACKET:
        told |= {key: found[1] for key, pattern in _FIELDS.items() if (found := re.search(pattern, whole))}
    kernel = match["kernel"].decode("utf-8", "replace") if name == ABORTED_PACKET else None
    told.pop("agent", None)
    numbers = {key: int(value, 16 if value.startswith(b"0x") else 10) for key, value in told.items()}
    return Notice(name, start, until, lines, whole.decode("utf-8", "replace"), kernel, numbers)


def list_rows(
    notices: Sequence[Notice], file: int, base: int, stamps: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the notices as rows of `PART_EVENTS` and `PART_ARGS`.

    Args:
        notices: of a block.
        file: key of `files`.
        base: offset in the file of the block's place 0.
        stamps: the stamp of the record before each.
    """
    events = [
        {
            "file": file, "offset": base + one.start, "length": one.end - one.start, "stamp_ns": stamp, "clock": "mono",
            "layer": "other", "name": one.name, "kernel": one.kernel, "depth": 0, "flags": int(Flag.NO_TIME),
            **{key: one.numbers.get(key) for key in _OF_EVENT},
        }
        for one, stamp in zip(notices, stamps, strict=True)
    ]  # fmt: skip
    args = [
        {"file": file, "offset": base + one.start, "key": key, "u64": number, "text": text}
        for one in notices
        for key, number, text in (
            (LOG_MESSAGE, None, one.message),
            *((key, number, None) for key, number in one.numbers.items() if key != "signal"),
        )
    ]
    return events, args
