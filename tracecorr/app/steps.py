"""Going on from one event: to its parent, the next of the same name, kernel or queue, the next error."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.chain import STEPS
from tracecorr.app.index import CaptureIndex
from tracecorr.model.sights import is_counted
from tracecorr.timeline import levels

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


def lacks(index: CaptureIndex, event: int, kind: str) -> bool:
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
