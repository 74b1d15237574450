"""Lives: pids, tids and pthread addresses are used again; here each use is a life, by time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

# Added to a pid or tid for each earlier life of the number; what the kernel gives out is below it.
LIFE = 2**32
# Added besides to the tid of one more thread of a process, for itself and each earlier thread that had it.
_BIRTH = 2**47

# What names a thread of the log.
LOG_THREAD = ["file", "log_pid", "log_tid"]
# From stamps of the trace to stamps of the log.
ToLog = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def find_process_lives(claims: pl.DataFrame, births: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return where a number begins to name another process: tgid, stamp_ns, life (1, 2, ...).

    Args:
        claims: addresses that the log's processes use and the trace's threads registered: columns owner (process of
            the log), tgid, stamp_ns.
        births: where a number begins to name another thread, as events tell: tid, stamp_ns.
    """
    spans = (
        claims.drop_nulls().group_by("tgid", "owner").agg(first=pl.col("stamp_ns").min(), last=pl.col("stamp_ns").max())
    )
    ordered = spans.sort("tgid", "first").with_columns(
        life=pl.int_range(pl.len()).over("tgid"), before=pl.col("last").shift(1).over("tgid")
    )
    # Processes that claim one number in turns are not lives of it.
    crossed = (pl.col("first") <= pl.col("before")).fill_null(False).any().over("tgid")
    found = ordered.filter(~crossed & (pl.col("life") > 0)).select("tgid", "before", "life", stamp_ns="first")
    if births is None or births.is_empty():
        return found.select("tgid", "stamp_ns", "life")
    made = births.select(tgid="tid", stamp_ns="stamp_ns", born_ns="stamp_ns").sort("stamp_ns")
    found = found.sort("stamp_ns").join_asof(made, on="stamp_ns", by="tgid", check_sortedness=False)
    # A process registers its first address a while after it was made.
    begun = pl.when(pl.col("born_ns") > pl.col("before")).then("born_ns").otherwise("stamp_ns")
    every = pl.concat([found.select("tgid", stamp_ns=begun), made.select("tgid", "stamp_ns")]).unique()
    return every.sort("tgid", "stamp_ns").with_columns(life=1 + pl.int_range(pl.len()).over("tgid"))


def number_lives(trace: pl.DataFrame, lives: pl.DataFrame, births: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return `trace` with `tid_key` and `tgid_key`: numbers of threads and processes that name one life each.

    Args:
        trace: columns stamp_ns, pid, tid.
        lives: where a number begins to name another process: tgid, stamp_ns, life.
        births: where a number begins to name another thread: tid, stamp_ns, life.
    """
    # Of a torn line of the log an address may have any 64 bits.
    tid, tgid = pl.col("tid").reinterpret(signed=True), pl.col("pid").cast(pl.Int64)
    if lives.is_empty():
        return trace.with_columns(tid_key=tid, tgid_key=tgid)
    rows = trace.select("stamp_ns", owner=pl.coalesce(tgid, tid)).with_row_index("_place").drop_nulls()
    found = rows.sort("stamp_ns").join_asof(
        lives.sort("stamp_ns"), on="stamp_ns", by_left="owner", by_right="tgid", check_sortedness=False
    )
    added = pl.col("life").fill_null(0) * LIFE
    joined = _add_lives(trace, found.select("_place", "life"))
    numbered = joined.with_columns(tid_key=tid + added, tgid_key=tgid + added).drop("life")
    return numbered if births is None else _number_births(numbered, births)


def _number_births(trace: pl.DataFrame, births: pl.DataFrame) -> pl.DataFrame:
    """Return `trace` with `tid_key` of threads that had a number one after the other apart.

    Of the first thread of a process its process already tells that.
    """
    tid = pl.col("tid").reinterpret(signed=True)
    again = tid.is_in(births["tid"].unique().implode()) & (pl.col("pid").cast(pl.Int64) != tid)
    rows = trace.select("stamp_ns", "pid", "tid").with_row_index("_place").filter(again).drop_nulls("stamp_ns")
    rows = rows.select("_place", "stamp_ns", tid=tid).sort("stamp_ns")
    found = rows.join_asof(births.sort("stamp_ns"), on="stamp_ns", by="tid", check_sortedness=False)
    # The first of them, too: it may be of as many a life of its process as the number has processes.
    joined = _add_lives(trace, found.select("_place", life=pl.col("life").fill_null(0) + 1))
    return joined.with_columns(tid_key=pl.col("tid_key") + pl.col("life").fill_null(0) * _BIRTH).drop("life")


def _add_lives(trace: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return `trace` with the `life` of the rows that `found` numbers."""
    return trace.with_row_index("_place").join(found, on="_place", how="left", maintain_order="left").drop("_place")


def find_thread_lives(claims: pl.DataFrame, to_log: ToLog) -> pl.DataFrame:
    """Return from when on a pthread address of the log is another kernel thread: owner, log_tid, tid, from_ns.

    Threads of one process that follow each other can get one stack. A thread's lines come after it registered its
    address, and those of the thread before it have come by then.

    Args:
        claims: columns owner (process of the log), log_tid, tid, stamp_ns (registration), how.
        to_log: from stamps of the trace to those of the log.
    """
    spans = claims.drop_nulls(["stamp_ns", "tid"]).group_by("owner", "log_tid", "tid").agg(
        pl.col("stamp_ns").max(), pl.col("how").first()
    )  # fmt: skip
    several = spans.filter(pl.len().over("owner", "log_tid") > 1).sort("owner", "log_tid", "stamp_ns")
    start = pl.Series("from_ns", to_log(several["stamp_ns"].to_numpy()), dtype=pl.Int64)
    first = pl.int_range(pl.len()).over("owner", "log_tid") == 0
    return several.with_columns(start).with_columns(from_ns=pl.when(first).then(0).otherwise("from_ns"))
