"""The life of a queue inside the driver: its ids, the MQD operations, its end, who schedules it."""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import pivot_args
from tracecorr.model import frames
from tracecorr.model.columns import is_counted
from tracecorr.model.frames import gives
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, DESTROY_QUEUE, SET_CU_MASK, UPDATE_QUEUE

_LOG_LAYERS = ["hip", "command", "aql", "copy", "signal", "memory"]
_DRIVER_LAYERS = ["ioctl", "kfd", "mqd"]
# <operation>_mqd[_generation], allocate_sdma_mqd, init_mqd_sdma, kfd_load_mqd_sdma, hiq_load_mqd_kiq_v9_4_3.
_OPERATION = r"(allocate|init|update|load|destroy|free|restore|checkpoint)_"
_TARGET = r"(sdma|hiq|diq)"
# On parts with several XCCs this wrapper runs once per queue and calls the plain function once per XCC
# (kfd_mqd_manager_v9.c, GC 9.4.3 to 9.5.0, from Linux 6.5 on; kfd_mqd_manager_v12_1.c, GC 12.1, from 7.0 on).
_WRAPPER = r"_v(?:9_4_3|12_1)$"
_COMPILED = r"(?:\.(?:isra|constprop|part|cold)\.?\d*)+$"
# trace_printk texts of instrumented drivers: KFD_MQD_CREATE, KFD_MQD_DESTROY.
_PRINTED, _PRINTED_OPERATIONS = r"^kfd_mqd_(create|destroy)", {"create": "init", "destroy": "destroy"}
_PRINTED_ID = r"^(?:CREATE_QUEUE_SUCCESS|KFD_MQD_\w+|CU_MASK)$"
# Functions and ioctls that work on one queue: repetitions in them are those for its XCCs.
_ONE_QUEUE = r"^(?:(?:create|destroy)_queue_(?:no)?cpsch|update_queue|(?:add|remove)_queue_mes|pqm_\w+_queue\w*)$"
_OPERATIONS = {
    "event": pl.Int64, "operation": pl.String, "target": pl.String, "multiplicity": pl.UInt64,
    "enclosing_call": pl.Int64,
}  # fmt: skip
_SCHEDULERS = (("MES", r"^add_queue_mes$"), ("none", r"^create_queue_nocpsch$"), ("HWS", r"^create_queue_cpsch$"))


@gives(frames.MQD_OPERATIONS)
def list_mqd_operations(events: pl.DataFrame) -> pl.DataFrame:
    """Return the operations on MQDs, each once whatever the number of XCCs and of tracers that saw it.

    What one operation calls is part of it: an initialization ends with an update of its own, which some compilers
    make a part of it.

    Args:
        events: events nested by `twins.nest_calls`.

    Returns: event (its outermost or first row), operation (`init`, `update`, ...), target (`cp`, `sdma`, `hiq`,
        `diq`), multiplicity (calls for the XCCs), enclosing_call.
    """
    if not _has_mqds(events):
        return pl.DataFrame(schema=_OPERATIONS)
    rows = _mqd_rows(events).sort("event")
    same = ("group", "target", "operation")
    top = pl.col("top") == pl.col("event")
    # A wrapper is an operation; the plain calls after it, or the plain calls alone, are its repetitions.
    wrapper = pl.when("wrapper").then("event")
    leader = pl.coalesce(
        wrapper,
        wrapper.forward_fill().over(same),
        wrapper.backward_fill().over(same),
        pl.col("event").first().over(same),
    )
    tops = rows.filter(top).with_columns(leader=leader)
    led = tops.select("leader", top="event", over="operation")
    inner = rows.filter(~top).join(led, on="top").filter(pl.col("operation") == pl.col("over"))
    called = ("leader", "function", "wrapper")
    calls = pl.concat([tops.select(called), inner.select(called)]).group_by("leader", "function")
    # pqm_update_mqd calls update_mqd, and that one __update_mqd: they are no calls for other XCCs.
    repeated = calls.agg(times=(~pl.col("wrapper")).sum())
    counted = repeated.group_by(event="leader").agg(multiplicity=pl.col("times").max().clip(1).cast(pl.UInt64))
    operations = tops.join(counted, on="event", maintain_order="left")
    initialized = (pl.col("operation") == "init").any().over("group", "target")
    own = operations.filter((pl.col("operation") != "update") | ~initialized, pl.col("operation") != "other")
    return own.select("event", "operation", "target", "multiplicity", "enclosing_call")


def _has_mqds(events: pl.DataFrame) -> bool:
    return bool((events["layer"] == "mqd").any())


