"""Which wake-up ended which wait for a mutex, among the futex system calls of a trace.

A wake-up names no waiter (futex(2)), so the last one at the same address that woke one before a wait ended is
taken: the last holder, perhaps not the only one. Condition variables and semaphores are no mutexes.
"""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import pivot_args
from tracecorr.model import frames
from tracecorr.model.columns import is_counted
from tracecorr.model.frames import gives
from tracecorr.model.kinds import DERIVED

# linux/futex.h: operations without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
_FLAGS = 128 | 256
_WAIT, _WAKE, _LOCK_PI, _UNLOCK_PI, _WAKE_BITSET, _LOCK_PI2 = 0, 1, 6, 7, 10, 13
# Word of a mutex of glibc that others wait for (lowlevellock.h); condition variables wait for other values.
_CONTENDED = 2
_LOCK = ["owner", "uaddr"]


def waits_for_mutex() -> pl.Expr:
    """Tell of futex calls (columns op, val) which ones wait for a mutex."""
    command = _command()
    return ((command == _WAIT) & (pl.col("val") == _CONTENDED)) | command.is_in([_LOCK_PI, _LOCK_PI2])


def _command() -> pl.Expr:
    return pl.col("op") & ~pl.lit(_FLAGS, pl.UInt64)


@gives(frames.EDGES)
def link_lock_waits(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `lock_wait`: from a wake-up to the wait for a mutex that it ended.

    Args:
        events: linked events; a wait counts if it returned 0, a wake-up if it woke a thread.
        args: args by event: uaddr, op, val.
    """
    is_futex = (pl.col("layer") == "syscall") & (pl.col("name") == "futex") & is_counted()
    rows = events.filter(is_futex).select("event", "process", "ts_ns", "dur_ns", "result")
    told = rows.join(pivot_args(args, rows["event"], ("uaddr", "op", "val")), on="event")
    # Addresses are those of a process; a trace that names none is of one.
    told = told.with_columns(
        owner=pl.col("process").cast(pl.Int64).fill_null(-1), result=pl.col("result").cast(pl.String)
    )
    waits = told.filter(waits_for_mutex() & (pl.col("result") == "0") & pl.col("dur_ns").is_not_null())
    waits = waits.select(*_LOCK, "ts_ns", to_event="event", end_ns=pl.col("ts_ns") + pl.col("dur_ns")).sort("end_ns")
    wakes = told.filter(_command().is_in([_WAKE, _WAKE_BITSET, _UNLOCK_PI]) & (pl.col("result") != "0"))
    wakes = wakes.select(*_LOCK, woke_ns="ts_ns", from_event="event").sort("woke_ns")
    found = waits.join_asof(wakes, left_on="end_ns", right_on="woke_ns", by=_LOCK, check_sortedness=False)
    ended = found.filter(pl.col("woke_ns") >= pl.col("ts_ns"))
    return ended.select("from_event", "to_event", rule=pl.lit("lock_wait"), evidence=pl.lit(DERIVED))
