"""Slopes: within what limits the rate of a clock lies, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities, Ints, Mask
from tracecorr.clock.lines import Lines, fit_lines

# The kernel changes the rate of CLOCK_MONOTONIC once a second, and chrony holds a slew for a second at least: so long a
# clock is taken to run at one rate. Where it evidently does not, an eighth as long, so many times: what fits half the
# time may still hide that it came and went within.
PIECE_NS, _SHORTER, _TIMES = 1e9, 8, 2
# Blocks of such a piece, least blocks of a capture, and most, so that a long one costs no more.
_PARTS, _FEWEST, _MOST = 16, 16, 2048
# The blocks at both ends are halved so often: what the clock begins in the last one, nothing behind it tells.
_FINER = 5
# A block holds so many inequalities at least, fewer than so many tell nothing. Where few tell of the rate, a piece is
# taken to last so much longer, or as long as so many blocks take: if one line goes through so many more on both sides.
_LEAST, _ANY = 2, 16
_LONGER, _FEW, _BESIDE = 1.4, 7, 4
# A new rate that nothing tells lies so near the one before: daemons slew by more only to set a clock right that is off
# by milliseconds, and that does not stay untold.
_CHANGE = 100e-6
# Where nothing tells anything for so many pieces, and as many times longer than usual, rates may come and go unseen.
_PAUSE, _UNUSUAL = 2, 8


@dataclass(frozen=True)
class Rates:
    """Hold what is known of the slope of a clock's offset beforehand.

    Args:
        middle: the slope.
        reach: how far it may lie from that; 0 = it is known.
        wander: how far it may move, within a window that one line fits, from the slope of that line.
    """

    middle: float
    reach: float
    wander: float = 0.0


@dataclass(frozen=True)
class Slopes:
    """Hold limits of the slope of the offset.

    Args:
        edges: where each limit begins to hold, in order; the first one also holds before it.
        low, high: the limits.
    """

    edges: Floats
    low: Floats
    high: Floats

    def find(self, at: Floats) -> Ints:
        """Return which of the limits holds at each stamp."""
        return np.clip(np.searchsorted(self.edges, at, side="right") - 1, 0, len(self.edges) - 1)

    def between(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest slope of each span that no edge cuts."""
        place = self.find((left + right) / 2)
        return self.low[place], self.high[place]

    def widened(self, at: Floats, factor: float) -> Slopes:
        """Return the limits with those around some stamps `factor` times as far apart."""
        place = self.find(at)
        near = np.unique(np.clip(place[:, None] + np.array([-1, 0, 1]), 0, len(self.edges) - 1))
        grown = np.zeros(len(self.edges))
        grown[near] = (factor - 1) * (self.high - self.low)[near] / 2
        return Slopes(self.edges, self.low - grown, self.high + grown)


def allow_all(x: Floats, rates: Rates) -> Slopes:
    """Return the limits when nothing is known but the clock's own ones."""
    return Slopes(x[:1], np.array([rates.middle - rates.reach]), np.array([rates.middle + rates.reach]))


def find_slopes(given: Inequalities, rates: Rates) -> Slopes:
    """Return the limits of the slope that inequalities leave to a clock that runs at one rate for a second at least.

    The time is cut into blocks. In each the clock runs at the rate of a line through all that a window around the block
    holds; or it changes its rate in there, from that of the window before the block to that of the one behind it. Which
    of these it is nobody knows, so that all are allowed. Where there is none the clock changes its rate faster: shorter
    windows are asked there. In a long pause between inequalities, and where one side alone is bounded for long at an
    end of the evidence, it may run at any rate; elsewhere a rate that long windows hide is near theirs.

    Args:
        given: the inequalities.
        rates: what is known of the slope.
    """
    x = given.x
    if not rates.reach:
        return allow_all(x, rates)
    evidence, piece = _Evidence(given, rates), PIECE_NS / (1 + rates.middle)
    pause = max(_PAUSE * piece, _UNUSUAL * float(x[-1] - x[0]) / len(x))
    starts = [0, *(np.flatnonzero(np.diff(x) > pause) + 1).tolist(), len(x)]
    parts = []
    for first, end in pairwise(starts):
        # The pause before it begins with the last inequality of the part before.
        parts += [allow_all(x[first - 1 :], rates)] if first else []
        parts.append(_settle(evidence.keep(slice(first, end)), piece, _TIMES))
    found = _join(parts)
    return Slopes(found.edges, found.low - rates.wander, found.high + rates.wander)


@dataclass(frozen=True)
class _Evidence:
    """Hold inequalities and what is known of the slope beforehand."""

    given: Inequalities
    rates: Rates

    def keep(self, rows: slice) -> _Evidence:
        return _Evidence(self.given[rows], self.rates)

    def fit(self, rows: slice) -> Lines | None:
        """Return the lines through some rows; all that the clock can have where one side alone is bounded."""
        given = self.given[rows]
        if given.is_two_sided:
            return fit_lines(given, self.rates.middle, self.rates.reach)
        least, most = self.rates.middle - self.rates.reach, self.rates.middle + self.rates.reach
        return Lines(np.array([-np.inf, np.inf]), np.array([least, most]), np.inf)


