"""What rocprof timed: which packet or copy of the log is each of them?"""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rocprof_pairs import are_truncated, compare_names, pair_lanes
from tracecorr.link.events import attach_fields
from tracecorr.model import frames, schema
from tracecorr.model.frames import gives
from tracecorr.model.kinds import CORRELATION_RULE, DERIVED, RECORDED, Flag
from tracecorr.read.rocprof.profile import CLOCK, REPEATED, TIMELESS

_RULE = "rocprof_of_packet"


# User events of rocprofiler-sdk in a trace, and the layer and name of their rows: no event names what it tells of.
_USER_EVENTS = {
    "rocprof_kernel_dispatch": ("gpu", "dispatch"),
    "rocprof_hip_api": ("hip", "rocprof_hip_api"),
    "rocprof_hsa_api": ("hsa", "rocprof_hsa_api"),
}
_GRID = ("grid_x", "grid_y", "grid_z")


def take_user_events(records: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the part events in which what rocprofiler wrote into the trace is a profile's record.

    The profiler writes these events when its output is made, one after the other: only the times that they hold tell
    when something ran. They are of the process that wrote them.

    Args:
        records: part events with `source`, `process`, `thread`.
        args: part args: `start_ts`, `end_ts` (ns) of the events.
    """
    name = pl.col("name").cast(pl.String)
    is_ours = (pl.col("source") == "ftrace") & name.is_in(list(_USER_EVENTS))
    if not records.select(is_ours.any()).item():
        return records
    place = ["file", "offset"]
    times = args.filter(pl.col("key").is_in(["start_ts", "end_ts"])).select(
        *place, key=pl.col("key").cast(pl.String), ns=pl.col("u64").cast(pl.Int64, strict=False)
    )  # fmt: skip
    for key in ("start_ts", "end_ts"):
        records = records.join(
            times.filter(key=key).select(*place, pl.col("ns").alias(key)).unique(place), on=place, how="left",
            maintain_order="left",
        )  # fmt: skip
    taken = is_ours & (pl.col("end_ts") >= pl.col("start_ts")).fill_null(value=False)
    told = {
        "source": pl.lit("rocprof"), "clock": pl.lit(CLOCK), "stamp_ns": pl.col("start_ts"),
        "end_stamp_ns": pl.col("end_ts"), "thread": pl.lit(None), "tid": pl.lit(None), "pid": pl.lit(None),
        "cpu": pl.lit(None), "parent_offset": pl.lit(None),
        "layer": name.replace_strict({n: layer for n, (layer, _) in _USER_EVENTS.items()}, default=None),
        "name": name.replace_strict({n: new for n, (_, new) in _USER_EVENTS.items()}, default=None),
    }  # fmt: skip
    kinds = records.schema
    columns = [pl.when(taken).then(e.cast(kinds[c])).otherwise(c).alias(c) for c, e in told.items() if c in kinds]
    return records.with_columns(columns).drop("start_ts", "end_ts")


def attach_processes(events: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with the process of rocprof's rows: the one whose log prints their pid, else whose pid it is."""
    # Who wrote an event of a trace is known.
    is_ours = (pl.col("source") == "rocprof") & pl.col("process").is_null()
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


@gives(frames.GPU_TIMES)
def match_packets(
    events: pl.DataFrame, args: pl.DataFrame, launches: pl.DataFrame, queues: pl.DataFrame, kernels: pl.DataFrame
) -> pl.DataFrame:
    """Return event (packet or copy), gpu_event and gpu times of what rocprof timed.

    The dispatches of one queue are in the order in which they were submitted (Dispatch_Id; else their start). A queue
    is linked only when both sides name the same kernels in the same order: the one with that HSA queue id, else the
    only one of the process. Copies are compared by their sizes, process by process.

    Args:
        events: linked events with `kernel_id`.
        args: args by event, with `queue_id` and `dispatch_id`.
        launches: rows of `launches`.
        queues: rows of `queues`.
        kernels: rows of `kernels`.

    Returns: event, gpu_event, gpu_start_ns, gpu_end_ns (null where rocprof's clock is not known).
    """
    columns = ("event", "gpu_event", "gpu_start_ns", "gpu_end_ns")
    if launches.is_empty() or not events.select((pl.col("source") == "rocprof").any()).item():
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    timed = _timed(events, args)
    if timed.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    pairs = pl.concat([
        _pair_kernels(timed, launches, queues, kernels), _pair_shapes(timed, args, launches, queues),
        _pair_copies(timed, launches),
    ])  # fmt: skip
    times = timed.select(gpu_event="event", gpu_start_ns="gpu_start_ns", gpu_end_ns="gpu_end_ns")
    return pairs.rename({"row": "gpu_event", "row_other": "event"}).join(times, on="gpu_event").select(columns)


def _pair_kernels(
    timed: pl.DataFrame, launches: pl.DataFrame, queues: pl.DataFrame, kernels: pl.DataFrame
) -> pl.DataFrame:
    names = kernels.select(kernel="kernel", printed=pl.coalesce("mangled", "name"))
    ours = timed.drop_nulls("kernel").join(names, on="kernel", how="left", maintain_order="left")
    ids = queues.select("queue", log_id=pl.col("log_id").cast(pl.Int64))
    theirs = launches.filter(pl.col("kind").cast(pl.String) == "dispatch").join(ids, on="queue", how="left")
    theirs = theirs.join(names, on="kernel", how="left", maintain_order="left")
    short = are_truncated(ours["printed"])
    # A queue whose HSA id the log does not print is a lane all the same.
    unnumbered = -1 - pl.col("queue").cast(pl.Int64)
    return pair_lanes(
        ours.select(row="event", name=compare_names(ours["printed"], short), process="process", lane="queue_id",
                    place=pl.coalesce("dispatch_id", "stamp_ns")),
        theirs.select(row="event", name=compare_names(theirs["printed"], short), process="process",
                      lane=pl.coalesce("log_id", unnumbered), place="packet_ns"),
    )  # fmt: skip


def _pair_shapes(timed: pl.DataFrame, args: pl.DataFrame, launches: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of dispatches whose kernel rocprof does not name, by the order of their grids."""
    ours = attach_fields(timed.filter(pl.col("kernel").is_null()), args, _GRID, pl.col("u64").cast(pl.Int64))
    ours = ours.drop_nulls("grid_x")
    ids = queues.select("queue", log_id=pl.col("log_id").cast(pl.Int64))
    theirs = launches.filter(pl.col("kind").cast(pl.String) == "dispatch").join(ids, on="queue", how="left")
    shape = pl.concat_str(pl.col(_GRID).cast(pl.Int64), separator="x")
    lane = pl.coalesce("log_id", -1 - pl.col("queue").cast(pl.Int64))
    return pair_lanes(
        ours.select(row="event", name=shape, process="process", lane="queue_id",
                    place=pl.coalesce("dispatch_id", "stamp_ns")),
        theirs.select(row="event", name=shape, process="process", lane=lane, place="packet_ns"),
    )  # fmt: skip


def _pair_copies(timed: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    ours = timed.filter(pl.col("kernel").is_null() & pl.col("size_bytes").is_not_null())
    theirs = launches.filter((pl.col("kind").cast(pl.String) == "copy") & pl.col("size_bytes").is_not_null())
    lane, size = pl.lit(0, pl.Int64), pl.col("size_bytes").cast(pl.String)
    return pair_lanes(
        ours.select(row="event", name=size, process="process", lane=lane, place="stamp_ns"),
        theirs.select(row="event", name=size, process="process", lane=lane, place="packet_ns"),
    )


def _timed(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return rocprof's kernels and copies; a file that names no process is of the only process, if there is one."""
    columns = ("event", "process", "host_pid", "kernel_id", "size_bytes", "ts_ns", "dur_ns", "stamp_ns", "flags")
    rows = events.select(*columns, "source", "layer")
    rows = rows.filter((pl.col("source") == "rocprof") & (pl.col("layer") == "gpu"))
    rows = attach_fields(rows, args, ("queue_id", "dispatch_id"), pl.col("u64").cast(pl.Int64, strict=False))
    logs = events.select("process", "source").filter(pl.col("source") == "amd_log")["process"].drop_nulls().unique()
    only = logs.item() if logs.len() == 1 else None
    unaligned = pl.col("flags").fill_null(0) & int(Flag.UNALIGNED) > 0
    end_ns = pl.col("ts_ns") + pl.col("dur_ns")
    return rows.select(
        "event", "queue_id", "dispatch_id", "size_bytes", "stamp_ns", kernel="kernel_id",
        process=pl.when(pl.col("host_pid").is_null()).then(pl.lit(only)).otherwise("process").cast(pl.UInt32),
        gpu_start_ns=pl.when(~unaligned).then("ts_ns"), gpu_end_ns=pl.when(~unaligned).then(end_ns),
    ).drop_nulls("process")  # fmt: skip


@gives(frames.EDGES)
def link_correlations(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the links from rocprof's HIP calls to what they made the GPU do, by rocprof's correlation ids.

    Args:
        events: linked events.
        args: args by event, with `correlation_id`.
    """
    ids = args.filter(pl.col("key") == "correlation_id").select("event", correlation="u64")
    rows = events.select("event", "layer", "source", pid="host_pid").filter(pl.col("source") == "rocprof")
    rows = rows.join(ids, on="event")
    # The kernel tables of rocprofv3 name no process: they are of the one whose calls are there, if it is one.
    pids = rows["pid"].drop_nulls().unique()
    if pids.len() == 1:
        rows = rows.with_columns(pl.col("pid").fill_null(pids.item()))
    layer, keys = pl.col("layer").cast(pl.String), ["pid", "correlation"]
    rows = rows.drop_nulls("pid")
    calls = rows.filter((layer == "hip") & (pl.len().over([*keys, layer]) == 1)).select(*keys, from_event="event")
    found = rows.filter(layer == "gpu").select(*keys, to_event="event").join(calls, on=keys)
    return found.select("from_event", "to_event", rule=pl.lit(CORRELATION_RULE), evidence=pl.lit(RECORDED))


def fill_gpu_times(launches: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return `launches` with what rocprof timed, where no other source did."""
    if found.is_empty():
        return launches
    columns = ("gpu_event", "gpu_start_ns", "gpu_end_ns")
    joined = launches.join(found, on="event", how="left", maintain_order="left", suffix="_rocprof")
    filled = joined.with_columns(pl.coalesce(c, f"{c}_rocprof").alias(c) for c in columns)
    return schema.LAUNCHES.conform(filled.drop(f"{c}_rocprof" for c in columns))


@gives(frames.EDGES)
def list_edges(found: pl.DataFrame) -> pl.DataFrame:
    """Return the links from packets to the kernels that rocprof timed."""
    return found.select(from_event="event", to_event="gpu_event", rule=pl.lit(_RULE), evidence=pl.lit(DERIVED))


def warn_foreign(events: pl.DataFrame, links: pl.DataFrame) -> list[str]:
    """Return warnings about rocprof files that seem to be of another run than the log."""
    rows = events.filter(pl.col("source") == "rocprof")
    kernels = rows.filter((pl.col("layer").cast(pl.String) == "gpu") & pl.col("kernel").is_not_null())
    if rows.is_empty() or not (events["source"] == "amd_log").any():
        return []
    pids = rows["pid"].drop_nulls().unique().sort().to_list()
    if pids and rows["process"].null_count() == rows.height:
        return [f"the rocprof file is of another run: no log is of its processes {', '.join(map(str, pids))}"]
    linked = links.filter(pl.col("rule").cast(pl.String) == _RULE).height
    if kernels.height and linked < kernels.height:
        return [
            f"{kernels.height - linked} of {kernels.height} kernels that rocprof timed are no packets of the log: "
            "another run, or a profile of other queues"
        ]
    return []


def warn_repeated(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about rocprof files whose records an earlier file holds: one run in two formats.

    Args:
        ledger, files: the tables.
    """
    found = ledger.filter(pl.col("reason").cast(pl.String) == REPEATED).group_by("file").agg(pl.col("records").sum())
    named = found.join(files.select("file", "path"), on="file").sort("file")
    return [
        f"{path}: records that are {REPEATED}: {records}; one run in two formats, or in parts: they count once"
        for path, records in named.select("path", "records").iter_rows()
    ]


def warn_timeless(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about rocprof files that are not shown, because their rows are sums without times.

    Args:
        ledger, files: the tables.
    """
    booked = ledger.filter(pl.col("source").cast(pl.String) == "rocprof").group_by("file").agg(
        used=(pl.col("outcome").cast(pl.String) == "used").any(),
        timeless=(pl.col("reason").cast(pl.String) == TIMELESS).any(),
    )  # fmt: skip
    bare = files.join(booked.filter(~pl.col("used") & pl.col("timeless")), on="file").sort("file")
    return [
        f"{path} is a statistic without times: nothing of it is shown; import the trace that it sums up "
        "(kernel_trace.csv, results.json, ...)"
        for path in bare["path"]
    ]
