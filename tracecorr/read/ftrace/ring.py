"""Decode ring buffer pages: all pages of a batch in lockstep, one record of each per step.

Layout of a page (Linux `kernel/trace/ring_buffer.c`, 4.11 to 7.2): time of the first record, commit
word, then records of a 32-bit header (5 bits of type or length, 27 bits of time delta) and payload.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracecorr.read.byte_text import Ints

Bytes = npt.NDArray[np.uint8]

# Types of records, and the bits of a page's length (the kernel's ring_buffer.h and ring_buffer.c).
_LONG, _PADDING, _TIME_EXTEND, _TIME_STAMP = 0, 29, 30, 31
_LENGTH_MASK = (1 << 27) - 1
_MISSED, _MISSED_STORED = np.uint64(1 << 31), np.uint64(1 << 30)
# No buffer loses more between two pages: of a damaged page only that some are lost is known.
_MOST_MISSED = 1 << 40
# An absolute stamp holds 59 bits; the rest is that of the page.
_STAMP_BITS = 59
# Words may be read past the end of a short last record.
SLACK = 64
# Size of a record by the 5 bits of its type; -1 where the next word holds it.
_SIZES = np.array([-1, *(4 + 4 * kind for kind in range(1, 29)), -1, 8, 8], np.int64)


@dataclass
class Records:
    """Hold the data records of a batch of pages, in the order of the pages.

    Args:
        page: index of the page of each record.
        at: first byte of the record's header in the batch.
        size: bytes of the record with its header.
        stamp: time of the record.
        is_long: records whose length is in a second word; None if there are none.
    """

    page: Ints
    at: Ints
    size: Ints
    stamp: Ints
    is_long: npt.NDArray[np.bool_] | None

    def select(self, rows: Ints | npt.NDArray[np.bool_]) -> Records:
        """Return the records `rows`."""
        is_long = None if self.is_long is None else self.is_long[rows]
        return Records(self.page[rows], self.at[rows], self.size[rows], self.stamp[rows], is_long)

    def payloads(self, flat: Bytes) -> tuple[Ints, Ints]:
        """Return first byte and length of the payload of each record."""
        data, length = self.at + 4, self.size - 4
        if self.is_long is not None:
            data[self.is_long] += 4
            length[self.is_long] = _words(flat)[(self.at[self.is_long] >> 2) + 1].astype(np.int64) - 4
        return data, length


@dataclass
class Pages:
    """Hold the heads of a batch of pages.

    Args:
        stamp: time of the first record of each page.
        used: bytes of records in each page; 0 if the head cannot be right.
        bad: pages whose head cannot be right: more bytes than a page holds.
        missed: records lost before each page; -1 = some, 0 = none.
    """

    stamp: Ints
    used: Ints
    bad: npt.NDArray[np.bool_]
    missed: Ints


def read_heads(flat: Bytes, header: int, page_size: int) -> Pages:
    """Return the heads of the pages in `flat` (whole pages, then `SLACK` bytes)."""
    count = (len(flat) - SLACK) // page_size
    starts = np.arange(count, dtype=np.int64) * page_size
    words = word_view(flat)
    stamp, commit = words[starts].view(np.int64), words[starts + 8]
    if header < 16:
        commit &= np.uint64(0xFFFFFFFF)
    used = (commit & np.uint64(_LENGTH_MASK)).astype(np.int64)
    bad = used > page_size - header
    used[bad] = 0
    stored = ((commit & _MISSED_STORED) != 0) & (header + used + 8 <= page_size)
    missed = np.where(stored, words[np.minimum(starts + header + used, len(words) - 1)].view(np.int64), -1)
    told = (missed > 0) & (missed < _MOST_MISSED)
    missed = np.where(((commit & _MISSED) != 0) & ~bad, np.where(told, missed, -1), 0)
    return Pages(stamp, used, bad, missed)


def word_view(flat: Bytes) -> npt.NDArray[np.uint64]:
    """Return the little-endian 8-byte words at every position of `flat`."""
    words: npt.NDArray[np.uint64] = np.ndarray((len(flat) - 7,), "<u8", flat, strides=(1,))
    return words


def decode_pages(flat: Bytes, header: int, page_size: int, pages: Pages) -> tuple[Records, Ints]:
    """Return the records of the pages in `flat`, and for each page its bytes that could not be decoded."""
    base = np.arange(len(pages.used), dtype=np.int64) * page_size + header
    page, at, word, size, broken = _walk(flat, base, base + pages.used)
    kind = word & 31
    step = word >> 5
    timed = np.flatnonzero(kind >= _TIME_EXTEND)
    step[timed] += _words(flat)[(at[timed] >> 2) + 1].astype(np.int64) << 27
    stamp = _stamps(page, step, np.flatnonzero(kind == _TIME_STAMP), pages.stamp)
    is_long = kind == _LONG
    records = Records(page, at, size, stamp, is_long if is_long.any() else None)
    is_data = kind < _PADDING
    return records if is_data.all() else records.select(is_data), broken


def _words(flat: Bytes) -> npt.NDArray[np.uint32]:
    return flat[: len(flat) & ~3].view("<u4")


def _walk(flat: Bytes, base: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return page, position, first word and size of every record, one step after the other."""
    words = _words(flat)
    broken = np.zeros(len(base), np.int64)
    page = np.flatnonzero(end >= base + 4)
    at, stop = base[page], end[page]
    steps: list[tuple[Ints, Ints, Ints, Ints]] = []
    while len(page):
        word = words[at >> 2].astype(np.int64)
        size = _SIZES[word & 31]
        told = np.flatnonzero(size < 0)
        if len(told):
            size[told] = _told_sizes(words, at[told], word[told], stop[told])
        after = at + size
        good = after <= stop
        if not good.all():
            broken[page[~good]] = (stop - at)[~good]
            page, at, word, size, after, stop = (v[good] for v in (page, at, word, size, after, stop))
        steps.append((page, at, word, size))
        at = after
        going = at + 4 <= stop
        if not going.all():
            page, at, stop = page[going], at[going], stop[going]
    return *_page_by_page(steps, len(base)), broken