def _settle(evidence: _Evidence, piece: float, times: int) -> Slopes:
    """Return the limits for a clock of one rate for `piece` at least, or where it is not, for less, so many times."""
    x = evidence.given.x
    if times < 0 or len(x) < _ANY or x[-1] <= x[0]:
        return allow_all(x, evidence.rates)
    blocks = _Blocks(evidence, _cut(x, piece))
    edges, windows = blocks.edges, _list_windows(blocks.edges, piece)
    limits = _ask(blocks, windows, windows, piece)
    changing = _find_changing(blocks, windows, piece)
    if changing.any():
        short = _ask(blocks, _list_short_windows(edges, piece), windows, piece)
        low, high = np.where(changing, short.low, limits.low), np.where(changing, short.high, limits.high)
        limits = Slopes(edges[:-1], low, high)
    parts = []
    for first, end, told in _list_stretches(limits, windows.all):
        if told:
            parts.append(Slopes(edges[first:end], limits.low[first:end], limits.high[first:end]))
            continue
        rows = slice(*np.searchsorted(x, [edges[first], edges[end] + 1]).tolist())
        inner = _settle(evidence.keep(rows), piece / _SHORTER, times - 1)
        parts.append(Slopes(np.concatenate([edges[first : first + 1], inner.edges[1:]]), inner.low, inner.high))
    return _join(parts)


def _join(parts: list[Slopes]) -> Slopes:
    return Slopes(*(np.concatenate([getattr(part, side) for part in parts]) for side in ("edges", "low", "high")))


def _cut(x: Floats, piece: float) -> Floats:
    """Return the edges of blocks that are as short as a piece allows, and hold enough inequalities each."""
    span = float(x[-1] - x[0])
    step = max(min(piece / _PARTS, span / _FEWEST), span / _MOST)
    finer = step / 2.0 ** np.arange(1, _FINER + 1)
    grid = np.linspace(x[0], x[-1], int(span / step) + 1)
    grid = np.concatenate([grid[:1], x[0] + finer[::-1], grid[1:-1], x[-1] - finer, grid[-1:]])
    before = np.searchsorted(x, grid)
    kept = [0]
    for i in range(1, len(grid) - 1):
        if before[i] - before[kept[-1]] >= _LEAST and len(x) - before[i] >= _LEAST:
            kept.append(i)
    return np.append(grid[kept], x[-1])


class _Blocks:
    """Hold the blocks of some evidence, and the lines through each window of them that was asked for."""

    def __init__(self, evidence: _Evidence, edges: Floats) -> None:
        self.evidence, self.edges = evidence, edges
        self.rows = [*np.searchsorted(evidence.given.x, edges[:-1]).tolist(), len(evidence.given)]
        self._lines: dict[tuple[int, int], Lines | None] = {}

    def fit(self, first: int, end: int) -> Lines | None:
        """Return the lines through the blocks from `first` to the one before `end`; None where there is none."""
        if (first, end) not in self._lines:
            self._lines[first, end] = self.evidence.fit(slice(self.rows[first], self.rows[end]))
        return self._lines[first, end]


@dataclass(frozen=True)
class _Windows:
    """Hold windows as first block and the one behind the last: those that are longest from, and up to, each edge."""

    beginning: list[tuple[int, int]]
    ending: list[tuple[int, int]]

    @property
    def all(self) -> list[tuple[int, int]]:
        return sorted({*self.beginning, *self.ending})


def _list_windows(edges: Floats, piece: float) -> _Windows:
    """Return windows that take a block less than a piece, so that pieces hold them, or hold enough to tell a rate.

    At both ends of the evidence they are shorter: what the clock did beyond is not known.
    """
    starts = np.arange(len(edges) - 1)
    block = float(np.median(np.diff(edges)))
    ends, latest = (
        np.searchsorted(edges, edges[:-1] + length, side="right") - 1
        for length in (piece - 0.999 * block, _LONGER * piece)
    )
    ends = np.maximum(np.maximum(ends, np.minimum(starts + _PARTS - 1, latest)), starts + _FEW)
    beginning = list(zip(starts.tolist(), np.minimum(ends, len(starts)).tolist(), strict=True))
    return _Windows(beginning, [*((0, end) for end in range(1, beginning[0][1])), *beginning])


def _list_short_windows(edges: Floats, piece: float) -> _Windows:
    """Return windows that a piece holds wherever in the block beside them it begins or ends.

    Where blocks are long there may be none.
    """
    length = np.diff(edges)
    before, behind = np.concatenate([[0.0], length]), np.concatenate([length, [0.0]])
    ends = np.searchsorted(edges, edges + piece - 0.999 * before, side="right") - 1
    starts = np.searchsorted(edges, edges - piece + 0.999 * behind, side="left")
    every = range(len(edges))
    beginning = [(first, end) for first, end in zip(every, ends.tolist(), strict=True) if first < end]
    ending = [(first, end) for first, end in zip(starts.tolist(), every, strict=True) if first < end]
    return _Windows(beginning, ending)


