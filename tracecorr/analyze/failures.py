"""What went wrong: errors and notices of the runtime, calls and ioctls that failed, lines of the kernel's log."""

from __future__ import annotations

import re

import polars as pl

from tracecorr.analyze.values import Tables, as_text, collect
from tracecorr.model.columns import is_counted, is_failed
from tracecorr.model.kinds import ABORTED_PACKET, HUNG_PACKET, LOG_INDENT, LOG_LEVEL, LOG_MESSAGE, NOTICES, WORST_LEVELS
from tracecorr.read.kernel_log.catalogue import (
    DRIVER_MESSAGE,
    FAULT,
    HARDWARE,
    MEMORY,
    MESSAGES,
    QUEUE,
    RESET,
    SCHEDULER,
)

_COMPLAINT = (
    "process", "severity", "message", "times", "call", "first_event", "first_ns", "last_ns", "name", "variants",
)  # fmt: skip
# What is printed beside the records, or at level 0, ends the program or the queue.
NOTICE = "notice"
_KERNEL_FAILURES = [m.name for m in MESSAGES if m.subject in (QUEUE, SCHEDULER, RESET, MEMORY, FAULT, HARDWARE)]
_NOT_FOUND, _FOUND = re.compile(r"(gfx\w+)\S* - \[Not Found\]"), re.compile(r"(gfx\w+)\S* - \[Found\]")


def summarize_complaints(tables: Tables) -> pl.DataFrame:
    """Return one row per process and message that was printed as an error or warning, the worst first.

    Notices beside the records (`model.kinds.NOTICES`) come with the fatal errors. A message of many records is one.
    Messages that differ only in numbers are one row: `message` is the first of them.

    Returns: process, severity (`model.kinds.WORST_LEVELS`, or `notice`), message, times, call (the HIP call around the
        first one), first_event, first_ns, last_ns, name (of the rows in `events`), variants (number of different
        messages).
    """
    rows = _join_parts(_list_messages(tables))
    calls = collect(
        tables("events")
        .filter(pl.col("event").is_in(rows["parent"].drop_nulls().unique().implode()) & (pl.col("layer") == "hip"))
        .select(parent="event", call=pl.col("name").cast(pl.String))
    )
    found = rows.sort("event").join(calls, on="parent", how="left", maintain_order="left")
    words = pl.col("level").replace_strict({-1: NOTICE, **WORST_LEVELS}, default=None, return_dtype=pl.String)
    return (
        found.group_by("process", "level", "name", maintain_order=True)
        .agg(
            pl.col("message", "call").first(),
            times=pl.len().cast(pl.Int64),
            variants=pl.col("message").n_unique().cast(pl.Int64),
            first_event=pl.col("event").first(),
            first_ns=pl.col("ts_ns").min(),
            last_ns=pl.col("ts_ns").max(),
        )
        .sort(pl.col("level").clip(lower_bound=0), "first_event")
        .with_columns(severity=words)
        .select(_COMPLAINT)
    )


def _list_messages(tables: Tables) -> pl.DataFrame:
    """Return one row per error, warning and notice: event, process, thread, ts_ns, parent, name, level (-1 = notice),
    message, indent."""
    fields = collect(
        tables("args")
        .with_columns(as_text("key"))
        .filter(pl.col("key").is_in([LOG_LEVEL, LOG_MESSAGE, LOG_INDENT]))
        .group_by("event")
        .agg(
            level=pl.col("u64").filter(pl.col("key") == LOG_LEVEL).first().cast(pl.Int64),
            indent=pl.col("u64").filter(pl.col("key") == LOG_INDENT).first(),
            message=pl.col("text").drop_nulls().first(),
        )
    )
    events = tables("events").select("event", "process", "thread", "ts_ns", "parent", *as_text("name"))
    rows = events.join(fields.lazy(), on="event")
    level = pl.coalesce("level", pl.when(pl.col("name").is_in(NOTICES)).then(-1))
    return collect(rows.with_columns(level=level).drop_nulls("level").sort("event"))


