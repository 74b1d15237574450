"""The table `gpus`: every GPU that a topology, a CREATE_QUEUE or a dump names."""

from __future__ import annotations

import polars as pl

from tracecorr.model import schema


def list_gpus(queues: pl.DataFrame, hqd: pl.DataFrame, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the table `gpus`, and `queues` with its key `gpu` in the place of `gpu_id`.

    Args:
        queues: queues with the column `gpu_id`.
        hqd: rows of table `hqd`: they name node and XCCs of each GPU.
        known: rows of `schema.GPUS` from the topology of the machine, their `gpu` is not used.
    """
    banks = hqd.filter(pl.col("kfd_node").is_not_null()).group_by("gpu_id").agg(
        seen_node=pl.col("kfd_node").first(), seen_xccs=pl.col("xcc").drop_nulls().unique().sort()
    )  # fmt: skip
    named = [queues["gpu_id"].cast(pl.UInt32, strict=False), hqd["gpu_id"], known["gpu_id"]]
    ids = pl.concat(named).drop_nulls().unique().sort().alias("gpu_id").to_frame().with_row_index("gpu")
    full = ids.join(known.drop("gpu"), on="gpu_id", how="left", maintain_order="left")
    full = full.join(banks, on="gpu_id", how="left", maintain_order="left")
    text = pl.when(pl.col("seen_xccs").list.len() > 0).then(pl.col("seen_xccs").cast(pl.List(pl.String)).list.join(" "))
    table = full.with_columns(
        kfd_node=pl.coalesce("kfd_node", "seen_node"), xcc_ids=pl.coalesce("xcc_ids", text),
        xcc_count=pl.coalesce("xcc_count", pl.when(text.is_not_null()).then(pl.col("seen_xccs").list.len())),
    ).drop("seen_node", "seen_xccs")  # fmt: skip
    keyed = queues.with_columns(pl.col("gpu_id").cast(pl.UInt32, strict=False))
    keyed = keyed.join(ids, on="gpu_id", how="left", maintain_order="left").drop("gpu_id")
    return schema.GPUS.conform(table), keyed


def assign_gpus(args: pl.DataFrame, devices: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """Return event, named_gpu of calls that name their GPU: by gpu_id in a field, or by the render node of the file.

    Args:
        args: args by event; `gpu` of KFD ioctls and `gpu_id` of mmaps hold a gpu_id.
        devices: devices behind descriptors (`descriptors.find_devices`).
        gpus: the table.
    """
    ids = gpus.select("gpu_id", named_gpu="gpu")
    fields = args.filter(pl.col("key").is_in(["gpu", "gpu_id"]) & pl.col("u64").is_not_null())
    by_id = fields.select("event", gpu_id=pl.col("u64").cast(pl.UInt32, strict=False)).join(ids, on="gpu_id")
    minor = pl.col("path").str.extract(r"renderD(\d+)$", 1).cast(pl.Int32)
    nodes = gpus.select("render_minor", named_gpu="gpu").drop_nulls()
    # Partitions of one device share its first render node in old kernels: then the node names none of them.
    nodes = nodes.filter(pl.len().over("render_minor") == 1)
    by_node = devices.select("event", render_minor=minor).drop_nulls().join(nodes, on="render_minor")
    both = pl.concat([by_id.select("event", "named_gpu"), by_node.select("event", "named_gpu")])
    return both.unique("event", keep="first", maintain_order=True)
