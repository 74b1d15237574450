"""Which HSA calls did a probe or a profiler see, and how long did they take?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, count_failed, describe_ns


def summarize_hsa_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source and function, the longest total first."""
    return collect(
        events.filter(pl.col("layer") == "hsa")
        .with_columns(as_text("name", "source"))
        .group_by("source", "name")
        .agg(pl.len().cast(pl.Int64).alias("calls"), *count_failed(), *describe_ns("dur_ns"))
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )
