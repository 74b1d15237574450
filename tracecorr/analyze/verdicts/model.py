"""What a verdict is: a named claim, what the capture says of it, and the rows behind that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import polars as pl

from tracecorr.analyze.evidence import Evidence

# How many row ids a verdict names at most.
MAX_EVENTS = 20
# Remedy if a library was probed only after the workload had mapped it.
EARLIER = (
    "name the library before the start, so that it is probed from its first call: LD_LIBRARY_PATH of the program, or "
    "--uprobes PATH:SYMBOL; on a busy machine late probes come later still"
)
# Remedy if the kernel trace lost records.
RECORD_WHOLE = "record again with larger buffers, and with room on the disk"


class Outcome(StrEnum):
    """Name what a capture can say of a claim."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Finding:
    """Hold what one judge found.

    Args:
        outcome: PASS, FAIL or UNKNOWN.
        reason: one sentence with the numbers that decided.
        counts: everything that was counted.
        events: ids of rows in `events` that show it, at most `MAX_EVENTS`.
        remedy: what would make an UNKNOWN known; empty otherwise.
        by_absence: the outcome rests on something that is not there, so that lost records could change it.
    """

    outcome: Outcome
    reason: str
    counts: Mapping[str, int] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    remedy: str = ""
    by_absence: bool = False


def has_log(evidence: Evidence) -> bool:
    """Tell whether there is a HIP program: the subject of most claims."""
    return "amd_log" in evidence.sources or bool(evidence.log_processes)


def has_queues(evidence: Evidence) -> bool:
    """Tell whether there is a queue, or a HIP program, which may have queues."""
    return evidence.queues.height > 0 or has_log(evidence)


def has_several_clocks(evidence: Evidence) -> bool:
    """Tell whether there is more than one clock."""
    return int(evidence.tables("clock_map").select(pl.col("source").n_unique()).collect().item()) > 1


def always(evidence: Evidence) -> bool:  # noqa: ARG001 - a claim about every capture
    """Tell that a claim is about every capture."""
    return True


@dataclass(frozen=True)
class Claim:
    """Hold a claim that a capture can prove or disprove.

    Args:
        name: its name, stable for CI.
        text: the claim in words.
        rests_on: sources whose lost records make a finding by absence UNKNOWN.
        judge: looks at the evidence.
        concerns: tells whether a node of a dataset has the subject of the claim; if not, its UNKNOWN does not count.
    """

    name: str
    text: str
    rests_on: tuple[str, ...]
    judge: Callable[[Evidence], Finding]
    concerns: Callable[[Evidence], bool] = has_log


def claim(
    name: str, text: str, rests_on: tuple[str, ...] = (), concerns: Callable[[Evidence], bool] = has_log
) -> Callable[[Callable[[Evidence], Finding]], Claim]:
    """Return a decorator that makes a claim of the function that judges it; the arguments are those of `Claim`."""
    return lambda judge: Claim(name, text, rests_on, judge, concerns)


@dataclass(frozen=True)
class Verdict:
    """Hold a claim and the finding about it."""

    claim: Claim
    finding: Finding

    @property
    def name(self) -> str:
        """Return the claim's name."""
        return self.claim.name

    @property
    def outcome(self) -> Outcome:
        """Return PASS, FAIL or UNKNOWN."""
        return self.finding.outcome

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "name": self.name,
            "claim": self.claim.text,
            "outcome": str(self.outcome),
            "reason": self.finding.reason,
            "counts": dict(self.finding.counts),
            "events": list(self.finding.events),
            "remedy": self.finding.remedy or None,
        }


def passed(
    reason: str, counts: Mapping[str, int], events: pl.Series | None = None, *, by_absence: bool = False
) -> Finding:
    """Return a finding that the claim holds."""
    return Finding(Outcome.PASS, reason, counts, _name_events(events), by_absence=by_absence)


def failed(
    reason: str, counts: Mapping[str, int], events: pl.Series | None = None, *, by_absence: bool = False
) -> Finding:
    """Return a finding that the claim does not hold."""
    return Finding(Outcome.FAIL, reason, counts, _name_events(events), by_absence=by_absence)


def unknown(
    reason: str, remedy: str, counts: Mapping[str, int] | None = None, events: pl.Series | None = None
) -> Finding:
    """Return a finding that the capture cannot tell, with what could."""
    return Finding(Outcome.UNKNOWN, reason, counts or {}, _name_events(events), remedy)


def _name_events(events: pl.Series | None) -> tuple[int, ...]:
    """Return the first ids of a series of row ids."""
    if events is None:
        return ()
    return tuple(int(e) for e in events.drop_nulls().unique().sort().head(MAX_EVENTS))