def _join_parts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the messages, those of many records as one: its first line, and what the others say.

    Further lines are indented; one that repeats the first line behind them closes the message.
    """
    if not rows["indent"].count():
        return rows
    whose = ["process", "thread", "level"]
    is_part = pl.col("indent").is_not_null()
    first = pl.when(~is_part).then("message").forward_fill().shift(1).over(whose)
    closes = is_part.shift(1).over(whose) & pl.col("message").str.starts_with(first)
    rows = rows.with_columns(is_part=is_part | closes.fill_null(value=False))
    lead = pl.when(~pl.col("is_part")).then("event").forward_fill().over(whose)
    rows = rows.with_columns(lead=lead.fill_null(pl.col("event")))
    parts = rows.filter(pl.col("event") != pl.col("lead")).group_by(event="lead").agg(parts=pl.col("message"))
    whole = rows.filter(pl.col("event") == pl.col("lead")).join(parts, on="event", how="left", maintain_order="left")
    told = [_add_parts(message, said or []) for message, said in whole.select("message", "parts").iter_rows()]
    return whole.with_columns(message=pl.Series(told, dtype=pl.String)).drop("parts", "lead", "is_part")


def _add_parts(message: str, parts: list[str]) -> str:
    """Return a message with its further lines; of a missing code object only what is missing."""
    missing, there = (list(dict.fromkeys(p.findall("\n".join(parts)))) for p in (_NOT_FOUND, _FOUND))
    if missing:
        found = f"; found for {', '.join(there)}" if there else ""
        return f"{message} No code object for {', '.join(missing)}{found}"
    return " | ".join([message, *(part for part in parts if not part.startswith(message))])


def summarize_failures(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per layer, HIP call or ioctl, and result that is a failure, the first one first.

    Returns: layer (`hip` or `ioctl`), name, result, times, first_event, first_ns.
    """
    # Calls of a profiler would count twice.
    logged = pl.col("source").cast(pl.String).ne_missing("rocprof")
    asked = events.filter(pl.col("layer").is_in(["hip", "ioctl"]) & logged)
    asked = asked.select("event", "ts_ns", "dur_ns", *as_text("layer", "name", "result"))
    failed = asked.filter(is_failed(pl.col("result")))
    # A call fails where it returns.
    end_ns = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    counted = failed.group_by("layer", "name", "result").agg(
        times=pl.len().cast(pl.Int64), first_event=pl.col("event").min(), first_ns=end_ns.min()
    )
    return collect(counted.sort("layer", "first_ns", "first_event"))


def find_aborted_packets(tables: Tables) -> pl.DataFrame:
    """Return the notices that describe the packet at which a queue aborted or stands, with that packet.

    Returns: event, name (of the notice), kernel_name, kernel_object, ring, grid_x..z, workgroup_x..z, group_bytes,
        rptr, wptr (as printed), packet, call (its event and that of its HIP call: the last one of that queue with this
        kernel object and these arguments).
    """
    numbers = ("grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "group_bytes", "rptr", "wptr",
               "kernel_object", "kernarg")  # fmt: skip
    kernels = tables("kernels").select("kernel", kernel_name=pl.coalesce("display", "name"))
    named = tables("events").filter(pl.col("name").cast(pl.String).is_in([ABORTED_PACKET, HUNG_PACKET]))
    rows = collect(named.select("event", "queue", "kernel", *as_text("name")).join(kernels, on="kernel", how="left"))
    args = tables("args").filter(pl.col("event").is_in(rows["event"].implode())).with_columns(as_text("key"))
    told = collect(args.select("event", "key", "u64"))
    for key in (*numbers, "ring"):
        values = told.filter(pl.col("key") == key).select("event", pl.col("u64").alias(key)).unique("event")
        rows = rows.join(values, on="event", how="left", maintain_order="left")
    if rows.is_empty():
        return rows.with_columns(packet=pl.lit(None, pl.Int64), call=pl.lit(None, pl.Int64))
    keys = ["queue", "kernel_object", "kernarg"]
    packets = tables("launches").select(*keys, "kernel", packet="event", call="call_event")
    wanted = rows.select(keys).drop_nulls().lazy()
    last = packets.join(wanted, on=keys, how="semi").sort("packet").unique(keys, keep="last")
    last = last.join(kernels.rename({"kernel_name": "launched"}), on="kernel", how="left").drop("kernel")
    found = rows.join(collect(last), on=keys, how="left", maintain_order="left")
    # The notice of a hung packet does not name its kernel.
    return found.with_columns(kernel_name=pl.coalesce("kernel_name", "launched")).drop("launched")


