"""Stores of calls: which doorbell stores and ioctls of a trace lie in which HIP calls of a log that lost lines."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.joins import join_nearest, select_rows, sort_rows
from tracecorr.clock.rows import count_groups
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.link.losses.usual_calls import count_held, list_overfull, number_kinds
from tracecorr.read.kfd.ioctls import KFD_PREFIX

# Of a request that so few calls of a function hold, and hardly any but those of another one, nothing is usual.
_RARE = 0.1
_OF_TRACE = pl.col("source") == "ftrace"
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


def list_misplaced(damaged: pl.DataFrame, calls: HipCalls, events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that hold a request of the KFD as hardly any other call of their name does.

    Nearly all requests of its kind lie in calls of another function.

    Args:
        damaged: calls of files that lost lines: event.
        calls: the HIP calls among the rows.
        events: as for `list_stores`.
    """
    is_request = (pl.col("layer") == "ioctl") & pl.col("name").cat.starts_with(KFD_PREFIX)
    if damaged.is_empty() or not events.select((is_request & _OF_TRACE).any()).item():
        return damaged.select("event").clear()
    is_ended = events["dur_ns"].gather(calls.rows["row"]).is_not_null()
    ended = calls.rows.select("name", event=pl.col("row").cast(pl.Int64)).filter(is_ended)
    inside = _list_inside(ended, events, is_request).join(ended, left_on="parent", right_on="event")
    counts = inside.group_by("child", "name").agg(count=pl.len(), holders=pl.col("parent").n_unique())
    counts = counts.join(count_groups(ended, ["name"]), on="name")
    share = pl.col("count") / pl.col("count").sum().over("child")
    is_rare = (share < _RARE) & (pl.col("holders") < _RARE * pl.col("total"))
    owned = counts.filter(share >= 1 - _RARE).select("child")
    odd = inside.join(counts.filter(is_rare).join(owned, on="child", how="semi"), on=["child", "name"], how="semi")
    return damaged.select("event").join(odd, left_on="event", right_on="parent", how="semi")


def list_stores(damaged: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the doorbell stores that surely lie in calls: parent (the call), layer, child (their name).

    A level may print no packets: then the stores alone show that a call is two. Where a call lies in another one, what
    is stored behind it is in neither.

    Args:
        damaged: calls of files that lost lines: event.
        events: rows on one clock, with `thread`, numbered by their places.
    """
    return _list_inside(damaged, events, pl.col("layer") == "doorbell")


def _list_inside(damaged: pl.DataFrame, events: pl.DataFrame, asked: pl.Expr) -> pl.DataFrame:
    """Return which of the rows `asked` of the trace surely lie in calls, as `list_stores` does."""
    is_asked = asked & _OF_TRACE
    if damaged.is_empty() or not events.select(is_asked.any()).item():
        return events.select(pl.lit(None, pl.Int64).alias("parent"), "layer", child="name").clear()
    stores = events.select(_COLUMNS).filter(is_asked).drop_nulls(["thread", "ts_ns", "err_lo_ns", "err_hi_ns"])
    early, late = pl.col("err_lo_ns").cast(pl.Int64), pl.col("err_hi_ns").cast(pl.Int64)
    rows = stores.select("thread", "layer", child="name", at=pl.col("ts_ns") - early, latest=pl.col("ts_ns") + late)
    end = pl.col("ts_ns") + pl.col("dur_ns") + LOG_STEP_NS
    calls = events.select("thread", "ts_ns", until=end)[damaged["event"]].with_columns(parent=damaged["event"])
    found = join_nearest(sort_rows(rows, "at"), sort_rows(calls, "ts_ns"), ["thread"], "at", "ts_ns")
    return found.filter(pl.col("latest") <= pl.col("until")).select("parent", "layer", "child")
