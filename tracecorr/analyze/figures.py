"""Charts of a capture as Plotly figures: for notebooks, the HTML report and the page.

Every chart is of bounded size: long series are reduced to quantiles or slices, never cut off silently. A chart without
data says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import polars as pl

from tracecorr.analyze.calls import summarize_hip_calls
from tracecorr.analyze.compare.counts import measure_rate
from tracecorr.analyze.compare.statistics import STAGES, read_steady
from tracecorr.analyze.latency import summarize_paths
from tracecorr.analyze.values import Tables, collect
from tracecorr.link.packet_index import measure_depth
from tracecorr.model.columns import is_counted
from tracecorr.model.errors import InputError

# Okabe-Ito: safe for colour-blind readers.
_COLOURS = {
    "hip": "#0072B2", "command": "#56B4E9", "aql": "#009E73", "ioctl": "#D55E00", "syscall": "#999999",
    "kfd": "#D55E00", "mqd": "#CC79A7", "doorbell": "#E6A817", "gpu": "#009E73", "copy": "#F0E442",
}  # fmt: skip
_OTHER = "#777777"
_MAX_SPANS = 4000
_QUANTILES = 201
_MOST_CALLS = 15
_NO_RATE = "fewer than two dispatches are known"
_NO_LATENCY = "no steady dispatch has two known moments"
_TICKS = [digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)]
# Plotly writes a mere "2" for 200 on a short axis, which is read as 2.
_LOG_AXIS = {"type": "log", "tickvals": _TICKS, "ticktext": [f"{tick:,.10g}" for tick in _TICKS]}
# The GPU's part of the way begins where the doorbell rings, while the call is still on its way back.
_ON_GPU = ("wait_for_gpu", "gpu", "noticed")


def draw_timeline(
    tables: Tables, t0_ns: int | None = None, t1_ns: int | None = None, layers: Sequence[str] = ()
) -> go.Figure:
    """Return the events of a span of time as bars, one lane per thread and layer, and per queue.

    Second sights of a call are left out.

    Args:
        t0_ns, t1_ns: ns after the first event; the whole capture where None.
        layers: layers wanted; all when empty.

    Raises:
        InputError: more than 4,000 events lie in that span.
    """
    first = int(collect(tables("events").select(pl.col("ts_ns").min())).item() or 0)
    low, high = first + (t0_ns or 0), None if t1_ns is None else first + t1_ns
    rows = tables("events").filter(is_counted(), pl.col("ts_ns") + pl.col("dur_ns").fill_null(0) >= low)
    if high is not None:
        rows = rows.filter(pl.col("ts_ns") <= high)
    if layers:
        rows = rows.filter(pl.col("layer").is_in(list(layers)))
    found = int(collect(rows.select(pl.len())).item())
    if found > _MAX_SPANS:
        raise InputError(
            f"{found} events lie in that span, a figure holds {_MAX_SPANS}",
            "choose a shorter span or fewer layers, or look at the page: tracecorr serve",
        )
    return _timeline(collect(_name_lanes(rows)), first)


def _name_lanes(rows: pl.LazyFrame) -> pl.LazyFrame:
    layer = pl.col("layer").cast(pl.String)
    lane = (
        pl.when(pl.col("queue").is_not_null() & layer.is_in(["aql", "doorbell", "gpu"]))
        .then(pl.format("queue {} {}", "queue", layer))
        .when(pl.col("thread").is_not_null())
        .then(pl.format("thread {} {}", "thread", layer))
        .otherwise(layer)
    )
    lasted = pl.format("{} ns", "dur_ns").fill_null("no duration known")
    return rows.select(
        "event", "ts_ns", pl.col("dur_ns").fill_null(0), layer, pl.col("name", "evidence").cast(pl.String), lane=lane,
        lasted=lasted,
    )  # fmt: skip


def _timeline(rows: pl.DataFrame, first: int) -> go.Figure:
    figure = go.Figure()
    for (layer,), part in rows.sort("lane", "ts_ns").group_by("layer", maintain_order=True):
        colour = _COLOURS.get(str(layer), _OTHER)
        # The border is as wide at every scale: an instant, a packet or a doorbell, has nothing else to be seen by.
        figure.add_bar(
            y=part["lane"], base=(part["ts_ns"] - first) / 1000, x=part["dur_ns"].clip(lower_bound=1) / 1000,
            orientation="h", name=str(layer), marker={"color": colour, "line": {"color": colour, "width": 2}},
            customdata=part.select("name", "event", "evidence", "lasted").rows(),
            hovertemplate="%{customdata[0]}<br>event %{customdata[1]}, %{customdata[2]}<br>%{customdata[3]}",
        )  # fmt: skip
    figure.update_layout(barmode="overlay", yaxis={"autorange": "reversed", "type": "category"})
    height = 200 + 22 * rows["lane"].n_unique()
    return _finish(figure, "Timeline", "us after the first event", "", "no such event lies in that span", height)


def draw_latency(tables: Tables) -> go.Figure:
    """Return the distribution of each stage of steady dispatches: share of launches that took at most so long."""
    return _distributions({"": read_steady(tables)}, "Latency of steady dispatches by stage")


def draw_latency_of_two(first: Tables, second: Tables) -> go.Figure:
    """Return the same of two captures, A and B, in one chart."""
    sides = {"A: ": read_steady(first), "B: ": read_steady(second)}
    return _distributions(sides, "Latency of steady dispatches, two captures")


def _distributions(sides: Mapping[str, pl.DataFrame], title: str) -> go.Figure:
    figure = go.Figure()
    shares = [i / (_QUANTILES - 1) for i in range(_QUANTILES)]
    for place, (side, frame) in enumerate(sides.items()):
        dispatches, before = frame.filter(pl.col("kind") == "dispatch"), len(figure.data)
        for number, (stage, start, end) in enumerate(STAGES):
            times = dispatches.select((pl.col(end) - pl.col(start)).alias("ns")).drop_nulls()["ns"]
            if times.is_empty():
                continue
            points = [times.quantile(share, "nearest") for share in shares]
            figure.add_scatter(
                x=[p / 1000 for p in points if p is not None], y=shares, mode="lines",
                name=f"{side}{stage} ({times.len()})",
                line={"dash": ("solid", "dash")[place % 2], "color": list(_COLOURS.values())[number % len(_COLOURS)]},
            )  # fmt: skip
        if len(figure.data) == before and len(sides) > 1:
            _name_empty(figure, f"{side}{_NO_LATENCY}")
    figure.update_xaxes(_LOG_AXIS)
    return _finish(figure, title, "us (log)", "share of launches", _NO_LATENCY)


def draw_policies(stamps: pl.DataFrame) -> go.Figure:
    """Return the distribution of the high one's latency beside the low one under each policy, and alone.

    Args:
        stamps: rows of `experiment.STAMPS`, uninstrumented.
    """
    high = stamps.filter(pl.col("role") == "high").with_columns(us=(pl.col("complete_ns") - pl.col("start_ns")) / 1000)
    alone = high.filter((pl.col("phase") == "high_alone") & (pl.col("policy") == "none"))
    together = high.filter(pl.col("phase") == "together").group_by("policy", maintain_order=True)
    figure, colours = go.Figure(), list(_COLOURS.values())
    for number, (name, times) in enumerate(
        (("alone", alone["us"]), *((str(p), part["us"]) for (p,), part in together))
    ):
        ordered = times.sort().to_list()
        shares = [place / len(ordered) for place in range(1, len(ordered) + 1)]
        figure.add_scatter(
            x=ordered, y=shares, mode="lines", name=f"{name} ({len(ordered)})",
            line={"shape": "hv", "color": colours[number % len(colours)]},
        )  # fmt: skip
    figure.update_xaxes(_LOG_AXIS)
    return _finish(figure, "Launch to completion of the high one", "us (log)", "share of launches", "no launch")


def _name_empty(figure: go.Figure, why: str) -> None:
    """Name a side that has nothing to draw in the legend: else what is drawn may be taken for it."""
    figure.add_scatter(x=[None], y=[None], mode="lines", name=why)
    figure.update_layout(showlegend=True)


def draw_rate(tables: Tables) -> go.Figure:
    """Return dispatches per second over the time of the capture, in 100 slices."""
    return draw_rates({"": tables})


def draw_rates(sides: Mapping[str, Tables]) -> go.Figure:
    """Return dispatches per second of each capture, from its first dispatch on, in 100 slices."""
    figure = go.Figure()
    for name, tables in sides.items():
        rates = measure_rate(tables)
        if rates.is_empty():
            if len(sides) > 1:
                _name_empty(figure, f"{name}: {_NO_RATE}")
            continue
        figure.add_scatter(
            x=rates["from_start_ns"] / 1e9, y=rates["per_second"], mode="lines", name=name, line_shape="hv"
        )
    return _finish(figure, "Dispatches per second", "s after the first dispatch", "dispatches per second", _NO_RATE)


def draw_queue_depth(tables: Tables) -> go.Figure:
    """Return the most packets in each ring over time, in 500 slices: an upper bound of what waits."""
    packets = tables("launches").filter((pl.col("kind") != "copy") & pl.col("queue").is_not_null())
    depth = collect(packets.select("queue", "packet_ns", depth=measure_depth()).drop_nulls())
    figure = go.Figure()
    if depth.height:
        low, high = depth["packet_ns"].sort()[[0, -1]]
        width = max(1, (high - low) // 500)
        slices = depth.group_by("queue", at=(pl.col("packet_ns") - low) // width * width).agg(pl.col("depth").max())
        for (queue,), part in slices.sort("queue", "at").group_by("queue", maintain_order=True):
            # No line from one to the next: it would show a ring that is empty between them as full.
            figure.add_scatter(x=part["at"] / 1e9, y=part["depth"], mode="markers", name=f"queue {queue}")
    return _finish(
        figure, "Packets in the ring (wptr - rptr + 1)", "s after the first packet", "packets",
        "no packet of the log prints both indexes",
    )  # fmt: skip


def draw_hip_calls(tables: Tables) -> go.Figure:
    """Return the HIP functions with the longest total time."""
    calls = summarize_hip_calls(tables("events")).head(_MOST_CALLS).reverse()
    figure = go.Figure()
    figure.add_bar(
        x=calls["total_ns"] / 1e6, y=calls["name"], orientation="h", marker_color=_COLOURS["hip"],
        customdata=calls["calls"], hovertemplate="%{y}: %{x} ms in %{customdata} calls",
    )  # fmt: skip
    return _finish(figure, "HIP calls by total time", "ms", "", "no HIP call is known")


def draw_paths(tables: Tables) -> go.Figure:
    """Return the mean time by layer on the way of a dispatch, steady launches and those with set-up work apart.

    The way of the call, to its return, and that of the packet from its doorbell on are rows of their own: both pass at
    the same time, and do not add up.
    """
    rows = summarize_paths(tables("launches"), tables("events"))
    figure = go.Figure()
    for (layer,), part in rows.filter(pl.col("layer") != "kernel_mode").group_by("layer", maintain_order=True):
        way = "doorbell to completion" if layer in _ON_GPU else "call to return"
        figure.add_bar(x=part["mean_ns"] / 1000, y=part["phase"] + f", {way}", orientation="h", name=str(layer))
    figure.update_layout(barmode="stack", yaxis={"automargin": True})
    nothing = "no dispatch has two known moments"
    return _finish(figure, "Mean time by layer on the way of a dispatch", "us", "", nothing)


def draw_clocks(tables: Tables) -> go.Figure:
    """Return the bounds of each clock map around what is shown, over the time of its source."""
    figure = go.Figure()
    pieces = collect(tables("clock_map").with_columns(pl.col(pl.Categorical).cast(pl.String)))
    for (source,), part in pieces.sort("source", "from_ns").group_by("source", maintain_order=True):
        if part["lo_ns"].null_count() == part.height:
            _name_empty(figure, f"{source}: UNALIGNED, no bounds")
            continue
        # Nothing is known between two pieces, which may be those of two nodes.
        edges = part.select(
            at=pl.concat_list("from_ns", "to_ns", pl.lit(None, pl.Int64)), low=-pl.col("lo_ns"), high=pl.col("hi_ns")
        ).explode("at")
        seconds = (edges["at"] - edges["at"].min()) / 1e9
        for bound in ("high", "low"):
            figure.add_scatter(x=seconds, y=edges[bound], mode="lines+markers", name=f"{source} {bound}")
    return _finish(figure, "Error of the clock maps", "s after the source's first event", "ns", "no clock has bounds")


def has_data(figure: go.Figure) -> bool:
    """Tell whether a chart shows anything."""
    return any(x is not None for trace in figure.data for x in (trace.x if trace.x is not None else ()))


def _finish(figure: go.Figure, title: str, x: str, y: str, nothing: str, height: int = 420) -> go.Figure:
    figure.update_layout(
        title=title, template="plotly_white", height=height, margin={"l": 60, "r": 20, "t": 50, "b": 50}
    )
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=y)
    if not has_data(figure):
        figure.add_annotation(text=nothing, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    return figure
