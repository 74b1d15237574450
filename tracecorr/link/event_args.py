"""Fields of events: rows of `args` by event as columns."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def pivot_args(args: pl.DataFrame, events: pl.Series, keys: Sequence[str]) -> pl.DataFrame:
    """Return one row per event that has any of some fields: event, and a UInt64 column for each of them.

    Args:
        args: args by event: event, key, u64.
        events: the events that are asked about.
        keys: the names of the fields.
    """
    # Fields are many, and of most kinds of events a capture has none.
    asked = args if len(events) else args.clear()
    wanted = asked.filter(pl.col("event").is_in(events.implode()) & pl.col("key").is_in(keys))
    first = [pl.col("u64").filter(pl.col("key") == key).first().alias(key) for key in keys]
    return wanted.group_by("event", maintain_order=True).agg(first)


def attach_fields(rows: pl.DataFrame, args: pl.DataFrame, keys: Sequence[str], value: pl.Expr) -> pl.DataFrame:
    """Return `rows` with a column for each of some fields of their events, null where an event has none.

    Args:
        rows: column event.
        args: args by event: event, key, u64, text.
        keys: the names of the fields.
        value: what is taken of a field.
    """
    asked = args if len(rows) else args.clear()
    for key in keys:
        values = asked.filter((pl.col("key") == key) & pl.col("event").is_in(rows["event"].implode()))
        values = values.select("event", value.alias(key)).unique("event", keep="first")
        rows = rows.join(values, on="event", how="left", maintain_order="left")
    return rows
