"""Charts of a capture: what is drawn can be seen, and what has nothing to draw says why."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze import figures
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.html import draw_comparison_figures, draw_report_figures
from tracecorr.pipeline import correlate, import_files, make_dataset
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


def test_a_chart_with_data_has_no_excuse(sample: Path) -> None:
    drawn = draw_report_figures(Capture.open(sample).table)
    assert len(drawn) == 6
    assert not any(chart.layout.annotations for chart in drawn.values())


def test_the_side_without_dispatches_is_named(sample: Path, empty: Tables) -> None:
    """Else the only line may be taken for either of them."""
    drawn = draw_comparison_figures(empty, Capture.open(sample).table)
    assert [trace.name for trace in drawn["rates"].data] == ["A: fewer than two dispatches are known", "B"]
    assert drawn["latency"].data[0].name == "A: no steady dispatch has two known moments"
    assert all(chart.layout.showlegend for chart in drawn.values())
    assert draw_comparison_figures(empty, empty) == {}


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


def test_what_passes_at_the_same_time_is_not_added_up(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the doorbell on the call returns while the packet waits for the GPU; here SYNTHETIC, of a profiler."""
    layers = ["hip", "command", "doorbell", "return", "wait_for_gpu", "gpu", "noticed"]
    means = pl.DataFrame({"phase": "steady", "layer": layers, "mean_ns": range(7)})
    monkeypatch.setattr(figures, "summarize_paths", lambda *_: means)
    rows = {trace.name: trace.y[0] for trace in figures.draw_paths(Capture.open(sample).table).data}
    assert [layer for layer in layers if rows[layer] == "steady, call to return"] == layers[:4]
    assert [layer for layer in layers if rows[layer] == "steady, doorbell to completion"] == layers[4:]


def test_clocks_of_two_nodes_are_not_joined_by_a_line(sample: Path, tmp_path: Path) -> None:
    fleet = Capture.open(make_dataset([sample, sample], tmp_path / "fleet.tracecorr").path)
    line = next(t for t in figures.draw_clocks(fleet.table).data if t.name.startswith("amd_log:mono"))
    assert len(line.x) == 6
    assert [at is None or at != at for at in line.x] == [False, False, True] * 2
