"""Spans in which a source lost records, and what became of every byte of every file."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect

# Rows of `losses` of a log that begins in the middle of the run: what is missing lies before its first line.
HAS_NO_HEAD = (
    (pl.col("source").cast(pl.String) == "amd_log") & pl.col("from_ns").is_null() & pl.col("to_ns").is_not_null()
)


def summarize_losses(losses: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source and CPU: spans with losses and the records lost in them.

    `untold` counts the spans with an unknown number of lost records.
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
    """Return how many lost records are a lower bound: lost lines of the log are counted by the gaps that they leave.

    Args:
        losses: as `summarize_losses` returns them.
    """
    return int(losses.filter(pl.col("source") == "amd_log")["lost"].sum() or 0)


def summarize_ledger(ledger: pl.LazyFrame, files: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per file, outcome and reason, with the bytes and their share of a file that is not empty."""
    sizes = files.select("file", "path", "size")
    return collect(
        ledger.with_columns(as_text("source", "outcome", "reason"))
        .group_by("file", "source", "outcome", "reason")
        .agg(pl.col("records").sum(), pl.col("bytes").sum())
        .join(sizes, on="file", how="left")
        .with_columns(percent=pl.when(pl.col("size") > 0).then(100 * pl.col("bytes") / pl.col("size")).round(2))
        .sort(["file", "outcome", "bytes"], descending=[False, True, True])
        .select("path", "source", "outcome", "reason", "records", "bytes", "percent")
    )


def summarize_unaccounted(ledger: pl.LazyFrame, files: pl.LazyFrame) -> pl.DataFrame:
    """Return the files whose ledger does not add up to their size: none, unless a reader is wrong."""
    booked = ledger.group_by("file").agg(pl.col("bytes").sum())
    return collect(
        files.select("file", "path", "size")
        .join(booked, on="file", how="inner")
        .filter(pl.col("bytes") != pl.col("size"))
        .select("path", "size", "bytes", (pl.col("size") - pl.col("bytes")).alias("missing"))
        .sort("path")
    )
