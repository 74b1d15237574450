"""`trace.dat` files of trace-cmd, versions 6 and 7: their description, their pages, their rows.

Formats: man pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

import polars as pl
import zstandard

from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.model.parts import Block
from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.pages import PAGES_AT_A_TIME, read_ftrace_pages
from tracecorr.read.ftrace.text import read_ftrace_text

MAGIC = b"\x17\x08\x44tracing"
SECTION_BYTES = 16
_COMPRESSED = 1

# Bytes of the file at an offset; fewer at its end.
_ReadAt = Callable[[int, int], bytes]


class Option(IntEnum):
    """Name the options of the file that are read or written; sections carry the same numbers."""

    DONE = 0
    CPUSTAT = 2
    BUFFER = 3
    TRACECLOCK = 4
    UNAME = 5
    OFFSET = 7
    CPUCOUNT = 8
    STRINGS = 15
    HEADER_INFO = 16
    FTRACE_EVENTS = 17
    EVENT_FORMATS = 18
    KALLSYMS = 19
    PRINTK = 20
    CMDLINES = 21
    BUFFER_TEXT = 22


@dataclass(frozen=True)
class _CpuData:
    """Say where the pages of one CPU are: offset and size in the file, and how much of it is there."""

    cpu: int
    offset: int
    size: int
    present: int


@dataclass
class Buffer:
    """Hold one ring buffer of the file: the top one (no name) or that of an instance.

    Args:
        name: name of the instance.
        clock: its trace clock; empty if the file does not say.
        page_size: bytes of a page.
        cpus: where the pages are.
    """

    name: str
    clock: str
    page_size: int
    cpus: list[_CpuData] = field(default_factory=list)


@dataclass
class TraceDat:
    """Hold the description part of a file; the pages stay in it.

    Args:
        version: 6 or 7.
        compression: `none`, `zlib` or `zstd`.
        page_size: bytes of a page of the recording machine.
        long_size: bytes of its `long`.
        header_page, header_event: texts of `events/header_page` and `events/header_event`.
        events: texts of the format files by `system/event`.
        kallsyms, printk, cmdlines: texts of `/proc/kallsyms`, `printk_formats` and `saved_cmdlines`.
        options: all other options: number and data.
        buffers: the ring buffers.
        text: (offset, size) of a trace as text, which a file can hold in place of pages.
        problems: (reason, bytes) of what could not be read.
    """

    version: int = 7
    compression: str = "none"
    page_size: int = 4096
    long_size: int = 8
    header_page: str = ""
    header_event: str = ""
    events: dict[str, str] = field(default_factory=dict)
    kallsyms: str = ""
    printk: str = ""
    cmdlines: str = ""
    options: list[tuple[int, bytes]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    text: tuple[int, int] | None = None
    problems: list[tuple[str, int]] = field(default_factory=list)

    def option_text(self, number: int) -> str:
        """Return the text of an option, empty if it is absent."""
        found = next((data for known, data in self.options if known == number), b"")
        return found.partition(b"\0")[0].decode("utf-8", "replace")

    def clock(self) -> str:
        """Return the chosen trace clock; empty if the file does not say."""
        text = self.option_text(Option.TRACECLOCK)
        chosen = re.search(r"\[([\w-]+)\]", text)
        return chosen[1] if chosen else text.strip()

    def stats(self, buffer: str) -> dict[str, dict[str, str]]:
        """Return the counters of each CPU of the buffer with this name by `cpuN`."""
        found: dict[str, dict[str, str]] = {}
        # Those of the top buffer come first; the name of an instance stands before its own.
        owner = ""
        for number, data in self.options:
            if number == Option.CPUSTAT:
                pairs = [line.split(":", 1) for line in data.decode("utf-8", "replace").splitlines() if ":" in line]
                lines = {key.strip(): value.strip("\0 ") for key, value in pairs}
                owner = lines.get("Buffer", owner)
                if owner == buffer and "CPU" in lines:
                    found[f"cpu{lines['CPU']}"] = lines
        return found


def looks_like_trace_dat(head: bytes) -> bool:
    """Tell whether the first bytes of a file are those of a `trace.dat`."""
    return head.startswith(MAGIC)


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MOST_PAGE_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
# The column `cpu` holds 16 bits; Linux can have 8192.
_MOST_CPUS = 1 << 16
# A description text is never larger: kallsyms of a big kernel with all modules has about 20 MB.
_MOST_BYTES = 1 << 30
_NAME = re.compile(r"^name:\s*(\S+)", re.MULTILINE)


class _TruncatedError(Exception):
    """Say that the file ends before what it announced."""


class _Cursor:
    """Read numbers and texts one after the other."""

    def __init__(self, read_at: _ReadAt, at: int, end: int) -> None:
        self._read_at, self.at, self._end = read_at, at, end

    def take(self, size: int) -> bytes:
        data = self._read_at(self.at, min(size, _MOST_BYTES)) if 0 <= size <= self._end - self.at else b""
        if len(data) != size:
            raise _TruncatedError
        self.at += size
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def name(self) -> str:
        found = b""
        while b"\0" not in found and len(found) < 4096:
            piece = self._read_at(self.at + len(found), min(64, max(self._end - self.at - len(found), 0)))
            if not piece:
                raise _TruncatedError
            found += piece
        text = found.partition(b"\0")[0]
        self.at += len(text) + 1
        return text.decode("utf-8", "replace")

    def text(self, size_bytes: int) -> str:
        return self.take(self.number(size_bytes)).decode("utf-8", "replace")


def read_description(read_at: _ReadAt, size: int) -> TraceDat:
    """Return the description of the `trace.dat` of `size` bytes behind `read_at`.

    What cannot be read is named in `problems`; whatever comes before it is kept.

    Raises:
        InputError: the file is no `trace.dat`, of an unknown version, or big-endian.
    """
    cursor = _Cursor(read_at, 0, size)
    dat = TraceDat()
    try:
        _read_start(cursor, dat)
        if dat.version == 7:
            _Version7(read_at, size, dat).read(cursor)
        else:
            _Version6(read_at, size, dat).read(cursor)
    except _TruncatedError:
        dat.problems.append(("file_ends_in_its_description", 0))
    except (zlib.error, zstandard.ZstdError):
        dat.problems.append(("damaged_section", 0))
    _settle_clocks(dat)
    return dat


def _settle_clocks(dat: TraceDat) -> None:
    """Leave a buffer the clock that the file is sure of.

    What version 7 says beside a buffer is the clock of the top one, also where that was not recorded; the option that
    tells the clock is that of the first recorded buffer, whose clock an instance has unless it was given its own
    (`-B NAME -C CLOCK`, trace-cmd 3.1.6).
    """
    recorded = [buffer for buffer in dat.buffers if any(data.size for data in buffer.cpus)]
    chosen = dat.clock()
    if recorded and chosen:
        recorded[0].clock = chosen
        if recorded[0].name:
            for buffer in recorded[1:]:
                buffer.clock = ""


def _read_start(cursor: _Cursor, dat: TraceDat) -> None:
    if cursor.take(len(MAGIC)) != MAGIC:
        raise InputError("this is no trace.dat: its first bytes are not those of trace-cmd", "name a file of trace-cmd")
    version = cursor.name()
    if version not in ("6", "7"):
        raise InputError(
            f"this trace.dat has version {version!r}", "versions 6 and 7 can be read; trace-cmd convert writes them"
        )
    dat.version = int(version)
    mark = cursor.number(1)
    dat.long_size = cursor.number(1)
    page = cursor.take(4)
    dat.page_size = int.from_bytes(page, "little")
    if not _is_page_size(dat.page_size, _MOST_PAGE_BYTES):
        if _is_page_size(int.from_bytes(page, "big"), _MOST_PAGE_BYTES):
            raise InputError(
                "this trace.dat was recorded on a big-endian machine", "read it with trace-cmd report, import the text"
            )
        raise InputError(f"this trace.dat says that a page has {dat.page_size} bytes", "the file is damaged")
    if mark:
        dat.problems.append(("wrong_endianness_mark", 1))


def _is_page_size(size: int, most: int = 1 << 26) -> bool:
    """Tell whether a page can have `size` bytes: that of a buffer can be many of the machine's."""
    return 1 << 10 <= size <= most and size & (size - 1) == 0


