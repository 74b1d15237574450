"""Where the writes of one file lie in a log: their positions in the trace against the starts of the log's records.

Writes know their own positions but for a shift; the log knows where its records start. Each record starts where a write
starts, but for a few that were printed together with one before. So the shift is known where the description was opened
in the trace, and where the lengths fit in one place alone. Behind a hole of the trace, and behind bytes that the log
does not hold, the shift is another one.

In a loop of equal records many shifts fit. A record is stamped before its write begins, and its write begins before
its thread stamps the next one: each record bounds the offset of the trace's clock from both sides. Only a shift whose
bounds go with those of the records before it is taken.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tracecorr.clock.hull import NO_HIGH, NO_LOW, Ints, Mask

# Behind so many records in a row that start at no write the shift is another one; fewer were printed together.
_MISSES = 4
# So many records must fit a shift that nothing else tells, and so many bound the clock together.
_LEAST_ROWS, _BLOCK = 8, 64
# A record has at most so many writes (4,096 bytes in pieces of 128, and one more where it is cut).
_MOST_PIECES = 40
# More shifts than these, which equal records leave, are not told apart.
_MOST_SHIFTS = 1 << 16
# How far a clock may drift, and the stamps of the log are cut.
_DRIFT, _STEP_NS = 600e-6, 1000


@dataclass(frozen=True)
class Log:
    """Hold what a log tells of its records, in the order of the file.

    Args:
        starts: where each starts.
        stamps: what it is stamped with (`NO_LOW` = not on CLOCK_MONOTONIC).
        nexts: the next stamp of its thread (`NO_HIGH` = none).
        size: bytes of the log.
    """

    starts: Ints
    stamps: Ints
    nexts: Ints
    size: int


@dataclass(frozen=True)
class Run:
    """Hold writes of one file between two holes of the trace.

    Args:
        starts: positions of the writes, from 0 on.
        size: bytes that they wrote.
        stamps: when each was entered, on the clock of the trace.
        known: where the first one lies in the file; None = not known.
    """

    starts: Ints
    size: int
    stamps: Ints
    known: int | None


@dataclass(frozen=True)
class Piece:
    """Say that the positions of a run from `low` to `high` lie `shift` bytes further on in the log.

    Args:
        run: index of the run.
        low, high: positions of the run.
        shift: what is added to a position.
        first, last: the first and the last record (index) of the log that fit.
        behind: the first record that may be of another piece.
        is_timed: whether the stamps of its records agree.
    """

    run: int
    low: int
    high: int
    shift: int
    first: int
    last: int
    behind: int
    is_timed: bool


@dataclass(frozen=True)
class _Bounds:
    """Hold between what the offset of the trace's clock lies around a stamp."""

    at: int
    low: int
    high: int

    def agrees(self, other: _Bounds) -> bool:
        """Tell whether one clock can have both."""
        drift = _STEP_NS + int(_DRIFT * abs(other.at - self.at))
        low, high = max(self.low, other.low), min(self.high, other.high)
        return low == NO_LOW or high == NO_HIGH or low <= high + drift

    @property
    def is_closed(self) -> bool:
        """Tell whether both sides are known."""
        return self.low != NO_LOW and self.high != NO_HIGH


def align_runs(log: Log, runs: list[Run]) -> list[Piece]:
    """Return where runs lie in a log, in its order; what fits nowhere, or in more than one place, is left out."""
    pieces: list[Piece] = []
    row, before = 0, None
    for number, run in enumerate(runs):
        low = 0
        while row < len(log.starts) and low < run.size:
            shift = _choose_shift(log, run, row, low, before)
            piece = None if shift is None else _grow(log, run, number, shift, row, low)
            if piece is None:
                break
            pieces.append(piece)
            before = _bound(log, run, piece.shift, np.arange(max(piece.first, piece.last - _BLOCK + 1), piece.last + 1))
            row, low = piece.behind, piece.high
    return pieces


