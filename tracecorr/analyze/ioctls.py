"""Which ioctls reached the driver, how long did they take, and which failed?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, count_failed, describe_ns


def summarize_ioctls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per ioctl on a KFD or DRM descriptor, the longest total first."""
    ioctls = events.filter(pl.col("layer").cast(pl.String) == "ioctl")
    return collect(
        ioctls.with_columns(as_text("name"))
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *count_failed(),
            *describe_ns("dur_ns", (95,)),
        )
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )
