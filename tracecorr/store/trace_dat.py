"""Write `trace.dat` files, uncompressed and of version 7, as trace-cmd and KernelShark read them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tracecorr.model.errors import InputError
from tracecorr.read.ftrace.trace_dat import (
    MAGIC,
    SECTION_BYTES,
    Buffer,
    Option,
    TraceDat,
    read_description,
    unpacked_pages,
)
from tracecorr.store.raw import open_read_at


@dataclass(frozen=True)
class BufferPages:
    """Hold one ring buffer to write: what it is, and the pages of each CPU."""

    buffer: Buffer
    pages: Mapping[int, Iterable[bytes]]


def write_trace_dat(out: IO[bytes], dat: TraceDat, buffers: Iterable[BufferPages]) -> None:
    """Write a file to a stream that can seek.

    Args:
        out: an empty stream.
        dat: the description; its `buffers`, `compression` and `version` are not used.
        buffers: the ring buffers; the first one without a name is the top one.
    """
    out.write(MAGIC + b"7\0" + struct.pack("<BBI", 0, dat.long_size, dat.page_size) + b"none\0\0")
    pointer = out.tell()
    out.write(bytes(8))
    options = list(dat.options)
    for number, data in _description_parts(dat):
        options.append((number, struct.pack("<Q", out.tell())))
        _write_section(out, number, data)
    options += [(Option.BUFFER, _write_buffer(out, part)) for part in buffers]
    start = out.tell()
    listed = b"".join(struct.pack("<HI", number, len(data)) + data for number, data in options)
    _write_section(out, Option.DONE, listed + struct.pack("<HIQ", Option.DONE, 8, 0))
    out.seek(pointer)
    out.write(struct.pack("<Q", start))


def unpack_in_place(path: Path, named: Path) -> None:
    """Replace a compressed `trace.dat` by its uncompressed form, so that any record has an offset.

    Args:
        path: the file; a plain one is left as it is.
        named: what to call it in an error.

    Raises:
        InputError: the file is damaged, or of a kind that cannot be read.
    """
    plain = path.with_name(f".{path.name}.plain")
    try:
        with open_read_at(path) as (read_at, size):
            dat = read_description(read_at, size)
            if dat.compression == "none":
                return
            parts = [
                BufferPages(b, {d.cpu: unpacked_pages(read_at, dat.compression, d) for d in b.cpus})
                for b in dat.buffers
            ]
            with plain.open("wb") as out:
                write_trace_dat(out, dat, parts)
        plain.replace(path)
    except InputError as error:
        raise InputError(f"{named}: {error.what}", error.next_step) from error
    finally:
        plain.unlink(missing_ok=True)


def _description_parts(dat: TraceDat) -> list[tuple[int, bytes]]:
    systems: dict[str, list[str]] = {}
    for name, text in dat.events.items():
        systems.setdefault(name.partition("/")[0], []).append(text)
    own = systems.pop("ftrace", [])
    events = b"".join(
        system.encode() + b"\0" + struct.pack("<I", len(texts)) + b"".join(map(_sized, texts))
        for system, texts in systems.items()
    )
    return [
        (Option.HEADER_INFO, b"header_page\0" + _sized(dat.header_page) + b"header_event\0" + _sized(dat.header_event)),
        (Option.FTRACE_EVENTS, struct.pack("<I", len(own)) + b"".join(map(_sized, own))),
        (Option.EVENT_FORMATS, struct.pack("<I", len(systems)) + events),
        (Option.KALLSYMS, _sized(dat.kallsyms, "<I")),
        (Option.PRINTK, _sized(dat.printk, "<I")),
        (Option.CMDLINES, _sized(dat.cmdlines)),
    ]


def _sized(text: str, form: str = "<Q") -> bytes:
    data = text.encode()
    return struct.pack(form, len(data)) + data


def _write_section(out: IO[bytes], number: int, data: bytes) -> None:
    out.write(struct.pack("<HHIQ", number, 0, 0, len(data)) + data)


def _write_buffer(out: IO[bytes], part: BufferPages) -> bytes:
    """Write the pages of all CPUs, each at the start of a page; return the option that tells where."""
    start, size = out.tell(), part.buffer.page_size
    out.write(bytes(SECTION_BYTES))
    table = []
    for cpu, chunks in part.pages.items():
        out.write(bytes(-out.tell() % size))
        begin = out.tell()
        for chunk in chunks:
            out.write(chunk)
        table.append(struct.pack("<IQQ", cpu, begin, out.tell() - begin))
    end = out.tell()
    out.seek(start)
    out.write(struct.pack("<HHIQ", Option.BUFFER, 0, 0, end - start - SECTION_BYTES))
    out.seek(end)
    names = f"{part.buffer.name}\0{part.buffer.clock}\0".encode()
    return struct.pack("<Q", start) + names + struct.pack("<II", size, len(table)) + b"".join(table)
