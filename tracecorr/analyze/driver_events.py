"""Which functions and events of the kernel does the trace hold, beside system calls and ioctls?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, describe_ns
from tracecorr.model.sights import is_counted

_ELSEWHERE = ("syscall", "ioctl", "doorbell", "hsa", "marker")


def summarize_driver_events(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per function or event of the kernel trace, layer by layer, the most frequent first.

    System calls, ioctls, doorbells and probes on libraries are left out: they have sections of their own. So are second
    sights of a call that another tracer recorded, too.

    Returns: layer, name, rows, total_ns, mean_ns, p95_ns, max_ns (null where none of the rows has a duration).
    """
    return collect(
        events.filter((pl.col("source") == "ftrace") & ~pl.col("layer").is_in(_ELSEWHERE) & is_counted())
        .select(*as_text("layer", "name"), "dur_ns")
        .group_by("layer", "name")
        .agg(pl.len().cast(pl.Int64).alias("rows"), *describe_ns("dur_ns", (95,)))
        .sort(["layer", "rows", "name"], descending=[False, True, False])
    )
