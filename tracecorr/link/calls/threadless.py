"""Threadless lines: what is sure in a log that prints no thread (`AMD_LOG_LEVEL=3` since 6.4, below 5 in 6.3).

Lines of several threads follow each other there: those that call HIP, that of ROCr that prints what completed, and
where Direct Dispatch is off those that submit commands. A line is surely of a call only if no other call is open, and
threads that make no calls print no such lines. Two lines are surely of one call where no other call of its name was
open (the reader sees to that) and no line lacks, or where the exit tells the call's duration.
"""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import COMPLETE, SHADER_NAME, SUBMITTED, Flag

# Lines of threads that make no calls: ROCr's event thread, and those that submit commands.
_NOT_OF_CALLS = ("handler", "gpu_time", COMPLETE, "processing", SUBMITTED)
_DISPATCH = "dispatch"
# What a runtime says of itself, any thread may print at any time.
_SAID = "other"
_ENTER, _EXIT = int(Flag.ENTER_ONLY), int(Flag.EXIT_ONLY)
_IS_MINE = (pl.col("source") == "amd_log") & pl.col("thread").is_null()
_COLUMNS = (
    "event", "file", "offset", "end_offset", "parent", "layer", "name", "flags", "ts_ns", "dur_ns", "clock", "source",
    "thread",
)  # fmt: skip


def part_threadless(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` in which threadless rows have a parent only where it is sure.

    Args:
        events: placed rows of all sources with `parent`; row i is event i.
    """
    if not events.select(_IS_MINE.any()).item():
        return events
    rows = events.select(_COLUMNS).filter(_IS_MINE).with_columns(pl.col("flags").fill_null(0))
    sure = _list_enclosed(rows)["event"]
    is_free = _IS_MINE & ~pl.col("event").is_in(sure.implode())
    return events.with_columns(parent=pl.when(~is_free).then("parent"))


def list_unsure_names(launches: pl.DataFrame) -> pl.Series:
    """Return the threadless dispatches (event) that may have the kernel's name of another thread.

    Args:
        launches: event, name, thread, parent.
    """
    unsure = (pl.col("name") == _DISPATCH) & pl.col("thread").is_null() & pl.col("parent").is_null()
    return launches.filter(unsure)["event"]


def _list_enclosed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that surely lie in their parent: no other call is open."""
    calls = rows.filter(pl.col("layer") == "hip")
    name = ["file", "name"]
    shown = calls.filter(pl.col("end_offset").is_not_null()).select(name).unique()
    calls = calls.join(shown, on=name, how="semi")
    begun = calls.filter(pl.col("flags") & _EXIT == 0).select("file", "offset", step=pl.lit(1))
    ended = calls.drop_nulls("end_offset").select("file", pl.col("end_offset").alias("offset"), step=pl.lit(-1))
    steps = pl.concat([begun, ended]).sort("file", "offset")
    steps = steps.with_columns(open=pl.col("step").cum_sum().over("file")).sort("offset")
    lines = rows.filter(pl.col("layer") != "hip").sort("offset")
    lines = lines.join_asof(steps, on="offset", by="file", check_sortedness=False)
    # What is also printed outside of all calls is printed by threads that make none; so is a kernel's name where its
    # dispatch is. Few names stand alone: the others are part of their dispatch.
    kind = ["file", "layer", "kind"]
    name_of = pl.col("name").cast(pl.String).replace(SHADER_NAME, _DISPATCH)
    lines = lines.with_columns(kind=name_of)
    outside = lines.filter(pl.col("open").fill_null(0) == 0).select(kind).unique()
    inside = lines.filter((pl.col("open") == 1) & pl.col("parent").is_not_null() & ~pl.col("name").is_in(_NOT_OF_CALLS))
    inside = inside.filter(pl.col("layer") != _SAID).join(outside, on=kind, how="anti")
    whole = calls.filter(pl.col("flags") & _ENTER == 0).select(parent="event")
    return inside.join(whole, on="parent", how="semi")
