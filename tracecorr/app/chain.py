"""The chain of an event: all rows that share its root call or are linked to it, and how its launch went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import polars as pl

from tracecorr.analyze.chain import STEPS, find_members, read_events
from tracecorr.app import ids
from tracecorr.app.index import CaptureIndex
from tracecorr.model.kinds import INFERRED, Flag
from tracecorr.timeline.drawn import INFERRED_DOORBELL

_Row = dict[str, Any]
_Edge = tuple[int, int]  # stage numbers, from cause to effect

_MOMENTS = (
    ("call", "call_ns"), ("command", "enqueue_ns"), ("packet", "packet_ns"), ("doorbell", "doorbell_ns"),
    ("GPU start", "gpu_start_ns"), ("GPU end", "gpu_end_ns"), ("return", "return_ns"), ("seen complete", "complete_ns"),
)  # fmt: skip


@dataclass
class Chain:
    """Hold the stages of a chain in time order and the edges between them (indexes of stages)."""

    event: int
    root: int | None
    stages: list[_Row] = field(default_factory=list)
    edges: list[_Row] = field(default_factory=list)
    launches: list[_Row] = field(default_factory=list)
    truncated: bool = False


def find_chain(index: CaptureIndex, event: int) -> Chain | None:
    """Return the chain of `event`, at most `ids.MAX_STAGES` stages; None when there is no such event.

    A packet shows its own launch; a HIP call shows everything that it caused.
    """
    found = find_members(index.capture.table, event, ids.MAX_STAGES)
    if found is None:
        return None
    root, members = found.root, found.events
    kept = _bounded(members, event, root)
    rows = read_events(index.capture.table, kept)
    chain = Chain(event, root, launches=found.launches, truncated=len(kept) < len(members))
    chain.stages = sorted([*_stages(index, rows), *_hollow_doorbells(index, found.launches)], key=_time_order)
    _add_owners(chain, rows)
    chain.edges = _edges(chain.stages, found.launches, found.links)
    _add_gaps(chain)
    return chain


def _time_order(stage: _Row) -> tuple[int, bool, int]:
    # An inferred doorbell may begin with its packet, never before it.
    return (stage["start"], stage["event"] is None, -stage["dur"])


def _add_owners(chain: Chain, rows: Iterable[_Row]) -> None:
    """Note in each stage its stream and queue: its own, else those of all launches that it is part of."""
    own = {r["event"]: r for r in rows}
    for key in ("stream", "queue"):
        of_launches: dict[int, set[int]] = {}
        for launch in chain.launches:
            for step in STEPS:
                if launch[step] is not None and launch[key] is not None:
                    of_launches.setdefault(launch[step], set()).add(launch[key])
        for stage in chain.stages:
            event = stage["of"] if stage["event"] is None else stage["event"]
            mine, shared = own.get(event, {}).get(key), of_launches.get(event, set())
            stage[key] = next(iter(shared)) if mine is None and len(shared) == 1 else mine


def _bounded(members: Iterable[int], event: int, root: int | None) -> list[int]:
    nearest = sorted(members, key=lambda e: (e not in (event, root), abs(e - event)))
    return nearest[: ids.MAX_STAGES]


def _stages(index: CaptureIndex, rows: Iterable[_Row]) -> list[_Row]:
    placed = [(r, index.place(r["event"]), _unseen_end(r["flags"] or 0)) for r in rows]
    return [
        {
            "event": r["event"],
            "layer": r["layer"],
            "name": place.name,
            "lane": place.lane,
            "row": place.row,
            "start": r["ts_ns"] - index.t0_ns,
            "dur": r["dur_ns"] or (index.open_calls.get(r["event"], 0) if unseen == "end" else 0),
            "instant": r["dur_ns"] is None,
            "unseen": unseen,
            "err_lo": r["err_lo_ns"],
            "err_hi": r["err_hi_ns"],
            "evidence": r["evidence"],
            "source": r["source"],
            "result": r["result"],
            "failed": index.has_failed(r["event"]),
            "where": [r[c] for c in ("file", "offset", "length", "end_offset", "end_length")],
        }
        for r, place, unseen in placed
    ]


def _unseen_end(flags: int) -> str | None:
    """Return which end of a span no record tells; None of what was seen whole, or is an instant."""
    return "end" if flags & Flag.ENTER_ONLY else "begin" if flags & Flag.EXIT_ONLY else None


def _hollow_doorbells(index: CaptureIndex, launches: Iterable[_Row]) -> list[_Row]:
    """Return a stage for each doorbell that is known only by an interval."""
    out = []
    for launch in launches:
        lo, hi = launch["doorbell_lo_ns"], launch["doorbell_hi_ns"]
        lane = index.doorbell_lane.get(launch["queue"])
        if launch["doorbell_event"] is not None or lo is None or hi is None or lane is None:
            continue
        out.append(
            {
                "event": None, "of": launch["event"], "layer": "doorbell", "name": INFERRED_DOORBELL, "lane": lane,
                "row": index.row_at(lane, launch["event"], lo - index.t0_ns),
                "start": lo - index.t0_ns, "dur": hi - lo, "instant": False, "unseen": None, "err_lo": 0,
                "err_hi": hi - lo,
                "evidence": INFERRED, "source": "tracecorr", "result": None, "failed": False, "where": None,
            }
        )  # fmt: skip
    return out[: ids.MAX_STAGES]


def _edges(stages: list[_Row], launches: Iterable[_Row], links: Iterable[_Row]) -> list[_Row]:
    at = {s["event"]: i for i, s in enumerate(stages) if s["event"] is not None}
    hollow = {s["of"]: i for i, s in enumerate(stages) if s["event"] is None}
    found: dict[_Edge, _Row] = {}

    def add(a: int | None, b: int | None, rule: str, evidence: str | None, err: int | None) -> None:
        if a is not None and b is not None and a != b and (a, b) not in found:
            gap = stages[b]["start"] - stages[a]["start"]
            found[a, b] = {"from": a, "to": b, "rule": rule, "evidence": evidence, "gap": gap, "err": err}

    for k in links:
        add(at.get(k["from_event"]), at.get(k["to_event"]), k["rule"], k["evidence"], k["gap_err_ns"])
    for launch in launches:
        steps = [at.get(launch[c]) for c in STEPS]
        if steps[3] is None:
            steps[3] = hollow.get(launch["event"])
        present = [s for s in steps if s is not None]
        for a, b in pairwise(present):
            # No rule of its own: they are steps of one launch.
            inferred = INFERRED in (stages[a]["evidence"], stages[b]["evidence"])
            add(a, b, "launch", INFERRED if inferred else None, _gap_error(stages[a], stages[b]))
    return _without_shortcuts(found)


def _gap_error(cause: _Row, effect: _Row) -> int | None:
    """Return how far the true gap between two starts may lie from theirs, in ns to either side; None = unknown."""
    larger, smaller = (cause["err_lo"], effect["err_hi"]), (cause["err_hi"], effect["err_lo"])
    return None if None in larger + smaller else max(sum(larger), sum(smaller))


def _without_shortcuts(found: dict[_Edge, _Row]) -> list[_Row]:
    """Return the edges without those that skip a stage which two other edges pass through."""
    after: dict[int, set[int]] = {}
    for a, b in found:
        after.setdefault(a, set()).add(b)
    nothing: set[int] = set()
    return [e for (a, b), e in found.items() if not any(b in after.get(c, nothing) for c in after[a] if c != b)]


def _add_gaps(chain: Chain) -> None:
    """Note in each stage the time since the root call and since the stage before it."""
    first = next((s for s in chain.stages if s["event"] == chain.root), chain.stages[0])
    before = None
    for stage in chain.stages:
        stage["since_call"] = stage["start"] - first["start"]
        stage["gap"] = None if before is None else stage["start"] - before["start"]
        before = stage


def describe_path(index: CaptureIndex, launches: Sequence[_Row]) -> dict[str, Any] | None:
    """Return how the launches of a chain were announced to the GPU; None when there are none.

    Args:
        index: the capture.
        launches: rows of `launches`, of one HIP call or one packet.

    Returns: copies; packets by the evidence of their doorbell (`unknown` if there is none); ioctls in the call by
        name, null if no trace shows what the call did; and of a single packet its doorbell's event, the width of
        the interval of an inferred one (ns), the reason of what is missing, and the known moments (name, ns since the
        capture start) in order of time.
    """
    if not launches:
        return None
    packets = [launch for launch in launches if launch["kind"] != "copy"]
    own = packets[0] if len(packets) == len(launches) == 1 else None
    return {
        "copies": len(launches) - len(packets),
        "packets": Counter(launch["doorbell_evidence"] or "unknown" for launch in packets),
        "ioctls": _ioctls_in_call(index, launches[0]),
    } | ({} if own is None else _describe_one(index, own))


def _describe_one(index: CaptureIndex, launch: _Row) -> _Row:
    lo, hi = launch["doorbell_lo_ns"], launch["doorbell_hi_ns"]
    known = [(name, launch[column] - index.t0_ns) for name, column in _MOMENTS if launch[column] is not None]
    return {
        "doorbell": launch["doorbell_event"],
        "width": None if lo is None or hi is None else hi - lo,
        "reason": launch["unlinked_reason"],
        "moments": sorted(known, key=lambda moment: moment[1]),
    }


def _ioctls_in_call(index: CaptureIndex, launch: _Row) -> dict[str, int] | None:
    """Return how often which ioctl was made in the call of a launch; None if the trace cannot tell."""
    call, events = launch["call_event"], index.capture.table("events")
    if call is None:
        return None
    traced = events.filter(
        pl.col("layer").cast(pl.String).is_in(["syscall", "ioctl"]), pl.col("chain").is_not_null(),
        pl.col("thread") == launch["thread"],
    )  # fmt: skip
    rows = traced.select("chain", pl.col("layer", "name").cast(pl.String)).collect()
    if rows.is_empty():
        return None
    inside = rows.filter(pl.col("chain") == call, pl.col("layer") == "ioctl")
    return dict(Counter(inside["name"]).most_common())
