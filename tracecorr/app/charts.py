"""Charts of the pages beside the timeline (plotly). Points carry where they lead: an event, or a range of time.

`customdata` of a point is `["event", id]` or `["range", from, to]`, ns since the capture start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
import polars as pl

from tracecorr.analyze.calls import name_kinds, summarize_hip_calls
from tracecorr.analyze.compare.statistics import read_steady
from tracecorr.analyze.ioctls import summarize_ioctls
from tracecorr.analyze.kernels import summarize_kernels
from tracecorr.analyze.latency import summarize_latency, summarize_paths
from tracecorr.analyze.values import Tables, collect, percentile
from tracecorr.link.packet_index import measure_depth
from tracecorr.timeline.lanes import COLOURS


@dataclass(frozen=True)
class Source:
    """Hold what charts are made from: tables, the capture start (CLOCK_MONOTONIC ns), what queues are called."""

    tables: Tables
    t0: int
    queues: Mapping[int, str] = field(default_factory=dict)

    def queue(self, key: int) -> str:
        """Return what a queue is called on the timeline."""
        return self.queues.get(key, f"queue {key}")


# Makes a chart; None when there is nothing to show.
Chart = Callable[[Source], go.Figure | None]

_BINS = 300
_TOP = 15
_FEW = 5000  # dispatches; in a slice of fewer a percentile would be one of them
# Colours that mean the same in every capture, and on the timeline; a barrier is grey there, too.
_KINDS = {
    "dispatch": COLOURS["aql"], "barrier_and": "#6B747D", "barrier_value": "#9AA3AD", "barrier_or": "#C3CAD1",
    "copy": COLOURS["copy"],
}  # fmt: skip
_SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E6A817", "#56B4E9", "#882255", "#117733")


def packets_by_queue(source: Source) -> go.Figure | None:
    """Show the packets of each queue by kind; a bar leads to its first packet."""
    found = collect(
        source.tables("launches")
        .filter(pl.col("queue").is_not_null())
        .group_by("queue", pl.col("kind").cast(pl.String))
        .agg(pl.len().alias("packets"), pl.col("event").min())
        .sort("queue", "kind")
    )
    bars = []
    for kind, colour in _KINDS.items():
        part = found.filter(pl.col("kind") == kind)
        if part.height:
            x, leads = [source.queue(q) for q in part["queue"]], [["event", e] for e in part["event"]]
            bars.append(go.Bar(name=kind, x=x, y=part["packets"].to_list(), customdata=leads, marker_color=colour))
    figure = _figure("Packets by queue", bars, y="packets", barmode="stack")
    order = [source.queue(q) for q in found["queue"].unique().sort()]
    return figure if figure is None else figure.update_xaxes(categoryorder="array", categoryarray=order)


def depth_over_time(source: Source) -> go.Figure | None:
    """Show the fullest that each of the busiest queues got, per slice of time; a point leads to that packet."""
    known = source.tables("launches").filter(pl.col("rptr").is_not_null(), pl.col("wptr").is_not_null())
    rows = known.select("queue", "event", "packet_ns", depth=measure_depth()).drop_nulls()
    found = collect(
        rows.with_columns(slice=_slice(*_extent(rows)))
        .group_by("queue", "slice")
        .agg(pl.col("event", "packet_ns", "depth").sort_by("depth").last(), pl.len().alias("n"))
        .sort("queue", "slice")
    )
    busiest = found.group_by("queue").agg(pl.col("n").sum()).sort("n", descending=True)["queue"].head(len(_SERIES))
    points = []
    for queue in sorted(busiest):
        part = found.filter(pl.col("queue") == queue)
        x = [(t - source.t0) / 1e9 for t in part["packet_ns"]]
        leads = [["event", e] for e in part["event"]]
        # No line from one to the next: it would show a ring that is empty between them as full.
        points.append(
            go.Scatter(name=source.queue(queue), mode="markers", x=x, y=part["depth"].to_list(), customdata=leads)
        )
    figure = _figure("Packets in the ring (peak per slice)", points, x=_SINCE, y="packets")
    return figure if figure is None else figure.update_yaxes(rangemode="tozero")


def dispatches_by_kernel(source: Source) -> go.Figure | None:
    """Show how often each kernel was dispatched."""
    found = summarize_kernels(source.tables("launches"), source.tables("kernels")).head(_TOP)
    return _bars("Dispatches by kernel", found["name"].to_list(), found["dispatches"].to_list(), "dispatches", "aql")


def latency_by_kernel(source: Source) -> go.Figure | None:
    """Show the time from call to packet of each kernel as a box: P5, quartiles, P95; it leads to the slowest.

    Dispatches of graphs wait in their call for others, and are left out.
    """
    took = pl.col("packet_ns") - pl.col("call_ns")
    launches = name_kinds(source.tables("launches"), source.tables("events"))
    rows = launches.filter(pl.col("kind").cast(pl.String) == "dispatch", took.is_not_null())
    names = source.tables("kernels").select("kernel", name=pl.coalesce("display", "name"))
    found = collect(
        rows.join(names, on="kernel", how="left")
        .with_columns(pl.col("name").fill_null("(unknown)"), took=took)
        .group_by("name")
        .agg(
            pl.len().alias("n"), pl.col("event").sort_by("took").last().alias("slowest"),
            *(percentile(pl.col("took"), q).alias(f"p{q}") for q in (5, 25, 50, 75, 95)),
        )
        .sort("n", "name", descending=[True, False])
        .head(_TOP)
    )  # fmt: skip
    boxes = [
        go.Box(
            x=[place], lowerfence=[r["p5"] / 1e9], q1=[r["p25"] / 1e9], median=[r["p50"] / 1e9],
            q3=[r["p75"] / 1e9], upperfence=[r["p95"] / 1e9], name=_short(r["name"]),
            customdata=[["event", r["slowest"]]], marker_color=COLOURS["aql"], showlegend=False,
        )
        for place, r in enumerate(found.iter_rows(named=True))
    ]  # fmt: skip
    figure = _figure("Launch latency, HIP call to packet: P5, quartiles, P95", boxes, y=_TOOK)
    return figure if figure is None else figure.update_xaxes(_ticks(found["name"].to_list()))


def time_by_call(source: Source) -> go.Figure | None:
    """Show the total time in each HIP function."""
    found = summarize_hip_calls(source.tables("events")).head(_TOP)
    return _bars("Total time by HIP call", found["name"].to_list(), _seconds(found["total_ns"]), _TOOK, "hip")


def latency_by_stage(source: Source) -> go.Figure | None:
    """Show P50, P95 and P99 of each stage of dispatches."""
    found = summarize_latency(source.tables("launches"), source.tables("events")).filter(pl.col("kind") == "dispatch")
    label = [f"{s} ({e})" for s, e in found.select("stage", "evidence").iter_rows()]
    bars = [
        go.Bar(name=q.upper(), x=label, y=[None if v is None else v / 1e9 for v in found[f"{q}_ns"]])
        for q in ("p50", "p95", "p99")
    ]
    title = "Time by stage (dispatches; negative times are in the table only)"
    figure = _figure(title, bars if label else [], y=_TOOK, barmode="group")
    return figure if figure is None else figure.update_yaxes(_LOG)


def latency_over_time(source: Source) -> go.Figure | None:
    """Show how the time from call to packet changed during the capture, of dispatches that no graph launched.

    Few dispatches are points, each leads to its event; of many the percentiles of a slice of time lead to the slice.
    """
    took = pl.col("packet_ns") - pl.col("call_ns")
    launches = name_kinds(source.tables("launches"), source.tables("events"))
    dispatches = launches.filter(pl.col("kind").cast(pl.String) == "dispatch")
    rows = dispatches.filter(took.is_not_null()).select("event", "packet_ns", took=took)
    title, unit = "HIP call to packet over time (dispatches)", _SINCE
    few = collect(rows.sort("packet_ns").head(_FEW + 1))
    if few.height <= _FEW:
        points = go.Scatter(
            mode="markers", x=[(t - source.t0) / 1e9 for t in few["packet_ns"]], y=[v / 1e9 for v in few["took"]],
            customdata=[["event", e] for e in few["event"]], marker={"size": 5}, showlegend=False,
        )  # fmt: skip
        return _figure(title, [points] if few.height else [], x=unit, y=_TOOK)
    first, last = _extent(rows)
    found = collect(
        rows.with_columns(slice=_slice(first, last))
        .group_by("slice")
        .agg(*(percentile(pl.col("took"), q).alias(f"p{q}") for q in (50, 95, 99)))
        .sort("slice")
    )
    wide = max(1, (last - first) // _BINS)
    x = [(first - source.t0 + (s + 0.5) * wide) / 1e9 for s in found["slice"]]
    leads = [["range", first - source.t0 + s * wide, first - source.t0 + (s + 1) * wide] for s in found["slice"]]
    lines = [_line(q.upper(), x, [v / 1e9 for v in found[q]], leads) for q in ("p50", "p95", "p99")]
    return _figure(title, lines, x=unit, y=_TOOK)


def time_by_ioctl(source: Source) -> go.Figure | None:
    """Show the total time in each ioctl."""
    found = summarize_ioctls(source.tables("events")).head(_TOP)
    return _bars("Total time by ioctl", found["name"].to_list(), _seconds(found["total_ns"]), _TOOK, "ioctl")


def ioctls_over_time(source: Source) -> go.Figure | None:
    """Show the number of ioctls in each slice of time; a bar leads there."""
    rows = source.tables("events").filter(pl.col("layer").cast(pl.String) == "ioctl").select(packet_ns="ts_ns")
    first, last = _extent(rows)
    found = collect(rows.with_columns(slice=_slice(first, last)).group_by("slice").len("n").sort("slice"))
    wide = max(1, (last - first) // _BINS)
    leads = [["range", first - source.t0 + s * wide, first - source.t0 + (s + 1) * wide] for s in found["slice"]]
    x = [(first - source.t0 + (s + 0.5) * wide) / 1e9 for s in found["slice"]]
    bars = [go.Bar(x=x, y=found["n"].to_list(), customdata=leads, marker_color=COLOURS["ioctl"], showlegend=False)]
    return _figure("Ioctls over time", bars if x else [], x=_SINCE, y="ioctls per slice")


def memory_over_time(source: Source) -> go.Figure | None:
    """Show the bytes of each allocation that the log names; a point leads to it."""
    rows = source.tables("events").filter(
        pl.col("layer").cast(pl.String) == "memory", pl.col("size_bytes").is_not_null()
    )
    columns = ("event", "ts_ns", "size_bytes", pl.col("name").cast(pl.String))
    found = rows.sort("size_bytes", descending=True).select(columns).head(5000).collect().sort("ts_ns")
    points = [
        go.Scatter(
            name=str(kind[0]), mode="markers", x=[(t - source.t0) / 1e9 for t in part["ts_ns"]],
            y=part["size_bytes"].to_list(), customdata=[["event", e] for e in part["event"]],
        )
        for kind, part in found.partition_by("name", as_dict=True).items()
    ]  # fmt: skip
    title = "Allocations" + (" (the 5000 largest)" if found.height == 5000 else "")
    figure = _figure(title, points, x=_SINCE, y="bytes")
    return figure if figure is None else figure.update_yaxes(type="log")


def share_of_layers(source: Source) -> go.Figure | None:
    """Show which share of the time of a launch goes to which layer, steady launches and those with set-up apart."""
    found = summarize_paths(source.tables("launches"), source.tables("events")).filter(pl.col("share").is_not_null())
    bars = [
        go.Bar(
            name=str(layer[0]), x=part["share"].to_list(), y=part["phase"].to_list(), orientation="h",
            marker_color=COLOURS.get(str(layer[0]), COLOURS["other"]),
        )
        for layer, part in found.partition_by("layer", as_dict=True, maintain_order=True).items()
    ]  # fmt: skip
    return _figure("Share of the time of a dispatch by layer", bars, x="percent", barmode="stack")


def overlay_latency(sides: Sequence[tuple[str, Tables]]) -> go.Figure | None:
    """Show the distributions of the time from call to packet of steady dispatches, as the comparison takes them."""
    lines = []
    for name, tables in sides:
        dispatches = read_steady(tables).filter(pl.col("kind").cast(pl.String) == "dispatch")
        took = dispatches.select(took=pl.col("packet_ns") - pl.col("call_ns")).drop_nulls()["took"]
        if took.len():
            shares = [i / 200 for i in range(201)]
            values = [took.quantile(s, "nearest") for s in shares]
            lines.append(_line(name, [(v or 0) / 1e9 for v in values], [100 * s for s in shares], []))
    title = "HIP call to packet: share of steady dispatches that took at most ..."
    figure = _figure(title, lines, x=_TOOK, y="percent")
    # A single line has no legend, which would name its queue.
    return figure if figure is None else figure.update_xaxes(_LOG).update_layout(showlegend=True)


# --- shared ---------------------------------------------------------------------------------------


def _extent(rows: pl.LazyFrame) -> tuple[int, int]:
    first, last = rows.select(a=pl.col("packet_ns").min(), b=pl.col("packet_ns").max()).collect().row(0)
    return first or 0, last or 0


def _slice(first: int, last: int) -> pl.Expr:
    """Return the number of the slice of time that `packet_ns` lies in."""
    return ((pl.col("packet_ns") - first) // max(1, (last - first) // _BINS)).clip(0, _BINS - 1)


def _line(name: str, x: list[float], y: Sequence[float], leads: list[list[object]]) -> go.Scatter:
    line = {"width": 1.5}
    return go.Scatter(name=name, mode="lines+markers", x=x, y=y, customdata=leads, line=line, marker={"size": 4})


def _bars(title: str, names: list[str], values: Sequence[float | None], unit: str, layer: str) -> go.Figure | None:
    bars = [
        go.Bar(
            orientation="h", y=list(range(len(names))), x=values, hovertext=names, marker_color=COLOURS[layer],
            hovertemplate="%{hovertext}: %{x}<extra></extra>",
            showlegend=False, customdata=[["search", _search_for(n)] for n in names],
        )
    ]  # fmt: skip
    figure = _figure(title, bars if names else [], x=unit)
    return figure if figure is None else figure.update_yaxes(_ticks(names), autorange="reversed")


def _search_for(name: str) -> str:
    """Return what finds this name, and not those that hold it."""
    return f'"{name}"'


def _ticks(names: list[str]) -> dict[str, Any]:
    """Return an axis with a place for each name; those that look alike when they are cut stay whole."""
    cut = [_short(name) for name in names]
    texts = [name if cut.count(short) > 1 else short for name, short in zip(names, cut, strict=True)]
    return {"tickvals": list(range(len(names))), "ticktext": texts, "ticklabeloverflow": "allow"}


def _short(name: str) -> str:
    # Names of generated kernels differ at their ends.
    return name if len(name) <= 42 else f"{name[:24]}…{name[-17:]}"


def _seconds(times: pl.Series) -> list[float | None]:
    """Return times in ns as seconds; one that is unknown gets no bar."""
    return [None if v is None else v / 1e9 for v in times]


# Titles of axes of times, in seconds: each tick has the unit that suits it (20us, 3ms).
_TOOK, _SINCE = "time", "time since the capture start"
_LOG = {"type": "log", "dtick": 1}
_UNITS = {"exponentformat": "SI", "minexponent": 0, "ticksuffix": "s"}


def _axis(title: str) -> dict[str, Any]:
    return {"title": title, "automargin": True} | (_UNITS if title in (_TOOK, _SINCE) else {})


def _figure(
    title: str, traces: Sequence[object], x: str = "", y: str = "", barmode: str = "relative"
) -> go.Figure | None:
    if not traces:
        return None
    figure = go.Figure(list(traces))
    figure.update_layout(
        title=title, barmode=barmode, height=340, margin={"l": 60, "r": 20, "t": 44, "b": 60}, colorway=_SERIES,
        xaxis=_axis(x), yaxis=_axis(y),
    )  # fmt: skip
    return figure
