"""Threads by queue creations: whose CREATE_QUEUE ioctls lie between the lines of whose creations."""

from __future__ import annotations

import polars as pl

from tracecorr.align.causal_pairs import LOG_STEP_NS
from tracecorr.link.threads.lives import LOG_THREAD, SAME_THREAD
from tracecorr.model.kinds import QUEUE_CREATED, QUEUES_COUNTED
from tracecorr.parse.kfd.ioctls import CREATE_QUEUE

# One creation could be anybody's; more creations or ioctls than these make the answer no surer.
_LEAST, _MOST, _MOST_IOCTLS = 2, 200, 1_000


def match_creations(placed: pl.DataFrame) -> pl.DataFrame:
    """Return file, log_pid, log_tid -> tid_key, how: the one kernel thread whose ioctls fit all creations of a thread.

    Args:
        placed: rows of `thread_votes.select_voters` on one clock, with `tid_key` on those of the trace.
    """
    creations = _list_creations(placed).head(_MOST).with_row_index("creation")
    ioctls = placed.filter(
        (pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE) & pl.col("dur_ns").is_not_null()
        & pl.col("err_lo_ns").is_not_null()
    )  # fmt: skip
    if creations.is_empty() or ioctls.is_empty():
        return pl.DataFrame(schema=SAME_THREAD)
    late = pl.col("ts_ns") + pl.col("err_hi_ns").cast(pl.Int64) >= pl.col("from_ns")
    early = pl.col("ts_ns") + pl.col("dur_ns") - pl.col("err_lo_ns").cast(pl.Int64) <= pl.col("to_ns") + LOG_STEP_NS
    crossed = creations.join(ioctls.head(_MOST_IOCTLS).select("event", "tid_key", "ts_ns", "dur_ns", "err_lo_ns",
                                                              "err_hi_ns"), how="cross")  # fmt: skip
    held = (
        crossed.filter(late & early)
        .group_by(*LOG_THREAD, "tid_key", "total")
        .agg(pl.col("creation", "event").n_unique())
    )
    enough = (pl.col("creation") == pl.col("total")) & (pl.col("event") >= pl.col("total"))
    fits = held.filter(enough & (pl.col("total") >= _LEAST))
    how = pl.format("its ioctls lie in all {} queue creations", "total")
    return _eliminate(fits).with_columns(how=how).select(*SAME_THREAD).cast(SAME_THREAD)  # type: ignore[arg-type]


def _eliminate(fits: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of threads that are left when a thread with one partner alone takes it from all others."""
    found = fits.clear()
    while True:
        # Two threads of the log with one and the same only partner: one of them is another's.
        alone = fits.filter(pl.len().over(LOG_THREAD) == 1).filter(pl.len().over("tid_key") == 1)
        if alone.is_empty():
            return found
        found = pl.concat([found, alone])
        fits = fits.join(alone, on=LOG_THREAD, how="anti").join(alone, on="tid_key", how="anti")


def _list_creations(placed: pl.DataFrame) -> pl.DataFrame:
    """Return the creations of threads: file, log_pid, log_tid, from_ns, to_ns, total."""
    name = pl.col("name")
    lines = placed.filter(
        (pl.col("source") == "amd_log") & name.is_in([QUEUES_COUNTED, QUEUE_CREATED]) & pl.col("tid").is_not_null()
    ).sort("file", "offset")  # fmt: skip
    lines = lines.with_columns(log_pid="pid", log_tid="tid")
    counted = pl.when(name == QUEUES_COUNTED).then("ts_ns")
    lines = lines.with_columns(from_ns=counted.forward_fill().over(LOG_THREAD))
    made = lines.filter(name == QUEUE_CREATED).drop_nulls("from_ns")
    return made.select(*LOG_THREAD, "from_ns", to_ns="ts_ns", total=pl.len().over(LOG_THREAD))
