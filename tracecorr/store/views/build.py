"""Build what the timeline draws from the tables of a capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.model.errors import CaptureError
from tracecorr.model.kinds import HALF_SEEN, INFERRED, PACKET_KINDS
from tracecorr.model.results import is_failed
from tracecorr.model.sights import is_counted
from tracecorr.store.coverage import measure_coverage
from tracecorr.store.keys import Tables
from tracecorr.store.memory import kept_memory
from tracecorr.store.views import drawn, levels
from tracecorr.store.views.kinds import Kinds
from tracecorr.store.views.lanes import KEY, QUEUE_LINES, Group, Lane, name_owners, plan_lanes

MINIMAP_BINS = 1200
MAX_DEPTH_ROWS = 8
MAX_BOUND_ROWS = 3
MAX_RANGES = 2000
_SLICE = 1 << 18  # rows
_FAR = 1 << 62
_KIND_COLUMNS = ("layer", "name", "evidence", "result", "process", "thread", "gpu", "queue", "kernel", "sub")
_EXTRA_COLUMNS = (*KEY, "style", "label")
_BY_KEY: dict[str, Any] = {"on": list(KEY), "how": "left", "nulls_equal": True, "maintain_order": "left"}
_EVENT_COLUMNS = (
    "event", "ts_ns", "dur_ns", "layer", "name", "evidence", "process", "thread", "gpu", "depth", "result",
    "queue", "kernel", "flags",
)  # fmt: skip
# Clock samples have an error, dumps of hardware queues a place.
_DRAWN_COLUMNS = (*_EVENT_COLUMNS, "err_lo_ns", "err_hi_ns", "file", "offset")


@dataclass(frozen=True)
class Views:
    """Hold what the timeline draws of one capture; times in ns since `t0_ns`.

    Args:
        t0_ns: start of the capture, CLOCK_MONOTONIC.
        length_ns: from the first start to the last end.
        events: number of events.
        names: drawn names, by the codes in the records.
        values: sorted values, by the codes in the records of counters.
        place: record (of the finest level) of each event; of a second sight of a call that of the row that counts.
        minimap: events per bin over the whole capture: `all` and `packets`.
        ranges: spans over all lanes: losses, times without a kernel trace, clock samples.
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


def list_drawn_columns(events: pl.DataFrame) -> tuple[str, ...]:
    """Return what `build_views` reads of the table `events`: of second sights of calls the row that counts, too."""
    return _DRAWN_COLUMNS if events.select(is_counted().all()).item() else (*_DRAWN_COLUMNS, "parent")


@kept_memory()
def build_views(tables: Tables) -> Views:
    """Return what the timeline draws; reads the columns that are drawn, nothing else.

    Args:
        tables: gives the table of a capture by its name.
    """
    owners = name_owners(*(tables(t).collect() for t in ("processes", "threads", "queues", "gpus")))
    extra = drawn.extra_pieces(tables)
    columns, count, kinds, own_number = _read_events(tables, extra.height)
    extra_kinds = Kinds(_EXTRA_COLUMNS)
    extra_code = extra_kinds.add(extra)
    pieces, extra_number = extra_kinds.settle()
    names, kinds = _label(_part_queue_lines(_readable(kinds)), tables("kernels").collect())
    names, pieces = _name_extra(names, _readable(pieces))
    plan = plan_lanes(pl.concat([kinds.select(KEY), pieces.select(KEY)]).unique(maintain_order=True), owners)
    values = np.unique(extra["value"].drop_nulls().to_numpy())
    _place_events(columns, count, own_number, kinds.join(plan.lane_of, **_BY_KEY))
    _place_extra(columns, count, extra, extra_number[extra_code], pieces.join(plan.lane_of, **_BY_KEY), values)
    del extra, extra_code  # large
    twins = _leave_twins(columns, tables, len(plan.lanes))
    t0 = int(columns.start.min(initial=_FAR)) if len(columns.start) else 0
    columns.start -= t0
    columns.end -= t0
    length = max(1, int(columns.end.max(initial=0)))
    minimap = _minimap(columns, plan.lanes, count, length)
    pyramid, place = _arrange(columns, plan.lanes, count, values)
    place[twins["event"].to_numpy()] = place[twins["parent"].to_numpy()]
    return Views(
        t0, length, count, plan.lanes, plan.groups, names, values, pyramid, place, minimap, _ranges(tables, t0)
    )


