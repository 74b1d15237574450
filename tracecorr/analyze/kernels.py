"""Kernels by name, and rocprof's own statistics."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import collect, percentile, total
from tracecorr.model.kinds import DISPATCH_FIELDS, GRAPH_CALL, KERNEL_FIELDS, SHADER_NAME

# Name of the row of dispatches whose kernel no line tells.
UNKNOWN_KERNEL = "(unknown)"


def summarize_named(launches: pl.LazyFrame, kernels: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return the rows of `summarize_kernels` with `named`, and rows of kernels that have only a name.

    `named` counts the lines that name the kernel while the log shows no packet of it. Up to AMD_LOG_LEVEL=3, from ROCm
    7.2 on up to 4, they are all that it prints of a launch. What changes or adds a node of a graph prints one, too, but
    launches nothing.
    """
    lines = events.filter(pl.col("layer").cast(pl.String) == "aql", pl.col("name").cast(pl.String) == SHADER_NAME)
    calls = events.select(parent="event", over=pl.col("name").cast(pl.String))
    over = pl.col("over").fill_null("")
    prepares = over.str.starts_with("hipGraph") & ~over.str.starts_with(GRAPH_CALL)
    named = (
        lines.filter(pl.col("kernel").is_not_null())
        .join(calls, on="parent", how="left")
        .filter(~prepares)
        .group_by("kernel")
        .agg(named=pl.len().cast(pl.Int64))
    )
    return _name(_count(launches).join(named, on="kernel", how="full", coalesce=True), kernels, "named")


def summarize_kernels(launches: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per kernel that was dispatched, the most dispatched first.

    GPU times are null if no source recorded them: they are never guessed from host times.
    Dispatches whose kernel is not known come as one row with the name `(unknown)`. `streams` is null if the log
    names the stream of none of them (`streams.NO_STREAM_NAMES`).
    """
    return _name(_count(launches), kernels)


def _count(launches: pl.LazyFrame) -> pl.LazyFrame:
    stream = pl.col("stream").drop_nulls()
    gpu_ns = pl.col("gpu_end_ns") - pl.col("gpu_start_ns")
    return (
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


def _name(counted: pl.LazyFrame, kernels: pl.LazyFrame, *more: str) -> pl.DataFrame:
    """Return counts by kernel under its name, in their order; those of `more` are counts beside the dispatches."""
    names = kernels.select("kernel", pl.coalesce("display", "name").alias("name"))
    counts = ["dispatches", *more]
    return collect(
        counted.with_columns(pl.col(*counts, "gpu_timed").fill_null(0))
        .join(names, on="kernel", how="left")
        .select(pl.col("name").fill_null(UNKNOWN_KERNEL), *counts, pl.exclude("name", "kernel", *counts))
        .sort(*counts, "name", descending=[*(True for _ in counts), False])
    )


_DOMAINS = {"gpu": "KERNEL_DISPATCH", "hip": "HIP_API", "hsa": "HSA_API", "marker": "MARKER_API", "memory": "MEMORY"}


def summarize_rocprof(events: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per domain and name, as rocprof's statistics: the longest total of a domain first.

    Returns: domain, name, calls, total_ns, mean_ns, percent (of its domain), min_ns, max_ns, std_ns (of a sample).
    """
    names = kernels.select("kernel", kernel_name="name")
    layer = pl.col("layer").cast(pl.String)
    copy = (pl.col("layer") == "gpu") & pl.col("kernel").is_null()
    rows = events.filter(pl.col("source") == "rocprof").join(names, on="kernel", how="left")
    domain = pl.when(copy).then(pl.lit("MEMORY_COPY")).otherwise(layer.replace_strict(_DOMAINS, default="OTHER"))
    ns = pl.col("dur_ns")
    summed = rows.group_by(domain=domain, name=pl.coalesce("kernel_name", pl.col("name").cast(pl.String))).agg(
        calls=pl.len().cast(pl.Int64), total_ns=total(ns), mean_ns=ns.mean().round(0).cast(pl.Int64), min_ns=ns.min(),
        max_ns=ns.max(), std_ns=ns.std().fill_null(0).round(0).cast(pl.Int64),
    )  # fmt: skip
    whole = pl.col("total_ns").sum().over("domain")
    percent = pl.when(whole > 0).then(100 * pl.col("total_ns") / whole).round(2)
    shaped = summed.with_columns(percent=percent).sort(["domain", "total_ns", "name"], descending=[False, True, False])
    return collect(
        shaped.select("domain", "name", "calls", "total_ns", "mean_ns", "percent", "min_ns", "max_ns", "std_ns")
    )


def summarize_counters(events: pl.LazyFrame, args: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per kernel and hardware counter that a profiler read during its dispatches.

    Returns: kernel, counter, dispatches (with a value), total, mean, lowest, highest.
    """
    names = kernels.select("kernel", kernel_name=pl.coalesce("display", "name"))
    dispatches = events.filter(pl.col("source") == "rocprof", pl.col("kernel").is_not_null())
    number = pl.coalesce(pl.col("u64").cast(pl.Float64), pl.col("text").cast(pl.Float64, strict=False))
    rows = args.with_columns(pl.col("key").cast(pl.String), value=number)
    counters = rows.filter(~pl.col("key").is_in([*KERNEL_FIELDS, *DISPATCH_FIELDS])).drop_nulls("value")
    value = pl.col("value")
    summed = (
        counters.join(dispatches.select("event", "kernel"), on="event")
        .group_by("kernel", counter="key")
        .agg(
            dispatches=pl.col("event").n_unique().cast(pl.Int64), total=value.sum(), mean=value.mean(),
            lowest=value.min(), highest=value.max(),
        )
        .join(names, on="kernel", how="left")
    )  # fmt: skip
    columns = ("counter", "dispatches", "total", "mean", "lowest", "highest")
    return collect(summed.sort("kernel_name", "counter").select(pl.col("kernel_name").alias("kernel"), *columns))


def count_profiled(events: pl.LazyFrame, args: pl.LazyFrame) -> tuple[int, int]:
    """Return how many queues and streams a profile names; ids of queues are those of a process."""
    rows = events.filter(pl.col("source") == "rocprof", pl.col("layer").cast(pl.String) == "gpu")
    told = args.with_columns(pl.col("key").cast(pl.String)).filter(pl.col("key").is_in(["queue_id", "stream_id"]))
    found = told.join(rows.select("event", "pid"), on="event").select("key", "pid", "u64").unique()
    counts = dict(collect(found.group_by("key").agg(pl.len())).iter_rows())
    return counts.get("queue_id", 0), counts.get("stream_id", 0)
