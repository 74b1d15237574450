"""What a capture saw of the processes of its workload, joined to the table `processes`."""

from __future__ import annotations

import polars as pl


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
