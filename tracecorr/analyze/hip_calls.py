"""Which HIP calls were made, how often, and how long did they take?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, count_failed, describe_ns


def summarize_hip_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per HIP function, the longest total first.

    Times are those of whole calls: a call inside another one counts in both. Calls whose return
    was not seen are counted in `calls` and `half_seen`, and in no time.
    """
    calls = events.filter(pl.col("layer").cast(pl.String) == "hip")
    return collect(
        calls.with_columns(as_text("name"))
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            count_failed().cast(pl.Int64),
            pl.col("dur_ns").is_null().sum().cast(pl.Int64).alias("half_seen"),
            *describe_ns("dur_ns"),
        )
        .sort(["total_ns", "name"], descending=[True, False])
    )
