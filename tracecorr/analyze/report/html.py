"""A report or a comparison as one self-contained HTML file without a script: answers, tables, Plotly figures as SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import plotly.graph_objects as go
import polars as pl

from tracecorr.analyze.compare import Comparison
from tracecorr.analyze.report.answers import Answer, Report, Section
from tracecorr.analyze.report.markdown import describe_summary
from tracecorr.analyze.values import Tables, collect, plain_rows, render_heading, render_row, render_value
from tracecorr.analyze.verdicts import Verdict
from tracecorr.analyze.verdicts.model import Finding

_MAX_ROWS, _MAX_EVENTS = 200, 500
_EVENT = re.compile(r"\bevent (\d+)")
_TILES = {"dispatches": "dispatches", "hip_calls": "HIP calls", "ioctls": "ioctls", "queues": "queues",
          "streams": "streams", "records_lost": "records lost"}  # fmt: skip
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .6em 0; font-size: 13px } td, th { border: 1px solid #ccc; padding: 2px 7px }
th { background: #f2f2f2; text-align: left } td { text-align: right } td.text { text-align: left }
div.wide { overflow-x: auto } .note { color: #666; font-size: 13px } .missing { color: #a40 }
nav { columns: 4; font-size: 13px; border: 1px solid #ccc; padding: .6em 1em; margin: 1em 0 } nav a { display: block }
a { color: #0b57d0 } :target { outline: 2px solid #0b57d0 } .tiles { display: flex; flex-wrap: wrap; gap: 1em }
.tiles div { border: 1px solid #ccc; padding: .4em 1em } .tiles b { display: block; font-size: 20px }
.chart { max-width: 100%; height: auto; display: block; margin: 1em 0 }
.chart text { fill: currentColor }
.PASS { color: #06673f } .FAIL { color: #b00020 } .UNKNOWN { color: #7a5900 }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } th { background: #2a2a2a }
td, th, nav, .tiles div { border-color: #444 } a { color: #8ab4f8 } .missing { color: #e6a35c }
.note { color: #aaa } .PASS { color: #5fd3a0 } .FAIL { color: #ff7d8f } .UNKNOWN { color: #e6c35c } }
"""


def render_report_html(report: Report, figures: Mapping[str, go.Figure], events: pl.DataFrame | None = None) -> str:
    """Return the whole report as one page: contents, numbers, plots, answers, verdicts, sections, events.

    Args:
        report: the report.
        figures: charts by name.
        events: the rows of `list_named_events`; numbers of events lead to them.
    """
    first, others = ([a for a in report.answers if a.is_first is is_first] for is_first in (True, False))
    named = frozenset() if events is None else frozenset(events["event"])
    empty = [section for section in report.sections if section.frame.is_empty() and not section.missing]
    shown = [section for section in report.sections if section not in empty]
    heads = {"plots": "Plots", "answers": "Answers", "verdicts": "Verdicts"} | {s.key: s.title for s in shown}
    parts = [
        _contents(heads | ({"events": "Events named here"} if named else {})),
        _tiles(report),
        *(_answer(answer, named) for answer in first),
        '<h2 id="plots">Plots</h2>',
        *_plots(figures),
        '<h2 id="answers">Answers</h2>',
        *(_answer(answer, named) for answer in others),
        '<h2 id="verdicts">Verdicts</h2>',
        _verdicts(report.verdicts, named),
        "<h3>What the capture holds</h3>",
        _list(describe_summary(report)),
        *(("<h3>Machine and run</h3>", _list(report.run)) if report.run else ()),
        *(_section(section, named) for section in shown),
        f'<p class="note">Nothing to show: {escape(", ".join(s.title for s in empty))}</p>' if empty else "",
        *(('<h2 id="events">Events named here</h2>', _event_table(events)) if events is not None and named else ()),
    ]
    return _page(report.name, parts)


def list_named_events(report: Report, tables: Tables) -> pl.DataFrame:
    """Return the events that the report names by number: event, ts_ns, dur_ns, layer, name, result, thread.

    Args:
        report: the report.
        tables: gives the tables of its capture.
    """
    texts = [line for answer in report.answers for line in answer.lines]
    numbers = {int(number) for text in texts for number in _EVENT.findall(text)}
    numbers.update(event for verdict in report.verdicts for event in verdict.finding.events)
    for section in report.sections:
        columns = [c for c in section.table.columns if _names_event(c) and section.table.schema[c].is_integer()]
        for column in columns:
            numbers.update(section.table[column].head(_MAX_ROWS).drop_nulls())
    wanted = sorted(numbers)[:_MAX_EVENTS]
    rows = tables("events").filter(pl.col("event").is_in(wanted))
    return collect(rows.select("event", "ts_ns", "dur_ns", "layer", "name", "result", "thread"))


