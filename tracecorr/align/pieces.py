"""Pieces of a clock map: spans of time in which the clock ran at one rate, with their bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracecorr.align.bounds import Floats, Ints, Mask
from tracecorr.align.lines import Lines, fit_lines

# The rate of a disciplined clock (NTP) moves by less than this between two corrections; a larger change shows
# as a contradiction and starts a new piece.
WANDER = 1e-6
# Into so many parts the slopes of a piece are cut: what each of them leaves is bounded apart.
_CELLS = 32
# Between inequalities that are further apart than this part of the piece the bounds are told in between, too.
_GRID = 2000
# How many later inequalities must agree with the old piece before one that does not is called wrong.
_LOOK_AHEAD = 48


@dataclass(frozen=True)
class Piece:
    """Hold the bounds of the offset in one piece.

    The offset minus `rate` * x changes by at most `slack` per ns, so every inequality also bounds its
    neighbourhood; `*_after` hold what inequalities up to a stamp say, `*_before` what those from it on say.

    Args:
        first, last: span of x in which the clock is surely on this piece.
        rate: middle slope of the lines that satisfy all inequalities of the piece.
        slack: how far the slope may lie from it.
        x: stamps of the inequalities.
        low_after, low_before, high_after, high_before: bounds of offset - rate * x at `x`.
    """

    first: float
    last: float
    rate: float
    slack: float
    x: Floats
    low_after: Floats
    low_before: Floats
    high_after: Floats
    high_before: Floats

    def bound(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the lower and upper bound of the offset at each stamp."""
        place = np.searchsorted(self.x, at, side="right")
        before, after = np.maximum(place - 1, 0), np.minimum(place, len(self.x) - 1)
        # Left of the first inequality only the right ones speak, and the other way round.
        back = np.where(place > 0, (at - self.x[before]) * self.slack, np.inf)
        ahead = np.where(place < len(self.x), (self.x[after] - at) * self.slack, np.inf)
        low = np.maximum(self.low_after[before] - back, self.low_before[after] - ahead)
        high = np.minimum(self.high_after[before] + back, self.high_before[after] + ahead)
        # Rounding of floats may cross bounds that touch.
        middle = (low + high) / 2
        return np.minimum(low, middle) + self.rate * at, np.maximum(high, middle) + self.rate * at


