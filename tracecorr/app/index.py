"""One capture, ready to be drawn: its lanes, names and pyramid, built once when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.app import ids, spans
from tracecorr.app.lanes import KEY, Group, Lane, Names, name_owners, plan_lanes
from tracecorr.app.source import CaptureLike
from tracecorr.model.kinds import INFERRED, Flag

INFERRED_DOORBELL = "doorbell (inferred)"

_EVENT_COLUMNS = (
    "event", "ts_ns", "dur_ns", "layer", "name", "evidence", "process", "thread", "gpu", "depth", "result",
    "queue", "kernel", "flags",
)  # fmt: skip
# Answers to a question or to a wait, not failures.
_NO_FAILURE = ("hipErrorNotReady", "EAGAIN", "ETIMEDOUT", "EINTR", "ERESTARTSYS")
_HALF = int(Flag.ENTER_ONLY | Flag.EXIT_ONLY)


@dataclass(frozen=True)
class CaptureIndex:
    """Hold what the routes need of one capture."""

    capture: CaptureLike
    t0_ns: int
    length_ns: int
    lanes: list[Lane]
    groups: list[Group]
    names: list[str]
    pyramid: spans.Pyramid
    # by event id (dense, in time order)
    start: spans.I64
    lane_of: spans.I32
    row_of: spans.U8
    name_of: spans.I32
    doorbell_lane: dict[int, int]  # queue -> its lane of doorbells
    hollow_row: dict[int, int]  # packet -> depth row of its inferred doorbell, where that is not 0
    minimap: dict[str, list[int]]
    owners: Names

    def meta(self) -> dict[str, Any]:
        """Return what the page needs before it draws: lanes, groups, names, length, minimap."""
        return {
            "name": self.capture.name,
            "t0_abs": str(self.t0_ns),  # text: may be larger than JavaScript counts exactly
            "length": self.length_ns,
            "events": len(self.start),
            "lanes": [
                {"id": n.id, "label": n.label, "group": n.group, "layer": n.layer, "rows": n.rows, "count": n.count}
                for n in self.lanes
            ],
            "groups": [{"id": g.id, "label": g.label, "parent": g.parent, "folded": g.folded} for g in self.groups],
            "names": self.names,
            "colours": ids.COLOURS,
            "minimap": self.minimap,
        }


def build(capture: CaptureLike) -> CaptureIndex:
    """Return the index of a capture; reads the columns that are drawn, nothing else."""
    events = capture.table("events").select(_EVENT_COLUMNS).sort("event").collect()
    doorbells = _inferred_doorbells(capture)
    owners = name_owners(*(capture.table(t).collect() for t in ("processes", "threads", "queues", "gpus")))
    names, events = _label(events, capture.table("kernels").collect())
    names, doorbells = _label_doorbells(names, doorbells)
    frame = pl.concat([_drawable(events), doorbells], how="vertical")
    t0 = _bound(frame["start"].min())
    length = max(1, _bound(frame["end"].max()) - t0)
    plan = plan_lanes(frame.select(KEY).unique(), owners)
    frame = frame.join(plan.lane_of, on=list(KEY), how="left", nulls_equal=True)
    frame = frame.with_columns(pl.col("start") - t0, pl.col("end") - t0)
    frame = frame.with_columns(size=pl.col("start") - pl.col("end"))
    frame = frame.sort("lane", "start", "size", maintain_order=True)
    row = _rows(frame, plan.lanes)
    pyramid = _pyramid(frame, row, plan.lanes)
    lane_of, row_of = _places(frame, row, events.height)
    start = events["ts_ns"].to_numpy().astype(np.int64) - t0
    return CaptureIndex(
        capture, t0, length, plan.lanes, plan.groups, names, pyramid, start, lane_of, row_of,
        events["label"].to_numpy().astype(np.int32),
        {n.queue: n.id for n in plan.lanes if n.layer == "doorbell" and n.queue is not None},
        _hollow_rows(frame, row), _minimap(events, start, length), owners,
    )  # fmt: skip


def _bound(value: Any) -> int:
    return 0 if value is None else int(value)


def _label(events: pl.DataFrame, kernels: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """Return the dictionary of drawn names, and `events` with the column `label` that points into it."""
    kernel_name = {r["kernel"]: r["display"] or r["name"] for r in kernels.iter_rows(named=True)}
    key = ["layer", "name", "kernel"]
    distinct = events.select(key).unique()
    codes: dict[str, int] = {}
    rows = []
    for layer, name, kernel in distinct.iter_rows():
        is_kernel = kernel is not None and layer in ("aql", "gpu")
        text = kernel_name.get(kernel, name) if is_kernel else name
        rows.append(codes.setdefault(text or "?", len(codes)))
    distinct = distinct.with_columns(pl.Series("label", rows, pl.Int32))
    labelled = events.join(distinct, on=key, how="left", nulls_equal=True, maintain_order="left")
    return list(codes), labelled


def _inferred_doorbells(capture: CaptureLike) -> pl.DataFrame:
    """Return one span per doorbell of which only the interval is known; it stands for its packet's event."""
    known = pl.col("doorbell_lo_ns").is_not_null() & pl.col("doorbell_hi_ns").is_not_null()
    return (
        capture.table("launches")
        .filter((pl.col("doorbell_evidence") == INFERRED) & pl.col("doorbell_event").is_null() & known)
        .select(
            pl.col("event"),
            pl.col("doorbell_lo_ns").alias("start"),
            pl.col("doorbell_hi_ns").alias("end"),
            pl.lit("doorbell").alias("layer"),
            "process", "thread", "queue", "gpu",
            pl.lit(None, pl.UInt16).alias("depth"),
            pl.lit(spans.INFERRED, pl.UInt8).alias("style"),
        )
        .collect()
    )  # fmt: skip


