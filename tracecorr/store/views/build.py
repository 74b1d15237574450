"""Build what the timeline draws from the tables of a capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model.kinds import INFERRED
from tracecorr.store.views import drawn, levels
from tracecorr.store.views.lanes import KEY, Group, Lane, name_owners, plan_lanes

MINIMAP_BINS = 1200
MAX_DEPTH_ROWS = 8
MAX_RANGES = 2000
_EVENT_COLUMNS = (
    "event", "ts_ns", "dur_ns", "layer", "name", "evidence", "process", "thread", "gpu", "depth", "result",
    "queue", "kernel", "flags",
)  # fmt: skip


@dataclass(frozen=True)
class Views:
    """Hold what the timeline draws of one capture; times in ns since `t0_ns`.

    Args:
        t0_ns: start of the capture, CLOCK_MONOTONIC.
        length_ns: from the first start to the last end.
        events: number of events.
        names: drawn names, by the codes in the records.
        values: sorted values, by the codes in the records of counters.
        place: record (of the finest level) of each event.
        minimap: events per bin over the whole capture: `all` and `packets`.
        ranges: spans over all lanes: losses and clock samples.
    """

    t0_ns: int
    length_ns: int
    events: int
    lanes: list[Lane]
    groups: list[Group]
    names: list[str]
    values: npt.NDArray[np.float64]
    pyramid: levels.Pyramid
    place: levels.I32
    minimap: dict[str, list[int]]
    ranges: list[dict[str, Any]] = field(default_factory=list)

    def find(self, event: int) -> tuple[int, int, int, int]:
        """Return lane, depth row, name code and start of an event."""
        at = int(self.place[event])
        finest = self.pyramid.finest
        track = np.searchsorted(finest.begin, [at], side="right").astype(np.int32) - 1
        lane, row = self.pyramid.lane_row(track)
        return int(lane[0]), int(row[0]), int(finest.name[at]), int(finest.start[at])


def build_views(tables: drawn.Tables) -> Views:
    """Return what the timeline draws; reads the columns that are drawn, nothing else.

    Args:
        tables: gives the table of a capture by its name.
    """
    owners = name_owners(*(tables(t).collect() for t in ("processes", "threads", "queues", "gpus")))
    extra = drawn.extra_pieces(tables)
    keyed = _keyed_events(tables)
    combinations = pl.concat([keyed.select(KEY).unique().collect(), extra.select(KEY).unique()]).unique()
    plan = plan_lanes(combinations, owners)
    names, events = _own_spans(tables, keyed, plan.lane_of)
    extra = extra.join(plan.lane_of, on=list(KEY), how="left", nulls_equal=True)
    names, extra = _name_extra(names, extra)
    t0 = min(_bound(events["start"].min()), _bound(extra["start"].min(), _bound(events["start"].min())))
    last = max(_bound(events["end"].max()), _bound(extra["end"].max()))
    length = max(1, last - t0)
    values = np.unique(extra["value"].drop_nulls().to_numpy())
    columns = _columns(events, extra, values, t0)
    minimap = _minimap(columns, plan.lanes, events.height, length)
    pyramid, place = _arrange(columns, plan.lanes, events.height, values)
    return Views(
        t0, length, events.height, plan.lanes, plan.groups, names, values, pyramid, place, minimap,
        _ranges(tables, t0),
    )  # fmt: skip


def _bound(value: Any, default: int = 0) -> int:
    return default if value is None else int(value)


def _keyed_events(tables: drawn.Tables) -> pl.LazyFrame:
    """Return the events with the key of their lane; copies are told apart by their engine."""
    engine = pl.format("engine {}", pl.col("engine").cast(pl.String))
    copies = tables("launches").filter(pl.col("engine").is_not_null()).select("event", sub=engine).collect()
    events = tables("events").select(_EVENT_COLUMNS).with_columns(pl.col("layer").cast(pl.String))
    if copies.is_empty():
        return events.with_columns(sub=pl.lit(None, pl.String))
    return events.join(copies.lazy().unique("event"), on="event", how="left", maintain_order="left")


def _own_spans(tables: drawn.Tables, keyed: pl.LazyFrame, lane_of: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """Return the drawn names, and `event, start, end, lane, label, style, depth` of every event."""
    kind = ["layer", "name", "kernel", "evidence", "result"]
    kinds = keyed.select(kind).unique().collect()
    names, kinds = _label(kinds, tables("kernels").collect())
    half = pl.when((pl.col("flags").fill_null(0) & drawn._HALF) > 0).then(levels.HALF_SEEN).otherwise(0)
    frame = (
        keyed.join(kinds.lazy(), on=kind, how="left", nulls_equal=True, maintain_order="left")
        .join(lane_of.lazy(), on=list(KEY), how="left", nulls_equal=True, maintain_order="left")
        .select(
            pl.col("event"),
            pl.col("ts_ns").alias("start"),
            (pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)).alias("end"),
            "lane",
            "label",
            (pl.col("style") + half).cast(pl.UInt8).alias("style"),
            pl.col("depth").cast(pl.Int32).fill_null(-1),
        )
        .collect()
    )
    return names, frame if frame["event"].is_sorted() else frame.sort("event")


def _label(kinds: pl.DataFrame, kernels: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """Return the dictionary of drawn names, and `kinds` with the code of its name and its style."""
    kernel_name = {r["kernel"]: r["display"] or r["name"] for r in kernels.iter_rows(named=True)}
    codes: dict[str, int] = {}
    rows = []
    for layer, name, kernel in kinds.select("layer", pl.col("name").cast(pl.String), "kernel").iter_rows():
        is_kernel = kernel is not None and layer in ("aql", "gpu")
        text = kernel_name.get(kernel, name) if is_kernel else name
        rows.append(codes.setdefault(text or "?", len(codes)))
    inferred = (pl.col("evidence").cast(pl.String) == INFERRED).fill_null(value=False)
    failed = drawn.failed(pl.col("result").cast(pl.String))
    style = pl.when(inferred).then(levels.INFERRED).otherwise(0) + pl.when(failed).then(levels.FAILED).otherwise(0)
    return list(codes), kinds.with_columns(pl.Series("label", rows, pl.Int32), style=style.cast(pl.UInt8))


def _name_extra(names: list[str], extra: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    codes = {name: code for code, name in enumerate(names)}
    for text in extra["label"].unique(maintain_order=True).drop_nulls():
        codes.setdefault(text, len(codes))
    code = pl.col("label").replace_strict(codes, default=0, return_dtype=pl.Int32)
    return list(codes), extra.with_columns(code)


@dataclass
class _Columns:
    """Hold all drawn things in order of start, the events' own pictures and the extra ones together."""

    event: levels.I32
    start: levels.I64
    end: levels.I64
    lane: levels.I32
    name: levels.I32
    style: levels.U8
    depth: levels.I32
    own: npt.NDArray[np.bool_]

    def take(self, order: levels.Index) -> _Columns:
        return _Columns(*(column[order] for column in vars(self).values()))


