"""Kernel functions: which call encloses which, and which rows are second sights of one call by another tracer."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.link.events import attach_columns, fill_columns
from tracecorr.model import frames
from tracecorr.model.columns import is_counted
from tracecorr.model.frames import gives
from tracecorr.model.kinds import HALF_SEEN, Flag
from tracecorr.read.kfd.ioctls import ioctl_names, list_handlers

# Layers whose rows can enclose others; user-space probes, marks and doorbells are no part of a kernel call.
_KERNEL = ("kfd", "mqd", "amdgpu", "other")
_CALLS = ("syscall", "ioctl")
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
    order of the lines tells that, because all its times are rounded; in pages it is the time. If a thread's lines are
    out of order, nothing tells it. Tracepoints keep the parent
    that their reader gave them: an interrupt fires in whatever thread it meets.

    Args:
        events: placed events with `thread`, `parent` and `step_hi_ns` (0 for exact stamps).

    Returns: the same rows; `enclosing_call` is the system call around a function or a probe.
    """
    inside = _list_function_rows(events)
    if inside.is_empty():
        return _free_misplaced(events.with_columns(enclosing_call=pl.col("parent")))
    found = _find_enclosing(inside)
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


def _name_driver_calls(events: pl.DataFrame) -> pl.DataFrame:
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
    around = _find_enclosing(_list_function_rows(events)).select("event", "inner").join(entries, on="inner", how="semi")
    # Two requests in one entry: the end of the first was lost, and what spans either is not known.
    around = found.select("event").join(around, on="event").unique("inner", keep="none")
    return (
        found.join(around, on="event", how="left")
        .select(pl.coalesce("inner", "event"), "ioctl", "returned")
        .rename({"inner": "event"})
    )


def _list_function_rows(events: pl.DataFrame) -> pl.DataFrame:
    """Return functions and system calls of the threads that have functions, with the order of start and end.

    Returns: event, thread, is_call (of the system), lane (what shares an order), start, stop, place, stop_place,
        is_span (encloses what lies in it, as a second sight of a call does not).
    """
    layer = pl.col("layer")
    traced = (pl.col("source") == "ftrace") & pl.col("thread").is_not_null()
    function = layer.is_in(_KERNEL) & pl.col("depth").is_not_null()
    rows = events.select(_COLUMNS).with_columns(is_call=layer.is_in(_CALLS))
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


@gives(frames.ENCLOSING)
def _find_enclosing(rows: pl.DataFrame) -> pl.DataFrame:
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


# What saw a call.
_PROBE, _GRAPH, _MOMENT = 0, 1, 2
# All tracers of a function are called one after the other where it begins, and where it ends. An emulated CPU took
# 0.24 ms from one to the next (6.1 in the VM rig).
_SOON_NS = 1_000_000
# Numbers of threads are far below; a trace that names no thread is nested by CPU.
_FIRST_CPU = 1 << 31
_LANE = ["thread", "lane", "name"]
# What a row has of its own: the duration that function_graph prints.
_OWN_ARGS = ("duration_ns",)
_SHAPE = {"event": pl.Int64, "counted": pl.Int64}
_SIGHT_COLUMNS = (
    "event", "thread", "cpu", "layer", "source", "depth", "name", "ts_ns", "dur_ns", "step_hi_ns", "file", "offset",
    "end_offset", "flags",
)  # fmt: skip
_FLAGS = pl.col("flags").fill_null(0)
_IS_EXIT = _FLAGS & int(Flag.EXIT_ONLY) > 0


