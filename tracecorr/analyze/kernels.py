"""Which kernels were dispatched, how often, and for how long where a source knows GPU times?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, percentile

# Name of the row of dispatches whose kernel no line tells.
UNKNOWN_KERNEL = "(unknown)"


def summarize_kernels(launches: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per kernel, the most dispatched first.

    GPU times are null where no source recorded them: they are never guessed from host times.
    Dispatches whose kernel is not known come as one row with the name `(unknown)`. `streams` is null where the log
    names the stream of none of them (`streams.NO_STREAM_NAMES`).
    """
    stream = pl.col("stream").drop_nulls()
    gpu_ns = pl.col("gpu_end_ns") - pl.col("gpu_start_ns")
    dispatches = (
        launches.filter(pl.col("kind").cast(pl.String) == "dispatch")
        .group_by("kernel")
        .agg(
            pl.len().cast(pl.Int64).alias("dispatches"),
            pl.when(stream.len() > 0).then(stream.n_unique().cast(pl.Int64)).alias("streams"),
            pl.col("queue").drop_nulls().n_unique().cast(pl.Int64).alias("queues"),
            pl.struct("grid_x", "grid_y", "grid_z").n_unique().cast(pl.Int64).alias("grids"),
            gpu_ns.is_not_null().sum().cast(pl.Int64).alias("gpu_timed"),
            gpu_ns.mean().round(0).cast(pl.Int64).alias("gpu_mean_ns"),
            percentile(gpu_ns, 95).alias("gpu_p95_ns"),
        )
    )
    names = kernels.select("kernel", pl.coalesce("display", "name").alias("name"))
    return collect(
        dispatches.join(names, on="kernel", how="left")
        .select(pl.col("name").fill_null(UNKNOWN_KERNEL), pl.exclude("name", "kernel"))
        .sort(["dispatches", "name"], descending=[True, False])
    )
