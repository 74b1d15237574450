"""Fields of events: rows of `args` by event as columns."""

from __future__ import annotations

import polars as pl


def pivot_args(args: pl.DataFrame, events: pl.Series, keys: list[str]) -> pl.DataFrame:
    """Return one row per event that has any of some fields: event, and a UInt64 column for each of them.

    Args:
        args: args by event: event, key, u64.
        events: the events that are asked about.
        keys: the names of the fields.
    """
    wanted = args.filter(pl.col("event").is_in(events.implode()) & pl.col("key").is_in(keys))
    first = [pl.col("u64").filter(pl.col("key") == key).first().alias(key) for key in keys]
    return wanted.group_by("event", maintain_order=True).agg(first)