class _Reader:
    """What both versions share: the texts of the description."""

    def __init__(self, read_at: _ReadAt, size: int, dat: TraceDat) -> None:
        self._read_at, self._size, self._dat = read_at, size, dat

    def _header_info(self, cursor: _Cursor) -> None:
        cursor.take(len(b"header_page\0"))
        self._dat.header_page = cursor.text(8)
        cursor.take(len(b"header_event\0"))
        self._dat.header_event = cursor.text(8)

    def _ftrace_events(self, cursor: _Cursor) -> None:
        for _ in range(cursor.number(4)):
            self._add_format("ftrace", cursor.text(8))

    def _event_formats(self, cursor: _Cursor) -> None:
        for _ in range(cursor.number(4)):
            system = cursor.name()
            for _ in range(cursor.number(4)):
                self._add_format(system, cursor.text(8))

    def _add_format(self, system: str, text: str) -> None:
        name = _NAME.search(text)
        if name:
            self._dat.events[f"{system}/{name[1]}"] = text
        else:
            self._dat.problems.append(("format_without_a_name", 0))

    def _add(self, buffer: Buffer, data: _CpuData) -> None:
        """Add the pages of a CPU, unless the table is damaged: a CPU twice, or one that cannot be."""
        if data.cpu >= _MOST_CPUS or any(known.cpu == data.cpu for known in buffer.cpus):
            self._dat.problems.append(("impossible_cpu", 0))
        else:
            buffer.cpus.append(data)

    def _data(self, cpu: int, offset: int, size: int) -> _CpuData:
        return _CpuData(cpu, offset, size, max(min(size, self._size - offset), 0))