def _columns(events: pl.DataFrame, extra: pl.DataFrame, values: npt.NDArray[np.float64], t0: int) -> _Columns:
    code = np.searchsorted(values, extra["value"].fill_null(0.0).to_numpy()) if len(values) else 0
    name = np.where(extra["value"].is_not_null().to_numpy(), code, extra["label"].to_numpy())
    more = extra.with_columns(
        pl.Series("label", name, pl.Int32), pl.col("event").fill_null(-1), pl.col("depth").cast(pl.Int32).fill_null(-1)
    )

    def both(column: str, dtype: Any) -> Any:
        parts = [frame[column].to_numpy() for frame in (events, more)]
        return np.concatenate([part.astype(dtype, copy=False) for part in parts])

    own = np.zeros(events.height + more.height, bool)
    own[: events.height] = True
    return _Columns(
        both("event", np.int32), both("start", np.int64) - t0, both("end", np.int64) - t0, both("lane", np.int32),
        both("label", np.int32), both("style", np.uint8), both("depth", np.int32), own,
    )  # fmt: skip


def _arrange(
    columns: _Columns, all_lanes: list[Lane], events: int, values: npt.NDArray[np.float64]
) -> tuple[levels.Pyramid, levels.I32]:
    """Return the pyramid and the record of each event; note rows, count and peak in each lane."""
    columns = columns.take(_lane_order(columns, len(all_lanes)))
    edges = np.searchsorted(columns.lane, np.arange(len(all_lanes) + 1))
    row = _rows(columns, all_lanes, edges)
    order = np.arange(len(row))
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if row[a:b].any():
            order[a:b] = a + np.argsort(row[a:b], kind="stable")
    columns, row = columns.take(order), row[order]
    first_track = np.concatenate([[0], np.cumsum([n.rows for n in all_lanes], dtype=np.int64)]).astype(np.int64)
    begin = np.searchsorted(first_track[columns.lane] + row, np.arange(first_track[-1] + 1)).astype(np.int64)
    counter = np.repeat([n.is_counter for n in all_lanes], np.diff(first_track)).astype(bool)
    for n, a, b in zip(all_lanes, edges[:-1], edges[1:], strict=True):
        if n.is_counter:
            n.peak = float(values[columns.name[a:b].max()])
    place = np.zeros(events, np.int32)
    place[columns.event[columns.own]] = np.flatnonzero(columns.own)
    finest = levels.Single(columns.start, columns.end, columns.event, columns.name, columns.style, begin, counter)
    return levels.build_pyramid(finest, first_track), place


