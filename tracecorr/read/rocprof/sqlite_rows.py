"""Where the rows of an SQLite table lie in its file, so that every event of a database names its bytes.

Layout of pages and cells: https://www.sqlite.org/fileformat2.html, sections 1.3 to 1.6.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

MAGIC = b"SQLite format 3\0"
# Length of the first page's header, types of the pages of a table (sqlite.org/fileformat2.html).
_HEADER_BYTES = 100
_INTERIOR, _LEAF = 5, 13

ReadAt = Callable[[int, int], bytes]


def count_bytes(head: bytes) -> int:
    """Return how long a database is by its own header; 0 where that does not say it.

    Args:
        head: at least the first 100 bytes.
    """
    if len(head) < _HEADER_BYTES:
        return 0
    return _page_bytes(head) * int(struct.unpack_from(">I", head, 28)[0])


def _page_bytes(head: bytes) -> int:
    page_bytes = int(struct.unpack_from(">H", head, 16)[0])
    return 65536 if page_bytes == 1 else page_bytes


def locate_rows(read_at: ReadAt, root: int) -> dict[int, tuple[int, int]]:
    """Return rowid -> (offset, length) of the rows of a table.

    Of a row that continues on overflow pages these are the bytes of its first part.

    Args:
        read_at: returns bytes of the file by offset and size.
        root: number of the table's first page (`rootpage` of `sqlite_master`).
    """
    head = read_at(0, _HEADER_BYTES)
    page_bytes = _page_bytes(head)
    usable = page_bytes - head[20]
    found: dict[int, tuple[int, int]] = {}
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number < 1 or number in seen:
            continue
        seen.add(number)
        start = (number - 1) * page_bytes
        page = read_at(start, page_bytes)
        children, rows = _read_page(page, _HEADER_BYTES if number == 1 else 0, usable)
        waiting += children
        found |= {rowid: (start + place, length) for rowid, place, length in rows}
    return found


def _read_page(page: bytes, header: int, usable: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return the children of a page, and rowid, place and length of its rows."""
    if len(page) < header + 12 or page[header] not in (_INTERIOR, _LEAF):
        return [], []
    count = struct.unpack_from(">H", page, header + 3)[0]
    first = header + (12 if page[header] == _INTERIOR else 8)
    if first + 2 * count > len(page):
        return [], []
    places = struct.unpack_from(f">{count}H", page, first)
    if page[header] == _LEAF:
        return [], list(_read_cells(page, places, usable))
    inner = [p for p in places if p + 4 <= len(page)]
    children = [struct.unpack_from(">I", page, p)[0] for p in inner]
    return [*children, struct.unpack_from(">I", page, header + 8)[0]], []


def _read_cells(page: bytes, places: tuple[int, ...], usable: int) -> Iterator[tuple[int, int, int]]:
    for place in places:
        if place >= len(page):
            continue
        payload, at = _read_varint(page, place)
        rowid, at = _read_varint(page, at)
        yield rowid, place, at - place + _local_bytes(payload, usable)


def _local_bytes(payload: int, usable: int) -> int:
    """Return how many bytes of a payload lie on the page itself, and the number of its overflow page."""
    most = usable - 35
    if payload <= most:
        return payload
    least = (usable - 12) * 32 // 255 - 23
    local = least + (payload - least) % (usable - 4)
    return (local if local <= most else least) + 4


def _read_varint(page: bytes, at: int) -> tuple[int, int]:
    """Return a number of 1 to 9 bytes, and the place behind it."""
    value = 0
    for place in range(at, min(at + 8, len(page))):
        value = value << 7 | page[place] & 0x7F
        if page[place] < 0x80:
            return value, place + 1
    if at + 8 < len(page):
        return value << 8 | page[at + 8], at + 9
    return value, len(page)
