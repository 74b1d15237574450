"""Allocations of memory, and copies by path."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import collect, percentile, total
from tracecorr.model.kinds import COPY_REFUSED

_KINDS = ("allocate_device", "allocate_host", "lock")
_NO_PROCESS = -1


def summarize_memory(events: pl.LazyFrame, args: pl.LazyFrame | None = None) -> pl.DataFrame:
    """Return one row per process and kind of allocation of the HIP log.

    An allocation ends with the first later `free` of its address, or with the next allocation there if that line was
    lost. No line shows the end of a lock. The line of a refused lock has no address on the device (rocdevice.cpp,
    hostLock): it has no bytes. An allocation at (nil) failed: it is not counted among the allocations.

    Args:
        events: the table.
        args: the table; without it there is no column `refused`.

    Returns: process, kind, allocations (including refused locks), failed, failed_bytes (null = none failed), refused
        (of locks, else null), freed (with a `free` in the log), unsized (allocations without a size in the log), bytes,
        largest_bytes, peak_bytes (held at once), peak_at_ns; the last two, and freed, are null for locks, the last four
        with `unsized` allocations, and sums if they do not fit into Int64.
    """
    rows = collect(
        events.filter(pl.col("layer") == "memory")
        .select("event", "ts_ns", "process", "arg", "size_bytes", kind=pl.col("name").cast(pl.String))
        .sort("ts_ns", "event")
    )
    # Within one stamp the order of the lines counts. A log that names no process is of one; a join finds no null.
    rows = rows.with_columns(pl.col("process").cast(pl.Int64).fill_null(_NO_PROCESS)).with_row_index("at")
    made = _mark_failed(_mark_refused(rows.filter(pl.col("kind").is_in(_KINDS)), args))
    frees = rows.filter((pl.col("kind") == "free") & pl.col("arg").is_not_null())
    ends = frees.select("process", "arg", "at", free_at="at", free_ns="ts_ns")
    lives = _end_at_reuse(
        made.join_asof(ends, on="at", by=["process", "arg"], strategy="forward", check_sortedness=False)
    )
    totals = lives.group_by("process", "kind").agg(
        allocations=(~pl.col("is_failed")).sum().cast(pl.Int64),
        failed=pl.col("is_failed").sum().cast(pl.Int64),
        failed_bytes=total(pl.col("failed_bytes")),
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
    """Return allocations with `is_refused`: locks without an address on the device; they have no bytes."""
    if args is None:
        return made.with_columns(is_refused=pl.lit(value=False))
    locks = made.filter(pl.col("kind") == "lock")["event"].implode()
    nil = (pl.col("key").cast(pl.String) == "device_address") & (pl.col("u64") == 0)
    refused = collect(args.filter(nil & pl.col("event").is_in(locks)).select("event"))["event"]
    is_refused = pl.col("event").is_in(refused.implode())
    return made.with_columns(is_refused=is_refused, size_bytes=pl.when(is_refused).then(0).otherwise("size_bytes"))


def _mark_failed(made: pl.DataFrame) -> pl.DataFrame:
    """Return allocations with `is_failed` and `failed_bytes`; those that failed have no address, and no bytes."""
    is_failed = pl.col("arg").is_null() & (pl.col("kind") != "lock")
    return made.with_columns(
        is_failed=is_failed,
        failed_bytes=pl.when(is_failed).then("size_bytes"),
        size_bytes=pl.when(is_failed).then(0).otherwise("size_bytes"),
    )


def _end_at_reuse(lives: pl.DataFrame) -> pl.DataFrame:
    """Return allocations with `is_freed`, ended by the next allocation at their address if that precedes the `free`."""
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
    # The old allocation at an address ends before the new one begins.
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


_STEPS = {
    "memcpy_to_staging": "host memcpy into a staging buffer",
    "memcpy_from_staging": "host memcpy out of a staging buffer",
    "host_memcpy": "host memcpy without the GPU",
    "host_memcpy_rect": "host memcpy without the GPU, rectangle",
    "host_memcpy_h2d": "host memcpy without the GPU, host to device",
    "host_memcpy_d2h": "host memcpy without the GPU, device to host",
    COPY_REFUSED: "requested from ROCr and refused, then done by a blit kernel",
    "blit_staging_h2d": "blit kernel through staging, host to device",
    "blit_staging_d2h": "blit kernel through staging, device to host",
}
# Kernels by which CLR copies and fills without a copy engine (rocclr device/blitcl.cpp, ROCm 4.5 to 7.2).
BLIT_KERNELS = "^__amd_rocclr_(?:copy|fill)"


def summarize_copies(events: pl.LazyFrame, launches: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per path and engine, the most bytes first; each step of a copy through staging is a row.

    Returns: path, engine (one-hot mask of the SDMA engine), copies, bytes (null if the log has no size for some
        of them: rectangles, and all copies of ROCm 5.4), p50_bytes, observed_p50_ns (submission to the completion
        that the host noticed), gpu_timed, gb_per_s (bytes by GPU time; null without a recorded end).
    """
    parts = (_engine_copies(launches), _host_steps(events), _blits(launches, kernels))
    return collect(pl.concat(parts, how="diagonal_relaxed")).sort(
        ["bytes", "copies", "path", "engine"], descending=[True, True, False, False], nulls_last=True
    )


def _engine_copies(launches: pl.LazyFrame) -> pl.LazyFrame:
    copies = launches.filter(pl.col("kind") == "copy")
    engine = pl.col("engine").is_not_null() & (pl.col("engine") > 0)
    gpu_ns = pl.col("gpu_end_ns") - pl.col("gpu_start_ns")
    timed = (gpu_ns > 0) & pl.col("size_bytes").is_not_null()
    return (
        copies.with_columns(
            path=pl.when(engine).then(pl.lit("copy engine (SDMA)")).otherwise(pl.lit("hsa copy, ROCr chose the engine"))
        )
        .group_by("path", pl.col("engine").cast(pl.UInt64))
        .agg(
            copies=pl.len().cast(pl.Int64),
            bytes=_sum_sizes(),
            p50_bytes=percentile(pl.col("size_bytes"), 50),
            observed_p50_ns=percentile(pl.col("complete_ns") - pl.col("packet_ns"), 50),
            gpu_timed=(gpu_ns > 0).sum().cast(pl.Int64),
            gb_per_s=total(pl.col("size_bytes").filter(timed)) / total(gpu_ns.filter(timed)),
        )
    )


def _sum_sizes() -> pl.Expr:
    """Return the bytes of all copies; null if the size of one is unknown."""
    return pl.when(pl.col("size_bytes").null_count() == 0).then(total(pl.col("size_bytes")))


def _host_steps(events: pl.LazyFrame) -> pl.LazyFrame:
    name = pl.col("name").cast(pl.String)
    steps = events.filter((pl.col("layer") == "copy") & name.is_in(list(_STEPS)))
    return steps.group_by(path=name.replace(_STEPS)).agg(
        copies=pl.len().cast(pl.Int64),
        bytes=_sum_sizes(),
        p50_bytes=percentile(pl.col("size_bytes"), 50),
    )


def _blits(launches: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.LazyFrame:
    blits = kernels.filter(pl.col("name").str.contains(BLIT_KERNELS)).select("kernel", "name")
    used = launches.filter(pl.col("kind") == "dispatch").join(blits, on="kernel")
    return used.group_by(path=pl.format("blit kernel {}", pl.col("name").str.split("(").list.first())).agg(
        copies=pl.len().cast(pl.Int64)
    )
