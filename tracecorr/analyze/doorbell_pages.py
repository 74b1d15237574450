"""Which doorbell pages did each process map?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.read.kfd.fields import decode_mapping


def list_doorbell_pages(tables: Tables) -> pl.DataFrame:
    """Return one row per doorbell page of a GPU that a process mapped, in the order of time.

    Returns: process, gpu_id, event and ts_ns (of its first mapping), mappings.
    """
    failed = pl.col("result").cast(pl.String).str.starts_with("E").fill_null(value=False)
    mapping, gpu_id = decode_mapping(pl.col("arg"))
    maps = collect(
        tables("events")
        .filter((pl.col("layer") == "syscall") & (pl.col("name") == "mmap") & ~failed)
        .select("event", "ts_ns", "process", mapping=mapping, gpu_id=gpu_id.cast(pl.UInt32))
        .filter(pl.col("mapping") == "doorbells")
    ).sort("ts_ns", "event")
    return maps.group_by("process", "gpu_id", maintain_order=True).agg(
        pl.col("event", "ts_ns").first(), mappings=pl.len().cast(pl.Int64)
    )


def find_pages_of_queues(queues: pl.DataFrame, gpus: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Return queue, doorbell_map_event, gpu_unknown: the page of each queue's process and GPU, which its queues share.

    Where a queue's GPU is not known, it is the only page that its process mapped; of several nobody knows which:
    `gpu_unknown`.

    Args:
        queues: queue, process, gpu.
        gpus: the table.
        pages: as `list_doorbell_pages` returns them.
    """
    wanted = queues.select("queue", "process", "gpu").join(
        gpus.select("gpu", "gpu_id"), on="gpu", how="left", maintain_order="left"
    )
    several = pages.group_by("process").agg(several=pl.len() > 1)
    pairs = wanted.join(pages, on="process", how="inner", suffix="_map").join(several, on="process")
    same = pl.col("gpu_id") == pl.col("gpu_id_map")
    unknown = pl.col("gpu_id").is_null() & pl.col("several")
    found = pairs.filter(same.fill_null(value=True)).sort("ts_ns", "event")
    return found.unique("queue", keep="first").select(
        "queue", doorbell_map_event=pl.when(~unknown).then("event"), gpu_unknown=unknown
    )
