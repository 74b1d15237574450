"""Open calls: those whose end is not known, because the end that the reader gave them may be another call's."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import Flag


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
