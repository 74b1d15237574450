"""Queues and streams: where they are known from, what went through them, how full each ring got; which queues the
hardware runs.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracecorr.analyze.values import Tables, as_text, collect, percentile
from tracecorr.link.packet_index import list_store_depths, measure_depth


def summarize_backlog(tables: Tables) -> pl.DataFrame:
    """Return one row per queue whose both indexes are known: the log prints them with packets, or a probe read them.

    Args:
        tables: gives the table of a capture by its name.

    Returns: queue, size (packets), measured (packets with both, or doorbell stores where the log prints none), mean,
        p95, peak (packets in the ring), peak_event (what found it fullest), peak_at_ns.
    """
    launches, queues = tables("launches"), tables("queues")
    depth = pl.col("depth")
    measured = launches.filter((pl.col("kind") != "copy") & pl.col("rptr").is_not_null() & pl.col("wptr").is_not_null())
    printed = measured.select("queue", "event", "packet_ns", depth=measure_depth()).drop_nulls("queue")
    stores = list_store_depths(tables("events"), tables("args")).join(printed, on="queue", how="anti")
    stored = stores.select("queue", "event", packet_ns="ts_ns", depth="depth")
    peaks = (
        pl.concat([printed, stored])
        .group_by("queue")
        .agg(
            measured=pl.len().cast(pl.Int64),
            mean=depth.mean().round(1),
            p95=percentile(depth, 95),
            peak=depth.max(),
            peak_event=pl.col("event").get(depth.arg_max()),
            peak_at_ns=pl.col("packet_ns").get(depth.arg_max()),
        )
    )
    sizes = queues.select("queue", "size")
    return collect(
        peaks.join(sizes, on="queue", how="left").select("queue", "size", pl.exclude("queue", "size")).sort("queue")
    )


_REFCOUNTED = {"queue_acquired": "acquired", "queue_selected": "selected", "queue_released": "released"}


def summarize_refcounts(tables: Tables) -> pl.DataFrame:
    """Return one row per queue of whose reference count the log tells: how many streams held it.

    Returns: queue, acquired, selected, released (lines), most (highest count), last (the count of the last line),
        shared (whether two streams or more held it at once), streams (keys of those that submitted to it).
    """
    lines = tables("events").filter(pl.col("name").cast(pl.String).is_in(list(_REFCOUNTED)))
    counts = tables("args").filter(pl.col("key").cast(pl.String) == "refcount").select("event", refcount="u64")
    rows = lines.select("event", "queue", *as_text("name")).join(counts, on="event").sort("event")
    count = pl.col("refcount").cast(pl.Int64)
    summed = rows.drop_nulls("queue").group_by("queue").agg(
        *((pl.col("name") == line).sum().cast(pl.Int64).alias(name) for line, name in _REFCOUNTED.items()),
        most=count.max(), last=count.last(), shared=count.max() > 1,
    )  # fmt: skip
    used = (
        tables("stream_queues")
        .group_by("queue")
        .agg(streams=pl.col("stream").unique().sort().cast(pl.String).str.join(" "))
    )
    return collect(summed.join(used, on="queue", how="left").sort("queue"))


NO_STREAM_NAMES = (
    "the log does not name the stream of packets and copies (commands do from ROCm 7.0 on, from 7.2 on at level 5; "
    "before that, calls with a stream argument do)"
)


def summarize_streams(streams: pl.LazyFrame, stream_queues: pl.LazyFrame, launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stream: its queues in order of use, and what it submitted.

    dispatches, barriers and copies are null if the log of the process does not name the stream of all of them
    (barriers up to ROCm 6.4), or has none of them: its level may not print packets.
    """
    used = (
        stream_queues.sort("from_ns")
        .group_by("stream", maintain_order=True)
        .agg(
            pl.col("queue").unique(maintain_order=True).cast(pl.String).str.join(" ").alias("queues"),
            pl.col("evidence").cast(pl.String).unique().sort().str.join(" ").alias("queue_evidence"),
        )
    )
    kind = pl.col("kind").cast(pl.String)
    sorts = {"dispatches": kind == "dispatch", "barriers": kind.str.starts_with("barrier"), "copies": kind == "copy"}
    counts = [of_sort.sum().cast(pl.Int64).alias(name) for name, of_sort in sorts.items()]
    submitted = launches.group_by("stream").agg(counts)
    unknown = _list_unknown(launches, sorts)
    known = [
        pl.when(~pl.col(f"unknown_{name}").fill_null(value=True)).then(pl.col(name).fill_null(0)).alias(name)
        for name in sorts
    ]
    return collect(
        streams.select("stream", "process", "handle", "priority", "flags", "created_ns", "destroyed_ns")
        .join(used, on="stream", how="left")
        .join(submitted, on="stream", how="left")
        .join(unknown, on="process", how="left", nulls_equal=True)
        .with_columns(*known, *as_text("queues", "queue_evidence"))
        .drop(f"unknown_{name}" for name in sorts)
        .sort("stream")
    )


