"""Calls: the chain of every row, and the system calls inside HIP calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.link.events import find_places
from tracecorr.model import frames
from tracecorr.model.columns import is_internal
from tracecorr.model.frames import gives
from tracecorr.model.kinds import COMPLETE, SHADER_NAME, SUBMITTED, WITHOUT_EXIT, Flag
from tracecorr.native import Ints

_Mask = NDArray[np.bool_]
# What may lie in more silences than this is asked nothing: it tells little and costs much.
_MOST_SILENCES = 64


def find_parents(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with `parent`: the row whose record encloses it (same file and thread).

    A HIP call whose end is not known encloses no other call, and nothing after the thread's next call.

    Args:
        events: placed events with `thread`.
    """
    joined = _part_threadless(events.with_columns(parent=_list_parents(events)))
    is_hip = joined.select(pl.col("layer") == "hip").to_series().to_numpy()
    is_open = is_hip & joined["dur_ns"].is_null().to_numpy()
    if not is_open.any():
        return joined
    parent = joined["parent"]
    rows = pl.Series(is_open).gather(parent).fill_null(False).arg_true()
    if rows.is_empty():
        return joined
    offset = joined["offset"].to_numpy()
    found = pl.Series(_leave_open_calls(rows.cast(pl.Int64).to_numpy(), parent, is_hip, is_open, offset))
    return joined.with_columns(parent.scatter(rows, found.set(found < 0, None)))


def _list_parents(events: pl.DataFrame) -> pl.Series:
    """Return the row whose record encloses each one, as the reader saw it."""
    asked = events.select("file", "thread", offset="parent_offset").with_row_index("row").drop_nulls("offset")
    # In the log only calls enclose anything.
    is_log = pl.col("source") == "amd_log"
    rows = events.select("file", "offset", "layer", "source", "thread").with_row_index("number")
    enclosing = rows.filter((pl.col("layer") == "hip") | ~is_log)
    found = find_places(enclosing, asked)
    # The reader knows threads by their numbers: of two that had one after the other none is in a call of the other.
    is_another = enclosing["thread"].gather(found) != asked["thread"]
    above = enclosing["number"].gather(found).cast(pl.Int64).set(is_another.fill_null(value=False), None)
    return pl.repeat(None, events.height, dtype=pl.Int64, eager=True).scatter(asked["row"], above)


def _leave_open_calls(rows: Ints, parent: pl.Series, is_hip: _Mask, is_open: _Mask, offset: Ints) -> Ints:
    """Return the parents of some rows: of those that open calls do not surely enclose, what encloses these.

    Args:
        rows: all rows whose parents are open calls.
        parent, is_hip, is_open, offset: of each event.

    Returns: -1 if nothing encloses a row.
    """
    found = _parents_of(parent, rows)
    calls, call = np.unique(found, return_inverse=True)
    next_call = np.full(len(calls), np.iinfo(np.int64).max)
    np.minimum.at(next_call, call[is_hip[rows]], offset[rows[is_hip[rows]]])
    left = np.arange(len(rows))
    while len(left := left[(found[left] >= 0) & is_open[found[left]]]):
        above, own = found[left], rows[left]
        outside = is_hip[own] | (offset[own] >= next_call[np.searchsorted(calls, above)])
        left, above = left[outside], above[outside]
        # A call that encloses a row may be moved as well.
        at = np.minimum(np.searchsorted(rows, above), len(rows) - 1)
        found[left] = np.where(rows[at] == above, found[at], _parents_of(parent, above))
    return found


def _parents_of(parent: pl.Series, rows: Ints) -> Ints:
    parents: Ints = parent.gather(rows).fill_null(-1).to_numpy(writable=True)
    return parents


@gives(frames.LOG_LINES)
def list_lines(events: pl.DataFrame, aligned: bool) -> pl.DataFrame:
    """Return the lines of the log of threads that make system calls in a trace, in the order of their printing.

    Args:
        events: placed events with `thread` and `parent`.
        aligned: whether the trace's clock is known; without it nothing is linked by time, and there are no rows.

    Returns: thread, at, call (the innermost one open behind the line; -1 none, -2 unknown).
    """
    empty = pl.DataFrame(schema={"thread": events.schema["thread"], "at": pl.Int64, "call": pl.Int64})
    inner = _list_inner(events)
    return _list_lines(events, inner["thread"].unique()) if aligned and len(inner) else empty


