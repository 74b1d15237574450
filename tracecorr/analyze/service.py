"""How long did the packets of each queue wait for the GPU, by the priority of the queue?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, spread_ns

_WAITS = ("start", "completion")


def summarize_service(launches: pl.LazyFrame, priorities: pl.DataFrame) -> pl.DataFrame:
    """Return one row per queue with packets whose start or end is known, the highest priority first.

    Args:
        launches: the table `launches`.
        priorities: what `priorities.summarize_priorities` returned.

    Returns: queue, priority_hip, priority_log, packets, timed (packets with a recorded doorbell and a GPU time),
        start_p50_ns, start_p95_ns, start_max_ns (doorbell to GPU start), completion_p50_ns, completion_p95_ns,
        completion_max_ns (packet to observed completion).
    """
    rung = pl.col("doorbell_evidence").cast(pl.String) == "recorded"
    waits = {
        "start": pl.when(rung).then(pl.col("gpu_start_ns") - pl.col("doorbell_ns")),
        "completion": pl.col("complete_ns") - pl.col("packet_ns"),
    }
    packets = launches.filter((pl.col("kind") != "copy") & pl.col("queue").is_not_null())
    rows = collect(
        packets.select("queue", **waits)
        .group_by("queue")
        .agg(
            pl.len().cast(pl.Int64).alias("packets"),
            pl.col("start").count().cast(pl.Int64).alias("timed"),
            *(told for name in _WAITS for told in spread_ns(pl.col(name), name)),
        )
    )
    known = priorities.select("queue", "priority_hip", "priority_log")
    told = rows.filter(pl.any_horizontal(pl.col(f"{name}_max_ns").is_not_null() for name in _WAITS))
    ordered = known.join(told, on="queue", how="right").select(*known.columns, pl.exclude(known.columns))
    return ordered.sort(["priority_log", "queue"], descending=[True, False], nulls_last=True)
