"""Read `trace.dat` files: their description, and the pages of each CPU."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

import zstandard

from tracecorr.model.errors import InputError
from tracecorr.read.ftrace.dat_format import (
    COMPRESSED,
    MAGIC,
    SECTION_BYTES,
    Buffer,
    CpuData,
    Option,
    ReadAt,
    TraceDat,
)

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MOST_PAGE_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
# The column `cpu` holds 16 bits; Linux can have 8192.
MOST_CPUS = 1 << 16
# A description text is never larger: kallsyms of a big kernel with all modules has about 20 MB.
_MOST_BYTES = 1 << 30
_NAME = re.compile(r"^name:\s*(\S+)", re.MULTILINE)


class TruncatedError(Exception):
    """Say that the file ends before what it announced."""


class _Cursor:
    """Read numbers and texts one after the other."""

    def __init__(self, read_at: ReadAt, at: int, end: int) -> None:
        self._read_at, self.at, self._end = read_at, at, end

    def take(self, size: int) -> bytes:
        data = self._read_at(self.at, min(size, _MOST_BYTES)) if 0 <= size <= self._end - self.at else b""
        if len(data) != size:
            raise TruncatedError
        self.at += size
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def name(self) -> str:
        found = b""
        while b"\0" not in found and len(found) < 4096:
            piece = self._read_at(self.at + len(found), min(64, max(self._end - self.at - len(found), 0)))
            if not piece:
                raise TruncatedError
            found += piece
        text = found.partition(b"\0")[0]
        self.at += len(text) + 1
        return text.decode("utf-8", "replace")

    def text(self, size_bytes: int) -> str:
        return self.take(self.number(size_bytes)).decode("utf-8", "replace")


def read_description(read_at: ReadAt, size: int) -> TraceDat:
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
    except TruncatedError:
        dat.problems.append(("file_ends_in_its_description", 0))
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
    if not is_page_size(dat.page_size, _MOST_PAGE_BYTES):
        if is_page_size(int.from_bytes(page, "big"), _MOST_PAGE_BYTES):
            raise InputError(
                "this trace.dat was recorded on a big-endian machine", "read it with trace-cmd report, import the text"
            )
        raise InputError(f"this trace.dat says that a page has {dat.page_size} bytes", "the file is damaged")
    if mark:
        dat.problems.append(("wrong_endianness_mark", 1))


def is_page_size(size: int, most: int = 1 << 26) -> bool:
    """Tell whether a page can have `size` bytes: that of a buffer can be many of the machine's."""
    return 1 << 10 <= size <= most and size & (size - 1) == 0


class _Reader:
    """What both versions share: the texts of the description."""

    def __init__(self, read_at: ReadAt, size: int, dat: TraceDat) -> None:
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

    def _add(self, buffer: Buffer, data: CpuData) -> None:
        """Add the pages of a CPU, unless the table is damaged: a CPU twice, or one that cannot be."""
        if data.cpu >= MOST_CPUS or any(known.cpu == data.cpu for known in buffer.cpus):
            self._dat.problems.append(("impossible_cpu", 0))
        else:
            buffer.cpus.append(data)

    def _data(self, cpu: int, offset: int, size: int) -> CpuData:
        return CpuData(cpu, offset, size, max(min(size, self._size - offset), 0))


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
        if not kind.startswith(b"flyrecord") or cpus > MOST_CPUS:
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
            raise TruncatedError
        if not flags & COMPRESSED:
            return _Cursor(self._read_at, head.at, min(head.at + size, self._size))
        packed, plain = head.number(4), head.number(4)
        data = decompress(self._dat.compression, head.take(packed), plain)
        return _Cursor(lambda at, count: data[at : at + count], 0, len(data))

    def _options(self, cursor: _Cursor) -> int:
        while True:
            number = cursor.number(2)
            data = cursor.take(cursor.number(4))
            if number == Option.DONE:
                return int.from_bytes(data[:8], "little")
            try:
                self._option(number, data)
            except (TruncatedError, zlib.error, zstandard.ZstdError):
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
        if not is_page_size(buffer.page_size):
            self._dat.problems.append(("buffer_with_an_impossible_page_size", 0))
            return
        self._dat.buffers.append(buffer)
        for _ in range(min(cursor.number(4), MOST_CPUS)):
            self._add(buffer, self._data(cursor.number(4), cursor.number(8), cursor.number(8)))


def decompress(name: str, data: bytes, size: int) -> bytes:
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


def plain_pages(read_at: ReadAt, data: CpuData) -> Iterator[bytes]:
    """Yield the pages of one CPU of an uncompressed file."""
    for at in range(data.offset, data.offset + data.present, _CHUNK_BYTES):
        yield read_at(at, min(_CHUNK_BYTES, data.offset + data.present - at))


def unpacked_pages(read_at: ReadAt, compression: str, data: CpuData) -> Iterator[bytes]:
    """Yield the pages of one CPU of a compressed file (version 7: a count, then chunks with two sizes).

    Raises:
        InputError: a chunk is damaged or cut off.
    """
    try:
        # The size that the file tells leaves the count out (seen in files of trace-cmd 3.1.6).
        cursor = _Cursor(read_at, data.offset, data.offset + data.size + 4)
        for _ in range(cursor.number(4) if data.size else 0):
            packed, plain = cursor.number(4), cursor.number(4)
            yield decompress(compression, cursor.take(packed), plain)
    except (TruncatedError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(
            f"the pages of CPU {data.cpu} are damaged or cut off",
            "copy the trace.dat again, or try trace-cmd report",
        ) from error
