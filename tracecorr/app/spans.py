"""The level-of-detail pyramid behind the canvas (pure numpy).

A *track* is one depth row of one lane; records are sorted by (track, start). Every level merges the
records of the level below that start in the same time bin of one track; records as long as a bin are
never merged, so a merged record never covers more than two bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tracecorr.app import ids

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

INFERRED, FAILED, HALF_SEEN = 1, 2, 4  # bits of `Records.style`

_FIRST_LEVEL, _LAST_LEVEL, _STEP = 8, 46, 2  # bins of 256 ns ... 19 h, each four times the one before


@dataclass(frozen=True)
class Records:
    """Hold one column per property of a drawn record; times in ns since the capture start."""

    track: I32
    start: I64
    end: I64
    busy: I64
    count: I32
    longest: I64
    event: I32
    name: I32
    style: U8

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: npt.NDArray[np.intp]) -> Records:
        """Return the records at `index`."""
        return Records(*(getattr(self, f.name)[index] for f in fields(self)))


def first_fit(start: I64, end: I64, rows: int = ids.MAX_DEPTH_ROWS) -> U8:
    """Return the depth row of each span of one lane (sorted by start), so that spans do not cover each other.

    Spans that find no free row take the one that becomes free first; instants need no room.
    """
    out = np.zeros(len(start), np.uint8)
    if len(start) < 2:
        return out
    overlaps = np.zeros(len(start) + 1, bool)
    overlaps[1:-1] = start[1:] < np.maximum.accumulate(end)[:-1]
    # Python loops only over the few spans that overlap at all.
    crowded = np.flatnonzero(overlaps[:-1] | overlaps[1:])
    free_at: list[int] = []
    for i, s, e in zip(crowded.tolist(), start[crowded].tolist(), end[crowded].tolist(), strict=True):
        if not overlaps[i]:
            free_at = []
        row = next((r for r, until in enumerate(free_at) if until <= s), len(free_at))
        if row >= rows:
            row = min(range(rows), key=free_at.__getitem__)
        if row == len(free_at):
            free_at.append(e)
        else:
            free_at[row] = max(free_at[row], e)
        out[i] = row
    return out


def _group_starts(r: Records, bin_ns: int) -> npt.NDArray[np.intp]:
    """Return where a new merged record begins: other track, other bin, or next to a long record."""
    long = (r.end - r.start) >= bin_ns
    bins = r.start // bin_ns
    new = np.ones(len(r), bool)
    new[1:] = (r.track[1:] != r.track[:-1]) | (bins[1:] != bins[:-1]) | long[1:] | long[:-1]
    return np.flatnonzero(new)


def merge(r: Records, bin_ns: int) -> Records:
    """Return `r` with short neighbours in the same bin of `bin_ns` merged into one record."""
    return _merge_at(r, _group_starts(r, bin_ns)) if len(r) else r


def _merge_at(r: Records, at: npt.NDArray[np.intp]) -> Records:
    if len(at) == len(r):
        return r
    longest = np.maximum.reduceat(r.longest, at)
    sizes = np.diff(np.append(at, len(r)))
    hit = np.flatnonzero(r.longest == np.repeat(longest, sizes))
    group = np.searchsorted(at, hit, side="right") - 1
    best = hit[np.append(True, group[1:] != group[:-1])]
    inferred = np.bitwise_and.reduceat(r.style, at) & INFERRED
    trouble = np.bitwise_or.reduceat(r.style, at) & (FAILED | HALF_SEEN)
    return Records(
        r.track[at],
        r.start[at],
        np.maximum.reduceat(r.end, at),
        np.add.reduceat(r.busy, at),
        np.add.reduceat(r.count, at, dtype=np.int32),
        longest,
        r.event[best],
        r.name[best],
        (inferred | trouble).astype(np.uint8),
    )


@dataclass(frozen=True)
class Level:
    """Hold the records of one level, where each track begins, and how far its ends reach."""

    bin_ns: int
    records: Records
    begin: I64
    reach: I64  # running maximum of `end` in a track: finds the spans that cross the left edge


def _level(records: Records, bin_ns: int, tracks: int) -> Level:
    begin = np.searchsorted(records.track, np.arange(tracks + 1)).astype(np.int64)
    reach = records.end
    if len(reach) > 1 and np.any((reach[1:] < reach[:-1]) & (records.track[1:] == records.track[:-1])):
        reach = reach.copy()
        for a, b in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True):
            np.maximum.accumulate(reach[a:b], out=reach[a:b])
    return Level(bin_ns, records, begin, reach)


class Pyramid:
    """Answer "what is to be drawn between t0 and t1 at this width" in time independent of the range."""

    def __init__(self, raw: Records, first_track: Sequence[int]) -> None:
        """Build all levels.

        Args:
            raw: one record per span, sorted by (track, start).
            first_track: first track of each lane, plus the number of tracks at the end.
        """
        self.first_track = np.asarray(first_track, np.int64)
        tracks = int(self.first_track[-1])
        self.levels = [_level(raw, 0, tracks)]
        records = raw
        for exponent in range(_FIRST_LEVEL, _LAST_LEVEL, _STEP):
            if len(records) < 2:
                break
            at = _group_starts(records, 1 << exponent)
            if 2 * len(at) > len(records):
                continue  # a level that does not halve the rows costs memory and buys nothing
            records = _merge_at(records, at)
            self.levels.append(_level(records, 1 << exponent, tracks))

    def query(self, t0: int, t1: int, width_px: int, lanes: Sequence[int]) -> Records:
        """Return at most about one record per pixel and track, plus every span longer than a pixel."""
        pixel = max(1, (t1 - t0) // max(1, width_px))
        level = next(lv for lv in reversed(self.levels) if lv.bin_ns <= pixel)
        pieces = [piece for lane in lanes for piece in self._slices(level, lane, t0, t1)]
        index = np.concatenate(pieces) if pieces else np.zeros(0, np.intp)
        return merge(level.records.take(index), pixel)

    def _slices(self, level: Level, lane: int, t0: int, t1: int) -> list[npt.NDArray[np.intp]]:
        out = []
        for track in range(int(self.first_track[lane]), int(self.first_track[lane + 1])):
            a, b = int(level.begin[track]), int(level.begin[track + 1])
            lo = a + int(np.searchsorted(level.reach[a:b], t0, side="left"))
            hi = a + int(np.searchsorted(level.records.start[a:b], t1, side="right"))
            if lo < hi:
                out.append(np.arange(lo, hi))
        return out

    def lane_row(self, track: I32) -> tuple[I32, U8]:
        """Return lane and depth row of each track number."""
        lane = np.searchsorted(self.first_track, track, side="right") - 1
        return lane.astype(np.int32), (track - self.first_track[lane]).astype(np.uint8)
