"""Where drawn rows come to: in which order, and in which depth row of their lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracecorr import native
from tracecorr.timeline import levels
from tracecorr.timeline.lanes import QUEUE_LINES, Lane

_MINIMAP_BINS = 1200
_MAX_DEPTH_ROWS = 8
_MAX_BOUND_ROWS = 3


@dataclass(frozen=True)
class _Placement:
    """Hold the drawn rows lane by lane, each lane's in the order in which they were given.

    Args:
        placed: the rows.
        edges: where each lane begins, and the number of rows at the end.
        own: how many rows of each lane are those of `events`; they are its first ones.
        by_depth: lanes whose depth rows follow from the depth of calls.
        flat: lanes that have one depth row in any case.
        t0_ns: start of the first row; times are counted from it.
        length_ns: from there to the last end.
        minimap: events per bin over the whole capture: `all` and `packets`.
    """

    placed: native.Placed
    edges: levels.I64
    own: levels.I64
    by_depth: npt.NDArray[np.bool_]
    flat: npt.NDArray[np.bool_]
    t0_ns: int
    length_ns: int
    minimap: dict[str, list[int]]


def place_rows(rows: Sequence[tuple[native.Drawn, native.Told]], all_lanes: list[Lane], events: int) -> _Placement:
    """Put drawn rows in the order of their lanes.

    Args:
        rows: those of `events`, then the further ones, each with what their kinds tell.
        all_lanes: of the capture.
        events: how many rows of `events` there are.
    """
    survey = native.Survey(len(all_lanes))
    own = survey.counts[:-1]
    for number, (drawn, told) in enumerate(rows):
        survey.add(drawn, told.lane)
        own = survey.counts[:-1].copy() if number == 0 else own
    t0, last = survey.span
    length = max(1, last - t0)
    lowest, highest = survey.lowest[:-1], survey.highest[:-1]
    nested = np.array([lane.layer == "hip" for lane in all_lanes], bool) & (lowest >= 0)
    by_depth = nested & (highest > lowest)
    flat = (nested & ~by_depth) | np.array([lane.is_counter for lane in all_lanes], bool)
    placed = native.Placed(survey.counts[:-1], events, t0)
    placed.use_depth(np.where(by_depth, lowest, -1))
    # The last one stands for what is in no lane.
    is_packet = np.array([*(n.layer == "aql" and n.label != QUEUE_LINES for n in all_lanes), False], bool)
    others, packets = np.zeros((2, _MINIMAP_BINS), np.int64)
    minimap = native.Minimap(is_packet, others, packets, _MINIMAP_BINS / (length + 1))
    for number, (drawn, told) in enumerate(rows):
        placed.add(drawn, told, _MAX_DEPTH_ROWS - 1, None if number else minimap)
    edges = np.append(0, np.cumsum(survey.counts[:-1]))
    counted = {"all": (others + packets).tolist(), "packets": packets.tolist()}
    return _Placement(placed, edges, own, by_depth, flat, t0, length, counted)


def stack(of: _Placement, all_lanes: list[Lane], values: npt.NDArray[np.float64]) -> levels.Pyramid:
    """Return the pyramid of placed rows; notes rows, count and peak in each lane."""
    placed, begin = of.placed, []
    # Lane by lane, in arrays that fit the cache.
    for item in all_lanes:
        a, b = of.edges[item.id : item.id + 2].tolist()
        counts = _order_lane(of, item, a, b)
        item.rows, item.count = len(counts), b - a
        begin.append(a + np.cumsum(counts) - counts)
        if item.is_counter:
            item.peak = float(values[placed.name[a:b].max()])
    first_track = np.append(0, np.cumsum([n.rows for n in all_lanes], dtype=np.int64))
    counter = np.repeat(np.array([n.is_counter for n in all_lanes], bool), np.diff(first_track))
    finest = levels.Single(
        placed.start, placed.end, placed.event, placed.name, placed.style,
        np.concatenate([*begin, of.edges[-1:]]), counter,
    )  # fmt: skip
    return levels.build_pyramid(finest, first_track)


def _order_lane(of: _Placement, lane: Lane, a: int, b: int) -> levels.I64:
    """Put the records of a lane, from `a` to `b`, in the order of row and start; return how many each row has."""
    placed, order = of.placed, None
    start, end = placed.start[a:b], placed.end[a:b]
    if placed.state[lane.id] & native.UNSORTED:
        order = _by_start(start, end)
        start, end = start[order], end[order]
    rows = np.zeros(0, np.uint8)
    if of.by_depth[lane.id]:
        rows = placed.row[a:b] if order is None else placed.row[a:b][order]
    elif placed.state[lane.id] and not of.flat[lane.id]:
        # Bounds of many packets end together: more rows of them would say nothing more.
        bounds = bool((placed.style[a:b] & levels.INFERRED).all())
        rows = levels.first_fit(start, end, _MAX_BOUND_ROWS if bounds else _MAX_DEPTH_ROWS)
    if rows.any():
        by_row = np.argsort(rows, kind="stable")
        order = by_row if order is None else order[by_row]
    if order is not None:
        _take(of, lane, a, b, order)
    return np.bincount(rows) if rows.any() else np.array([b - a])


def _by_start(start: levels.I64, end: levels.I64) -> levels.Index:
    """Return the order of records by start, of those that start together the longest first."""
    order = np.argsort(start, kind="stable")
    sorted_start, lasted = start[order], (end - start)[order]
    if not np.any((sorted_start[1:] == sorted_start[:-1]) & (lasted[1:] > lasted[:-1])):
        return order
    return np.lexsort((start - end, start))


def _take(of: _Placement, lane: Lane, a: int, b: int, order: levels.Index) -> None:
    """Put the records from `a` to `b` in this order, one column after the other to save memory."""
    placed = of.placed
    for column in (placed.start, placed.end, placed.event, placed.name, placed.style):
        column[a:b] = column[a:b][order]
    is_own = order < of.own[lane.id]
    placed.place[placed.event[a:b][is_own]] = a + np.flatnonzero(is_own)
