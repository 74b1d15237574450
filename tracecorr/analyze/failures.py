"""Messages of the runtime about errors, and calls and ioctls that failed."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.model.calls import is_failed
from tracecorr.model.kinds import LOG_LEVEL, LOG_MESSAGE, WORST_LEVELS

_COMPLAINT = (
    "process", "severity", "message", "times", "call", "first_event", "first_ns", "last_ns", "name", "variants",
)  # fmt: skip


def summarize_complaints(tables: Tables) -> pl.DataFrame:
    """Return one row per process and message that the runtime printed as an error or warning, the worst first.

    Messages that differ only in numbers are one row: `message` is the first of them.

    Returns: process, severity (`model.kinds.WORST_LEVELS`), message, times, call (the HIP call around the first one),
        first_event, first_ns, last_ns, name (of the rows in `events`), variants (number of different messages).
    """
    fields = collect(
        tables("args")
        .with_columns(as_text("key"))
        .filter(pl.col("key").is_in([LOG_LEVEL, LOG_MESSAGE]))
        .group_by("event")
        .agg(level=pl.col("u64").drop_nulls().first(), message=pl.col("text").drop_nulls().first())
    )
    events = tables("events").select("event", "process", "ts_ns", "parent", *as_text("name"))
    rows = collect(events.join(fields.drop_nulls("level").lazy(), on="event"))
    calls = collect(
        tables("events")
        .filter(pl.col("event").is_in(rows["parent"].drop_nulls().unique().implode()) & (pl.col("layer") == "hip"))
        .select(parent="event", call=pl.col("name").cast(pl.String))
    )
    found = rows.sort("event").join(calls, on="parent", how="left", maintain_order="left")
    words = pl.col("level").replace_strict(WORST_LEVELS, default=None, return_dtype=pl.String)
    return (
        found.group_by("process", "level", "name", maintain_order=True)
        .agg(
            pl.col("message", "call").first(),
            times=pl.len().cast(pl.Int64),
            variants=pl.col("message").n_unique().cast(pl.Int64),
            first_event=pl.col("event").first(),
            first_ns=pl.col("ts_ns").min(),
            last_ns=pl.col("ts_ns").max(),
        )
        .sort("level", "first_event")
        .with_columns(severity=words)
        .select(_COMPLAINT)
    )


def summarize_failures(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per layer, HIP call or ioctl, and result that is a failure, the most frequent first.

    Returns: layer (`hip` or `ioctl`), name, result, times, first_event.
    """
    # Calls of a profiler would count twice.
    logged = pl.col("source").cast(pl.String).ne_missing("rocprof")
    asked = events.filter(pl.col("layer").is_in(["hip", "ioctl"]) & logged)
    asked = asked.select("event", *as_text("layer", "name", "result"))
    failed = asked.filter(is_failed(pl.col("result")))
    counted = failed.group_by("layer", "name", "result").agg(
        times=pl.len().cast(pl.Int64), first_event=pl.col("event").min()
    )
    return collect(counted.sort(["layer", "times", "first_event"], descending=[False, True, False]))
