"""Files of trace-cmd made by hand from recorded pages: version 6, and version 7 with both compressions."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import zstandard

from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.trace_dat import MAGIC, Buffer, TraceDat
from tracecorr.store.trace_dat import BufferPages, write_trace_dat

PACK: dict[str, Callable[[bytes], bytes]] = {
    "zlib": zlib.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "zstd without its magic number": lambda data: zstandard.ZstdCompressor().compress(data)[4:],
}
CLOCKS = b"local global [mono] boot\0"


def description(trace: PageTrace) -> TraceDat:
    return TraceDat(header_page=trace.header_page, events=dict(trace.formats), cmdlines=trace.cmdlines,
                    options=[(4, CLOCKS)])  # fmt: skip


def plain(trace: PageTrace, *instances: str) -> bytes:
    out = io.BytesIO()
    buffers = [BufferPages(Buffer(name, "mono", 4096), {c: [p] for c, p in trace.pages.items() if isinstance(p, bytes)})
               for name in ("", *instances)]  # fmt: skip
    write_trace_dat(out, description(trace), buffers)
    return out.getvalue()


def packed(trace: PageTrace, how: str) -> bytes:
    """Return a file whose sections and pages are compressed, each CPU in two chunks."""
    pack = PACK[how]
    out = bytearray(MAGIC + b"7\0" + struct.pack("<BBI", 0, 8, 4096) + how.split()[0].encode() + b"\0001\0" + bytes(8))
    pointer = len(out) - 8
    options = [(4, CLOCKS)]

    def section(number: int, data: bytes) -> int:
        start = len(out)
        small = pack(data)
        body = struct.pack("<II", len(small), len(data)) + small
        out.extend(struct.pack("<HHIQ", number, 1, 0, len(body)) + body)
        return start

    for number, data in _parts(trace):
        options.append((number, struct.pack("<Q", section(number, data))))
    table = []
    start = len(out)
    out.extend(struct.pack("<HHIQ", 3, 1, 0, 0))
    for cpu, pages in trace.pages.items():
        assert isinstance(pages, bytes)
        begin, half = len(out), len(pages) // 8192 * 4096
        chunks = [pages[:half], pages[half:]]
        body = b"".join(struct.pack("<II", len(pack(c)), len(c)) + pack(c) for c in chunks)
        out.extend(struct.pack("<I", len(chunks)) + body)
        # trace-cmd does not count the word that holds the number of chunks.
        table.append(struct.pack("<IQQ", cpu, begin, len(body)))
    options.append((3, struct.pack("<Q", start) + b"\0mono\0" + struct.pack("<II", 4096, len(table)) + b"".join(table)))
    listed = b"".join(struct.pack("<HI", n, len(d)) + d for n, d in options) + struct.pack("<HIQ", 0, 8, 0)
    struct.pack_into("<Q", out, pointer, section(0, listed))
    return bytes(out)


def version6(trace: PageTrace, instance: str = "") -> bytes:
    """Return a file of version 6; its instance, if any, has the same pages once more."""
    parts = dict(_parts(trace))
    head = MAGIC + b"6\0" + struct.pack("<BBI", 0, 8, 4096) + b"".join(parts[n] for n in (16, 17, 18, 19, 20, 21))
    head += struct.pack("<I", len(trace.pages)) + b"options  \0" + struct.pack("<HI", 4, len(CLOCKS)) + CLOCKS
    named = instance.encode() + b"\0"
    buffer_at = len(head) + 6
    head += (struct.pack("<HI", 3, 8 + len(named)) + bytes(8) + named) if instance else b""
    head += struct.pack("<H", 0)
    out, tables = bytearray(head), []
    for _ in range(1 + bool(instance)):
        tables.append(len(out))
        out += b"flyrecord\0" + bytes(16 * len(trace.pages))
    for table in tables:
        for number, pages in enumerate(trace.pages.values()):
            assert isinstance(pages, bytes)
            out += bytes(-len(out) % 4096)
            struct.pack_into("<QQ", out, table + 10 + 16 * number, len(out), len(pages))
            out += pages
    if instance:
        struct.pack_into("<Q", out, buffer_at, tables[1])
    return bytes(out)


def _parts(trace: PageTrace) -> list[tuple[int, bytes]]:
    """Return the sections of the description; those of version 6 are the same bytes in the same order."""
    own = [text for name, text in trace.formats.items() if name.startswith("ftrace/")]
    events = {name: text for name, text in trace.formats.items() if not name.startswith("ftrace/")}
    systems = sorted({name.partition("/")[0] for name in events})
    formats = b""
    for system in systems:
        texts = [text for name, text in events.items() if name.startswith(f"{system}/")]
        formats += system.encode() + b"\0" + struct.pack("<I", len(texts)) + b"".join(_text(t) for t in texts)
    return [
        (16, b"header_page\0" + _text(trace.header_page) + b"header_event\0" + _text("")),
        (17, struct.pack("<I", len(own)) + b"".join(_text(t) for t in own)),
        (18, struct.pack("<I", len(systems)) + formats),
        (19, struct.pack("<I", 0)),
        (20, struct.pack("<I", 0)),
        (21, _text(trace.cmdlines)),
    ]


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def unpacked(folder: Path, data: bytes) -> bytes:
    from tracecorr.store.trace_dat import unpack_in_place

    path = folder / "trace.dat"
    path.write_bytes(data)
    unpack_in_place(path, path)
    return path.read_bytes()
