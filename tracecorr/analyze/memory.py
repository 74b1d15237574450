"""How much memory did the runtime allocate, where, and how much was held at once?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, total

_KINDS = ("allocate_device", "allocate_host", "lock")
_NO_PROCESS = -1


def summarize_memory(events: pl.LazyFrame, args: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return one row per process and kind of allocation of the HIP log.

    An allocation ends with the first later `free` of its address, and where that line was lost with the next allocation
    there; one that is never freed stays to the end. No line tells of the end of a lock. The line of one that ROCr
    refused has no address on the device (rocdevice.cpp, hostLock): it holds no bytes.

    Args:
        events: the table.
        args: the table; without it refused locks are not known as such, and there is no column `refused`.

    Returns: process, kind, allocations (with those that were refused), refused (null but of locks), freed (whose `free`
        is in the log), unsized (allocations whose size no line tells), bytes, largest_bytes, peak_bytes (held at once),
        peak_at_ns; the last two, and freed, are null of locks, the last four where a size is not known. Bytes and what
        follows from them are null where they are more than a whole number holds.
    """
    rows = collect(
        events.filter(pl.col("layer") == "memory")
        .select("event", "ts_ns", "process", "arg", "size_bytes", kind=pl.col("name").cast(pl.String))
        .sort("ts_ns", "event")
    )
    # Within one stamp the order of the lines counts. A log that names no process is of one; a join finds no null.
    rows = rows.with_columns(pl.col("process").cast(pl.Int64).fill_null(_NO_PROCESS)).with_row_index("at")
    made = _mark_refused(rows.filter(pl.col("kind").is_in(_KINDS)), args)
    frees = rows.filter((pl.col("kind") == "free") & pl.col("arg").is_not_null())
    ends = frees.select("process", "arg", "at", free_at="at", free_ns="ts_ns")
    lives = _end_at_reuse(
        made.join_asof(ends, on="at", by=["process", "arg"], strategy="forward", check_sortedness=False)
    )
    totals = lives.group_by("process", "kind").agg(
        allocations=pl.len().cast(pl.Int64),
        refused=pl.col("is_refused").sum().cast(pl.Int64),
        freed=pl.col("is_freed").sum().cast(pl.Int64),
        unsized=pl.col("size_bytes").null_count().cast(pl.Int64),
        bytes=total(pl.col("size_bytes")),
        largest_bytes=pl.col("size_bytes").max(),
    )
    both = totals.join(_peaks(lives), on=["process", "kind"], how="left").sort("process", "kind")
    named = pl.when(pl.col("process") != _NO_PROCESS).then("process").cast(pl.UInt32).alias("process")
    is_sized, is_ended = pl.col("unsized") == 0, pl.col("kind") != "lock"
    is_summed = is_sized & is_ended & pl.col("bytes").is_not_null()
    known = both if args is not None else both.drop("refused")
    refused = [pl.when(~is_ended).then("refused").alias("refused")] if args is not None else []
    return known.with_columns(
        named,
        *refused,
        pl.when(is_ended).then("freed").alias("freed"),
        *(pl.when(is_sized).then(name).alias(name) for name in ("bytes", "largest_bytes")),
        *(pl.when(is_summed).then(name).alias(name) for name in ("peak_bytes", "peak_at_ns")),
    )


def _mark_refused(made: pl.DataFrame, args: pl.LazyFrame | None) -> pl.DataFrame:
    """Return allocations with `is_refused`: ROCr gave a lock no address on the device; these have no bytes."""
    if args is None:
        return made.with_columns(is_refused=pl.lit(value=False))
    locks = made.filter(pl.col("kind") == "lock")["event"].implode()
    nil = (pl.col("key").cast(pl.String) == "device_address") & (pl.col("u64") == 0)
    refused = collect(args.filter(nil & pl.col("event").is_in(locks)).select("event"))["event"]
    is_refused = pl.col("event").is_in(refused.implode())
    return made.with_columns(is_refused=is_refused, size_bytes=pl.when(is_refused).then(0).otherwise("size_bytes"))


def _end_at_reuse(lives: pl.DataFrame) -> pl.DataFrame:
    """Return allocations with `is_freed`, and their end where another one has got their address before any `free`."""
    has_end = (pl.col("kind") != "lock") & pl.col("arg").is_not_null()
    at, ns = (pl.col(name).shift(-1).over("process", "arg", has_end) for name in ("at", "ts_ns"))
    known = lives.with_columns(next_at=pl.when(has_end).then(at), next_ns=ns)
    lost = (pl.col("next_at") < pl.col("free_at")).fill_null(pl.col("next_at").is_not_null())
    return known.with_columns(
        is_freed=pl.col("free_at").is_not_null() & ~lost,
        free_at=pl.when(lost).then("next_at").otherwise("free_at"),
        free_ns=pl.when(lost).then("next_ns").otherwise("free_ns"),
    ).drop("next_at", "next_ns")


def _peaks(lives: pl.DataFrame) -> pl.DataFrame:
    # Where an address is given out again, the one that had it ends first.
    steps = pl.concat([
        lives.drop_nulls("free_at").select(
            "process", "kind", at="free_at", ts_ns="free_ns", step=-pl.col("size_bytes")
        ),
        lives.select("process", "kind", "at", "ts_ns", step=pl.col("size_bytes")),
    ]).sort("at", maintain_order=True)  # fmt: skip
    held = steps.with_columns(held=pl.col("step").cum_sum().over("process", "kind"))
    return held.group_by("process", "kind").agg(
        peak_bytes=pl.col("held").max(), peak_at_ns=pl.col("ts_ns").get(pl.col("held").arg_max())
    )
