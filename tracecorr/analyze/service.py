"""How long did the packets of each queue and kind wait for the GPU, by the priority of the queue?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, spread_ns
from tracecorr.analyze.graphs import name_kinds
from tracecorr.analyze.moment_errors import add_errors, gap_error, list_tellers, widest

_WAITS = ("start", "completion")
_MOMENTS = ("doorbell_ns", "gpu_start_ns")


def summarize_service(launches: pl.LazyFrame, events: pl.LazyFrame, priorities: pl.DataFrame) -> pl.DataFrame:
    """Return one row per queue and kind of packet whose start or end is known, the highest priority first.

    A barrier waits for all packets before it in its ring: its times are no kernel's.

    Args:
        launches, events: the tables.
        priorities: what `priorities.summarize_priorities` returned.

    Returns: queue, kind (`graphs.name_kinds`, dispatches first), priority_hip, priority_log, packets, timed (packets
        with a recorded doorbell and a GPU time), start_p50_ns, start_p95_ns, start_max_ns (doorbell to GPU start),
        start_error_ns (how far one of them may lie from the truth, to either side; null = unknown or none),
        completion_p50_ns, completion_p95_ns, completion_max_ns (packet to observed completion).
    """
    rung = pl.col("doorbell_evidence").cast(pl.String) == "recorded"
    waits = {
        "start": pl.when(rung).then(pl.col("gpu_start_ns") - pl.col("doorbell_ns")),
        "completion": pl.col("complete_ns") - pl.col("packet_ns"),
    }
    packets = name_kinds(launches, events).filter((pl.col("kind") != "copy") & pl.col("queue").is_not_null())
    tellers = {c: pl.col(c) for c in list_tellers(_MOMENTS)}
    found = collect(packets.select("queue", pl.col("kind").cast(pl.String), **waits, **tellers))
    start_error = gap_error(*_MOMENTS).filter(pl.col("start").is_not_null())
    rows = (
        add_errors(found, events, _MOMENTS)
        .group_by("queue", "kind")
        .agg(
            pl.len().cast(pl.Int64).alias("packets"),
            pl.col("start").count().cast(pl.Int64).alias("timed"),
            *spread_ns(pl.col("start"), "start"),
            widest(start_error).alias("start_error_ns"),
            *spread_ns(pl.col("completion"), "completion"),
        )
    )
    known = priorities.select("queue", "priority_hip", "priority_log")
    told = rows.filter(pl.any_horizontal(pl.col(f"{name}_max_ns").is_not_null() for name in _WAITS))
    columns = ("queue", "kind", "priority_hip", "priority_log")
    ordered = known.join(told, on="queue", how="right").select(*columns, pl.exclude(columns))
    dispatches_first = ~pl.col("kind").str.starts_with("dispatch")
    return ordered.sort(
        "priority_log", "queue", dispatches_first, "kind", descending=[True, False, False, False], nulls_last=True
    )
