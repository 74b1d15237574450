"""Which queues the hardware runs: one row per logical queue of an HQD, MQD or runlist dump."""

from __future__ import annotations

import polars as pl

_SAME = ("queue", "pid", "vmid", "pq_base", "ring_bytes", "doorbell", "pipe_priority", "queue_priority", "quantum",
         "written", "finished", "error", "dequeue_request")  # fmt: skip


def list_logical_queues(hqd: pl.DataFrame) -> pl.DataFrame:
    """Return one row per queue that a dump shows running (hqds), existing (mqds) or scheduled (rls).

    The slots of all XCCs of a queue are one row; properties on which they disagree are null. Registers and runlists
    name no process: it is taken from the MQD with the same doorbell and ring, if MQDs were dumped.

    Args:
        hqd: rows of table `hqd`.

    Returns: snapshot, dump, gpu_id (hex text, as debugfs prints it), type, xccs (how many XCCs, null for SDMA),
        slots (`pipe.slot` of each, or `engine.RLC`), queue, pid, vmid, pq_base, ring_bytes, doorbell (dwords),
        pipe_priority, queue_priority, quantum, written, finished (indexes in the memory of its process), error,
        dequeue_request, pq_empty (on all XCCs), rptr, wptr (of the first XCC).
    """
    named = (
        name_processes(hqd)
        .filter(pl.col("logical").is_not_null())
        .with_columns(pl.col("dump", "type").cast(pl.String), place=pl.format("{}.{}", "pipe", "slot"))
    )
    same = [pl.when(pl.col(c).n_unique() == 1).then(pl.col(c).first()).alias(c) for c in _SAME]
    grouped = named.group_by("snapshot", "dump", "gpu_id", "type", "logical", maintain_order=True).agg(
        pl.col("xcc").drop_nulls().n_unique().alias("xccs"),
        pl.col("place").drop_nulls().unique(maintain_order=True).str.join(" ").alias("slots"),
        *same,
        pl.col("pq_empty").all(),
        pl.col("rptr", "wptr").first(),
    )
    return grouped.with_columns(
        pl.when(pl.col("xccs") > 0).then("xccs").alias("xccs"),
        pl.when(pl.col("slots") != "").then("slots").alias("slots"),
        gpu_id_text(),
        # Register values are read in hex.
        pl.col("doorbell", "quantum").cast(pl.UInt64),
    ).drop("logical")


def name_processes(hqd: pl.DataFrame) -> pl.DataFrame:
    """Return `hqd` with the `pid` of slots and runlist entries; none for doorbells of several processes."""
    key = ["gpu_id", "doorbell"]
    mqds = hqd.filter(pl.col("dump").cast(pl.String) == "mqds").drop_nulls([*key, "pid"])
    told = mqds.group_by(key).agg(pl.col("pid", "pq_base").unique()).filter(pl.col("pid").list.len() == 1)
    told = told.select(*key, told_pid=pl.col("pid").list.first(), rings="pq_base")
    joined = hqd.join(told, on=key, how="left", maintain_order="left")
    same = pl.col("pq_base").is_null() | pl.col("rings").list.contains(pl.col("pq_base"))
    return joined.with_columns(pid=pl.coalesce("pid", pl.when(same).then("told_pid"))).drop("told_pid", "rings")


def count_slots(hqd: pl.DataFrame) -> pl.DataFrame:
    """Return how many register slots of each GPU are active, stale or unused.

    Returns: snapshot, kfd_node, gpu_id (hex text), type, xccs, active, stale, unused.
    """
    state = pl.col("state").cast(pl.String)
    slots = hqd.filter(pl.col("dump").cast(pl.String) == "hqds")
    grouped = slots.group_by("snapshot", "kfd_node", "gpu_id", "type", maintain_order=True).agg(
        pl.col("xcc").drop_nulls().n_unique().alias("xccs"),
        *((state == name).sum().alias(name) for name in ("active", "stale", "unused")),
    )
    return grouped.with_columns(pl.when(pl.col("xccs") > 0).then("xccs").alias("xccs"), gpu_id_text())


def gpu_id_text() -> pl.Expr:
    """Return the column `gpu_id` as debugfs prints it: hex without 0x."""
    return pl.col("gpu_id").map_elements(lambda gpu: f"{gpu:x}", return_dtype=pl.String).alias("gpu_id")