def nest_calls(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` as `functions.nest_functions` does, with ioctls named by what the driver shows.

    Of a call that several tracers recorded the row with the longer span counts, else the one that tells more. It gets
    result and request from the others; these have the flag TWIN, enclose nothing, and have it as their `parent`.

    Args:
        events: placed events with `thread`, `parent` and `step_hi_ns` (0 for exact stamps).
    """
    twins = _find_twins(events)
    if twins.is_empty():
        return nest_functions(_name_driver_calls(events))
    marks = twins.select("event", twin=pl.lit(int(Flag.TWIN), events.schema["flags"]))
    flags = pl.col("flags").fill_null(0) | pl.col("twin")
    events = attach_columns(events, marks).with_columns(flags=pl.coalesce(flags, "flags")).drop("twin")
    nested = nest_functions(_name_driver_calls(_fill_counted(events, twins)))
    above = attach_columns(nested, twins)
    return above.with_columns(parent=pl.coalesce("counted", "parent")).drop("counted")


@gives(frames.EVENT_ARGS)
def list_twin_args(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the args of second sights as rows of the call that counts: event, key, u64, text.

    Args:
        events: events nested by `nest_calls`.
        args: args by event.
    """
    twins = events.select("event", "flags", "parent").filter(~is_counted() & pl.col("parent").is_not_null())
    key = pl.col("key").cast(pl.String)
    told = args.join(twins.select("event", counted="parent"), on="event").filter(~key.is_in(_OWN_ARGS))
    told = told.select("u64", "text", event="counted", key=key).unique(["event", "key"], keep="first")
    known = args.join(told.select("event").unique(), on="event", how="semi").select("event", key)
    return told.join(known, on=["event", "key"], how="anti").select("event", "key", "u64", "text").sort("event", "key")


def _fill_counted(events: pl.DataFrame, twins: pl.DataFrame) -> pl.DataFrame:
    """Give rows that count the result and the request that only a second sight of their call tells."""
    columns = ("result", "cmd", "arg")
    told = events.select("event", *columns).join(twins, on="event").group_by("counted")
    return fill_columns(events, told.agg(pl.col(columns).drop_nulls().first()), "counted")


def _find_twins(events: pl.DataFrame) -> pl.DataFrame:
    """Return event, counted (the row that counts in its place) of second sights."""
    sights = _list_sights(events)
    if sights.is_empty():
        return pl.DataFrame(schema=_SHAPE)
    # At most three tracers see a call. By twos, calls of one function in another of it are told apart at any depth.
    first = _pair(sights.filter(pl.col("kind") != _MOMENT))
    left = _without(sights, first)
    second = _pair(left.with_columns(kind=pl.when(pl.col("kind") == _MOMENT).then("kind").otherwise(_PROBE)))
    higher = second.select(counted="event", higher="counted")
    moved = first.join(higher, on="counted", how="left").select("event", counted=pl.coalesce("higher", "counted"))
    return pl.concat([moved, second])


def _list_sights(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of functions that several tracers saw, in the order of their starts within thread and name.

    Returns: event, thread, lane, name, kind, parent (innermost row of such a function, or system call, around it),
        ts_ns, dur_ns, end_ns, is_span, is_exit (its start was not seen), and more.
    """
    names = _list_names(events)
    if names.is_empty():
        return pl.DataFrame(schema={"event": pl.Int64})
    layer, thread = pl.col("layer"), pl.col("thread").cast(pl.Int64)
    rows = events.select(_SIGHT_COLUMNS).filter((pl.col("source") == "ftrace") & layer.is_in((*_KERNEL, *_CALLS)))
    rows = rows.with_columns(
        thread=pl.coalesce(thread, pl.col("cpu").cast(pl.Int64) + _FIRST_CPU), kind=_tell_kind(),
        # The reader nests no end without its start.
        depth=pl.when(_IS_EXIT).then(0).otherwise("depth"),
    )  # fmt: skip
    functions = rows.filter(layer.is_in(_KERNEL) & pl.col("depth").is_not_null())
    functions = functions.join(names, on="name", how="semi", maintain_order="left")
    calls = rows.filter(layer.is_in(_CALLS)).join(functions.select("thread").unique(), on="thread", how="semi")
    placed = _list_function_rows(pl.concat([functions, calls]).sort("event"))
    around = _find_enclosing(placed).select("event", parent="inner")
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    told = functions.select("event", "name", "kind", "ts_ns", "dur_ns", end_ns=end, is_exit=_IS_EXIT)
    sights = placed.filter(~pl.col("is_call")).join(told, on="event").join(around, on="event", how="left")
    return sights.sort(*_LANE, "start", "place")


def _list_names(events: pl.DataFrame) -> pl.DataFrame:
    """Return the names (one column) of functions that several tracers saw."""
    if not events.select((_FLAGS & int(Flag.TRACED) > 0).any()).item():
        return events.select("name").clear()
    mine = (pl.col("source") == "ftrace") & pl.col("layer").is_in(_KERNEL)
    mine &= pl.col("depth").is_not_null() | _IS_EXIT
    kinds = events.lazy().filter(mine).select("name", kind=_tell_kind()).unique().group_by("name").len().collect()
    return kinds.filter(pl.col("len") > 1).select("name")


def _tell_kind() -> pl.Expr:
    """Return what saw a function."""
    # Texts of function_graph may have no times, and so no durations.
    moment = pl.col("dur_ns").is_null() & (_FLAGS & (HALF_SEEN | int(Flag.NO_TIME)) == 0)
    traced = pl.when(moment).then(_MOMENT).otherwise(_GRAPH)
    return pl.when(_FLAGS & int(Flag.TRACED) > 0).then(traced).otherwise(_PROBE)


def _pair(sights: pl.DataFrame) -> pl.DataFrame:
    """Return event, counted of neighbours of different kinds that are sights of one call.

    Sights may be neighbours on both sides (calls in calls, or one after the other without an end): of a row of such
    neighbours every other pair is one call, and where one of them is left over, those that are nearer to each other.
    """
    before = [pl.col(name).shift(1).alias(f"{name}_before") for name in sights.columns]
    both = sights.with_columns(before)
    same, gap = _describe_neighbours()
    both = both.with_columns(same=same.fill_null(value=False), gap=gap).with_columns(run=(~pl.col("same")).cum_sum())
    pairs = both.filter("same").with_columns(turn=pl.int_range(pl.len()).over("run") % 2)
    apart = [pl.col("gap").filter(pl.col("turn") == turn).sum().over("run") for turn in (0, 1)]
    is_even = pl.len().over("run") % 2 == 0
    chosen = pairs.filter(pl.col("turn") == pl.when(is_even & (apart[1] < apart[0])).then(1).otherwise(0))
    rank = [_rank(""), _rank("_before")]
    earlier = rank[1] > rank[0]
    return chosen.select(
        event=pl.when(earlier).then("event").otherwise("event_before"),
        counted=pl.when(earlier).then("event_before").otherwise("event"),
    )


def _describe_neighbours() -> tuple[pl.Expr, pl.Expr]:
    """Tell of each sight whether it may be of the call of the one before it, and how far apart they are (ns)."""
    of_lane = pl.all_horizontal(pl.col(name) == pl.col(f"{name}_before") for name in _LANE)
    inside = (pl.col("parent") == pl.col("event_before")).fill_null(value=False)
    beside = pl.col("parent").eq_missing(pl.col("parent_before"))
    since = pl.col("ts_ns") - pl.col("ts_ns_before")
    behind = pl.col("ts_ns") - pl.col("end_ns_before")
    is_exit, was_exit, was_span = pl.col("is_exit"), pl.col("is_exit_before"), pl.col("is_span_before")
    # Both began, or ended, at once.
    at_once = ~was_span & (is_exit == was_exit) & (since <= _SOON_NS)
    # One shows that it began, the other that it ended.
    halves = ~was_span & is_exit & ~was_exit
    ended = was_span & is_exit & behind.is_between(-_ROUNDING_NS, _SOON_NS)
    related = inside | (beside & (at_once | halves | ended))
    gap = pl.when(ended & ~inside).then(behind.abs()).otherwise(since)
    return of_lane & (pl.col("kind") != pl.col("kind_before")) & related, gap


def _rank(suffix: str) -> pl.Expr:
    """Return the larger number for what is counted: the longer span, what shows the start, a probe."""
    length = pl.col(f"dur_ns{suffix}").fill_null(-1)
    begun = (~pl.col(f"is_exit{suffix}")).cast(pl.Int64)
    return length * 8 + begun * 4 - pl.col(f"kind{suffix}")


def _without(sights: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the sights without the second ones; what these enclose lies in the calls that count."""
    left = sights.join(pairs.select("event"), on="event", how="anti", maintain_order="left")
    above = pairs.select(parent="event", higher="counted")
    joined = left.join(above, on="parent", how="left", maintain_order="left")
    return joined.with_columns(parent=pl.coalesce("higher", "parent")).drop("higher")