def _names_event(column: str) -> bool:
    return column == "event" or column.endswith("_event")


def _contents(heads: Mapping[str, str]) -> str:
    links = "".join(f'<a href="#{escape(key)}">{escape(title)}</a>' for key, title in heads.items())
    return f'<nav aria-label="Contents">{links}</nav>'


def _tiles(report: Report) -> str:
    counts = {outcome: sum(v.outcome == outcome for v in report.verdicts) for outcome in ("FAIL", "UNKNOWN", "PASS")}
    tiles = [(report.summary[key], name) for key, name in _TILES.items()]
    tiles += [(count, f'<span class="{outcome}">{outcome}</span>') for outcome, count in counts.items()]
    return '<div class="tiles">' + "".join(f"<div><b>{n}</b>{name}</div>" for n, name in tiles) + "</div>"


def _event_table(events: pl.DataFrame) -> str:
    columns = [c for c in events.columns if c != "event"]
    rows = (
        f'<tr id="event-{row["event"]}"><td>{row["event"]}</td>'
        + "".join(f"<td class=text>{escape(value)}</td>" for value in render_row(columns, [row[c] for c in columns]))
        + "</tr>"
        for row in plain_rows(events)
    )
    return _table_of(["event", *map(render_heading, columns)], rows)


def render_comparison_html(comparison: Comparison, figures: Mapping[str, go.Figure]) -> str:
    """Return a comparison as one page; `figures` by title."""
    title = f"{comparison.first} (A) and {comparison.second} (B)"
    parts = [
        "<h2>Findings</h2>",
        _list(comparison.findings),
        *_plots(figures),
        *(_section(s) for s in comparison.sections),
    ]
    return _page(title, parts)


def render_experiment_html(
    name: str, finding: Finding, sections: Iterable[Section], notices: Iterable[str], stamps: pl.DataFrame
) -> str:
    """Return the report of an experiment as one page, with the latencies of its uninstrumented `stamps`."""
    from tracecorr.analyze import figures

    drawn = figures.draw_policies(stamps)
    parts = [
        _list([*notices, f"{finding.outcome}: the high one keeps its latency: {finding.reason}"]),
        *_plots({"policies": drawn} if figures.has_data(drawn) else {}),
        *(_section(s) for s in sections),
    ]
    return _page(name, parts)


def draw_report_figures(tables: Tables) -> dict[str, go.Figure]:
    """Return the charts of a report that have data."""
    from tracecorr.analyze import figures

    drawn = {
        "rate": figures.draw_rate(tables),
        "latency": figures.draw_latency(tables),
        "paths": figures.draw_paths(tables),
        "depth": figures.draw_queue_depth(tables),
        "calls": figures.draw_hip_calls(tables),
        "clocks": figures.draw_clocks(tables),
    }
    return {name: figure for name, figure in drawn.items() if figures.has_data(figure)}


def draw_comparison_figures(first: Tables, second: Tables) -> dict[str, go.Figure]:
    """Return the charts of a comparison that have data."""
    from tracecorr.analyze import figures

    drawn = {
        "rates": figures.draw_rates({"A": first, "B": second}),
        "latency": figures.draw_latency_of_two(first, second),
    }
    return {name: figure for name, figure in drawn.items() if figures.has_data(figure)}


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - tracecorr</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _answer(answer: Answer, named: Collection[int] = ()) -> str:
    return f"<h3>{escape(answer.question)}</h3>{_list(answer.lines, partial(_prose, named=named))}"


def _plots(figures: Mapping[str, go.Figure]) -> Iterator[str]:
    for name, figure in figures.items():
        yield f'<div id="plot-{escape(name)}">{draw_svg(figure)}</div>'


def _verdicts(verdicts: Iterable[Verdict], named: Collection[int] = ()) -> str:
    rows = []
    for v in verdicts:
        counts = ", ".join(f"{name} {count}" for name, count in v.finding.counts.items() if count)
        before, after = (v.claim.text, v.finding.reason, counts), v.finding.remedy
        events = ", ".join(_link(str(event), event, named) for event in v.finding.events)
        cells = (*(_prose(text, named) for text in before), events, _prose(after, named))
        outcome = f'<td class="text {v.outcome}"><b>{v.outcome}</b></td><td class="text"><code>{v.name}</code></td>'
        rows.append(f"<tr>{outcome}{''.join(f'<td class=text>{c}</td>' for c in cells)}</tr>")
    heads = ("", "verdict", "claim", "what the capture says", "counts", "events", "to know it")
    return _table_of(heads, rows)