def _choose_shift(log: Log, run: Run, row: int, low: int, before: _Bounds | None) -> int | None:
    """Return the shift of a run from a record and a position on; None if none, or more than one, is possible."""
    if run.known is not None and low == 0 and _fits_from(log, run, run.known, row, before):
        return run.known
    found = _list_shifts(log, run, row, low)
    # A few records of a loop may fit at the end of a run by chance.
    left = min(_BLOCK, len(log.starts) - row, len(run.starts) - int(np.searchsorted(run.starts, low))) // 2
    found = [shift for shift in found if np.searchsorted(log.starts, shift + run.size) - row >= left]
    for count in (_BLOCK, 64 * _BLOCK, len(log.starts)) if len(found) > 1 or before is not None else ():
        found = [shift for shift in found if _fits_from(log, run, shift, row, before, count)]
        if len(found) < 2:
            break
    return found[0] if len(found) == 1 else None


def _fits_from(log: Log, run: Run, shift: int, row: int, before: _Bounds | None, count: int = _BLOCK) -> bool:
    """Tell whether the next records that a shift puts into a run start at its writes, at times that are possible."""
    first = max(row, int(np.searchsorted(log.starts, shift)))
    rows = np.arange(first, min(first + count, int(np.searchsorted(log.starts, shift + run.size))))
    if not len(rows) or _hits(log.starts[rows] - shift, run).sum() < 0.9 * len(rows):
        return False
    return _agree(log, run, shift, rows[:_BLOCK], before) and _keep_timed(log, run, shift, rows)[0] == len(rows)


def _agree(log: Log, run: Run, shift: int, rows: Ints, before: _Bounds | None) -> bool:
    """Tell whether the times of records are possible, one with the other and with those before."""
    bounds = _bound(log, run, shift, rows)
    return bounds.agrees(bounds) and (before is None or before.agrees(bounds))


def _hits(positions: Ints, run: Run) -> Mask:
    """Return which positions are starts of writes."""
    at = np.searchsorted(run.starts, positions)
    at[at == len(run.starts)] = 0
    found: Mask = run.starts[at] == positions
    return found


def _bound(log: Log, run: Run, shift: int, rows: Ints) -> _Bounds:
    """Return what records say of the clock if a shift is right."""
    write = np.clip(np.searchsorted(run.starts, log.starts[rows] - shift, side="right") - 1, 0, None)
    entered, stamps, nexts = run.stamps[write], log.stamps[rows], log.nexts[rows]
    low = np.where(stamps == NO_LOW, NO_LOW, stamps - entered)
    high = np.where(nexts == NO_HIGH, NO_HIGH, nexts - entered)
    return _Bounds(int(entered[-1]), int(low.max()), int(high.min()))


def _list_shifts(log: Log, run: Run, row: int, low: int) -> list[int]:
    """Return the shifts with which the next records start at writes, smallest first."""
    first = int(np.searchsorted(run.starts, low))
    found = []
    # Either the next record is one of the run, or one of the next writes starts a record of the log.
    for at in range(row, min(row + _MISSES, len(log.starts))):
        shifts = log.starts[at] - run.starts[first:]
        found.append(_keep_fitting(log, run, shifts, np.full(len(shifts), at)))
    if low == 0:
        for write in range(min(_MOST_PIECES, len(run.starts))):
            shifts = log.starts[row:] - run.starts[write]
            found.append(_keep_fitting(log, run, shifts, np.arange(row, len(log.starts))))
            if len(found[-1]):
                break
    distinct: list[int] = np.unique(np.concatenate(found)).tolist()
    return distinct if len(distinct) <= _MOST_SHIFTS else []


