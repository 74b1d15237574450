"""Which way did copies take, how large were they, and how fast where their end is recorded?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, percentile, total
from tracecorr.model.kinds import COPY_REFUSED

_STEPS = {
    "memcpy_to_staging": "host memcpy into a staging buffer",
    "memcpy_from_staging": "host memcpy out of a staging buffer",
    "host_memcpy": "host memcpy without the GPU",
    "host_memcpy_rect": "host memcpy without the GPU, rectangle",
    "host_memcpy_h2d": "host memcpy without the GPU, host to device",
    "host_memcpy_d2h": "host memcpy without the GPU, device to host",
    COPY_REFUSED: "asked of ROCr and refused, then done by a blit kernel",
    "blit_staging_h2d": "blit kernel through staging, host to device",
    "blit_staging_d2h": "blit kernel through staging, device to host",
}
# Kernels by which CLR copies and fills without a copy engine (rocclr device/blitcl.cpp, ROCm 4.5 to 7.2). Others of its
# own wait for a value, write one, or prepare a heap or a cooperative launch.
BLIT_KERNELS = "^__amd_rocclr_(?:copy|fill)"


def summarize_copies(events: pl.LazyFrame, launches: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per way and engine, the most bytes first.

    A copy that goes through staging has a row of its own for each step.

    Returns: path, engine (one-hot mask of the SDMA engine), copies, bytes (null where the log tells the size of some
        of them not: rectangles, and all copies of ROCm 5.4), p50_bytes, observed_p50_ns (submission to the completion
        that the host noticed), gpu_timed, gb_per_s (bytes by GPU time; null where no end is recorded).
    """
    parts = (_engine_copies(launches), _host_steps(events), _blits(launches, kernels))
    return collect(pl.concat(parts, how="diagonal_relaxed")).sort(
        ["bytes", "copies", "path"], descending=[True, True, False], nulls_last=True
    )


def _engine_copies(launches: pl.LazyFrame) -> pl.LazyFrame:
    copies = launches.filter(pl.col("kind") == "copy")
    engine = pl.col("engine").is_not_null() & (pl.col("engine") > 0)
    gpu_ns = pl.col("gpu_end_ns") - pl.col("gpu_start_ns")
    timed = (gpu_ns > 0) & pl.col("size_bytes").is_not_null()
    return (
        copies.with_columns(
            path=pl.when(engine).then(pl.lit("copy engine (SDMA)")).otherwise(pl.lit("hsa copy, engine left to ROCr"))
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
    """Return the bytes of all copies; null where the size of any is unknown."""
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