def _section(section: Section, named: Collection[int] = ()) -> str:
    parts = [f'<h2 id="{escape(section.key)}">{escape(section.title)}</h2>']
    if section.missing:
        parts.append(f'<p class="missing">Missing: {_prose(section.missing)}.</p>')
    if section.frame.is_empty():
        parts.append("" if section.missing else f"<p>{_prose(section.nothing)}</p>")
        return "\n".join(parts)
    if section.evidence:
        known = _prose(section.evidence)
        parts.append(f'<details class="note"><summary>How it is known</summary>{known}.</details>')
    parts.append(_table(section.table, named))
    return "\n".join(parts)


def _prose(text: str, named: Collection[int] = ()) -> str:
    """Return text of the report as HTML: a name between back quotes is code, the number of an event a link."""
    marked = "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(escape(text).split("`")))
    return _EVENT.sub(lambda found: _link(found[0], int(found[1]), named), marked)


def _link(text: str, event: int | None, named: Collection[int]) -> str:
    return f'<a href="#event-{event}">{text}</a>' if event in named else text


def _table(frame: pl.DataFrame, named: Collection[int] = ()) -> str:
    shown = [c for c in frame.columns if frame[c].null_count() < frame.height]
    text = {c for c in shown if frame.schema[c] in (pl.String, pl.Categorical, pl.Boolean)}
    rows = [
        "<tr>"
        + "".join(f"<td{' class=text' if c in text else ''}>{_cell(c, row[c], named)}</td>" for c in shown)
        + "</tr>"
        for row in plain_rows(frame.head(_MAX_ROWS))
    ]
    more = frame.height - _MAX_ROWS
    note = f'<p class="note">... and {more} more: the JSON form has all</p>' if more > 0 else ""
    return _table_of([render_heading(c) for c in shown], rows) + note


def _cell(column: str, value: Any, named: Collection[int]) -> str:
    text = escape(render_value(column, value))
    return _link(text, value, named) if named and _names_event(column) and isinstance(value, int) else text


def _table_of(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _list(lines: Iterable[str], render: Callable[[str], str] = escape) -> str:
    return "<ul>" + "".join(f"<li>{render(line)}</li>" for line in lines) + "</ul>"


_WIDTH, _HEIGHT, _LEGEND, _TOP, _BOTTOM, _LEFT, _BAR = 900, 300, 230, 34, 46, 70, 24
_LETTER, _TICKS = 6.6, 6
_COLOURS = ("#4269d0", "#e0892a", "#3ca951", "#d6455d", "#8a63c9", "#2a9d9d", "#9c6b4e", "#7f7f7f")
_FRAME, _GRID = (
    'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12"',
    'stroke="#8884" fill="none"',
)
_Point = tuple[float, float]


@dataclass(frozen=True)
class _Scale:
    """Map values of an axis to pixels.

    Args:
        low, high: values at the ends (not equal).
        start, end: pixels of these.
        is_log: whether equal factors are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(v) if self.is_log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values, some six of them."""
        if self.is_log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            return [10.0**power for power in powers] or [self.low, self.high]
        rough = (self.high - self.low) / _TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def draw_svg(figure: go.Figure) -> str:
    """Return a figure as an `<svg>` element whose text has the colour of the page."""
    layout = figure.layout
    bars = [trace for trace in figure.data if trace.type == "bar"]
    body, height = _draw_bars(bars) if bars else _draw_lines(figure)
    title, x_title = escape(layout.title.text or ""), escape(layout.xaxis.title.text or "")
    y_title = escape(layout.yaxis.title.text or "")
    words = [
        _text(_LEFT, 16, title, "start", "bold"),
        _text((_LEFT + _WIDTH - _LEGEND) / 2, height - 8, x_title),
        f'<text transform="translate(14 {height / 2:.0f}) rotate(-90)" text-anchor="middle">{y_title}</text>',
        *_legend(figure.data),
    ]
    frame = f'{_FRAME} viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="{title}"'
    return f'<svg class="chart" {frame}>{"".join((*body, *words))}</svg>'


def _draw_lines(figure: go.Figure) -> tuple[list[str], int]:
    lines = [_points(trace) for trace in figure.data]
    known = [point for line in lines for point in line if point is not None]
    is_log = figure.layout.xaxis.type == "log"
    x = _fit([p[0] for p in known if p[0] > 0 or not is_log], _LEFT, _WIDTH - _LEGEND, is_log)
    y = _fit([0.0, *(p[1] for p in known)], _HEIGHT - _BOTTOM, _TOP)
    drawn = [*_grid_x(x, _HEIGHT), *_grid_y(y)]
    for number, (trace, line) in enumerate(zip(figure.data, lines, strict=True)):
        colour, mode = _colour(trace, number), trace.mode or "lines"
        shown = [(x(p[0]), y(p[1])) if p and (p[0] > 0 or not is_log) else None for p in line]
        if "lines" in mode:
            dash = ' stroke-dasharray="5 4"' if trace.line.dash == "dash" else ""
            path = "".join(_path(shown, has_steps=trace.line.shape == "hv"))
            drawn.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
        if "markers" in mode:
            drawn += [f'<circle cx="{p[0]:.1f}" cy="{p[1]:.1f}" r="2" fill="{colour}"/>' for p in shown if p]
    return drawn, _HEIGHT


def _draw_bars(traces: Sequence[Any]) -> tuple[list[str], int]:
    names = list(dict.fromkeys(str(name) for trace in reversed(traces) for name in reversed(list(trace.y))))
    height = _TOP + _BOTTOM + _BAR * len(names)
    spans = list(_list_spans(traces))
    left = min(_LEFT + _LETTER * max(map(len, names)), _WIDTH / 2)
    x = _fit([*(start for *_, start, _ in spans), *(end for *_, end in spans)], left, _WIDTH - _LEGEND)
    most, drawn = int((left - _LEFT / 4) / _LETTER), _grid_x(x, height)
    drawn += [_text(left - 6, _TOP + _BAR * n + 15, escape(name[:most]), "end") for n, name in enumerate(names)]
    for number, name, start, end in spans:
        trace, top = traces[number], _TOP + _BAR * names.index(name) + 3
        place = f'x="{x(start):.1f}" y="{top}" width="{max(x(end) - x(start), 1):.1f}" height="{_BAR - 6}"'
        told = escape(f"{name}: {trace.name or ''} {end - start:.4g}")
        drawn.append(f'<rect {place} fill="{_colour(trace, number)}"><title>{told}</title></rect>')
    return drawn, height


def _list_spans(traces: Sequence[Any]) -> Iterator[tuple[int, str, float, float]]:
    """Yield the bars: number of the trace, name of the row, start and end; those without a base stand in a stack."""
    ends: dict[str, float] = {}
    for number, trace in enumerate(traces):
        bases = trace.base if trace.base is not None else [None] * len(trace.x)
        for name, value, base in zip(map(str, trace.y), trace.x, bases, strict=True):
            start = ends.get(name, 0.0) if base is None else float(base)
            ends[name] = start + float(value or 0.0)
            yield number, name, start, ends[name]


def _points(trace: Any) -> list[_Point | None]:
    """Return the points of a trace; None if a line is broken."""
    pairs = zip(trace.x if trace.x is not None else (), trace.y if trace.y is not None else (), strict=False)
    return [None if _is_none(x) or _is_none(y) else (float(x), float(y)) for x, y in pairs]


def _is_none(value: Any) -> bool:
    return value is None or not math.isfinite(value)


def _fit(values: Sequence[float], start: float, end: float, is_log: bool = False) -> _Scale:
    """Return the scale on which all values lie."""
    low, high = (min(values), max(values)) if values else (1.0, 1.0)
    if low == high:
        low, high = (low / 2, high * 2) if is_log else (low - 0.5, high + 0.5)
    return _Scale(low, high, start, end, is_log)


def _path(points: Iterable[_Point | None], *, has_steps: bool) -> Iterator[str]:
    is_begun = False
    for point in points:
        if point is not None:
            x, y = point
            yield f"M{x:.1f} {y:.1f}" if not is_begun else f"H{x:.1f}V{y:.1f}" if has_steps else f"L{x:.1f} {y:.1f}"
        is_begun = point is not None


def _grid_x(x: _Scale, height: int) -> list[str]:
    lines = [f'<path {_GRID} d="M{x(t):.1f} {_TOP}V{height - _BOTTOM}"/>' for t in x.ticks()]
    return [*lines, *(_text(x(t), height - _BOTTOM + 15, f"{t:,.6g}") for t in x.ticks())]


def _grid_y(y: _Scale) -> list[str]:
    lines = [f'<path {_GRID} d="M{_LEFT} {y(t):.1f}H{_WIDTH - _LEGEND}"/>' for t in y.ticks()]
    return [*lines, *(_text(_LEFT - 6, y(t) + 4, f"{t:,.6g}", "end") for t in y.ticks())]


def _legend(traces: Sequence[Any]) -> Iterator[str]:
    named = [(number, trace) for number, trace in enumerate(traces) if trace.name]
    for place, (number, trace) in enumerate(named[: (_HEIGHT - _TOP) // 18]):
        top = _TOP + 18 * place
        yield f'<rect x="{_WIDTH - _LEGEND + 12}" y="{top}" width="10" height="10" fill="{_colour(trace, number)}"/>'
        yield _text(_WIDTH - _LEGEND + 28, top + 9, escape(trace.name[:34]), "start")


def _colour(trace: Any, number: int) -> str:
    """Return the colour of a trace: its own, else that of its number."""
    own = trace.marker.color if trace.type == "bar" else trace.line.color
    return own if isinstance(own, str) else _COLOURS[number % len(_COLOURS)]


def _text(x: float, y: float, words: str, anchor: str = "middle", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'
