"""Decode ring buffer pages: all pages of a batch in lockstep, one record of each per step.

Layout of a page (Linux `kernel/trace/ring_buffer.c`, 4.11 to 7.2): time of the first record, commit
word, then records of a 32-bit header (5 bits of type or length, 27 bits of time delta) and payload. The pages of all
CPUs come in windows of time: all records up to a time that every CPU has reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
class _Pages:
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


def _read_heads(flat: Bytes, header: int, page_size: int) -> _Pages:
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
    return _Pages(stamp, used, bad, missed)


def word_view(flat: Bytes) -> npt.NDArray[np.uint64]:
    """Return the little-endian 8-byte words at every position of `flat`."""
    words: npt.NDArray[np.uint64] = np.ndarray((len(flat) - 7,), "<u8", flat, strides=(1,))
    return words


def _decode_pages(flat: Bytes, header: int, page_size: int, pages: _Pages) -> tuple[Records, Ints]:
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


# Only a page with a page behind it is known to be complete in time.
_LEAST_PAGES = 2
_NEVER = (1 << 63) - 1


class CpuPages:
    """Hold the pages of one CPU that are read but not used up.

    Args:
        cpu: number of the CPU.
        file: key of its file.
        chunks: its bytes, cut anywhere.
        layout: bytes before the data of a page, and bytes of a page.
        offset: byte of the file that the pages begin at.
    """

    def __init__(
        self, cpu: int, file: int, chunks: bytes | Iterable[bytes], layout: tuple[int, int], offset: int = 0
    ) -> None:
        self.cpu, self.file = cpu, file
        self.header, self.page_size = layout
        self._chunks = iter([chunks] if isinstance(chunks, bytes | bytearray | memoryview) else chunks)
        self._buffer = bytearray()
        self.offset = offset
        self.skip = 0
        self.ended = False
        self.first_stamp: int | None = None
        self.last_stamp: int | None = None

    def fill(self, pages: int) -> None:
        """Read until `pages` pages are here or the file ends; nothing while half of them are left."""
        want = max(pages, _LEAST_PAGES) * self.page_size
        if len(self._buffer) < max(want // 2, _LEAST_PAGES * self.page_size):
            self.read(want)

    def read(self, want: int) -> None:
        """Read until `want` bytes are here or the file ends."""
        while len(self._buffer) < want and not self.ended:
            chunk = next(self._chunks, None)
            self.ended = chunk is None
            self._buffer += chunk or b""

    def starts(self) -> Ints:
        """Return the time from which on each page counts: never before that of the page before it."""
        count = len(self._buffer) // self.page_size
        if not count:
            return np.zeros(0, np.int64)
        return np.maximum.accumulate(np.ndarray((count,), "<i8", self._buffer, strides=(self.page_size,)))

    def torn(self) -> int:
        """Return the bytes at the end of the file that are no whole page."""
        return len(self._buffer) % self.page_size if self.ended else 0

    def take(self, count: int) -> bytes:
        """Return the first `count` pages; they stay here until `release`."""
        return bytes(memoryview(self._buffer)[: count * self.page_size])

    def release(self, pages: int, skip: int) -> None:
        """Drop `pages` pages; of the next one `skip` records have been handed out."""
        del self._buffer[: pages * self.page_size]
        self.offset += pages * self.page_size
        self.skip = skip


@dataclass
class Window:
    """Hold the records of all CPUs up to one time.

    Args:
        flat: bytes of the pages.
        records: the records, CPU by CPU.
        source: index of the CPU of each record.
        shift: per CPU what to add to a position in `flat` for the offset in its file.
        accounts: per CPU the pages used up.
        gaps: where records were lost.
    """

    flat: Bytes
    records: Records
    source: Ints
    shift: Ints
    accounts: list[Account]
    gaps: list[Gap]


class Gap(NamedTuple):
    """Tell of records that a CPU lost: between which two stamps, None if there is none, and how many.

    Args:
        place: of the CPU among all of them.
        lost: records; -1 where their number is not told.
        before, after: stamps of the records around them.
    """

    place: int
    lost: int
    before: int | None
    after: int | None


@dataclass
class Account:
    """Count pages of one CPU: bytes of all, pages with an impossible head, bytes that could not be decoded, doubles."""

    size: int = 0
    bad_heads: int = 0
    broken_pages: int = 0
    broken: int = 0
    duplicates: int = 0
    duplicate_bytes: int = 0


def next_window(cpus: Sequence[CpuPages], pages_per_cpu: int, pages: int) -> Window | None:
    """Return the next records in time of all CPUs, or None at the end.

    Args:
        cpus: they give up what the window holds.
        pages_per_cpu: so many are read of each.
        pages: where a window would hold less than so many, the CPUs that hold back the others are read on.
    """
    for cpu in cpus:
        cpu.fill(pages_per_cpu)
    starts = [cpu.starts() for cpu in cpus]
    _read_on(cpus, starts, pages)
    if not any(len(s) for s in starts):
        return None
    until = min((int(s[-1]) for cpu, s in zip(cpus, starts, strict=True) if not cpu.ended), default=None)
    counts = [len(s) if until is None else int(np.searchsorted(s, until, "right")) for s in starts]
    parts = [cpu.take(count) for cpu, count in zip(cpus, counts, strict=True)]
    flat = np.frombuffer(b"".join([*parts, bytes(SLACK)]), np.uint8)
    return _Cut(cpus, counts, until, flat).window()


def _read_on(cpus: Sequence[CpuPages], starts: list[Ints], pages: int) -> None:
    """Read on the CPUs that were busy while hundreds of others wrote little: a window ends where one of its CPUs does.

    Args:
        cpus: of each of them something is here, or it has ended.
        starts: when their pages begin (`CpuPages.starts`); kept up to date.
        pages: as many shall lie before that end, if there are so many.
    """
    last = [(int(starts[index][-1]), index) for index, cpu in enumerate(cpus) if not cpu.ended]
    heapq.heapify(last)
    while last:
        until, index = last[0]
        spare = pages - sum(int(np.searchsorted(own, until, "right")) for own in starts)
        if spare <= 0:
            break
        cpu = cpus[index]
        cpu.read((len(starts[index]) + min(len(starts[index]), spare)) * cpu.page_size)
        starts[index] = cpu.starts()
        if cpu.ended:
            heapq.heappop(last)
        else:
            heapq.heapreplace(last, (int(starts[index][-1]), index))


class _Cut:
    """Decode the pages taken from all CPUs and cut their records at one time."""

    def __init__(self, cpus: Sequence[CpuPages], counts: list[int], until: int | None, flat: Bytes) -> None:
        self._cpus, self._until, self._flat = cpus, until, flat
        self._size = cpus[0].page_size
        self._heads = _read_heads(flat, cpus[0].header, self._size)
        self._records, self._broken = _decode_pages(flat, cpus[0].header, self._size, self._heads)
        self._edges = np.cumsum([0, *counts])

    def window(self) -> Window:
        page, edges = self._records.page, self._edges
        bounds = np.searchsorted(page, edges)
        source = np.repeat(np.arange(len(self._cpus)), np.diff(bounds))
        shift = np.array([c.offset for c in self._cpus]) - edges[:-1] * self._size
        ready = np.ones(len(page), np.bool_)
        window = Window(self._flat, self._records, source, shift, [], [])
        for index, cpu in enumerate(self._cpus):
            window.accounts.append(self._release(index, cpu, ready, window.gaps))
        if not ready.all():
            window.records, window.source = self._records.select(ready), source[ready]
        return window

    def _release(
        self,
        index: int,
        cpu: CpuPages,
        ready: npt.NDArray[np.bool_],
        gaps: list[Gap],
    ) -> Account:
        """Mark what stays behind, tell the gaps, and let the CPU drop the pages that are used up."""
        begin, end = (int(e) for e in self._edges[index : index + 2])
        if begin == end:
            return Account()
        first, last_page, last = (int(r) for r in np.searchsorted(self._records.page, (begin, end - 1, end)))
        stamps = self._records.stamp
        late = stamps[last_page:last] > (self._until if self._until is not None else _NEVER)
        stop = last_page + int(late.argmax()) if late.any() else last
        ready[first : first + cpu.skip] = False
        ready[stop:last] = False
        used_up = end if stop == last else end - 1
        self._gaps(index, cpu, (begin + (cpu.skip > 0), end if stop > last_page else used_up), gaps)
        if stop > first + cpu.skip:
            cpu.first_stamp = int(stamps[first + cpu.skip]) if cpu.first_stamp is None else cpu.first_stamp
            cpu.last_stamp = int(stamps[stop - 1])
        cpu.release(used_up - begin, 0 if stop == last else stop - last_page)
        return self._account(begin, used_up)

    def _gaps(self, index: int, cpu: CpuPages, pages: tuple[int, int], gaps: list[Gap]) -> None:
        for page in (np.flatnonzero(self._heads.missed[pages[0] : pages[1]]) + pages[0]).tolist():
            first, before = np.searchsorted(self._records.page, (int(self._edges[index]), page)).tolist()
            stamp = int(self._records.stamp[before - 1]) if before > first else cpu.last_stamp
            gaps.append(Gap(index, int(self._heads.missed[page]), stamp, int(self._heads.stamp[page])))

    def _account(self, begin: int, end: int) -> Account:
        heads: _Pages = self._heads
        broken = self._broken[begin:end]
        return Account(
            (end - begin) * self._size, int(heads.bad[begin:end].sum()), int((broken > 0).sum()), int(broken.sum())
        )
