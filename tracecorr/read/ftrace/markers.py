"""Texts that programs and drivers write into the trace: markers, clock samples, ranges of roctx."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.ftrace import events as ev
from tracecorr.read.ftrace.fields import split_fields, typed_fields

# What the kernel prints in front of a marker.
MARKER = "tracing_mark_write"
CLOCK_NAMES = ("clock_sync", "TRACECORR_SYNC", "tracecorr_clock")
CLOCK_TEXT = rf"^(?:{'|'.join(CLOCK_NAMES)}) "
# What instrumented amdgpu drivers print with trace_printk: `[KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=.. queue_id=..`,
# `KFD_MQD_CREATE: pid= gpu= qid= type= active=`, `KFD_MQD_DESTROY: qid=`, `[CU_MASK] ...` (DKMS trees of 2026).
DRIVER_TEXT = r"^(?:\[KFD-TRACE\] *|\[CU_MASK\]|KFD_MQD_\w+:)"
_DRIVER_NAME = r"^(?:\[KFD-TRACE\] *)?\[?(\w+)"
_NOT_CHOSEN = "range_not_chosen"
_PLACE = ["file", "offset"]


def add_marker_texts(batch: ev.Batch, frame: pl.DataFrame) -> None:
    """Add trace markers with their text in the column `rest`; clock samples get their fields."""
    is_clock = frame["rest"].str.contains(CLOCK_TEXT)
    ev.add_marker(batch, frame.filter(~is_clock), [])
    samples = frame.filter(is_clock).with_columns(pl.col("rest").str.replace(r" monotonic=", " mono="))
    for keys, rows in split_fields(samples, "equals"):
        ev.add_marker(batch, typed_fields(rows, keys), keys)


def add_printk(batch: ev.Batch, frame: pl.DataFrame) -> None:
    """Add texts of trace_printk (`rest`) of the function in `event`; those of KFD become its events."""
    ours = frame["rest"].str.contains(DRIVER_TEXT)
    ev.add_others(batch, frame.filter(~ours))
    frame = frame.filter(ours).with_columns(
        pl.col("rest").str.extract(_DRIVER_NAME).fill_null("KFD_TRACE").alias("name"),
        pl.col("event").alias("function"),
        pl.col("rest").alias("text"),
    )
    mqd = pl.col("name").str.contains("MQD|CU_MASK")
    layer = pl.when(mqd).then(pl.lit("mqd")).otherwise(pl.lit("kfd"))
    for keys, rows in split_fields(frame, "equals"):
        # It lies in what its thread has open, as a record of the function tracer does.
        batch.add(rows, phase=ev.INSTANT, call=ev.FUNCTION, layer=layer, name=pl.col("name"))
        batch.add_args(typed_fields(rows, keys), keys)
        batch.add_text(rows, "function", pl.col("function"))
        batch.add_text(rows, "body", pl.col("text"))


def keep_ranges(blocks: Iterable[Block], names: Iterable[str]) -> Iterator[Block]:
    """Yield the blocks of a kernel trace without the roctx ranges and marks that have another text.

    The ledger calls their records skipped. A pop is dropped with its push, so that it ends no other range; one whose
    push was not seen has no text and is dropped, too.

    Args:
        blocks: of one recording, in order; the text of a range comes with or before its row.
        names: texts of the ranges to keep.
    """
    chosen = pl.Series(list(names), dtype=pl.String)
    places = schema.PART_ARGS.empty().select(_PLACE)
    for block in blocks:
        told = block.args.filter((pl.col("key").cast(pl.String) == "text") & pl.col("text").is_in(chosen.implode()))
        places = pl.concat([places, told.select(_PLACE)])
        is_range = (pl.col("layer") == "marker") & pl.col("name").cast(pl.String).is_in(["roctx_range", "roctx_mark"])
        others = block.events.filter(is_range).join(places, on=_PLACE, how="anti")
        if others.is_empty():
            yield block
            continue
        events = block.events.join(others, on=_PLACE, how="anti", maintain_order="left")
        yield replace(block, events=events, ledger=pl.concat([block.ledger, _count_skipped(others)]))


def _count_skipped(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ledger rows that take the records of `rows` from the used ones and call them skipped."""
    ended = pl.col("end_length").is_not_null()
    counts = rows.group_by("file", maintain_order=True).agg(
        (1 + ended).cast(pl.Int64).sum().alias("records"),
        (pl.col("length").cast(pl.Int64) + pl.col("end_length").fill_null(0)).sum().alias("bytes"),
    )
    texts = {"source": pl.lit("ftrace"), "outcome": pl.lit("skipped"), "reason": pl.lit(_NOT_CHOSEN)}
    taken = counts.with_columns(-pl.col("records"), -pl.col("bytes"), source=pl.lit("ftrace"), outcome=pl.lit("used"),
                                reason=pl.lit(""))  # fmt: skip
    return schema.LEDGER.conform(pl.concat([taken, counts.with_columns(**texts)]))
