"""One capture, ready to be shown: what is drawn of it, and the names of its owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracecorr.app import ids
from tracecorr.app.captures import CaptureLike, tell_zero
from tracecorr.timeline import Views, build_views, levels, read_views, write_views
from tracecorr.timeline.lanes import COLOURS, Names, name_owners


@dataclass(frozen=True)
class Place:
    """Hold where an event is drawn; `start` in ns since the capture start."""

    lane: int
    row: int
    name: str
    start: int


@dataclass(frozen=True)
class CaptureIndex:
    """Hold what the routes need of one capture."""

    capture: CaptureLike
    views: Views
    owners: Names
    doorbell_lane: dict[int, int] = field(default_factory=dict)  # queue -> its lane of doorbells
    zero: str = "start"  # what is at 0 on the axis of time, see `pair.tell_zero`

    @property
    def t0_ns(self) -> int:
        """Return the start of the capture, CLOCK_MONOTONIC."""
        return self.views.t0_ns

    def place(self, event: int) -> Place:
        """Return where an event is drawn."""
        lane, row, name, start = self.views.find(event)
        return Place(lane, row, self.views.names[name], start)

    def has_failed(self, event: int) -> bool:
        """Tell whether an event is drawn as one that failed."""
        return bool(self.views.pyramid.finest.style[self.views.place[event]] & levels.FAILED)

    def row_at(self, lane: int, event: int, start: int) -> int:
        """Return the depth row of the record in `lane` that stands for `event` and starts at `start`; 0 if none."""
        views = self.views
        for track in range(int(views.pyramid.first_track[lane]), int(views.pyramid.first_track[lane + 1])):
            a, b = views.pyramid.levels[0].between(track, start, start)
            if np.any((views.pyramid.finest.event[a:b] == event) & (views.pyramid.finest.start[a:b] == start)):
                return track - int(views.pyramid.first_track[lane])
        return 0

    def meta(self) -> dict[str, Any]:
        """Return what the page needs before it draws: lanes, groups, names, length, minimap."""
        views = self.views
        return {
            "name": self.capture.name,
            "zero": self.zero,
            "t0_abs": str(views.t0_ns),  # text: may be larger than JavaScript counts exactly
            "length": views.length_ns,
            "events": views.events,
            "lanes": [
                {
                    "id": n.id, "label": n.label, "group": n.group, "layer": n.layer, "rows": n.rows,
                    "count": n.count, "counter": n.is_counter, "peak": n.peak, "process": n.process,
                    "thread": n.thread, "queue": n.queue, "gpu": n.gpu,
                }
                for n in views.lanes
            ],
            "groups": [{"id": g.id, "label": g.label, "parent": g.parent, "folded": g.folded} for g in views.groups],
            "names": views.names,
            "colours": COLOURS,
            "minimap": views.minimap,
            "ranges": views.ranges,
            "warnings": self._warnings(),
            "owners": {
                "process": self.owners.processes, "thread": self.owners.threads, "queue": self.owners.queues,
                "gpu": self.owners.gpus,
            },
            "streams": {r["stream"]: _stream_name(r) for r in self._streams()},
        }  # fmt: skip

    def _warnings(self) -> list[str]:
        """Return what a reader of the picture must know: no events, sources on a clock of their own."""
        clocks = self.capture.table("clock_map").select(pl.col("source", "method").cast(pl.String)).unique().collect()
        unaligned = clocks.filter(pl.col("method") == "unaligned")["source"].unique().sort()
        # A clock alone has nothing to agree with: what the tables' warnings say of it is all.
        sources = unaligned.to_list() if clocks["source"].n_unique() > 1 else []
        out = [f"{source} is UNALIGNED: only its start matches, no link uses its times" for source in sources]
        said = [str(text) for text in self.capture.info.get("warnings") or [] if "UNALIGNED" not in str(text)]
        return [*out, *said] if self.views.events else ["this capture has no events", *out, *said]

    def _streams(self) -> list[dict[str, Any]]:
        return self.capture.table("streams").head(ids.MAX_STREAMS).collect().to_dicts()


def build(capture: CaptureLike) -> CaptureIndex:
    """Return the index of a capture, from its stored views where they fit its tables."""
    views = read_views(capture.path)
    if views is None:
        views = build_views(capture.table)
        _keep(capture, views)
    owners = name_owners(capture.table)
    bells = {n.queue: n.id for n in views.lanes if n.layer == "doorbell" and n.queue is not None}
    return CaptureIndex(capture, views, owners, bells, tell_zero(capture))


def _stream_name(row: dict[str, Any]) -> str:
    handle = "null stream" if not row["handle"] else f"{row['handle']:#x}"
    priority = "" if row["priority"] is None else f" · priority {row['priority']}"
    side = f"{row['side']} · " if row.get("side") else ""
    return f"{side}stream {row.get('own', row['stream'])} · {handle}{priority}"


def _keep(capture: CaptureLike, views: Views) -> None:
    """Store the views for the next time; a capture that cannot be written is shown all the same."""
    if not (capture.path / "tables").is_dir():
        return
    try:
        write_views(capture.path, views)
    except OSError:
        return
