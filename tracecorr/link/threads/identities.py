"""Which thread and process each row is of: the addresses that a log prints and the numbers of a trace, by time."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import attach_columns, fill_columns, fold_constants, number_rows, select_marked
from tracecorr.link.threads.lives import LOG_THREAD, number_lives
from tracecorr.link.threads.thread_map import Identities

_OWNERS = ("thread", "process", "host_tid", "host_pid")


def name_log_pids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return part events with the pid of lines of a log that name their thread alone.

    ROCm 4.2 to 4.5 print the pid with HIP calls only: lines of a thread whose calls are of one process are of that one.
    """
    is_log = pl.col("source") == "amd_log"
    nameless = is_log & pl.col("pid").is_null() & pl.col("tid").is_not_null()
    if not rows.select(nameless.any()).item():
        return rows
    thread = ["file", "tid"]
    callers = rows.filter(is_log).select(*thread, "pid").drop_nulls().unique().filter(pl.len().over(thread) == 1)
    lines = rows.select(*thread, nameless=nameless).with_row_index("_row").filter("nameless")
    return fill_columns(rows, lines.join(callers, on=thread).select("_row", "pid"), "_row")


def attach_identities(records: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return part events with `process`, `thread`, `host_pid` and `host_tid`.

    Args:
        records: part events with `source`.
        identities: threads and processes of the capture.
    """
    columns = records.select("source", "file", "pid", "tid", "stamp_ns").with_row_index("_row")
    is_log = pl.col("source") == "amd_log"
    log, trace = (select_marked(columns, mark) for mark in (is_log, ~is_log))
    trace = number_lives(trace, identities.lives, identities.births)
    host = {"host_tid": pl.col("tid").cast(pl.UInt32), "host_pid": pl.col("tgid").cast(pl.UInt32)}
    keys = identities.trace_threads.select("thread", "process", "tid_key", **host)
    trace = trace.join(keys, on="tid_key", how="left", maintain_order="left")
    log = _attach_log(log, identities.log_threads.with_columns(**host))
    if trace.is_empty():
        return pl.concat([records, fold_constants(log.select(_OWNERS))], how="horizontal")
    found = pl.concat([side.select("_row", *_OWNERS) for side in (log, trace)], how="vertical_relaxed")
    return attach_columns(records, found, "_row")


def _attach_log(log: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return `log` with the thread that used each line's address at its time."""
    split = threads.filter(pl.len().over(LOG_THREAD) > 1)
    whole = threads.join(split.select(LOG_THREAD).unique(), on=LOG_THREAD, how="anti")
    place = ["file", "pid", "tid"]
    codes, first = number_rows(log, place)
    groups = log.select(place)[first]
    owners = groups.join(whole, left_on=place, right_on=LOG_THREAD, how="left", maintain_order="left")
    rows = pl.Series(codes)
    joined = log.with_columns(
        pl.lit(owners[name].first(), owners[name].dtype).alias(name)
        if owners[name].n_unique() == 1
        else owners[name].gather(rows)
        for name in _OWNERS
    )
    if split.is_empty():
        return joined
    shared = joined.select(pl.int_range(pl.len()).alias("_place"), *place,
                           stamp_ns=pl.col("stamp_ns").fill_null(0))  # fmt: skip
    found = shared.sort("stamp_ns").join_asof(
        split.sort("from_ns"), left_on="stamp_ns", right_on="from_ns", by_left=place,
        by_right=LOG_THREAD, check_sortedness=False,
    )  # fmt: skip
    return fill_columns(joined, found.select("_place", *_OWNERS).drop_nulls("thread"), "_place")
