"""Verdicts: named claims about a capture, each PASS, FAIL or UNKNOWN with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tracecorr.analyze.evidence import Evidence, Thresholds
from tracecorr.analyze.values import Tables, count_of
from tracecorr.analyze.verdicts import copies, creation, doorbells, scheduling, trust
from tracecorr.analyze.verdicts.model import MAX_EVENTS, RECORD_WHOLE, Claim, Finding, Outcome, Verdict
from tracecorr.model.errors import InputError

# How many reasons are given, and how many nodes are named with each.
_MAX_REASONS, _MAX_NODES = 3, 4
# Counts that do not add up, besides limits and times: of the ring, or the dump, where it is most.
_LARGEST = frozenset({"peak_packets", "ring_packets", "different_quanta"})


class _NodeFinding(NamedTuple):
    """Hold the finding of one node of a dataset.

    Args:
        node: its name.
        finding: the finding on its own tables.
        is_judged: whether it counts; False if the node has nothing that the claim is about.
    """

    node: str
    finding: Finding
    is_judged: bool


def _join_findings(found: Sequence[_NodeFinding]) -> Finding:
    """Return the finding of a dataset: FAIL if one node is FAIL, else UNKNOWN if one is UNKNOWN, else PASS.

    Nodes that the claim is not about do not count; without any other node it is UNKNOWN.
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
    """Return a text of each node after its name, equal texts once."""
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
    """Return the counts of all nodes together, and the number of nodes by outcome."""
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
    *trust.CLAIMS,
    *doorbells.CLAIMS,
    *copies.CLAIMS,
    *creation.CLAIMS,
    *scheduling.CLAIMS,
)

# Source -> what to do if it lost records.
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
        tables: gives the table of a capture by its name; or the evidence, if it exists already.
        thresholds: limits to judge by; None = the defaults.
        info: contents of capture.json, which names the events that were armed.
        names: names of the claims; empty = all.
        nodes: of a dataset: node -> what gives its tables; each node is judged separately.

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
    # If records were lost, a claim that needs all records, or the absence of some, is open.
    doubtful = decided and (finding.by_absence or finding.outcome is Outcome.PASS)
    lossy = {source: evidence.losses_of(source) for source in claim.rests_on} if doubtful else {}
    if lost := sum(lossy.values()):
        said = f"records were lost in {count_of(lost, 'place')} while the program ran"
        said += f"; apart from that: {finding.outcome}, {finding.reason}"
        remedy = "; ".join(_WHOLE[source] for source, places in lossy.items() if places)
        counts = {**finding.counts, "loss_places": lost}
        finding = replace(finding, outcome=Outcome.UNKNOWN, reason=said, remedy=remedy, counts=counts)
    return finding
