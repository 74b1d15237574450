"""Calls of kernel functions that two tracers recorded: which row counts, and which is a second sight of it."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import attach_columns, fill_columns
from tracecorr.link.calls.functions import (
    CALLS,
    KERNEL,
    find_enclosing,
    list_function_rows,
    name_driver_calls,
    nest_functions,
)
from tracecorr.model.kinds import HALF_SEEN, Flag
from tracecorr.model.sights import is_counted

# What saw a call.
_PROBE, _GRAPH, _MOMENT = 0, 1, 2
# All tracers of a function are called one after the other where it begins, and where it ends. An emulated CPU took
# 0.24 ms from one to the next (6.1 in the VM rig).
_SOON_NS = 1_000_000
# Both times of a text are rounded to the nearest microsecond.
_ROUNDING_NS = 1_000
# Numbers of threads are far below; a trace that names no thread is nested by CPU.
_FIRST_CPU = 1 << 31
_LANE = ["thread", "lane", "name"]
# What a row has of its own: the duration that function_graph prints.
_OWN_ARGS = ("duration_ns",)
_SHAPE = {"event": pl.Int64, "counted": pl.Int64}
_COLUMNS = (
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
        return nest_functions(name_driver_calls(events))
    marks = twins.select("event", twin=pl.lit(int(Flag.TWIN), events.schema["flags"]))
    flags = pl.col("flags").fill_null(0) | pl.col("twin")
    events = attach_columns(events, marks).with_columns(flags=pl.coalesce(flags, "flags")).drop("twin")
    nested = nest_functions(name_driver_calls(_fill_counted(events, twins)))
    above = attach_columns(nested, twins)
    return above.with_columns(parent=pl.coalesce("counted", "parent")).drop("counted")


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
    rows = events.select(_COLUMNS).filter((pl.col("source") == "ftrace") & layer.is_in((*KERNEL, *CALLS)))
    rows = rows.with_columns(
        thread=pl.coalesce(thread, pl.col("cpu").cast(pl.Int64) + _FIRST_CPU), kind=_tell_kind(),
        # The reader nests no end without its start.
        depth=pl.when(_IS_EXIT).then(0).otherwise("depth"),
    )  # fmt: skip
    functions = rows.filter(layer.is_in(KERNEL) & pl.col("depth").is_not_null())
    functions = functions.join(names, on="name", how="semi", maintain_order="left")
    calls = rows.filter(layer.is_in(CALLS)).join(functions.select("thread").unique(), on="thread", how="semi")
    placed = list_function_rows(pl.concat([functions, calls]).sort("event"))
    around = find_enclosing(placed).select("event", parent="inner")
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    told = functions.select("event", "name", "kind", "ts_ns", "dur_ns", end_ns=end, is_exit=_IS_EXIT)
    sights = placed.filter(~pl.col("is_call")).join(told, on="event").join(around, on="event", how="left")
    return sights.sort(*_LANE, "start", "place")


def _list_names(events: pl.DataFrame) -> pl.DataFrame:
    """Return the names (one column) of functions that several tracers saw."""
    if not events.select((_FLAGS & int(Flag.TRACED) > 0).any()).item():
        return events.select("name").clear()
    mine = (pl.col("source") == "ftrace") & pl.col("layer").is_in(KERNEL)
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
