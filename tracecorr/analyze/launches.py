"""Packets and copies: how many are complete, which link is missing, gaps of packet indexes."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.calls import list_graph_calls, list_setup_calls
from tracecorr.analyze.values import Tables, collect, percentile

_SILENT = "no {} is in the log: the program submitted none, or AMD_LOG_LEVEL was too low to print them (5 prints them)"
NO_PACKET, NO_DISPATCH = _SILENT.format("packet"), _SILENT.format("dispatch")
ONLY_NAMED = "no dispatch is in the log, only the names of what was launched: AMD_LOG_LEVEL=5 prints packets, too"

_LINKS = {"call": "call_event", "command": "command_event", "queue": "queue", "stream": "stream", "kernel": "kernel"}


def summarize_launches(launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per kind of packet: the number of packets, and of those with each link.

    `doorbell_recorded` counts packets whose doorbell store was traced (their own, or the one of their graph launch),
    `doorbell_inferred` those for which only an interval is known.
    """
    evidence = pl.col("doorbell_evidence").cast(pl.String)
    return collect(
        launches.group_by(pl.col("kind").cast(pl.String))
        .agg(
            pl.len().cast(pl.Int64).alias("packets"),
            *(pl.col(column).is_not_null().sum().cast(pl.Int64).alias(f"with_{k}") for k, column in _LINKS.items()),
            evidence.is_in(["recorded", "derived"]).sum().cast(pl.Int64).alias("doorbell_recorded"),
            (evidence == "inferred").sum().cast(pl.Int64).alias("doorbell_inferred"),
            pl.col("unlinked_reason").is_null().sum().cast(pl.Int64).alias("complete"),
        )
        .sort("kind")
    )


_SCOPES = {0: "none", 1: "agent", 2: "system"}


def summarize_fences(launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per queue, kind of packet, barrier bit and fence scopes, the most frequent first.

    Returns: queue, kind, barrier, acquire and release (`none`, `agent`, `system`), packets, first_event.
    """
    keys = ("queue", "kind", "barrier", "acquire", "release")
    rows = launches.filter(pl.col("header").is_not_null()).with_columns(pl.col("kind").cast(pl.String))
    counted = rows.group_by(keys).agg(packets=pl.len().cast(pl.Int64), first_event=pl.col("event").min())
    scopes = pl.col("acquire", "release").replace_strict(_SCOPES, default=None, return_dtype=pl.String)
    return collect(counted.with_columns(scopes).sort("queue", "packets", "kind", descending=[False, True, False]))


def count_packets(launches: pl.LazyFrame) -> int:
    """Return the number of packets in the log; copies have no packet of their own."""
    return int(collect(launches.select((pl.col("kind").cast(pl.String) != "copy").sum())).item() or 0)


def summarize_unlinked(launches: pl.LazyFrame) -> pl.DataFrame:
    """Return the first missing link of launches: one row per kind and reason, the most frequent first."""
    return collect(
        launches.filter(pl.col("unlinked_reason").is_not_null())
        .group_by(pl.col("kind").cast(pl.String), pl.col("unlinked_reason").cast(pl.String).alias("reason"))
        .agg(pl.len().cast(pl.Int64).alias("packets"), pl.col("event").min().alias("first_event"))
        .sort(["packets", "kind", "reason"], descending=[True, False, False])
    )


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


_LOOKED_AT = 20_000  # launches, around the middle of the capture


def find_steady_launch(tables: Tables) -> int | None:
    """Return the HIP call of a dispatch without set-up work whose duration is the median; None if there is none.

    Of calls with more and less known moments only those with the most are looked at.

    Args:
        tables: gives the table of a capture by its name.
    """
    dispatches = tables("launches").filter(
        pl.col("kind").cast(pl.String) == "dispatch",
        pl.col("call_event").is_not_null(),
        pl.col("return_ns").is_not_null(),
    )
    count = int(collect(dispatches.select(pl.len())).item())
    middle = dispatches.slice(max(0, (count - _LOOKED_AT) // 2), _LOOKED_AT)
    moments = ("doorbell_event", "gpu_start_ns", "complete_ns")
    known = pl.sum_horizontal(pl.col(c).is_not_null().cast(pl.Int32) for c in moments)
    rows = middle.select("event", "call_event", known=known, took=pl.col("return_ns") - pl.col("call_ns")).collect()
    others = pl.concat([
        list_graph_calls(tables("events")).select("call_event").collect(),
        list_setup_calls(tables("events")).select(call_event="chain"),
    ])  # fmt: skip
    rows = rows.join(others, on="call_event", how="anti", maintain_order="left")
    rows = rows.filter(pl.col("known") == pl.col("known").max())
    away = (pl.col("took") - pl.col("took").quantile(0.5, "equiprobable")).abs()
    found = rows.sort(away, "event").select("call_event").head(1)
    return int(found.item()) if found.height else None
