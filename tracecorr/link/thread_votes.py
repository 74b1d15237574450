"""Threads by containment: whose HIP calls the system calls of a kernel thread lie in, where nothing names both."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.link.creation_threads import match_creations

# At least so many system calls, and so large a share of them, lie in the calls of one thread of the log, ...
_LEAST, _SHARE = 5, 0.9
# ... and of those in calls of no second one more than this share.
_SECOND = 0.5
_SHAPE = {"file": pl.UInt16, "log_pid": pl.UInt32, "log_tid": pl.UInt64, "tid_key": pl.Int64, "how": pl.String}

# What the votes need of part events, to place them and to count.
VOTE_COLUMNS = (
    "stamp_ns", "end_stamp_ns", "step_lo_ns", "step_hi_ns", "clock", "flags", "file", "offset", "parent_offset",
    "layer", "name", "source", "pid", "tid", "host_tid",
)  # fmt: skip


def guess_threads(placed: pl.DataFrame) -> pl.DataFrame:
    """Return what queue creations and votes tell of unknown threads, the creations first; as `vote_threads`."""
    made = match_creations(placed)
    voted = vote_threads(placed)
    keys = ["file", "log_pid", "log_tid"]
    return pl.concat([made, voted.join(made, on=keys, how="anti").join(made, on="tid_key", how="anti")])


def vote_threads(placed: pl.DataFrame) -> pl.DataFrame:
    """Return file, log_pid, log_tid -> tid_key, how; `how` tells the votes.

    Args:
        placed: rows of log and trace on one clock, with `tid_key` on those of the trace; those whose `host_tid` is
            known on the log's side are left out.
    """
    hip = placed.filter(
        (pl.col("layer") == "hip") & pl.col("dur_ns").is_not_null() & pl.col("host_tid").is_null()
        & pl.col("tid").is_not_null() & pl.col("parent_offset").is_null()
    )  # fmt: skip
    taken = placed.filter(pl.col("source") == "amd_log")["host_tid"].drop_nulls().unique()
    calls = placed.filter(
        (pl.col("layer") == "ioctl") & (pl.col("source") == "ftrace") & ~pl.col("host_tid").is_in(taken.implode())
    )
    if hip.is_empty() or calls.is_empty():
        return pl.DataFrame(schema=_SHAPE)
    line = ["file", "log_pid", "log_tid"]
    spans = hip.select("file", "ts_ns", log_pid="pid", log_tid="tid", call_end=pl.col("ts_ns") + pl.col("dur_ns"))
    totals = calls.group_by("tid_key").agg(total=pl.len())
    asked = calls.select("tid_key", "ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)).sort("ts_ns")
    # Every thread of the log is asked about every system call of its life.
    votes = [
        _inside(asked, part.sort("ts_ns")).with_columns(
            pl.lit(value, _SHAPE[name]).alias(name) for name, value in zip(line, key, strict=True)
        )
        for key, part in spans.partition_by(*line, as_dict=True).items()
    ]
    shares = pl.concat(votes).join(totals, on="tid_key").with_columns(share=pl.col("n") / pl.col("total"))
    good = pl.col("share") >= _SECOND
    alone = (good.sum().over("tid_key") == 1) & (good.sum().over(line) == 1)
    found = shares.filter((pl.col("share") >= _SHARE) & (pl.col("n") >= _LEAST) & alone)
    how = pl.format("{} of {} ioctls inside its calls", "n", "total")
    return found.with_columns(how=how).select(*_SHAPE).cast(_SHAPE)  # type: ignore[arg-type]


def _inside(calls: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return tid_key, n: how many of each kernel thread's system calls (sorted) lie in these HIP calls (sorted)."""
    at = calls["ts_ns"].to_numpy()
    first = int(np.searchsorted(at, spans["ts_ns"][0], side="left"))
    last = int(np.searchsorted(at, spans["call_end"].to_numpy().max(), side="right"))
    near, held = calls.slice(first, last - first), spans.select("ts_ns", "call_end")
    found = near.join_asof(held, on="ts_ns", check_sortedness=False)
    return found.filter(pl.col("end") <= pl.col("call_end")).group_by("tid_key").agg(n=pl.len())
