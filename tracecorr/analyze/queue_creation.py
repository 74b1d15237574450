"""How was each queue asked for and made, and how long did it take on each side?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.ancestors import find_enclosing_ioctls
from tracecorr.analyze.clocks import find_untimed
from tracecorr.analyze.creation_ioctls import sum_ioctls_inside
from tracecorr.analyze.doorbell_pages import find_pages_of_queues, list_doorbell_pages
from tracecorr.analyze.frames import Tables, collect
from tracecorr.analyze.mqd import summarize_mqd_operations
from tracecorr.model.kinds import QUEUES_COUNTED
from tracecorr.model.sights import is_counted


def summarize_queue_creation(tables: Tables) -> pl.DataFrame:
    """Return one row per queue whose making was seen on either side, in the order of creation.

    Returns: queue, process, gpu, call_event, call (name of the HIP call it happened in), created_line_event,
        rocr_ns ("Number of allocated" to "Created" on its thread), rocr_ioctls and rocr_in_ioctls_ns (how many ioctls
        of the thread surely lie between these lines, and how long they took; null = of none it is sure),
        create_ioctl_event, ioctl_ns, ioctl_result, kfd_event and kfd_ns (driver function in it), init_mqd_event and
        mqd_ns (time from the start of the ioctl to the MQD's initialisation), mqd_operations, pid (of the host where
        it is known) and tid (of the kernel) of who made it, stream (that its call made, where it made no other queue),
        doorbell_map_event (first mapping of its process and GPU), gpu_unknown (its process mapped pages of several
        GPUs, and its own is not known).
    """
    queues = tables("queues").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    made = queues.filter(pl.col("created_line_event").is_not_null() | pl.col("create_ioctl_event").is_not_null())
    made = made.select("queue", "process", "gpu", "created_ns", "created_line_event", "create_ioctl_event")
    for more, keys in (
        (_makers(tables, made), ["queue"]),
        (_calls(tables, made), ["queue"]),
        (_log_side(tables, made), ["created_line_event"]),
        (_kernel_side(tables, made), ["create_ioctl_event"]),
        (find_pages_of_queues(made, tables("gpus").collect(), list_doorbell_pages(tables)), ["queue"]),
    ):
        made = made.join(more, on=keys, how="left", maintain_order="left")
    return made.sort("created_ns", "queue").drop("created_ns")


def _calls(tables: Tables, made: pl.DataFrame) -> pl.DataFrame:
    """Return the outermost HIP call in which each queue was made."""
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
    # A start before the last creation is that one's: the own one is not in the log.
    own = pl.col("before_ns").is_null() | (pl.col("start_ns") >= pl.col("before_ns"))
    joined = joined.with_columns(pl.when(own).then(pl.col("start_ns", "start_event")))
    inside = sum_ioctls_inside(tables, joined.select("start_event", end_event="event"))
    took = joined.select(created_line_event="event", rocr_ns=pl.col("ts_ns") - pl.col("start_ns"))
    return took.join(inside, left_on="created_line_event", right_on="end_event", how="left")


def _place() -> pl.Expr:
    """Return the thread of a line; where the log names none, the call that surely holds it."""
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
    inside = find_enclosing_ioctls(kernel).rename({"ioctl": "create_ioctl_event"})
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
    """Return queue, pid, tid, stream: who made each queue, and the stream that the call made with it."""
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
    # Several queues in one call are not all of its stream: ROCr makes one of its own on the way.
    logged = pl.col("created_line_event").is_not_null()
    alone = logged & (logged.sum().over("create_event") == 1)
    return joined.select("queue", "pid", "tid", stream=pl.when(alone).then("stream"))


def _rows(tables: Tables, events: pl.Series) -> pl.DataFrame:
    """Return the named rows of `events`, texts as strings."""
    wanted = events.cast(pl.Int64).drop_nulls().unique().sort()
    rows = tables("events").select("event", "ts_ns", "dur_ns", "name", "result", "thread", "parent", "chain")
    # A filter, unlike a join, leaves out the groups of rows that hold none of them.
    found = rows.filter(pl.col("event").is_in(wanted.implode())) if len(wanted) else rows.clear()
    return collect(found.with_columns(pl.col(pl.Categorical).cast(pl.String)))
