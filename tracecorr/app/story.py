"""What the page shows first: what a reader should know, one line each, and one steady launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tracecorr.analyze.calls import list_graph_calls, list_setup_calls
from tracecorr.analyze.frames import Tables, collect
from tracecorr.analyze.latency import summarize_latency
from tracecorr.analyze.report.questions import explain_failures
from tracecorr.analyze.still_open import describe_still_open
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts import Outcome
from tracecorr.app.pages import Answers

_LOOKED_AT = 20_000  # launches, around the middle of the capture
_MOST = 3  # lines of one kind
# Those of the path that no other one holds; the observed completion is when the host looked, no stage of its own.
_STAGES = (
    "call to packet", "packet to doorbell", "doorbell to return", "doorbell to GPU start", "GPU start to GPU end",
)  # fmt: skip
_TOLD_AS_OPEN = "no_deadlock"  # the open calls tell the same
Line = dict[str, Any]


def find_steady_launch(tables: Tables) -> int | None:
    """Return the HIP call of a dispatch without set-up work whose duration is the median; None where there is none.

    Of calls with more and less known moments only those with the most are looked at.

    Args:
        tables: gives the table of a capture by its name.
    """
    dispatches = tables("launches").filter(
        pl.col("kind").cast(pl.String) == "dispatch",
        pl.col("call_event").is_not_null(),
        pl.col("return_ns").is_not_null(),
    )
    count = int(collect(dispatches.select(pl.len())).item())
    middle = dispatches.slice(max(0, (count - _LOOKED_AT) // 2), _LOOKED_AT)
    moments = ("doorbell_event", "gpu_start_ns", "complete_ns")
    known = pl.sum_horizontal(pl.col(c).is_not_null().cast(pl.Int32) for c in moments)
    rows = middle.select("event", "call_event", known=known, took=pl.col("return_ns") - pl.col("call_ns")).collect()
    others = pl.concat([
        list_graph_calls(tables("events")).select("call_event").collect(),
        list_setup_calls(tables("events")).select(call_event="chain"),
    ])  # fmt: skip
    rows = rows.join(others, on="call_event", how="anti", maintain_order="left")
    rows = rows.filter(pl.col("known") == pl.col("known").max())
    away = (pl.col("took") - pl.col("took").quantile(0.5, "equiprobable")).abs()
    found = rows.sort(away, "event").select("call_event").head(1)
    return int(found.item()) if found.height else None


def list_findings(answers: Answers) -> list[Line]:
    """Return what a reader should know first: what was open, what failed, failed verdicts, the slowest stage.

    Args:
        answers: about one capture.

    Returns: kind (`open`, `failed`, `slow`, `good`), text, and lead: `["event", id]` or `["page", name]`.
    """
    found = [*_open_calls(answers), *_failures(answers), *_failed_verdicts(answers)]
    outcomes = [verdict.outcome for verdict in answers.verdicts]
    if not found:
        told = ", ".join(f"{outcomes.count(one)} {one}" for one in (Outcome.PASS, Outcome.UNKNOWN))
        found.append({"kind": "good", "text": f"no failure found; verdicts: {told}", "lead": ["page", "verdicts"]})
    return [*found, *_slowest_stage(answers.evidence.tables)]


def _open_calls(answers: Answers) -> Iterator[Line]:
    still_open = answers.evidence.still_open
    for row in still_open.calls.head(_MOST).iter_rows(named=True):
        why = f": {row['waits_for']}" if row["waits_for"] else ""
        text = f"open at the end: {row['name']} for at least {render_ns(row['open_ns'])}{why}"
        yield {"kind": "open", "text": text, "lead": ["event", row["event"]]}
    if (more := still_open.calls.height - _MOST) > 0:
        yield {"kind": "open", "text": f"{count_of(more, 'more open call')}", "lead": ["page", "verdicts"]}
    ends = [line for line in describe_still_open(still_open) if ": a deadlock" in line]
    yield from ({"kind": "open", "text": line, "lead": ["page", "verdicts"]} for line in ends[:1])


def _failures(answers: Answers) -> Iterator[Line]:
    for answer in explain_failures(answers.evidence):
        lines = answer.lines[:_MOST]
        for line in lines:
            lead = "ioctls" if "section Ioctls" in line else "verdicts"
            yield {"kind": "failed", "text": line.replace(" (section Ioctls)", ""), "lead": ["page", lead]}
        if (more := len(answer.lines) - len(lines)) > 0:
            yield {"kind": "failed", "text": f"{more} more of what went wrong", "lead": ["page", "verdicts"]}


def _failed_verdicts(answers: Answers) -> Iterator[Line]:
    failed = [v for v in answers.verdicts if v.outcome is Outcome.FAIL and v.name != _TOLD_AS_OPEN]
    for verdict in failed[:_MOST]:
        text = f"verdict {verdict.name} FAIL: {verdict.finding.reason}"
        yield {"kind": "failed", "text": text, "lead": ["page", "verdicts"]}
    if (more := len(failed) - _MOST) > 0:
        yield {"kind": "failed", "text": f"{count_of(more, 'more failed verdict')}", "lead": ["page", "verdicts"]}


def _slowest_stage(tables: Tables) -> Iterator[Line]:
    """Yield the stage of a dispatch with the longest median."""
    rows = summarize_latency(tables("launches"), tables("events"))
    rows = rows.filter(pl.col("kind") == "dispatch", pl.col("stage").is_in(_STAGES)).sort("p50_ns", descending=True)
    for row in rows.head(1).iter_rows(named=True):
        text = (
            f"slowest stage of a dispatch: {row['stage']}, median {render_ns(row['p50_ns'])}, P99 "
            f"{render_ns(row['p99_ns'])} ({count_of(row['packets'], 'dispatches', 'dispatch')}, {row['evidence']})"
        )
        yield {"kind": "slow", "text": text, "lead": ["page", "latency"]}
