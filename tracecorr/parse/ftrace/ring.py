"""Decode ring buffer pages: all pages of a batch in lockstep, one record of each per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_LENGTH_MASK = (1 << 27) - 1
_MISSED, _MISSED_STORED = 1 << 31, 1 << 30
# An absolute stamp holds 59 bits; the rest is that of the page.
_STAMP_BITS = 59
# Fields may be read past the end of a short last record.
_SLACK = 4096

Ints = npt.NDArray[np.int64]


@dataclass
class Records:
    """Hold the records of a batch of pages of one CPU, in order.

    Args:
        flat: bytes of the pages, with slack at the end.
        offset: first byte of each record's header, counted from the first page.
        size: bytes of the record with its header.
        data: first byte of the payload in `flat`.
        length: bytes of the payload.
        stamp: time of the record.
        missed: (records lost, or -1 where not told; stamp before; stamp after) per gap.
        broken: bytes of page data that could not be decoded.
    """

    flat: npt.NDArray[np.uint8]
    offset: Ints
    size: Ints
    data: Ints
    length: Ints
    stamp: Ints
    missed: list[tuple[int, int | None, int]]
    broken: int

    def ints(self, rows: Ints, offset: int, size: int, *, signed: bool = False) -> npt.NDArray[np.uint64]:
        """Return the little-endian integers at `offset` of the payloads of `rows` as u64 (two's complement)."""
        index = self.data[rows][:, None] + np.arange(offset, offset + size)
        raw = np.ascontiguousarray(self.flat[np.minimum(index, len(self.flat) - 1)])
        values = raw.view(f"<{'i' if signed else 'u'}{size}").ravel()
        values = np.where(self.length[rows] >= offset + size, values, values.dtype.type(0))
        return values.astype(np.int64).view(np.uint64) if signed else values.astype(np.uint64)

    def texts(self, rows: Ints, starts: Ints, sizes: Ints) -> list[str]:
        """Return the texts at `starts` (in the payload) with at most `sizes` bytes, up to their NUL."""
        blob = self.flat
        room = np.maximum(np.minimum(sizes, self.length[rows] - starts), 0)
        begin = self.data[rows] + starts
        return [
            blob[b : b + n].tobytes().partition(b"\0")[0].decode("utf-8", "replace")
            for b, n in zip(begin.tolist(), room.tolist(), strict=True)
        ]


def decode_pages(block: bytes, header: int, page_size: int, last_stamp: int | None) -> Records:
    """Return the records of `block`, a whole number of pages, in the order of the pages."""
    count = len(block) // page_size
    flat = np.frombuffer(block + bytes(_SLACK), np.uint8)
    pages = flat[: count * page_size].reshape(count, page_size)
    stamps = pages[:, :8].copy().view("<i8").ravel()
    commit = pages[:, 8:16].copy().view("<u8").ravel()
    used = np.minimum((commit & np.uint64(_LENGTH_MASK)).astype(np.int64), page_size - header)
    walk = _Walk(flat, np.arange(count) * page_size + header, used, stamps)
    page, offset, size, data, length, stamp = walk.run()
    order = np.lexsort((offset, page))
    stamp = stamp[order]
    missed = _missed(pages, commit, used, header, stamps, (page[order], stamp), last_stamp)
    return Records(flat, offset[order], size[order], data[order], length[order], stamp, missed, walk.broken)


class _Walk:
    """Walk all pages at once; `run` returns page, offset, size, data, length, stamp of every record."""

    def __init__(self, flat: npt.NDArray[np.uint8], base: Ints, used: Ints, stamps: Ints) -> None:
        self._flat, self._base, self._used = flat, base, used
        self._page_stamp = stamps
        self.broken = 0

    def run(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        alive = np.flatnonzero(self._used >= 4)
        position, now = np.zeros(len(alive), np.int64), self._page_stamp[alive].copy()
        found: list[tuple[Ints, ...]] = []
        while len(alive):
            start = self._base[alive] + position
            word = self._word(start)
            kind, delta = word & 31, word >> 5
            extra = self._word(start + 4)
            size, length, data = self._sizes(kind, delta, extra, start, self._used[alive] - position)
            now = np.where(kind == _TIME_STAMP, self._absolute(alive, (extra << 27) + delta), now + delta)
            now += np.where(kind == _TIME_EXTEND, extra << 27, 0)
            bad = (size <= 0) | (position + size > self._used[alive])
            self.broken += int((self._used[alive] - position)[bad].sum())
            hit = (kind < _PADDING) & ~bad
            found.append((alive[hit], start[hit], size[hit], data[hit], length[hit], now[hit]))
            position = position + size
            go = ~bad & (position + 4 <= self._used[alive])
            alive, position, now = alive[go], position[go], now[go]
        empty = (np.zeros(0, np.int64),) * 6
        columns = zip(*found, strict=True) if found else ((c,) for c in empty)
        page, offset, sizes, datas, lengths, times = (np.concatenate(c) for c in columns)
        return page, offset, sizes, datas, lengths, times

    def _word(self, start: Ints) -> Ints:
        raw = np.ascontiguousarray(self._flat[start[:, None] + np.arange(4)])
        return raw.view("<u4").ravel().astype(np.int64)

    def _sizes(self, kind: Ints, delta: Ints, extra: Ints, start: Ints, left: Ints) -> tuple[Ints, Ints, Ints]:
        """Return (size of the record, length of its payload, start of its payload)."""
        is_long = kind == 0
        size = np.where(is_long, extra + 4, 4 + kind * 4)
        size = np.where(kind == _PADDING, np.where(delta == 0, left, extra + 4), size)
        size = np.where(kind >= _TIME_EXTEND, 8, size)
        size = np.where(is_long & (extra < 4), 0, size)
        size = (size + 3) & ~np.int64(3)
        return size, np.where(is_long, extra - 4, kind * 4), start + np.where(is_long, 8, 4)

    def _absolute(self, alive: Ints, stamp: Ints) -> Ints:
        return stamp | (self._page_stamp[alive] >> _STAMP_BITS << _STAMP_BITS)


def _missed(
    pages: npt.NDArray[np.uint8],
    commit: npt.NDArray[np.uint64],
    used: Ints,
    header: int,
    starts: Ints,
    records: tuple[Ints, Ints],
    last_stamp: int | None,
) -> list[tuple[int, int | None, int]]:
    gaps: list[tuple[int, int | None, int]] = []
    page, stamp = records
    for index in np.flatnonzero(commit & np.uint64(_MISSED)).tolist():
        count = -1
        if int(commit[index]) & _MISSED_STORED:
            at = header + int(used[index])
            count = int.from_bytes(pages[index, at : at + 8].tobytes(), "little") if at + 8 <= pages.shape[1] else -1
        before = int(np.searchsorted(page, index))
        gaps.append((count, int(stamp[before - 1]) if before else last_stamp, int(starts[index])))
    return gaps
