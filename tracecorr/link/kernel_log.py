"""Whom a line of the kernel log names: a process by pid, a GPU by PCI address, a queue by id, doorbell or ring."""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import pivot_args
from tracecorr.model import frames
from tracecorr.model.frames import gives
from tracecorr.model.kinds import DERIVED, Flag

_LAYER = "kernel"
# A console is written so long after the record was stored, at most, to be told as the same line.
_LATE_NS = 1_000_000_000
_KEYS = ("pid", "kfd_queue", "doorbell", "address", "gpu_id")


def attach_named(
    events: pl.DataFrame, args: pl.DataFrame, processes: pl.DataFrame, queues: pl.DataFrame, hqd: pl.DataFrame
) -> pl.DataFrame:
    """Return the events with `process` and `queue` of the lines of the kernel log that name them.

    Numbers are of one boot: a line whose clock could not be mapped may be of another boot, and is joined to nothing. A
    thread that printed a line (often a worker of the kernel) is not whom it is about.

    Args:
        events: rows of all sources; those of layer `kernel` are lines of the log.
        args: args by event.
        processes, queues: the tables.
        hqd: table `hqd` with `queue`: its doorbells are offsets in the doorbell BAR, as the driver prints them.
    """
    lines = events.select("event", "layer", "flags", "ts_ns").filter(pl.col("layer") == _LAYER)
    if lines.is_empty():
        return events
    joined = lines.filter(pl.col("flags") & int(Flag.UNALIGNED) == 0)
    told = joined.join(pivot_args(args, joined["event"], _KEYS), on="event", how="left", maintain_order="left")
    told = told.join(_list_alone(processes), on="pid", how="left", maintain_order="left")
    told = told.join(_find_queues(told, queues, hqd), on="event", how="left", maintain_order="left")
    owner = queues.select("queue", owner="process")
    told = told.join(owner, on="queue", how="left", maintain_order="left")
    named = lines.select("event").join(
        told.select("event", named=pl.coalesce("process", "owner"), named_queue="queue", is_line=pl.lit(value=True)),
        on="event", how="left", maintain_order="left",
    ).with_columns(is_line=pl.lit(value=True))  # fmt: skip
    whole = events.join(named, on="event", how="left", maintain_order="left")
    is_line = pl.col("is_line").is_not_null()
    return whole.with_columns(
        process=pl.when(is_line).then(pl.col("named").cast(events.schema["process"])).otherwise("process"),
        thread=pl.when(~is_line).then("thread"),
        queue=pl.when(is_line).then(pl.col("named_queue").cast(events.schema["queue"])).otherwise("queue"),
    ).drop("named", "named_queue", "is_line")


def mark_twins(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the events with `Flag.TWIN` at lines that the trace (`printk:console`) shows and the log holds, too.

    The record of the log counts: it tells level and device. The twin has it as its parent.

    Args:
        events: rows of all sources.
        args: args by event; `text` is the line.
    """
    lines = events.select("event", "layer", "source", "flags", "ts_ns").filter(
        (pl.col("layer") == _LAYER) & (pl.col("flags") & int(Flag.UNALIGNED) == 0)
    )
    is_log = pl.col("source") == "kernel_log"
    told = lines.join(args.filter(pl.col("key") == "text").select("event", "text"), on="event").sort("ts_ns", "event")
    ours = told.filter(is_log).select("text", "ts_ns", own="event")
    seen = told.filter(~is_log).join_asof(ours, on="ts_ns", by="text", tolerance=_LATE_NS, check_sortedness=False)
    twins = seen.drop_nulls("own").unique("own", keep="first").select("event", own="own")
    if twins.is_empty():
        return events
    whole = events.join(twins, on="event", how="left", maintain_order="left")
    is_twin = pl.col("own").is_not_null()
    return whole.with_columns(
        flags=pl.when(is_twin).then(pl.col("flags") | int(Flag.TWIN)).otherwise("flags").cast(events.schema["flags"]),
        parent=pl.coalesce("own", "parent"),
    ).drop("own")


def _list_alone(processes: pl.DataFrame) -> pl.DataFrame:
    """Return the pids that only one process has, with its key."""
    told = processes.select(pl.col("pid").cast(pl.UInt64), "process").drop_nulls()
    return told.filter(pl.col("process").n_unique().over("pid") == 1).unique("pid")


def _find_queues(told: pl.DataFrame, queues: pl.DataFrame, hqd: pl.DataFrame) -> pl.DataFrame:
    """Return event, queue of the lines that name one queue: by pid and queue id, by doorbell, or by its ring."""
    queues = queues.with_columns(kfd_queue=pl.col("kfd_queue_id").cast(pl.UInt64))
    by_id = told.join(queues.drop_nulls("kfd_queue"), on=["process", "kfd_queue"], suffix="_of_queue")
    slots = hqd.drop_nulls(["queue", "doorbell"]).select("queue", doorbell=pl.col("doorbell").cast(pl.UInt64))
    by_doorbell = told.join(slots.unique(), on="doorbell")
    rings = queues.select("queue", "created_ns", "destroyed_ns", address=pl.coalesce("ring_base", "hwq"))
    by_ring = told.join(rings, on="address")
    lived = (pl.col("created_ns").is_null() | (pl.col("created_ns") <= pl.col("ts_ns"))) & (
        pl.col("destroyed_ns").is_null() | (pl.col("destroyed_ns") >= pl.col("ts_ns"))
    )
    found = [
        by_id.filter(lived).select("event", "queue"), by_doorbell.select("event", "queue"),
        by_ring.filter(lived).select("event", "queue"),
    ]  # fmt: skip
    both = pl.concat(found).unique()
    return both.filter(pl.len().over("event") == 1)


@gives(frames.GPUS_OF_EVENTS)
def find_gpus(events: pl.DataFrame, args: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """Return event, named_gpu of the lines that name their GPU, by PCI address or gpu_id.

    Args:
        events: rows of all sources.
        args: args by event; `pci` is the address, `gpu_id` the number that the KFD gave.
        gpus: the table.
    """
    lines = events.select("event", "layer", "flags").filter(
        (pl.col("layer") == _LAYER) & (pl.col("flags") & int(Flag.UNALIGNED) == 0)
    )
    own = args.join(lines.select("event"), on="event", how="semi")
    addresses = gpus.select(text="pci", named_gpu="gpu").drop_nulls()
    # Partitions of one card have one address.
    addresses = addresses.filter(pl.len().over("text") == 1)
    ids = gpus.select(u64=pl.col("gpu_id").cast(pl.UInt64), named_gpu="gpu").drop_nulls()
    by_address = own.filter(pl.col("key") == "pci").join(addresses, on="text").select("event", "named_gpu")
    by_id = own.filter(pl.col("key") == "gpu_id").join(ids, on="u64").select("event", "named_gpu")
    return pl.concat([by_id, by_address]).unique("event", keep="first", maintain_order=True)


@gives(frames.EDGES)
def link_lines(events: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `log_of_queue`: from what made a queue to each line of the kernel log that names it.

    Args:
        events: linked events.
        queues: the table.
    """
    lines = events.select("queue", "layer", to_event="event").filter(pl.col("layer") == _LAYER).drop_nulls("queue")
    causes = queues.select("queue", from_event=pl.coalesce("create_ioctl_event", "created_line_event"))
    return (
        lines.join(causes, on="queue", maintain_order="left")
        .drop_nulls("from_event")
        .select("from_event", "to_event", rule=pl.lit("log_of_queue"), evidence=pl.lit(DERIVED))
    )
