"""Along the path of each launch, which layer took the time?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, percentile, total
from tracecorr.analyze.graphs import list_graph_calls
from tracecorr.analyze.steady import list_setup_calls

# Stretches that follow one another from the HIP call to the return; where a moment is not known its stretch is null.
_STRETCHES = (
    ("hip", "call_ns", "enqueue_ns"),
    ("command", "enqueue_ns", "packet_ns"),
    ("doorbell", "packet_ns", "doorbell_ns"),
    ("return", "doorbell_ns", "return_ns"),
    ("wait_for_gpu", "doorbell_ns", "gpu_start_ns"),
    ("gpu", "gpu_start_ns", "gpu_end_ns"),
    ("noticed", "gpu_end_ns", "complete_ns"),
)
# They make up the time from call to return.
_IN_CALL = ("hip", "command", "doorbell", "return")
# What all dispatches of a call share.
_OF_THE_CALL = ("hip_ns", "command_ns", "return_ns", "whole_ns", "kernel_mode_ns")


def trace_paths(launches: pl.LazyFrame, events: pl.LazyFrame, setup_calls: pl.DataFrame | None = None) -> pl.LazyFrame:
    """Return one row per dispatch, in the order of `event`: the time that each layer took on its way.

    Args:
        launches, events: the tables.
        setup_calls: what `steady.list_setup_calls` gave, where it was asked already.

    Returns: event, call_event, kernel, queue, phase (`graph` where the call launched a graph, `setup` where it made a
        queue, loaded code or allocated memory, `unknown` where it is not known, else `steady`), hip_ns, command_ns,
        doorbell_ns, return_ns, wait_for_gpu_ns, gpu_ns, noticed_ns, whole_ns (from the call to its return) and
        kernel_mode_ns (system calls inside the HIP call; null where no trace tells what was inside calls, where one of
        them was half seen, or where the call is not known). What a graph launch took as a whole (`graphs`) is no time
        of one of its dispatches: there hip_ns, command_ns, return_ns, whole_ns and kernel_mode_ns are null.
    """
    calls = list_setup_calls(events) if setup_calls is None else setup_calls
    graphs = list_graph_calls(events).select("call_event", phase=pl.lit("graph"))
    setup = calls.lazy().select(call_event="chain", phase=pl.lit("setup"))
    setup = pl.concat([graphs, setup]).unique("call_event", keep="first", maintain_order=True)
    inside = (
        events.filter(pl.col("layer").is_in(["syscall", "ioctl"]) & pl.col("chain").is_not_null())
        .group_by(call_event="chain")
        .agg(kernel_mode_ns=pl.col("dur_ns").sum(), half_seen=pl.col("dur_ns").is_null().any())
    )
    stretches = [(pl.col(end) - pl.col(start)).alias(f"{name}_ns") for name, start, end in _STRETCHES]
    return (
        launches.filter(pl.col("kind") == "dispatch")
        .select("event", "call_event", "kernel", "queue", *stretches, whole_ns=pl.col("return_ns") - pl.col("call_ns"))
        .join(setup, on="call_event", how="left")
        .join(inside, on="call_event", how="left")
        .join(inside.select(traced=pl.len() > 0), how="cross")
        .with_columns(
            phase=pl.when(pl.col("call_event").is_null())
            .then(pl.lit("unknown"))
            .otherwise(pl.col("phase").fill_null("steady")),
            kernel_mode_ns=pl.when(
                pl.col("traced") & pl.col("call_event").is_not_null() & ~pl.col("half_seen").fill_null(value=False)
            ).then(pl.col("kernel_mode_ns").fill_null(0)),
        )
        .with_columns(pl.when(pl.col("phase") != "graph").then(column).alias(column) for column in _OF_THE_CALL)
        .drop("traced", "half_seen")
        .sort("event")
    )


def summarize_paths(
    launches: pl.LazyFrame, events: pl.LazyFrame, setup_calls: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return one row per phase and layer, in the order of the path; arguments as in `trace_paths`.

    Returns: phase, layer, launches (that have both ends), total_ns, mean_ns, p50_ns, p95_ns, p99_ns, share (of hip,
        command, doorbell and return: of the time from call to return of these launches, percent).
    """
    paths = collect(trace_paths(launches, events, setup_calls))
    order = [*(name for name, _, _ in _STRETCHES), "kernel_mode"]
    rows = pl.concat([_summarize_layer(paths, name) for name in order])
    places = pl.col("layer").replace_strict({name: i for i, name in enumerate(order)}, return_dtype=pl.Int64)
    return rows.sort("phase", places)


def _summarize_layer(paths: pl.DataFrame, name: str) -> pl.DataFrame:
    ns, whole = pl.col("ns"), pl.col("whole_ns")
    inside = (whole > 0) & (name in _IN_CALL)
    return (
        paths.lazy()
        .select("phase", "whole_ns", ns=pl.col(f"{name}_ns"))
        .drop_nulls("ns")
        .group_by("phase")
        .agg(
            layer=pl.lit(name).first(),
            launches=pl.len().cast(pl.Int64),
            total_ns=total(ns),
            mean_ns=ns.mean().round(0).cast(pl.Int64),
            **{f"p{q}_ns": percentile(ns, q) for q in (50, 95, 99)},
            # Where a stretch is not known, such as a doorbell's, the others are not the whole.
            share=(100 * ns.filter(inside).sum() / whole.filter(inside).sum()).fill_nan(None).round(1),
        )
        .collect()
    )
