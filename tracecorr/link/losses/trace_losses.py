"""Spans in which records of kernel traces lack: whatever lies in one may have happened unseen."""

from __future__ import annotations

import numpy as np
import polars as pl

_BEFORE_ALL, _AFTER_ALL = -(1 << 62), 1 << 62


def list_trace_losses(losses: pl.DataFrame, damaged: pl.DataFrame) -> pl.DataFrame:
    """Return the spans in which records of kernel traces lack: from_ns, to_ns.

    Of a trace with records that could not be read, nobody knows where these were: it lacks some at any time.

    Args:
        losses: rows of `losses` on the common clock; a side that is null is open.
        damaged: files with records that could not be read (`unreadable.list_damaged`).
    """
    traced = pl.col("source").cast(pl.String) == "ftrace"
    spans = losses.filter(traced).select("from_ns", "to_ns")
    unread = pl.DataFrame({side: [None] * damaged.filter(traced).height for side in spans.columns}, spans.schema)
    return pl.concat([spans, unread]).select(
        pl.col("from_ns").fill_null(_BEFORE_ALL), pl.col("to_ns").fill_null(_AFTER_ALL)
    )


def find_next_loss(spans: pl.DataFrame, at: pl.Series) -> pl.Series:
    """Return from when on records lack behind each of some times; null where none do.

    Args:
        spans: of `list_trace_losses`.
        at: times, ns, on the common clock.

    >>> spans = pl.DataFrame({"from_ns": [10, 30], "to_ns": [20, 40]})
    >>> find_next_loss(spans, pl.Series([5, 15, 20, 50])).to_list()
    [10, 10, 30, None]
    """
    ordered = spans.sort("to_ns")
    first = np.minimum.accumulate(ordered["from_ns"].to_numpy()[::-1])[::-1]
    place = ordered["to_ns"].search_sorted(at.fill_null(_AFTER_ALL), side="right").to_numpy()
    found = pl.Series(np.append(first, _AFTER_ALL)[place], dtype=pl.Int64)
    return found.set(pl.Series(place == len(first)), None)
