"""Which records did a source lose, when, and how many?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect

# Rows of `losses` of a log that begins in the middle of the run: what lacks lies before its first line.
LACKS_HEAD = (
    (pl.col("source").cast(pl.String) == "amd_log") & pl.col("from_ns").is_null() & pl.col("to_ns").is_not_null()
)


def summarize_losses(losses: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source and CPU: spans with losses and the records lost in them.

    `untold` counts the spans whose number of lost records the source does not tell.
    """
    return collect(
        losses.with_columns(as_text("source"))
        .group_by("source", "cpu")
        .agg(
            pl.len().cast(pl.Int64).alias("spans"),
            pl.col("count").sum().alias("lost"),
            pl.col("count").is_null().sum().cast(pl.Int64).alias("untold"),
            pl.col("from_ns").min().alias("first_ns"),
            pl.col("to_ns").max().alias("last_ns"),
        )
        .sort("source", "cpu")
    )


def count_at_least(losses: pl.DataFrame) -> int:
    """Return how many of the lost records are what follows from those that are there, so that more may lack.

    The log never tells how many of its lines are missing (`link.log_losses`).

    Args:
        losses: as `summarize_losses` returns them.
    """
    return int(losses.filter(pl.col("source") == "amd_log")["lost"].sum() or 0)
