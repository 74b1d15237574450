"""Kernel functions: which call encloses which, per thread."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.rows import attach_columns
from tracecorr.model.sights import is_counted
from tracecorr.read.kfd import ioctl_names
from tracecorr.read.kfd.ioctls import list_handlers

# Layers whose rows can enclose others; user-space probes, marks and doorbells are no part of a kernel call.
KERNEL = ("kfd", "mqd", "amdgpu", "other")
CALLS = ("syscall", "ioctl")
# Both times of a text are rounded to the nearest microsecond.
_ROUNDING_NS = 1_000
_NO_END_NS = 2**60
_HANDLERS = list_handlers()
# The driver's function for all ioctls, which calls that of the request.
_ENTRY = "kfd_ioctl"
_COLUMNS = (
    "event", "thread", "layer", "source", "depth", "ts_ns", "dur_ns", "step_hi_ns", "file", "offset", "end_offset",
    "flags",
)  # fmt: skip


def nest_functions(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with direct parents of kernel functions, their `depth`, and `enclosing_call`.

    A function lies in the innermost call of its thread that was entered before it and left after it. In a text the
    order of the lines tells that, for all its times are rounded; in pages it is the time. Where a thread's lines are
    out of order, nothing tells it. Tracepoints keep the parent
    that their reader gave them: an interrupt fires in whatever thread it meets.

    Args:
        events: placed events with `thread`, `parent` and `step_hi_ns` (0 for exact stamps).

    Returns: the same rows; `enclosing_call` is the system call around a function or a probe.
    """
    inside = list_function_rows(events)
    if inside.is_empty():
        return _free_misplaced(events.with_columns(enclosing_call=pl.col("parent")))
    found = find_enclosing(inside)
    joined = attach_columns(events, found)
    nested = pl.col("level").is_not_null()
    placed = joined.with_columns(
        # The reader knows the calls that never returned in the trace.
        parent=pl.coalesce("inner", "parent"),
        enclosing_call=pl.coalesce("outer", "parent"),
        depth=pl.when(nested).then("level").otherwise("depth").cast(events.schema["depth"]),
    ).drop("inner", "outer", "level")
    return _free_misplaced(placed)


def _free_misplaced(events: pl.DataFrame) -> pl.DataFrame:
    """Take parent and call from records of a trace whose own time lies outside of one: their lines are out of order."""
    is_traced = events.select(pl.col("source") == "ftrace").to_series()
    if not is_traced.any():
        return events
    start = events["ts_ns"].to_numpy()
    length = events["dur_ns"].fill_null(_NO_END_NS).to_numpy()
    misplaced = np.zeros(len(events), dtype=np.bool_)
    for outer in ("parent", "enclosing_call"):
        traced = (is_traced & events[outer].is_not_null()).to_numpy()
        rows = np.flatnonzero(traced)
        call = events[outer].gather(rows).to_numpy()
        since = start[rows] - start[call]
        misplaced[rows] |= (since < -_ROUNDING_NS) | (since > length[call] + _ROUNDING_NS)
    if not misplaced.any():
        return events
    kept = ~pl.Series(misplaced)
    return events.with_columns(pl.when(kept).then(name).alias(name) for name in ("parent", "enclosing_call"))


