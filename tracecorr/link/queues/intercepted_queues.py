"""Queues under a profiler: it gives HIP a queue of its own, whose ring the hardware never sees, and keeps the real one.

Then the ring of the log (HWq) is that of the profiler's buffer (ROCr's InterceptQueue), its doorbell is a user signal,
and packets may be added or changed on the way: index and doorbell of the hardware are unknown.
"""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import RECORDED

# An AQL packet (HSA Runtime Programmer's Reference Manual).
_PACKET_BYTES = 64
_NO_STORE = "no doorbell"  # so begin the reasons of `launches.unlinked_reason` that a probe of stores would remove
_INTERCEPTED = "a profiler intercepts the queue: the store went to a signal of its own"


def list_intercepting(lines: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    """Return the ioctls, with their rings, of processes whose queues a profiler may intercept.

    It intercepts all that are made while it is loaded: where one line of a process has the ring of an ioctl, it does
    not.

    Args:
        lines: Created lines: process, ring, ring_evidence.
        ioctls: CREATE_QUEUE ioctls: process, ring_base, type, and others.
    """
    named = lines.filter(pl.col("ring_evidence") == RECORDED).select("process", ring_base="ring").drop_nulls()
    shown = ioctls.drop_nulls(["process", "ring_base"])
    plain = shown.join(named, on=["process", "ring_base"], how="semi").select("process")
    hidden = shown.join(plain, on="process", how="anti").join(named, on="process", how="semi")
    return hidden.filter((pl.col("type") == "compute_aql").fill_null(value=True))


def may_intercept() -> pl.Expr:
    """Tell of lines beside ioctls whether the ioctl may be the line's: its ring is unknown, or has the line's size."""
    size = pl.col("size").cast(pl.Int64, strict=False) * _PACKET_BYTES
    recorded = (pl.col("ring_evidence") == RECORDED).fill_null(value=False)
    return pl.col("ring_base").is_null() | (recorded & (pl.col("size_bytes") == size).fill_null(value=True))


def is_intercepted() -> pl.Expr:
    """Tell of queues whether a profiler intercepts them; null where a source lacks that would tell."""
    recorded = (pl.col("ring_evidence") == RECORDED).fill_null(value=False)
    return pl.when(recorded).then(pl.col("ring_base") != pl.col("ring"))


def explain_stores(launches: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Return `launches` with the reason why packets of intercepted queues have no doorbell store."""
    hidden = queues.filter("intercepted")["queue"]
    if hidden.is_empty():
        return launches
    said = pl.col("unlinked_reason").cast(pl.String)
    mine = pl.col("queue").is_in(hidden.implode()) & said.str.starts_with(_NO_STORE)
    reason = pl.when(mine).then(pl.lit(_INTERCEPTED)).otherwise(said)
    return launches.with_columns(reason.cast(launches.schema["unlinked_reason"]).alias("unlinked_reason"))