def _keep_fitting(log: Log, run: Run, shifts: Ints, rows: Ints) -> Ints:
    """Return the shifts with which the records behind `rows` start at writes, as far as the run goes."""
    fitting = np.zeros(len(shifts), dtype=np.int64)
    for step in range(1, _BLOCK):
        inside = rows + step < len(log.starts)
        position = log.starts[np.where(inside, rows + step, 0)] - shifts
        inside &= position < run.size
        keep = ~inside | _hits(position, run)
        fitting += inside & keep
        shifts, rows, fitting = shifts[keep], rows[keep], fitting[keep]
    kept: Ints = shifts[fitting >= _LEAST_ROWS - 1]
    return kept


def _grow(log: Log, run: Run, number: int, shift: int, row: int, low: int) -> Piece | None:
    """Return how far a shift fits from a record on; None if it does not at all."""
    first = max(row, int(np.searchsorted(log.starts, shift + low)))
    stop = int(np.searchsorted(log.starts, shift + run.size))
    rows = np.arange(first, stop)
    hits = _hits(log.starts[rows] - shift, run)
    misses = np.flatnonzero(~hits)
    # So many misses in a row, or all that are left.
    for at in misses.tolist():
        if not hits[at : at + _MISSES].any():
            rows = rows[:at]
            break
    kept, behind, is_timed = _keep_timed(log, run, shift, rows)
    if not kept:
        return None
    behind = int(rows[0]) + behind
    last = int(rows[kept - 1])
    # Behind the last record that fits, up to the next one.
    high = run.size if last + 1 == stop else int(log.starts[last + 1]) - shift
    high = min(high, run.size, log.size - shift)
    begin = max(low, int(log.starts[first]) - shift) if low else max(0, -shift)
    return Piece(number, begin, high, shift, first, last, behind, is_timed)


def list_missing(log: Log, runs: list[Run], pieces: list[Piece]) -> list[tuple[int, int, int, int]]:
    """Return the bytes that were written and are not in the log: before, after (records around; -1 = none), at, bytes.

    Runs before the first piece are those of a file that was cut on purpose.
    """
    missing = []
    if pieces and (head := -pieces[0].shift) > 0 and pieces[0].low == head:
        missing.append((-1, pieces[0].first, 0, head))
    for one, other in itertools.pairwise(pieces):
        if one.run == other.run and one.shift > other.shift:
            missing.append((one.last, other.first, int(log.starts[other.first]), one.shift - other.shift))
    if pieces and pieces[-1].last + 1 == len(log.starts):
        last = pieces[-1]
        tail = max(runs[last.run].size + last.shift - log.size, 0) + sum(run.size for run in runs[last.run + 1 :])
        if tail:
            missing.append((last.last, -1, log.size, tail))
    return missing


def _keep_timed(log: Log, run: Run, shift: int, rows: Ints) -> tuple[int, int, bool]:
    """Return how many of the records have possible times, from which on others may, and whether any bounds the clock.

    Args:
        rows: records of the log that start at writes.
    """
    before, is_timed = None, False
    for at in range(0, len(rows), _BLOCK):
        block = rows[at : at + _BLOCK]
        if not _agree(log, run, shift, block, before):
            zone = slice(max(at - _BLOCK, 0), at + _BLOCK)
            kept, behind = _find_break(log, run, shift, rows[zone])
            return zone.start + kept, zone.start + behind, is_timed
        bounds = _bound(log, run, shift, block)
        is_timed |= bounds.is_closed
        before = bounds if bounds.is_closed or before is None else before
    return len(rows), len(rows), is_timed


def _find_break(log: Log, run: Run, shift: int, rows: Ints) -> tuple[int, int]:
    """Return how many of some records surely lie before the place where their shift changes, and from which on behind.

    Those before it have times that are possible together, and so have those behind it.
    """
    ahead = next(n for n in range(len(rows), -1, -1) if not n or _agree(log, run, shift, rows[:n], None))
    behind = next(n for n in range(len(rows) + 1) if n == len(rows) or _agree(log, run, shift, rows[n:], None))
    return (behind, ahead) if behind <= ahead else (0, len(rows))