def _page_by_page(steps: list[tuple[Ints, Ints, Ints, Ints]], pages: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return page, position, word and size in the order of the pages: step n holds the n-th record of each."""
    empty = (np.zeros(0, np.int64),) * 4
    page, at, word, size = (np.concatenate(c) for c in zip(empty, *steps, strict=True))
    counts = np.bincount(page, minlength=pages)
    first = np.cumsum(counts) - counts
    place = first[page] + np.repeat(np.arange(len(steps)), [len(step[0]) for step in steps])
    ordered = np.empty((3, len(page)), np.int64)
    for row, values in zip(ordered, (at, word, size), strict=True):
        row[place] = values
    return np.repeat(np.arange(pages), counts), ordered[0], ordered[1], ordered[2]


def _told_sizes(words: npt.NDArray[np.uint32], at: Ints, word: Ints, stop: Ints) -> Ints:
    """Return the sizes of long records and of padding, both told by the word after the header."""
    extra = words[(at >> 2) + 1].astype(np.int64)
    size = (extra + 4 + 3) & ~np.int64(3)
    size = np.where((word & 31 == _LONG) & (extra < 4), 1 << 40, size)
    rest = (word & 31 == _PADDING) & (word >> 5 == 0)
    return np.where(rest, stop - at, size)


def _stamps(page: Ints, step: Ints, absolute: Ints, page_stamp: Ints) -> Ints:
    """Return the time of every record: steps added up from the page's time or the last absolute stamp."""
    if len(page) == 0:
        return page
    told = step[absolute] | (page_stamp[page[absolute]] >> _STAMP_BITS << _STAMP_BITS)
    step[absolute] = 0
    total = np.cumsum(step)
    pages = np.flatnonzero(np.diff(page, prepend=-1))
    first = np.union1d(pages, absolute)
    base = page_stamp[page[first]]
    base[np.searchsorted(first, absolute)] = told
    shift = base - total[first] + step[first]
    stamps: Ints = total + np.repeat(shift, np.diff(np.append(first, len(page))))
    return stamps
