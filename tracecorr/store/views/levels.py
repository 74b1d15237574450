"""The levels of detail behind the timeline (pure numpy).

A *track* is one depth row of one lane; records are sorted by (track, start). Every level merges the
records of the level below that start in the same time bin of one track; records as long as a bin are
never merged, so a merged record never covers more than two bins. On a counter's track the merged record
keeps the highest value instead of the longest span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Index = npt.NDArray[np.intp]
Number = npt.NDArray[np.int64] | npt.NDArray[np.float32]

INFERRED, FAILED, HALF_SEEN = 1, 2, 4  # bits of `Records.style`

_FIRST_LEVEL, _LAST_LEVEL, _STEP = 8, 46, 2  # bins of 256 ns ... 19 h, each four times the one before
_PART_ROWS = 1 << 16
_WORTH = 0.4  # a level is kept when it has at most this share of the rows below it


def distinct_events(events: I32, known: int) -> Index:
    """Return each of some events once, in order, without -1; `known` is the number of all events.

    `np.unique` takes seconds for millions of them.
    """
    seen = np.zeros(known + 1, bool)
    seen[events] = True
    return np.flatnonzero(seen[:known])


@dataclass(frozen=True)
class Records:
    """Hold one column per property of a drawn record; times in ns since the capture start."""

    track: I32
    start: I64
    end: I64
    busy: Number  # summed durations
    count: I32
    longest: Number  # longest duration, or highest value (its code) on a counter's track
    event: I32  # event of the longest; -1 = none
    name: I32  # name of the longest; on a counter's track the code of the highest value
    style: U8

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Index) -> Records:
        """Return the records at `index`."""
        return Records(*(getattr(self, f.name)[index] for f in fields(self)))

    def part(self, first: int, stop: int) -> Records:
        """Return the records from `first` to before `stop`."""
        return Records(*(getattr(self, f.name)[first:stop] for f in fields(self)))


@dataclass(frozen=True)
class Single:
    """Hold the finest level: one record per drawn thing, so that most columns follow from the others."""

    start: I64
    end: I64
    event: I32
    name: I32
    style: U8
    begin: I64  # first record of each track, and the number of records at the end
    counter: npt.NDArray[np.bool_]  # by track: its names are codes of values

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Index) -> Records:
        """Return the records at `index`, which must be sorted."""
        return self._complete(index, (np.searchsorted(self.begin, index, side="right") - 1).astype(np.int32))

    def part(self, first: int, stop: int) -> Records:
        """Return the records from `first` to before `stop`."""
        counts = np.diff(self.begin.clip(first, stop))
        return self._complete(slice(first, stop), np.repeat(np.arange(len(counts), dtype=np.int32), counts))

    def _complete(self, rows: Index | slice, track: I32) -> Records:
        start, end, name = self.start[rows], self.end[rows], self.name[rows]
        long = end - start
        worth = np.where(self.counter[track], name, long) if self.counter.any() else long
        ones = np.ones(len(start), np.int32)
        return Records(track, start, end, long, ones, worth, self.event[rows], name, self.style[rows])


class _Rows(Protocol):
    """Describe what a level needs of its records."""

    @property
    def start(self) -> I64: ...

    @property
    def end(self) -> I64: ...

    def take(self, index: Index) -> Records: ...

    def part(self, first: int, stop: int) -> Records: ...

    def __len__(self) -> int: ...


def first_fit(start: I64, end: I64, rows: int) -> U8:
    """Return the depth row of each span of one lane (sorted by start), so that spans do not cover each other.

    Spans that find no free row take the one that becomes free first; instants need no room.
    """
    out = np.zeros(len(start), np.uint8)
    if len(start) < 2:
        return out
    open_until = np.maximum.accumulate(end)
    overlaps = np.zeros(len(start) + 1, bool)
    overlaps[1:-1] = start[1:] < open_until[:-1]
    if not overlaps.any():
        return out
    if np.all(end[1:] >= end[:-1]):
        return _in_turn(start, end, overlaps, rows)
    # Python loops only over the few spans that overlap at all.
    crowded = np.flatnonzero(overlaps[:-1] | overlaps[1:])
    out[crowded] = _seat(start[crowded].tolist(), end[crowded].tolist(), overlaps[crowded].tolist(), rows)
    return out


def _in_turn(start: I64, end: I64, overlaps: npt.NDArray[np.bool_], rows: int) -> U8:
    """Return the rows of spans that end in the order in which they start, as a queue's do."""
    number = np.arange(len(start))
    crowd = np.cumsum(~overlaps[:-1]) - 1
    first = number[~overlaps[:-1]]
    running = number - np.searchsorted(end, start, side="right")  # spans before this one that still run
    deepest = np.maximum(np.maximum.reduceat(running, first) + 1, 1)
    place = number - first[crowd]
    row: U8 = (place % np.minimum(deepest, rows)[crowd]).astype(np.uint8)
    return row


