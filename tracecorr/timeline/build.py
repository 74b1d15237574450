"""Build what the timeline draws from the tables of a capture: kinds of rows, their lanes, orders and depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tracecorr import native
from tracecorr.model import schema
from tracecorr.model.columns import is_counted, is_failed
from tracecorr.model.errors import CaptureError
from tracecorr.model.kinds import HALF_SEEN, INFERRED, PACKET_KINDS
from tracecorr.store.coverage import measure_coverage
from tracecorr.store.fleet import Tables
from tracecorr.timeline import drawn, levels
from tracecorr.timeline.lanes import KEY, QUEUE_LINES, Group, Lane, Plan, name_owners, plan_lanes
from tracecorr.timeline.levels import I32

# So many rows at once: the arrays of more would not fit the cache.
_SLICE_ROWS = 1 << 18


class _Kinds:
    """Number the distinct combinations of some columns, frame after frame.

    Numbers are provisional until all frames were added: `settle` gives the final ones.

    Example:
        >>> kinds = _Kinds(["depth"])
        >>> kinds.add(pl.DataFrame({"depth": [7, 7, None]})).tolist(), kinds.add(pl.DataFrame({"depth": [7]})).tolist()
        ([0, 0, 1], [2])
        >>> distinct, number = kinds.settle()
        >>> distinct["depth"].to_list(), number.tolist()
        ([7, None], [0, 1, 0])
    """

    def __init__(self, columns: Sequence[str]) -> None:
        """Start without any.

        Args:
            columns: numbers or categories.
        """
        self._columns = list(columns)
        self._found: list[pl.DataFrame] = []
        self._count = 0

    def add(self, rows: pl.DataFrame) -> I32:
        """Return the provisional number of the combination of each row."""
        parts = [self._add(rows.head(0)), *(self._add(part) for part in rows.iter_slices(_SLICE_ROWS))]
        return np.concatenate(parts)

    def _add(self, rows: pl.DataFrame) -> I32:
        groups = rows.with_row_index("_row").group_by(self._columns, maintain_order=True).agg("_row")
        code = np.empty(rows.height, np.int32)
        placed = groups.select(pl.col("_row"), code=pl.int_range(pl.len(), dtype=pl.Int32)).explode("_row")
        code[placed["_row"].to_numpy()] = placed["code"].to_numpy() + self._count
        self._found.append(groups.drop("_row"))
        self._count += groups.height
        return code

    def settle(self) -> tuple[pl.DataFrame, I32]:
        """Return the distinct combinations, and the final number of each provisional one."""
        every = pl.concat(self._found)  # one frame at least, for its columns
        distinct = every.unique(maintain_order=True).with_row_index("kind")
        joined = every.join(distinct, on=self._columns, how="left", nulls_equal=True, maintain_order="left")
        return distinct.drop("kind"), joined["kind"].to_numpy().astype(np.int32)


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
        t0_ns: start of the first row, of which times are counted.
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


def _place_rows(rows: Sequence[tuple[native.Drawn, native.Told]], all_lanes: list[Lane], events: int) -> _Placement:
    """Put drawn rows in the order of their lanes.

    Args:
        rows: those of `events`, then the further ones, each with what their kinds tell.
        all_lanes: of the capture.
        events: how many rows of `events` there are.
    """
    survey = native.Survey(len(all_lanes))
    own = survey.counts[:-1]
    for number, (shapes, told) in enumerate(rows):
        survey.add(shapes, told.lane)
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
    for number, (shapes, told) in enumerate(rows):
        placed.add(shapes, told, _MAX_DEPTH_ROWS - 1, None if number else minimap)
    edges = np.append(0, np.cumsum(survey.counts[:-1]))
    counted = {"all": (others + packets).tolist(), "packets": packets.tolist()}
    return _Placement(placed, edges, own, by_depth, flat, t0, length, counted)


def _stack(of: _Placement, all_lanes: list[Lane], values: npt.NDArray[np.float64]) -> levels.Pyramid:
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


_MAX_RANGES = 2000
_SLICE = 1 << 18  # rows
_KIND_COLUMNS = ("layer", "name", "evidence", "result", "process", "thread", "gpu", "queue", "kernel", "sub")
_EXTRA_COLUMNS = (*KEY, "style", "label")
_BY_KEY: dict[str, Any] = {"on": list(KEY), "how": "left", "nulls_equal": True, "maintain_order": "left"}
_EVENT_KINDS = ("event", *_KIND_COLUMNS[:-1])
# Where a row is drawn; of `native.Drawn`.
_EVENT_PLACES = {"event": "event", "start": "ts_ns", "lasted": "dur_ns", "depth": "depth", "flags": "flags"}
_PIECE_PLACES = ("event", "start", "end", "depth")
# Clock samples have an error, dumps of hardware queues a place, open calls a source.
_DRAWN_COLUMNS = (
    *_EVENT_KINDS,
    "ts_ns",
    "dur_ns",
    "depth",
    "flags",
    "err_lo_ns",
    "err_hi_ns",
    "file",
    "offset",
    "source",
)


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


def build_views(tables: Tables) -> Views:
    """Return what the timeline draws; reads the columns that are drawn, nothing else.

    Args:
        tables: gives the table of a capture by its name.
    """
    owners = name_owners(tables)
    pieces = drawn.extra_pieces(tables)
    events, kinds, number = _read_events(tables)
    codes, piece_kinds, piece_number = _number_pieces(pieces)
    names, kinds = _label(_part_queue_lines(_readable(kinds)), tables("kernels").collect())
    names, piece_kinds = _name_extra(names, _readable(piece_kinds))
    plan = plan_lanes(pl.concat([kinds.select(KEY), piece_kinds.select(KEY)]).unique(maintain_order=True), owners)
    values, names_of = _number_values(pieces)
    count, twins = len(events), _list_twins(tables)
    events[twins["event"].to_numpy()] = len(number)
    rows = [(_list_events(tables, events), _tell(kinds, number, plan))]
    told = _tell(piece_kinds, piece_number, plan)
    rows += [(_list_piece(*piece), told) for piece in zip(pieces, codes, names_of, strict=True)]
    placement = _place_rows(rows, plan.lanes, count)
    del rows, events, pieces, codes, names_of  # large
    pyramid, place = _stack(placement, plan.lanes, values), placement.placed.place
    place[twins["event"].to_numpy()] = place[twins["parent"].to_numpy()]
    return Views(
        placement.t0_ns, placement.length_ns, count, plan.lanes, plan.groups, names, values, pyramid, place,
        placement.minimap, _ranges(tables, placement.t0_ns),
    )  # fmt: skip


def _read_events(tables: Tables) -> tuple[levels.I32, pl.DataFrame, levels.I32]:
    """Return the provisional numbers of the kinds of the events, the kinds, and their final numbers."""
    events, subs = tables("events").select(_EVENT_KINDS), _list_subs(tables)
    kinds = _Kinds(_KIND_COLUMNS)
    # Batch by batch: arrays of a few MB are used again, large ones cost more time in the kernel than here.
    batches = events.collect_batches(chunk_size=_SLICE, maintain_order=True)
    codes = [kinds.add(_add_subs(batch, subs)) for batch in batches]
    codes.append(kinds.add(_add_subs(events.head(0).collect(), subs)))  # where there is no batch
    return np.concatenate(codes), *kinds.settle()


def _list_events(tables: Tables, kind: levels.I32) -> native.Drawn:
    """Return the events as they are drawn, given the provisional numbers of their kinds."""
    rows = tables("events").select(pl.col(column).alias(name) for name, column in _EVENT_PLACES.items()).collect()
    if rows.height != len(kind):
        raise CaptureError("the tables were written again while they were read", "open the capture again")
    return native.Drawn(kind, _to_arrow(rows))


def _to_arrow(rows: pl.DataFrame) -> dict[str, pa.Array]:
    return {column.name: column.rechunk().to_arrow() for column in rows.iter_columns()}


def _list_twins(tables: Tables) -> pl.DataFrame:
    """Return the second sights of calls, which are in no lane: event, parent (the row that counts)."""
    events = tables("events")
    if "parent" not in events.collect_schema():
        return pl.DataFrame(schema={"event": pl.Int64, "parent": pl.Int64})
    return events.filter(~is_counted()).select("event", "parent").drop_nulls().collect()


def _number_pieces(pieces: list[pl.DataFrame]) -> tuple[list[levels.I32], pl.DataFrame, levels.I32]:
    """Return the provisional numbers of the kinds of each piece, the kinds, and their final numbers."""
    kinds = _Kinds(_EXTRA_COLUMNS)
    codes = [kinds.add(piece) for piece in pieces]
    return codes, *kinds.settle()


def _number_values(pieces: list[pl.DataFrame]) -> tuple[npt.NDArray[np.float64], list[levels.I32 | None]]:
    """Return the sorted values of the counters, and the number of each row's; None = the piece has no values."""
    found = [piece["value"] for piece in pieces]
    known = [None if column.null_count() else column.to_numpy() for column in found]
    few = [column.unique().to_numpy() for column in found if not column.null_count()]
    values = np.unique(np.concatenate([np.empty(0), *few]))
    return values, [None if each is None else np.searchsorted(values, each).astype(np.int32) for each in known]


