"""Threads by queue creations: whose CREATE_QUEUE ioctls lie between the lines of whose creations."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.evidence import list_made
from tracecorr.link.threads.lives import LOG_THREAD, SAME_THREAD
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

# One creation could be anybody's; more creations or ioctls than these make the answer no surer.
_LEAST, _MOST, _MOST_IOCTLS = 2, 200, 1_000


def match_creations(placed: pl.DataFrame, probes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return whose ioctls fit all creations of whom, and whose do not, though they lie in them, as their rings tell.

    Args:
        placed: rows of `thread_votes.select_voters` on one clock, with `tid_key` on those of the trace.
        probes: those of the trace that recorded the `ring` of an ioctl.

    Returns: file, log_pid, log_tid -> tid_key, how: the one kernel thread of a thread; and pairs of two threads:
        LOG_THREAD, tid_key.
    """
    creations = _list_creations(placed).head(_MOST).with_row_index("creation")
    ioctls = placed.filter(
        (pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE) & pl.col("dur_ns").is_not_null()
        & pl.col("err_lo_ns").is_not_null()
    )  # fmt: skip
    if creations.is_empty() or ioctls.is_empty():
        return pl.DataFrame(schema=SAME_THREAD), pl.DataFrame(schema=SAME_THREAD).drop("how")
    near = _pair_near(creations, _add_rings(ioctls.head(_MOST_IOCTLS), probes))
    pair, fit = [*LOG_THREAD, "tid_key"], pl.col("fits")
    held = near.group_by(*pair, "creation", "total").agg(fit.any(), ioctls=pl.col("event").filter("fits"))
    foreign = held.filter(~fit).select(pair).unique()
    fits = held.group_by(*pair, "total").agg(fit.sum(), ioctls=pl.col("ioctls").explode().n_unique())
    enough = (fit == pl.col("total")) & (pl.col("ioctls") >= pl.col("total"))
    how = pl.format("its ioctls lie in all {} queue creations", "total")
    found = _eliminate(fits.filter(enough & (pl.col("total") >= _LEAST))).with_columns(how=how)
    return found.select(*SAME_THREAD).cast(SAME_THREAD), foreign  # type: ignore[arg-type]


def _add_rings(ioctls: pl.DataFrame, probes: pl.DataFrame) -> pl.DataFrame:
    """Return event, tid_key, ts_ns, end_ns, err_lo_ns, err_hi_ns of ioctls, and the ring that a probe in them shows."""
    columns = ("event", "tid_key", "ts_ns", "err_lo_ns", "err_hi_ns")
    calls = ioctls.select(*columns, end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
    asked = calls.select("tid_key", "ts_ns", "end_ns", call="event").sort("ts_ns")
    shown = probes.select("tid_key", "ts_ns", made_ring="ring").drop_nulls().sort("ts_ns")
    inside = shown.with_columns(at="ts_ns").join_asof(asked, on="ts_ns", by="tid_key", check_sortedness=False)
    inside = inside.filter(pl.col("at") <= pl.col("end_ns")).unique("call", keep="first", maintain_order=True)
    return calls.join(inside.select("made_ring", event="call"), on="event", how="left", maintain_order="left")


def _pair_near(creations: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    """Return the creations beside the ioctls that may lie in them; `fits` tells whether an ioctl may be of its ring.

    Under a profiler that intercepts queues, lines show none of the rings of ioctls.
    """
    late = pl.col("ts_ns") + pl.col("err_hi_ns").cast(pl.Int64) >= pl.col("from_ns")
    early = pl.col("end_ns") - pl.col("err_lo_ns").cast(pl.Int64) <= pl.col("to_ns") + LOG_STEP_NS
    near = creations.join(ioctls, how="cross").filter(late & early)
    shown = pl.col("ring").is_in(ioctls["made_ring"].drop_nulls().implode()).any().over("file", "log_pid")
    is_other = (pl.col("ring") != pl.col("made_ring")).fill_null(value=False)
    return near.with_columns(fits=~(shown & is_other))


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
    """Return the creations of threads: file, log_pid, log_tid, ring, from_ns, to_ns, total."""
    lines = placed.filter((pl.col("source") == "amd_log") & pl.col("tid").is_not_null())
    made = list_made(lines.with_columns(log_pid="pid", log_tid="tid"), "ts_ns", LOG_THREAD).drop_nulls("from_ns")
    return made.select(*LOG_THREAD, "ring", "from_ns", to_ns="ts_ns", total=pl.len().over(LOG_THREAD))
