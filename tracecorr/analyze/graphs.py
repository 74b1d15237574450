"""Which packets did graph launches submit, and what does one of them cost?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, describe_ns
from tracecorr.model.kinds import GRAPH_CALL
from tracecorr.model.schema import CAT

# Behind the kind of a packet of a graph launch.
OF_A_GRAPH = " of a graph"


def list_graph_calls(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the HIP calls that launch a graph: call_event, process, stream, call_dur_ns."""
    is_call = pl.col("layer").cast(pl.String) == "hip"
    is_graph = pl.col("name").cast(pl.String).str.starts_with(GRAPH_CALL)
    return events.filter(is_call & is_graph).select("process", "stream", call_event="event", call_dur_ns="dur_ns")


def name_kinds(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Return `launches` whose `kind` says of the packets of a graph launch that they are so, such as `copy of a graph`.

    Each of them waits in the call for all that are written before it: its times within the call are no cost of its own.
    """
    graphs = list_graph_calls(events).select("call_event", kind_more=pl.lit(OF_A_GRAPH))
    told = launches.join(graphs, on="call_event", how="left", maintain_order="left")
    kind = pl.col("kind").cast(pl.String)
    return told.with_columns(kind=(kind + pl.col("kind_more").fill_null("")).cast(CAT)).drop("kind_more")


def summarize_graphs(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per process and stream of the calls that launch graphs.

    Args:
        launches, events: the tables.

    Returns: process, stream, calls, dispatches, other_packets (barriers and copies), dispatches_p50 (of a call), all
        three null where no packet of these calls is recorded (the level of the log may be too low); total_ns to max_ns
        (of the calls), per_dispatch_ns (total_ns by the dispatches of the calls whose end is known).
    """
    calls = _count_packets(launches, events)
    return collect(calls.group_by("process", "stream").agg(_sum_up()).sort("process", "stream"))


def sum_up_graphs(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return the row of all such calls, as `summarize_graphs` does for one stream; none where there is no call."""
    return collect(_count_packets(launches, events).select(_sum_up()).filter(pl.col("calls") > 0))


def _count_packets(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    is_dispatch = pl.col("kind").cast(pl.String) == "dispatch"
    packets = launches.group_by("call_event").agg(dispatches=is_dispatch.sum(), others=(~is_dispatch).sum())
    calls = list_graph_calls(events).join(packets, on="call_event", how="left")
    return calls.with_columns(pl.col("dispatches", "others").fill_null(0).cast(pl.Int64))


def _sum_up() -> list[pl.Expr]:
    known = pl.col("dispatches").filter(pl.col("call_dur_ns").is_not_null()).sum()
    share = (pl.col("call_dur_ns").sum() / known).round(0).cast(pl.Int64, strict=False)
    shown = pl.when((pl.col("dispatches") + pl.col("others")).sum() > 0)
    return [
        pl.len().cast(pl.Int64).alias("calls"),
        shown.then(pl.col("dispatches").sum()).alias("dispatches"),
        shown.then(pl.col("others").sum()).alias("other_packets"),
        shown.then(pl.col("dispatches").quantile(0.5, "equiprobable").cast(pl.Int64)).alias("dispatches_p50"),
        *describe_ns("call_dur_ns"),
        pl.when(known > 0).then(share).alias("per_dispatch_ns"),
    ]
