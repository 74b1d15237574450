"""One capture, ready to be shown: what is drawn of it, and the names of its owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.launches import find_steady_launch
from tracecorr.app.captures import CaptureLike, tell_zero
from tracecorr.link.calls import list_open_calls
from tracecorr.timeline import levels
from tracecorr.timeline.build import Views, build_views
from tracecorr.timeline.lanes import COLOURS, QUEUE_LINES, Names, name_owners
from tracecorr.timeline.pyramid import read_views, write_views

_MAX_STREAMS = 2000


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
    core: dict[str, int] | None = None  # see `find_core`
    zero: str = "start"  # what is at 0 on the axis of time, see `pair.tell_zero`

    @property
    def t0_ns(self) -> int:
        """Return the start of the capture, CLOCK_MONOTONIC."""
        return self.views.t0_ns

    @cached_property
    def steady(self) -> int | None:
        """Return the HIP call of the launch that the page shows first."""
        return find_steady_launch(self.capture.table)

    @cached_property
    def open_calls(self) -> dict[int, int]:
        """Return how long each call that was open at the end had lasted until then, in ns."""
        return dict(list_open_calls(self.capture.table("events")).select("event", "open_ns").iter_rows())

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
            "core": self.core,
            "minimap": self._minimap(),
            "ranges": views.ranges,
            "warnings": self._warnings(),
            "owners": {
                "process": self.owners.processes, "thread": self.owners.threads, "queue": self.owners.queues,
                "gpu": self.owners.gpus,
            },
            "streams": {r["stream"]: _stream_name(r) for r in self._streams()},
        }  # fmt: skip

    def _minimap(self) -> dict[str, Any]:
        """Return the events per bin over what `Whole` shows, and from when to when that is."""
        views, core = self.views, self.core
        if core is None:
            return {**views.minimap, "from": 0, "to": views.length_ns}
        finest, edges = views.pyramid.finest, np.linspace(core["from"], core["to"], len(views.minimap["all"]) + 1)
        own = views.place[views.place >= 0]
        tracks = np.searchsorted(finest.begin, own, side="right").astype(np.int32) - 1
        packet_lanes = [n.id for n in views.lanes if n.layer == "aql" and n.label != QUEUE_LINES]
        is_packet = np.isin(views.pyramid.lane_row(tracks)[0], packet_lanes)
        counts = {"all": finest.start[own], "packets": finest.start[own[is_packet]]}
        told = {name: np.histogram(starts, edges)[0].tolist() for name, starts in counts.items()}
        return {**told, "from": core["from"], "to": core["to"]}

    def _warnings(self) -> list[str]:
        """Return what a reader of the picture must know: no events, sources on a clock of their own."""
        clocks = self.capture.table("clock_map").select(pl.col("source", "method").cast(pl.String)).unique().collect()
        unaligned = clocks.filter(pl.col("method") == "unaligned")["source"].unique().sort()
        # A single clock has nothing to agree with: the warnings of the tables say all that is known.
        sources = unaligned.to_list() if clocks["source"].n_unique() > 1 else []
        out = [f"{source} is UNALIGNED: only its start matches, no link uses its times" for source in sources]
        said = [str(text) for text in self.capture.info.get("warnings") or [] if "UNALIGNED" not in str(text)]
        return [*out, *said] if self.views.events else ["this capture has no events", *out, *said]

    def _streams(self) -> list[dict[str, Any]]:
        return self.capture.table("streams").head(_MAX_STREAMS).collect().to_dicts()


def build(capture: CaptureLike) -> CaptureIndex:
    """Return the index of a capture, from its stored views where they fit its tables."""
    views = read_views(capture.path)
    if views is None:
        views = build_views(capture.table)
        _keep(capture, views)
    owners = name_owners(capture.table)
    bells = {n.queue: n.id for n in views.lanes if n.layer == "doorbell" and n.queue is not None}
    return CaptureIndex(capture, views, owners, bells, find_core(views), tell_zero(capture))


_APART = 2000  # one event of so many may lie apart at either end, at least one
_FAR = 4  # times the length of the rest


def find_core(views: Views) -> dict[str, int] | None:
    """Return where the events lie without the few that lie apart; None where those make the capture little longer.

    An event lies apart if its distance from the middle 99.9 % is longer than these.

    Returns: from, to (ns since the capture start), before, after (how many events lie apart).
    """
    own = views.place[views.place >= 0]
    start, end = views.pyramid.finest.start[own], views.pyramid.finest.end[own]
    if len(own) < 3:
        return None
    apart = max(1, len(own) // _APART)
    first = int(np.partition(start, apart)[apart])
    last = int(np.partition(end, len(end) - 1 - apart)[-1 - apart])
    if views.length_ns <= _FAR * max(last - first, 1):
        return None
    before, after = end < first - (last - first), start > last + (last - first)
    near = ~(before | after)
    low, high = int(start[near].min()), int(np.minimum(end[near], 2 * last - first).max())
    return {"from": low, "to": high, "before": int(before.sum()), "after": int(after.sum())}


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
