"""Spans of one track must lie inside or beside each other; those that only overlap go to tracks of their own."""

from __future__ import annotations

import numpy as np
import polars as pl


def split_overlaps(spans: pl.DataFrame) -> pl.DataFrame:
    """Return event and `row`: 0 where a span stays on its track, else the number of an extra track.

    Args:
        spans: event, track, ts_ns, dur_ns (above 0).

    Returns: only spans of tracks on which spans overlap; all others stay where they are.
    """
    bad = _tracks_with_overlaps(spans)
    rows: list[tuple[int, int]] = []
    for track in bad:
        ordered = spans.filter(pl.col("track") == track).sort(
            ["ts_ns", "dur_ns", "event"], descending=[False, True, False]
        )
        rows += _place(ordered)
    return pl.DataFrame(rows, schema={"event": pl.Int64, "row": pl.Int64}, orient="row")


def _tracks_with_overlaps(spans: pl.DataFrame) -> list[int]:
    """Return the tracks on which closing the span that was opened last does not close the right one."""
    if spans.is_empty():
        return []
    begins = spans.select(
        "track", "event", at="ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns"), kind=pl.lit(1), step=pl.lit(1)
    )
    ends = begins.with_columns(at=pl.col("end"), kind=pl.lit(0), step=pl.lit(-1))
    # At one moment ends come first, and the longer span opens first.
    marks = pl.concat([begins, ends]).sort(
        ["track", "at", "kind", "end", "event"], descending=[False, False, False, True, False]
    )
    depth = marks["step"].cum_sum().to_numpy()
    opened = marks["kind"].to_numpy() == 1
    level = np.where(opened, depth - 1, depth)
    placed = marks.with_columns(level=pl.Series(level), order=pl.int_range(pl.len())).sort("track", "level", "order")
    first = placed.filter(pl.col("kind") == 1).select("track", "end")
    second = placed.filter(pl.col("kind") == 0).select("at")
    wrong = first.with_columns(closed=second["at"]).filter(pl.col("end") != pl.col("closed"))
    return wrong["track"].unique().sort().to_list()


def _place(ordered: pl.DataFrame) -> list[tuple[int, int]]:
    """Return (event, row): the first row on which the span lies inside or beside all others."""
    rows: list[list[int]] = []
    placed = []
    for event, start, length in ordered.select("event", "ts_ns", "dur_ns").iter_rows():
        end = start + length
        for number, stack in enumerate(rows):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or stack[-1] >= end:
                stack.append(end)
                placed.append((event, number))
                break
        else:
            placed.append((event, len(rows)))
            rows.append([end])
    return placed
