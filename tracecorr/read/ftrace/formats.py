"""What describes binary records: `format` files, names of functions by address; one record as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.read.byte_text import Words
from tracecorr.read.ftrace.events import ENTRY, name_site, number_values

_FIELD = re.compile(r"field:\s*([^;]+);\s*offset:\s*(\d+);\s*size:\s*(\d+);(?:\s*signed:\s*(\d))?")
_CHOICE = re.compile(r'\(?REC->(\w+)\)? \? "(\w+)" : "(\w+)"')
# A kprobe (p, r) or fprobe (f) with its event, and its function: with the module before it, an offset or the return
# behind it.
_PROBE = re.compile(r"^[prf]\d*:(?:[\w.-]+/)?([\w.-]+)\s+(?:[\w-]+:)?([A-Za-z_][\w.]*)(?:\+(\d\w*)|%return)?(?:\s|$)")
_EVENT_ID = re.compile(r"^ID:\s*(\d+)", re.MULTILINE)


# A text is written from anywhere inside of a function.
INSIDE = 1 << 16
_SYMBOL = r"^([0-9a-fA-F]{8,16}) [tTwW] (\S+)(?:\s+\[([\w-]+)\])?"
# A record of a ring buffer (Linux `kernel/trace/ring_buffer.c`): 5 bits of type or length, 27 of time; then, where the
# type is zero, a word with the length; then the event: its id, flags and preemption count, and the thread.
_HEADER, _WORD, _MOST_WORDS = 4, 4, 28
_COMMON = 8


@dataclass(frozen=True)
class PageTrace:
    """Hold the parts of a binary recording; nothing here opens a file.

    Args:
        pages: per CPU the bytes of `per_cpu/cpuN/trace_pipe_raw`, whole or in chunks cut anywhere.
        formats: text of each event's `format` file by `system/event`.
        header_page: text of `events/header_page`.
        header_event: text of `events/header_event`; kept for exports.
        cmdlines: text of `saved_cmdlines`.
        tgids: text of `saved_tgids`.
        stats: per CPU the lines of `per_cpu/cpuN/stats` as a mapping; keys such as `cpu0`.
        probes: text of `kprobe_events` or `dynamic_events`: which function an event probes.
        kallsyms: text of `/proc/kallsyms`, for the function tracers.
        printk: text of `printk_formats`.
        page_size: bytes of a page where that is known better than from `header_page`.
        starts: per CPU the byte of its file that the pages begin at, where it is not the first one.
        is_told: whether `stats` alone tell which records of the pages are missing.
    """

    pages: Mapping[int, bytes | Iterable[bytes]]
    formats: Mapping[str, str]
    header_page: str = ""
    header_event: str = ""
    cmdlines: str = ""
    tgids: str = ""
    stats: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    probes: str = ""
    kallsyms: str = ""
    printk: str = ""
    page_size: int | None = None
    starts: Mapping[int, int] = field(default_factory=dict)
    is_told: bool = True


@dataclass(frozen=True)
class Field:
    """Describe one field of a binary record."""

    name: str
    type: str
    offset: int
    size: int
    signed: bool

    @property
    def is_text(self) -> bool:
        """Tell whether the field holds characters, in place or through a `__data_loc`."""
        return "char" in self.type and (self.size not in (1, 2, 4, 8) or "[" in self.type)

    @property
    def is_dynamic(self) -> bool:
        """Tell whether the field says where in the record its value lies."""
        return "__data_loc" in self.type or "__rel_loc" in self.type


@dataclass(frozen=True)
class Format:
    """Describe one event: its own fields (without the common ones), and those printed as one of two words."""

    system: str
    name: str
    fields: tuple[Field, ...]
    choices: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def fits(self, length: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which records of `length` bytes can be of this event.

        A record is as long as its struct, in words; only fields of variable size make it longer. The
        kernel's own events (system `ftrace`) vary without saying so.
        """
        is_own = self.system == "ftrace"
        ends = [8, *(f.offset + f.size for f in self.fields if not is_own or "[" not in f.type or f.is_dynamic)]
        least = max(ends)
        fits: npt.NDArray[np.bool_] = length >= least
        varies = is_own or any(f.is_dynamic or not f.size for f in self.fields)
        whole = max([8, *(f.offset + f.size for f in self.fields)])
        return fits if varies else fits & (length <= -(-whole // 8) * 8)


def parse_formats(formats: Mapping[str, str]) -> dict[int, Format]:
    """Return the formats by event id; texts without an id are left out."""
    result = {}
    for path, text in formats.items():
        number = _EVENT_ID.search(text)
        if number:
            system, _, name = path.partition("/")
            result[int(number[1])] = Format(system, name, tuple(_fields(text)), _choices(text))
    return result


def _choices(text: str) -> dict[str, tuple[str, str]]:
    return {name: (yes, no) for name, yes, no in _CHOICE.findall(text)}


def _fields(text: str) -> Iterable[Field]:
    for declaration, offset, size, signed in _FIELD.findall(text):
        words = re.sub(r"\[\w*\]$", "", declaration).split()
        brackets = "[]" if declaration.endswith("]") else ""
        if not words[-1].startswith("common_"):
            yield Field(words[-1].lstrip("*"), " ".join(words[:-1]) + brackets, int(offset), int(size), signed == "1")


def page_layout(header_page: str, page_size: int | None = None) -> tuple[int, int]:
    """Return (bytes before the data, size of a page); the usual 16 and 4096 when the text does not tell.

    Args:
        header_page: text of `events/header_page`.
        page_size: size of a page where that is known better.
    """
    for declaration, offset, size, _ in _FIELD.findall(header_page):
        start, whole = int(offset), page_size or int(offset) + int(size)
        if declaration.split()[-1] == "data" and start in (12, 16) and whole % 4 == 0 and start < whole < 1 << 27:
            return start, whole
    return 16, page_size or 4096


def saved_names(text: str) -> dict[int, str]:
    """Return the second word onwards by the first: `saved_cmdlines` and `saved_tgids`."""
    pairs = (line.strip().partition(" ") for line in text.splitlines())
    return {int(number): name for number, _, name in pairs if number.isdigit() and name}


def probed_functions(probes: str) -> dict[str, str]:
    """Return the kernel function behind each probe event that names one, or the place in it (`name_site`)."""
    found = (_PROBE.match(line) for line in probes.splitlines())
    return {m[1]: name_site(m[2], _read_offset(m[3] or "0")) for m in found if m}


def _read_offset(text: str) -> int:
    """Return an offset as the kernel prints it, decimal, or as a definition may have it."""
    base = 16 if text.startswith("0x") else 10
    digits = text.removeprefix("0x")
    return int(digits, base) if re.fullmatch("[0-9]+" if base == 10 else "[0-9a-fA-F]+", digits) else 0


class Symbols:
    """Look up kernel functions by address.

    Args:
        kallsyms: text of `/proc/kallsyms`, or nothing.
    """

    def __init__(self, kallsyms: str = "") -> None:
        self._text = kallsyms

    @cached_property
    def _table(self) -> pl.DataFrame:
        """Functions with an address, in order; a text read without rights has zeros only."""
        lines = pl.Series("line", self._text.splitlines(), dtype=pl.String)
        found = (
            lines.str.extract_groups(_SYMBOL).struct.rename_fields(["address", "function", "module"]).struct.unnest()
        )
        address = pl.col("address").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
        return found.with_columns(address).filter(pl.col("address") > 0).sort("address")

    def names(self, address: Words, reach: int = ENTRY) -> pl.DataFrame:
        """Return `function` (hexadecimal where it is not known) and `module` of each address.

        Args:
            address: kernel addresses.
            reach: bytes that an address may lie behind the start of its function: a table need not have all.
        """
        distinct, codes = number_values(address)
        table = self._table
        at = np.searchsorted(table["address"].to_numpy(), distinct, "right").astype(np.int64) - 1
        starts = table["address"].to_numpy()
        near = (at >= 0) & (distinct - starts[np.maximum(at, 0)] < np.uint64(reach)) if len(starts) else at >= 0
        index = pl.Series(np.where(near, at, -1))
        found = table[pl.select(pl.when(index >= 0).then(index).cast(pl.UInt32)).to_series()]
        bare = pl.Series([hex(number) for number in distinct.tolist()], dtype=pl.String)
        names = found.select(pl.coalesce("function", bare).alias("function"), "module")
        return names[codes]


def render_record(record: bytes, formats: Mapping[int, Format]) -> str:
    """Return event, thread and fields of a record; "" where the bytes are no whole record of a known event.

    Args:
        record: the bytes of one record of a ring buffer, its header included.
        formats: by event id (`formats.parse_formats`).

    >>> fields = (Field("fd", "unsigned long", 16, 8, False),)
    >>> known = {770: Format("syscalls", "sys_enter_close", fields)}
    >>> data = (770).to_bytes(2, "little") + bytes(2) + (41).to_bytes(4, "little") + bytes(8) + b"\\x03" + bytes(7)
    >>> render_record((6).to_bytes(4, "little") + data, known)
    'sys_enter_close: fd=0x3 (thread 41)'
    """
    return render_event(_payload(record), formats)


def render_event(data: bytes, formats: Mapping[int, Format]) -> str:
    """Return event, thread and fields of a record without the header of its buffer; "" as `render_record`."""
    event = formats.get(int.from_bytes(data[:2], "little")) if len(data) >= _COMMON else None
    if event is None or any(field.offset + field.size > len(data) for field in event.fields):
        return ""
    thread = int.from_bytes(data[4:8], "little", signed=True)
    fields = "".join(f" {field.name}={_value(field, data)}" for field in event.fields if field.name != "__syscall_nr")
    return f"{event.name}:{fields} (thread {thread})"


def _payload(record: bytes) -> bytes:
    """Return the event of a record; nothing if its header tells another length than it has."""
    kind = int.from_bytes(record[:_HEADER], "little") & 0x1F
    start, size = _HEADER, _HEADER + _WORD * kind
    if kind == 0:
        # The word with the length counts itself.
        start, size = 2 * _WORD, _WORD + int.from_bytes(record[_WORD : 2 * _WORD], "little")
    return record[start:] if kind <= _MOST_WORDS and size == len(record) else b""


def _value(field: Field, data: bytes) -> str:
    """Return a field as text: signed numbers in decimal, others in hexadecimal, characters in quotes."""
    raw = data[field.offset : field.offset + field.size]
    number = partial(int.from_bytes, byteorder="little")
    if field.is_dynamic:
        told = number(raw)
        start = (told & 0xFFFF) + (field.offset + field.size if "__rel_loc" in field.type else 0)
        raw = data[start : start + (told >> 16)]
    elif not field.size:
        raw = data[field.offset :]
    if field.is_text:
        return '"' + raw.split(b"\0", 1)[0].decode("utf-8", "replace").rstrip("\n") + '"'
    if len(raw) not in (1, 2, 4, 8) or field.is_dynamic:
        return raw.hex() or "-"
    return str(number(raw, signed=True)) if field.signed else hex(number(raw))