def _label_doorbells(names: list[str], doorbells: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    if doorbells.is_empty():
        return names, doorbells.with_columns(label=pl.lit(0, pl.Int32), own=pl.lit(False))
    code = pl.lit(len(names), pl.Int32)
    return [*names, INFERRED_DOORBELL], doorbells.with_columns(label=code, own=pl.lit(False))


def _drawable(events: pl.DataFrame) -> pl.DataFrame:
    result = pl.col("result").cast(pl.String)
    failed = (result.str.contains(r"^(hipError|E[A-Z0-9]+$)") & ~result.is_in(_NO_FAILURE)).fill_null(False)
    style = (
        pl.when((pl.col("evidence") == INFERRED).fill_null(False)).then(spans.INFERRED).otherwise(0)
        + pl.when(failed).then(spans.FAILED).otherwise(0)
        + pl.when((pl.col("flags").fill_null(0) & _HALF) > 0).then(spans.HALF_SEEN).otherwise(0)
    )
    return events.select(
        pl.col("event"),
        pl.col("ts_ns").alias("start"),
        (pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)).alias("end"),
        pl.col("layer").cast(pl.String),
        "process", "thread", "queue", "gpu", "depth",
        style.cast(pl.UInt8).alias("style"),
        "label",
        pl.lit(True).alias("own"),
    )  # fmt: skip


def _rows(frame: pl.DataFrame, all_lanes: list[Lane]) -> spans.U8:
    """Return the depth row of every span, and note rows and count in each lane."""
    out = np.zeros(frame.height, np.uint8)
    lane = frame["lane"].to_numpy()
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    depth = frame["depth"].cast(pl.Int32).fill_null(-1).to_numpy()
    edges = np.searchsorted(lane, np.arange(len(all_lanes) + 1)).tolist()
    for item, a, b in zip(all_lanes, edges[:-1], edges[1:], strict=True):
        nested = item.layer == "hip" and bool((depth[a:b] >= 0).all())
        if nested:
            out[a:b] = np.minimum(depth[a:b] - depth[a:b].min(), ids.MAX_DEPTH_ROWS - 1)
        else:
            out[a:b] = spans.first_fit(start[a:b], end[a:b])
        item.rows, item.count = int(out[a:b].max(initial=0)) + 1, b - a
    return out


def _pyramid(frame: pl.DataFrame, row: spans.U8, all_lanes: list[Lane]) -> spans.Pyramid:
    first_track = np.concatenate([[0], np.cumsum([n.rows for n in all_lanes], dtype=np.int64)])
    track = first_track[frame["lane"].to_numpy()] + row
    order = np.argsort(track, kind="stable")
    start, end = frame["start"].to_numpy()[order], frame["end"].to_numpy()[order]
    raw = spans.Records(
        track[order].astype(np.int32),
        start,
        end,
        end - start,
        np.ones(len(start), np.int32),
        end - start,
        frame["event"].to_numpy()[order].astype(np.int32),
        frame["label"].to_numpy()[order],
        frame["style"].to_numpy()[order],
    )
    return spans.Pyramid(raw, first_track.tolist())


def _places(frame: pl.DataFrame, row: spans.U8, events: int) -> tuple[spans.I32, spans.U8]:
    """Return lane and depth row by event id (the own span of the event, not its inferred doorbell)."""
    lane_of, row_of = np.zeros(events, np.int32), np.zeros(events, np.uint8)
    own = frame["own"].to_numpy()
    at = frame["event"].to_numpy()[own]
    lane_of[at], row_of[at] = frame["lane"].to_numpy()[own], row[own]
    return lane_of, row_of


def _hollow_rows(frame: pl.DataFrame, row: spans.U8) -> dict[int, int]:
    at = np.flatnonzero(~frame["own"].to_numpy() & (row > 0))
    return dict(zip(frame["event"].to_numpy()[at].tolist(), row[at].tolist(), strict=True))


def _minimap(events: pl.DataFrame, start: spans.I64, length: int) -> dict[str, list[int]]:
    """Return events per bin over the whole capture: all of them, and the packets alone."""

    def density(mask: npt.NDArray[np.bool_] | slice) -> list[int]:
        bins = (start[mask].astype(np.float64) * (ids.MINIMAP_BINS / (length + 1))).astype(np.int64)
        counts: list[int] = np.bincount(bins, minlength=ids.MINIMAP_BINS)[: ids.MINIMAP_BINS].tolist()
        return counts

    packets = (events["layer"] == "aql").fill_null(False).to_numpy()
    return {"all": density(slice(None)), "packets": density(packets)}
