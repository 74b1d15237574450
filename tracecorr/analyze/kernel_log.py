"""What the kernel's log says of GPUs, queues and processes, message by message."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.model.columns import is_counted
from tracecorr.read.kernel_log.catalogue import DRIVER_MESSAGE, MESSAGES

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
        where the line names none that is known), lines, first_event, first_ns, last_ns (null where the log's clock
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
