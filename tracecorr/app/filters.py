"""Filters of events, and what is in a range of time: what remains of the picture, and how much of it.

Filters of whole lanes (process, thread, queue, GPU, layer) need no server: the page hides the lanes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.chain import STEPS
from tracecorr.app.index import CaptureIndex
from tracecorr.timeline import levels

_MAX_STREAMS = 200
_MAX_NS, _MAX_KEY = 1 << 62, 1 << 32
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Filter:
    """Say which events count.

    Args:
        name: text that the drawn name contains, in any case.
        kernel: text in the name of the kernel: its packets, and what belongs to their launches.
        streams: keys of `streams`: their events, and what belongs to their launches.
        shortest: least duration, ns; 0 = any.
        longest: greatest duration, ns; 0 = any.
        errors: only what failed.
    """

    name: str = ""
    kernel: str = ""
    streams: tuple[int, ...] = ()
    shortest: int = 0
    longest: int = 0
    errors: bool = False


def parse_filter(text: str) -> _Filter | None:
    """Return the filter of a query parameter (JSON), None for an empty one.

    Raises:
        ValueError: the text is no filter.
    """
    if not text:
        return None
    given = json.loads(text)
    if not isinstance(given, dict) or set(given) - {"name", "kernel", "streams", "shortest", "longest", "errors"}:
        raise ValueError("a filter has name, kernel, streams, shortest, longest, errors")
    streams = given.get("streams", [])
    if not isinstance(streams, list) or len(streams) > _MAX_STREAMS:
        raise ValueError("streams must be a list of numbers")
    found = _Filter(
        str(given.get("name", "")).lower(), str(given.get("kernel", "")).lower(),
        tuple(sorted(_whole(s, _MAX_KEY) for s in streams)), _whole(given.get("shortest", 0), _MAX_NS),
        _whole(given.get("longest", 0), _MAX_NS),
        bool(given.get("errors", False)),
    )  # fmt: skip
    return None if found == _Filter() else found


def _whole(value: object, end: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise ValueError("streams and durations must be whole numbers")
    return value


class Filters:
    """_Filter one capture; the last filtered pictures stay in memory."""

    def __init__(self, index: CaptureIndex) -> None:
        """_Filter `index`."""
        self._index = index
        self.pyramid = lru_cache(maxsize=2)(self._pyramid)

    def _pyramid(self, chosen: _Filter) -> levels.Pyramid:
        whole = self._index.views.pyramid
        finest = whole.finest
        kept = np.flatnonzero(self._mask(chosen))
        begin = np.searchsorted(kept, finest.begin).astype(np.int64)
        columns = (finest.start[kept], finest.end[kept], finest.event[kept], finest.name[kept], finest.style[kept])
        return levels.build_pyramid(levels.Single(*columns, begin, finest.counter), whole.first_track)

    def _mask(self, chosen: _Filter) -> _Mask:
        """Return which records of the finest level are left; counters belong to no event and go."""
        views, finest = self._index.views, self._index.views.pyramid.finest
        mask = np.repeat(~finest.counter, np.diff(finest.begin))
        if chosen.name:
            wanted = np.array([chosen.name in name.lower() for name in views.names] or [False])
            mask &= wanted[np.minimum(finest.name, len(wanted) - 1)]
        if chosen.shortest:
            mask &= finest.end - finest.start >= chosen.shortest
        if chosen.longest:
            mask &= finest.end - finest.start <= chosen.longest
        if chosen.errors:
            mask &= (finest.style & levels.FAILED) > 0
        for text, key in ((chosen.kernel, "kernel"), (chosen.streams, "stream")):
            if text:
                keys = find_kernels(self._index, chosen.kernel) if key == "kernel" else chosen.streams
                events = self._events_of(key, keys)
                mask &= events[finest.event] & (finest.event >= 0)
        return mask

    def _events_of(self, key: str, values: tuple[int, ...]) -> _Mask:
        """Return by event id whether it has one of the keys, or belongs to a launch that has."""
        table, wanted = self._index.capture.table, pl.Series(values, dtype=pl.UInt32).implode()
        out = np.zeros(self._index.views.events + 1, bool)  # the last one stands for "no event"
        own = table("events").filter(pl.col(key).is_in(wanted)).select("event").collect()
        out[own["event"].to_numpy()] = True
        launches = table("launches").filter(pl.col(key).is_in(wanted)).select(STEPS).collect()
        for step in STEPS:
            out[launches[step].drop_nulls().to_numpy()] = True
        return out


def find_kernels(index: CaptureIndex, text: str, whole: bool = False) -> tuple[int, ...]:
    """Return the kernels with a text (in lower case) in their whole name, or in the short one that is drawn.

    Args:
        whole: whether the text must be one of these names, and not only in it.
    """
    names = pl.col("name", "display").str.to_lowercase()
    held = pl.concat_str(names, separator=" ", ignore_nulls=True).str.contains(text, literal=True)
    same = pl.any_horizontal(names == text) if whole else held
    kernels = index.capture.table("kernels").filter(same)
    return tuple(kernels.select("kernel").collect()["kernel"].to_list())


def count_lanes(pyramid: levels.Pyramid, t0: int | None = None, t1: int | None = None) -> list[int]:
    """Return how many records each lane has, or how many of them touch [t0, t1]."""
    begin = pyramid.finest.begin
    if t0 is None or t1 is None:
        by_lane = begin[pyramid.first_track]
        return [int(n) for n in by_lane[1:] - by_lane[:-1]]
    edges = [pyramid.levels[0].between(track, t0, t1) for track in range(len(begin) - 1)]
    by_track = np.array([0, *(hi - lo for lo, hi in edges)], np.int64).cumsum()[pyramid.first_track]
    return [int(n) for n in by_track[1:] - by_track[:-1]]


def list_records(index: CaptureIndex, pyramid: levels.Pyramid, lane: int, t0: int, t1: int, most: int) -> pl.DataFrame:
    """Return what a lane shows of [t0, t1] in the order of time, at most `most` rows.

    Returns: event, name (of a counter value), start_ns (after the capture start), dur_ns (null of an instant), shown_as
        (`inferred`, `failed`, `half seen`).
    """
    finest, counter = pyramid.finest, index.views.lanes[lane].is_counter
    found = [np.zeros(0, np.int64)]
    for track in range(int(pyramid.first_track[lane]), int(pyramid.first_track[lane + 1])):
        lo, hi = pyramid.levels[0].between(track, t0, t1)
        found.append(lo + np.flatnonzero(finest.end[lo:hi] >= t0)[:most])
    at = np.concatenate(found)
    at = at[np.argsort(finest.start[at], kind="stable")][:most]
    names = pl.Series(index.views.names, dtype=pl.String)
    shown: dict[str, Any] = (
        {"value": index.views.values[finest.name[at]]} if counter else {"name": names.gather(finest.name[at])}
    )
    said = ((levels.INFERRED, "inferred"), (levels.FAILED, "failed"), (levels.HALF_SEEN, "half seen"))
    words = [", ".join(word for bit, word in said if style & bit) or None for style in finest.style[at].tolist()]
    event, lasted = (
        pl.Series(values, dtype=pl.Int64) for values in (finest.event[at], finest.end[at] - finest.start[at])
    )
    return pl.DataFrame({
        "event": event.set(event < 0, None), **shown, "start_ns": finest.start[at],
        "dur_ns": lasted.set(lasted == 0, None), "shown_as": pl.Series(words, dtype=pl.String),
    })  # fmt: skip


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
