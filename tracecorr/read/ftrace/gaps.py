"""Gaps: spans of a CPU in which the trace itself tells that records were lost, and which calls they put in doubt."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.read.digits import Ints, Mask

# Two calls look like one where the exit of the first and the enter of the second are missing.
_LEAST_LOST = 2
_BEFORE_ALL, _AFTER_ALL = -(1 << 62), 1 << 62


class Gaps:
    """Keep the gaps that were told so far: per CPU where they begin and end, and the records lost in them."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, 4), np.int64)

    def add(self, losses: pl.DataFrame) -> None:
        """Take the rows of `LOSSES` of one block, with stamps as its records have them.

        A gap without a beginning begins before everything, one without an end never ends, and one of which the trace
        tells no count lost enough to doubt.
        """
        known = losses.filter(pl.col("cpu").is_not_null())
        rows = known.select(
            pl.col("cpu").cast(pl.Int64), pl.col("from_ns").fill_null(_BEFORE_ALL),
            pl.col("to_ns").fill_null(_AFTER_ALL), pl.col("count").fill_null(_LEAST_LOST),
        )  # fmt: skip
        self._rows = np.concatenate([self._rows, rows.to_numpy().astype(np.int64)])

    def list_doubtful(self, start: Ints, stop: Ints, cpu: Ints, other: Ints) -> Mask:
        """Return between which pairs of records of one thread two others of it may be missing.

        A thread that is on one CPU before and after was on another one meanwhile only if it moved twice: then a gap
        of that other CPU lies between the records, whole.

        Args:
            start: stamp of the first record of each pair.
            stop: stamp of the second one.
            cpu: CPU of the first record.
            other: CPU of the second one.
        """
        doubtful = np.zeros(len(start), np.bool_)
        if not len(self._rows) or not len(start):
            return doubtful
        near = np.flatnonzero(_lost(self._rows, start, stop)[0] >= _LEAST_LOST)
        lost = np.zeros(len(near), np.int64)
        start, stop, cpu, other = start[near], stop[near], cpu[near], other[near]
        for of in np.unique(self._rows[:, 0]).tolist():
            touched, whole = _lost(self._rows[self._rows[:, 0] == of], start, stop)
            lost += np.where((cpu != other) | (cpu == of), touched, whole)
        doubtful[near] = lost >= _LEAST_LOST
        return doubtful


def _lost(gaps: Ints, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Return the records lost in the gaps that each span touches, and in those that it holds; of one CPU's gaps."""
    begin, end = (gaps[np.argsort(gaps[:, column], kind="stable")] for column in (1, 2))
    begun, ended = (np.append(0, np.cumsum(rows[:, 3])) for rows in (begin, end))
    touched = begun[np.searchsorted(begin[:, 1], stop)] - ended[np.searchsorted(end[:, 2], start, "right")]
    whole = ended[np.searchsorted(end[:, 2], stop, "right")] - begun[np.searchsorted(begin[:, 1], start)]
    return touched, np.maximum(whole, 0)