def list_kernel_failures(tables: Tables) -> pl.DataFrame:
    """Return what the kernel's log tells of failures: rows of `summarize_kernel_log`, also of other processes."""
    return summarize_kernel_log(tables).filter(pl.col("name").is_in(_KERNEL_FAILURES))


# Messages after which work of user queues may stand, or which tell that it does. DRM's own rings are none of them, and
# a queue that was refused has no work.
STANDSTILLS = frozenset({
    "destroy_queue_failed", "queue_preemption_failed", "hiq_preemption_timeout",
    "cp_preemption_failed", "queue_reset", "queues_reset", "mes_add_queue_failed", "mes_remove_queue_failed",
    "queue_evict_failed", "hws_fence_timeout", "hws_unrecoverable", "runlist_failed", "mes_no_answer",
    "mes_unrecoverable", "mes_trouble", "kiq_timeout", "gpu_reset_begin", "vram_lost", "evict_process_failed",
    "suspend_process_failed", "quiesce_failed", "queue_buffer_freed", "page_fault", "shader_error", "signal_sent",
    "interrupts_lost", "hardware_error",
})  # fmt: skip


def summarize_kernel_log(tables: Tables) -> pl.DataFrame:
    """Return one row per message, GPU, process and queue that it names, in the order of their first lines.

    Returns: name (of the catalogue, or `driver_message`: such lines are one row each text), gpu, process, queue (null
        where the line names none that is known), lines, first_event, first_ns, last_ns (null if the log's clock
        could not be mapped), text (the first line), means, helps (null if nothing general is known).
    """
    told = list_lines(tables)
    timed = pl.when(pl.col("err_lo_ns").is_not_null()).then("ts_ns")
    alike = pl.when(pl.col("name") == DRIVER_MESSAGE).then("text")
    grouped = told.with_columns(alike=alike, at=timed).sort("event").group_by(
        "name", "gpu", "process", "queue", "alike", maintain_order=True
    )  # fmt: skip
    counted = grouped.agg(
        lines=pl.len().cast(pl.Int64), first_event=pl.col("event").first(), first_ns=pl.col("at").min(),
        last_ns=pl.col("at").max(), text=pl.col("text").first(), means=pl.col("means").first(),
        helps=pl.col("helps").first(),
    ).sort("first_event")  # fmt: skip
    return counted.drop("alike")


def list_lines(tables: Tables) -> pl.DataFrame:
    """Return the lines: event, ts_ns, err_lo_ns, gpu, process, queue, name, text, means, helps (null where unknown)."""
    events = tables("events").filter((pl.col("layer").cast(pl.String) == "kernel") & is_counted())
    rows = collect(events.select("event", "ts_ns", "err_lo_ns", "gpu", "process", "queue", *as_text("name")))
    texts = collect(
        tables("args")
        .filter(pl.col("event").is_in(rows["event"].implode()) & (pl.col("key").cast(pl.String) == "text"))
        .select("event", "text")
    )
    told = rows.join(texts.unique("event", keep="first"), on="event", how="left", maintain_order="left")
    meanings = {message.name: message.means for message in MESSAGES}
    remedies = {message.name: message.helps for message in MESSAGES if message.helps}
    return told.with_columns(
        means=pl.col("name").replace_strict(meanings, default=None, return_dtype=pl.String),
        helps=pl.col("name").replace_strict(remedies, default=None, return_dtype=pl.String),
    )
