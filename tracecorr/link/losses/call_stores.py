"""Stores of calls: which doorbell stores of a trace lie in which HIP calls of a log that lost lines."""

from __future__ import annotations

import polars as pl

from tracecorr.align.causal_pairs import LOG_STEP_NS
from tracecorr.align.joins import join_nearest, select_rows, sort_rows
from tracecorr.link.losses.usual_calls import count_held, list_overfull, number_kinds

_COLUMNS = ("thread", "ts_ns", "err_lo_ns", "err_hi_ns", "layer", "name", "source")


def list_overstored(damaged: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that hold more doorbell stores than is usual for those of their name that hold any.

    A trace may show the stores of some threads only.

    Args:
        damaged: calls of files that lost lines: event, name, lost (the share of lines that lack).
        events: as for `list_stores`.
    """
    held = count_held(number_kinds(damaged, list_stores(damaged, events)))
    return list_overfull(select_rows(damaged, held["event"]), held)


def list_stores(damaged: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the doorbell stores that surely lie in calls: parent (the call), layer, child (their name).

    A level may print no packets: then the stores alone show that a call is two. Where a call lies in another one, what
    is stored behind it is in neither.

    Args:
        damaged: calls of files that lost lines: event.
        events: rows on one clock, with `thread`, numbered by their places.
    """
    is_store = (pl.col("layer") == "doorbell") & (pl.col("source") == "ftrace")
    if damaged.is_empty() or not events.select(is_store.any()).item():
        return events.select(pl.lit(None, pl.Int64).alias("parent"), "layer", child="name").clear()
    stores = events.select(_COLUMNS).filter(is_store).drop_nulls(["thread", "ts_ns", "err_lo_ns", "err_hi_ns"])
    early, late = pl.col("err_lo_ns").cast(pl.Int64), pl.col("err_hi_ns").cast(pl.Int64)
    asked = stores.select("thread", "layer", child="name", at=pl.col("ts_ns") - early, latest=pl.col("ts_ns") + late)
    end = pl.col("ts_ns") + pl.col("dur_ns") + LOG_STEP_NS
    calls = events.select("thread", "ts_ns", until=end)[damaged["event"]].with_columns(parent=damaged["event"])
    found = join_nearest(sort_rows(asked, "at"), sort_rows(calls, "ts_ns"), ["thread"], "at", "ts_ns")
    return found.filter(pl.col("latest") <= pl.col("until")).select("parent", "layer", "child")