class _Version6(_Reader):
    """One part after the other, without a table of contents."""

    def read(self, cursor: _Cursor) -> None:
        dat = self._dat
        self._header_info(cursor)
        self._ftrace_events(cursor)
        self._event_formats(cursor)
        dat.kallsyms, dat.printk, dat.cmdlines = cursor.text(4), cursor.text(4), cursor.text(8)
        cpus = cursor.number(4)
        instances: list[tuple[str, int]] = []
        kind = cursor.take(10)
        while kind.startswith(b"options"):
            instances += self._options(cursor)
            kind = cursor.take(10)
        if kind.startswith(b"latency"):
            dat.text = (cursor.at, self._size - cursor.at)
            return
        self._buffer(cursor, kind, "", cpus)
        for name, offset in instances:
            inner = _Cursor(self._read_at, offset, self._size)
            self._buffer(inner, inner.take(10), name, cpus)

    def _options(self, cursor: _Cursor) -> list[tuple[str, int]]:
        instances = []
        while number := cursor.number(2):
            data = cursor.take(cursor.number(4))
            if number == Option.BUFFER and len(data) > 8:
                name = data[8:].partition(b"\0")[0].decode("utf-8", "replace")
                instances.append((name, int.from_bytes(data[:8], "little")))
            else:
                self._dat.options.append((number, data))
        return instances

    def _buffer(self, cursor: _Cursor, kind: bytes, name: str, cpus: int) -> None:
        if not kind.startswith(b"flyrecord") or cpus > _MOST_CPUS:
            self._dat.problems.append(("unknown_kind_of_trace_data", 0))
            return
        buffer = Buffer(name, self._dat.clock(), self._dat.page_size)
        self._dat.buffers.append(buffer)
        for cpu in range(cpus):
            self._add(buffer, self._data(cpu, cursor.number(8), cursor.number(8)))


