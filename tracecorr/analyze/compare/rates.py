"""How fast were packets submitted, over the time of each capture?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.analyze.launches import count_packets

SLICES = 100


def measure_rate(tables: Tables, slices: int = SLICES) -> pl.DataFrame:
    """Return dispatches per second in equal slices of the time between the first and the last one.

    Returns: slice, from_start_ns, dispatches, per_second; empty with fewer than two dispatches.
    """
    times = collect(tables("launches").filter(pl.col("kind") == "dispatch").select("packet_ns").drop_nulls())
    shape = {"slice": pl.Int64, "from_start_ns": pl.Int64, "dispatches": pl.Int64, "per_second": pl.Float64}
    if times.height < 2:
        return pl.DataFrame(schema=shape)
    first, last = times["packet_ns"].sort()[[0, -1]]
    width = max(1, -(-(last - first + 1) // slices))
    counts = times.group_by(slice=(pl.col("packet_ns") - first) // width).agg(dispatches=pl.len().cast(pl.Int64))
    whole = pl.DataFrame({"slice": range((last - first) // width + 1)}, schema={"slice": pl.Int64})
    filled = whole.join(counts, on="slice", how="left", maintain_order="left").with_columns(
        pl.col("dispatches").fill_null(0)
    )
    return filled.select(
        "slice", from_start_ns=pl.col("slice") * width, dispatches="dispatches",
        per_second=(pl.col("dispatches") * 1e9 / width).round(1),
    ).cast(shape)  # type: ignore[arg-type]  # fmt: skip


def summarize_rate(tables: Tables) -> dict[str, float | int | None]:
    """Return the span with dispatches, their number and rate, and how the rate varies over 100 slices of the span.

    The number is None where the log shows no packet.
    """
    rates = measure_rate(tables)
    at = pl.col("packet_ns")
    dispatches = tables("launches").filter(pl.col("kind") == "dispatch")
    count, span = collect(dispatches.select(at.count().alias("count"), span=at.max() - at.min())).row(0)
    # A log that shows no packet at all does not tell that there was none.
    numbers: dict[str, float | int | None] = {"dispatches": count if count_packets(tables("launches")) else None}
    if rates.is_empty():
        return numbers | dict.fromkeys(("span_ns", "per_second", "p5_per_second", "p95_per_second", "idle_slices"))
    return numbers | {
        "span_ns": span,
        "per_second": round((count - 1) * 1e9 / span, 1) if span else None,
        "p5_per_second": rates["per_second"].quantile(0.05, "nearest"),
        "p95_per_second": rates["per_second"].quantile(0.95, "nearest"),
        "idle_slices": rates.filter(pl.col("dispatches") == 0).height,
    }


def compare_rates(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per side: span, dispatches, rate, and its spread over the slices."""
    rows = [{"side": side, **summarize_rate(tables)} for side, tables in (("A", first), ("B", second))]
    shape = {
        "side": pl.String, "dispatches": pl.Int64, "span_ns": pl.Int64, "per_second": pl.Float64,
        "p5_per_second": pl.Float64, "p95_per_second": pl.Float64, "idle_slices": pl.Int64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=shape)
