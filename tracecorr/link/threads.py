"""Threads and processes: log tid (pthread address) to kernel tid, log pid to host pid."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracecorr.model import schema

# glibc on x86-64 registers the robust list at pthread address + 0x2e0 (measured with HIP 7.2.4).
ROBUST_LIST_OFFSET = 0x2E0
_ARCH_SET_FS = 0x1002


@dataclass(frozen=True)
class Identities:
    """Hold the threads and processes of a capture.

    Args:
        processes: rows of `schema.PROCESSES` without times.
        threads: rows of `schema.THREADS` without times.
        log_threads: log_pid, log_tid -> thread, process.
        trace_threads: tid, tgid -> thread, process.
    """

    processes: pl.DataFrame
    threads: pl.DataFrame
    log_threads: pl.DataFrame
    trace_threads: pl.DataFrame


def map_threads(log: pl.DataFrame, trace: pl.DataFrame, args: pl.DataFrame) -> Identities:
    """Join the threads of the log with those of the trace.

    Exact where the trace holds the thread's pthread address (`set_robust_list`, `arch_prctl`);
    a process whose log pid equals its host pid lends its main thread. No thread is guessed by time.

    Args:
        log, trace: part events of the two sources.
        args: part args of the trace.
    """
    known = _addresses(trace, args)
    log_threads = log.filter(pl.col("pid").is_not_null()).group_by("pid", "tid", maintain_order=True).agg()
    log_threads = log_threads.rename({"pid": "log_pid", "tid": "log_tid"})
    trace_threads = _trace_threads(trace)
    exact = _exact(log_threads, known)
    pids = _join_processes(log_threads, trace_threads, exact)
    return _number(log_threads, trace_threads, exact, pids)


def _trace_threads(trace: pl.DataFrame) -> pl.DataFrame:
    seen = trace.filter(pl.col("tid").is_not_null()).group_by("tid", maintain_order=True)
    return seen.agg(tgid=pl.col("pid").drop_nulls().last(), comm=pl.col("comm").drop_nulls().last()).with_columns(
        pl.col("tid").cast(pl.Int64), pl.col("tgid").cast(pl.Int64)
    )


def _addresses(trace: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return kernel tid and pthread address as the C library told them to the kernel."""
    lists = trace.filter((pl.col("layer") == "syscall") & (pl.col("name") == "set_robust_list"))
    segments = trace.filter((pl.col("layer") == "syscall") & (pl.col("name") == "arch_prctl"))
    options = args.filter((pl.col("key") == "option") & (pl.col("u64") == _ARCH_SET_FS))
    segments = segments.join(options.select("file", "offset"), on=["file", "offset"], how="semi")
    both = lists.select("tid", "arg").join(segments.select("tid", segment="arg"), on="tid")
    distance = both.select((pl.col("arg") - pl.col("segment")).alias("d")).filter(pl.col("d") < 4096)["d"].mode()
    learned = distance[0] if len(distance) else ROBUST_LIST_OFFSET
    columns = [pl.col("tid").cast(pl.Int64), pl.col("stamp_ns"), pl.col("arg").alias("address")]
    return pl.concat(
        [
            lists.with_columns(pl.col("arg") - pl.lit(learned, pl.UInt64)).select(
                *columns, pl.lit("set_robust_list").alias("how")
            ),
            segments.select(*columns, pl.lit("arch_prctl").alias("how")),
        ]
    ).drop_nulls("address")


