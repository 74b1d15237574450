"""How full did the rings get?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, percentile
from tracecorr.link.packets.packet_index import measure_depth


def summarize_backlog(launches: pl.LazyFrame, queues: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per queue with packets that print both indexes.

    Returns: queue, size (packets), measured (packets that print them), mean, p95, peak (packets in the ring),
        peak_event (the packet that found it fullest), peak_at_ns.
    """
    depth = pl.col("depth")
    measured = launches.filter((pl.col("kind") != "copy") & pl.col("rptr").is_not_null() & pl.col("wptr").is_not_null())
    peaks = (
        measured.select("queue", "event", "packet_ns", depth=measure_depth())
        .drop_nulls("queue")
        .group_by("queue")
        .agg(
            measured=pl.len().cast(pl.Int64),
            mean=depth.mean().round(1),
            p95=percentile(depth, 95),
            peak=depth.max(),
            peak_event=pl.col("event").get(depth.arg_max()),
            peak_at_ns=pl.col("packet_ns").get(depth.arg_max()),
        )
    )
    sizes = queues.select("queue", "size")
    return collect(
        peaks.join(sizes, on="queue", how="left").select("queue", "size", pl.exclude("queue", "size")).sort("queue")
    )