def _list_inner(events: pl.DataFrame) -> pl.DataFrame:
    columns = ("event", "thread", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "layer", "source")
    return events.select(columns).filter(
        pl.col("layer").is_in(["syscall", "ioctl"]) & (pl.col("source") == "ftrace")
        & pl.col("thread").is_not_null() & pl.col("err_lo_ns").is_not_null()
    )  # fmt: skip


@gives(frames.SYSCALLS_IN_CALLS)
def link_syscalls(events: pl.DataFrame, lines: pl.DataFrame, prints: pl.Series) -> pl.DataFrame:
    """Return which innermost HIP call each system call happened in, on the same thread.

    A thread prints nothing while it is in the kernel: the system call lies in a silence between two of its lines
    that is long enough and within the errors of the times.

    Args:
        events: placed events with `thread` and `parent`.
        lines: as `list_lines` returns them.
        prints: the system calls that wrote the log itself: they are of no HIP call.

    Returns: event, call: of those for which all silences that can hold them lie in the same call.
    """
    empty = pl.DataFrame(schema={"event": pl.Int64, "call": pl.Int64})
    if lines.is_empty():
        return empty
    # Rows of one thread stand together.
    inner = _list_inner(events).filter(~pl.col("event").is_in(prints.implode())).sort("thread", maintain_order=True)
    by_thread = {key[0]: part for key, part in lines.partition_by("thread", as_dict=True, maintain_order=True).items()}
    found = [
        (first, *_list_candidates(part, by_thread[thread]))
        for thread, first, part in _list_threads(inner)
        if thread in by_thread
    ]
    if not found:
        return empty
    # Threads may be many and short: what is left is asked of all at once.
    thing, call = (np.concatenate(side) for side in zip(*((first + t, c) for first, t, c in found), strict=True))
    frame = pl.DataFrame({"thing": thing, "call": call}).group_by("thing", maintain_order=True).agg(
        low=pl.col("call").min(), high=pl.col("call").max()
    )  # fmt: skip
    inside = frame.filter((pl.col("low") == pl.col("high")) & (pl.col("low") >= 0))
    return inside.select(event=inner["event"].gather(inside["thing"]), call="low")


def _list_threads(inner: pl.DataFrame) -> Iterator[tuple[int, int, pl.DataFrame]]:
    """Yield each thread, the number of its first row, and its rows."""
    first = 0
    for thread, count in inner.group_by("thread", maintain_order=True).len().iter_rows():
        yield thread, first, inner.slice(first, count)
        first += count


def _list_lines(events: pl.DataFrame, threads: pl.Series) -> pl.DataFrame:
    """Return each line of these threads: thread, at, call."""
    columns = ("event", "thread", "parent", "ts_ns", "dur_ns", "offset", "end_offset", "layer", "source", "clock")
    log = events.select(columns).filter(
        (pl.col("source") == "amd_log") & (pl.col("clock") == "mono") & pl.col("thread").is_in(threads.implode())
    )
    is_hip, ended = pl.col("layer") == "hip", pl.col("dur_ns").is_not_null()
    still_open = log.filter(is_hip & ~ended)["event"]
    outer = pl.col("parent").fill_null(-1)
    # Behind the enter of a call whose exit is missing it may have ended at any time.
    opened = pl.when(is_hip & ended).then("event").when(is_hip).then(-2).otherwise(outer)
    starts = log.select("thread", "offset", at="ts_ns", call=opened.cast(pl.Int64))
    ends = log.filter(is_hip & ended).select(
        "thread", pl.col("end_offset").alias("offset"), at=pl.col("ts_ns") + pl.col("dur_ns"), call=outer
    )
    # Many lines fall into one microsecond; the order of a thread's lines in the file is exact.
    both = pl.concat([starts, ends])
    order = np.lexsort([both[name].to_numpy() for name in ("offset", "at")])
    ordered = both[pl.Series(order.astype(np.uint32))]
    if still_open.is_empty():
        return ordered
    # What an open call encloses shows that it went on up to there, and no further.
    goes_on = pl.col("call") == pl.col("call").shift(-1).over("thread")
    over = pl.col("call").is_in(still_open.implode()) & ~goes_on.fill_null(False)
    return ordered.with_columns(call=pl.when(over).then(-2).otherwise("call"))


