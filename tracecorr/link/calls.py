"""Calls: the chain of every row, and the system calls inside HIP calls."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.model.kinds import DERIVED, INFERRED


def find_parents(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with `parent`: the row whose record the reader found enclosing it (same file and thread)."""
    starts = events.select("file", pl.col("offset").alias("parent_offset"), parent="event")
    # A page of a trace or a glued line can hold several records, but never two with one offset.
    starts = starts.unique(["file", "parent_offset"], keep="first")
    return events.join(starts, on=["file", "parent_offset"], how="left", maintain_order="left")


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
