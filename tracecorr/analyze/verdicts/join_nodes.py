"""Judge a dataset of many nodes: each claim on each node by what is recorded there, and the worst of them counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.model import MAX_EVENTS, Finding, Outcome

# How many reasons are told, and how many nodes are named with each.
_MAX_REASONS, _MAX_NODES = 3, 4
# Counts that do not add up, besides limits and times: of the ring, or the dump, where it is most.
_LARGEST = frozenset({"peak_packets", "ring_packets", "different_quanta"})


class NodeFinding(NamedTuple):
    """Hold what was found on one node.

    Args:
        node: its name.
        finding: what its own tables say.
        is_judged: it counts: False where the claim is about nothing that this node has.
    """

    node: str
    finding: Finding
    is_judged: bool


def join_findings(found: Sequence[NodeFinding]) -> Finding:
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


def _tell(found: Sequence[NodeFinding], text_of: Callable[[Finding], str]) -> str:
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


def _count(found: Sequence[NodeFinding], counted: Sequence[NodeFinding]) -> dict[str, int]:
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
