"""Threadless lines: what is sure in a log that prints no thread (`AMD_LOG_LEVEL=3` since 6.4, below 5 in 6.3).

Lines of several threads follow each other there: those that call HIP, that of ROCr that prints what completed, and
where Direct Dispatch is off those that submit commands. A line is surely of a call only if no other call is open, and
threads that make no calls print no such lines. Two lines are surely of one call where no other call of its name was
open (the reader sees to that) and no line lacks, or where the exit tells the call's duration.
"""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import attach_columns
from tracecorr.link.losses.disorder import mark_displaced
from tracecorr.link.losses.open_calls import take_ends
from tracecorr.link.losses.usual_calls import MANY_LOST, MOST_LOST
from tracecorr.model.kinds import COMPLETE, SHADER_NAME, SUBMITTED, Flag

# Lines of threads that make no calls: ROCr's event thread, and those that submit commands.
_NOT_OF_CALLS = ("handler", "gpu_time", COMPLETE, "processing", SUBMITTED)
_DISPATCH = "dispatch"
# What a runtime says of itself, any thread may print at any time.
_SAID = "other"
# Where threads are many, calls of one name overlap, and lack a line each; more do so where lines lack.
_MOST_HALVES = 0.5
_ENTER, _EXIT = int(Flag.ENTER_ONLY), int(Flag.EXIT_ONLY)
_TOLD, _DIFFERS = int(Flag.SPAN_TOLD), int(Flag.SPAN_DIFFERS)
_IS_MINE = (pl.col("source") == "amd_log") & pl.col("thread").is_null()
_COLUMNS = (
    "event", "file", "offset", "end_offset", "parent", "layer", "name", "flags", "ts_ns", "dur_ns", "clock", "source",
    "thread",
)  # fmt: skip


def part_threadless(events: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return `events` in which threadless rows have a parent, and threadless calls an end, only where these are sure.

    Args:
        events: placed rows of all sources with `parent`; row i is event i.
        losses: files of the log that lost lines (`lossy_files.find_losses`).
    """
    if not events.select(_IS_MINE.any()).item():
        return events
    rows = events.select(_COLUMNS).filter(_IS_MINE).with_columns(pl.col("flags").fill_null(0))
    displaced = _list_displaced(rows)
    unsure = pl.concat([_list_damaged(rows, losses), _hold_displaced(rows, displaced)])
    sure = _list_enclosed(rows.join(losses, on="file", how="anti"), displaced)
    marks = rows.select("event", is_free=pl.lit(value=True)).join(
        sure.select("event", is_sure=pl.lit(value=True)), on="event", how="left"
    ).join(unsure.unique().select("event", is_open=pl.lit(value=True)), on="event", how="left")  # fmt: skip
    joined = attach_columns(events, marks)
    parted = pl.col("is_free").is_not_null() & pl.col("is_sure").is_null()
    return joined.with_columns(*take_ends(pl.col("is_open")), parent=pl.when(~parted).then("parent")).drop(
        "is_free", "is_sure", "is_open"
    )


def list_unsure_names(launches: pl.DataFrame) -> pl.Series:
    """Return the threadless dispatches (event) that may have the kernel's name of another thread.

    Args:
        launches: event, name, thread, parent.
    """
    unsure = (pl.col("name") == _DISPATCH) & pl.col("thread").is_null() & pl.col("parent").is_null()
    return launches.filter(unsure)["event"]


def _list_ended(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the calls whose end is there."""
    return rows.filter((pl.col("layer") == "hip") & pl.col("dur_ns").is_not_null())


def _list_untold(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the calls whose end is there and does not tell how long they took."""
    return _list_ended(rows).filter(pl.col("flags") & _TOLD == 0)


def _list_damaged(rows: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) in files that lost lines of which the end may be that of another one.

    Where many calls lack a line or are those of two, an exit may tell by chance the time since another thread's enter.
    """
    calls = rows.filter(pl.col("layer") == "hip").join(losses, on="file")
    differ, lack = (pl.col("flags") & _DIFFERS > 0).mean(), (pl.col("flags") & (_ENTER | _EXIT) > 0).mean()
    by_chance = (pl.col("lost") >= MOST_LOST) | ((differ > MANY_LOST) | (lack > _MOST_HALVES)).over("file")
    ended = _list_ended(calls.with_columns(by_chance=by_chance))
    return pl.concat([_list_untold(ended), ended.filter("by_chance")]).select("event")


def _list_displaced(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the lines whose place in their file may not be their own: file, name (of calls), offset, by offset."""
    lines, is_call = rows.filter(pl.col("clock") == "mono"), pl.col("layer") == "hip"
    ends = _list_ended(lines).drop_nulls("end_offset")
    both = pl.concat([
        lines.select("file", pl.when(is_call).then("name"), "offset", at="ts_ns"),
        ends.select("file", "name", pl.col("end_offset").alias("offset"), at=pl.col("ts_ns") + pl.col("dur_ns")),
    ]).sort("file", "offset")  # fmt: skip
    parts = both.partition_by("file", maintain_order=True)
    found = [part.filter(mark_displaced(part["at"].to_numpy())) for part in parts]
    return pl.concat([both.clear(), *found]).drop("at").sort("offset")


def _hold_displaced(rows: pl.DataFrame, displaced: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that tell no duration, between whose lines a line of their function is displaced."""
    calls = _list_untold(rows).sort("end_offset")
    lines = displaced.drop_nulls("name").with_columns(last="offset")
    found = calls.join_asof(lines, left_on="end_offset", right_on="offset", by=["file", "name"], check_sortedness=False)
    return found.filter(pl.col("last") >= pl.col("offset")).select("event")


def _list_enclosed(rows: pl.DataFrame, displaced: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that surely lie in their parent: no other call is open, and no line is out of order since."""
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
    whole = calls.filter(pl.col("flags") & _ENTER == 0).select(parent="event", begun="offset")
    moved = displaced.select("file", "offset", last="offset")
    found = (
        inside.join(whole, on="parent").sort("offset").join_asof(moved, on="offset", by="file", check_sortedness=False)
    )
    return found.filter(pl.col("last").is_null() | (pl.col("last") < pl.col("begun")))