def _seat(start: list[int], end: list[int], joins: list[bool], rows: int) -> list[int]:
    free_at: list[int] = []
    out = []
    for s, e, overlaps in zip(start, end, joins, strict=True):
        if not overlaps:
            free_at = []
        row = next((r for r, until in enumerate(free_at) if until <= s), len(free_at))
        if row >= rows:
            row = min(range(rows), key=free_at.__getitem__)
        if row == len(free_at):
            free_at.append(e)
        else:
            free_at[row] = max(free_at[row], e)
        out.append(row)
    return out


def _group_starts(r: Records, bin_ns: int) -> Index:
    """Return where a new merged record begins: other track, other bin, or next to a long record."""
    long = (r.end - r.start) >= bin_ns
    bins = r.start // bin_ns
    new = np.ones(len(r), bool)
    new[1:] = (r.track[1:] != r.track[:-1]) | (bins[1:] != bins[:-1]) | long[1:] | long[:-1]
    return np.flatnonzero(new)


def merge(r: Records, bin_ns: int) -> Records:
    """Return `r` with short neighbours in the same bin of `bin_ns` merged into one record."""
    return _merge_at(r, _group_starts(r, bin_ns)) if len(r) else r


def _merge_at(r: Records, at: Index) -> Records:
    if len(at) == len(r):
        return r
    longest = np.maximum.reduceat(r.longest, at)
    sizes = np.diff(np.append(at, len(r)))
    hit = np.flatnonzero(r.longest == np.repeat(longest, sizes))
    best = hit if len(hit) == len(at) else hit[np.searchsorted(hit, at)]
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
    """Hold the records of one level and where each track begins.

    In a *tangled* track ends do not grow with starts, so that the spans which cross the left edge of a
    view can only be found with a running maximum; it is made when the track is first looked at.
    """

    bin_ns: int
    records: _Rows
    begin: I64
    tangled: frozenset[int]
    _reach: dict[int, I64] = field(default_factory=dict)

    def between(self, track: int, t0: int, t1: int) -> tuple[int, int]:
        """Return first and last (exclusive) record of a track that may touch [t0, t1]."""
        a, b = int(self.begin[track]), int(self.begin[track + 1])
        reach = self.records.end[a:b] if track not in self.tangled else self._reach_of(track, a, b)
        lo = a + int(np.searchsorted(reach, t0, side="left"))
        hi = a + int(np.searchsorted(self.records.start[a:b], t1, side="right"))
        return lo, hi

    def _reach_of(self, track: int, a: int, b: int) -> I64:
        if track not in self._reach:
            self._reach[track] = np.maximum.accumulate(self.records.end[a:b])
        return self._reach[track]


def make_level(records: Records | Single, bin_ns: int, tracks: int) -> Level:
    """Return a level of records that are sorted by (track, start)."""
    if isinstance(records, Single):
        begin = records.begin
    else:
        begin = np.searchsorted(records.track, np.arange(tracks + 1)).astype(np.int64)
    back = np.flatnonzero(records.end[1:] < records.end[:-1]) + 1
    at_begin = begin[np.minimum(np.searchsorted(begin, back, side="left"), len(begin) - 1)] == back
    inside = back[~at_begin]
    tangled = np.unique(np.searchsorted(begin, inside, side="right") - 1)
    return Level(bin_ns, records, begin, frozenset(tangled.tolist()))


