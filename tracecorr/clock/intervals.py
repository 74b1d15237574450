"""Moments and spans of threads: what lies between which lines of a log, and which spans of one key meet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tracecorr.clock.bounds import NO_LOW, Ints
from tracecorr.clock.rows import number_groups, order_by_group

# The times of each thread's lines, sorted.
Moments = dict[int, Ints]
_NONE = NO_LOW

# What may lie in more silences than this is asked nothing: it tells little and costs much.
MAX_SILENCES = 64


def list_moments(log: pl.DataFrame, start: str, end: pl.Expr) -> Moments:
    """Return every moment at which each thread printed a line.

    Args:
        log: rows of the log with `thread`.
        start: column of their first line's time.
        end: time of the line that ended the row, null where there is none.
    """
    lines = log.select("thread", pl.col(start).alias("start"), end.alias("end")).drop_nulls("thread")
    # Threads may be many and short, so nothing is asked of frames for each of them.
    sides = [lines[name].fill_null(_NONE).to_numpy() for name in ("start", "end")]
    return {
        thread: np.sort(np.concatenate([own[own != _NONE] for own in (side[rows] for side in sides)]), kind="stable")
        for thread, rows in _rows_by_thread(lines["thread"])
    }


def _rows_by_thread(threads: pl.Series) -> Iterator[tuple[int, Ints]]:
    """Yield the numbers of the rows of each thread, in their order."""
    order, codes, groups = order_by_group(threads.to_frame("thread"), ["thread"])
    bounds = np.searchsorted(codes, np.arange(len(groups) + 1))
    for number, thread in enumerate(groups["thread"]):
        yield thread, order[bounds[number] : bounds[number + 1]]


def list_silences(lines: Ints, earliest: Ints, latest: Ints) -> tuple[Ints, Ints]:
    """Return in which silences of a thread each thing may lie, as pairs (thing, silence).

    Silence i lies between line i - 1 and line i; the first has no start, the last no end.

    Args:
        lines: sorted times of the thread's lines.
        earliest, latest: first and last moment that each thing can have had.
    """
    first = np.searchsorted(lines, earliest, side="right")
    last = np.searchsorted(lines, latest, side="right")
    near = np.flatnonzero((last - first < MAX_SILENCES) & (last >= first))
    row, silence = list_numbers(first[near], last[near] - first[near] + 1)
    return near[row], silence


def list_numbers(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of several ranges, one range behind the other, as pairs (range, number).

    >>> list_numbers(np.array([7, 3]), np.array([2, 1]))
    (array([0, 0, 1]), array([7, 8, 3]))

    Args:
        first: the first number of each range.
        count: how many numbers each of them has.
    """
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + first[owner]


def pair_spans(one: pl.DataFrame, other: pl.DataFrame, keys: list[str]) -> tuple[Ints, Ints]:
    """Return which spans of one key meet, as pairs (row of `one`, row of `other`) in the order of the rows.

    The rows of one key are not crossed: queues are made on one ring again and again, and each by one thread.

    Args:
        one, other: columns `keys`, numbers of one type, and low, high; rows that lack any of them meet none.
        keys: what must be equal.
    """
    sides = [frame.select(*keys, "low", "high") for frame in (one, other)]
    rows = [side.select(pl.all_horizontal(pl.all().is_not_null())).to_series().arg_true().to_numpy() for side in sides]
    sides = [side[kept] for side, kept in zip(sides, rows, strict=True)]
    both = pl.concat(sides)
    key, _ = number_groups(both, keys)
    times, ranks = np.unique(both.select("low", "high").to_numpy(), return_inverse=True)
    low, high = (ranks.reshape(-1, 2) + (key * max(len(times), 1))[:, None]).T
    count = len(sides[0])
    order = np.argsort(low[count:], kind="stable")
    # Of the spans in order of their starts, those up to the last that begins soon enough, from the first one on which
    # reaches far enough itself or stands behind one that does.
    reach = np.maximum.accumulate(high[count:][order])
    first = np.searchsorted(reach, low[:count], side="left")
    near = np.maximum(np.searchsorted(low[count:][order], high[:count], side="right") - first, 0)
    left, place = list_numbers(first, near)
    right = order[place]
    meets = high[count:][right] >= low[left]
    left, right = rows[0][left[meets]], rows[1][right[meets]]
    sorted_pairs = np.lexsort((right, left))
    return left[sorted_pairs], right[sorted_pairs]
