"""Which queues existed, where are they known from, and what went through them?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect

_SHOWN = (
    "queue", "process", "gpu", "hwq", "ring_base", "kfd_queue_id", "type", "size", "priority_hip", "priority_log",
    "priority_ioctl", "created_ns", "destroyed_ns", "create_evidence", "mqd_events", "dispatches", "barriers",
)  # fmt: skip


def summarize_queues(queues: pl.LazyFrame, stream_queues: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per queue, with the number of streams that submitted to it."""
    streams = stream_queues.group_by("queue").agg(pl.col("stream").n_unique().cast(pl.Int64).alias("streams"))
    return collect(
        queues.select(*_SHOWN, "known_from")
        .with_columns(as_text("type", "create_evidence"))
        .join(streams, on="queue", how="left")
        .with_columns(pl.col("streams").fill_null(0))
        .select(*_SHOWN, "streams", "known_from")
        .sort("queue")
    )
