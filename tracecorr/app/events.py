"""One event: its exact values, its raw record, and the event that follows it in some sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.chain import STEPS
from tracecorr.app.index import CaptureIndex
from tracecorr.model.columns import is_counted
from tracecorr.store.frames import SUFFIX
from tracecorr.timeline import levels

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


_TEXTS = ("layer", "name")


def name_record(index: CaptureIndex, event: int) -> dict[str, Any] | None:
    """Return file, offset, layer and name of an event, by which it is found again; None where it has no record."""
    rows = index.capture.table("events").filter(pl.col("event") == event)
    row = rows.select("file", "offset", *(pl.col(c).cast(pl.String) for c in _TEXTS)).collect().row(0, named=True)
    if row["file"] is None or row["offset"] is None:
        return None
    return row | {"file": _plain(index.capture.file_path(row["file"]))}


def find_record(index: CaptureIndex, file: str, offset: int, layer: str, name: str) -> int | None:
    """Return the event of a record that `name_record` named, maybe of another reading; None where there is none."""
    files = index.capture.table("files").select("file").collect()["file"]
    same = [number for number in files if _plain(index.capture.file_path(number)) == file]
    found = index.capture.table("events").filter(
        pl.col("file").is_in(pl.Series(same, dtype=pl.UInt16).implode()), pl.col("offset") == offset,
        pl.col("layer").cast(pl.String) == layer, pl.col("name").cast(pl.String) == name,
    )  # fmt: skip
    events = found.select("event").head(1).collect()["event"]
    return int(events[0]) if events.len() else None


def _plain(path: str) -> str:
    """Return the path of a file as it was before it was compressed at the end of its recording."""
    return path.removesuffix(SUFFIX)


KINDS = ("parent", "name", "kernel", "queue", "thread", "error")


def step(index: CaptureIndex, event: int, kind: str, back: bool) -> int | None:
    """Return the event that follows (or comes before) `event` in a sense of `KINDS`; None at the end.

    A call or a doorbell has the kernel and the queue of the launch that it belongs to.
    """
    own = index.capture.table("events").filter(pl.col("event") == event).collect().row(0, named=True)
    if kind == "parent":
        parent = own["parent"] if own["parent"] is not None else own["chain"]
        return None if parent == event else parent
    if kind == "error":
        return _next_error(index, event, back)
    if kind == "name":
        return _next_named(index, event, back)
    if kind == "thread":
        return _next_where(index, event, back, (pl.col("thread") == own["thread"]) & (pl.col("layer") == own["layer"]))
    value = own[kind] if own[kind] is not None else _of_launch(index, event, kind)
    if value is None:
        return None
    same_layer = pl.col("layer") == (own["layer"] if own[kind] is not None else "aql")
    return _next_where(index, event, back, (pl.col(kind) == value) & same_layer)


def has_none(index: CaptureIndex, event: int, kind: str) -> bool:
    """Tell whether an event has no kernel, queue or thread (`kind`), so that no other one can be of the same."""
    if kind not in ("kernel", "queue", "thread"):
        return False
    own = index.capture.table("events").filter(pl.col("event") == event).select(kind).collect().item()
    return own is None and (kind == "thread" or _of_launch(index, event, kind) is None)


def _next_where(index: CaptureIndex, event: int, back: bool, same: pl.Expr) -> int | None:
    side = pl.col("event") < event if back else pl.col("event") > event
    found = index.capture.table("events").filter(side, same, is_counted()).select("event")
    row = (found.last() if back else found.first()).collect()
    return int(row["event"][0]) if row.height else None


def _of_launch(index: CaptureIndex, event: int, column: str) -> Any:
    touches = pl.any_horizontal(pl.col(c) == event for c in STEPS)
    row = index.capture.table("launches").filter(touches).select(column).head(1).collect()
    return row[column][0] if row.height else None


def _next_error(index: CaptureIndex, event: int, back: bool) -> int | None:
    finest = index.views.pyramid.finest
    failed = finest.event[np.flatnonzero(finest.style & levels.FAILED)]
    return _neighbour(levels.distinct_events(failed, index.views.events), event, back)


def _next_named(index: CaptureIndex, event: int, back: bool) -> int | None:
    views = index.views
    names = views.pyramid.finest.name[views.place]
    found = np.flatnonzero(names == names[event])
    return _neighbour(found[views.pyramid.finest.event[views.place[found]] == found], event, back)


def _neighbour(events: Any, event: int, back: bool) -> int | None:
    at = int(np.searchsorted(events, event, side="left" if back else "right")) - (1 if back else 0)
    return int(events[at]) if 0 <= at < len(events) else None
