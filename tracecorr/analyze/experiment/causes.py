"""What else the evidence of an experiment says of its verdict: whether the priorities arrived, and who lacked a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from tracecorr.analyze.verdicts.model import Finding, Outcome

_NO_STATEMENT = "the verdict is no statement on preemption or priority"


def add_causes(finding: Finding, priorities: pl.DataFrame, cpus: int | None) -> Finding:
    """Return the verdict with what its own evidence tells of the cause.

    Args:
        finding: the verdict on the latency.
        priorities: `priorities.summarize_priorities` of the captured rounds; empty where none was captured.
        cpus: of the machine; None where they are not known.
    """
    causes = [*_tell_refused(priorities, finding), *_tell_cpus(cpus, finding)]
    counts = {**finding.counts, **_count_refused(priorities)}
    return replace(finding, reason="; ".join([finding.reason, *causes]), counts=counts)


def _count_refused(priorities: pl.DataFrame) -> dict[str, int]:
    if priorities.is_empty() or priorities["update_refused"].null_count() == priorities.height:
        return {}
    told = priorities["update_refused"].drop_nulls()
    return {"priorities_set": told.len(), "priorities_refused": int(told.sum())}


def _tell_refused(priorities: pl.DataFrame, finding: Finding) -> Iterator[str]:
    """Yield that the driver refused priorities; of a FAIL also that nothing tells whether they arrived."""
    counts = _count_refused(priorities)
    if refused := counts.get("priorities_refused"):
        which = f"of {refused} of {counts['priorities_set']} queues of the captured rounds"
        yield f"the driver refused to set the priority (UPDATE_QUEUE) {which}, so {_NO_STATEMENT}"
    elif not counts and finding.outcome == Outcome.FAIL:
        yield "whether the driver took the priorities is not recorded"


def _tell_cpus(cpus: int | None, finding: Finding) -> Iterator[str]:
    """Yield, of a FAIL, that both may have waited for a CPU, of whose load nothing is recorded."""
    if finding.outcome == Outcome.FAIL:
        has = "" if cpus is None else f" (this machine has {cpus})"
        yield f"both may also have waited for a CPU{has}, which is not measured"
