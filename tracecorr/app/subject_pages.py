"""The pages beside the timeline: what a reader should know first; answers of `analyze` as tables, with charts that lead
back to the timeline.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import plotly.graph_objects as go
import polars as pl

from tracecorr.analyze.compare import Comparison, Side, compare_captures
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.latency import summarize_latency
from tracecorr.analyze.report import questions
from tracecorr.analyze.report.answers import WENT_WRONG, Answer, Section
from tracecorr.analyze.report.questions import explain_failures
from tracecorr.analyze.report.sections import list_sections
from tracecorr.analyze.slow_calls import summarize_slow_calls
from tracecorr.analyze.still_open import describe_still_open
from tracecorr.analyze.values import IDENTIFIERS, POINTS, Tables, addresses_as_text, count_of, render_heading, render_ns
from tracecorr.analyze.verdicts import Outcome, Verdict, judge_capture
from tracecorr.app import charts
from tracecorr.app.library import Opened
from tracecorr.model.errors import TracecorrError

_MAX_ROWS = 2000


@dataclass(frozen=True)
class _Page:
    """Say what a page shows: sections of the report by key, charts, and the questions that it answers in words."""

    title: str
    sections: tuple[str, ...]
    charts: tuple[charts.Chart, ...] = ()
    questions: tuple[str, ...] = ()


PAGES: dict[str, _Page] = {
    "verdicts": _Page(
        "Verdicts", ("open_calls", "open_rings", "complaints", "kernel_log", "glossary"),
        questions=(questions.STILL_OPEN, WENT_WRONG),
    ),
    "queues": _Page(
        "Queues",
        (
            "queues", "queue_creation", "priorities", "service", "hqd", "occupancy", "oversubscribed", "queue_holders",
            "backlog", "fences", "refcounts", "streams", "evictions", "processes", "gpus", "machine",
        ),
        (charts.packets_by_queue, charts.depth_over_time),
        (questions.SHARED, questions.PRIORITY, questions.CREATION, questions.MQD),
    ),
    "kernels": _Page(
        "Kernels", ("kernels", "rocprof", "counters"), (charts.dispatches_by_kernel, charts.latency_by_kernel)
    ),
    "gpu": _Page("GPU", ("gpu_busy", "queue_busy", "gpu_gaps"), questions=(questions.BUSY,)),
    "calls": _Page(
        "HIP calls", ("slow_calls", "hip_calls", "hip_internal", "hsa_calls", "waits", "lock_waits"),
        (charts.time_by_call,),
    ),
    "latency": _Page(
        "Latency", ("kernel_latency", "latency", "launches", "unlinked", "gaps"),
        (charts.latency_by_stage, charts.latency_over_time), (questions.PATH,),
    ),
    "ioctls": _Page(
        "Ioctls", ("ioctls", "syscalls", "devices", "drm_jobs", "driver_events"),
        (charts.time_by_ioctl, charts.ioctls_over_time),
    ),
    "memory": _Page("Memory", ("memory", "copies"), (charts.memory_over_time,)),
    "layers": _Page("Layers", ("layers", "iterations", "paths", "graphs"), (charts.share_of_layers,)),
    "clocks": _Page("Clocks, losses", ("clocks", "time_errors", "losses")),
    "ledger": _Page("Ledger", ("ledger", "unaccounted")),
}  # fmt: skip
COMPARE, SQL = "compare", "sql"
# Sections whose rows sum up the events of one name.
_BY_NAME = frozenset({"kernels", "hip_calls", "hip_internal", "hsa_calls", "waits", "ioctls", "driver_events"})


class _Answers:
    """Work out the sections of one capture's report one after the other, and no more than is asked for."""

    def __init__(self, opened: Opened) -> None:
        """Answer about `opened`."""
        capture = opened.index.capture
        self.evidence = Evidence(capture.table, None, capture.info, capture.tables_of_nodes())
        self._rest = list_sections(self.evidence)
        self._known: dict[str, Section] = {}
        self._lock = threading.Lock()

    def sections(self, keys: Sequence[str]) -> list[Section]:
        """Return some sections; those that this version does not have are left out."""
        with self._lock:
            while not set(keys) <= set(self._known):
                section = next(self._rest, None)
                if section is None:
                    break
                self._known[section.key] = section
            return [self._known[key] for key in keys if key in self._known]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Return the verdict on every claim."""
        return judge_capture(self.evidence)

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Return the answers in words."""
        return questions.answer_everything(self.evidence, self.verdicts)


