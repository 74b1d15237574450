"""Calls: the chain of every row, and the system calls inside HIP calls."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.model.kinds import DERIVED, INFERRED, Flag

# Of the calls of a function that calls another one, at least this share does so.
_USUAL_SHARE = 0.2


def find_parents(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with `parent`: the row whose record encloses it (same file and thread).

    A HIP call whose exit was not seen encloses no other call, and nothing after the thread's next call: where it
    ended is not known. So does one whose enter and exit are those of two calls (the lines between them were lost).
    """
    lines = events.filter(pl.col("layer") != "gpu")
    starts = lines.select("file", pl.col("offset").alias("parent_offset"), parent="event")
    # A page of a trace or a glued line can hold several records, but never two with one offset.
    starts = starts.unique(["file", "parent_offset"], keep="first")
    joined = events.join(starts, on=["file", "parent_offset"], how="left", maintain_order="left")
    joined = _open_false_calls(_part_mixed_threads(joined))
    hip = pl.col("layer") == "hip"
    if joined.filter(hip & pl.col("dur_ns").is_null()).is_empty():
        return joined
    parent = joined["parent"].fill_null(-1).to_numpy().copy()
    is_hip = joined.select(hip).to_series().to_numpy()
    is_open = is_hip & joined["dur_ns"].is_null().to_numpy()
    _leave_open_calls(parent, is_hip, is_open, joined["offset"].to_numpy())
    found = pl.Series("parent", parent)
    return joined.with_columns(found.set(found < 0, None))


def _part_mixed_threads(events: pl.DataFrame) -> pl.DataFrame:
    """Take the parents from rows of a log without tids that lie where calls overlap: these are of several threads."""
    hip = pl.col("layer") == "hip"
    unknown = events.filter((pl.col("source") == "amd_log") & pl.col("thread").is_null())
    inner = unknown.filter(hip).drop_nulls("parent")
    if inner.is_empty():
        return events
    mixed = pl.concat([inner["event"], inner["parent"]]).unique()
    parted = pl.col("parent").is_in(mixed.implode()) & pl.col("thread").is_null()
    return events.with_columns(parent=pl.when(~parted.fill_null(False)).then("parent"))


def _open_false_calls(events: pl.DataFrame) -> pl.DataFrame:
    """Take the end from calls that enclose another one as few calls of their name do.

    A HIP function that calls another logged one does so as a rule. Where one call of many encloses others, its exit
    is that of a later call of the same name, and the lines between were lost.
    """
    hip = events.filter((pl.col("layer") == "hip") & pl.col("dur_ns").is_not_null())
    inner = hip.drop_nulls("parent").select(event="parent").unique()
    inner = inner.join(hip.select("event", "name"), on="event")
    if inner.is_empty():
        return events
    total, enclosing = hip.group_by("name").agg(total=pl.len()), inner.group_by("name").agg(enclosing=pl.len())
    rare = total.join(enclosing, on="name").filter(pl.col("enclosing") < _USUAL_SHARE * pl.col("total"))
    false = inner.join(rare, on="name", how="semi").select("event", is_false=pl.lit(True))
    joined = events.join(false, on="event", how="left", maintain_order="left")
    ended = pl.col("is_false").is_null()
    return joined.with_columns(
        dur_ns=pl.when(ended).then("dur_ns"),
        flags=pl.when(ended).then("flags").otherwise(pl.col("flags") | int(Flag.ENTER_ONLY)),
    ).drop("is_false")


def _leave_open_calls(parent: np.ndarray, is_hip: np.ndarray, is_open: np.ndarray, offset: np.ndarray) -> None:
    """Move the rows that open calls do not surely enclose to what encloses these, in place."""
    child = np.flatnonzero((parent >= 0) & is_hip)
    next_call = np.full(len(parent), np.iinfo(np.int64).max)
    np.minimum.at(next_call, parent[child], offset[child])
    while True:
        rows = np.flatnonzero(parent >= 0)
        above = parent[rows]
        outside = is_open[above] & (is_hip[rows] | (offset[rows] >= next_call[above]))
        if not outside.any():
            return
        parent[rows[outside]] = parent[above[outside]]