def _mqd_rows(events: pl.DataFrame) -> pl.DataFrame:
    """Return the functions on MQDs, one row per call: event, enclosing_call, function, operation (`other`: what only
    asks or computes, such as `mqd_stride_v9`), target, wrapper, group (calls in one group repeat each other), top (the
    outermost operation around it)."""
    # The rows of a log are many, and none of them is a function of the driver.
    columns = ("event", "parent", "enclosing_call", "name", "layer", "flags")
    events = events.select(columns).filter(~pl.col("layer").is_in(_LOG_LAYERS) & is_counted())
    name = pl.col("name").cast(pl.String).str.replace(_COMPILED, "")
    layer = pl.col("layer").cast(pl.String)
    rows = events.filter(layer == "mqd").select("event", "parent", "enclosing_call", function=name)
    above = events.select(parent="event", over=name, over_layer=layer)
    rows = rows.join(above, on="parent", how="left", maintain_order="left")
    single = events.filter(name.is_in([CREATE_QUEUE, DESTROY_QUEUE, UPDATE_QUEUE, SET_CU_MASK])).select(
        enclosing_call="event", single="event"
    )
    rows = rows.join(single, on="enclosing_call", how="left", maintain_order="left")
    one_queue = pl.when(pl.col("over").str.contains(_ONE_QUEUE)).then("parent")
    inside = (pl.col("over_layer") == "mqd").fill_null(value=False)
    printed = pl.col("function").str.to_lowercase().str.extract(_PRINTED, 1)
    operation = pl.coalesce(
        printed.replace_strict(_PRINTED_OPERATIONS, default=None, return_dtype=pl.String),
        pl.col("function").str.extract(_OPERATION, 1),
        pl.lit("other"),
    )
    rows = rows.select(
        "event", "enclosing_call", "function", operation=operation, printed=printed.is_not_null(),
        target=pl.col("function").str.extract(_TARGET, 1).fill_null("cp"),
        wrapper=pl.col("function").str.contains(_WRAPPER), top=pl.when(inside).then("parent").otherwise("event"),
        group=pl.coalesce("single", one_queue, "event"),
    )  # fmt: skip
    # What the driver printed of an operation is a second sight of it where its functions were traced.
    traced = (~pl.col("printed")).any().over("group", "operation")
    return _climb(rows.filter(~pl.col("printed") | ~traced)).drop("printed")


def _climb(rows: pl.DataFrame) -> pl.DataFrame:
    """Replace `top` by the outermost operation; a wrapper, its plain call and that one's update are three deep."""
    for _ in range(4):
        above = rows.select(top="event", higher="top")
        rows = rows.join(above, on="top", how="left", maintain_order="left")
        rows = rows.with_columns(top=pl.coalesce("higher", "top")).drop("higher")
    return rows


@gives(frames.EVENT_ARGS)
def list_operation_args(operations: pl.DataFrame) -> pl.DataFrame:
    """Return rows of args: `mqd_multiplicity` of every MQD operation that ran for more than one XCC."""
    repeated = operations.filter(pl.col("multiplicity") > 1)
    return repeated.select("event", key=pl.lit("mqd_multiplicity"), u64="multiplicity", text=pl.lit(None, pl.String))


