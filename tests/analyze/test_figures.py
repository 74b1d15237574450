"""Charts of a capture: what is drawn can be seen, and what has nothing to draw says why."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from analyze_tables import tables_of
from synthetic_run import make_run

from tracecorr.analyze import figures
from tracecorr.analyze.report.html import draw_report_figures
from tracecorr.analyze.values import Tables
from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Return the tables of a SYNTHETIC trace of one system call, without a log."""
    folder = tmp_path_factory.mktemp("empty")
    trace = folder / "trace.txt"
    trace.write_text("            a-1     [000] .....     1.000000: sys_munmap(addr: 1000, len: 1000)\n")
    made = import_files(folder / "x.tracecorr", [], [trace])
    correlate(made.path)
    return Capture.open(made.path).table


def test_a_chart_without_data_says_why(empty: Tables) -> None:
    charts = {
        "fewer than two dispatches are known": figures.draw_rate(empty),
        "no steady dispatch has two known moments": figures.draw_latency(empty),
        "no dispatch has two known moments": figures.draw_paths(empty),
        "no packet of the log prints both indexes": figures.draw_queue_depth(empty),
        "no HIP call is known": figures.draw_hip_calls(empty),
        "no clock has bounds": figures.draw_clocks(empty),
        "no such event lies in that span": figures.draw_timeline(empty, layers=("hip",)),
    }
    for why, chart in charts.items():
        assert [note.text for note in chart.layout.annotations] == [why]
    assert [trace.name for trace in charts["no clock has bounds"].data] == ["ftrace:unknown: UNALIGNED, no bounds"]
    assert draw_report_figures(empty) == {}


def test_instants_can_be_seen_on_the_timeline(sample: Path) -> None:
    """A packet and a doorbell have no duration: a bar of 1 ns is less than a pixel of any span."""
    tables = Capture.open(sample).table
    first = tables("events").select(pl.col("ts_ns").min()).collect().item()
    call, end = tables("launches").filter(pl.col("kind") == "dispatch").select("call_ns", "return_ns").collect().row(5)
    chart = figures.draw_timeline(tables, call - first, end - first)
    bars = {trace.name: trace for trace in chart.data}
    assert {"aql", "doorbell", "hip"} <= set(bars)
    assert all(bar.marker.line.width > 0 and bar.marker.line.color == bar.marker.color for bar in bars.values())
    assert bars["doorbell"].customdata[0][3] == "no duration known"
    assert bars["hip"].customdata[0][3].endswith(" ns")


def test_a_timeline_draws_what_touches_its_span_where_it_lies() -> None:
    """Times are us after the first event, which is at 1 us (SYNTHETIC)."""
    chart = figures.draw_timeline(tables_of(make_run()), 4_400, 4_405)
    bars = {trace.name: (list(trace.y), list(trace.base), list(trace.x)) for trace in chart.data}
    assert bars == {
        "aql": (["queue 0 aql"], [4.4], [0.001]), "doorbell": (["queue 0 doorbell"], [4.405], [0.001]),
        "hip": (["thread 0 hip"], [4.0], [0.9]),
    }  # fmt: skip
    assert chart.layout.height == 200 + 3 * 22
    assert [trace.name for trace in figures.draw_timeline(tables_of(make_run()), 0, layers=("mqd",)).data] == ["mqd"]


def test_a_figure_of_too_many_events_is_refused() -> None:
    events = [{"event": n, "ts_ns": n, "layer": "hip"} for n in range(4_001)]
    with pytest.raises(InputError, match="4001 events"):
        figures.draw_timeline(tables_of({"events": events}))
    assert len(figures.draw_timeline(tables_of({"events": events}), 1).data[0].x) == 4_000


def test_charts_show_the_numbers_of_the_tables_in_their_units() -> None:
    """A SYNTHETIC run of two dispatches, 1 us apart, the second of which finds a packet in the ring."""
    tables = tables_of(make_run())
    (depth,) = figures.draw_queue_depth(tables).data
    assert (depth.name, list(depth.x), list(depth.y)) == ("queue 0", pytest.approx([0, 1e-6]), [1, 2])
    (rate,) = figures.draw_rate(tables).data
    assert (len(rate.x), rate.x[0], rate.x[90]) == (91, 0.0, pytest.approx(990e-9))
    assert (rate.y[0], rate.y[1], rate.y[90]) == (90909090.9, 0.0, 90909090.9)
    (calls,) = figures.draw_hip_calls(tables).data
    # The longest is drawn on top.
    assert list(calls.y) == ["hipMemcpy", "hipStreamCreateWithPriority", "hipLaunchKernel"]
    assert (list(calls.x), list(calls.customdata)) == (pytest.approx([900e-6, 1e-3, 1.8e-3]), [1, 1, 2])


def test_the_bounds_of_a_clock_are_drawn_around_its_middle_over_seconds() -> None:
    piece = {"source": "ftrace:local", "method": "samples"}
    clocks = [
        {**piece, "from_ns": 5 * 10**9, "to_ns": 6 * 10**9, "lo_ns": 40, "hi_ns": 70},
        {**piece, "from_ns": 6 * 10**9, "to_ns": 9 * 10**9, "lo_ns": 10, "hi_ns": 20},
    ]
    high, low = figures.draw_clocks(tables_of({"clock_map": clocks})).data
    assert (high.name, low.name) == ("ftrace:local high", "ftrace:local low")
    for line, ends in ((high, (70, 20)), (low, (-40, -10))):
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if x is not None and x == x]
        assert points == [(0, ends[0]), (1, ends[0]), (1, ends[1]), (4, ends[1])]


def test_a_distribution_goes_from_the_shortest_to_the_longest_time() -> None:
    run = make_run()
    first, second = run["launches"][:2]
    run["launches"] = [first, {**second, "packet_ns": second["packet_ns"] + 600, "return_ns": None}]
    chart = figures.draw_latency(tables_of(run))
    line = {trace.name: trace for trace in chart.data}
    assert sorted(line) == [
        "call to doorbell (2)",
        "call to packet (2)",
        "call to return (1)",
        "packet to doorbell (2)",
    ]
    to_packet = line["call to packet (2)"]
    assert (to_packet.x[0], to_packet.x[-1], to_packet.y[0], to_packet.y[-1]) == (0.4, 1.0, 0.0, 1.0)
    assert set(to_packet.x) == {0.4, 1.0} and len(to_packet.x) == len(to_packet.y)
    assert chart.layout.xaxis.type == "log"