class _Version7(_Reader):
    """Sections that options point to."""

    def read(self, cursor: _Cursor) -> None:
        self._dat.compression = cursor.name()
        cursor.name()
        if self._dat.compression not in ("none", "zlib", "zstd"):
            raise InputError(
                f"this trace.dat is compressed with {self._dat.compression!r}",
                "convert it: trace-cmd convert --compression none -i FILE -o PLAIN",
            )
        offset, seen = cursor.number(8), set()
        while offset and offset not in seen:
            seen.add(offset)
            offset = self._options(self._section(offset, Option.DONE))

    def _section(self, offset: int, expected: int) -> _Cursor:
        head = _Cursor(self._read_at, offset, self._size)
        number, flags, _, size = head.number(2), head.number(2), head.number(4), head.number(8)
        if number != expected:
            raise _TruncatedError
        if not flags & _COMPRESSED:
            return _Cursor(self._read_at, head.at, min(head.at + size, self._size))
        packed, plain = head.number(4), head.number(4)
        data = _decompress(self._dat.compression, head.take(packed), plain)
        return _Cursor(lambda at, count: data[at : at + count], 0, len(data))

    def _options(self, cursor: _Cursor) -> int:
        while True:
            number = cursor.number(2)
            data = cursor.take(cursor.number(4))
            if number == Option.DONE:
                return int.from_bytes(data[:8], "little")
            try:
                self._option(number, data)
            except (_TruncatedError, zlib.error, zstandard.ZstdError):
                self._dat.problems.append(("damaged_section", 0))

    def _option(self, number: int, data: bytes) -> None:
        dat = self._dat
        parts = {
            Option.HEADER_INFO: self._header_info, Option.FTRACE_EVENTS: self._ftrace_events,
            Option.EVENT_FORMATS: self._event_formats,
        }  # fmt: skip
        texts = {Option.KALLSYMS: ("kallsyms", 4), Option.PRINTK: ("printk", 4), Option.CMDLINES: ("cmdlines", 8)}
        where = int.from_bytes(data[:8], "little")
        if number in parts:
            parts[Option(number)](self._section(where, number))
        elif number in texts:
            name, size_bytes = texts[Option(number)]
            setattr(dat, name, self._section(where, number).text(size_bytes))
        elif number == Option.BUFFER:
            self._buffer(data)
        elif number == Option.BUFFER_TEXT:
            size = struct.unpack("<Q", self._read_at(where + 8, 8))[0]
            dat.text = (where + SECTION_BYTES, size)
        else:
            dat.options.append((number, data))

    def _buffer(self, data: bytes) -> None:
        cursor = _Cursor(lambda at, count: data[at : at + count], 8, len(data))
        buffer = Buffer(cursor.name(), cursor.name(), cursor.number(4))
        if not _is_page_size(buffer.page_size):
            self._dat.problems.append(("buffer_with_an_impossible_page_size", 0))
            return
        self._dat.buffers.append(buffer)
        for _ in range(min(cursor.number(4), _MOST_CPUS)):
            self._add(buffer, self._data(cursor.number(4), cursor.number(8), cursor.number(8)))


def _decompress(name: str, data: bytes, size: int) -> bytes:
    """Return the `size` plain bytes of `data`, compressed with zlib or zstd.

    Raises:
        zlib.error, zstandard.ZstdError: the data is damaged.
    """
    if name == "zlib":
        return zlib.decompress(data)
    magic = data.startswith(_ZSTD_MAGIC)
    form = zstandard.FORMAT_ZSTD1 if magic else zstandard.FORMAT_ZSTD1_MAGICLESS
    # Frames of trace-cmd before 3.2 have their magic number, later ones may leave it out.
    return zstandard.ZstdDecompressor(format=form).decompress(data, max_output_size=size)


def _plain_pages(read_at: _ReadAt, data: _CpuData) -> Iterator[bytes]:
    """Yield the pages of one CPU of an uncompressed file."""
    for at in range(data.offset, data.offset + data.present, _CHUNK_BYTES):
        yield read_at(at, min(_CHUNK_BYTES, data.offset + data.present - at))


