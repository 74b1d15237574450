"""What became of every byte that was read?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect


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
