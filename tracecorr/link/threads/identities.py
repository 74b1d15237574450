"""Which thread and process each row is of, who made a thread, and what a process executes."""

from __future__ import annotations

import polars as pl

from tracecorr.link.threads.hashed_tids import name_rocr_threads
from tracecorr.link.threads.lives import LOG_THREAD, number_lives
from tracecorr.link.threads.thread_map import Identities

_OWNERS = ("thread", "process", "host_tid", "host_pid")
# Both return the number of the new thread, in the pid namespace of the caller.
_CLONES = ("clone", "clone3")
# A new thread may be seen before its creator's call is.
_ROUNDING_NS = 2_000


def name_log_pids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return part events with the pid of lines of a log that name their thread alone, and one number per thread.

    ROCm 4.2 to 4.5 print the pid with HIP calls only: lines of a thread whose calls are of one process are of that one.
    """
    rows = name_rocr_threads(rows)
    is_log = pl.col("source") == "amd_log"
    nameless = is_log & pl.col("pid").is_null() & pl.col("tid").is_not_null()
    if not rows.select(nameless.any()).item():
        return rows
    thread = ["file", "tid"]
    callers = rows.filter(is_log).select(*thread, "pid").drop_nulls().unique().filter(pl.len().over(thread) == 1)
    told = rows.join(callers.rename({"pid": "_pid"}), on=thread, how="left", maintain_order="left")
    return told.with_columns(pid=pl.when(nameless).then("_pid").otherwise("pid")).drop("_pid")


def attach_identities(records: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return part events with `process`, `thread`, `host_pid` and `host_tid`.

    Args:
        records: part events with `source`.
        identities: threads and processes of the capture.
    """
    columns = records.select("source", "file", "pid", "tid", "stamp_ns").with_row_index("_row")
    is_log = pl.col("source") == "amd_log"
    trace = number_lives(columns.filter(~is_log), identities.lives, identities.births)
    host = {"host_tid": pl.col("tid").cast(pl.UInt32), "host_pid": pl.col("tgid").cast(pl.UInt32)}
    keys = identities.trace_threads.select("thread", "process", "tid_key", **host)
    trace = trace.join(keys, on="tid_key", how="left", maintain_order="left")
    log = _attach_log(columns.filter(is_log), identities.log_threads.with_columns(**host))
    found = pl.concat([side.select("_row", *_OWNERS) for side in (log, trace)], how="vertical_relaxed")
    return pl.concat([records, found.sort("_row").drop("_row")], how="horizontal")


def _attach_log(log: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return `log` with the thread that used each line's address at its time."""
    place = ["file", "pid", "tid"]
    split = threads.filter(pl.len().over(LOG_THREAD) > 1)
    whole = threads.join(split, on=LOG_THREAD, how="anti").select(*LOG_THREAD, *_OWNERS)
    joined = log.join(whole, left_on=place, right_on=LOG_THREAD, how="left", maintain_order="left")
    if split.is_empty():
        return joined
    shared = joined.select("_row", *place, stamp_ns=pl.col("stamp_ns").fill_null(0)).sort("stamp_ns")
    found = shared.join_asof(
        split.sort("from_ns"), left_on="stamp_ns", right_on="from_ns", by_left=place,
        by_right=LOG_THREAD, check_sortedness=False,
    )  # fmt: skip
    later = found.select("_row", *_OWNERS).drop_nulls("thread")
    return joined.join(later, on="_row", how="left", maintain_order="left", suffix="_split").with_columns(
        pl.coalesce(name, f"{name}_split").alias(name) for name in _OWNERS
    )


def add_programs(processes: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Return the table `processes` with `exe`, and with `pid` and `comm` where no event tells them.

    A process is known by its host pid. One that only the log shows is known by the number that it has in its pid
    namespace, where no other process of the capture has that number. Of several lives of a pid the capture
    describes the one in which it looked.

    Args:
        processes: the table.
        seen: what the capture read from /proc: pid, log_pid, comm, exe, seen_ns.
    """
    if seen.is_empty():
        return processes
    known = seen.select(pl.col("pid", "log_pid").cast(pl.Int32), "comm", "exe", "seen_ns")
    found = pl.concat([_by_pid(processes, known), _by_log_pid(processes, known)])
    joined = processes.join(found, on="process", how="left", maintain_order="left", suffix="_seen")
    by_number = pl.col("pid").is_null() & pl.col("pid_seen").is_not_null()
    return joined.with_columns(
        exe=pl.coalesce("exe", "exe_seen"),
        comm=pl.coalesce(pl.col("comm").cast(pl.String), "comm_seen"),
        how=pl.when(by_number).then(pl.lit("NSpid")).otherwise(pl.col("how").cast(pl.String)),
        pid=pl.coalesce("pid", "pid_seen"),
    ).drop("exe_seen", "comm_seen", "pid_seen")


def _by_pid(processes: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    pairs = processes.select("process", "pid", "from_ns", "to_ns").join(known, on="pid")
    inside = pl.col("seen_ns").is_between("from_ns", "to_ns").fill_null(False)
    fits = pairs.filter((pl.len().over("pid") == 1) | inside)
    return fits.filter(pl.len().over("process") == 1).select("process", "pid", "comm", "exe")


def _by_log_pid(processes: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    free = processes.filter(pl.col("log_pid").is_not_null() & (pl.len().over("log_pid") == 1) & pl.col("pid").is_null())
    alone = known.filter(pl.len().over("log_pid") == 1).join(processes, on="pid", how="anti")
    return free.select("process", "log_pid").join(alone, on="log_pid").select("process", "pid", "comm", "exe")


def find_creators(threads: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `threads` with `creator`: the thread of the same process that made it.

    Args:
        threads: columns thread, process, tid, from_ns.
        events: linked events with `thread`, `process`, `name`, `result`, `ts_ns`.
    """
    calls = events.select("thread", "process", "layer", "name", "result", "ts_ns")
    calls = calls.filter((pl.col("layer") == "syscall") & pl.col("name").is_in(_CLONES))
    calls = calls.with_columns(tid=_made_tid().cast(pl.Int32, strict=False)).drop_nulls(["tid", "process", "thread"])
    if calls.is_empty():
        return threads.with_columns(creator=pl.lit(None, pl.UInt32))
    made = calls.select("process", "tid", "ts_ns", creator="thread").sort("ts_ns")
    born = threads.drop_nulls(["tid", "process", "from_ns"]).select(
        "thread", "process", "tid", ts_ns=pl.col("from_ns") + _ROUNDING_NS
    )
    found = born.sort("ts_ns").join_asof(made, on="ts_ns", by=["process", "tid"], check_sortedness=False)
    mine = found.filter(pl.col("creator") != pl.col("thread")).select("thread", "creator")
    return threads.drop("creator", strict=False).join(mine, on="thread", how="left", maintain_order="left")


def _made_tid() -> pl.Expr:
    """Return the number of the new thread; null if the call failed, or is its return in the new thread."""
    tid = pl.col("result").cast(pl.String).str.to_integer(strict=False)
    return pl.when(tid > 0).then(tid)
