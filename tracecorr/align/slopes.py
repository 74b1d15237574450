"""Slopes: within what limits the rate of a clock lies, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracecorr.align.bounds import Floats
from tracecorr.align.lines import Lines, fit_lines

# The kernel changes the rate of CLOCK_MONOTONIC once a second, and chrony holds a slew for a second at least: so long a
# clock is taken to run at one rate. Where it evidently does not, an eighth as long, so many times: what fits half the
# time may still hide that it came and went within.
PIECE_NS, _SHORTER, _TIMES = 1e9, 8, 2
# Blocks of such a piece, least blocks of a capture, and most, so that a long one costs no more.
_PARTS, _FEWEST, _MOST = 16, 16, 2048
# The blocks at both ends are halved so often: what the clock begins in the last one, nothing behind it tells.
_FINER = 5
# A block holds so many inequalities at least, fewer than so many tell nothing. Where few tell of the rate, a piece is
# taken to last so much longer, or as long as so many blocks take.
_LEAST, _ANY = 2, 16
_LONGER, _FEW = 1.4, 7
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

    def between(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest slope of each span that no edge cuts."""
        place = np.clip(np.searchsorted(self.edges, (left + right) / 2, side="right") - 1, 0, len(self.edges) - 1)
        return self.low[place], self.high[place]

    def widened(self, at: Floats, factor: float) -> Slopes:
        """Return the limits with those around some stamps `factor` times as far apart."""
        place = np.clip(np.searchsorted(self.edges, at, side="right") - 1, 0, len(self.edges) - 1)
        near = np.unique(np.clip(place[:, None] + np.array([-1, 0, 1]), 0, len(self.edges) - 1))
        grown = np.zeros(len(self.edges))
        grown[near] = (factor - 1) * (self.high - self.low)[near] / 2
        return Slopes(self.edges, self.low - grown, self.high + grown)


def allow_all(x: Floats, rates: Rates) -> Slopes:
    """Return the limits when nothing is known but the clock's own ones."""
    return Slopes(x[:1], np.array([rates.middle - rates.reach]), np.array([rates.middle + rates.reach]))


def find_slopes(x: Floats, low: Floats, high: Floats, rates: Rates) -> Slopes:
    """Return the limits of the slope that inequalities leave to a clock that runs at one rate for a second at least.

    The time is cut into blocks. In each the clock runs at the rate of a line through all that a window around the block
    holds; or it changes its rate in there, from that of the window before the block to that of the one behind it. Which
    of these it is nobody knows, so that all are allowed. Where there is none the clock changes its rate faster: shorter
    windows are asked there. In a long pause between inequalities it may run at any rate; elsewhere a rate that long
    windows hide is near theirs.

    Args:
        x, low, high: sorted stamps and bounds, infinite where there is none.
        rates: what is known of the slope.
    """
    if not rates.reach:
        return allow_all(x, rates)
    evidence, piece = _Evidence(x, low, high, rates), PIECE_NS / (1 + rates.middle)
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

    x: Floats
    low: Floats
    high: Floats
    rates: Rates

    def keep(self, rows: slice) -> _Evidence:
        return _Evidence(self.x[rows], self.low[rows], self.high[rows], self.rates)

    def fit(self, rows: slice) -> Lines | None:
        """Return the lines through some rows; all that the clock can have where one side alone is bounded."""
        x, low, high = self.x[rows], self.low[rows], self.high[rows]
        if np.isfinite(low).any() and np.isfinite(high).any():
            return fit_lines(x, low, high, self.rates.middle, self.rates.reach)
        least, most = self.rates.middle - self.rates.reach, self.rates.middle + self.rates.reach
        return Lines(np.array([-np.inf, np.inf]), np.array([least, most]), np.inf)


def _settle(evidence: _Evidence, piece: float, times: int) -> Slopes:
    """Return the limits for a clock of one rate for `piece` at least, or where it is not, for less, so many times."""
    x = evidence.x
    if times < 0 or len(x) < _ANY or x[-1] <= x[0]:
        return allow_all(x, evidence.rates)
    edges = _cut(x, piece)
    windows = _list_windows(edges, piece)
    limits = _ask(evidence, edges, windows)
    parts = []
    for first, end, told in _list_stretches(limits, windows):
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


def _list_windows(edges: Floats, piece: float) -> list[tuple[int, int]]:
    """Return first block and the one behind the last of each window: a block less than a piece, so that pieces hold it.

    At both ends of the evidence they are shorter: what the clock did beyond is not known.
    """
    starts = np.arange(len(edges) - 1)
    block = float(np.median(np.diff(edges)))
    ends, latest = (
        np.searchsorted(edges, edges[:-1] + length, side="right") - 1
        for length in (piece - 0.999 * block, _LONGER * piece)
    )
    ends = np.maximum(np.maximum(ends, np.minimum(starts + _PARTS - 1, latest)), starts + _FEW)
    ends = np.minimum(ends, len(starts))
    return [*((0, end) for end in range(1, int(ends[0]))), *zip(starts.tolist(), ends.tolist(), strict=True)]


def _ask(evidence: _Evidence, edges: Floats, windows: list[tuple[int, int]]) -> Slopes:
    """Return the least and the largest slope of each block; infinite where none is possible."""
    rows = np.append(np.searchsorted(evidence.x, edges[:-1]), len(evidence.x))
    blocks = len(edges) - 1
    least, most = np.full(blocks, np.inf), np.full(blocks, -np.inf)
    # The longest windows that end and begin at each edge.
    ending: dict[int, Lines] = {}
    beginning: dict[int, Lines] = {}
    longest = dict(windows)
    for first, end in windows:
        lines = evidence.fit(slice(int(rows[first]), int(rows[end])))
        if lines is None:
            continue
        own = slice(first, end)
        least[own], most[own] = np.minimum(least[own], lines.rates.min()), np.maximum(most[own], lines.rates.max())
        ending.setdefault(end, lines)
        if longest[first] == end:
            beginning[first] = lines
    for block in range(blocks):
        before, behind = ending.get(block), beginning.get(block + 1)
        if before and behind and _meet(before, behind, edges[block : block + 2]):
            least[block] = min(least[block], before.rates.min(), behind.rates.min())
            most[block] = max(most[block], before.rates.max(), behind.rates.max())
    ends = [0, -1]
    least[ends], most[ends] = evidence.rates.middle - evidence.rates.reach, evidence.rates.middle + evidence.rates.reach
    lowest, highest = _limit_change(edges, longest, beginning)
    return Slopes(edges[:-1], np.maximum(least, lowest), np.minimum(most, highest))


def _limit_change(edges: Floats, longest: dict[int, int], beginning: dict[int, Lines]) -> tuple[Floats, Floats]:
    """Return the least and the largest rate that a change can lead to which long windows hide, for each block.

    Args:
        edges: of the blocks.
        longest: first block of each window -> the one behind its last.
        beginning: first block -> lines through that window, where there are any.
    """
    blocks = len(edges) - 1
    lowest, highest = np.full(blocks, np.inf), np.full(blocks, -np.inf)
    # Those that others hold, at the end of the evidence, tell less.
    for first in [first for first in longest if longest[first] > longest.get(first - 1, 0)]:
        lines, own = beginning.get(first), slice(first, longest[first])
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