def _read_events(tables: Tables, more: int) -> tuple[_Columns, int, pl.DataFrame, levels.I32]:
    """Return the columns with the events at their front, their number, their kinds and the numbers of these.

    `name` holds the provisional numbers of the kinds, `style` what only the row itself tells.

    Args:
        tables: of the capture.
        more: room for so many rows behind the events.
    """
    events = tables("events").select(_EVENT_COLUMNS)
    count = int(events.select(pl.len()).collect().item())
    columns, kinds, first = _Columns.of_length(count + more), Kinds(_KIND_COLUMNS), 0
    subs = _list_subs(tables)
    # Batch by batch: arrays of a few MB are used again, large ones cost more time in the kernel than here.
    for batch in events.collect_batches(chunk_size=_SLICE, maintain_order=True):
        rows = slice(first, first := first + batch.height)
        if first > count:
            raise CaptureError("the tables were written anew while they were read", "open the capture again")
        columns.name[rows] = kinds.add(_add_subs(batch, subs))
        columns.event[rows], columns.start[rows] = batch["event"], batch["ts_ns"]
        # Tables that an older tracecorr wrote may hold durations below zero.
        columns.end[rows] = batch["ts_ns"].to_numpy() + batch["dur_ns"].fill_null(0).clip(0).to_numpy()
        columns.depth[rows] = batch["depth"].cast(pl.Int32).fill_null(-1)
        half = (batch["flags"].fill_null(0).to_numpy() & HALF_SEEN) > 0
        columns.style[rows] = np.where(half, levels.HALF_SEEN, 0)
    kinds.add(_add_subs(events.head(0).collect(), subs))  # where there is no batch
    return columns, count, *kinds.settle()


def _leave_twins(columns: _Columns, tables: Tables, lanes: int) -> pl.DataFrame:
    """Take second sights of calls from the lanes, and return them: event, parent (the row that counts)."""
    events = tables("events")
    parent = pl.col("parent") if "parent" in events.collect_schema() else pl.lit(None, pl.Int64).alias("parent")
    twins = events.filter(~is_counted()).select("event", parent).drop_nulls().collect()
    columns.lane[twins["event"].to_numpy()] = lanes
    return twins


def _list_subs(tables: Tables) -> pl.DataFrame:
    """Return event, sub of the copies, which are told apart by their engine."""
    engine = pl.format("engine {}", pl.col("engine").cast(pl.String)).cast(schema.CAT)
    copies = tables("launches").filter(pl.col("engine").is_not_null()).select("event", sub=engine).collect()
    return copies.unique("event", keep="first", maintain_order=True)


def _add_subs(events: pl.DataFrame, subs: pl.DataFrame) -> pl.DataFrame:
    """Return the events with `sub`: evictions and faults of a process are told apart by their GPU."""
    if subs.is_empty():
        events = events.with_columns(sub=pl.lit(None, schema.CAT))
    else:
        events = events.join(subs, on="event", how="left", maintain_order="left")
    if not (events["layer"] == "smi").any():
        return events
    stop = (pl.col("layer") == "smi") & pl.col("process").is_not_null() & pl.col("gpu").is_not_null()
    gpu = pl.format("GPU {}", "gpu").cast(schema.CAT)
    return events.with_columns(sub=pl.when(stop).then(gpu).otherwise("sub"))


def _readable(kinds: pl.DataFrame) -> pl.DataFrame:
    return kinds.with_columns(pl.col("layer", "sub").cast(pl.String))


def _part_queue_lines(kinds: pl.DataFrame) -> pl.DataFrame:
    """Return the kinds with a `sub` for what the log tells of queues: a lane of packets holds nothing else."""
    packet = pl.col("name").cast(pl.String).is_in(PACKET_KINDS)
    return kinds.with_columns(
        sub=pl.when((pl.col("layer") == "aql") & ~packet).then(pl.lit(QUEUE_LINES)).otherwise("sub")
    )


def _place_events(columns: _Columns, count: int, number: levels.I32, kinds: pl.DataFrame) -> None:
    """Fill lane, name and style of the events from their kinds."""
    lane, label, style = (kinds[name].to_numpy() for name in ("lane", "label", "style"))
    for first in range(0, count, _SLICE):
        rows = slice(first, min(first + _SLICE, count))
        code = number[columns.name[rows]]
        columns.lane[rows], columns.name[rows] = lane[code], label[code]
        columns.style[rows] |= style[code]


def _place_extra(
    columns: _Columns,
    count: int,
    extra: pl.DataFrame,
    code: levels.I32,
    kinds: pl.DataFrame,
    values: npt.NDArray[np.float64],
) -> None:
    """Fill the rows behind the events with what is drawn besides; a counter's name is the code of its value."""
    columns.event[count:] = extra["event"].fill_null(-1)
    columns.start[count:], columns.end[count:] = extra["start"], extra["end"]
    columns.depth[count:] = extra["depth"].cast(pl.Int32).fill_null(-1)
    columns.lane[count:], columns.style[count:] = kinds["lane"].to_numpy()[code], kinds["style"].to_numpy()[code]
    columns.name[count:] = kinds["label"].to_numpy()[code]
    counted = np.flatnonzero(extra["value"].is_not_null())
    columns.name[count + counted] = np.searchsorted(values, extra["value"].gather(counted).to_numpy())