def link_syscalls(events: pl.DataFrame, aligned: bool) -> pl.DataFrame:
    """Return which innermost HIP call each system call happened in, on the same thread.

    Args:
        events: placed events with `thread` and `parent`.
        aligned: whether the trace's clock is known; without it nothing is linked by time.

    Returns: event, call, evidence: `derived` where it lies inside by more than the error of both times,
        `inferred` where that is sure of the outermost call only. What may lie outside is not linked.
    """
    empty = pl.DataFrame(schema={"event": pl.Int64, "call": pl.Int64, "evidence": pl.String})
    hip = events.filter((pl.col("layer") == "hip") & pl.col("dur_ns").is_not_null() & pl.col("thread").is_not_null())
    inner = events.filter(
        pl.col("layer").cast(pl.String).is_in(["syscall", "ioctl"]) & (pl.col("source") == "ftrace")
        & pl.col("thread").is_not_null()
    ).sort("ts_ns")  # fmt: skip
    if not aligned or hip.is_empty() or inner.is_empty():
        return empty
    edges = _edges(hip)
    at_start = inner.select(
        "event", "thread", "ts_ns", "err_lo_ns", "err_hi_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    ).join_asof(edges, on="ts_ns", by="thread", check_sortedness=False)
    inside = at_start.drop_nulls("call").join(_spans(events, hip), on="call", maintain_order="left")
    evidence = pl.when(_surely("call")).then(pl.lit(DERIVED)).when(_surely("root")).then(pl.lit(INFERRED))
    return inside.select("event", "call", evidence=evidence).drop_nulls("evidence")


def _spans(events: pl.DataFrame, hip: pl.DataFrame) -> pl.DataFrame:
    """Return each HIP call's own span and that of its outermost call; both stamps are truncated to 1 us."""
    roots = events.select(call="event", root=pl.Series(find_chains(events["parent"].fill_null(-1).to_numpy())))
    own = hip.select(
        call="event", call_ns=pl.col("ts_ns") + pl.col("err_hi_ns"), call_end_ns=pl.col("ts_ns") + pl.col("dur_ns")
    )
    outer = own.rename({"call": "root", "call_ns": "root_ns", "call_end_ns": "root_end_ns"})
    return own.join(roots, on="call").join(outer, on="root", how="left")


def _surely(span: str) -> pl.Expr:
    started = pl.col("ts_ns") - pl.col("err_lo_ns") >= pl.col(f"{span}_ns")
    return started & (pl.col("end_ns") + pl.col("err_hi_ns") <= pl.col(f"{span}_end_ns"))


def _edges(hip: pl.DataFrame) -> pl.DataFrame:
    """Return, per thread, the innermost open HIP call from each moment on at which it changes."""
    opened = hip.select("thread", "ts_ns", "offset", call="event")
    end_ns = (pl.col("ts_ns") + pl.col("dur_ns")).alias("ts_ns")
    closed = hip.select("thread", end_ns, pl.col("end_offset").alias("offset"), call="parent")
    # Many edges fall into one microsecond; the order of a thread's lines in the file is exact.
    return pl.concat([opened, closed]).sort("ts_ns", "offset").select("thread", "ts_ns", "call")


def find_chains(parents: np.ndarray) -> np.ndarray:
    """Return the outermost ancestor of every event.

    Args:
        parents: parent of event i at place i, -1 for none; must hold no cycle.
    """
    roots = np.where(parents < 0, np.arange(len(parents)), parents)
    # Each round doubles the height climbed, so deep trees cost few rounds.
    for _ in range(64):
        higher = roots[roots]
        if np.array_equal(higher, roots):
            break
        roots = higher
    return roots
