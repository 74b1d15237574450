"""Verdicts: named claims about a capture, each PASS, FAIL or UNKNOWN with its evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tracecorr.analyze.frames import Tables
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts import (
    causality,
    clock_aligned,
    compute_uses_doorbell,
    copies_use_user_sdma,
    doorbell_per_packet,
    hqd_quantum,
    kfd_create_under_1ms,
    mqd_ops_per_queue,
    no_kcq_use,
    nothing_lost,
    packet_sequence_complete,
    priority_reaches_hardware,
    queue_backlog,
    queue_creation_complete,
    rocr_create_time,
    scheduler_mode,
)
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.join_nodes import NodeFinding, join_findings
from tracecorr.analyze.verdicts.model import RECORD_WHOLE, Claim, Finding, Outcome, Thresholds, Verdict
from tracecorr.model.errors import InputError

__all__ = ["CLAIMS", "Evidence", "Outcome", "Thresholds", "Verdict", "judge_capture"]

CLAIMS: tuple[Claim, ...] = (
    nothing_lost.CLAIM,
    clock_aligned.CLAIM,
    causality.CLAIM,
    compute_uses_doorbell.CLAIM,
    doorbell_per_packet.CLAIM,
    packet_sequence_complete.CLAIM,
    copies_use_user_sdma.CLAIM,
    no_kcq_use.CLAIM,
    queue_creation_complete.CLAIM,
    kfd_create_under_1ms.CLAIM,
    rocr_create_time.CLAIM,
    mqd_ops_per_queue.CLAIM,
    scheduler_mode.CLAIM,
    priority_reaches_hardware.CLAIM,
    queue_backlog.CLAIM,
    hqd_quantum.CLAIM,
)

# What helps where a source lost records.
_WHOLE = {
    "amd_log": "record a whole HIP log: each process into a file of its own (AMD_LOG_LEVEL_FILE), nothing cut off",
    "ftrace": RECORD_WHOLE,
    "hqd": "dump the HQDs again",
}


def judge_capture(
    tables: Tables | Evidence,
    thresholds: Thresholds | None = None,
    info: Mapping[str, Any] | None = None,
    names: Collection[str] = (),
    nodes: Mapping[str, Tables] | None = None,
) -> list[Verdict]:
    """Return the verdict on every claim, in the order of `CLAIMS`.

    Args:
        tables: gives the table of a capture by its name; or evidence that is there already.
        thresholds: limits to judge by; the defaults where None.
        info: contents of capture.json, which names the events that were armed.
        names: names of the claims wanted; all when empty.
        nodes: of a dataset, what gives the tables of each node: each of them is judged by its own.

    Raises:
        InputError: there is no claim of such a name.
    """
    known = [claim.name for claim in CLAIMS]
    for name in names:
        if name not in known:
            raise InputError(f"there is no verdict {name!r}", f"verdicts are: {', '.join(known)}")
    evidence = tables if isinstance(tables, Evidence) else Evidence(tables, thresholds, info, nodes)
    return [_judge(claim, evidence) for claim in CLAIMS if not names or claim.name in names]


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    if not evidence.parts:
        return Verdict(claim, _look(claim, evidence))
    return Verdict(claim, join_findings([_judge_node(claim, node, part) for node, part in evidence.parts]))


def _judge_node(claim: Claim, node: str, part: Evidence) -> NodeFinding:
    finding = _look(claim, part)
    return NodeFinding(node, finding, finding.outcome is not Outcome.UNKNOWN or claim.concerns(part))


def _look(claim: Claim, evidence: Evidence) -> Finding:
    finding = claim.judge(evidence)
    decided = finding.outcome is not Outcome.UNKNOWN
    # What rests on something not being there, or on all of it being there, is open when records were lost.
    doubtful = decided and (finding.by_absence or finding.outcome is Outcome.PASS)
    lossy = {source: evidence.losses_of(source) for source in claim.rests_on} if doubtful else {}
    if lost := sum(lossy.values()):
        said = f"records were lost in {count_of(lost, 'place')} while the program ran"
        said += f"; without that: {finding.outcome}, {finding.reason}"
        remedy = "; ".join(_WHOLE[source] for source, places in lossy.items() if places)
        counts = {**finding.counts, "loss_places": lost}
        finding = replace(finding, outcome=Outcome.UNKNOWN, reason=said, remedy=remedy, counts=counts)
    return finding
