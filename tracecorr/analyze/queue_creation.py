"""How each queue was requested and created, and how long it took in the runtime and in the driver."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.analyze.clocks import find_untimed
from tracecorr.analyze.values import Tables, collect
from tracecorr.link.mqds import list_mqd_operations
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import INFERRED, QUEUES_COUNTED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, DESTROY_QUEUE, SET_CU_MASK, UPDATE_QUEUE, decode_mapping


def _find_enclosing_ioctls(events: pl.DataFrame) -> pl.DataFrame:
    """Return, per row, the nearest ioctl that encloses it.

    Args:
        events: rows with event, parent and layer (text); parents outside of these rows are ignored.

    Returns: event, ioctl (an event); rows without one, and ioctls themselves, are left out.
    """
    places = events.select("event").with_row_index("place")
    above = events.select("event", "parent", top=pl.col("layer") == "ioctl").join(
        places, left_on="parent", right_on="event", how="left", maintain_order="left"
    )
    here = np.arange(events.height)
    top = above["top"].fill_null(False).to_numpy()
    parents = np.where(top, here, above["place"].cast(pl.Int64).fill_null(-1).to_numpy())
    parents = np.where(parents < 0, here, parents)
    # Each round doubles the height; an ioctl and a root point at themselves.
    for _ in range(64):
        higher = parents[parents]
        if np.array_equal(higher, parents):
            break
        parents = higher
    found = top[parents] & (parents != here)
    names = events["event"].to_numpy()
    return pl.DataFrame(
        {"event": names[found], "ioctl": names[parents[found]]}, schema={"event": pl.Int64, "ioctl": pl.Int64}
    )


_CAUSES = {
    CREATE_QUEUE: "create",
    UPDATE_QUEUE: "update",
    SET_CU_MASK: "cu_mask",
    DESTROY_QUEUE: "destroy",
}


def summarize_mqd_operations(kernel_events: pl.DataFrame) -> pl.DataFrame:
    """Return one row per MQD operation on a user queue, with its cause; calls per XCC count once.

    Args:
        kernel_events: rows of the layers ioctl, kfd and mqd: event, ts_ns, name, layer, parent, flags (texts
            as strings).

    Returns: event, ts_ns, name, operation, cause (`create`, `update`, `cu_mask`, `destroy`, `restore`, `other`),
        ioctl (the enclosing ioctl, null for a worker's).
    """
    inside = _find_enclosing_ioctls(kernel_events).rename({"ioctl": "enclosing_call"})
    nested = kernel_events.join(inside, on="event", how="left", maintain_order="left")
    operations = list_mqd_operations(nested).filter(~pl.col("target").is_in(["hiq", "diq"]))
    names = kernel_events.select(ioctl="event", ioctl_name="name")
    rows = (
        operations.rename({"enclosing_call": "ioctl"})
        .join(kernel_events.select("event", "ts_ns", "name"), on="event", maintain_order="left")
        .join(names, on="ioctl", how="left", maintain_order="left")
    )
    cause = pl.col("ioctl_name").replace_strict(_CAUSES, default=None, return_dtype=pl.String)
    restored = pl.when(pl.col("operation") == "restore").then(pl.lit("restore"))
    shaped = rows.with_columns(cause=pl.coalesce(cause, restored, pl.lit("other")))
    return shaped.select("event", "ts_ns", "name", "operation", "cause", "ioctl")


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


def _find_pages_of_queues(queues: pl.DataFrame, gpus: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Return queue, doorbell_map_event, gpu_unknown: the doorbell page of each queue's process and GPU.

    If the GPU of a queue is unknown, its page is the only one that the process mapped; with several pages it is
    unknown: `gpu_unknown`.

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


_COLUMNS = ("thread", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns")


def _sum_ioctls_inside(tables: Tables, spans: pl.DataFrame) -> pl.DataFrame:
    """Return number and time of the ioctls of the same thread that certainly lie between two lines of the log.

    Ioctls that may lie outside by the errors of the clocks, and those of inferred threads, are left out: a lower bound.

    Args:
        tables: gives a table by its name.
        spans: start_event, end_event: rows of `events`; spans of one thread do not overlap.

    Returns: end_event, rocr_ioctls, rocr_in_ioctls_ns; only spans with such ioctls.
    """
    guessed = tables("threads").filter(pl.col("evidence").cast(pl.String) == INFERRED).select("thread").collect()
    known = _add_bounds(tables, spans).join(guessed, on="thread", how="anti")
    own = pl.col("thread").is_in(known["thread"].unique().implode())
    ioctls = collect(tables("events").filter((pl.col("layer") == "ioctl") & own).select(_COLUMNS))
    ioctls = ioctls.select(
        "thread", "dur_ns", low_ns=pl.col("ts_ns") - pl.col("err_lo_ns").cast(pl.Int64),
        high_ns=pl.col("ts_ns") + pl.col("dur_ns") + pl.col("err_hi_ns").cast(pl.Int64),
    ).drop_nulls()  # fmt: skip
    held = ioctls.sort("low_ns").join_asof(
        known.sort("from_ns"), left_on="low_ns", right_on="from_ns", by="thread", check_sortedness=False
    )
    inside = held.filter(pl.col("high_ns") <= pl.col("to_ns"))
    return inside.group_by("end_event").agg(
        pl.len().cast(pl.Int64).alias("rocr_ioctls"), pl.col("dur_ns").sum().alias("rocr_in_ioctls_ns")
    )


def _add_bounds(tables: Tables, spans: pl.DataFrame) -> pl.DataFrame:
    """Return end_event, thread, and the latest start and earliest end of each span: from_ns, to_ns."""
    events = pl.concat([spans["start_event"], spans["end_event"]]).drop_nulls().unique().sort()
    lines = collect(
        tables("events").filter(pl.col("event").is_in(events.implode()))
        .select("event", "thread", "ts_ns", pl.col("err_lo_ns", "err_hi_ns").cast(pl.Int64))
    )  # fmt: skip
    begun = lines.select(start_event="event", from_ns=pl.col("ts_ns") + pl.col("err_hi_ns"))
    ended = lines.select("thread", end_event="event", to_ns=pl.col("ts_ns") - pl.col("err_lo_ns"))
    joined = spans.join(begun, on="start_event").join(ended, on="end_event")
    return joined.select("end_event", "thread", "from_ns", "to_ns").drop_nulls()


def summarize_queue_creation(tables: Tables) -> pl.DataFrame:
    """Return one row per queue with a creation in the log or in the trace, in the order of creation.

    Returns: queue, process, gpu, call_event, call (name of the HIP call it happened in), created_line_event,
        rocr_ns ("Number of allocated" to "Created" on its thread), rocr_ioctls and rocr_in_ioctls_ns (number and
        time of the ioctls of the thread that certainly lie between these lines; null = none),
        create_ioctl_event, ioctl_ns, ioctl_result, kfd_event and kfd_ns (driver function in it), init_mqd_event and
        mqd_ns (time from the start of the ioctl to the MQD's initialisation), mqd_operations, pid (of the host, if
        known) and tid (of the kernel) of the creator, stream (created by the call, if it created no other queue),
        doorbell_map_event (first mapping of its process and GPU), gpu_unknown (its process mapped pages of several
        GPUs, and its GPU is unknown).
    """
    queues = tables("queues").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    made = queues.filter(pl.col("created_line_event").is_not_null() | pl.col("create_ioctl_event").is_not_null())
    made = made.select("queue", "process", "gpu", "created_ns", "created_line_event", "create_ioctl_event")
    for more, keys in (
        (_makers(tables, made), ["queue"]),
        (_calls(tables, made), ["queue"]),
        (_log_side(tables, made), ["created_line_event"]),
        (_kernel_side(tables, made), ["create_ioctl_event"]),
        (_find_pages_of_queues(made, tables("gpus").collect(), list_doorbell_pages(tables)), ["queue"]),
    ):
        made = made.join(more, on=keys, how="left", maintain_order="left")
    return made.sort("created_ns", "queue").drop("created_ns")


def _calls(tables: Tables, made: pl.DataFrame) -> pl.DataFrame:
    """Return the outermost HIP call in which each queue was created."""
    marks = made.select("queue", event=pl.coalesce("created_line_event", "create_ioctl_event"))
    chains = _rows(tables, marks["event"]).select("event", call_event="chain")
    joined = marks.join(chains, on="event", how="left")
    names = _rows(tables, joined["call_event"].drop_nulls()).select(call_event="event", call="name")
    return joined.join(names, on="call_event", how="left").select("queue", "call_event", "call")


def _log_side(tables: Tables, made: pl.DataFrame) -> pl.DataFrame:
    lines = _rows(tables, made["created_line_event"].drop_nulls()).select("event", _place(), "ts_ns")
    starts = collect(
        tables("events")
        .filter((pl.col("layer") == "aql") & (pl.col("name") == QUEUES_COUNTED))
        .select(_place(), "ts_ns", start_ns="ts_ns", start_event="event")
    )
    ordered = lines.sort("ts_ns", "event").with_columns(before_ns=pl.col("ts_ns").shift(1).over("place"))
    joined = ordered.join_asof(starts.sort("ts_ns"), on="ts_ns", by="place", check_sortedness=False)
    # A start before the previous creation belongs to that creation.
    own = pl.col("before_ns").is_null() | (pl.col("start_ns") >= pl.col("before_ns"))
    joined = joined.with_columns(pl.when(own).then(pl.col("start_ns", "start_event")))
    inside = _sum_ioctls_inside(tables, joined.select("start_event", end_event="event"))
    took = joined.select(created_line_event="event", rocr_ns=pl.col("ts_ns") - pl.col("start_ns"))
    return took.join(inside, left_on="created_line_event", right_on="end_event", how="left")


def _place() -> pl.Expr:
    """Return the thread of a line; without one, the call that contains it."""
    return pl.coalesce(pl.col("thread").cast(pl.Int64), -1 - pl.col("parent")).alias("place")


def _kernel_side(tables: Tables, made: pl.DataFrame) -> pl.DataFrame:
    ioctls = _rows(tables, made["create_ioctl_event"].drop_nulls())
    ioctls = ioctls.select(create_ioctl_event="event", start_ns="ts_ns", ioctl_ns="dur_ns", ioctl_result="result")
    kernel = collect(
        tables("events")
        .filter(pl.col("layer").is_in(["ioctl", "kfd", "mqd"]) & is_counted())
        .select("event", "ts_ns", "dur_ns", "layer", "name", "parent", "flags")
        .with_columns(pl.col("layer", "name").cast(pl.String))
    )
    inside = _find_enclosing_ioctls(kernel).rename({"ioctl": "create_ioctl_event"})
    inside = inside.join(kernel, on="event").join(ioctls, on="create_ioctl_event", how="semi")
    driver = inside.filter((pl.col("layer") == "kfd") & (pl.col("name") != "kfd_ioctl")).sort("event")
    driver = driver.unique("create_ioctl_event", keep="first").select(
        "create_ioctl_event", kfd_event="event", kfd_ns="dur_ns"
    )
    timed = not find_untimed(tables("clock_map"))
    since_start = pl.when(timed).then(pl.col("init_ns") - pl.col("start_ns"))
    seen = ioctls.join(driver, on="create_ioctl_event", how="left")
    both = seen.join(_mqd_side(kernel), on="create_ioctl_event", how="left")
    return both.with_columns(mqd_ns=since_start).drop("start_ns", "init_ns")


def _mqd_side(kernel: pl.DataFrame) -> pl.DataFrame:
    operations = summarize_mqd_operations(kernel).filter(pl.col("cause") == "create").sort("event")
    init = pl.col("operation") == "init"
    return operations.group_by(create_ioctl_event="ioctl").agg(
        init_mqd_event=pl.col("event").filter(init).first(),
        init_ns=pl.col("ts_ns").filter(init).first(),
        mqd_operations=pl.col("operation").str.join(" "),
    )


def _makers(tables: Tables, made: pl.DataFrame) -> pl.DataFrame:
    """Return queue, pid, tid, stream: the creator of each queue, and the stream that its call created."""
    marks = made.select("queue", "process", "create_ioctl_event", "created_line_event")
    marks = marks.with_columns(event=pl.coalesce("created_line_event", "create_ioctl_event"))
    rows = _rows(tables, marks["event"]).select("event", "thread", create_event="chain")
    threads = tables("threads").select("thread", pl.col("tid").cast(pl.Int64)).collect()
    processes = tables("processes").select("process", pid=pl.coalesce("pid", "log_pid").cast(pl.Int64)).collect()
    streams = tables("streams").select("create_event", "stream").drop_nulls().collect()
    streams = streams.unique("create_event", keep="none")
    joined = marks.join(rows, on="event", how="left")
    for more, key in ((threads, "thread"), (processes, "process"), (streams, "create_event")):
        joined = joined.join(more, on=key, how="left")
    # Not all queues of a call belong to its stream: ROCr creates one of its own.
    logged = pl.col("created_line_event").is_not_null()
    alone = logged & (logged.sum().over("create_event") == 1)
    return joined.select("queue", "pid", "tid", stream=pl.when(alone).then("stream"))


def _rows(tables: Tables, events: pl.Series) -> pl.DataFrame:
    """Return the rows of `events` with these ids, texts as strings."""
    wanted = events.cast(pl.Int64).drop_nulls().unique().sort()
    rows = tables("events").select("event", "ts_ns", "dur_ns", "name", "result", "thread", "parent", "chain")
    # A filter, unlike a join, skips the row groups without these ids.
    found = rows.filter(pl.col("event").is_in(wanted.implode())) if len(wanted) else rows.clear()
    return collect(found.with_columns(pl.col(pl.Categorical).cast(pl.String)))
