"""The report of an experiment: figures of the plain rounds, what the captured rounds say, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.experiment import (
    judge_latency,
    measure_overhead,
    measure_yields,
    summarize_phases,
    summarize_throughput,
)
from tracecorr.analyze.frames import describe_ns
from tracecorr.analyze.priorities import summarize_priorities
from tracecorr.analyze.values import plain_rows
from tracecorr.analyze.verdicts.model import Finding
from tracecorr.experiment.figures import count_moves, summarize_load
from tracecorr.experiment.preempt import Runs
from tracecorr.store import Capture


@dataclass(frozen=True)
class ExperimentReport:
    """Hold the answers of an experiment."""

    finding: Finding
    sections: tuple[Section, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        found = self.finding
        return {
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
    overhead = measure_overhead(runs.stamps, runs.captured)
    captures = {phase: Capture.open(path) for phase, path in runs.captures.items()}
    yields = measure_yields(runs.stamps)
    workloads = pl.DataFrame(
        list(runs.commands.items()), schema={"role": pl.String, "command": pl.String}, orient="row"
    )
    sections = (
        Section("workloads", "Workloads", workloads),
        Section("phases", "Latency and throughput", summarize_phases(runs.stamps),
                "stamps of the workloads themselves, without any instrumentation; beside = launches while the other "
                "one was at work (the verdict takes these alone); call = start to return, "
                "done = start to the completion that the host noticed"),
        Section("throughput", "Throughput of both", summarize_throughput(runs.stamps),
                "launches by the time from the first start to the last completion; sequential: the times of both, "
                "without the start of the second"),
        Section("yields", "From the high one's launch to the low one's stop and resume", _describe_yields(yields),
                "completions of the low one as its host noticed them: bounds, not the GPU's schedule",
                nothing="UNKNOWN: no completion of the low one was noticed inside or after a launch of the high one"),
        Section("overhead", "What instrumentation costs", overhead,
                "medians of launch to completion, plain and captured",
                nothing="nothing was captured, or the captured rounds printed no stamps"),
        Section("priorities", "Queue priorities of the captured rounds", _by_phase(captures, _priorities),
                nothing="UNKNOWN: no captured round shows a queue of HIP" if captures else "nothing was captured"),
        Section("moves", "Evictions, suspends and resumes", _by_phase(captures, count_moves),
                "of the driver; preemption by the firmware alone leaves no event",
                nothing="UNKNOWN: nothing was captured"),
        Section("utilisation", "Utilisation", _by_phase(captures, summarize_load),
                "polled once a second; ring filled = packets that waited in a ring when one was written, of its size",
                nothing="UNKNOWN: nothing was captured"),
    )  # fmt: skip
    return ExperimentReport(judge_latency(runs.stamps, overhead, kept), sections)


def _describe_yields(yields: pl.DataFrame) -> pl.DataFrame:
    columns = [("stop", "stop_ns"), ("resume", "resume_ns")]
    rows = [
        yields.drop_nulls(column).select(
            pl.lit(name).first().alias("what"), pl.len().cast(pl.Int64).alias("launches"), *describe_ns(column)
        )
        for name, column in columns
    ]
    return pl.concat(rows).filter(pl.col("launches") > 0).drop("total_ns")


def _by_phase(captures: Mapping[str, Capture], question: Any) -> pl.DataFrame:
    parts = [question(c).select(pl.lit(phase).alias("phase"), pl.all()) for phase, c in captures.items()]
    return pl.concat(parts) if parts else pl.DataFrame()


def _priorities(capture: Capture) -> pl.DataFrame:
    return summarize_priorities(capture.table)
