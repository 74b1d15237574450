"""Nodes, processes and GPUs: what their keys in all other tables stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tracecorr.analyze.calls import is_called
from tracecorr.analyze.queues import gpu_id_text
from tracecorr.analyze.values import Tables, as_text, collect, percentile
from tracecorr.model.columns import is_failed


def summarize_nodes(tables: Tables, nodes: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one row per node of a dataset, in its order.

    Args:
        tables: gives a table by its name.
        nodes: `nodes` of capture.json: the name, and the first keys of each node.

    Returns: node, events, hip_calls, ioctls, queues, dispatches, call_p50_ns, call_p99_ns (of the HIP calls that
        dispatch), failed_calls.
    """
    layer = pl.col("layer").cast(pl.String)
    hip = is_called()
    failed = hip & is_failed(pl.col("result").cast(pl.String))
    events = collect(
        tables("events").select("event", is_hip=hip, is_ioctl=layer == "ioctl", failed=failed)
        .with_columns(node=node_of("event", nodes, "events"))
        .group_by("node")
        .agg(events=pl.len(), hip_calls=pl.col("is_hip").sum(), ioctls=pl.col("is_ioctl").sum(),
             failed_calls=pl.col("failed").sum())
    )  # fmt: skip
    took = pl.col("return_ns") - pl.col("call_ns")
    launches = collect(
        tables("launches").filter(pl.col("kind").cast(pl.String) == "dispatch")
        .with_columns(node=node_of("event", nodes, "events"))
        .group_by("node")
        .agg(dispatches=pl.len(), call_p50_ns=percentile(took, 50), call_p99_ns=percentile(took, 99))
    )  # fmt: skip
    queues = collect(
        tables("queues").with_columns(node=node_of("queue", nodes, "queues")).group_by("node").agg(queues=pl.len())
    )
    rows = pl.DataFrame({"node": [str(n["node"]) for n in nodes]}, schema={"node": pl.String})
    for part in (events, queues, launches):
        rows = rows.join(part, on="node", how="left", maintain_order="left")
    counts = ("events", "hip_calls", "ioctls", "queues", "dispatches", "failed_calls")
    times = ("call_p50_ns", "call_p99_ns")
    return rows.select(
        "node", *(pl.col(c).fill_null(0).cast(pl.Int64) for c in counts[:-1]),
        *(pl.col(c).round(0).cast(pl.Int64) for c in times), pl.col("failed_calls").fill_null(0).cast(pl.Int64),
    )  # fmt: skip


def add_nodes(rows: pl.DataFrame, key: str, nodes: Sequence[Mapping[str, Any]], table: str) -> pl.DataFrame:
    """Return `rows` with `node` as first column, if the dataset has several nodes.

    Args:
        rows: the rows, each with a key of its table.
        key: column with the key.
        nodes: `nodes` of capture.json; empty for a capture.
        table: the table of these keys.
    """
    return rows.select(node_of(key, nodes, table).alias("node"), pl.all()) if len(nodes) > 1 else rows


def node_of(key: str, nodes: Sequence[Mapping[str, Any]], table: str) -> pl.Expr:
    """Return the node of a key: the last one with a first key at or before it; null without nodes."""
    if not nodes:
        return pl.lit(None, pl.String)
    names, starts = [str(n["node"]) for n in nodes], [int(n["used"][table]) for n in nodes]
    place = pl.lit(pl.Series(starts, dtype=pl.Int64)).search_sorted(pl.col(key).cast(pl.Int64), side="right") - 1
    return pl.lit(pl.Series(names, dtype=pl.String)).gather(place)


_KEYS = ["process", "gpu"]


def summarize_processes(tables: Tables) -> pl.DataFrame:
    """Return one row per process that HIP or the driver worked for, in the order of their keys.

    Returns: process, pid (of the host), log_pid (as the log prints it), comm, exe, gpus (keys of those on which its
        queues are), queues, dispatches (null = no log), ioctls, from_ns, to_ns.
    """
    queues = tables("queues").select(*_KEYS, "dispatches").collect()
    made = queues.group_by("process").agg(
        pl.col("gpu").drop_nulls().unique().sort().cast(pl.String).str.join(" ").alias("gpus"),
        pl.len().cast(pl.Int64).alias("queues"),
    )
    asked = tables("events").filter(pl.col("layer") == "ioctl")
    ioctls = collect(asked.group_by("process").agg(ioctls=pl.len().cast(pl.Int64)))
    is_dispatch = pl.col("kind").cast(pl.String) == "dispatch"
    packets = collect(tables("launches").group_by("process").agg(dispatches=is_dispatch.sum().cast(pl.Int64)))
    rows = (
        tables("processes").select("process", "pid", "log_pid", *as_text("comm", "exe"), "from_ns", "to_ns").collect()
    )
    for more in (made, packets, ioctls):
        rows = rows.join(more, on="process", how="left", maintain_order="left")
    used = pl.any_horizontal(pl.col("log_pid", "queues", "dispatches", "ioctls").is_not_null())
    return rows.filter(used).select(
        "process", "pid", "log_pid", "comm", "exe", pl.when(pl.col("gpus") != "").then("gpus").alias("gpus"), "queues",
        "dispatches", "ioctls", "from_ns", "to_ns",
    ).sort("process")  # fmt: skip


def summarize_gpus(tables: Tables) -> pl.DataFrame:
    """Return one row per GPU that a topology, a CREATE_QUEUE or a dump names.

    Returns: gpu, gpu_id (hex text, as debugfs prints it), kfd_node, pci, gfx_target, cus, partition, xcc_count,
        scheduler, firmware, processes (with queues on it), queues.
    """
    used_columns = ("processes", "queues")
    used = tables("queues").drop_nulls("gpu").group_by("gpu").agg(
        processes=pl.col("process").n_unique().cast(pl.Int64), queues=pl.len().cast(pl.Int64)
    )  # fmt: skip
    rows = tables("gpus").join(used, on="gpu", how="left").with_columns(pl.col(used_columns).fill_null(0))
    shown = [
        "gpu", "gpu_id", "kfd_node", "pci", "gfx_target", "cus", "partition", "xcc_count", "scheduler", "firmware",
        *used_columns,
    ]  # fmt: skip
    texts = as_text("pci", "gfx_target", "partition", "scheduler", "firmware")
    return rows.select(shown).with_columns(texts).collect().with_columns(gpu_id_text()).sort("gpu")