def _find_changing(blocks: _Blocks, windows: _Windows, piece: float) -> Mask:
    """Tell in which blocks a rate may have come and gone that windows longer than a piece hide.

    What it did to the offset stays: no line goes through such a window and some blocks on both sides of it.
    """
    edges, count = blocks.edges, len(blocks.edges) - 1
    changing = np.zeros(count, dtype=np.bool_)
    for first, end in windows.beginning:
        if edges[end] - edges[first] > piece:
            length = end - first + 2 * _BESIDE
            start = max(min(first - _BESIDE, count - length), 0)
            changing[first:end] |= blocks.fit(start, min(start + length, count)) is None
    return changing


def _ask(blocks: _Blocks, windows: _Windows, long: _Windows, piece: float) -> Slopes:
    """Return the least and the largest slope of each block; infinite where none is possible."""
    edges, rates = blocks.edges, blocks.evidence.rates
    count = len(edges) - 1
    least, most, asked = np.full(count, np.inf), np.full(count, -np.inf), np.zeros(count, dtype=np.bool_)
    for first, end in windows.all:
        own, lines = slice(first, end), blocks.fit(first, end)
        asked[own] = True
        if lines:
            least[own], most[own] = np.minimum(least[own], lines.rates.min()), np.maximum(most[own], lines.rates.max())
    beginning = dict(windows.beginning)
    ending: dict[int, Lines] = {}
    for first, end in windows.ending:
        lines = blocks.fit(first, end)
        if lines:
            ending.setdefault(end, lines)
    for block in range(count):
        before = ending.get(block)
        behind = blocks.fit(block + 1, beginning[block + 1]) if block + 1 in beginning else None
        if before and behind and _meet(before, behind, edges[block : block + 2]):
            least[block] = min(least[block], before.rates.min(), behind.rates.min())
            most[block] = max(most[block], before.rates.max(), behind.rates.max())
    one_sided = _find_one_sided(blocks, piece)
    unknown = ~asked | one_sided
    unknown[[0, -1]] = True
    least[unknown], most[unknown] = rates.middle - rates.reach, rates.middle + rates.reach
    lowest, highest = _limit_change(blocks, dict(long.beginning))
    lowest[one_sided], highest[one_sided] = -np.inf, np.inf
    return Slopes(edges[:-1], np.maximum(least, lowest), np.minimum(most, highest))


def _find_one_sided(blocks: _Blocks, piece: float) -> Mask:
    """Tell of which blocks at both ends of the evidence one side alone is bounded for a piece: any rate may hide."""
    (x, low, high), edges = blocks.evidence.given, blocks.edges
    sides = [x[np.isfinite(side)] for side in (low, high)]
    if not all(len(side) for side in sides):
        return np.ones(len(edges) - 1, dtype=np.bool_)
    first, last = max(side[0] for side in sides), min(side[-1] for side in sides)
    one_sided: Mask = ((edges[1:] <= first) & (first > x[0] + piece)) | ((edges[:-1] >= last) & (last < x[-1] - piece))
    return one_sided


def _limit_change(blocks: _Blocks, longest: dict[int, int]) -> tuple[Floats, Floats]:
    """Return the least and the largest rate that a change can lead to which long windows hide, for each block.

    Args:
        blocks: of the evidence.
        longest: first block of each window -> the one behind its last.
    """
    count = len(blocks.edges) - 1
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    # Those that others hold, at the end of the evidence, tell less.
    for first in [first for first in longest if longest[first] > longest.get(first - 1, 0)]:
        lines, own = blocks.fit(first, longest[first]), slice(first, longest[first])
        lowest[own] = np.minimum(lowest[own], lines.rates.min() - _CHANGE if lines else -np.inf)
        highest[own] = np.maximum(highest[own], lines.rates.max() + _CHANGE if lines else np.inf)
    untold = lowest > highest
    return np.where(untold, -np.inf, lowest), np.where(untold, np.inf, highest)


def _meet(before: Lines, behind: Lines, at: Floats) -> bool:
    """Tell whether a line of each side can have one offset between two stamps."""
    one, other = ((lines.offsets[:, None] + lines.rates[:, None] * at) for lines in (before, behind))
    return bool(one.min() <= other.max() and other.min() <= one.max())


def _list_stretches(limits: Slopes, windows: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """Return stretches of blocks, and whether they are told: no window that holds them holds one that is not."""
    untold = ~np.isfinite(limits.low)
    told = np.ones(len(untold), dtype=np.bool_)
    for first, end in windows:
        told[first:end] &= not untold[first:end].any()
    edges = [0, *(np.flatnonzero(np.diff(told)) + 1).tolist(), len(told)]
    return [(first, end, bool(told[first])) for first, end in pairwise(edges)]
