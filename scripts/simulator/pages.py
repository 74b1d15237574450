"""The kernel side of a run as pages of the ring buffer, in the folder form that `tracecorr import --ftrace` reads.

Layout of pages and records: Linux `kernel/trace/ring_buffer.c`, 4.11 to 7.2. The formats of events are those of
Linux 6.18 (`events/*/*/format`), of probes those that the kernel makes of their definitions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from simulator.record import Line

PAGE_BYTES, HEAD_BYTES = 4096, 16
_LARGEST = PAGE_BYTES - HEAD_BYTES
# Kinds of records in the lowest five bits; up to 28 a kind is the length in words.
_LONG, _MOST_WORDS, _TIME_EXTEND, _TIME_STAMP = 0, 28, 30, 31
# In the commit of a page: records before it were lost.
_MISSED = 1 << 31
_DELTA_BITS, _STAMP_BITS = 27, 59
_TASK = re.compile(r"\s*(.+)-(\d+)\s+\(\s*(\d+)\) \[")
_ENTER = re.compile(r"sys_(\w+)\((.*)\)$")
_EXIT = re.compile(r"sys_(\w+) -> (\S+)$")
_PROBE = re.compile(r"(\w+): \((0x[0-9a-f]+|\w+\+\S+ \[amdgpu\])\) (.*)$")
_MARK = "tracing_mark_write: "
_COMMON = "".join(
    f"\tfield:{kind} common_{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
    for kind, name, offset, size, signed in (
        ("unsigned short", "type", 0, 2, 0), ("unsigned char", "flags", 2, 1, 0),
        ("unsigned char", "preempt_count", 3, 1, 0), ("int", "pid", 4, 4, 1),
    )
)  # fmt: skip
_HEADER_PAGE = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    f"\tfield: char data;\toffset:{HEAD_BYTES};\tsize:{_LARGEST};\tsigned:0;\n"
)
_KPROBES = "p:kprobes/{name} amdgpu:kfd_ioctl_create_queue+4 {fields}\n"
_SIGNED = ("val", "kind")


@dataclass
class Formats:
    """Number the events as they occur, and hold the text of each one's `format` file by system and name."""

    texts: dict[str, str] = field(default_factory=dict)
    kprobes: str = ""
    _numbers: dict[str, int] = field(default_factory=dict)

    def encode(self, text: str) -> bytes:
        """Return the event's number and the fields behind the common ones, of a record's text."""
        if text.startswith(_MARK):
            number = self._number("ftrace/print", [("unsigned long", "ip", 8, 0), ("char", "buf[]", 0, 0)], 5)
            return struct.pack("<H", number) + struct.pack("<Q", 0xFFFFFFFF81200000) + _text(text[len(_MARK) :])
        for form, make in ((_ENTER, self._enter), (_EXIT, self._exit), (_PROBE, self._probe)):
            if found := form.match(text):
                return make(*found.groups())
        raise ValueError(f"no record has this form: {text}")

    def _enter(self, name: str, given: str) -> bytes:
        pairs = [pair.split(": ") for pair in given.split(", ")]
        fields = [("int", "__syscall_nr", 4, 1), *(("unsigned long", key, 8, 0) for key, _ in pairs)]
        number = self._number(f"syscalls/sys_enter_{name}", fields)
        return struct.pack("<Hi4x", number, 0) + b"".join(struct.pack("<Q", int(value, 0)) for _, value in pairs)

    def _exit(self, name: str, value: str) -> bytes:
        number = self._number(f"syscalls/sys_exit_{name}", [("int", "__syscall_nr", 4, 1), ("long", "ret", 8, 1)])
        return struct.pack("<Hi4xq", number, 0, int(value, 0))

    def _probe(self, name: str, where: str, given: str) -> bytes:
        pairs = [pair.split("=") for pair in given.split()]
        user = where.startswith("0x")
        kinds = [("s64" if key in _SIGNED else "u64", key, 8, int(key in _SIGNED)) for key, _ in pairs]
        known = name in self._numbers
        number = self._number(
            f"{'uprobes' if user else 'kprobes'}/{name}", [("unsigned long", "__probe_ip", 8, 0), *kinds]
        )
        if not user and not known and name not in self.kprobes:
            self.kprobes += _KPROBES.format(name=name, fields=" ".join(f"{key}=%ax:u64" for key, _ in pairs))
        place = int(where, 16) if user else 0xFFFFFFFFC0A00014
        values = (struct.pack("<q" if key in _SIGNED else "<Q", int(value, 0)) for key, value in pairs)
        return struct.pack("<HQ", number, place) + b"".join(values)

    def _number(self, path: str, fields: list[tuple[str, str, int, int]], number: int = 0) -> int:
        """Return the number of an event; a new one gets the text of its format file."""
        if path not in self._numbers:
            self._numbers[path] = number or 300 + len(self._numbers)
            at, lines = 8, ""
            for kind, name, size, signed in fields:
                lines += f"\tfield:{kind} {name};\toffset:{at};\tsize:{size};\tsigned:{signed};\n"
                at += 8
            head = f"name: {path.partition('/')[2]}\nID: {self._numbers[path]}\nformat:\n"
            self.texts[path] = f'{head}{_COMMON}\n{lines}\nprint fmt: "synthetic"\n'
        return self._numbers[path]


