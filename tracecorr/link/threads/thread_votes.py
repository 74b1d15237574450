"""Threads by containment: whose HIP calls the system calls of a kernel thread lie in, where nothing names both."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.evidence import IS_CREATE_PROBE, list_created_rings
from tracecorr.link.threads.creation_threads import match_creations
from tracecorr.link.threads.lives import LOG_THREAD, SAME_THREAD

# At least so many system calls, and so large a share of them, lie in the calls of one thread of the log, ...
_LEAST, _SHARE = 5, 0.9
# ... and of those in calls of no second one more than this share.
_SECOND = 0.5
# Of two threads that are one, at least this share of the system calls does, where one holds a line.
_LEAST_INSIDE = 0.5
_VOTES = {
    **{name: SAME_THREAD[name] for name in (*LOG_THREAD, "tid_key")},
    "n": pl.UInt32, "total": pl.UInt32, "share": pl.Float64,
}  # fmt: skip

# What the votes need of part events, to place them and to count.
_VOTE_COLUMNS = (
    "stamp_ns", "end_stamp_ns", "step_lo_ns", "step_hi_ns", "clock", "flags", "file", "offset", "parent_offset",
    "layer", "name", "source", "pid", "tid", "host_tid", "ring",
)  # fmt: skip


def select_voters(records: pl.DataFrame) -> pl.DataFrame:
    """Return what tells of unknown threads: their rows of the log, and system calls of threads that no log names.

    So do the probes that record the rings of queues. A row without a time tells nothing.

    Args:
        records: part events with `source` and `host_tid`.
    """
    in_log, known = pl.col("source") == "amd_log", pl.col("host_tid")
    named = records.lazy().filter(in_log).select(known.unique().drop_nulls().implode()).collect().to_series()
    is_call = (pl.col("source") == "ftrace") & (pl.col("layer").is_in(["ioctl", "syscall"]) | IS_CREATE_PROBE)
    asked = pl.when(in_log).then(known.is_null()).otherwise(is_call & ~known.is_in(named))
    return records.lazy().filter(asked & pl.col("stamp_ns").is_not_null()).select(_VOTE_COLUMNS).collect()


def guess_threads(placed: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return file, log_pid, log_tid -> tid_key, how: what queue creations, else votes, tell of unknown threads.

    Processes that begin together make their queues at nearly the same times. A thread prints nothing while it is in the
    kernel: where it seems to, and most of the calls lie in none of its HIP calls, it is another process's.

    Args:
        placed: rows of `select_voters` on one clock, with `tid_key` on those of the trace.
        args: part args.
    """
    made, others = match_creations(placed, list_created_rings(placed, args))
    votes = _count_votes(placed).join(others, on=others.columns, how="anti", maintain_order="left")
    made = made.join(_list_foreign(made, votes, placed), on=[*LOG_THREAD, "tid_key"], how="anti", maintain_order="left")
    voted = _choose(votes)
    return pl.concat([made, voted.join(made, on=LOG_THREAD, how="anti").join(made, on="tid_key", how="anti")])


def _choose(votes: pl.DataFrame) -> pl.DataFrame:
    """Return the threads of which nearly all ioctls lie in the calls of one thread alone; `how` tells the votes."""
    good = pl.col("share") >= _SECOND
    alone = (good.sum().over("tid_key") == 1) & (good.sum().over(LOG_THREAD) == 1)
    found = votes.filter((pl.col("share") >= _SHARE) & (pl.col("n") >= _LEAST) & alone)
    how = pl.format("{} of {} ioctls inside its calls", "n", "total")
    return found.with_columns(how=how).select(*SAME_THREAD).cast(SAME_THREAD)  # type: ignore[arg-type]


def _count_votes(placed: pl.DataFrame) -> pl.DataFrame:
    """Return how many (n, total, share) of the ioctls of a kernel thread (tid_key) lie in HIP calls of LOG_THREAD."""
    hip = placed.filter(
        (pl.col("layer") == "hip") & pl.col("dur_ns").is_not_null() & pl.col("tid").is_not_null()
        & pl.col("parent_offset").is_null()
    )  # fmt: skip
    calls = placed.filter((pl.col("layer") == "ioctl") & (pl.col("source") == "ftrace"))
    if hip.is_empty() or calls.is_empty():
        return pl.DataFrame(schema=_VOTES)
    spans = hip.select("file", "ts_ns", log_pid="pid", log_tid="tid", call_end=pl.col("ts_ns") + pl.col("dur_ns"))
    totals = calls.group_by("tid_key").agg(total=pl.len())
    asked = calls.select("tid_key", "ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)).sort("ts_ns")
    # Every thread of the log is asked about every system call of its life.
    votes = [
        _inside(asked, part.sort("ts_ns")).with_columns(
            pl.lit(value, SAME_THREAD[name]).alias(name) for name, value in zip(LOG_THREAD, key, strict=True)
        )
        for key, part in spans.partition_by(*LOG_THREAD, as_dict=True).items()
    ]
    return pl.concat(votes).join(totals, on="tid_key").with_columns(share=pl.col("n") / pl.col("total"))


def _list_foreign(made: pl.DataFrame, votes: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Return those of `made` (LOG_THREAD, tid_key) whose system calls hold lines, and lie in few HIP calls.

    Where records were lost the enter of one call and the exit of another look like one, which holds lines, too.
    """
    inside = votes.filter(pl.col("share") >= _LEAST_INSIDE)
    asked = made.select(*LOG_THREAD, "tid_key").join(inside, on=[*LOG_THREAD, "tid_key"], how="anti")
    if asked.is_empty():
        return asked
    of_log = pl.col("source") == "amd_log"
    rows = placed.filter(of_log & (pl.col("clock") == "mono")).select("file", "ts_ns", log_pid="pid", log_tid="tid")
    lines = rows.join(asked, on=LOG_THREAD).with_columns(printed_ns="ts_ns").drop_nulls().sort("ts_ns")
    begun = pl.col("ts_ns") + pl.col("err_hi_ns").cast(pl.Int64)
    until = pl.col("ts_ns") + pl.col("dur_ns") - pl.col("err_lo_ns").cast(pl.Int64)
    calls = placed.filter(~of_log & pl.col("layer").is_in(["ioctl", "syscall"]))
    calls = calls.select("tid_key", ts_ns=begun, until=until).drop_nulls().join(asked, on="tid_key").sort("ts_ns")
    after = calls.join_asof(lines, on="ts_ns", by=[*LOG_THREAD, "tid_key"], strategy="forward", check_sortedness=False)
    return after.filter(pl.col("printed_ns") + LOG_STEP_NS < pl.col("until")).select(asked.columns).unique()


def _inside(calls: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return tid_key, n: how many of each kernel thread's system calls (sorted) lie in these HIP calls (sorted)."""
    at = calls["ts_ns"].to_numpy()
    first = int(np.searchsorted(at, spans["ts_ns"][0], side="left"))
    last = int(np.searchsorted(at, spans["call_end"].to_numpy().max(), side="right"))
    near, held = calls.slice(first, last - first), spans.select("ts_ns", "call_end")
    found = near.join_asof(held, on="ts_ns", check_sortedness=False)
    return found.filter(pl.col("end") <= pl.col("call_end")).group_by("tid_key").agg(n=pl.len())
