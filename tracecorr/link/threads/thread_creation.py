"""Creation of threads: what `clone` and `clone3` tell of the new thread.

Both return the number of the new thread, in the pid namespace of the caller. `clone` shows its pthread address, too:
on x86-64 the argument `tls` is what the C library takes for it. `clone3` has that in memory of the caller, of which a
trace shows the address only (kernels 6.1 to 7.3).
"""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import attach_args

_CALLS = ("clone", "clone3")
# CLONE_THREAD and CLONE_SETTLS (sched.h of the kernel).
_THREAD, _SETTLS = 0x10000, 0x80000
# A new thread may be seen before its creator's call is.
_ROUNDING_NS = 2_000


def list_clone_addresses(trace: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return tid, tgid, stamp_ns, address, how of the threads that `clone` made with a pthread address.

    Args:
        trace: part events of the trace with `result`.
        args: part args of the trace.
    """
    calls = trace.filter((pl.col("layer") == "syscall") & (pl.col("name") == "clone"))
    calls = calls.select("file", "offset", "stamp_ns", "result", tgid=pl.coalesce("pid", "tid").cast(pl.Int64))
    # Kernel 6.1 prints hexadecimal numbers without `0x`.
    value = pl.coalesce("u64", pl.col("text").str.to_integer(base=16, strict=False, dtype=pl.UInt64))
    calls = attach_args(calls, args, ["clone_flags", "tls"], value)
    wanted = pl.lit(_THREAD | _SETTLS, pl.UInt64)
    made = calls.with_columns(tid=_made_tid()).filter((pl.col("clone_flags") & wanted) == wanted).drop_nulls("tid")
    # In another pid namespace the number is another one: it must name a thread of the caller's process.
    owners = trace.select(pl.col("tid").cast(pl.Int64), tgid=pl.col("pid").cast(pl.Int64)).unique()
    known = made.join(owners, on=["tid", "tgid"], how="semi")
    return known.select("tid", "tgid", "stamp_ns", address="tls", how=pl.lit("clone"))


def find_creators(threads: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `threads` with `creator`: the thread of the same process that made it.

    Args:
        threads: columns thread, process, tid, from_ns.
        events: linked events with `thread`, `process`, `name`, `result`, `ts_ns`.
    """
    calls = events.select("thread", "process", "layer", "name", "result", "ts_ns")
    calls = calls.filter((pl.col("layer") == "syscall") & pl.col("name").is_in(_CALLS))
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
    """Return the number of the new thread; null where the call failed, or is its return in the new thread."""
    tid = pl.col("result").cast(pl.String).str.to_integer(strict=False)
    return pl.when(tid > 0).then(tid)
