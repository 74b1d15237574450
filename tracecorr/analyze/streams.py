"""Which streams existed, and to which queues did they submit?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect


def summarize_streams(streams: pl.LazyFrame, stream_queues: pl.LazyFrame, launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stream: its queues in order of use, and what it submitted."""
    used = (
        stream_queues.sort("from_ns")
        .group_by("stream", maintain_order=True)
        .agg(
            pl.col("queue").unique(maintain_order=True).cast(pl.String).str.join(" ").alias("queues"),
            pl.col("evidence").cast(pl.String).unique().sort().str.join(" ").alias("queue_evidence"),
        )
    )
    kind = pl.col("kind").cast(pl.String)
    submitted = launches.group_by("stream").agg(
        (kind == "dispatch").sum().cast(pl.Int64).alias("dispatches"),
        kind.str.starts_with("barrier").sum().cast(pl.Int64).alias("barriers"),
        (kind == "copy").sum().cast(pl.Int64).alias("copies"),
    )
    return collect(
        streams.select("stream", "process", "handle", "priority", "flags", "created_ns", "destroyed_ns")
        .join(used, on="stream", how="left")
        .join(submitted, on="stream", how="left")
        .with_columns(pl.col("dispatches", "barriers", "copies").fill_null(0), *as_text("queues", "queue_evidence"))
        .sort("stream")
    )