@dataclass(frozen=True)
class Pieces:
    """Hold a curve: its pieces in time order, and the piece between each two of them.

    A change of the rate lies somewhere between what only one of two pieces satisfies. There the slope is one
    of theirs; where no such curve exists (a step), the place is None, and the clock is on either of them.
    """

    pieces: tuple[Piece, ...]
    changes: tuple[Piece | None, ...]

    def bound(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the lower and upper bound of the offset at each stamp."""
        low, high = np.full(len(at), np.inf), np.full(len(at), -np.inf)
        starts = np.array([-np.inf, *(p.first for p in self.pieces[1:])])
        ends = np.array([*(p.last for p in self.pieces[:-1]), np.inf])
        for k, piece in enumerate(self.pieces):
            _widen(low, high, at, (at >= starts[k]) & (at <= ends[k]), piece)
        for k, change in enumerate(self.changes):
            between = (at > ends[k]) & (at < starts[k + 1])
            for piece in [change] if change else self.pieces[k : k + 2]:
                _widen(low, high, at, between, piece)
        return low, high


def settle_steps(curve: Pieces, stamps: Floats) -> Pieces:
    """Return the curve with each step at the gap in the source's own stamps that the step made.

    A clock that goes on while CLOCK_MONOTONIC stands (a suspend) jumps by the length of the step between two of its
    stamps. Where no gap is long enough, or two are, the moment of the step stays open.

    Args:
        curve: the pieces.
        stamps: sorted stamps of everything that the source recorded, on the scale of the curve.
    """
    pieces = list(curve.pieces)
    for k in [k for k, change in enumerate(curve.changes) if change is None]:
        ends = np.array([pieces[k].last]), np.array([pieces[k + 1].first])
        jump = float(pieces[k].bound(ends[0])[0][0] - pieces[k + 1].bound(ends[1])[1][0])
        inside = stamps[(stamps >= ends[0][0]) & (stamps <= ends[1][0])]
        long = np.flatnonzero(np.diff(inside) >= jump)
        if jump > 0 and len(long) == 1:
            pieces[k] = replace(pieces[k], last=float(inside[long[0]]))
            pieces[k + 1] = replace(pieces[k + 1], first=float(inside[long[0] + 1]))
    return Pieces(tuple(pieces), curve.changes)


def _widen(low: Floats, high: Floats, at: Floats, inside: Mask, piece: Piece) -> None:
    rows = np.flatnonzero(inside)
    piece_low, piece_high = piece.bound(at[rows])
    low[rows], high[rows] = np.minimum(low[rows], piece_low), np.maximum(high[rows], piece_high)


def split_pieces(x: Floats, low: Floats, high: Floats, rate: float, max_rate: float) -> Pieces | None:
    """Return the fewest pieces that satisfy the inequalities, but for single ones that are wrong.

    Args:
        x, low, high: sorted stamps and bounds, infinite where there is none.
        rate: known slope of the offset.
        max_rate: how far the slope may lie from it.

    Returns: None when no piece can be bounded on both sides.
    """
    wrong = np.zeros(len(x), dtype=np.bool_)
    runs: list[Ints] = []
    start = 0
    while start < len(x):
        chosen, bounded, start = _grow(x, low, high, start, wrong, (rate, max_rate))
        if bounded and (len(chosen) >= 3 or (not runs and start == len(x))):
            runs.append(chosen)
    if not runs:
        return None
    later = [_reach_back(x, low, high, runs[k - 1 : k + 1], (rate, max_rate)) for k in range(1, len(runs))]
    sure = [_trim(run, first, low, high) for run, first in zip(runs, [*later, None], strict=True)]
    pieces = [_build_run(x, low, high, run, (rate, max_rate)) for run in sure]
    changes = [
        _build_change(x, low, high, pieces[k], pieces[k + 1], np.concatenate([runs[k], runs[k + 1][:1]]), max_rate)
        for k in range(len(pieces) - 1)
    ]
    return Pieces(tuple(pieces), tuple(changes))


def _grow(
    x: Floats, low: Floats, high: Floats, start: int, wrong: Mask, rates: tuple[float, float]
) -> tuple[Ints, bool, int]:
    """Return the longest run from `start` on that lines satisfy, whether any do, and where the next run begins.

    A single inequality that contradicts both its past and its future is marked as wrong and left out.
    """
    skipped: list[int] = []
    while True:
        end, lines = _longest(x, low, high, start, skipped, rates)
        if end >= len(x):
            break
        # Does the run go on without this one?
        ahead = np.arange(start, min(end + 1 + _LOOK_AHEAD, len(x)))
        without = ahead[~np.isin(ahead, [*skipped, end])]
        if end + 1 >= len(x) or _fits(x, low, high, without, rates) is None:
            break
        skipped.append(end)
        wrong[end] = True
    chosen = np.arange(start, max(end, start + 1))
    return chosen[~np.isin(chosen, skipped)], lines is not None, max(end, start + 1)


def _longest(
    x: Floats, low: Floats, high: Floats, start: int, skipped: list[int], rates: tuple[float, float]
) -> tuple[int, Lines | None]:
    good, bad = start, len(x) + 1
    found: Lines | None = None
    step = 64
    while bad - good > 1:
        end = min(good + step, bad - 1) if bad > len(x) else (good + bad) // 2
        end = min(end, len(x))
        chosen = np.arange(start, end)
        one_sided = not (np.isfinite(low[start:end]).any() and np.isfinite(high[start:end]).any())
        lines = _fits(x, low, high, chosen[~np.isin(chosen, skipped)], rates)
        if lines is not None or one_sided:
            good, found, step = end, lines, step * 4
            if end == len(x):
                break
        else:
            bad = end
    return good, found


def _fits(x: Floats, low: Floats, high: Floats, chosen: Ints, rates: tuple[float, float]) -> Lines | None:
    return fit_lines(x[chosen], low[chosen], high[chosen], *rates)


def _reach_back(x: Floats, low: Floats, high: Floats, pair: list[Ints], rates: tuple[float, float]) -> int:
    """Return the first inequality of the earlier run from which on the later run's lines fit, too."""
    earlier, later = pair
    good, bad = len(earlier), -1
    while good - bad > 1:
        middle = (good + bad) // 2
        if _fits(x, low, high, np.concatenate([earlier[middle:], later]), rates) is not None:
            good = middle
        else:
            bad = middle
    return int(earlier[good]) if good < len(earlier) else int(earlier[-1]) + 1


def _trim(chosen: Ints, later: int | None, low: Floats, high: Floats) -> Ints:
    """Leave out what the next run, which reaches back to index `later`, satisfies as well."""
    if later is None:
        return chosen
    sure = chosen[chosen < later]
    bounded = len(sure) >= 3 and np.isfinite(low[sure]).any() and np.isfinite(high[sure]).any()
    return sure if bounded else chosen


def _build_run(x: Floats, low: Floats, high: Floats, chosen: Ints, rates: tuple[float, float]) -> Piece:
    """Return the piece of a run: at any moment the slope lies within WANDER of that of one line through the run."""
    lines = _fits(x, low, high, chosen, rates)
    assert lines is not None  # a part of a run that lines satisfy
    slack = min(lines.spread + WANDER, 2 * rates[1])
    whole = _build(x, low, high, chosen, (lines.rate, slack))
    return _narrow(whole, x[chosen], low[chosen], high[chosen], lines) if 0 < slack - lines.spread < slack else whole


def _narrow(whole: Piece, x: Floats, low: Floats, high: Floats, lines: Lines) -> Piece:
    """Return the piece with the bounds that its slopes leave when only one of them is true.

    `whole` lets the clock take any of the slopes at any moment. Here each part of the slopes gives bounds of its own;
    parts that some inequality contradicts fall out, and what the others leave together is kept.
    """
    grid = np.union1d(x, np.linspace(x[0], x[-1], _GRID))
    half = lines.spread / _CELLS
    centres = lines.rate - lines.spread + half * (2 * np.arange(_CELLS) + 1)
    least, most = np.full(len(grid), np.inf), np.full(len(grid), -np.inf)
    for centre in centres:
        cell = _build(x, low, high, np.arange(len(x)), (float(centre), half + whole.slack - lines.spread))
        if (np.maximum(cell.low_after, cell.low_before) <= np.minimum(cell.high_after, cell.high_before)).all():
            below, above = cell.bound(grid)
            np.minimum(least, below, out=least)
            np.maximum(most, above, out=most)
    if not np.isfinite(least).all():
        return whole
    level = whole.rate * grid
    return replace(
        whole, x=grid, low_after=least - level, low_before=least - level, high_after=most - level,
        high_before=most - level,
    )  # fmt: skip


def _build_change(
    x: Floats, low: Floats, high: Floats, before: Piece, after: Piece, run: Ints, max_rate: float
) -> Piece | None:
    """Return the piece between two others: slopes of both, and what inequalities say there; None for a step."""
    least = min(before.rate - before.slack, after.rate - after.slack)
    largest = max(before.rate + before.slack, after.rate + after.slack)
    rate = (least + largest) / 2
    chosen = run[x[run] >= before.last]
    change = _build(x, low, high, chosen, (rate, min((largest - least) / 2, 2 * max_rate)))
    lowest, highest = np.maximum(change.low_after, change.low_before), np.minimum(change.high_after, change.high_before)
    return change if (lowest <= highest).all() else None


def _build(x: Floats, low: Floats, high: Floats, chosen: Ints, slopes: tuple[float, float]) -> Piece:
    rate, slack = slopes
    at = x[chosen]
    level_low, level_high = low[chosen] - rate * at, high[chosen] - rate * at
    # max over i of (level_i - slack * distance), as running extremes from either side
    low_after = np.maximum.accumulate(level_low + slack * at) - slack * at
    low_before = np.maximum.accumulate((level_low - slack * at)[::-1])[::-1] + slack * at
    high_after = np.minimum.accumulate(level_high - slack * at) + slack * at
    high_before = np.minimum.accumulate((level_high + slack * at)[::-1])[::-1] - slack * at
    return Piece(float(at[0]), float(at[-1]), rate, slack, at, low_after, low_before, high_after, high_before)