def _list_piece(piece: pl.DataFrame, kind: levels.I32, name: levels.I32 | None) -> native.Drawn:
    return native.Drawn(kind, _to_arrow(piece.select(_PIECE_PLACES)), name)


def _tell(kinds: pl.DataFrame, number: levels.I32, plan: Plan) -> native.Told:
    """Return what provisional numbers of kinds tell; the one behind them is of no lane."""
    placed = kinds.join(plan.lane_of, **_BY_KEY)
    lane, label, style = (placed[name].to_numpy()[number] for name in ("lane", "label", "style"))
    none = np.int32(len(plan.lanes))
    return native.Told(
        np.append(lane, none), np.append(label, np.int32(0)), np.append(style, np.uint8(0)), HALF_SEEN, levels.HALF_SEEN
    )


def _list_subs(tables: Tables) -> pl.DataFrame:
    """Return event, sub of the copies: the name of their engine."""
    engine = pl.format("engine {}", pl.col("engine").cast(pl.String)).cast(schema.CAT)
    copies = tables("launches").filter(pl.col("engine").is_not_null()).select("event", sub=engine).collect()
    return copies.unique("event", keep="first", maintain_order=True)


def _add_subs(events: pl.DataFrame, subs: pl.DataFrame) -> pl.DataFrame:
    """Return the events with `sub`: of evictions and faults of a process the name of their GPU."""
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


def _ranges(tables: Tables, t0: int) -> list[dict[str, Any]]:
    """Return losses, times without a trace, clock samples: spans over all lanes, at most `_MAX_RANGES` of a kind."""
    # Lines missing before a log's first one have no start of their own.
    losses = tables("losses").with_columns(pl.col("from_ns").fill_null(t0)).filter(pl.col("to_ns") >= pl.col("from_ns"))
    out = []
    for r in losses.sort("from_ns").head(_MAX_RANGES).collect().iter_rows(named=True):
        # Missing lines are counted by what shows that they are missing.
        least = "at least " if str(r["source"]) == "amd_log" else ""
        told = f"{least}{r['count']:,} records lost" if r["count"] else "records lost"
        told = "parts of records lost" if r["count"] == 0 else told
        where = "" if r["cpu"] is None else f" on CPU {r['cpu']}"
        out.append({"kind": "loss", "from": r["from_ns"] - t0, "to": r["to_ns"] - t0, "text": f"{told}{where}"})
    out += _list_untraced(tables, t0)
    marks = tables("events").filter(pl.col("name") == "clock_sync")
    for ts, lo, hi in marks.select("ts_ns", "err_lo_ns", "err_hi_ns").head(_MAX_RANGES).collect().iter_rows():
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
