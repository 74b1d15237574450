"""Texts that programs and drivers write into the trace: markers and clock samples."""

from __future__ import annotations

import polars as pl

from tracecorr.read.ftrace import halves as hv
from tracecorr.read.ftrace.fields import split_fields, typed_fields

# What the kernel, and trace-cmd, print in front of a marker.
MARKERS = ("tracing_mark_write", "print")
CLOCK_TEXT = r"^(?:clock_sync|TRACECORR_SYNC|tracecorr_clock) "


def add_marker_texts(batch: hv.Batch, frame: pl.DataFrame) -> None:
    """Add trace markers with their text in the column `rest`; clock samples get their fields."""
    is_clock = frame["rest"].str.contains(CLOCK_TEXT)
    hv.add_marker(batch, frame.filter(~is_clock), [])
    samples = frame.filter(is_clock).with_columns(pl.col("rest").str.replace(r" monotonic=", " mono="))
    for keys, rows in split_fields(samples, "equals"):
        hv.add_marker(batch, rows.with_columns(typed_fields(keys)), [k[2:] for k in keys])


# What instrumented amdgpu drivers print with trace_printk: `[KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=.. queue_id=..`,
# `KFD_MQD_CREATE: pid= gpu= qid= type= active=`, `KFD_MQD_DESTROY: qid=`, `[CU_MASK] ...` (DKMS trees of 2026).
DRIVER_TEXT = r"^(?:\[KFD-TRACE\] *|\[CU_MASK\]|KFD_MQD_\w+:)"
_DRIVER_NAME = r"^(?:\[KFD-TRACE\] *)?\[?(\w+)"


def add_printk(batch: hv.Batch, frame: pl.DataFrame) -> None:
    """Add texts of trace_printk (`rest`) of the function in `event`; those of KFD become its events."""
    ours = frame["rest"].str.contains(DRIVER_TEXT)
    hv.add_others(batch, frame.filter(~ours))
    frame = frame.filter(ours).with_columns(
        pl.col("rest").str.extract(_DRIVER_NAME).fill_null("KFD_TRACE").alias("name"),
        pl.col("event").alias("function"),
        pl.col("rest").alias("text"),
    )
    mqd = pl.col("name").str.contains("MQD|CU_MASK")
    layer = pl.when(mqd).then(pl.lit("mqd")).otherwise(pl.lit("kfd"))
    for keys, rows in split_fields(frame, "equals"):
        rows = rows.with_columns(typed_fields(keys))
        # It lies in what its thread has open, as a record of the function tracer does.
        batch.add(rows, phase=hv.INSTANT, call=hv.FUNCTION, layer=layer, name=pl.col("name"))
        batch.add_args(rows, [k[2:] for k in keys])
        batch.add_text(rows, "function", pl.col("function"))
        batch.add_text(rows, "body", pl.col("text"))
