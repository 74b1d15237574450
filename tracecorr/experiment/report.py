"""The report of an experiment: figures of the plain rounds, what the captured rounds say, the verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.experiment.causes import add_causes
from tracecorr.analyze.experiment.latency import judge_latency
from tracecorr.analyze.experiment.overlap import describe_apart, is_apart, list_overlaps
from tracecorr.analyze.experiment.phases import measure_overhead, summarize_phases, summarize_throughput
from tracecorr.analyze.experiment.stamps import APART, TOGETHER
from tracecorr.analyze.experiment.yields import TIMES, find_limit, summarize_yields
from tracecorr.analyze.priorities import summarize_priorities
from tracecorr.analyze.values import plain_rows, render_ns
from tracecorr.analyze.verdicts.model import Finding
from tracecorr.experiment.figures import count_moves, summarize_load
from tracecorr.experiment.preempt import Runs
from tracecorr.store import Capture

_BOTH = "both were started at once; beside = launches while the other one was at work (first start to last completion)"
_PARTS = (
    f"together = launches of these rounds beside the other one's work, {APART} = those of the same rounds that the "
    "other one left alone"
)
_NOTHING = "UNKNOWN: nothing was captured"


@dataclass(frozen=True)
class ExperimentReport:
    """Hold the answers of an experiment.

    Args:
        finding: the verdict.
        sections: the tables.
        notices: what must be known before any of them, one fact a line.
    """

    finding: Finding
    sections: tuple[Section, ...]
    notices: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        found = self.finding
        return {
            "notices": list(self.notices),
            "verdict": {"name": "high_keeps_its_latency", "outcome": str(found.outcome), "reason": found.reason,
                        "counts": dict(found.counts), "remedy": found.remedy or None},
            "sections": {s.key: plain_rows(s.frame) for s in self.sections},
        }  # fmt: skip


def summarize_experiment(runs: Runs, kept: float) -> ExperimentReport:
    """Return the answers of an experiment.

    Args:
        runs: what was measured.
        kept: how many times its P95 alone the high one's P95 together may be.
    """
    sides = (("plain", runs.stamps), ("captured", runs.captured))
    notices = tuple(told for name, stamps in sides if (told := describe_apart(stamps, name)))
    overhead = measure_overhead(runs.stamps, runs.captured)
    captured = {section.key: section for section in _captured_sections(runs)}
    finding = add_causes(
        judge_latency(runs.stamps, overhead, kept), captured["priorities"].frame, len(os.sched_getaffinity(0))
    )
    sections = (*_plain_sections(runs), _overhead_section(overhead), *captured.values())
    return ExperimentReport(finding, sections, notices)


def _plain_sections(runs: Runs) -> Iterator[Section]:
    workloads = pl.DataFrame(
        list(runs.commands.items()), schema={"role": pl.String, "command": pl.String}, orient="row"
    )
    yield Section("workloads", "Workloads", workloads, is_whole=True)
    overlaps = [list_overlaps(runs.stamps, "plain"), list_overlaps(runs.captured, "captured")]
    yield Section("overlap", "Were both at work at once?", pl.concat(overlaps), _BOTH)
    yield Section(
        "phases", "Latency and throughput", summarize_phases(runs.stamps),
        f"stamps of the workloads themselves, without any instrumentation; {_PARTS} (the verdict takes `together`); "
        "call = start to return, done = start to the completion that the host noticed",
    )  # fmt: skip
    yield Section(
        "throughput", "Throughput of both", summarize_throughput(runs.stamps),
        "launches by the time from the first start to the last completion; sequential: the times of both, without the "
        f"start of the second; together is called {APART} where hardly a launch of the high one ran beside the low one",
    )  # fmt: skip
    yield Section(
        "yields", "What the low one did during launches of the high one", summarize_yields(runs.stamps),
        _define_stop(runs.stamps), nothing="UNKNOWN: no launch of the high one was stamped in rounds of both at once",
    )  # fmt: skip


def _define_stop(stamps: pl.DataFrame) -> str:
    limit = find_limit(stamps)
    told = "not known: too few completions of it alone" if limit is None else render_ns(limit)
    return (
        f"completions of the low one as its host noticed them: bounds, not the GPU's schedule. The limit is {TIMES} "
        f"times the P99 of the low one alone ({told}). stopped = for longer than the limit it completed nothing inside "
        "the launch (a host that lacks CPU time shows the same); went on = no such pause in a launch that is longer; "
        "too short to tell = the launch is not longer than the limit, or there is none; not at work throughout = the "
        "low one began after the launch or ended before its end"
    )


def _overhead_section(overhead: pl.DataFrame) -> Section:
    return Section(
        "overhead", "What instrumentation costs", overhead,
        f"medians of launch to completion, plain and captured; {_PARTS}. No ratio where a side has too few launches",
        nothing="nothing was captured, or the captured rounds printed no stamps",
    )  # fmt: skip


def _captured_sections(runs: Runs) -> Iterator[Section]:
    captures = {phase: Capture.open(path) for phase, path in runs.captures.items()}
    # Two that were not at work at once are no measure of both together.
    if TOGETHER in captures and is_apart(runs.captured):
        captures[APART] = captures.pop(TOGETHER)
    no_queue = "UNKNOWN: no captured round shows a queue of HIP"
    yield Section(
        "priorities", "Queue priorities of the captured rounds", _by_phase(captures, _priorities),
        nothing=no_queue if captures else "nothing was captured",
    )  # fmt: skip
    yield Section(
        "moves", "Evictions, suspends and resumes", _by_phase(captures, count_moves),
        "of the driver; preemption by the firmware alone leaves no event", nothing=_NOTHING,
    )  # fmt: skip
    yield Section(
        "utilisation", "Utilisation", _by_phase(captures, summarize_load),
        "polled once a second; ring filled = packets that waited in a ring when one was written, of its size",
        nothing=_NOTHING,
    )  # fmt: skip


def _by_phase(captures: Mapping[str, Capture], question: Any) -> pl.DataFrame:
    parts = [question(c).select(pl.lit(phase).alias("phase"), pl.all()) for phase, c in captures.items()]
    return pl.concat(parts) if parts else pl.DataFrame()


def _priorities(capture: Capture) -> pl.DataFrame:
    return summarize_priorities(capture.table)