def unpacked_pages(read_at: _ReadAt, compression: str, data: _CpuData) -> Iterator[bytes]:
    """Yield the pages of one CPU of a compressed file (version 7: a count, then chunks with two sizes).

    Raises:
        InputError: a chunk is damaged or cut off.
    """
    try:
        # The size that the file tells leaves the count out (seen in files of trace-cmd 3.1.6).
        cursor = _Cursor(read_at, data.offset, data.offset + data.size + 4)
        for _ in range(cursor.number(4) if data.size else 0):
            packed, plain = cursor.number(4), cursor.number(4)
            yield _decompress(compression, cursor.take(packed), plain)
    except (_TruncatedError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(
            f"the pages of CPU {data.cpu} are damaged or cut off",
            "copy the trace.dat again, or try trace-cmd report",
        ) from error


_TEXT_BYTES = 1 << 20


def read_trace_dat(
    read_at: _ReadAt, size: int, file: int, clock: str = "unknown", *, pages_at_a_time: int = PAGES_AT_A_TIME
) -> Iterator[Block]:
    """Yield the blocks of an uncompressed `trace.dat`; records are at their byte of the file.

    Args:
        read_at: returns bytes of the file at an offset.
        size: bytes of the file.
        file: key of the file.
        clock: name of the trace clock, where the file does not say.
        pages_at_a_time: pages decoded at a time; bounds the memory.

    Raises:
        InputError: the file is no `trace.dat`, or compressed (importing it unpacks it).
    """
    dat = read_description(read_at, size)
    if dat.compression != "none":
        raise InputError("this trace.dat is compressed", "import it: the capture folder holds it unpacked")
    _drop_overlaps(dat)
    yield Block(ledger=_description_ledger(dat, size, file))
    for buffer in dat.buffers:
        trace = _page_trace(dat, buffer, {data.cpu: _plain_pages(read_at, data) for data in buffer.cpus})
        files = {data.cpu: file for data in buffer.cpus}
        yield from read_ftrace_pages(trace, files, buffer.clock or clock, pages_at_a_time=pages_at_a_time)
        yield Block(losses=_cut_off(buffer))
    if dat.text:
        start, length = dat.text
        chunks = (
            read_at(at, min(_TEXT_BYTES, start + length - at)) for at in range(start, start + length, _TEXT_BYTES)
        )
        yield from read_ftrace_text(chunks, file, dat.clock() or clock, first_byte=start)


def _page_trace(dat: TraceDat, buffer: Buffer, pages: dict[int, Iterator[bytes]]) -> PageTrace:
    """Return one ring buffer as a recording of pages."""
    return PageTrace(
        pages=pages,
        formats=dat.events,
        header_page=dat.header_page,
        cmdlines=dat.cmdlines,
        stats=dat.stats(buffer.name),
        kallsyms=dat.kallsyms,
        printk=dat.printk,
        page_size=buffer.page_size,
        starts={data.cpu: data.offset for data in buffer.cpus},
        # A file that was cut names its missing pages.
        is_told=False,
    )


def _drop_overlaps(dat: TraceDat) -> None:
    """Leave out the pages of a CPU that lie in those of another: no byte is read twice."""
    end = 0
    for data in sorted((data for buffer in dat.buffers for data in buffer.cpus), key=lambda d: d.offset):
        if data.present and data.offset < end:
            dat.problems.append(("overlapping_page_data", 0))
            for buffer in dat.buffers:
                buffer.cpus = [replace(d, present=0) if d is data else d for d in buffer.cpus]
        else:
            end = max(end, data.offset + data.present)


def _description_ledger(dat: TraceDat, size: int, file: int) -> pl.DataFrame:
    """Account for all bytes that are neither pages nor text."""
    pages = sum(data.present for buffer in dat.buffers for data in buffer.cpus)
    text = max(min(dat.text[1], size - dat.text[0]), 0) if dat.text else 0
    wasted = sum(count for _, count in dat.problems)
    rows = [("used", "", 0, size - pages - text - wasted)]
    rows += [("skipped", reason, 1, count) for reason, count in dat.problems]
    rows += [("lost", "file_cut_off", 1, 0) for buffer in dat.buffers for d in buffer.cpus if d.present < d.size]
    frame = pl.DataFrame(rows, schema=["outcome", "reason", "records", "bytes"], orient="row")
    return schema.LEDGER.conform(frame.with_columns(pl.lit(file).alias("file"), pl.lit("ftrace").alias("source")))


def _cut_off(buffer: Buffer) -> pl.DataFrame:
    """Return one open loss for each CPU whose pages the file announces but does not hold."""
    cpus = [data.cpu for data in buffer.cpus if data.present < data.size]
    return schema.LOSSES.conform(pl.DataFrame({"source": ["ftrace"] * len(cpus), "cpu": cpus}))
