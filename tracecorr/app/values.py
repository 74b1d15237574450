"""Exact values for the pointer: an event in a few lines, a counter at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.chain import STEPS
from tracecorr.app.index import CaptureIndex

_COLUMNS = ("ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "result", "evidence", "source", "layer", "stream")


def describe_briefly(index: CaptureIndex, event: int) -> dict[str, Any]:
    """Return name, exact times and result of an event; `start` in ns since the capture start."""
    columns = [pl.col(c).cast(pl.String) if c in ("result", "evidence", "source", "layer") else c for c in _COLUMNS]
    row = index.capture.table("events").filter(pl.col("event") == event).select(columns).collect().row(0, named=True)
    start = row.pop("ts_ns") - index.t0_ns
    if row["stream"] is None:
        row["stream"] = _stream_of_launches(index, event)
    return {"event": event, "name": index.place(event).name, "start": start, "dur": row.pop("dur_ns"), **row}


def _stream_of_launches(index: CaptureIndex, event: int) -> int | None:
    """Return the stream of the launches that an event is part of; None where they differ or have none."""
    touches = pl.any_horizontal(pl.col(step) == event for step in STEPS)
    found = index.capture.table("launches").filter(touches).select(pl.col("stream").unique()).collect()["stream"]
    return found[0] if found.len() == 1 else None


def value_at(index: CaptureIndex, lane: int, at: int) -> dict[str, Any]:
    """Return the value of a counter's lane at a time and the span for which it holds; nulls where there is none."""
    pyramid, found = index.views.pyramid, {"value": None, "start": None, "dur": None, "event": None}
    track = int(pyramid.first_track[lane])
    a, b = int(pyramid.finest.begin[track]), int(pyramid.finest.begin[track + 1])
    number = a + int(np.searchsorted(pyramid.finest.start[a:b], at, side="right")) - 1
    if not pyramid.finest.counter[track] or number < a:
        return found
    start, end = int(pyramid.finest.start[number]), int(pyramid.finest.end[number])
    if at > end:
        return found
    event = int(pyramid.finest.event[number])
    value = float(index.views.values[pyramid.finest.name[number]])
    return {"value": value, "start": start, "dur": end - start, "event": event if event >= 0 else None}