class Pyramid:
    """Answer "what is to be drawn between t0 and t1 at this width" in time independent of the range."""

    def __init__(self, levels: Sequence[Level], first_track: I64) -> None:
        """Hold the levels, the finest first.

        Args:
            levels: the finest level holds a `Single`, the others hold `Records`.
            first_track: first track of each lane, plus the number of tracks at the end.
        """
        self.levels = list(levels)
        self.first_track = first_track

    @property
    def finest(self) -> Single:
        """Return the records of the finest level."""
        records = self.levels[0].records
        assert isinstance(records, Single)
        return records

    def query(self, t0: int, t1: int, width_px: int, lanes: Sequence[int]) -> Records:
        """Return at most about one record per pixel and track, plus every span longer than a pixel."""
        pixel = max(1, (t1 - t0) // max(1, width_px))
        level = next(lv for lv in reversed(self.levels) if lv.bin_ns <= pixel)
        pieces = []
        for lane in lanes:
            for track in range(int(self.first_track[lane]), int(self.first_track[lane + 1])):
                lo, hi = level.between(track, t0, t1)
                if lo < hi:
                    pieces.append(np.arange(lo, hi))
        index = np.concatenate(pieces) if pieces else np.zeros(0, np.intp)
        return merge(level.records.take(index), pixel)

    def lane_row(self, track: I32) -> tuple[I32, U8]:
        """Return lane and depth row of each track number."""
        lane = np.searchsorted(self.first_track, track, side="right") - 1
        return lane.astype(np.int32), (track - self.first_track[lane]).astype(np.uint8)


def build_pyramid(finest: Single, first_track: I64) -> Pyramid:
    """Return all levels over `finest`.

    Args:
        finest: one record per drawn thing, sorted by (track, start).
        first_track: first track of each lane, plus the number of tracks at the end.
    """
    tracks = int(first_track[-1])
    levels = [make_level(finest, 0, tracks)]
    records: _Rows = finest
    for exponent in range(_FIRST_LEVEL, _LAST_LEVEL, _STEP):
        # At most this many neighbours can merge: most bin widths are told apart without trying them.
        if _count_near(records.start, 1 << exponent) < (1 - _WORTH) * len(records):
            continue
        at = _list_groups(records, 1 << exponent)
        if len(at) > _WORTH * len(records):
            continue  # a level that does not shrink costs memory and buys nothing
        merged = _merge_groups(records, at)
        levels.append(make_level(_slim(merged), 1 << exponent, tracks))
        records = merged
    return Pyramid(levels, first_track)


# Part by part: arrays of a few MB are used again, large ones cost more time in the kernel than here.


def _count_near(start: I64, bin_ns: int) -> int:
    """Return how many records start less than `bin_ns` after the one before them."""
    count = 0
    for a in range(0, len(start), _PART_ROWS):
        part = start[a : a + _PART_ROWS + 1]
        count += int(np.count_nonzero(part[1:] - part[:-1] < bin_ns))
    return count


def _list_groups(rows: _Rows, bin_ns: int) -> Index:
    """Return what `_group_starts` does, of many records."""
    starts = [_group_starts(rows.part(0, _PART_ROWS), bin_ns)]
    for a in range(_PART_ROWS, len(rows), _PART_ROWS):
        # With the record before them, which begins one in any case.
        starts.append(_group_starts(rows.part(a - 1, a + _PART_ROWS), bin_ns)[1:] + (a - 1))
    return np.concatenate(starts)


def _merge_groups(rows: _Rows, at: Index) -> Records:
    """Return what `_merge_at` does, of many records."""
    bounds = np.append(at, len(rows))
    cuts = np.unique(np.searchsorted(at, np.arange(0, len(rows), _PART_ROWS)))
    none = rows.part(0, 0)
    merged = Records(*(np.empty(len(at), getattr(none, f.name).dtype) for f in fields(Records)))
    for i, j in pairwise([*cuts.tolist(), len(at)]):
        a, b = bounds[i], bounds[j]
        part = _merge_at(rows.part(a, b), at[i:j] - a)
        for column in fields(Records):
            getattr(merged, column.name)[i:j] = getattr(part, column.name)
    return merged


def _slim(r: Records) -> Records:
    """Return `r` with sums in single precision: they are drawn as a share, never read as a number."""
    return Records(
        r.track, r.start, r.end, r.busy.astype(np.float32), r.count, r.longest.astype(np.float32), r.event, r.name,
        r.style,
    )  # fmt: skip
