"""Which queue a hardware slot, an MQD or a runlist entry belongs to."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import DERIVED, RECORDED


def attach_queues(hqd: pl.DataFrame, queues: pl.DataFrame, processes: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """Return table `hqd` with `gpu`, and `queue`: the one queue whose ring lies at the slot's PQ_BASE.

    Ring addresses are virtual and reused. A queue is taken only where GPU and process do not contradict the
    slot, where it lived while the dump was read, and where no other queue fits as well.

    Args:
        hqd: rows of table `hqd`; times are CLOCK_MONOTONIC.
        queues, processes, gpus: the tables.
    """
    rows = hqd.drop("queue", "gpu").with_row_index("row")
    owners = processes.select("process", owner_pid="pid")
    ids = gpus.select("gpu", owner_gpu_id="gpu_id")
    rings = (
        queues.select("queue", "process", "gpu", "created_ns", "destroyed_ns", pq_base=pl.coalesce("ring_base", "hwq"))
        .filter(pl.col("pq_base") != 0)
        .join(owners, on="process", how="left")
        .join(ids, on="gpu", how="left")
    )
    pairs = rows.drop_nulls("logical").join(rings, on="pq_base")
    fits = pairs.filter(
        _agree("gpu_id", "owner_gpu_id") & _agree("pid", "owner_pid")
        & (pl.col("created_ns").is_null() | pl.col("read_end_ns").is_null()
           | (pl.col("created_ns") <= pl.col("read_end_ns")))
        & (pl.col("destroyed_ns").is_null() | pl.col("read_start_ns").is_null()
           | (pl.col("destroyed_ns") >= pl.col("read_start_ns")))
    )  # fmt: skip
    alone = fits.filter(pl.len().over("row") == 1).select("row", "queue")
    own = gpus.select("gpu_id", "gpu")
    return (
        rows.join(alone, on="row", how="left", maintain_order="left")
        .join(own, on="gpu_id", how="left", maintain_order="left")
        .drop("row")
    )


def link_hqds(events: pl.DataFrame, hqd: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `hqd_of_queue`: from what made a queue to each sight of it in a dump.

    `recorded` where the dump names the process, or both name the GPU; `derived` where the address alone says it.

    Args:
        events: linked events; those of layer `hqd` are sights.
        hqd: table `hqd` with `queue`.
        queues: the table.
    """
    sights = events.select("file", "offset", "event", "layer").filter(pl.col("layer") == "hqd").drop("layer")
    rows = hqd.drop_nulls(["queue", "logical"]).unique(["file", "offset"], keep="first", maintain_order=True)
    causes = queues.select("queue", queue_gpu="gpu", from_event=pl.coalesce("create_ioctl_event", "created_line_event"))
    joined = sights.join(rows, on=["file", "offset"], maintain_order="left").join(
        causes, on="queue", maintain_order="left"
    )
    sure = pl.col("pid").is_not_null() | pl.col("queue_gpu").is_not_null()
    return joined.drop_nulls("from_event").select(
        "from_event", to_event="event", rule=pl.lit("hqd_of_queue"),
        evidence=pl.when(sure).then(pl.lit(RECORDED)).otherwise(pl.lit(DERIVED)),
    )  # fmt: skip


def _agree(ours: str, theirs: str) -> pl.Expr:
    return pl.col(ours).is_null() | pl.col(theirs).is_null() | (pl.col(ours) == pl.col(theirs))
