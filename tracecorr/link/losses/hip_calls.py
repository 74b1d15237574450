"""HIP calls of the log: many rules look for lost lines among all of them, and ask which are of one thread or function.

They are most rows of a log, so they are chosen once, and what several rules ask is found once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.clock.bounds import Ints
from tracecorr.clock.rows import Codes, number_rows, select_marked
from tracecorr.model.kinds import HALF_SEEN, Flag

THREAD, FUNCTION = ["file", "thread"], ["file", "name"]
# A function that shows both lines of fewer of its calls prints one line only.
LEAST_WHOLE = 0.1
_COLUMNS = ("file", "offset", "end_offset", "thread", "name", "flags")
_NOWHERE = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class HipCalls:
    """Hold the HIP calls of the log.

    Args:
        rows: file, offset, end_offset, thread, name, flags (0 where they have none), and row (of all rows, whose order
            they have).
    """

    rows: pl.DataFrame

    @classmethod
    def of(cls, events: pl.DataFrame) -> HipCalls:
        """Return the HIP calls among rows of all sources."""
        mine = events.select((pl.col("layer") == "hip") & (pl.col("source") == "amd_log")).to_series()
        chosen = events.select(_COLUMNS).filter(mine)
        return cls(chosen.with_columns(pl.col("flags").fill_null(0), row=mine.arg_true()))

    @cached_property
    def threaded(self) -> HipCalls:
        """Return those whose thread is known."""
        rows = select_marked(self.rows, pl.col("thread").is_not_null())
        return self if rows.height == self.rows.height else HipCalls(rows)

    @cached_property
    def threads(self) -> tuple[Codes, Ints]:
        """Return the number of each call's thread, and the first call of each thread."""
        return number_rows(self.rows, THREAD)

    @cached_property
    def functions(self) -> tuple[Codes, Ints]:
        """Return the number of each call's function in its file, and the first call of each."""
        return number_rows(self.rows, FUNCTION)

    @cached_property
    def extents(self) -> pl.DataFrame:
        """Return file, thread, first, last: where the first and the last call of each thread begin."""
        codes, at = self.threads
        offset = self.rows["offset"].to_numpy()
        first, last = native.span_groups(codes, at, offset, offset)
        return self.rows.select(THREAD)[at].with_columns(first=first, last=last)

    @cached_property
    def first_enters(self) -> pl.DataFrame:
        """Return file, thread, entered (offset): where each thread first enters a call.

        Exits before that are of calls that were entered before the log begins.
        """
        codes, at = self.threads
        is_enter = (self.rows["flags"] & int(Flag.EXIT_ONLY) == 0).to_numpy()
        offset = np.where(is_enter, self.rows["offset"].to_numpy(), _NOWHERE)
        entered, _ = native.span_groups(codes, at, offset, offset)
        return self.rows.select(THREAD)[at].with_columns(entered=entered).filter(pl.col("entered") != _NOWHERE)

    @cached_property
    def paired(self) -> pl.DataFrame:
        """Return file, name, total (calls) of the functions that show both lines of their calls, as a rule."""
        names = self._count(self.rows["flags"] & HALF_SEEN > 0, "halves")
        return names.filter(pl.col("total") - pl.col("halves") >= LEAST_WHOLE * pl.col("total"))

    @cached_property
    def printed(self) -> pl.DataFrame:
        """Return file, name, total, exits: how many calls each function has, and of how many an exit is printed."""
        return self._count(self.rows["end_offset"].is_not_null(), "exits")

    def _count(self, marks: pl.Series, name: str) -> pl.DataFrame:
        codes, at = self.functions
        counts = native.count_groups(codes, len(at), marks.to_numpy())
        total, marked = (pl.Series(side, dtype=pl.UInt32) for side in counts)
        return self.rows.select(FUNCTION)[at].with_columns(total.alias("total"), marked.alias(name))
