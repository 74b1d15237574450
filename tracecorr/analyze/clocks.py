"""How was each clock brought to CLOCK_MONOTONIC, and how well is that known?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect


def summarize_clocks(clock_map: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per piece of the clock map; `error_ns` is the width of its bounds."""
    return collect(
        clock_map.with_columns(as_text("source", "method"))
        .sort("source", "from_ns")
        .select(
            "source",
            "method",
            "from_ns",
            (pl.col("to_ns") - pl.col("from_ns")).alias("span_ns"),
            "offset_ns",
            "rate_ppb",
            (pl.col("lo_ns") + pl.col("hi_ns")).alias("error_ns"),
            "pairs",
            "violated",
        )
    )