def _list_candidates(inner: pl.DataFrame, lines: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return which system call of a thread (its row) may lie behind which line: the call that is open there."""
    at, calls = lines["at"].to_numpy(), lines["call"].to_numpy()
    start = inner["ts_ns"].to_numpy()
    end = start + inner["dur_ns"].fill_null(0).to_numpy()
    early = inner["err_lo_ns"].cast(pl.Int64).to_numpy()
    late = inner["err_hi_ns"].fill_null(0).cast(pl.Int64).to_numpy()
    thing, silence = _list_silences(at, start - early - LOG_STEP_NS, end + late)
    opened = np.concatenate([[np.iinfo(np.int64).min // 4], at])[silence]
    closed = np.concatenate([at + LOG_STEP_NS, [np.iinfo(np.int64).max // 4]])[silence]
    # The whole call shifts within its errors; it must fit between the two lines.
    least, most = np.maximum(opened - start[thing], -early[thing]), np.minimum(closed - end[thing], late[thing])
    fits = least <= most
    return thing[fits], np.concatenate([[-1], calls])[silence[fits]]


def _list_silences(lines: Ints, earliest: Ints, latest: Ints) -> tuple[Ints, Ints]:
    """Return in which silences of a thread each thing may lie, as pairs (thing, silence).

    Silence i lies between line i - 1 and line i; the first has no start, the last no end.

    Args:
        lines: sorted times of the thread's lines.
        earliest, latest: first and last moment that each thing can have had.
    """
    first = np.searchsorted(lines, earliest, side="right")
    last = np.searchsorted(lines, latest, side="right")
    near = np.flatnonzero((last - first < _MOST_SILENCES) & (last >= first))
    count = last[near] - first[near] + 1
    thing = np.repeat(near, count)
    return thing, np.arange(len(thing)) - np.repeat(np.cumsum(count) - count, count) + first[thing]


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


def _part_threadless(events: pl.DataFrame) -> pl.DataFrame:
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


_THREAD = ["process", "thread"]


def list_open_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the last call of each thread if its return is not in the log, and its function prints returns.

    Args:
        events: the table, or its columns event, source, layer, process, thread, name, ts_ns, dur_ns, flags.

    Returns: event, process, thread, name, ts_ns, open_ns (until the last record of its process), the longest first.
    """
    is_call = (pl.col("source") == "amd_log") & (pl.col("layer") == "hip")
    is_open = (pl.col("flags").fill_null(0) & _ENTER) > 0
    ends_told = ~is_internal(pl.col("name")) & ~pl.col("name").is_in(WITHOUT_EXIT)
    # Most logs have no such call at all.
    names = events.filter(is_call & is_open).select("name").unique().collect(engine="streaming")
    if names.cast(pl.String).filter(ends_told).is_empty():
        return _NO_CALLS
    told = events.filter(is_call).select("event", *_THREAD, pl.col("name").cast(pl.String), "ts_ns", is_open=is_open)
    hip = told.filter(ends_told).collect(engine="streaming")
    calls = hip.group_by(_THREAD).agg(pl.all().sort_by("event").last()).filter("is_open")
    # A function that prints no return in this log: its other calls went on without one.
    mute = hip.group_by("name").agg(whole=(~pl.col("is_open")).sum(), lines=pl.len())
    mute = mute.join(calls.group_by("name").agg(last=pl.len()), on="name")
    mute = mute.filter((pl.col("whole") == 0) & (pl.col("lines") > pl.col("last")))
    calls = calls.join(mute, on="name", how="anti")
    timed = events.filter((pl.col("flags").fill_null(0) & int(Flag.UNALIGNED)) == 0)
    ends = timed.group_by("process").agg(end_ns=(pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)).max())
    calls = calls.join(ends.collect(engine="streaming"), on="process", how="left", nulls_equal=True)
    calls = calls.with_columns(open_ns=pl.col("end_ns") - pl.col("ts_ns")).select(_NO_CALLS.columns)
    return calls.sort("open_ns", "event", descending=[True, False])


_NO_CALLS = pl.DataFrame(schema={
    "event": pl.Int64, "process": pl.UInt32, "thread": pl.UInt32, "name": pl.String, "ts_ns": pl.Int64,
    "open_ns": pl.Int64,
})  # fmt: skip
