"""The priority of each queue at every layer, and how long its packets waited for the GPU."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.calls import name_kinds
from tracecorr.analyze.latency import add_errors, gap_error, list_tellers, widest
from tracecorr.analyze.values import Tables, collect, spread_ns
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, UPDATE_QUEUE

# HIP stream priority -> priority of the Created line (CLR 4.5 to 7.2) -> queue_priority of the KFD (libhsakmt).
LOG_OF_HIP = {-1: 2, 0: 1, 1: 0}
QUEUE_OF_LOG = {2: 11, 1: 7, 0: 0}
# pipe_priority_map of the driver (kfd_mqd_manager.c) for these: 0 is low, 7 medium, 11 high.
_QUEUE_OF_PIPE = {1: 7, 2: 11}
_ERRORS = ("err_lo_ns", "err_hi_ns")
_CREATE = (CREATE_QUEUE,)
_UPDATE = (UPDATE_QUEUE, "kfd_ioctl_update_queue")


def summarize_priorities(tables: Tables) -> pl.DataFrame:
    """Return one row per queue that the log made or used.

    Returns: queue, priority_hip (of its first stream with a creation in the log; 0 without a requested priority),
        priority_log, priority_driver (set by UPDATE_QUEUE, else requested by CREATE_QUEUE; null = not probed),
        update_event, update_refused (the ioctl failed), priority_hqd and pipe_priority_hqd (of an HQD or MQD dump read
        after the priority was set; the first is derived from the second if the driver leaves the queue's register 0, as
        some of 2026 do), ignored (packets of the queue print a stream priority that the queue was not made with: the
        runtime ignores it, ROCm 10), ring_evidence (evidence that Created line and ring are of one queue),
        evidence_event (the line or ioctl that shows it).
    """
    queues = tables("queues").filter(pl.col("hwq").is_not_null() | pl.col("swq").is_not_null()).collect()
    updates = _updates(tables, queues)
    # The runtime sets the priority between CREATE_QUEUE and the Created line.
    made = queues.select("queue", "created_ns").join(updates.select("queue", "updated_ns"), on="queue", how="left")
    settled = made.select("queue", settled_ns=pl.coalesce("updated_ns", "created_ns"))
    rows = queues.join(updates, on="queue", how="left", maintain_order="left").join(
        _dumped(tables, settled), on="queue", how="left", maintain_order="left"
    )
    rows = rows.join(_ignored(tables, queues), on="queue", how="left", maintain_order="left")
    return rows.select(
        "queue",
        priority_hip=pl.col("priority_hip").cast(pl.Int64),
        priority_log=pl.col("priority_log").cast(pl.Int64),
        priority_driver=pl.when(pl.col("update_event").is_null())
        .then(pl.col("priority_ioctl").cast(pl.Int64))
        .otherwise(pl.col("priority_update")),
        update_event="update_event",
        update_refused="update_refused",
        priority_hqd="priority_hqd",
        pipe_priority_hqd="pipe_priority_hqd",
        ignored="ignored",
        ring_evidence=pl.col("ring_evidence").cast(pl.String),
        evidence_event=pl.coalesce("update_event", "created_line_event"),
    )


def _updates(tables: Tables, queues: pl.DataFrame) -> pl.DataFrame:
    """Return the UPDATE_QUEUE of the thread of each CREATE_QUEUE before its next one.

    An update is excluded only if it is later than the Created line by more than the error of the clocks.
    """
    named = pl.col("name").cast(pl.String)
    rows = collect(
        tables("events")
        .filter(pl.col("layer").is_in(["ioctl", "kfd"]) & named.is_in([*_CREATE, *_UPDATE]))
        .select("event", "layer", "thread", "ts_ns", "dur_ns", *_ERRORS, "parent", "result", name=named)
    )
    ioctls = rows.filter(pl.col("layer") == "ioctl").sort("ts_ns")
    creates = ioctls.filter(pl.col("name").is_in(_CREATE)).select(
        "thread", create_ioctl_event="event", start_ns="ts_ns", next_ns=pl.col("ts_ns").shift(-1).over("thread")
    )
    updates = ioctls.filter(pl.col("name").is_in(_UPDATE)).select(
        "thread",
        "ts_ns",
        earliest_ns=pl.col("ts_ns") - pl.col("err_lo_ns").cast(pl.Int64),
        updated_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0) + pl.col("err_hi_ns").cast(pl.Int64),
        update_event="event",
        update_refused=pl.col("result").cast(pl.String) != "0",
    )
    made = queues.drop_nulls(["create_ioctl_event", "created_line_event"])
    spans = made.select("queue", "create_ioctl_event", "created_ns").join(creates, on="create_ioctl_event")
    own = (pl.col("ts_ns") >= pl.col("start_ns")) & (pl.col("ts_ns") < pl.col("next_ns")).fill_null(True)
    in_time = (pl.col("earliest_ns") <= pl.col("created_ns")).fill_null(True)
    first = updates.join(spans, on="thread").filter(own & in_time).sort("ts_ns").unique("queue", keep="first")
    probes = rows.filter(pl.col("layer") == "kfd").select("event", update_event="parent")
    found = first.select("queue", "update_event", "update_refused", "updated_ns")
    return found.join(_probed_priority(tables, probes), on="update_event", how="left")


def _ignored(tables: Tables, queues: pl.DataFrame) -> pl.DataFrame:
    """Return queue, ignored: whether streams of low or high priority submit to a queue of normal priority.

    Packets print `amd::CommandQueue::Priority` (0 low, 1 normal, 2 medium, 3 high), Created lines that of HSA.
    """
    printed = tables("launches").select("queue", "stream_priority").drop_nulls()
    special = printed.filter(pl.col("stream_priority").is_in([0, 3])).select("queue").unique()
    normal = queues.filter(pl.col("priority_log") == LOG_OF_HIP[0]).select("queue")
    return collect(special.join(normal.lazy(), on="queue", how="semi").with_columns(ignored=pl.lit(value=True)))


def _probed_priority(tables: Tables, probes: pl.DataFrame) -> pl.DataFrame:
    values = tables("args").filter((pl.col("key") == "prio") | (pl.col("key") == "priority"))
    read = collect(values.select("event", priority_update=pl.col("u64").cast(pl.Int64, strict=False)).drop_nulls())
    return probes.join(read, on="event").unique("update_event", keep="first").select("update_event", "priority_update")


def _dumped(tables: Tables, settled: pl.DataFrame) -> pl.DataFrame:
    """Return the priority of the last dump of each queue, from registers rather than from the MQD in memory.

    Dumps read before `settled_ns`, when the priority was set, do not count.
    """
    dumps = tables("hqd").filter(pl.col("queue").is_not_null() & pl.col("queue_priority").is_not_null())
    too_early = (pl.col("read_start_ns") < pl.col("settled_ns")).fill_null(value=False)
    dumps = dumps.join(settled.lazy(), on="queue", how="left", maintain_order="left").filter(~too_early)
    registers = pl.col("dump").cast(pl.String) == "hqds"
    last = (
        dumps.with_columns(registers=registers)
        .sort("registers", "snapshot")
        .group_by("queue", maintain_order=True)
        .last()
    )
    by_pipe = pl.col("pipe_priority").replace_strict(_QUEUE_OF_PIPE, default=None, return_dtype=pl.Int64)
    return collect(
        last.select(
            "queue",
            # The priorities of a medium or high pipe are above 0.
            priority_hqd=pl.when(pl.col("queue_priority") == 0).then(by_pipe.fill_null(0)).otherwise("queue_priority"),
            pipe_priority_hqd=pl.col("pipe_priority").cast(pl.Int64),
        )
    )


_WAITS = ("start", "completion")
_MOMENTS = ("doorbell_ns", "gpu_start_ns")


def summarize_service(launches: pl.LazyFrame, events: pl.LazyFrame, priorities: pl.DataFrame) -> pl.DataFrame:
    """Return one row per queue and kind of packet with a known start or end, the highest priority first.

    A barrier waits for all packets before it in its ring: its times are not those of a kernel.

    Args:
        launches, events: the tables.
        priorities: result of `summarize_priorities`.

    Returns: queue, kind (`name_kinds`, dispatches first), priority_hip, priority_log, packets, timed (packets
        with a recorded doorbell and a GPU time), start_p50_ns, start_p95_ns, start_max_ns (doorbell to GPU start),
        start_error_ns (the largest error, to either side; null = unknown or none),
        completion_p50_ns, completion_p95_ns, completion_max_ns (packet to observed completion).
    """
    rung = pl.col("doorbell_evidence").cast(pl.String) == "recorded"
    waits = {
        "start": pl.when(rung).then(pl.col("gpu_start_ns") - pl.col("doorbell_ns")),
        "completion": pl.col("complete_ns") - pl.col("packet_ns"),
    }
    packets = name_kinds(launches, events).filter((pl.col("kind") != "copy") & pl.col("queue").is_not_null())
    tellers = {c: pl.col(c) for c in list_tellers(_MOMENTS)}
    found = collect(packets.select("queue", pl.col("kind").cast(pl.String), **waits, **tellers))
    start_error = gap_error(*_MOMENTS).filter(pl.col("start").is_not_null())
    rows = (
        add_errors(found, events, _MOMENTS)
        .group_by("queue", "kind")
        .agg(
            pl.len().cast(pl.Int64).alias("packets"),
            pl.col("start").count().cast(pl.Int64).alias("timed"),
            *spread_ns(pl.col("start"), "start"),
            widest(start_error).alias("start_error_ns"),
            *spread_ns(pl.col("completion"), "completion"),
        )
    )
    known = priorities.select("queue", "priority_hip", "priority_log")
    told = rows.filter(pl.any_horizontal(pl.col(f"{name}_max_ns").is_not_null() for name in _WAITS))
    columns = ("queue", "kind", "priority_hip", "priority_log")
    ordered = known.join(told, on="queue", how="right").select(*columns, pl.exclude(columns))
    dispatches_first = ~pl.col("kind").str.starts_with("dispatch")
    return ordered.sort(
        "priority_log", "queue", dispatches_first, "kind", descending=[True, False, False, False], nulls_last=True
    )
