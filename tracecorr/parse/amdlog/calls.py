"""HIP calls: which exit belongs to which enter, and which calls enclose a record.

All arrays are sorted by lane (one lane per thread) and in file order inside a lane. That the exit
of a call never comes is proven by the exit of a call that encloses it, or by the same function
being entered again, since no HIP function calls itself. Such a call encloses what follows it up to
the next call's line: how long it really went on is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.messages import Kind
from tracecorr.parse.digits import Ints, Mask

# They print no exit line (some releases do, then it is the very next record of the thread).
WITHOUT_EXIT = ("hipGetLastError", "hipExtGetLastError")

OPEN, NO_EXIT = -1, -2


@dataclass
class Pairs:
    """Hold the pairing of enters and exits.

    Args:
        partner: of an enter its exit, `OPEN` or `NO_EXIT`; of an exit its enter, or `NO_EXIT`.
        ends: rows before which a call without exit ends, at most one per such call.
    """

    partner: Ints
    ends: Ints


@dataclass
class Nesting:
    """Hold for each row how many calls enclose it, and the innermost one (-1 = none)."""

    depth: Ints
    parent: Ints


def pair(lane: Ints, kind: Ints, name: Ints, without_exit: Mask, *, is_last: bool) -> Pairs:
    """Pair enters and exits of the same lane; calls nest. With `is_last` no exit comes any more."""
    partner = np.full(len(lane), OPEN, np.int64)
    calls = np.flatnonzero((kind == Kind.ENTER) | (kind == Kind.EXIT))
    rows = _close_leaves(calls, lane, kind, name, without_exit, partner)
    # Innermost pairs are neighbours; without them the next level's are. A few rounds leave only
    # the calls that lack an enter or an exit.
    while True:
        first, second = rows[:-1], rows[1:]
        hit = (kind[first] == Kind.ENTER) & (kind[second] == Kind.EXIT)
        hit &= (lane[first] == lane[second]) & (name[first] == name[second])
        if not hit.any():
            break
        partner[first[hit]], partner[second[hit]] = second[hit], first[hit]
        keep = np.ones(len(rows), np.bool_)
        keep[:-1] &= ~hit
        keep[1:] &= ~hit
        rows = rows[keep]
    _pair_rest(rows, lane, kind, name, partner)
    lost = partner[calls] <= OPEN if is_last else partner[calls] == NO_EXIT
    before = np.flatnonzero(lost & (kind[calls] == Kind.ENTER))
    before = before[before + 1 < len(calls)]
    ends = calls[before + 1]
    return Pairs(partner, ends[lane[ends] == lane[calls[before]]])


def _close_leaves(rows: Ints, lane: Ints, kind: Ints, name: Ints, without_exit: Mask, partner: Ints) -> Ints:
    if len(rows) < 2:
        return rows
    first, second = rows[:-1], rows[1:]
    leaf = without_exit[first] & (kind[first] == Kind.ENTER) & (lane[first] == lane[second])
    leaf &= ~((kind[second] == Kind.EXIT) & (name[second] == name[first]))
    partner[first[leaf]] = NO_EXIT
    left: Ints = rows[np.append(~leaf, True)]
    return left


def _pair_rest(rows: Ints, lane: Ints, kind: Ints, name: Ints, partner: Ints) -> None:
    """Walk over the calls that lack one half, and over later enters of the same functions."""
    stack: list[int] = []
    enters = rows[kind[rows] == Kind.ENTER]
    if len(rows) == 0:
        return
    again = _entered_again(enters, lane, kind, name, partner)
    for row in np.union1d(rows, again).tolist():
        if stack and lane[stack[-1]] != lane[row]:
            stack.clear()
        same = next((i for i in range(len(stack) - 1, -1, -1) if name[stack[i]] == name[row]), -1)
        is_exit = kind[row] == Kind.EXIT
        if is_exit and same < 0:
            partner[row] = NO_EXIT
            continue
        if same >= 0:
            lost = stack[same + 1 :] if is_exit else stack[same:]
            for call in lost:
                partner[call] = NO_EXIT
            if is_exit:
                partner[row], partner[stack[same]] = stack[same], row
            del stack[same:]
        if not is_exit and partner[row] == OPEN:
            stack.append(row)


def _entered_again(enters: Ints, lane: Ints, kind: Ints, name: Ints, partner: Ints) -> Ints:
    """Return the paired enters, outside all other pairs, of functions that have an unpaired one."""
    paired = partner >= 0
    step = np.where(paired & (kind == Kind.ENTER), 1, np.where(paired & (kind == Kind.EXIT), -1, 0))
    outside = (np.cumsum(step) - step) == 0
    key = lane * (int(name.max(initial=0)) + 1) + name
    seen = np.isin(key, key[enters])
    return np.flatnonzero(paired & (kind == Kind.ENTER) & outside & seen)


def nest(lane: Ints, kind: Ints, pairs: Pairs) -> Nesting:
    """Return depth and innermost enclosing call of every row."""
    enter = kind == Kind.ENTER
    leave = (kind == Kind.EXIT) & (pairs.partner >= 0)
    before = -leave.astype(np.int64)
    before -= np.bincount(pairs.ends, minlength=len(lane))[: len(lane)]
    steps = np.cumsum(before + enter)
    depth = steps - enter
    starts = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.zeros(0, np.int64)
    base = np.where(starts > 0, steps[starts - 1], 0)
    depth -= np.repeat(base, np.diff(np.append(starts, len(lane))))
    parent = np.full(len(lane), -1, np.int64)
    index = np.arange(len(lane))
    for level in range(int(depth.max(initial=0))):
        last = np.maximum.accumulate(np.where(enter & (depth == level), index, -1))
        inside = depth == level + 1
        parent[inside] = last[inside]
    return Nesting(depth, parent)