class Reports:
    """Keep the answers about each capture while it is open: they take seconds on a large one."""

    def __init__(self) -> None:
        """Know nothing yet."""
        # A recording that runs is opened again and again: what was told of one reading is wrong of the next.
        self._known: WeakKeyDictionary[Opened, _Answers] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def get(self, opened: Opened) -> _Answers:
        """Return the answers about a capture."""
        with self._lock:
            found = self._known.get(opened)
            if found is None:
                found = self._known[opened] = _Answers(opened)
            return found


def show_page(name: str, opened: Opened, reports: Reports) -> dict[str, Any]:
    """Return the page `name` of a capture, as JSON can hold it.

    Raises:
        KeyError: there is no such page.
    """
    page, answers = PAGES[name], reports.get(opened)
    source = charts.Source(opened.index.capture.table, opened.index.t0_ns, opened.index.owners.queue_numbers)
    drawn = [chart(source) for chart in page.charts]
    told = {a.question: a for a in answers.answers} if page.questions else {}
    return {
        "title": page.title,
        "sections": [_section(s, opened) for s in answers.sections(page.sections)],
        "charts": [_figure(f) for f in drawn if f is not None],
        "verdicts": [v.as_dict() for v in answers.verdicts] if name == "verdicts" else [],
        "answers": [told[question].as_dict() for question in page.questions if question in told],
    }


def compare_two(first: Opened, second: Opened) -> Comparison:
    """Return how two captures differ."""
    captures = [(o.name, o.index.capture) for o in (first, second)]
    sides = [Side(name, c.table, c.info, c.tables_of_nodes()) for name, c in captures]
    return compare_captures(sides[0], sides[1])


def show_comparison(first: Opened, second: Opened) -> dict[str, Any]:
    """Return the comparison of two captures: tables side by side, distributions over each other."""
    found = compare_two(first, second)
    drawn = charts.overlay_latency([(one.name, one.index.capture.table) for one in (first, second)])
    return {
        "title": _title_pair(first.name, second.name),
        "findings": list(found.findings),
        "sections": [_section(s, None) for s in found.sections],
        "charts": [] if drawn is None else [_figure(drawn)],
    }


def refuse_comparison(first: str, second: str, problem: TracecorrError) -> dict[str, Any]:
    """Return in place of a comparison why the second capture cannot be opened, and what to do."""
    said = [
        f"{second} cannot be opened: {problem.what}",
        f"Next step: {problem.next_step}" if problem.next_step else "",
    ]
    return {"title": _title_pair(first, second), "problem": list(filter(None, said)), "sections": [], "charts": []}


def _title_pair(first: str, second: str) -> str:
    return f"{first} (A) and {second} (B)"


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
    shown, finds_names = addresses_as_text(frame.head(_MAX_ROWS)), opened is not None and section.key in _BY_NAME
    kinds = {c: "name" if c == "name" and finds_names else _kind(c, shown) for c in shown.columns}
    columns = [
        {"name": c, "heading": _heading(c, opened), "kind": kinds[c], "names": _names(shown[c], opened)}
        for c in shown.columns
    ]
    return {
        "key": section.key, "title": section.title, "evidence": section.evidence, "missing": section.missing,
        "nothing": section.nothing, "columns": columns, "rows": [list(row) for row in shown.rows()],
        "total": frame.height,
    }  # fmt: skip


def show_rows(title: str, rows: pl.DataFrame, total: int, opened: Opened | None = None) -> dict[str, Any]:
    """Return rows as a table of the page.

    Args:
        title: of the table.
        rows: their times are those of the host with `opened`, else ns since the capture start.
        total: how many rows there are.
        opened: names the owners in the rows.
    """
    return _section(Section("rows", title, rows), opened) | {"total": total}


def _names(values: pl.Series, opened: Opened | None) -> dict[str, str]:
    """Return what the timeline calls the owners that a column names by their keys, by the column's values as text."""
    if opened is None:
        return {}
    owners = opened.index.owners
    if values.name == "queues" and values.dtype == pl.String:  # keys, one after the other
        keys = [text for text in values.unique() if text]
        return {text: ", ".join(_queue(key, owners.queue_numbers) for key in text.split(", ")) for text in keys}
    known = {
        "process": owners.processes, "thread": owners.threads, "queue": owners.queue_numbers, "gpu": owners.gpus,
    }.get(values.name)  # fmt: skip
    if known is None or not values.dtype.is_integer():
        return {}
    return {str(key): known[key].removeprefix(f"{values.name} ") for key in values.unique() if key in known}


def _queue(key: str, numbers: Mapping[int, str]) -> str:
    return numbers.get(int(key), key).removeprefix("queue ") if key.isdecimal() else key


def _heading(column: str, opened: Opened | None) -> str:
    return (
        render_heading(column)
        if opened is None or column not in POINTS
        else column.removesuffix("_ns").replace("_", " ")
    )


