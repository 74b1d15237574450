"""How evenly were packets submitted, and where were the longest pauses?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, percentile


def summarize_gaps(launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per queue: the time between one packet and the next, in the order of the log.

    A gap is time in which nothing was submitted to the queue, not time in which the GPU was idle.

    Returns: queue, packets, per_second (over the time between its first and last packet), p50_ns, p95_ns, p99_ns,
        max_ns, max_gap_event (the packet after the longest pause), max_gap_at_ns.
    """
    packets = launches.filter(
        (pl.col("kind") != "copy") & pl.col("queue").is_not_null() & pl.col("packet_ns").is_not_null()
    )
    rows = collect(packets.select("queue", "event", "packet_ns"))
    if not (rows["packet_ns"].is_sorted() and rows["event"].is_sorted()):
        rows = rows.sort("packet_ns", "event")
    steps = rows.lazy().with_columns(gap=pl.col("packet_ns").diff().over("queue"))
    gap, span = pl.col("gap"), pl.col("packet_ns").max() - pl.col("packet_ns").min()
    return collect(
        steps.group_by("queue")
        .agg(
            packets=pl.len().cast(pl.Int64),
            per_second=pl.when(span > 0).then((pl.len() - 1) * 1e9 / span).round(1),
            **{f"p{q}_ns": percentile(gap, q) for q in (50, 95, 99)},
            max_ns=gap.max(),
            max_gap_event=pl.col("event").get(gap.arg_max()),
            max_gap_at_ns=pl.col("packet_ns").get(gap.arg_max()),
        )
        .sort("queue")
    )
