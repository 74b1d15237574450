"""Hand out the pages of all CPUs in windows of time: all records up to a time that every CPU has reached."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracecorr.read.byte_text import Ints
from tracecorr.read.ftrace.ring import SLACK, Bytes, Pages, Records, decode_pages, read_heads

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
        self._heads = read_heads(flat, cpus[0].header, self._size)
        self._records, self._broken = decode_pages(flat, cpus[0].header, self._size, self._heads)
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
        heads: Pages = self._heads
        broken = self._broken[begin:end]
        return Account(
            (end - begin) * self._size, int(heads.bad[begin:end].sum()), int((broken > 0).sum()), int(broken.sum())
        )