def _list_unknown(launches: pl.LazyFrame, sorts: dict[str, pl.Expr]) -> pl.LazyFrame:
    """Return, per process with launches, which counts of its streams are unknown."""
    silent = (pl.col("kind").cast(pl.String) == "copy").all()  # a level that prints copies may print no packets
    unnamed = pl.col("stream").is_null()
    # Only packets with a command prove that the log does not name streams; others may be those of lost lines.
    nameless = {
        name: (of_sort & unnamed & pl.col("command_event").is_not_null()).any()
        | (of_sort.any() & ~(of_sort & ~unnamed).any())
        for name, of_sort in sorts.items()
    }
    missing = {name: nameless[name] if name == "copies" else nameless[name] | silent for name in sorts}
    return launches.group_by("process").agg(unknown.alias(f"unknown_{name}") for name, unknown in missing.items())


def names_streams(launches: pl.LazyFrame) -> bool:
    """Tell whether the log names the streams of packets and copies (`NO_STREAM_NAMES`)."""
    seen = pl.col("stream").is_not_null().any() | (pl.len() == 0)
    return bool(collect(launches.select(seen)).item())


def count_streams_at_once(streams: pl.LazyFrame, stream_queues: pl.LazyFrame) -> pl.DataFrame:
    """Return per queue how many of the streams that submitted to it lived at the same time, at most.

    A stream lives from its creation, else its first packet, until it is destroyed.

    Args:
        streams, stream_queues: the tables.

    Returns: queue, at_once.
    """
    lives = stream_queues.group_by("queue", "stream").agg(pl.col("from_ns").min()).join(streams, on="stream")
    begins = lives.select("queue", at=pl.min_horizontal("created_ns", "from_ns"), step=pl.lit(1))
    ends = lives.select("queue", at="destroyed_ns", step=pl.lit(-1)).drop_nulls("at")
    # A stream that ends when another one begins does not overlap it.
    steps = pl.concat([begins, ends]).sort("at", "step")
    living = steps.with_columns(living=pl.col("step").cum_sum().over("queue"))
    return collect(living.group_by("queue").agg(at_once=pl.col("living").max().cast(pl.Int64)).sort("queue"))


_SHOWN = (
    "queue", "process", "gpu", "hwq", "ring_base", "kfd_queue_id", "type", "size", "priority_hip", "priority_log",
    "priority_ioctl", "intercepted", "created_ns", "destroyed_ns", "create_evidence", "ring_evidence", "mqd_events",
    "dispatches", "barriers",
)  # fmt: skip
_RINGLESS = (
    "the line of a creation names no ring (up to ROCm 6.1): a queue known only from this line and one known only from "
    "its packets may be the same"
)
_APART = (
    "not all queues of the log are joined to a CREATE_QUEUE ioctl: a queue known only from the log and one known only "
    "from the trace may be the same"
)


def _is_logged() -> pl.Expr:
    """Tell whether the log may have the packets of a queue."""
    traced = pl.col("known_from").str.contains("ftrace").fill_null(value=False)
    return ~traced | pl.col("known_from").str.contains("amd_log") | pl.col("hwq").is_not_null()


def _is_ringless() -> pl.Expr:
    """Tell whether a queue is known only from a creation line without its ring (up to ROCm 6.1)."""
    named = pl.col("known_from").str.contains("amd_log").fill_null(value=False)
    return pl.col("hwq").is_null() & pl.col("ring_base").is_null() & named