def add_driver_facts(queues: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return `queues` with what the driver's side tells: `kfd_queue_id`, `doorbell_offset`, `mqd_events`, the end.

    The struct of the ioctl is believed. A driver's own struct, whose layout changes, only where its ring is the one
    that the ioctl asked for.

    Args:
        queues: queues with `create_ioctl_event`, `ring_base`.
        events: linked events with `enclosing_call`.
        args: args by event.
    """
    if not events.select(pl.col("layer").is_in(_DRIVER_LAYERS).any()).item():
        missing = {"kfd_queue_id": pl.Int64, "doorbell_offset": pl.UInt64}
        return queues.with_columns(pl.lit(None, kind).alias(name) for name, kind in missing.items())
    ids = _queue_ids(queues, events, args)
    joined = queues.join(ids, on="create_ioctl_event", how="left", maintain_order="left")
    joined = _add_ends(joined, events, args)
    if not _has_mqds(events):
        return joined
    operations = list_mqd_operations(events).drop_nulls("enclosing_call")
    counted = operations.group_by(create_ioctl_event="enclosing_call").agg(mqd_events=pl.len().cast(pl.Int64))
    joined = joined.join(counted, on="create_ioctl_event", how="left", maintain_order="left")
    made = pl.col("create_ioctl_event").is_not_null()
    return joined.with_columns(mqd_events=pl.when(made).then(pl.col("mqd_events").fill_null(0)))


def _queue_ids(queues: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    made = (
        queues.drop_nulls("create_ioctl_event").select("create_ioctl_event", "ring_base").unique("create_ioctl_event")
    )
    told = pivot_args(args, made["create_ioctl_event"], ["qid", "doorbell"]).rename({"event": "create_ioctl_event"})
    inside = events.select("event", "enclosing_call").filter(
        pl.col("enclosing_call").is_in(made["create_ioctl_event"].implode())
    )
    fields = pivot_args(args, inside["event"], ["qid", "ring"])
    inner = (
        inside.select("event", create_ioctl_event="enclosing_call")
        .join(fields, on="event")
        .join(made, on="create_ioctl_event")
    )
    believed = inner.filter(pl.col("ring") == pl.col("ring_base")).drop_nulls("qid")
    # Two answers are none.
    agreed = believed.group_by("create_ioctl_event").agg(
        inner_qid=pl.when(pl.col("qid").n_unique() == 1).then(pl.col("qid").first())
    )
    both = (
        made.select("create_ioctl_event")
        .join(told, on="create_ioctl_event", how="left")
        .join(agreed, on="create_ioctl_event", how="left")
    )
    printed = _list_printed_ids(events, args).rename({"enclosing_call": "create_ioctl_event"})
    both = both.join(printed, on="create_ioctl_event", how="left")
    qid = pl.coalesce("qid", "inner_qid", "printed_qid").cast(pl.Int64, strict=False)
    return both.select("create_ioctl_event", kfd_queue_id=qid, doorbell_offset="doorbell")


def _list_printed_ids(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return enclosing_call, printed_qid: the one queue that an instrumented driver names inside an ioctl."""
    rows = events.select("event", "enclosing_call", "layer", "name").filter(pl.col("layer").is_in(["kfd", "mqd"]))
    texts = rows.drop_nulls("enclosing_call").filter(pl.col("name").cast(pl.String).str.contains(_PRINTED_ID))
    ids = pivot_args(args, texts["event"], ["qid", "queue_id"]).select("event", qid=pl.coalesce("qid", "queue_id"))
    found = texts.join(ids, on="event").drop_nulls("qid").group_by("enclosing_call")
    one = pl.when(pl.col("qid").n_unique() == 1).then(pl.col("qid").first())
    return found.agg(printed_qid=one)


def _add_ends(queues: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Add the end of queues that a DESTROY_QUEUE names by their id."""
    calls = find_queues_of_calls(queues, events, args)
    done = (pl.col("name") == DESTROY_QUEUE) & (pl.col("result") == "0")
    ends = events.select("event", "ts_ns", "dur_ns", "name", "result").filter(done)
    ends = ends.select("event", ended_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0))
    ends = ends.join(calls, on="event").group_by("queue").agg(pl.col("ended_ns").first())
    joined = queues.join(ends, on="queue", how="left", maintain_order="left")
    return joined.with_columns(destroyed_ns=pl.coalesce("destroyed_ns", "ended_ns")).drop("ended_ns")


@gives(frames.QUEUES_OF_EVENTS)
def find_queues_of_calls(queues: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return event, queue of ioctls that name a queue by its KFD id: the one of the process that was made last.

    Args:
        queues: queues with `kfd_queue_id`, `created_ns`.
        events: linked events.
        args: args by event, with `qid`.
    """
    wanted = (pl.col("layer") == "ioctl") & pl.col("name").is_in([DESTROY_QUEUE, UPDATE_QUEUE, SET_CU_MASK])
    calls = events.select("event", "process", "ts_ns", "layer", "name").filter(wanted)
    if calls.is_empty():
        return calls.select("event", queue=pl.lit(None, queues.schema["queue"]))
    named = calls.select("event", "process", "ts_ns").join(
        pivot_args(args, calls["event"], ["qid"]), on="event", how="left"
    )
    named = named.join(_list_printed_ids(events, args), left_on="event", right_on="enclosing_call", how="left")
    qid = pl.coalesce("qid", "printed_qid").cast(pl.Int64, strict=False)
    named = named.select("event", "process", "ts_ns", kfd_queue_id=qid).drop_nulls("kfd_queue_id")
    known = queues.drop_nulls(["kfd_queue_id", "created_ns"]).select(
        "queue", "process", "kfd_queue_id", ts_ns="created_ns"
    )
    found = named.sort("ts_ns").join_asof(
        known.sort("ts_ns"), on="ts_ns", by=["process", "kfd_queue_id"], check_sortedness=False
    )
    return found.select("event", "queue").drop_nulls()


@gives(frames.SCHEDULERS)
def find_schedulers(queues: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return gpu, scheduler (`HWS`, `MES`, `none`) as the functions inside queue creations show it."""
    name = pl.col("name").cast(pl.String).str.replace(_COMPILED, "")
    kind = pl.coalesce(pl.when(name.str.contains(pattern)).then(pl.lit(text)) for text, pattern in _SCHEDULERS)
    made = queues.drop_nulls(["create_ioctl_event", "gpu"]).select("create_ioctl_event", "gpu")
    calls = events.select("enclosing_call", "name", "layer")
    inside = calls.filter(pl.col("enclosing_call").is_in(made["create_ioctl_event"].implode()))
    inside = inside.filter(~pl.col("layer").is_in(_LOG_LAYERS))
    seen = inside.select(create_ioctl_event="enclosing_call", scheduler=kind)
    joined = made.join(seen.drop_nulls("scheduler"), on="create_ioctl_event")
    # With MES the driver passes through create_queue_cpsch too.
    rank = pl.col("scheduler").replace_strict({"MES": 0, "none": 1, "HWS": 2}, return_dtype=pl.Int8)
    return joined.sort(rank).group_by("gpu", maintain_order=True).agg(pl.col("scheduler").first())
