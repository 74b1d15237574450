"""Where did the program wait for the GPU, and how long?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, describe_ns

_SIGNAL_WAITS = ("host_wait", "host_active_wait", "host_blocked_wait")
_WAIT_IOCTLS = ("AMDKFD_IOC_WAIT_EVENTS", "DRM_IOCTL_AMDGPU_WAIT_CS", "DRM_IOCTL_AMDGPU_WAIT_FENCES")


def summarize_waits(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per way of waiting, the longest total first.

    HIP calls are those whose name says that they wait (`...Synchronize`), copies that wait for their end (`hipMemcpy`
    and the like without `Async`), and the outermost calls in which another wait lies, as in some of `hipFree`; signal
    waits are lines of the log without a duration.

    Returns: layer, name, waits, total_ns, mean_ns, p50_ns, p95_ns, p99_ns, max_ns.
    """
    name = pl.col("name").cast(pl.String)
    copies = name.str.starts_with("hipMemcpy") & ~name.str.contains("Async")
    named = name.str.contains("Synchronize") | copies
    signals = (pl.col("layer") == "signal") & name.is_in(_SIGNAL_WAITS)
    ioctls = (pl.col("layer") == "ioctl") & name.is_in(_WAIT_IOCTLS)
    rows = events.filter(pl.col("source").ne_missing("rocprof"), pl.col("layer").is_in(["hip", "signal", "ioctl"]))
    around = collect(rows.filter(signals | ioctls).select("chain"))["chain"].drop_nulls().unique()
    calls = (pl.col("layer") == "hip") & (named | pl.col("event").is_in(around.implode()))
    rows = rows.filter(calls | signals | ioctls)
    return collect(
        rows.group_by(pl.col("layer").cast(pl.String), name)
        .agg(pl.len().cast(pl.Int64).alias("waits"), *describe_ns("dur_ns"))
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )
