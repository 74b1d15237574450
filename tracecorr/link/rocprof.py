"""Kernels that rocprof timed: which packet of the log is each of them?"""

from __future__ import annotations

import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import DERIVED, Flag

RULE = "rocprof_of_packet"


def attach_processes(events: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with the process of rocprof's rows: the one whose log prints their pid, else whose pid it is."""
    is_ours = pl.col("source") == "rocprof"
    if not events.select(is_ours.any()).item():
        return events
    known = pl.concat([
        processes.select(pid=pl.col(column).cast(pl.Int64), found="process", order=pl.lit(order))
        for order, column in enumerate(("log_pid", "pid"))
    ]).drop_nulls().sort("order").unique("pid", keep="first")  # fmt: skip
    keyed = events.with_columns(_pid=pl.when(is_ours).then(pl.col("pid").cast(pl.Int64)))
    joined = keyed.join(known.drop("order"), left_on="_pid", right_on="pid", how="left", maintain_order="left")
    # The number of a process that no log is of is kept as rocprof prints it.
    hosts = processes.select(found="process", host="pid").drop_nulls()
    joined = joined.join(hosts, on="found", how="left", maintain_order="left")
    return joined.with_columns(
        process=pl.when(is_ours).then("found").otherwise("process"),
        host_pid=pl.when(is_ours)
        .then(pl.coalesce("host", "_pid"))
        .otherwise("host_pid")
        .cast(events.schema["host_pid"]),
    ).drop("found", "host", "_pid")


def match_kernels(
    events: pl.DataFrame, args: pl.DataFrame, launches: pl.DataFrame, queues: pl.DataFrame
) -> pl.DataFrame:
    """Return event (packet), gpu_event and gpu times of the kernels that rocprof timed.

    Packets of one queue run in order, so the n-th timed kernel of a queue is the n-th dispatch of the log's queue with
    that HSA queue id. A queue is linked only when both sides name the same kernels in the same order; where the ids do
    not fit, a process whose dispatches are on one queue is compared as a whole.

    Args:
        events: linked events with `kernel_id`.
        args: args by event, with `queue_id`.
        launches: rows of `launches`.
        queues: rows of `queues`.

    Returns: event, gpu_event, gpu_start_ns, gpu_end_ns (null where rocprof's clock is not known).
    """
    empty = pl.DataFrame(schema=dict.fromkeys(("event", "gpu_event", "gpu_start_ns", "gpu_end_ns"), pl.Int64))
    timed = _timed(events, args)
    dispatches = launches.filter(pl.col("kind").cast(pl.String) == "dispatch").select(
        "event", "process", "queue", "kernel", "packet_ns"
    )
    if timed.is_empty() or dispatches.is_empty():
        return empty
    ids = queues.select("queue", queue_id=pl.col("log_id").cast(pl.Int64))
    dispatches = dispatches.join(ids, on="queue", how="left").sort("packet_ns", "event")
    by_queue = _match(timed, dispatches, ["process", "queue_id"])
    rest = timed.join(by_queue, on="gpu_event", how="anti")
    lonely = dispatches.filter(pl.col("queue").n_unique().over("process") == 1)
    by_process = _match(rest, lonely.join(by_queue, on="event", how="anti"), ["process"])
    return pl.concat([by_queue, by_process])


def _timed(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return rocprof's kernels; a file that names no process is of the only process, if there is one."""
    rows = events.filter(
        (pl.col("source") == "rocprof") & (pl.col("layer") == "gpu") & pl.col("kernel_id").is_not_null()
    )
    queue_ids = args.filter(pl.col("key").cast(pl.String) == "queue_id").select(
        "event", queue_id=pl.col("u64").cast(pl.Int64, strict=False)
    )
    logs = events.filter(pl.col("source") == "amd_log")["process"].drop_nulls().unique()
    only = logs.item() if logs.len() == 1 else None
    unaligned = pl.col("flags").fill_null(0) & int(Flag.UNALIGNED) > 0
    end_ns = pl.col("ts_ns") + pl.col("dur_ns")
    return rows.join(queue_ids, on="event", how="left", maintain_order="left").select(
        gpu_event="event",
        process=pl.when(pl.col("pid").is_null()).then(pl.lit(only)).otherwise("process").cast(pl.UInt32),
        queue_id="queue_id", kernel="kernel_id", stamp_ns="stamp_ns",
        gpu_start_ns=pl.when(~unaligned).then("ts_ns"), gpu_end_ns=pl.when(~unaligned).then(end_ns),
    ).drop_nulls("process").sort("stamp_ns", "gpu_event")  # fmt: skip


def _match(timed: pl.DataFrame, dispatches: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    place = pl.int_range(pl.len()).over(keys).alias("place")
    ours = timed.drop_nulls(keys).with_columns(place, count=pl.len().over(keys))
    theirs = dispatches.drop_nulls(keys).with_columns(place, count=pl.len().over(keys))
    both = ours.join(theirs.select(*keys, "place", "event", "kernel", "count"), on=[*keys, "place"], suffix="_log")
    same = (pl.col("kernel") == pl.col("kernel_log")) & (pl.col("count") == pl.col("count_log"))
    whole = both.with_columns(same=same.all().over(keys)).filter("same")
    return whole.select("event", "gpu_event", "gpu_start_ns", "gpu_end_ns")


def fill_gpu_times(launches: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return `launches` with what rocprof timed, where no other source did."""
    if found.is_empty():
        return launches
    columns = ("gpu_event", "gpu_start_ns", "gpu_end_ns")
    joined = launches.join(found, on="event", how="left", maintain_order="left", suffix="_rocprof")
    filled = joined.with_columns(pl.coalesce(c, f"{c}_rocprof").alias(c) for c in columns)
    return schema.LAUNCHES.conform(filled.drop(f"{c}_rocprof" for c in columns))


def list_edges(found: pl.DataFrame) -> pl.DataFrame:
    """Return the links from packets to the kernels that rocprof timed."""
    return found.select(from_event="event", to_event="gpu_event", rule=pl.lit(RULE), evidence=pl.lit(DERIVED))


def warn_foreign(events: pl.DataFrame, links: pl.DataFrame) -> list[str]:
    """Return warnings about rocprof files that seem to be of another run than the log."""
    rows = events.filter(pl.col("source").cast(pl.String) == "rocprof")
    kernels = rows.filter((pl.col("layer").cast(pl.String) == "gpu") & pl.col("kernel").is_not_null())
    log = events.filter(pl.col("source").cast(pl.String) == "amd_log")
    if rows.is_empty() or log.is_empty():
        return []
    pids = rows["pid"].drop_nulls().unique().sort().to_list()
    if pids and rows["process"].null_count() == rows.height:
        return [f"the rocprof file is of another run: no log is of its processes {', '.join(map(str, pids))}"]
    linked = links.filter(pl.col("rule").cast(pl.String) == RULE).height
    if kernels.height and linked < kernels.height:
        return [
            f"{kernels.height - linked} of {kernels.height} kernels that rocprof timed are no packets of the log: "
            "another run, or a profile of other queues"
        ]
    return []
