"""Doubled creations: HIP calls in which a queue's making holds two CREATE_QUEUE requests are two calls."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.joins import join_nearest, sort_rows
from tracecorr.model.kinds import QUEUE_CREATED, QUEUES_COUNTED
from tracecorr.read.kfd.fields import decode_mapping
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_COLUMNS = ("thread", "process", "ts_ns", "err_lo_ns", "err_hi_ns", "layer", "name", "parent")


def list_doubled(damaged: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that made two queues between the lines of one creation, as the trace shows.

    The lines of the one's end and of the other's beginning lack. Of the first queue of a process two requests tell
    nothing: ROCr makes one of its own before it, but on the same GPU, so that it maps doorbells of no other one.

    Args:
        damaged: calls of files that lost lines: event.
        events: rows on one clock, with `thread`, `process` and `parent`.
    """
    found = damaged.select("event").clear()
    is_request = (pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE)
    if damaged.is_empty() or not events.select(is_request.any()).item():
        return found
    is_line = (pl.col("layer") == "aql") & pl.col("name").is_in([QUEUES_COUNTED, QUEUE_CREATED])
    requests, lines = (events.select(_COLUMNS).filter(side) for side in (is_request, is_line))
    requests = requests.drop_nulls(["thread", "ts_ns", "err_lo_ns", "err_hi_ns"])
    begun = pl.col("ts_ns") - pl.col("err_lo_ns")
    asked = requests.select("thread", at=begun, latest=pl.col("ts_ns") + pl.col("err_hi_ns"))
    spans = _list_making(lines.join(damaged.select(parent="event"), on="parent", how="semi"))
    of_gpus = _list_of_gpus(spans, events)
    first = requests.group_by("process").agg(first_ns=pl.col("ts_ns").min())
    spans = spans.join(first, on="process").filter(pl.col("first_ns") < pl.col("ts_ns"))
    inside = join_nearest(sort_rows(asked, "at"), sort_rows(spans, "ts_ns"), ["thread"], "at", "ts_ns")
    counts = inside.filter(pl.col("latest") <= pl.col("until")).group_by("event", "until").len("made")
    return pl.concat([counts.filter(pl.col("made") > 1).select("event"), of_gpus]).unique()


def _list_of_gpus(spans: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that map doorbells of two GPUs while they make one queue."""
    mapping, gpu = decode_mapping(pl.col("arg"))
    columns = ("thread", "ts_ns", "err_lo_ns", "err_hi_ns", "name", "arg")
    mapped = events.select(columns).filter((pl.col("name") == "mmap") & (mapping == "doorbells")).drop_nulls()
    early, late = pl.col("err_lo_ns").cast(pl.Int64), pl.col("err_hi_ns").cast(pl.Int64)
    asked = mapped.select("thread", gpu=gpu, at=pl.col("ts_ns") - early, latest=pl.col("ts_ns") + late)
    inside = join_nearest(sort_rows(asked, "at"), sort_rows(spans, "ts_ns"), ["thread"], "at", "ts_ns")
    inside = inside.filter(pl.col("latest") <= pl.col("until"))
    return (
        inside.group_by("event", "until").agg(gpus=pl.col("gpu").n_unique()).filter(pl.col("gpus") > 1).select("event")
    )


def _list_making(lines: pl.DataFrame) -> pl.DataFrame:
    """Return event (the call), thread, process, ts_ns, until: between which lines of a call each queue was made."""
    columns = ("thread", "process", "ts_ns", pl.col("parent").alias("event"))
    is_end = pl.col("name") == QUEUE_CREATED
    counted, created = (lines.filter(side).select(columns).sort("ts_ns") for side in (~is_end, is_end))
    ends = created.select("event", "ts_ns", until="ts_ns")
    found = counted.join_asof(ends, on="ts_ns", by="event", strategy="forward", check_sortedness=False)
    return found.drop_nulls("until").unique(["event", "until"], keep="last", maintain_order=True)
