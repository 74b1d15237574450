"""Which processes used which GPUs: what the numbers `process` and `gpu` of all other answers stand for."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.analyze.hqd import gpu_id_text
from tracecorr.analyze.nodes import add_nodes, summarize_nodes
from tracecorr.analyze.verdicts.evidence import Evidence

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
    ioctls = collect(
        tables("events")
        .filter(pl.col("layer") == "ioctl")
        .group_by("process")
        .agg(pl.len().cast(pl.Int64).alias("ioctls"))
    )
    packets = collect(
        tables("launches")
        .group_by("process")
        .agg(dispatches=(pl.col("kind").cast(pl.String) == "dispatch").sum().cast(pl.Int64))
    )
    known = (
        tables("processes").select("process", "pid", "log_pid", *as_text("comm", "exe"), "from_ns", "to_ns").collect()
    )
    rows = known
    for more in (made, packets, ioctls):
        rows = rows.join(more, on="process", how="left", maintain_order="left")
    used = pl.any_horizontal(pl.col("log_pid", "queues", "dispatches", "ioctls").is_not_null())
    return rows.filter(used).select(
        "process", "pid", "log_pid", "comm", "exe", pl.when(pl.col("gpus") != "").then("gpus").alias("gpus"), "queues",
        "dispatches", "ioctls", "from_ns", "to_ns",
    ).sort("process")  # fmt: skip


def summarize_gpus(tables: Tables) -> pl.DataFrame:
    """Return one row per GPU that a topology, a CREATE_QUEUE or a dump names.

    Returns: gpu, gpu_id (hex text, as debugfs prints it), kfd_node, pci, gfx_target, partition, xcc_count, scheduler,
        processes (with queues on it), queues.
    """
    used = tables("queues").drop_nulls("gpu").group_by("gpu").agg(
        processes=pl.col("process").n_unique().cast(pl.Int64), queues=pl.len().cast(pl.Int64)
    )  # fmt: skip
    rows = tables("gpus").join(used, on="gpu", how="left").with_columns(pl.col("processes", "queues").fill_null(0))
    shown = (
        "gpu",
        "gpu_id",
        "kfd_node",
        "pci",
        "gfx_target",
        "partition",
        "xcc_count",
        "scheduler",
        "processes",
        "queues",
    )
    texts = as_text("pci", "gfx_target", "partition", "scheduler")
    return rows.select(shown).with_columns(texts).collect().with_columns(gpu_id_text()).sort("gpu")


def list_owner_sections(evidence: Evidence) -> Iterator[Section]:
    """Yield the sections of the report on nodes, processes and GPUs."""
    tables, nodes = evidence.tables, evidence.info.get("nodes") or []
    yield from _node_sections(evidence)
    yield Section(
        "processes",
        "Processes",
        add_nodes(summarize_processes(tables), "process", nodes, "processes"),
        "`process` is the number that other sections name; `pid` = of the host, `log pid` = as the log prints it, in a "
        "container another one; `gpus` = those on which its queues are known to be",
        nothing="no process of HIP or of the driver is known",
    )
    yield Section(
        "gpus",
        "GPUs",
        add_nodes(summarize_gpus(tables), "gpu", nodes, "gpus"),
        "`gpu` is the number that other sections name; `gpu id` in hex, as debugfs prints it, of a topology, a "
        "CREATE_QUEUE probe or a dump; `processes` and `queues` = those known to be on it",
        nothing="no source names a GPU (the probe of CREATE_QUEUE, the topology and dumps of the KFD do)",
    )


def _node_sections(evidence: Evidence) -> Iterator[Section]:
    nodes = evidence.info.get("nodes")
    if nodes:
        yield Section(
            "nodes",
            "Nodes",
            summarize_nodes(evidence.tables, nodes),
            "one row per capture of the dataset; tables without the column `node` are of all nodes together. A "
            "verdict is FAIL where it is on one node, else UNKNOWN where it is on one, else PASS; a node that has "
            "nothing of what a claim is about is left out. call = duration of the HIP calls that dispatch a kernel",
        )
