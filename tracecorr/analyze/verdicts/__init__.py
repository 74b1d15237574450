"""Verdicts: named claims about a capture, each PASS, FAIL or UNKNOWN with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tracecorr.analyze.evidence import Evidence, Thresholds
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.creation import (
    KFD_CREATE_UNDER_1MS,
    MQD_OPS_PER_QUEUE,
    QUEUE_CREATION_COMPLETE,
    ROCR_CREATE_TIME,
)
from tracecorr.analyze.verdicts.doorbells import COMPUTE_USES_DOORBELL, DOORBELL_PER_PACKET, PACKET_SEQUENCE_COMPLETE
from tracecorr.analyze.verdicts.engines import COPIES_USE_USER_SDMA, NO_KCQ_USE
from tracecorr.analyze.verdicts.model import MAX_EVENTS, RECORD_WHOLE, Claim, Finding, Outcome, Verdict
from tracecorr.analyze.verdicts.scheduling import HQD_QUANTUM, PRIORITY_REACHES_HARDWARE, QUEUE_BACKLOG, SCHEDULER_MODE
from tracecorr.analyze.verdicts.trust import CAUSALITY, CLOCK_ALIGNED, NOTHING_LOST
from tracecorr.model.errors import InputError

# How many reasons are told, and how many nodes are named with each.
_MAX_REASONS, _MAX_NODES = 3, 4
# Counts that do not add up, besides limits and times: of the ring, or the dump, where it is most.
_LARGEST = frozenset({"peak_packets", "ring_packets", "different_quanta"})


class _NodeFinding(NamedTuple):
    """Hold what was found on one node.

    Args:
        node: its name.
        finding: what its own tables say.
        is_judged: it counts: False where the claim is about nothing that this node has.
    """

    node: str
    finding: Finding
    is_judged: bool


def _join_findings(found: Sequence[_NodeFinding]) -> Finding:
    """Return what the nodes of a dataset show: FAIL where one fails, else UNKNOWN where one does not know, else PASS.

    Nodes that the claim is not about are left out; where all of them are, it is UNKNOWN.
    """
    judged = [one for one in found if one.is_judged]
    there = {one.finding.outcome for one in judged}
    worst = next((o for o in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS) if o in there), Outcome.UNKNOWN)
    deciding = [one for one in judged if one.finding.outcome is worst] or found
    reason = _tell(deciding, lambda finding: finding.reason)
    if worst is Outcome.PASS and len(judged) < len(found):
        reason += f"; not judged on {_tell([one for one in found if not one.is_judged], lambda f: f.reason)}"
    remedies = {one.finding.remedy for one in deciding} - {""}
    remedy = remedies.pop() if len(remedies) == 1 else _tell(deciding, lambda finding: finding.remedy)
    events = tuple(event for one in deciding for event in one.finding.events)[:MAX_EVENTS]
    return Finding(worst, reason, _count(found, judged or found), events, remedy)


def _tell(found: Sequence[_NodeFinding], text_of: Callable[[Finding], str]) -> str:
    """Return a text of each node behind its name, equal ones once."""
    nodes: dict[str, list[str]] = {}
    for one in found:
        nodes.setdefault(text_of(one.finding), []).append(one.node)
    nodes.pop("", None)
    told = [f"{_name(names)}: {text}" for text, names in nodes.items()]
    rest = sum(len(names) for names in list(nodes.values())[_MAX_REASONS:])
    return "; ".join([*told[:_MAX_REASONS], *([f"and {count_of(rest, 'more node')}"] if rest else [])])


def _name(nodes: list[str]) -> str:
    rest = len(nodes) - _MAX_NODES
    return ", ".join(nodes[:_MAX_NODES]) + (f" and {rest} more" if rest > 0 else "")


def _count(found: Sequence[_NodeFinding], counted: Sequence[_NodeFinding]) -> dict[str, int]:
    """Return the counts of all nodes together, and on how many of them the claim was found what."""
    counts: dict[str, int] = {}
    for one in counted:
        for name, count in one.finding.counts.items():
            add = max if name in _LARGEST or name.endswith("_ns") else int.__add__
            counts[name] = add(counts.get(name, 0), count)
    judged = [one.finding.outcome for one in found if one.is_judged]
    return counts | {
        "nodes_passed": judged.count(Outcome.PASS),
        "nodes_failed": judged.count(Outcome.FAIL),
        "nodes_unknown": judged.count(Outcome.UNKNOWN),
        "nodes_not_judged": len(found) - len(judged),
    }


__all__ = ["CLAIMS", "Outcome", "Thresholds", "Verdict", "judge_capture"]

CLAIMS: tuple[Claim, ...] = (
    NOTHING_LOST,
    CLOCK_ALIGNED,
    CAUSALITY,
    COMPUTE_USES_DOORBELL,
    DOORBELL_PER_PACKET,
    PACKET_SEQUENCE_COMPLETE,
    COPIES_USE_USER_SDMA,
    NO_KCQ_USE,
    QUEUE_CREATION_COMPLETE,
    KFD_CREATE_UNDER_1MS,
    ROCR_CREATE_TIME,
    MQD_OPS_PER_QUEUE,
    SCHEDULER_MODE,
    PRIORITY_REACHES_HARDWARE,
    QUEUE_BACKLOG,
    HQD_QUANTUM,
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
    return Verdict(claim, _join_findings([_judge_node(claim, node, part) for node, part in evidence.parts]))


def _judge_node(claim: Claim, node: str, part: Evidence) -> _NodeFinding:
    finding = _look(claim, part)
    return _NodeFinding(node, finding, finding.outcome is not Outcome.UNKNOWN or claim.concerns(part))


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
