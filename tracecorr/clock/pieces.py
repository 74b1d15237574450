"""Pieces of a clock map: spans of time without a step, with the bounds of the offset in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities, Ints, Mask
from tracecorr.clock.brackets import Gaps, find_gaps, find_parts, follow_samples, pick_narrow
from tracecorr.clock.runs import Run, find_sound_runs
from tracecorr.clock.slopes import Rates, Slopes, allow_all, find_slopes

# Between inequalities that are further apart than this part of a piece the bounds are told in between, too.
_GRID = 2000
# Between two samples so many other inequalities tell what the clock did, when they know it so many times better
# than its largest rate does.
_MANY, _TELLING = 12, 8
# When half of so many inequalities in a row are contradicted, it is the curve that is wrong there.
_CROWD = 8
# Between two steps a clock of any rate runs for so long; suspends alone may follow each other faster.
_SHORTEST_NS = 1e9
# Limits of slopes that let no curve through are made this much wider, so often.
_WIDER, _TIMES = 2.0, 8


@dataclass(frozen=True)
class Piece:
    """Hold the bounds of the offset in one piece.

    Between two knots the offset's slope lies within limits, so that the bounds at a knot also bound its neighbourhood.

    Args:
        first, last: span of x in which the clock is surely on this piece.
        x: the knots.
        low, high: bounds of the offset at each of them.
        slope_low, slope_high: limits of the slope before each knot, and after the last one.
    """

    first: float
    last: float
    x: Floats
    low: Floats
    high: Floats
    slope_low: Floats
    slope_high: Floats

    def bound(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the lower and upper bound of the offset at each stamp."""
        place = np.searchsorted(self.x, at, side="right")
        before, after = np.maximum(place - 1, 0), np.minimum(place, len(self.x) - 1)
        least, most = self.slope_low[place], self.slope_high[place]
        # Left of the first knot only the right ones speak, and the other way round.
        back = np.where(place > 0, at - self.x[before], np.nan)
        ahead = np.where(place < len(self.x), self.x[after] - at, np.nan)
        low = np.fmax(self.low[before] + least * back, self.low[after] - most * ahead)
        high = np.fmin(self.high[before] + most * back, self.high[after] - least * ahead)
        # Rounding of floats may cross bounds that touch.
        middle = (low + high) / 2
        return np.minimum(low, middle), np.maximum(high, middle)

    def list_turns(self) -> Floats:
        """Return where the bounds turn: at the knots, and between two of them where what one tells meets the other."""
        step = np.diff(self.x)
        least, most = self.slope_low[1:-1], self.slope_high[1:-1]
        turns = most > least
        step, least, most = step[turns], least[turns], most[turns]
        low = (most * step - np.diff(self.low)[turns]) / (most - least)
        high = (np.diff(self.high)[turns] - least * step) / (most - least)
        begins = self.x[:-1][turns]
        inside = [begins + np.clip(part, 0, step) for part in (low, high)]
        return np.concatenate([self.x, *inside])


