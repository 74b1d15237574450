"""Whose queues did the driver stop, whose pages moved, and what happened to the GPUs meanwhile?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, total
from tracecorr.model.kinds import HALF_SEEN

_WHO = ("pid", "comm", "gpu", "name", "trigger")


def summarize_evictions(events: pl.LazyFrame, args: pl.LazyFrame, processes: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per process, GPU, kind of SMI event and trigger.

    Args:
        events, args, processes: the tables of a capture.

    Returns: pid (host; null where the event is of no process), comm, gpu, name, trigger, events, total_ns and
        longest_ns (null where it has no end by its nature), half_seen (how many whose start or end is not in the
        recording: their time is not in total_ns), bytes (moved or unmapped), failed, first_ns. Stops of one process on
        one GPU may overlap: total_ns counts such a time for each of them.
    """
    mine = events.filter(pl.col("layer").cast(pl.String) == "smi")
    triggers = args.filter(pl.col("key").cast(pl.String) == "trigger").select("event", trigger="text")
    comms = processes.select("process", *as_text("comm"))
    failed = pl.col("result").is_not_null() & (pl.col("result") != "0")
    return collect(
        mine.with_columns(as_text("name", "result"))
        .join(triggers, on="event", how="left")
        .join(comms, on="process", how="left")
        .group_by(_WHO)
        .agg(
            pl.len().cast(pl.Int64).alias("events"),
            total(pl.col("dur_ns")).alias("total_ns"),
            pl.col("dur_ns").max().alias("longest_ns"),
            ((pl.col("flags") & HALF_SEEN) != 0).sum().cast(pl.Int64).alias("half_seen"),
            total(pl.col("size_bytes")).alias("bytes"),
            failed.sum().cast(pl.Int64).alias("failed"),
            pl.col("ts_ns").min().alias("first_ns"),
        )
        .sort("pid", "gpu", "name", "trigger", nulls_last=True)
    )