def name_driver_calls(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` where a probed kfd_ioctl stands for its ioctl, if no system call was traced around it.

    So it does by the function of one request in it (kfd_ioctl_create_queue) on threads that show no ioctl at all, and
    that function itself where no kfd_ioctl is surely around it.

    Args:
        events: placed events with `thread`, `parent`, `cmd`.
    """
    events = _name_handlers(events)
    alone = (pl.col("name") == _ENTRY) & pl.col("cmd").is_not_null() & pl.col("parent").is_null() & is_counted()
    calls = events.select("name", "cmd", "parent", "flags").filter(alone)
    if calls.is_empty():
        return events
    joined = events.join(ioctl_names(calls["cmd"]), on="cmd", how="left", maintain_order="left")
    stands = alone & pl.col("ioctl").is_not_null()
    return joined.with_columns(
        layer=pl.when(stands).then(pl.lit("ioctl")).otherwise(pl.col("layer").cast(pl.String)),
        name=pl.when(stands).then("ioctl").otherwise(pl.col("name").cast(pl.String)),
        depth=pl.when(~stands).then("depth"),
    ).cast({"layer": events.schema["layer"], "name": events.schema["name"]}).drop("ioctl")  # fmt: skip


def _name_handlers(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` where kfd_ioctl, or the function of a request, stands for its ioctl on threads that show none."""
    found = _find_handlers(events)
    if found.is_empty():
        return events
    found = found.select(pl.col("event"), "ioctl", "returned", stands=pl.lit("ioctl"))
    kinds = {"ioctl": events.schema["name"], "stands": events.schema["layer"]}
    joined = attach_columns(events, found.cast(kinds))  # type: ignore[arg-type]
    return joined.with_columns(
        name=pl.coalesce("ioctl", "name"), layer=pl.coalesce("stands", "layer"),
        result=pl.coalesce("result", "returned"), depth=pl.when(pl.col("ioctl").is_null()).then("depth"),
    ).drop("ioctl", "stands", "returned")  # fmt: skip


def _find_handlers(events: pl.DataFrame) -> pl.DataFrame:
    """Return event (of the row that spans an ioctl), ioctl, returned (result of the function of the request)."""
    traced = events.select("event", "thread", "layer", "source", "result", "flags", "name")
    traced = traced.filter((pl.col("layer") == "kfd") & (pl.col("source") == "ftrace") & pl.col("thread").is_not_null())
    traced = traced.filter(is_counted()).with_columns(handler=pl.col("name").cast(pl.String)).drop("name")
    found = traced.join(_HANDLERS, on="handler", maintain_order="left")
    shown = events.select("thread", "cmd").filter(pl.col("cmd").is_not_null())
    found = found.join(shown, on="thread", how="anti").select("event", "ioctl", returned="result")
    if found.is_empty():
        return found
    entries = traced.filter(pl.col("handler") == _ENTRY).select(inner="event")
    around = find_enclosing(list_function_rows(events)).select("event", "inner").join(entries, on="inner", how="semi")
    # Two requests in one entry: the end of the first was lost, and what spans either is not known.
    around = found.select("event").join(around, on="event").unique("inner", keep="none")
    return (
        found.join(around, on="event", how="left")
        .select(pl.coalesce("inner", "event"), "ioctl", "returned")
        .rename({"inner": "event"})
    )


def list_function_rows(events: pl.DataFrame) -> pl.DataFrame:
    """Return functions and system calls of the threads that have functions, with the order of start and end.

    Returns: event, thread, is_call (of the system), lane (what shares an order), start, stop, place, stop_place,
        is_span (encloses what lies in it, as a second sight of a call does not).
    """
    layer = pl.col("layer")
    traced = (pl.col("source") == "ftrace") & pl.col("thread").is_not_null()
    function = layer.is_in(KERNEL) & pl.col("depth").is_not_null()
    rows = events.select(_COLUMNS).with_columns(is_call=layer.is_in(CALLS))
    chosen = rows.filter(traced & (function | pl.col("is_call")))
    chosen = chosen.join(chosen.filter(~pl.col("is_call")).select("thread").unique(), on="thread", how="semi")
    text = pl.col("step_hi_ns") > 0
    # Rows are in the order of their times.
    back = (pl.col("offset") < pl.col("offset").shift(1)).over("thread", "file") | (
        pl.col("end_offset") < pl.col("offset")
    )
    moved = chosen.filter(text & back).select("thread", "file").unique()
    chosen = chosen.join(moved, on=["thread", "file"], how="anti")
    end = pl.col("ts_ns") + pl.col("dur_ns")
    is_span = pl.col("dur_ns").is_not_null() & is_counted()
    return chosen.select(
        "event", "thread", "is_call",
        # One text is one order; the pages of a recording share the order of time.
        lane=pl.when(text).then(pl.col("file").cast(pl.Int32)).otherwise(-1),
        start=pl.when(text).then("offset").otherwise("ts_ns"),
        stop=pl.when(text).then(pl.coalesce("end_offset", "offset")).otherwise(end),
        place="offset", stop_place=pl.coalesce("end_offset", "offset"), is_span=is_span,
    )  # fmt: skip


def find_enclosing(rows: pl.DataFrame) -> pl.DataFrame:
    """Return event, inner (the enclosing row), outer (the enclosing system call), level, for functions."""
    spans = rows.filter("is_span")
    lane = ["thread", "lane"]
    points = pl.concat([
        rows.select(*lane, "event", "is_call", "place", at="start", step=pl.when("is_span").then(1).otherwise(0)),
        spans.select(*lane, "event", "is_call", place="stop_place", at="stop", step=pl.lit(-1)),
    ]).sort(*lane, "at", "place", -pl.col("step"))  # fmt: skip
    level = (pl.col("step").cum_sum() - pl.col("step").clip(0, 1)).over(lane)
    points = points.with_columns(level=level).with_row_index("rank")
    stops = points.filter(pl.col("step") == -1).select(outer="event", outer_until="rank")
    opened = points.filter(pl.col("step") == 1)
    inner = opened.select(*lane, "rank", inner="event", level=pl.col("level") + 1)
    outer = opened.filter("is_call").select(*lane, "rank", outer="event").join(stops, on="outer")
    functions = points.filter((pl.col("step") >= 0) & ~pl.col("is_call")).select(*lane, "event", "rank", "level")
    # The last row that was opened one level up is still open: its end would have lowered the level.
    found = functions.sort("rank").join_asof(inner.sort("rank"), on="rank", by=[*lane, "level"], check_sortedness=False)
    found = found.join_asof(outer.sort("rank"), on="rank", by=lane, check_sortedness=False)
    within = pl.col("outer_until") > pl.col("rank")
    return found.select("event", "inner", "level", outer=pl.when(within).then("outer"))
