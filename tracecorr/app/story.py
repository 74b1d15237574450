"""What the page tells first: what a reader should know, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tracecorr.analyze.frames import Tables
from tracecorr.analyze.latency import summarize_latency
from tracecorr.analyze.report.questions import explain_failures
from tracecorr.analyze.slow_calls import summarize_slow_calls
from tracecorr.analyze.still_open import describe_still_open
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts import Outcome
from tracecorr.app.pages import Answers

_MOST = 3  # lines of one kind
# Those of the path that no other one holds; the observed completion is when the host looked, no stage of its own.
_STAGES = (
    "call to packet", "packet to doorbell", "doorbell to return", "doorbell to GPU start", "GPU start to GPU end",
)  # fmt: skip
_TOLD_AS_OPEN = "no_deadlock"  # the open calls tell the same
_Line = dict[str, Any]


def list_findings(answers: Answers) -> list[_Line]:
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


def _open_calls(answers: Answers) -> Iterator[_Line]:
    still_open = answers.evidence.still_open
    for row in still_open.calls.head(_MOST).iter_rows(named=True):
        why = f": {row['waits_for']}" if row["waits_for"] else ""
        text = f"open at the end: {row['name']} for at least {render_ns(row['open_ns'])}{why}"
        yield {"kind": "open", "text": text, "lead": ["event", row["event"]]}
    if (more := still_open.calls.height - _MOST) > 0:
        yield {"kind": "open", "text": f"{count_of(more, 'more open call')}", "lead": ["page", "verdicts"]}
    ends = [line for line in describe_still_open(still_open) if ": a deadlock" in line]
    yield from ({"kind": "open", "text": line, "lead": ["page", "verdicts"]} for line in ends[:1])


def _failures(answers: Answers) -> Iterator[_Line]:
    for answer in explain_failures(answers.evidence):
        lines = answer.lines[:_MOST]
        for line in lines:
            lead = "ioctls" if "section Ioctls" in line else "verdicts"
            yield {"kind": "failed", "text": line.replace(" (section Ioctls)", ""), "lead": ["page", lead]}
        if (more := len(answer.lines) - len(lines)) > 0:
            yield {"kind": "failed", "text": f"{more} more of what went wrong", "lead": ["page", "verdicts"]}


def _failed_verdicts(answers: Answers) -> Iterator[_Line]:
    failed = [v for v in answers.verdicts if v.outcome is Outcome.FAIL and v.name != _TOLD_AS_OPEN]
    if failed:
        one = f"verdict {failed[0].name} FAIL: {failed[0].finding.reason}"
        text = one if len(failed) == 1 else f"{len(failed)} verdicts FAIL: {', '.join(v.name for v in failed)}"
        yield {"kind": "failed", "text": text, "lead": ["page", "verdicts"]}


def _slowest_call(tables: Tables) -> Iterator[_Line]:
    for event, told in summarize_slow_calls(tables).select("call_event", "told").head(1).iter_rows():
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
