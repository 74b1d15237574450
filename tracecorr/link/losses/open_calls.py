"""Open calls: those whose end is not known, because the end that the reader gave them may be another call's."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.rows import attach_columns
from tracecorr.model.kinds import Flag


def open_over_holes(events: pl.DataFrame, holes: pl.DataFrame, files: pl.Series) -> pl.DataFrame:
    """Return `events` in which the HIP calls over holes of their log are open, but for those that tell their duration.

    In a hole lines of every thread may lack.

    Args:
        events: rows on one clock.
        holes: from_ns, to_ns: from the line before each to the one behind it.
        files: the logs that have holes.
    """
    if holes.is_empty():
        return events
    is_told = pl.col("flags").fill_null(0) & int(Flag.SPAN_TOLD) > 0
    mine = (pl.col("layer") == "hip") & (pl.col("source") == "amd_log") & pl.col("file").is_in(files.implode())
    calls = events.select("event", "ts_ns", "dur_ns", is_asked=mine & ~is_told).filter("is_asked").drop_nulls()
    # Of the holes behind the beginning of a call the one that ends first tells whether any lies in it.
    sides = holes.select("from_ns", "to_ns").drop_nulls().sort("from_ns")
    ends = np.append(np.minimum.accumulate(sides["to_ns"].to_numpy()[::-1])[::-1], np.iinfo(np.int64).max)
    first_end = ends[np.searchsorted(sides["from_ns"].to_numpy(), calls["ts_ns"].to_numpy())]
    over = calls.filter(calls["ts_ns"] + calls["dur_ns"] >= pl.Series(first_end))
    joined = attach_columns(events, over.select("event", is_open=pl.lit(value=True)))
    return joined.with_columns(take_ends(pl.col("is_open"))).drop("is_open")


def take_ends(is_open: pl.Expr) -> list[pl.Expr]:
    """Return the columns dur_ns and flags of events in which some calls are open.

    Args:
        is_open: which rows are these; null = not.
    """
    is_open, flags = is_open.fill_null(value=False), pl.col("flags")
    return [
        pl.when(~is_open).then("dur_ns").alias("dur_ns"),
        pl.when(is_open).then(flags.fill_null(0) | int(Flag.ENTER_ONLY)).otherwise(flags).alias("flags"),
    ]