def _is_unmade() -> pl.Expr:
    """Tell whether a queue is known from packets, but not from its creation."""
    return pl.col("hwq").is_not_null() & pl.col("created_ns").is_null()


def count_doubled(queues: pl.DataFrame) -> int:
    """Return how many queues may be counted twice: in the log by creation and packets, or by the log and the trace.

    Args:
        queues: as `summarize_queues` returns them; of a dataset with `node`.
    """
    return _count_by_node(_count_ringless, queues) + _count_by_node(_count_apart, queues)


def explain_doubled(queues: pl.DataFrame) -> list[str]:
    """Return, in words, why queues may be counted twice; empty if none is.

    Args:
        queues: as `summarize_queues` returns them; of a dataset with `node`.
    """
    causes = ((_count_ringless, _RINGLESS), (_count_apart, _APART))
    return [reason for count, reason in causes if _count_by_node(count, queues)]


def _count_by_node(count: Callable[[pl.DataFrame], int], queues: pl.DataFrame) -> int:
    """Return the sum over the nodes of a dataset."""
    return sum(map(count, queues.partition_by("node"))) if "node" in queues.columns else count(queues)


def _count_ringless(queues: pl.DataFrame) -> int:
    both = queues.group_by("process").agg(pl.min_horizontal(_is_ringless().sum(), _is_unmade().sum()).alias("n"))
    return int(both["n"].sum())


def _count_apart(queues: pl.DataFrame) -> int:
    """Return how many queues of the log without an ioctl may be queues of the trace without a line.

    A process known only from the log may be any process known only from the trace.
    """
    logged, traced = (pl.col("known_from").str.contains(s).fill_null(value=False) for s in ("amd_log", "ftrace"))
    # A queue with a ring read by a probe is joined already, and HIP creates no SDMA queues.
    sdma = pl.col("type").cast(pl.String).str.starts_with("sdma").fill_null(value=False)
    nameless = traced & ~logged & pl.col("ring_base").is_null() & ~sdma
    sides = queues.group_by("process").agg(
        log=(logged & ~traced).sum(), trace=nameless.sum(), has_log=logged.any(), has_trace=traced.any()
    )
    shared = sides.filter(pl.col("has_log") & pl.col("has_trace")).select(pl.min_horizontal("log", "trace").sum())
    log = sides.filter(~pl.col("has_trace"))["log"].sum()
    trace = sides.filter(~pl.col("has_log"))["trace"].sum()
    return int(shared.item() + min(log, trace))


def summarize_queues(queues: pl.LazyFrame, stream_queues: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per queue, with the number of streams that submitted to it, and which these are (`stream_ids`).

    `dispatches`, `barriers` and `streams` are null for a queue that the log does not know, and for all queues if none
    has a packet or a stream. `streams` is also null if the log names no stream for the packets of a queue. Up to ROCm
    6.1 the line of a creation names no ring: if it cannot be inferred, the packets are in a row of their own.
    """
    streams = stream_queues.group_by("queue").agg(
        streams=pl.col("stream").n_unique().cast(pl.Int64),
        stream_ids=pl.col("stream").unique().sort().cast(pl.String).implode().list.join(", "),
    )
    used = (pl.col("dispatches") + pl.col("barriers")).fill_null(0) > 0
    silent = ~(used.any() | pl.col("streams").is_not_null().any())
    return collect(
        queues.select(*_SHOWN, "known_from")
        .with_columns(as_text("type", "create_evidence", "ring_evidence"))
        .join(streams, on="queue", how="left")
        .with_columns(elsewhere=(_is_ringless() & _is_unmade().any().over("process")) | silent | ~_is_logged())
        .with_columns(
            # It is rare: the column is null for all other queues.
            pl.when("intercepted").then("intercepted").alias("intercepted"),
            pl.when(~pl.col("elsewhere")).then("dispatches").alias("dispatches"),
            pl.when(~pl.col("elsewhere")).then("barriers").alias("barriers"),
            streams=pl.when(pl.col("elsewhere") | used).then("streams").otherwise(pl.col("streams").fill_null(0)),
        )
        .select(*_SHOWN, "streams", "stream_ids", "known_from")
        .sort("queue")
    )


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
