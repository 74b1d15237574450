"""The pages beside the timeline: answers of `analyze` as tables, with charts that lead back to the timeline."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.compare import Side, compare_captures
from tracecorr.analyze.report import Report, summarize_capture
from tracecorr.analyze.values import POINTS, addresses_as_text, render_heading
from tracecorr.app import charts
from tracecorr.app.library import Opened

MAX_ROWS = 2000


@dataclass(frozen=True)
class Page:
    """Say what a page shows: sections of the report by key, and charts."""

    title: str
    sections: tuple[str, ...]
    charts: tuple[charts.Chart, ...] = ()


PAGES: dict[str, Page] = {
    "verdicts": Page("Verdicts", ()),
    "queues": Page(
        "Queues", ("queues", "queue_creation", "priorities", "backlog", "streams"),
        (charts.packets_by_queue, charts.depth_over_time),
    ),
    "kernels": Page("Kernels", ("kernels",), (charts.dispatches_by_kernel, charts.latency_by_kernel)),
    "calls": Page("HIP calls", ("hip_calls", "hip_internal", "hsa_calls", "waits"), (charts.time_by_call,)),
    "latency": Page(
        "Latency", ("latency", "launches", "unlinked", "gaps"), (charts.latency_by_stage, charts.latency_over_time)
    ),
    "ioctls": Page("Ioctls", ("ioctls",), (charts.time_by_ioctl, charts.ioctls_over_time)),
    "memory": Page("Memory", ("memory", "copies"), (charts.memory_over_time,)),
    "layers": Page("Layers", ("paths",), (charts.share_of_layers,)),
    "clocks": Page("Clocks, losses", ("clocks", "time_errors", "losses")),
    "ledger": Page("Ledger", ("ledger", "unaccounted")),
}  # fmt: skip
COMPARE = "compare"


@dataclass
class Reports:
    """Keep the report of each capture: it takes seconds on a large one."""

    _known: dict[str, Report] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, opened: Opened) -> Report:
        """Return the report of a capture."""
        with self._lock:
            if opened.name not in self._known:
                capture = opened.index.capture
                self._known[opened.name] = summarize_capture(capture.name, capture.table, capture.info)
            return self._known[opened.name]


def show_page(name: str, opened: Opened, reports: Reports) -> dict[str, Any]:
    """Return the page `name` of a capture, as JSON can hold it.

    Raises:
        KeyError: there is no such page.
    """
    page, report = PAGES[name], reports.get(opened)
    sections = [_section(s, opened) for key in page.sections for s in report.sections if s.key == key]
    source = charts.Source(opened.index.capture.table, opened.index.t0_ns)
    drawn = [chart(source) for chart in page.charts]
    return {
        "title": page.title,
        "sections": sections,
        "charts": [_figure(f) for f in drawn if f is not None],
        "verdicts": [v.as_dict() for v in report.verdicts] if name == "verdicts" else [],
        "answers": [a.as_dict() for a in report.answers] if name == "verdicts" else [],
    }


def show_comparison(first: Opened, second: Opened) -> dict[str, Any]:
    """Return the comparison of two captures: tables side by side, distributions over each other."""
    sides = [Side(o.name, o.index.capture.table, o.index.capture.info) for o in (first, second)]
    found = compare_captures(sides[0], sides[1])
    drawn = charts.overlay_latency([(side.name, side.tables) for side in sides])
    return {
        "title": f"{first.name} (A) and {second.name} (B)",
        "findings": list(found.findings),
        "sections": [_section(s, None) for s in found.sections],
        "charts": [] if drawn is None else [_figure(drawn)],
    }


def _figure(figure: go.Figure) -> dict[str, Any]:
    shown: dict[str, Any] = figure.to_plotly_json()
    shown["layout"].pop("template", None)  # the page brings its own colours
    return shown


def _section(section: Section, opened: Opened | None) -> dict[str, Any]:
    """Return a section; its times relative to the capture start, so that the page can go there."""
    frame = section.frame
    if opened is not None:
        moved = [c for c in frame.columns if c in POINTS and frame.schema[c].is_integer()]
        frame = frame.with_columns(pl.col(c) - opened.index.t0_ns for c in moved)
    shown = addresses_as_text(frame.head(MAX_ROWS))
    columns = [{"name": c, "heading": _heading(c, opened), "kind": _kind(c, shown)} for c in shown.columns]
    return {
        "key": section.key, "title": section.title, "evidence": section.evidence, "missing": section.missing,
        "nothing": section.nothing, "columns": columns, "rows": [list(row) for row in shown.rows()],
        "total": frame.height,
    }  # fmt: skip


def _heading(column: str, opened: Opened | None) -> str:
    return render_heading(column) if opened is None or column not in POINTS else column.removesuffix("_ns")


def _kind(column: str, frame: pl.DataFrame) -> str:
    numeric = frame.schema[column].is_numeric()
    if numeric and column.endswith("event"):
        return "event"
    if column in POINTS:
        return "time"
    if numeric and column.endswith("_ns"):
        return "ns"
    return "number" if numeric else "text"