def _kind(column: str, frame: pl.DataFrame) -> str:
    numeric = frame.schema[column].is_numeric()
    if numeric and column.endswith("event"):
        return "event"
    if column in POINTS:
        return "time"
    if numeric and column.endswith("_ns"):
        return "ns"
    if column in IDENTIFIERS:
        return "key"
    return "number" if numeric else "text"


_MOST = 3  # lines of one kind
# Those of the path that no other one holds; the observed completion is when the host looked, no stage of its own.
_STAGES = (
    "call to packet", "packet to doorbell", "doorbell to return", "doorbell to GPU start", "GPU start to GPU end",
)  # fmt: skip
_TOLD_AS_OPEN = "no_deadlock"  # the open calls tell the same
_Line = dict[str, Any]


def list_findings(answers: _Answers) -> list[_Line]:
    """Return what a reader should know first: what was open, what failed, failed verdicts, findings, what is slowest.

    Args:
        answers: about one capture.

    Returns: kind (`open`, `failed`, `found`, `slow`, `good`), text, and lead: `["event", id]` or `["page", name]`.
    """
    found = [*_open_calls(answers), *_failures(answers), *_failed_verdicts(answers)]
    outcomes = [verdict.outcome for verdict in answers.verdicts]
    if not found:
        told = ", ".join(f"{outcomes.count(one)} {one}" for one in (Outcome.PASS, Outcome.UNKNOWN))
        found.append({"kind": "good", "text": f"no failure found; verdicts: {told}", "lead": ["page", "verdicts"]})
    known = [{"kind": "found", "text": a.finding, "lead": ["page", "queues"]} for a in answers.answers if a.finding]
    return [*found, *known, *_slowest_call(answers.evidence.tables), *_slowest_stage(answers.evidence.tables)]


def _open_calls(answers: _Answers) -> Iterator[_Line]:
    still_open = answers.evidence.still_open
    for row in still_open.calls.head(_MOST).iter_rows(named=True):
        why = f": {row['waits_for']}" if row["waits_for"] else ""
        text = f"open at the end: {row['name']} for at least {render_ns(row['open_ns'])}{why}"
        yield {"kind": "open", "text": text, "lead": ["event", row["event"]]}
    if (more := still_open.calls.height - _MOST) > 0:
        yield {"kind": "open", "text": f"{count_of(more, 'more open call')}", "lead": ["page", "verdicts"]}
    ends = [line for line in describe_still_open(still_open) if ": a deadlock" in line]
    yield from ({"kind": "open", "text": line, "lead": ["page", "verdicts"]} for line in ends[:1])


def _failures(answers: _Answers) -> Iterator[_Line]:
    for answer in explain_failures(answers.evidence):
        lines = answer.lines[:_MOST]
        for line in lines:
            lead = "ioctls" if "section Ioctls" in line else "verdicts"
            yield {"kind": "failed", "text": line.replace(" (section Ioctls)", ""), "lead": ["page", lead]}
        if (more := len(answer.lines) - len(lines)) > 0:
            yield {"kind": "failed", "text": f"{more} more of what went wrong", "lead": ["page", "verdicts"]}


def _failed_verdicts(answers: _Answers) -> Iterator[_Line]:
    failed = [v for v in answers.verdicts if v.outcome is Outcome.FAIL and v.name != _TOLD_AS_OPEN]
    if failed:
        one = f"verdict {failed[0].name} FAIL: {failed[0].finding.reason}"
        text = one if len(failed) == 1 else f"{len(failed)} verdicts FAIL: {', '.join(v.name for v in failed)}"
        yield {"kind": "failed", "text": text, "lead": ["page", "verdicts"]}


def _slowest_call(tables: Tables) -> Iterator[_Line]:
    for event, told in summarize_slow_calls(tables).select("call_event", "summary").head(1).iter_rows():
        yield {"kind": "slow", "text": f"slowest call: {told}", "lead": ["event", event]}


def _slowest_stage(tables: Tables) -> Iterator[_Line]:
    """Yield the stage of a dispatch with the longest median."""
    rows = summarize_latency(tables("launches"), tables("events"))
    rows = rows.filter(pl.col("kind") == "dispatch", pl.col("stage").is_in(_STAGES)).sort("p50_ns", descending=True)
    for row in rows.head(1).iter_rows(named=True):
        text = (
            f"slowest stage of a dispatch: {row['stage']}, median {render_ns(row['p50_ns'])}, P99 "
            f"{render_ns(row['p99_ns'])} ({count_of(row['packets'], 'dispatches', 'dispatch')}, {row['evidence']})"
        )
        yield {"kind": "slow", "text": text, "lead": ["page", "latency"]}
