"""Which ioctls reached the driver, how long did they take, and which failed?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, count_failed, describe_ns
from tracecorr.read.kfd.ioctls import HANDLER_PREFIX


def summarize_ioctls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per ioctl on a KFD or DRM descriptor, the longest total first.

    Returns: name, calls, errors and not_yet (of those whose result is known; null = of none), result_unknown (calls
        whose result no record tells), total_ns, mean_ns, p95_ns, max_ns.
    """
    ioctls = events.filter(pl.col("layer").cast(pl.String) == "ioctl")
    return collect(
        ioctls.with_columns(as_text("name"))
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *count_failed(),
            pl.col("result").null_count().cast(pl.Int64).alias("result_unknown"),
            *describe_ns("dur_ns", (95,)),
        )
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


def explain_ioctls(events: pl.LazyFrame) -> str:
    """Return how the ioctls are known: by system calls, or by functions of the driver that stand for them."""
    wanted = events.filter(pl.col("layer").is_in(["ioctl", "kfd"]))
    rows = collect(wanted.select("event", "parent", "cmd", *as_text("layer", "name")))
    ioctls = rows.filter(pl.col("layer") == "ioctl")
    # Only of a system call, or a probe on kfd_ioctl, the number of the request is recorded.
    bare = ioctls.filter(pl.col("cmd").is_null() & (pl.col("name") != "ioctl")).select(parent="event")
    has_calls = ioctls["cmd"].count() > 0
    inside = rows.filter((pl.col("layer") == "kfd") & pl.col("name").str.starts_with(HANDLER_PREFIX))
    entries = bare.join(inside, on="parent", how="semi").height
    handlers = bare.height - entries
    if not entries + handlers:
        return _BY_CALLS
    least = f", of {handlers} that of the function in it" if handlers else ""
    told = f"{entries + handlers} ioctls are known by functions of the driver alone, as no system call of their thread "
    told += f"is traced: their time is that of kfd_ioctl{least}"
    return f"{_BY_CALLS}; {told}" if has_calls else f"recorded: {told}"


_BY_CALLS = (
    "recorded: sys_enter and sys_exit of the trace, or a probe on kfd_ioctl where they are not traced; names are "
    "derived from the request number"
)