def _exact(log_threads: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return log_tid -> tid where one kernel thread alone had that address and no other log process has it."""
    owners = known.unique(["address", "tid"], maintain_order=True)
    owners = owners.filter(pl.len().over("address") == 1)
    single = log_threads.filter(pl.len().over("log_tid") == 1)
    return single.join(owners, left_on="log_tid", right_on="address").select("log_pid", "log_tid", "tid", "how")


def _join_processes(log_threads: pl.DataFrame, trace_threads: pl.DataFrame, exact: pl.DataFrame) -> pl.DataFrame:
    """Return log_pid -> tgid and how it is known."""
    by_thread = (
        exact.join(trace_threads, on="tid")
        .with_columns(tgid=pl.coalesce("tgid", pl.when(pl.col("tid") == pl.col("log_pid")).then(pl.col("log_pid"))))
        .drop_nulls("tgid")
        .group_by("log_pid")
        .agg(pl.col("tgid").mode().first(), pl.lit("threads").first().alias("how"))
    )
    pids = pl.concat([trace_threads["tgid"].drop_nulls(), trace_threads["tid"]]).unique()
    same = (
        log_threads.select("log_pid")
        .unique(maintain_order=True)
        .join(by_thread, on="log_pid", how="anti")
        .filter(pl.col("log_pid").cast(pl.Int64).is_in(pids.implode()))
        .select("log_pid", tgid=pl.col("log_pid").cast(pl.Int64), how=pl.lit("same pid"))
    )
    return pl.concat([by_thread.select("log_pid", pl.col("tgid").cast(pl.Int64), "how"), same])


def _number(
    log_threads: pl.DataFrame, trace_threads: pl.DataFrame, exact: pl.DataFrame, pids: pl.DataFrame
) -> Identities:
    log_side = (
        log_threads.join(exact, on=["log_pid", "log_tid"], how="left", maintain_order="left")
        .join(pids.select("log_pid", "tgid"), on="log_pid", how="left", maintain_order="left")
        .with_columns(evidence=pl.when(pl.col("tid").is_not_null()).then(pl.lit("recorded")))
    )
    comms = trace_threads.select("tid", "comm", own=pl.col("tgid"))
    log_side = log_side.join(comms, on="tid", how="left", maintain_order="left")
    log_side = log_side.with_columns(tgid=pl.coalesce("own", "tgid")).drop("own")
    rest = trace_threads.join(log_side.drop_nulls("tid").select("tid"), on="tid", how="anti", maintain_order="left")
    # Without record-tgid a trace names threads only: a thread whose tid is a process is its main thread.
    rest = rest.with_columns(
        tgid=pl.coalesce("tgid", pl.when(pl.col("tid").is_in(pids["tgid"].implode())).then(pl.col("tid")))
    )
    every = pl.concat([log_side, rest], how="diagonal_relaxed").with_row_index("thread")
    processes = _processes(every, pids)

    every = _adopt(every, processes)
    return Identities(
        schema.PROCESSES.conform(processes.rename({"tgid": "pid"})),
        schema.THREADS.conform(every.select("thread", "process", "tid", "log_tid", "comm", "how", "evidence")),
        every.drop_nulls("log_tid").select("log_pid", "log_tid", "thread", "process", "tid", "tgid"),
        every.drop_nulls("tid").select("tid", "thread", "process", "tgid"),
    )


def _processes(every: pl.DataFrame, pids: pl.DataFrame) -> pl.DataFrame:
    """Return one row per process: those of the log first, then those that only the trace knows."""
    logged = every.drop_nulls("log_pid").select("log_pid").unique(maintain_order=True)
    logged = logged.join(pids, on="log_pid", how="left", maintain_order="left")
    traced = every.drop_nulls("tgid").select("tgid").unique(maintain_order=True)
    traced = traced.join(logged.drop_nulls("tgid"), on="tgid", how="anti", maintain_order="left")
    mains = every.filter(pl.col("tid") == pl.col("tgid")).select("tgid", "comm").unique("tgid")
    both = pl.concat([logged, traced], how="diagonal_relaxed").with_row_index("process")
    return both.join(mains, on="tgid", how="left", maintain_order="left")


def _adopt(every: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Give each thread its process: by log pid, else by host pid."""
    by_log = processes.drop_nulls("log_pid").select("log_pid", by_log="process")
    by_host = processes.drop_nulls("tgid").unique("tgid", keep="first").select("tgid", by_host="process")
    return (
        every.join(by_log, on="log_pid", how="left", maintain_order="left")
        .join(by_host, on="tgid", how="left", maintain_order="left")
        .with_columns(process=pl.coalesce("by_log", "by_host"))
    )