def _lane_order(columns: _Columns, lanes: int) -> levels.Index:
    """Return the order by (lane, start, longest first)."""
    by_start = np.argsort(columns.start, kind="stable")
    lane = columns.lane[by_start].astype(np.uint16 if lanes < 1 << 16 else np.uint32)
    order = by_start[np.argsort(lane, kind="stable")]
    lane, start, dur = columns.lane[order], columns.start[order], columns.end[order] - columns.start[order]
    tied = np.append(False, (lane[1:] == lane[:-1]) & (start[1:] == start[:-1]))
    wrong = tied.copy()
    wrong[1:] &= dur[1:] > dur[:-1]
    run = np.cumsum(~tied)
    crossed = np.isin(run, run[wrong])
    mine = order[crossed]
    order[crossed] = mine[np.lexsort((-dur[crossed], run[crossed]))]
    return order


def _rows(columns: _Columns, all_lanes: list[Lane], edges: npt.NDArray[np.int64]) -> levels.U8:
    """Return the depth row of every span, and note rows and count in each lane."""
    out = np.zeros(len(columns.start), np.uint8)
    for item, a, b in zip(all_lanes, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        depth = columns.depth[a:b]
        if item.is_counter:
            pass
        elif item.layer == "hip" and b > a and bool((depth >= 0).all()):
            out[a:b] = np.minimum(depth - depth.min(), MAX_DEPTH_ROWS - 1)
        else:
            out[a:b] = levels.first_fit(columns.start[a:b], columns.end[a:b], MAX_DEPTH_ROWS)
        item.rows, item.count = int(out[a:b].max(initial=0)) + 1, b - a
    return out


def _minimap(columns: _Columns, all_lanes: list[Lane], events: int, length: int) -> dict[str, list[int]]:
    """Return events per bin over the whole capture: all of them, and the packets alone."""
    bins = (columns.start[:events].astype(np.float64) * (MINIMAP_BINS / (length + 1))).astype(np.int32)
    is_packet = np.array([n.layer == "aql" for n in all_lanes], bool)

    def density(mask: npt.NDArray[np.bool_] | slice) -> list[int]:
        counts: list[int] = np.bincount(bins[mask], minlength=MINIMAP_BINS)[:MINIMAP_BINS].tolist()
        return counts

    packets = is_packet[columns.lane[:events]] if events else np.zeros(0, bool)
    return {"all": density(slice(None)), "packets": density(packets)}


def _ranges(tables: drawn.Tables, t0: int) -> list[dict[str, Any]]:
    """Return losses and clock samples as spans over all lanes, at most `MAX_RANGES` of each, and say so."""
    losses = tables("losses").filter(pl.col("from_ns").is_not_null() & pl.col("to_ns").is_not_null())
    out = []
    for r in losses.sort("from_ns").head(MAX_RANGES).collect().iter_rows(named=True):
        told = "records lost" if r["count"] is None else f"{r['count']:,} records lost"
        where = "" if r["cpu"] is None else f" on CPU {r['cpu']}"
        out.append({"kind": "loss", "from": r["from_ns"] - t0, "to": r["to_ns"] - t0, "text": f"{told}{where}"})
    marks = tables("events").filter(pl.col("name").cast(pl.String) == "clock_sync")
    for ts, lo, hi in marks.select("ts_ns", "err_lo_ns", "err_hi_ns").head(MAX_RANGES).collect().iter_rows():
        out.append({"kind": "clock", "from": ts - t0 - (lo or 0), "to": ts - t0 + (hi or 0), "text": "clock sample"})
    return out