def _label(kinds: pl.DataFrame, kernels: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """Return the dictionary of drawn names, and `kinds` with the code of its name and its style."""
    kernel_name = {r["kernel"]: r["display"] or r["name"] for r in kernels.iter_rows(named=True)}
    texts = []
    for layer, name, kernel in kinds.select("layer", pl.col("name").cast(pl.String), "kernel").iter_rows():
        is_kernel = kernel is not None and layer in ("aql", "gpu")
        texts.append((kernel_name.get(kernel, name) if is_kernel else name) or "?")
    # The order of the kinds may differ from run to run.
    codes = {text: code for code, text in enumerate(sorted(set(texts)))}
    inferred = (pl.col("evidence").cast(pl.String) == INFERRED).fill_null(value=False)
    failed = is_failed(pl.col("result").cast(pl.String))
    style = pl.when(inferred).then(levels.INFERRED).otherwise(0) + pl.when(failed).then(levels.FAILED).otherwise(0)
    return list(codes), kinds.with_columns(
        pl.Series("label", [codes[text] for text in texts], pl.Int32), style=style.cast(pl.UInt8)
    )


def _name_extra(names: list[str], kinds: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """Return the dictionary of drawn names with those of the kinds, and `kinds` with the codes of their names."""
    codes = {name: code for code, name in enumerate(names)}
    texts = kinds["label"].cast(pl.String)
    for text in texts.unique(maintain_order=True).drop_nulls():
        codes.setdefault(text, len(codes))
    return list(codes), kinds.with_columns(texts.replace_strict(codes, default=0, return_dtype=pl.Int32))


@dataclass
class _Columns:
    """Hold all drawn things: the events' own pictures in order of start, and the extra ones behind them."""

    event: levels.I32
    start: levels.I64
    end: levels.I64
    lane: levels.I32
    name: levels.I32
    style: levels.U8
    depth: levels.I32

    @classmethod
    def of_length(cls, rows: int) -> _Columns:
        """Return columns whose values are still to be written."""
        types: tuple[Any, ...] = (np.int32, np.int64, np.int64, np.int32, np.int32, np.uint8, np.int32)
        return cls(*(np.empty(rows, dtype) for dtype in types))

    def take(self, order: levels.Index) -> None:
        """Put the rows in this order, one column after the other to save memory; lane and depth have decided it."""
        self.lane, self.depth = self.lane[:0], self.depth[:0]
        for name in ("event", "start", "end", "name", "style"):
            setattr(self, name, getattr(self, name)[order])


def _arrange(
    columns: _Columns, all_lanes: list[Lane], events: int, values: npt.NDArray[np.float64]
) -> tuple[levels.Pyramid, levels.I32]:
    """Return the pyramid and the record of each event; note rows, count and peak in each lane."""
    order, edges = _by_lane(columns, len(all_lanes))
    row = np.zeros(len(order), np.uint8)
    # Lane by lane, in arrays that fit the cache.
    for item, a, b in zip(all_lanes, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        index = _by_start(columns, order[a:b])
        rows = _rows(columns, index, item)
        item.rows, item.count = int(rows.max(initial=0)) + 1, b - a
        if item.is_counter:
            item.peak = float(values[columns.name[index].max()])
        by_row = np.argsort(rows, kind="stable")
        order[a:b], row[a:b] = index[by_row], rows[by_row]
    first_track = np.concatenate([[0], np.cumsum([n.rows for n in all_lanes], dtype=np.int64)]).astype(np.int64)
    track = np.repeat(first_track[:-1].astype(np.int32), np.diff(edges)) + row
    begin = np.searchsorted(track, np.arange(first_track[-1] + 1)).astype(np.int64)
    counter = np.repeat(np.array([n.is_counter for n in all_lanes], bool), np.diff(first_track))
    columns.take(order)
    place = np.zeros(events, np.int32)
    own = order < events
    place[columns.event[own]] = np.flatnonzero(own)
    finest = levels.Single(columns.start, columns.end, columns.event, columns.name, columns.style, begin, counter)
    return levels.build_pyramid(finest, first_track), place


def _by_lane(columns: _Columns, lanes: int) -> tuple[levels.Index, npt.NDArray[np.intp]]:
    """Return the order by lane, each lane's records as they are, and where each lane begins in it.

    What is beyond the last lane is left out.
    """
    # Small numbers are sorted by counting.
    lane = columns.lane.astype(np.uint8 if lanes < 1 << 8 else np.uint16 if lanes < 1 << 16 else np.uint32)
    edges = np.append(0, np.cumsum(np.bincount(lane, minlength=lanes)[:lanes]))
    return np.argsort(lane, kind="stable")[: edges[-1]], edges


def _by_start(columns: _Columns, index: levels.Index) -> levels.Index:
    """Return the records of a lane by start, of those that start together the longest first."""
    start = columns.start[index]
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        index, start = index[order], start[order]
    dur = columns.end[index] - start
    if not np.any((start[1:] == start[:-1]) & (dur[1:] > dur[:-1])):
        return index
    return index[np.lexsort((-dur, start))]


def _rows(columns: _Columns, index: levels.Index, lane: Lane) -> levels.U8:
    """Return the depth row of every record of a lane."""
    depth = columns.depth[index]
    if lane.is_counter or not len(index):
        return np.zeros(len(index), np.uint8)
    if lane.layer == "hip" and bool((depth >= 0).all()):
        nested: levels.U8 = np.minimum(depth - depth.min(), MAX_DEPTH_ROWS - 1).astype(np.uint8)
        return nested
    # Bounds of many packets end together: more rows of them would say nothing more.
    bounds = bool((columns.style[index] & levels.INFERRED).all())
    most = MAX_BOUND_ROWS if bounds else MAX_DEPTH_ROWS
    return levels.first_fit(columns.start[index], columns.end[index], most)


def _minimap(columns: _Columns, all_lanes: list[Lane], events: int, length: int) -> dict[str, list[int]]:
    """Return events per bin over the whole capture: all of them, and the packets alone."""
    # The last one stands for what is in no lane.
    is_packet = np.array([*(n.layer == "aql" and n.label != QUEUE_LINES for n in all_lanes), False], bool)
    counts = np.zeros(2 * MINIMAP_BINS, np.int64)
    for first in range(0, events, _SLICE):
        rows = slice(first, min(first + _SLICE, events))
        bins = (columns.start[rows].astype(np.float64) * (MINIMAP_BINS / (length + 1))).astype(np.int32)
        # Of a long capture the last start is rounded up to its end.
        bins = np.minimum(bins, MINIMAP_BINS - 1)
        counts += np.bincount(bins + MINIMAP_BINS * is_packet[columns.lane[rows]], minlength=2 * MINIMAP_BINS)
    others, packets = counts.reshape(2, MINIMAP_BINS)
    return {"all": (others + packets).tolist(), "packets": packets.tolist()}


def _ranges(tables: Tables, t0: int) -> list[dict[str, Any]]:
    """Return losses, times without a trace, clock samples: spans over all lanes, at most `MAX_RANGES` of a kind."""
    # What lacks before a log's first line has no start of its own.
    losses = tables("losses").with_columns(pl.col("from_ns").fill_null(t0)).filter(pl.col("to_ns") >= pl.col("from_ns"))
    out = []
    for r in losses.sort("from_ns").head(MAX_RANGES).collect().iter_rows(named=True):
        # What lacks of the log is counted by what shows that it lacks.
        least = "at least " if str(r["source"]) == "amd_log" else ""
        told = f"{least}{r['count']:,} records lost" if r["count"] else "records lost"
        told = "parts of records lost" if r["count"] == 0 else told
        where = "" if r["cpu"] is None else f" on CPU {r['cpu']}"
        out.append({"kind": "loss", "from": r["from_ns"] - t0, "to": r["to_ns"] - t0, "text": f"{told}{where}"})
    out += _list_untraced(tables, t0)
    marks = tables("events").filter(pl.col("name") == "clock_sync")
    for ts, lo, hi in marks.select("ts_ns", "err_lo_ns", "err_hi_ns").head(MAX_RANGES).collect().iter_rows():
        out.append({"kind": "clock", "from": ts - t0 - (lo or 0), "to": ts - t0 + (hi or 0), "text": "clock sample"})
    return out


def _list_untraced(tables: Tables, t0: int) -> list[dict[str, Any]]:
    """Return the spans of the HIP log before the first record of the kernel trace, and after its last one."""
    span = measure_coverage(tables)
    if span is None:
        return []
    begin, end = min(span.trace_from_ns, span.log_to_ns), max(span.trace_to_ns, span.log_from_ns)
    ends = (
        (span.late_ns, span.log_from_ns, begin, "before the first record of the kernel trace"),
        (span.early_ns, end, span.log_to_ns, "after the last record of the kernel trace"),
    )
    return [{"kind": "untraced", "from": a - t0, "to": b - t0, "text": text} for ns, a, b, text in ends if ns]
