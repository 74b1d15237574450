"""The levels of detail behind the timeline (pure).

A *track* is one depth row of one lane; records are sorted by (track, start). Every level merges the
records of the level below that start in the same time bin of one track; records as long as a bin are
never merged, so a merged record never covers more than two bins. On a counter's track the merged record
keeps the highest value instead of the longest span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tracecorr import native

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
_U8 = npt.NDArray[np.uint8]
Index = npt.NDArray[np.intp]
_Number = npt.NDArray[np.int64] | npt.NDArray[np.float32]

INFERRED, FAILED, HALF_SEEN = 1, 2, 4  # bits of `Records.style`

_FIRST_LEVEL, _LAST_LEVEL, _STEP = 8, 46, 2  # bins of 256 ns ... 19 h, each four times the one before
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
    busy: _Number  # summed durations
    count: I32
    longest: _Number  # longest duration, or highest value (its code) on a counter's track
    event: I32  # event of the longest; -1 = none
    name: I32  # name of the longest; on a counter's track the code of the highest value
    style: _U8

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Index) -> Records:
        """Return the records at `index`."""
        return Records(*(getattr(self, f.name)[index] for f in fields(self)))


@dataclass(frozen=True)
class Single:
    """Hold the finest level: one record per drawn thing, so that most columns follow from the others."""

    start: I64
    end: I64
    event: I32
    name: I32
    style: _U8
    begin: I64  # first record of each track, and the number of records at the end
    counter: npt.NDArray[np.bool_]  # by track: its names are codes of values

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Index) -> Records:
        """Return the records at `index`, which must be sorted."""
        track = (np.searchsorted(self.begin, index, side="right") - 1).astype(np.int32)
        start, end, name = self.start[index], self.end[index], self.name[index]
        long = end - start
        worth = np.where(self.counter[track], name, long) if self.counter.any() else long
        ones = np.ones(len(start), np.int32)
        return Records(track, start, end, long, ones, worth, self.event[index], name, self.style[index])


class _Rows(Protocol):
    """Describe what a level needs of its records."""

    @property
    def start(self) -> I64: ...

    @property
    def end(self) -> I64: ...

    def take(self, index: Index) -> Records: ...

    def __len__(self) -> int: ...


def first_fit(start: I64, end: I64, rows: int) -> _U8:
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


def _in_turn(start: I64, end: I64, overlaps: npt.NDArray[np.bool_], rows: int) -> _U8:
    """Return the rows of spans that end in the order in which they start, as a queue's do."""
    number = np.arange(len(start))
    crowd = np.cumsum(~overlaps[:-1]) - 1
    first = number[~overlaps[:-1]]
    running = number - np.searchsorted(end, start, side="right")  # spans before this one that still run
    deepest = np.maximum(np.maximum.reduceat(running, first) + 1, 1)
    place = number - first[crowd]
    row: _U8 = (place % np.minimum(deepest, rows)[crowd]).astype(np.uint8)
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


def merge(r: Records, bin_ns: int) -> Records:
    """Return `r` with short neighbours in the same bin of `bin_ns` merged into one record."""
    first = np.flatnonzero(np.append(True, r.track[1:] != r.track[:-1])[: len(r)])
    # Sums in single precision are whole numbers, too.
    whole = native.Tracks(
        np.append(first, len(r)), r.start, r.end, r.event, r.name, r.style, r.busy.astype(np.int64, copy=False),
        r.longest.astype(np.int64, copy=False), r.count,
    )  # fmt: skip
    merged = whole.merge(bin_ns, len(r))
    assert merged
    return _with_tracks(merged, r.track[first])


def _with_tracks(r: native.Tracks, track: I32) -> Records:
    assert r.busy is not None and r.count is not None and r.longest is not None
    tracks = np.repeat(track, np.diff(r.begin))
    return Records(tracks, r.start, r.end, r.busy, r.count, r.longest, r.event, r.name, r.style)


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


def _make_level(records: Records | Single, bin_ns: int, tracks: int) -> Level:
    """Return a level of records that are sorted by (track, start)."""
    if isinstance(records, Single):
        begin = records.begin
    else:
        begin = np.searchsorted(records.track, np.arange(tracks + 1)).astype(np.int64)
    tangled = np.flatnonzero(native.find_tangled(begin, records.end))
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

    def lane_row(self, track: I32) -> tuple[I32, _U8]:
        """Return lane and depth row of each track number."""
        lane = np.searchsorted(self.first_track, track, side="right") - 1
        return lane.astype(np.int32), (track - self.first_track[lane]).astype(np.uint8)


def build_pyramid(finest: Single, first_track: I64) -> Pyramid:
    """Return all levels over `finest`.

    Args:
        finest: one record per drawn thing, sorted by (track, start).
        first_track: first track of each lane, plus the number of tracks at the end.
    """
    tracks = np.arange(first_track[-1], dtype=np.int32)
    levels = [_make_level(finest, 0, len(tracks))]
    records = native.Tracks(
        finest.begin, finest.start, finest.end, finest.event, finest.name, finest.style, is_counter=finest.counter
    )
    near = native.count_gaps(records.start)
    for exponent in range(_FIRST_LEVEL, _LAST_LEVEL, _STEP):
        count = len(records.start)
        # At most this many neighbours can merge: most bin widths are told apart without trying them.
        if near[exponent] < (1 - _WORTH) * count:
            continue
        # A level that does not shrink costs memory and buys nothing.
        merged = records.merge(1 << exponent, int(_WORTH * count))
        if merged is None:
            continue
        levels.append(_make_level(_slim(_with_tracks(merged, tracks)), 1 << exponent, len(tracks)))
        records, near = merged, native.count_gaps(merged.start)
    return Pyramid(levels, first_track)


def _slim(r: Records) -> Records:
    """Return `r` with sums in single precision: they are drawn as a share, never read as a number."""
    return Records(
        r.track, r.start, r.end, r.busy.astype(np.float32), r.count, r.longest.astype(np.float32), r.event, r.name,
        r.style,
    )  # fmt: skip