def _text(value: str) -> bytes:
    data = value.encode() + b"\n\0"
    return data + bytes(-len(data) % 4)


def write_pages(folder: Path, lines: Iterable[Line], show: Callable[[float], int]) -> None:
    """Write the records of each CPU as pages with their descriptions; each line's `offset` becomes that of its record.

    Args:
        folder: made by this function.
        lines: of the trace, in the order of each CPU's buffer.
        show: what the trace's clock shows at a time.
    """
    folder.mkdir()
    formats, cpus = Formats(), dict[int, list[Line]]()
    names, owners = dict[str, str](), dict[str, str]()
    for line in lines:
        cpus.setdefault(line.cpu, []).append(line)
        if line.bare:
            continue
        comm, tid, pid = (part.strip() for part in _parse_task(line.head))
        names[tid], owners[tid] = comm, pid
    for cpu, own in sorted(cpus.items()):
        (folder / f"cpu{cpu}.bin").write_bytes(_encode(own, formats, show))
    for path, text in formats.texts.items():
        target = folder / "events" / path / "format"
        target.parent.mkdir(parents=True)
        target.write_text(text)
    for name, content in (
        ("header_page", _HEADER_PAGE), ("saved_cmdlines", _table(names)), ("saved_tgids", _table(owners)),
        ("kprobe_events", formats.kprobes), ("synthetic", "made by scripts/simulator; no kernel recorded this\n"),
    ):  # fmt: skip
        (folder / name).write_text(content)


def _parse_task(head: str) -> tuple[str, ...]:
    found = _TASK.match(head)
    if found is None:
        raise ValueError(f"no head of a record: {head}")
    return found.groups()


def _table(values: dict[str, str]) -> str:
    return "".join(f"{key} {value}\n" for key, value in values.items())


def _encode(lines: list[Line], formats: Formats, show: Callable[[float], int]) -> bytes:
    """Return the pages of one CPU."""
    out, page, first, last, missed = bytearray(), bytearray(), 0, 0, 0
    for line in lines:
        if line.bare:
            # The next page tells that records before it were lost.
            out += _close(page, first, missed) if page else b""
            page, missed = bytearray(), _MISSED
            continue
        stamp = show(line.at_ns)
        fields = formats.encode(line.text)
        tid = int(_parse_task(line.head)[1])
        payload = fields[:2] + struct.pack("<BBi", 0, 0, tid) + fields[2:]
        payload += bytes(-len(payload) % 4)
        # Room for a stamp of its own and a length in a word of its own.
        if len(page) + len(payload) + 16 > _LARGEST:
            out += _close(page, first, missed)
            page, missed = bytearray(), 0
        if not page:
            first = last = stamp
        page += _step(stamp - last, stamp)
        delta = stamp - last if 0 <= stamp - last < 1 << _DELTA_BITS else 0
        line.offset = len(out) + HEAD_BYTES + len(page)
        page += _record(delta, payload)
        last = stamp
    return bytes(out + _close(page, first, missed)) if page else bytes(out)


def _step(delta: int, stamp: int) -> bytes:
    """Return what must stand before a record whose step in time does not fit its header."""
    if 0 <= delta < 1 << _DELTA_BITS:
        return b""
    kind, value = (_TIME_EXTEND, delta) if 0 <= delta < 1 << _STAMP_BITS else (_TIME_STAMP, stamp % (1 << _STAMP_BITS))
    low = value % (1 << _DELTA_BITS)
    return struct.pack("<II", low << 5 | kind, value >> _DELTA_BITS)


def _record(delta: int, payload: bytes) -> bytes:
    words = len(payload) // 4
    if words <= _MOST_WORDS:
        return struct.pack("<I", delta << 5 | words) + payload
    return struct.pack("<II", delta << 5 | _LONG, len(payload) + 4) + payload


def _close(page: bytearray, first: int, missed: int) -> bytes:
    return (struct.pack("<QQ", first % (1 << 64), len(page) | missed) + page).ljust(PAGE_BYTES, b"\0")
