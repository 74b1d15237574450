"""Write a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from tracecorr.analyze.compare import Comparison
from tracecorr.analyze.report.answers import Answer, Report, Section
from tracecorr.analyze.values import count_of, plain_rows, render_heading, render_ns, render_value
from tracecorr.analyze.verdicts import Verdict
from tracecorr.analyze.verdicts.model import Finding
from tracecorr.model.printable import printable

_MAX_ROWS = 40
_MAX_TEXT = 80
# The worst error is named apart from the usual one where it is so many times larger.
_MUCH, _STEP_NS = 10, 1_000
# Domain of rocprof -> what its rows are called.
_PROFILED = {
    "KERNEL_DISPATCH": ("kernel dispatches", "kernel dispatch"),
    "MEMORY_COPY": ("copies", "copy"),
    "HIP_API": ("HIP call",),
    "HSA_API": ("HSA call",),
    "MARKER_API": ("marker",),
}


def render_markdown(report: Report, max_rows: int | None = None) -> str:
    """Return the whole report.

    Args:
        report: the report.
        max_rows: of each table; further rows are counted, not shown.
    """
    sections = (line for s in report.sections for line in render_section(s, max_rows or _MAX_ROWS))
    first, others = ([a for a in report.answers if a.is_first is is_first] for is_first in (True, False))
    head = (*_summary_lines(report, first), *_run_lines(report), "## Answers\n", *_answer_lines(others))
    return "\n".join((*head, *_verdict_lines(report.verdicts), *sections))


def render_comparison(comparison: Comparison) -> str:
    """Return a comparison of two captures: the findings, then the tables behind them."""
    head = [f"# {comparison.first} (A) and {comparison.second} (B)\n", "## Findings\n"]
    findings = [f"- {line}" for line in comparison.findings]
    return "\n".join((*head, *findings, "", *(line for s in comparison.sections for line in render_section(s))))


def render_experiment(name: str, finding: Finding, sections: Iterable[Section], notices: Iterable[str] = ()) -> str:
    """Return the report of an experiment: warnings, its verdict, then the tables."""
    head = [f"# {name}\n", *(f"**Not together:** {notice}\n" for notice in notices)]
    head.append(f"**{finding.outcome}** the high one keeps its latency: {finding.reason}")
    if finding.remedy:
        head.append(f"- to know it: {finding.remedy}")
    return "\n".join((*head, "", *(line for s in sections for line in render_section(s))))


def render_table(frame: pl.DataFrame, max_rows: int = _MAX_ROWS, max_text: int | None = _MAX_TEXT) -> str:
    """Return a frame as a Markdown table, with units; empty columns are left out.

    Args:
        frame: the table.
        max_rows: further rows are counted, not shown.
        max_text: longer texts are shortened; None = never.
    """
    shown = [c for c in frame.columns if frame[c].null_count() < frame.height]
    lines = [_row(render_heading(c) for c in shown), _row("---" for _ in shown)]
    lines += [_row(_cell(render_value(c, row[c]), max_text) for c in shown) for row in plain_rows(frame.head(max_rows))]
    if frame.height > max_rows:
        lines.append(f"\n... and {frame.height - max_rows} more: `--json` has all")
    return "\n".join(lines)


def _summary_lines(report: Report, first: Iterable[Answer]) -> Iterator[str]:
    yield f"# {report.name}\n"
    yield from _answer_lines(first)
    yield from (f"- {line}" for line in describe_summary(report))
    yield ""


def _run_lines(report: Report) -> Iterator[str]:
    if report.run:
        yield "## Machine and run\n"
        yield from (f"- {line}" for line in report.run)
        yield ""


def describe_summary(report: Report) -> Iterator[str]:
    """Yield what the capture holds and what is wrong with it, one fact a line."""
    s = report.summary
    log, trace = "amd_log" in s["sources"], "ftrace" in s["sources"]
    yield f"sources: {', '.join(s['sources']) or 'none'}"
    internal = f" (and {s['hip_internal']} internal functions)" if s["hip_internal"] else ""
    calls = f"{count_of(s['hip_calls'], 'HIP call')}{internal}" if log else "HIP calls not recorded"
    queues_there, streams_there = (f"{count_of(n, what)} in the profile" if n else "" for n, what in zip(
        s["profiled"], ("queue", "stream"), strict=True
    ))  # fmt: skip
    streams = count_of(s["streams"], "stream") if log else streams_there or "streams not recorded"
    none = "no ioctl in the readable part of the trace" if s["trace_losses"] else "no ioctl in the trace"
    seen = count_of(s["ioctls"], "ioctl") if s["ioctls"] else none
    seen += " in the time of the kernel trace" if s["ioctls"] and s["trace_covers"] else ""
    ioctls = seen if trace else "ioctls not recorded"
    ioctls += f", {count_of(s['drm_jobs'], 'DRM job')}" if s["drm_jobs"] else ""
    least = f"{s['queues'] - s['queues_doubled']} to " if s["queues_doubled"] else ""
    queues = f"{least}{count_of(s['queues'], 'queue')}" if s["queues"] else queues_there or "no queue known"
    yield f"{calls}, {ioctls}, {queues}, {streams}"
    if log:
        both = count_of(s["packets_and_copies"], "packets and copies", "packet or copy")
        yield f"{_dispatch_text(s)}; {both}"
    if log or s["doorbell_stores"]:
        yield f"doorbells: {_doorbell_text(s, log)}"
    if s["rocprof"] is not None:
        yield f"rocprof: {_profile_text(s['rocprof'])}"
    yield f"clocks: {_clock_text(s)}"
    yield from s["trace_covers"]
    yield f"records lost: {_loss_text(s)}"


def _loss_text(summary: dict[str, Any]) -> str:
    told = _told_losses(summary)
    if not summary["killed"]:
        return told
    unstored = "an unknown number that the killed capture had not stored"
    return unstored if told == "0" else f"{told}, and {unstored}"


def _told_losses(summary: dict[str, Any]) -> str:
    spans = count_of(summary["losses_untold"], "span") if summary["losses_untold"] else ""
    if spans and not summary["records_lost"]:
        return f"an unknown number, in {spans}"
    least = "at least " if summary["losses_at_least"] and summary["records_lost"] else ""
    return f"{least}{summary['records_lost']}" + (f", and those of {spans} of unknown number" if spans else "")


def _doorbell_text(summary: dict[str, Any], log: bool) -> str:
    stores = summary["doorbell_stores"]
    if summary["packets"]:
        # Packets of a graph launch share a store.
        shared = f" (by {count_of(stores, 'store')})" if stores < summary["doorbells_recorded"] else ""
        return f"{summary['doorbells_recorded']} recorded{shared}, {summary['doorbells_inferred']} inferred"
    told = f"{count_of(stores, 'store')} recorded, of unknown packets" if stores else "none known"
    return f"{told}: no packet is in the log" if log else f"{told}: there is no HIP log"


def _dispatch_text(summary: dict[str, Any]) -> str:
    if summary["dispatches"]:
        kernels = count_of(summary["kernels"], "kernel") if summary["kernels"] else "unknown kernels"
        return f"{count_of(summary['dispatches'], 'dispatches', 'dispatch')} of {kernels}"
    named = count_of(summary["kernels_named"], "kernels are named", "kernel is named")
    what = f"no dispatch ({named})" if summary["kernels_named"] else "no dispatch"
    if summary["launches_named"] and not summary["packets"]:
        lines = count_of(summary["launches_named"], "line")
        return f"{what}, but {lines} of launches: AMD_LOG_LEVEL was too low to print packets"
    # Up to level 3, from ROCm 7.2 on up to 4, a log prints no packet.
    return what if summary["packets"] else f"{what}: none was submitted, or AMD_LOG_LEVEL was too low to print them"


def _profile_text(calls: Mapping[str, int]) -> str:
    """Return what a profiler recorded: the number of rows by domain."""
    told = [count_of(calls[domain], *noun) for domain, noun in _PROFILED.items() if domain in calls]
    rest = sum(n for domain, n in calls.items() if domain not in _PROFILED)
    told += [count_of(rest, "other row")] if rest else []
    return ", ".join(told) or "no row with times (sums are not events); see Used, skipped and lost bytes"


def _clock_text(summary: dict[str, Any]) -> str:
    alone = summary.get("nodes_of_one_clock") or []
    if not alone or summary["clocks"] == 1:
        return _alignment_text(summary)
    return f"{_alignment_text(summary)}; on {', '.join(alone)} there is only one clock"


def _alignment_text(summary: dict[str, Any]) -> str:
    if summary["unaligned"] and summary["clocks"] == 1:
        return "only one, nothing to align; times are those of this clock, not of CLOCK_MONOTONIC"
    if summary["unaligned"]:
        return f"UNALIGNED: {', '.join(summary['unaligned'])}; none of its events is linked by time"
    error, unknown = summary["time_error_ns"], summary["time_error_unknown"]
    if error is None:
        return f"the error of {count_of(unknown, 'event')} is unknown" if unknown else "no event has a time"
    how = "aligned" if summary["clocks"] > 1 else "only one, nothing to align"
    rest = f"; the error of {count_of(unknown, 'event')} is unknown" if unknown else ""
    return f"{how}; {_error_text(summary)}{rest}"


def _error_text(summary: dict[str, Any]) -> str:
    """Return the error of the starts of events: of most, and of the worst if that is much larger."""
    worst, usual = summary["time_error_ns"], summary["time_error_p50_ns"]
    every = "every other event" if summary["time_error_unknown"] else "every event"
    if worst == 0:
        return f"the start of {every} is known to the nanosecond"
    if worst <= _MUCH * max(usual, _STEP_NS):
        return f"the start of {every} is known to {render_ns(worst)}"
    clock = f", by the clock {summary['widest_clock']}" if summary["widest_clock"] else ""
    return f"the start of most events is known to {render_ns(usual)}, of the worst to {render_ns(worst)}{clock}"


def _verdict_lines(verdicts: Iterable[Verdict]) -> Iterator[str]:
    yield "## Verdicts\n"
    for verdict in verdicts:
        finding = verdict.finding
        yield f"- **{verdict.outcome}** `{verdict.name}`: {verdict.claim.text}."
        yield f"  - {finding.reason}"
        counts = ", ".join(f"{name} {count}" for name, count in finding.counts.items() if count)
        if counts:
            yield f"  - counts: {counts}"
        if finding.events:
            yield f"  - events: {', '.join(map(str, finding.events))}"
        if finding.remedy:
            yield f"  - to know it: {finding.remedy}"
    yield ""


def _answer_lines(answers: Iterable[Answer]) -> Iterator[str]:
    for answer in answers:
        yield f"**{answer.question}**\n"
        yield from (f"- {line}" for line in answer.lines)
        yield ""


def render_section(section: Section, max_rows: int | None = _MAX_ROWS) -> Iterator[str]:
    """Yield the lines of a section: what is missing, how it is known, its table.

    Args:
        section: the section.
        max_rows: further rows are counted, not shown; None = all are.
    """
    yield f"## {section.title}\n"
    if section.missing:
        yield f"**Missing:** {section.missing}.\n"
    if section.frame.is_empty():
        if not section.missing:
            yield f"{section.nothing}\n"
        return
    if section.evidence:
        yield f"How it is known: {section.evidence}.\n"
    rows = section.frame.height if max_rows is None else max_rows
    yield render_table(section.table, rows, None if section.is_whole else _MAX_TEXT)
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str, max_text: int | None) -> str:
    if max_text is not None and len(text) > max_text:
        # Names of kernels differ at their ends.
        text = f"{text[: max_text // 2]}...{text[max_text // 2 + 3 - max_text :]}"
    return printable(text).replace("|", "\\|")
