"""What lies in a range of time: counts by layer, the most frequent names, how busy the GPU queues are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracecorr.app.index import CaptureIndex
from tracecorr.timeline import levels

_TOP = 12


def count_range(index: CaptureIndex, pyramid: levels.Pyramid, t0: int, t1: int, lanes: list[int]) -> dict[str, Any]:
    """Return what starts from t0 to t1, both included: counts by layer, top names with their time in the range.

    `total` counts events, each once; `inferred` counts what is drawn hollow because only bounds are known: no events.
    `inside_ns` is the part of the spans inside the range; a span that starts before it counts there, too.
    """
    finest, views = pyramid.finest, index.views
    counts: dict[tuple[str, bool], int] = {}
    events = [np.zeros(0, np.int32)]
    names = np.zeros(len(views.names), np.int64)
    inside = np.zeros(len(views.names), np.int64)
    for lane in (views.lanes[n] for n in lanes):
        if lane.is_counter:
            continue
        for track in range(int(pyramid.first_track[lane.id]), int(pyramid.first_track[lane.id + 1])):
            lo, hi = pyramid.levels[0].between(track, t0, t1)
            start, end, name = finest.start[lo:hi], finest.end[lo:hi], finest.name[lo:hi]
            begins = (start >= t0) & (start <= t1)
            hollow = (finest.style[lo:hi] & levels.INFERRED) > 0
            for inferred, mask in ((False, begins & ~hollow), (True, begins & hollow)):
                counts[lane.layer, inferred] = counts.get((lane.layer, inferred), 0) + int(mask.sum())
            events.append(finest.event[lo:hi][begins & ~hollow])
            names += np.bincount(name[begins], minlength=len(names))
            part = np.maximum(np.minimum(end, t1) - np.maximum(start, t0), 0)
            inside += np.bincount(name, weights=part, minlength=len(names)).astype(np.int64)
    top = np.argsort(-names, kind="stable")[:_TOP]
    return {
        "layers": [{"layer": layer, "inferred": hollow, "count": n} for (layer, hollow), n in counts.items() if n],
        "total": len(levels.distinct_events(np.concatenate(events), views.events)),
        "inferred": sum(n for (_, hollow), n in counts.items() if hollow),
        "names": [
            {"name": views.names[n], "count": int(names[n]), "inside_ns": int(inside[n])} for n in top if names[n]
        ],
    }