@dataclass(frozen=True)
class Pieces:
    """Hold a curve: its pieces in time order, with a step between each two of them.

    Args:
        pieces: the pieces; between the end of one and the start of the next the clock is on either of them.
        runs: where the clock took up another rate: stamp, middle slope; the first one at the start.
        unclear: spans in which the curve is not understood: first and last stamp, lower and upper bound of the offset.
    """

    pieces: tuple[Piece, ...]
    runs: tuple[tuple[float, float], ...]
    unclear: tuple[tuple[float, float, float, float], ...] = ()

    @property
    def reach(self) -> tuple[Floats, Floats]:
        """Return from where to where the clock is surely on each piece; the outer ones go on without an end."""
        starts = np.array([-np.inf, *(piece.first for piece in self.pieces[1:])])
        return starts, np.array([*(piece.last for piece in self.pieces[:-1]), np.inf])

    def bound(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the lower and upper bound of the offset at each stamp."""
        low, high = np.full(len(at), np.inf), np.full(len(at), -np.inf)
        starts, ends = self.reach
        for k, piece in enumerate(self.pieces):
            _widen(low, high, at, (at >= starts[k]) & (at <= ends[k]), piece)
            if k + 1 < len(self.pieces):
                between = (at > ends[k]) & (at < starts[k + 1])
                for side in self.pieces[k : k + 2]:
                    _widen(low, high, at, between, side)
        for first, last, least, most in self.unclear:
            rows = (at >= first) & (at <= last)
            low[rows], high[rows] = np.minimum(low[rows], least), np.maximum(high[rows], most)
        return low, high

    def admit(self, given: Inequalities) -> Pieces:
        """Return the curve with wider bounds where many inequalities in a row contradict it: they are not all wrong.

        Args:
            given: the inequalities.
        """
        x, low, high = given
        least, most = self.bound(x)
        spans = []
        for is_there, contradicts in ((np.isfinite(low), low > most + 1), (np.isfinite(high), high < least - 1)):
            rows = np.flatnonzero(is_there)
            for first, last in _list_crowds(contradicts[rows]):
                span = slice(int(rows[first]), int(rows[last]) + 1)
                lowest = low[span].min(initial=np.inf, where=np.isfinite(low[span]))
                highest = high[span].max(initial=-np.inf, where=np.isfinite(high[span]))
                # Nothing tells that it ends with the evidence.
                start = -np.inf if first == 0 else float(x[span.start])
                end = np.inf if last == len(rows) - 1 else float(x[span.stop - 1])
                spans.append((start, end, float(lowest), float(highest)))
        return replace(self, unclear=(*self.unclear, *spans))


def _list_crowds(marked: Mask) -> list[tuple[int, int]]:
    """Return first and last row of each stretch in which many rows are marked, with some rows around it."""
    if len(marked) < _CROWD:
        return []
    counts = np.convolve(marked, np.ones(_CROWD, dtype=np.int64), mode="valid")
    near = np.zeros(len(marked), dtype=np.bool_)
    for start in np.flatnonzero(counts >= _CROWD // 2):
        near[max(start - _CROWD, 0) : start + 2 * _CROWD] = True
    edges = np.flatnonzero(np.diff(near.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(end) - 1) for first, end in edges.reshape(-1, 2)]


def _widen(low: Floats, high: Floats, at: Floats, inside: Mask, piece: Piece) -> None:
    rows = np.flatnonzero(inside)
    piece_low, piece_high = piece.bound(at[rows])
    low[rows], high[rows] = np.minimum(low[rows], piece_low), np.maximum(high[rows], piece_high)


def split_pieces(given: Inequalities, rates: Rates, sampled: Mask | None = None) -> Pieces | None:
    """Return the fewest pieces that satisfy the inequalities, but for single ones that are wrong.

    Args:
        given: the inequalities.
        rates: what is known of the slope of the offset.
        sampled: which of them are clock samples with both sides; None for none.

    Returns: None when no piece can be bounded on both sides.
    """
    if sampled is not None and sampled.all() and rates.reach:
        return _split_samples(given, rates)
    samples = np.zeros(len(given), dtype=np.bool_) if sampled is None else sampled
    runs = find_sound_runs(given, rates, samples)
    if not runs:
        return None
    parts = [[runs[0]]]
    for before, after in pairwise(runs):
        if _is_step(given, (before, after), rates):
            parts.append([after])
        else:
            parts[-1].append(after)
    pieces = [_build(given, part, rates, samples, part is parts[-1]) for part in parts]
    pieces = _end_at_evidence(pieces, [np.concatenate([run.sure for run in part]) for part in parts], given)
    kept = [k for k in range(len(parts)) if k in (0, len(parts) - 1) or not rates.reach or _is_long(pieces[k], rates)]
    unclear = tuple(_cover(pieces[k : m + 1]) for k, m in pairwise(kept) if m > k + 1)
    return Pieces(
        _open_steps([pieces[k] for k in kept]), tuple((float(given.x[run.sure[0]]), run.rate) for run in runs), unclear
    )


def _end_at_evidence(pieces: list[Piece], sure: list[Ints], given: Inequalities) -> list[Piece]:
    """Return the pieces with their sure spans ended, towards a step, by what only they allow.

    Where the offset falls, a lower bound far below a piece does not tell that the clock is still on it: on its way
    down it may have stood between the two.

    Args:
        pieces: without the span between them.
        sure: the inequalities of each piece that its neighbours do not satisfy.
        given: all inequalities.
    """
    ended = list(pieces)
    for k, (before, after) in enumerate(pairwise(pieces)):
        falls = before.bound(np.array([before.last]))[0][0] > after.bound(np.array([after.first]))[0][0]
        last = _near(before, given[sure[k]], below=bool(falls))[-1]
        first = _near(after, given[sure[k + 1]], below=not falls)[0]
        ended[k] = replace(ended[k], last=float(last))
        ended[k + 1] = replace(ended[k + 1], first=float(first))
    return ended


def _near(piece: Piece, given: Inequalities, *, below: bool) -> Floats:
    """Return the stamps at which an inequality lies no farther from a piece's bound than its bounds do from each other.

    Returns: all stamps when none does.
    """
    least, most = piece.bound(given.x)
    width = most - least
    near = given.low >= least - width if below else given.high <= most + width
    return given.x[near] if near.any() else given.x


def _is_long(piece: Piece, rates: Rates) -> bool:
    return (piece.last - piece.first) * (1 + rates.middle) >= _SHORTEST_NS


def _cover(pieces: list[Piece]) -> tuple[float, float, float, float]:
    """Return the span between the first and the last of some pieces, with all that the others allow of the offset.

    Steps that follow each other so fast are a clock that slews faster than any that is known, and goes on doing so
    where a short line seems to fit.
    """
    return (
        pieces[0].last, pieces[-1].first,
        min(float(piece.low.min()) for piece in pieces[1:-1]), max(float(piece.high.max()) for piece in pieces[1:-1]),
    )  # fmt: skip


def _split_samples(given: Inequalities, rates: Rates) -> Pieces | None:
    """Return the pieces of samples alone: between two steps, with the slopes of the gaps between them."""
    pieces, runs = [], []
    for samples, gaps in find_parts(given, rates):
        at = samples.x
        knots = np.unique(at)
        lowest, highest, least, most = _spread(_at_knots(samples, knots), gaps.alone())
        # Before the first sample nothing tells how it ran; behind the last one the gaps say so.
        least[0], most[0] = rates.middle - rates.reach, rates.middle + rates.reach
        pieces.append(Piece(float(at[0]), float(at[-1]), knots, lowest, highest, least, most))
        runs += gaps.list_runs(samples)
    return Pieces(_open_steps(pieces), tuple(runs)) if pieces else None


def _open_steps(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Return the pieces with their sure spans ended where a step may have set the clock back.

    Such a clock shows some stamps twice: at most those that lie nearer to the step than it is long.
    """
    opened = list(pieces)
    for k, (before, after) in enumerate(pairwise(pieces)):
        least, _ = before.bound(np.array([before.last]))
        _, most = after.bound(np.array([after.first]))
        back = max(float(most[0] - least[0]), 0.0)
        opened[k] = replace(opened[k], last=before.last - back)
        opened[k + 1] = replace(opened[k + 1], first=after.first + back)
    return tuple(opened)


def _is_step(given: Inequalities, runs: tuple[Run, Run], rates: Rates) -> bool:
    """Tell whether no curve with slopes that the clock can have leads from one run to the other."""
    before, after = runs
    chosen = np.concatenate([before.chosen[before.chosen >= before.sure[-1]], after.chosen[:1]])
    lowest, highest = _spread(given[chosen], allow_all(given.x[chosen], rates))[:2]
    return bool((lowest > highest).any())


def _build(given: Inequalities, part: list[Run], rates: Rates, sampled: Mask, is_last: bool) -> Piece:
    """Return the piece of some runs; its slopes are those of windows around each moment."""
    sure = np.concatenate([run.sure for run in part])
    # What the run behind a step satisfies as well may be on either side of it.
    last = part[-1].chosen if is_last else part[-1].sure
    chosen = np.unique(np.concatenate([*(run.chosen for run in part[:-1]), last]))
    x, own = given.x, given[chosen]
    at = own.x
    slopes = find_slopes(own, rates)
    if rates.reach:
        samples = np.flatnonzero(sampled & (x >= at[0]) & (x <= at[-1]))
        slopes = _follow_gaps(slopes, given, (samples, np.setdiff1d(chosen, samples)), rates)
    knots = np.union1d(np.linspace(at[0], at[-1], _GRID), np.union1d(at, slopes.edges)) if rates.reach else at
    tightest = _at_knots(own, knots)
    for _ in range(_TIMES if rates.reach else 0):
        lowest, highest = _spread(tightest, slopes)[:2]
        crossed = knots[lowest > highest]
        if not len(crossed):
            break
        slopes = slopes.widened(crossed, _WIDER)
    lowest, highest, least, most = _spread(tightest, slopes)
    return Piece(float(x[sure[0]]), float(x[sure[-1]]), knots, lowest, highest, least, most)


def _follow_gaps(slopes: Slopes, given: Inequalities, rows: tuple[Ints, Ints], rates: Rates) -> Slopes:
    """Return the limits with those of the gaps between samples, where the other inequalities do not tell more."""
    samples, others = rows
    samples = samples[pick_narrow(given[samples])] if len(samples) else samples
    parts = follow_samples(given[samples], rates) if len(samples) > 1 else []
    if len(parts) != 1 or len(parts[0]) < 2:
        return slopes
    good = samples[parts[0]]
    gaps = find_gaps(given[good], rates, given[others])
    return gaps.apply(slopes, _are_told(gaps, given[others], rates))


def _are_told(gaps: Gaps, given: Inequalities, rates: Rates) -> Mask:
    """Tell of each gap whether inequalities other than samples say by themselves what the clock did in it."""
    told = np.zeros(len(gaps.edges), dtype=np.bool_)
    if not len(given):
        return told
    x = given.x
    lowest, highest = _spread(given, allow_all(x, rates))[:2]
    rows = np.searchsorted(x, gaps.edges)
    for gap, (first, end) in enumerate(pairwise(rows.tolist())):
        unknown = rates.reach * (gaps.edges[gap + 1] - gaps.edges[gap])
        told[gap] = end - first >= _MANY and np.median((highest - lowest)[first:end]) < unknown / _TELLING
    return told


def _at_knots(given: Inequalities, knots: Floats) -> Inequalities:
    """Return the tightest inequalities at each knot."""
    place = np.searchsorted(knots, given.x)
    below, above = np.full(len(knots), -np.inf), np.full(len(knots), np.inf)
    np.maximum.at(below, place, given.low)
    np.minimum.at(above, place, given.high)
    return Inequalities(knots, below, above)


def _spread(given: Inequalities, slopes: Slopes) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the bounds that all inequalities leave at each stamp, and the limits of the slope around them."""
    # Before the first and behind the last stamp the slopes go on.
    x, low, high = given
    step = np.diff(x)
    least, most = slopes.between(x[:-1], x[1:])
    fall, rise = np.concatenate([[0.0], np.cumsum(least * step)]), np.concatenate([[0.0], np.cumsum(most * step)])
    # max over i before of (low_i + least slope on the way), and over i behind of (low_i - largest slope on the way)
    lowest = np.maximum(
        np.maximum.accumulate(low - fall) + fall, np.maximum.accumulate((low - rise)[::-1])[::-1] + rise
    )
    highest = np.minimum(
        np.minimum.accumulate(high - rise) + rise, np.minimum.accumulate((high - fall)[::-1])[::-1] + fall
    )
    first, last = slopes.between(x[:1], x[:1]), slopes.between(x[-1:], x[-1:])
    return lowest, highest, np.concatenate([first[0], least, last[0]]), np.concatenate([first[1], most, last[1]])
