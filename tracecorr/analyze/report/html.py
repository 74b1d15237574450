"""A report or a comparison as one self-contained HTML file: tables, plots, and the script that draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape

import plotly.graph_objects as go
import polars as pl
from plotly.offline import get_plotlyjs

from tracecorr.analyze.compare import Comparison
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.report.answers import Answer, Report, Section
from tracecorr.analyze.report.markdown import describe_summary
from tracecorr.analyze.values import plain_rows, render_heading, render_value
from tracecorr.analyze.verdicts import Verdict
from tracecorr.analyze.verdicts.model import Finding

_MAX_ROWS = 200
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .6em 0; font-size: 13px } td, th { border: 1px solid #ccc; padding: 2px 7px }
th { background: #f2f2f2; text-align: left } td { text-align: right } td.text { text-align: left }
div.wide { overflow-x: auto } .note { color: #666; font-size: 13px } .missing { color: #a40 }
.PASS { color: #06673f } .FAIL { color: #b00020 } .UNKNOWN { color: #7a5900 } nav a { margin-right: 1em }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } th { background: #2a2a2a }
td, th { border-color: #444 } .PASS { color: #5fd3a0 } .FAIL { color: #ff7d8f } .UNKNOWN { color: #e6c35c } }
"""


def render_report_html(report: Report, figures: Mapping[str, go.Figure]) -> str:
    """Return the whole report as one page; `figures` by title."""
    first, others = ([a for a in report.answers if a.is_first is is_first] for is_first in (True, False))
    parts = [
        *map(_answer, first),
        _list(describe_summary(report)),
        *(("<h2>Machine and run</h2>", _list(report.run)) if report.run else ()),
        "<h2>Answers</h2>",
        *map(_answer, others),
        "<h2>Verdicts</h2>",
        _verdicts(report.verdicts),
        *_plots(figures),
        *(_section(s) for s in report.sections),
    ]
    return _page(report.name, parts)


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
    script = f"<script>{get_plotlyjs()}</script>" if 'class="plotly-graph-div"' in body else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - tracecorr</title>'
        f"<style>{_STYLE}</style>{script}</head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _answer(answer: Answer) -> str:
    return f"<h3>{escape(answer.question)}</h3>{_list(answer.lines, _prose)}"


def _plots(figures: Mapping[str, go.Figure]) -> Iterator[str]:
    for name, figure in figures.items():
        yield str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=f"plot-{name}"))


def _verdicts(verdicts: Iterable[Verdict]) -> str:
    rows = []
    for v in verdicts:
        counts = ", ".join(f"{name} {count}" for name, count in v.finding.counts.items() if count)
        cells = (v.claim.text, v.finding.reason, counts, ", ".join(map(str, v.finding.events)), v.finding.remedy)
        outcome = f'<td class="text {v.outcome}"><b>{v.outcome}</b></td><td class="text"><code>{v.name}</code></td>'
        rows.append(f"<tr>{outcome}{''.join(f'<td class=text>{_prose(c)}</td>' for c in cells)}</tr>")
    heads = ("", "verdict", "claim", "what the capture says", "counts", "events", "to know it")
    return _table_of(heads, rows)


def _section(section: Section) -> str:
    parts = [f'<h2 id="{escape(section.key)}">{escape(section.title)}</h2>']
    if section.missing:
        parts.append(f'<p class="missing">Missing: {_prose(section.missing)}.</p>')
    if section.frame.is_empty():
        parts.append("" if section.missing else f"<p>{_prose(section.nothing)}</p>")
        return "\n".join(parts)
    if section.evidence:
        parts.append(f'<p class="note">How it is known: {_prose(section.evidence)}.</p>')
    parts.append(_table(section.table))
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Return text of the report as HTML: a name between back quotes is code."""
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(escape(text).split("`")))


def _table(frame: pl.DataFrame) -> str:
    shown = [c for c in frame.columns if frame[c].null_count() < frame.height]
    text = {c for c in shown if frame.schema[c] in (pl.String, pl.Categorical, pl.Boolean)}
    rows = [
        "<tr>"
        + "".join(f"<td{' class=text' if c in text else ''}>{escape(render_value(c, row[c]))}</td>" for c in shown)
        + "</tr>"
        for row in plain_rows(frame.head(_MAX_ROWS))
    ]
    more = frame.height - _MAX_ROWS
    note = f'<p class="note">... and {more} more: the JSON form has all</p>' if more > 0 else ""
    return _table_of([render_heading(c) for c in shown], rows) + note


def _table_of(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _list(lines: Iterable[str], render: Callable[[str], str] = escape) -> str:
    return "<ul>" + "".join(f"<li>{render(line)}</li>" for line in lines) + "</ul>"
