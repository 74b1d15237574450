"""Clocks that were set back: two stretches of time that show the same stamps, so that no stamp tells which it is of."""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np

from tracecorr.clock.bounds import Floats, Inequalities, Ints, Mask

# So many in a row, on either side, are contradicted by as many others: single wrong ones are not. Samples are seldom
# wrong, and few.
_IN_A_ROW, _SAMPLES_IN_A_ROW = 5, 2
# Where many of them tell less than this part of what is typical, it was not set back once.
_ALIKE = 0.5


def find_set_back(given: Inequalities, *, sure: bool = True) -> Floats:
    """Return by how much a clock was set back, ns, one value for each two stamps that show it; none when it was not.

    An inequality says before or after which moment its stamp was shown. Of two stamps the later moment belongs to the
    larger one. As many as have to be wrong for that to hold are put together, one of each side; where they follow each
    other without one that is right in between, it is the clock that went back.

    Args:
        given: the inequalities.
        sure: whether single ones may be wrong.
    """
    earliest, latest = given.x + given.low, given.x + given.high
    lows, highs = _match(earliest, latest)
    least = _SAMPLES_IN_A_ROW if given.has_both_sides.all() else _IN_A_ROW
    in_a_row = min(_longest_row(earliest, lows), _longest_row(latest, highs))
    found: Floats = (given.low[lows] - given.high[highs])[: None if in_a_row >= (least if sure else 1) else 0]
    return found


def describe_set_back(back_ns: Floats, total: int) -> str:
    """Return what a user is told of a clock that was set back.

    Args:
        back_ns: as `find_set_back` returns them.
        total: inequalities given.
    """
    typical = float(np.median(back_ns))
    if np.quantile(back_ns, 0.1) < _ALIKE * typical:
        return f"{len(back_ns)} of {total} pairs contradict the others in which of two stamps is the later one"
    return (
        f"{len(back_ns)} of {total} pairs show that the clock was set back by about {typical / 1e6:.3g} ms, or is "
        "another one on each CPU, so that a stamp may be of two moments; trace with trace_clock mono"
    )


def _match(earliest: Floats, latest: Floats) -> tuple[Ints, Ints]:
    """Return the most pairs of a stamp and a larger one that was shown before it, each in one pair at most.

    Args:
        earliest, latest: limits of the moment at which each stamp was shown, in the order of the stamps; infinite where
            there is none.
    """
    before = np.concatenate([[-np.inf], np.maximum.accumulate(earliest)[:-1]])
    behind = np.concatenate([np.minimum.accumulate(latest[::-1])[::-1][1:], [np.inf]])
    pairs: list[tuple[int, int]] = []
    # The moments of smaller stamps that are in no pair yet. The least one that is late enough is taken: the later ones
    # suit more of the stamps to come.
    free: list[tuple[float, int]] = []
    for row in np.flatnonzero((latest < before) | (earliest > behind)).tolist():
        place = bisect_right(free, (float(latest[row]), len(latest)))
        if place < len(free):
            pairs.append((free.pop(place)[1], row))
        if np.isfinite(earliest[row]):
            insort(free, (float(earliest[row]), row))
    found: Ints = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _longest_row(moment: Floats, chosen: Ints) -> int:
    """Return how many of the chosen rows follow each other at most, among all with a moment, in the order of these."""
    marked: Mask = np.zeros(len(moment), dtype=np.bool_)
    marked[chosen] = True
    known = np.flatnonzero(np.isfinite(moment))
    in_order = marked[known[np.argsort(moment[known], kind="stable")]]
    others = np.flatnonzero(~np.concatenate([[False], in_order, [False]]))
    return int(np.diff(others).max()) - 1
