"""Which errors and warnings did the runtime print?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.model.kinds import LOG_LEVEL, LOG_MESSAGE, WORST_LEVELS


def summarize_complaints(tables: Tables) -> pl.DataFrame:
    """Return one row per process and message that the runtime printed as an error or warning, the worst first.

    Messages that differ in numbers alone are one: `message` is then the first of them.

    Returns: process, severity (`model.kinds.WORST_LEVELS`), message, times, call (the HIP call around the first one),
        first_event, first_ns, last_ns, name (of the rows in `events`), variants (how many messages are one).
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
        .select(
            "process",
            words.alias("severity"),
            "message",
            "times",
            "call",
            "first_event",
            "first_ns",
            "last_ns",
            "name",
            "variants",
        )
    )
