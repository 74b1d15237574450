"""Waits for locks: which thread waited for which mutex, and who woke it, from the futex system calls of a trace."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.model.calls import is_counted

# linux/futex.h: operations without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
_FLAGS = 128 | 256
_WAIT, _WAKE, _LOCK_PI, _UNLOCK_PI, _WAKE_BITSET, _LOCK_PI2 = 0, 1, 6, 7, 10, 13
# Word of a mutex of glibc that others wait for (lowlevellock.h); condition variables wait for other values.
_CONTENDED = 2
_LOCK = ["owner", "uaddr"]


def list_lock_waits(tables: Tables) -> pl.DataFrame:
    """Return the waits for mutexes that ended by a wake-up, the longest first.

    Who woke a thread is the last one that woke somebody at this lock before the wait's end: the last holder, perhaps
    not the only one.

    Args:
        tables: gives the table of a capture by its name.

    Returns: event, process, tid, lock (address), waited_ns, call (HIP call around the wait), woken_by (tid),
        wake_event, waker_call (HIP call around the wake-up).
    """
    calls = _list_calls(tables)
    command = pl.col("op") & ~pl.lit(_FLAGS, pl.UInt64)
    is_mutex = ((command == _WAIT) & (pl.col("val") == _CONTENDED)) | command.is_in([_LOCK_PI, _LOCK_PI2])
    waits = calls.filter(is_mutex & (pl.col("result") == "0") & pl.col("dur_ns").is_not_null())
    waits = waits.with_columns(end_ns=pl.col("ts_ns") + pl.col("dur_ns")).sort("end_ns")
    wakes = calls.filter(command.is_in([_WAKE, _WAKE_BITSET, _UNLOCK_PI]) & (pl.col("result") != "0"))
    wakes = wakes.select(*_LOCK, woke_ns="ts_ns", woken_by="tid", wake_event="event", waker_call="call").sort("woke_ns")
    found = waits.join_asof(wakes, left_on="end_ns", right_on="woke_ns", by=_LOCK, check_sortedness=False)
    told = ["woken_by", "wake_event", "waker_call"]
    is_inside = pl.col("woke_ns") >= pl.col("ts_ns")
    named = found.with_columns(pl.when(is_inside).then(pl.col(name)).alias(name) for name in told)
    named = named.rename({"uaddr": "lock", "dur_ns": "waited_ns"})
    columns = ("event", "process", "tid", "lock", "waited_ns", "call", *told)
    return named.select(columns).sort("waited_ns", "event", descending=[True, False])


def _list_calls(tables: Tables) -> pl.DataFrame:
    """Return the futex calls with their arguments, and the HIP call around each."""
    is_futex = (pl.col("layer").cast(pl.String) == "syscall") & (pl.col("name").cast(pl.String) == "futex")
    rows = tables("events").filter(is_futex & is_counted())
    rows = rows.select("event", "process", "tid", "ts_ns", "dur_ns", "chain", result=pl.col("result").cast(pl.String))
    args = tables("args").join(rows.select("event"), on="event", how="semi")
    key = pl.col("key").cast(pl.String)
    given = args.group_by("event").agg(pl.col("u64").filter(key == k).first().alias(k) for k in ("uaddr", "op", "val"))
    roots = tables("events").join(rows.select(event="chain"), on="event", how="semi")
    roots = roots.select(chain="event", call=pl.col("name").cast(pl.String))
    joined = rows.join(given, on="event").join(roots, on="chain", how="left")
    # Addresses are those of a process; a trace that names none is of one.
    return collect(joined.with_columns(owner=pl.col("process").cast(pl.Int64).fill_null(-1)))
