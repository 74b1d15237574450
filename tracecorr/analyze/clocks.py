"""How was each clock brought to CLOCK_MONOTONIC, and how well is that known?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect
from tracecorr.analyze.values import render_ns
from tracecorr.model.kinds import Flag


def summarize_clocks(clock_map: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per piece of the clock map; `error_ns` is the width of its bounds.

    `from_ns` is on CLOCK_MONOTONIC like the times of events, where the map has it on the source's clock.
    """
    return collect(
        clock_map.with_columns(as_text("source", "method"))
        .sort("source", "from_ns")
        .select(
            "source",
            "method",
            pl.col("from_ns") + pl.col("offset_ns"),  # the offset is the one at this stamp of the source
            (pl.col("to_ns") - pl.col("from_ns")).alias("span_ns"),
            "offset_ns",
            "rate_ppb",
            (pl.col("lo_ns") + pl.col("hi_ns")).alias("error_ns"),
            "pairs",
            "violated",
        )
    )


def describe_fitted_rate(clock_map: pl.LazyFrame) -> str:
    """Return, in words, by how much durations of the kernel trace are scaled; empty where no pairs fitted its rate."""
    source, method = (pl.col(c).cast(pl.String) for c in ("source", "method"))
    fitted = clock_map.filter(source.str.starts_with("ftrace") & (method == "causal_pairs"))
    rate = collect(fitted.select(pl.col("rate_ppb").abs().max())).item()
    if not rate:
        return ""
    return (
        f"durations are on the common clock: they carry the rate that was fitted to the trace's clock, up to "
        f"{rate / 1000:.1f} ppm, that is {render_ns(rate)} in each second"
    )


def summarize_time_errors(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source: how far the true start of its events may lie from `ts_ns`.

    This is the width of the whole interval: the clock's bounds and the steps of the printed time.
    """
    width = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    unaligned = pl.col("flags").fill_null(0) & int(Flag.UNALIGNED) > 0
    # Few widths occur, so that counting them is much cheaper than sorting all events.
    counts = collect(
        events.group_by("source", width.alias("width"), unaligned.alias("unaligned")).agg(rows=pl.len().cast(pl.Int64))
    )
    known = pl.col("width").is_not_null()
    return (
        counts.with_columns(as_text("source"))
        .sort("source", "width")
        .group_by("source", maintain_order=True)
        .agg(
            pl.col("rows").sum().alias("events"),
            pl.col("rows").filter(~known).sum().alias("error_unknown"),
            pl.col("rows").filter("unaligned").sum().alias("unaligned"),
            _median().alias("p50_ns"),
            pl.col("width").max().alias("max_ns"),
        )
    )


def _median() -> pl.Expr:
    """Return the median of the widths, which are sorted and counted."""
    known = pl.col("width").is_not_null()
    rows, widths = pl.col("rows").filter(known), pl.col("width").filter(known)
    return widths.filter(rows.cum_sum() * 2 >= rows.sum()).first()
