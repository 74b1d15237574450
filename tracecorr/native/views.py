"""What the timeline draws: records put in the order of their lanes, and merged into levels of detail."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.native.binding import KERNEL, STRUCTS, Bytes, Ints, address, as_ints, places_of

_Codes = npt.NDArray[np.int32]
# Bits of `Placed.state`.
UNSORTED, CROSSED = 1, 2
_NEVER = np.iinfo(np.int64).min
# Columns of records.
_TYPES: dict[str, Any] = {
    "begin": np.int64, "start": np.int64, "end": np.int64, "event": np.int32, "name": np.int32, "style": np.uint8,
    "busy": np.int64, "longest": np.int64, "count": np.int32, "is_counter": np.bool_,
}  # fmt: skip


class Drawn:
    """Hold rows that are drawn: first those of `events`, then further pictures of them."""

    def __init__(self, kind: _Codes, columns: Mapping[str, pa.Array], name: _Codes | None = None) -> None:
        """Take the columns of some rows.

        Args:
            kind: of each row.
            columns: start, `end` or `lasted` (64 bits, ns), event (64 bits), depth, flags (16 bits, without a sign);
                what is missing is null throughout.
            name: of each row; None = that of its kind.
        """
        self._kept = (kind, columns, name)
        places = {key: STRUCTS["Column"](*places_of(column)) for key, column in columns.items()}
        own_name = None if name is None else address(name)
        self.of = STRUCTS["Drawn"](count=len(kind), kind=address(kind), name=own_name, **places)


class Survey:
    """Hold what is to be known of the lanes before their rows are put in place; behind them stands none of them.

    Args:
        lanes: how many there are.
    """

    def __init__(self, lanes: int) -> None:
        self.counts, self.lowest = np.zeros(lanes + 1, np.int64), np.full(lanes + 1, np.iinfo(np.int64).max)
        self.highest = np.full(lanes + 1, -1)
        self._span = np.array([np.iinfo(np.int64).max, _NEVER])

    def add(self, rows: Drawn, lane_of: _Codes) -> None:
        """Count some rows, given the lane of each kind."""
        written = self.counts, self.lowest, self.highest, self._span
        KERNEL.survey_rows(ctypes.addressof(rows.of), address(lane_of), *map(address, written))

    @property
    def span(self) -> tuple[int, int]:
        """Return when the first row begins and the last one ends; without any row, at 0."""
        first, last = self._span.tolist()
        return (first, last) if last > _NEVER else (0, 0)


@dataclass(frozen=True)
class Told:
    """Hold what the kinds of rows tell.

    Args:
        lane: the number of lanes = none of them.
        half_flags, half_style: rows with one of these flags have this style, too.
    """

    lane: _Codes
    name: _Codes
    style: Bytes
    half_flags: int
    half_style: int


@dataclass
class Minimap:
    """Count what begins in equal parts of the time, packets apart; `is_packet` tells of each lane, and of none."""

    is_packet: npt.NDArray[np.bool_]
    others: Ints
    packets: Ints
    scale: float  # parts per ns


class Placed:
    """Hold records in the order of their lanes; times from `zero` on.

    Args:
        counts: records of each lane.
        events: how many there are; `place` is the record of each.
        zero: ns.
    """

    def __init__(self, counts: Ints, events: int, zero: int) -> None:
        rows = int(counts.sum())
        self.start, self.end = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self.event, self.name = np.empty(rows, np.int32), np.empty(rows, np.int32)
        self.style, self.row = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
        self.place = np.zeros(events, np.int32)
        self._zero, self._each = zero, np.full((len(counts), 6), _NEVER)
        self._each[:, 0], self._each[:, 4], self._each[:, 5] = np.cumsum(counts) - counts, 0, -1

    @property
    def state(self) -> Ints:
        """Return of each lane whether its records are UNSORTED, or CROSSED: one begins before another ends."""
        return self._each[:, 4]

    def use_depth(self, lowest: Ints) -> None:
        """Let depths tell the rows in some lanes, from the lowest one on; -1 = not in this lane."""
        self._each[:, 5] = lowest

    def add(self, rows: Drawn, told: Told, deepest: int, minimap: Minimap | None = None) -> None:
        """Put rows behind those that are there already.

        Args:
            rows: with `minimap` those of `events`, whose places are noted.
            told: by their kinds.
            deepest: number of the last row that a depth tells.
            minimap: counts them.
        """
        kinds = STRUCTS["Kinds"](*map(address, (told.lane, told.name, told.style)), told.half_flags, told.half_style)
        columns = map(address, (self.start, self.end, self.event, self.name, self.style, self.row))
        to = STRUCTS["Placed"](*columns, len(self.place), address(self.place) if minimap else None)
        given = map(ctypes.addressof, (rows.of, kinds))
        counted = None
        if minimap:
            counts = map(address, (minimap.is_packet, minimap.others, minimap.packets))
            counted = ctypes.byref(STRUCTS["Minimap"](len(minimap.others), minimap.scale, *counts))
        KERNEL.place_rows(
            *given, self._zero, len(self._each), address(self._each), deepest, ctypes.addressof(to), counted
        )


def count_gaps(start: Ints) -> Ints:
    """Return how many times follow the one before them in less than 1, 2, 4, 8, ... ns, or lie before it."""
    gaps, start = np.zeros(65, np.int64), as_ints(start)
    KERNEL.count_gaps(len(start), address(start), address(gaps))
    return np.cumsum(gaps)


def find_tangled(begin: Ints, end: Ints) -> npt.NDArray[np.bool_]:
    """Return the tracks in which a record ends before the one in front of it does.

    Args:
        begin: first record of each track, and the number of records at the end.
        end: of each record.
    """
    begin, end, tangled = as_ints(begin), as_ints(end), np.zeros(len(begin) - 1, np.bool_)
    KERNEL.find_tangled(len(tangled), *map(address, (begin, end, tangled)))
    return tangled


@dataclass(frozen=True)
class Tracks:
    """Hold records track by track, each by start; single things have neither `busy`, `longest` nor `count`.

    Args:
        begin: first record of each track, and the number of records at the end.
        start, end: ns.
        busy: summed durations.
        longest: longest duration, or highest name where names are values.
        count: how many were merged.
        is_counter: the tracks whose names are values; None = `longest` tells it.
    """

    begin: Ints
    start: Ints
    end: Ints
    event: _Codes
    name: _Codes
    style: Bytes
    busy: Ints | None = None
    longest: Ints | None = None
    count: _Codes | None = None
    is_counter: npt.NDArray[np.bool_] | None = None

    def merge(self, bin_ns: int, most: int) -> Tracks | None:
        """Return the records with neighbours of a track merged; None if there are more than `most` of them.

        Those merge that begin in the same bin and are shorter than it. Of a merged record event and name are those of
        the longest.
        """
        given = {name: getattr(self, name) for name in _TYPES}
        own = {name: np.ascontiguousarray(column, _TYPES[name]) for name, column in given.items() if column is not None}
        to = {name: np.empty(most, kind) for name, kind in _TYPES.items() if name not in ("begin", "is_counter")}
        begin = np.empty_like(own["begin"])
        of, merged = (
            STRUCTS["Tracks"](len(begin) - 1, **{name: address(column) for name, column in columns.items()})
            for columns in (own, {"begin": begin, **to})
        )
        count = KERNEL.merge_records(ctypes.addressof(of), bin_ns, most, ctypes.addressof(merged))
        return None if count < 0 else Tracks(begin, **{name: column[:count] for name, column in to.items()})
