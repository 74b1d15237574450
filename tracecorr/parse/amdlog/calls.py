"""HIP calls: which exit belongs to which enter, and which calls enclose a record.

All arrays are sorted by lane (one lane per thread) and in file order inside a lane. That the exit
of a call never comes is proven by the exit of a call that encloses it, or by the same function
being entered again, since no HIP function calls itself.

A call encloses what follows it up to the next call's line, whether its exit comes or not. It
encloses what follows that line only if its exit comes, and no more than `WAIT_BYTES` of the file
behind its enter: how long a call without exit really went on is not known. So the rows behind that
line wait for the exit (`find_held`), and neither depth nor parent depends on how the file is cut.
Calls without a thread (`shared_lane`) enclose what follows up to the next call's line only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.messages import Kind
from tracecorr.parse.amdlog.shared_lane import pair_without_threads
from tracecorr.parse.digits import Ints, Mask

# They print no exit line (some releases do, then it is the very next record of the thread).
WITHOUT_EXIT = ("hipGetLastError", "hipExtGetLastError")
# Bounds what waits: all rows that are held back lie in the last so many bytes read.
WAIT_BYTES = 8 << 20

OPEN, NO_EXIT = -1, -2


@dataclass
class Calls:
    """Hold the rows of a batch, sorted by lane.

    Args:
        offset: byte of the file.
        shared: rows without a thread: their lane may be that of several.
        passed: calls of earlier batches that enclose nothing in this one.
        doubtful: calls in shared lanes of which no exit can be told; `pair` sets it.
    """

    lane: Ints
    kind: Ints
    name: Ints
    offset: Ints
    shared: Mask
    passed: Mask
    doubtful: Mask


@dataclass
class Nesting:
    """Hold for each row how many calls enclose it, and the innermost one (-1 = none)."""

    depth: Ints
    parent: Ints


@dataclass
class Held:
    """Say what of a batch waits for the exits of open calls.

    Args:
        rows: rows whose depth and parent the next batch may show.
        passed: open calls that enclose nothing behind this batch.
    """

    rows: Mask
    passed: Mask


def pair(calls: Calls, without_exit: Mask) -> Ints:
    """Return of an enter its exit, `OPEN` or `NO_EXIT`; of an exit its enter, or `NO_EXIT`."""
    lane, kind, name = calls.lane, calls.kind, calls.name
    partner = np.full(len(lane), OPEN, np.int64)
    rows = _calls(kind)
    rows = _close_leaves(rows, lane, kind, name, without_exit, partner)
    shared = rows[calls.shared[rows]]
    if len(shared):
        partner[shared] = pair_without_threads(shared, kind, name, calls.offset, calls.doubtful, WAIT_BYTES)
        rows = rows[~calls.shared[rows]]
    rows, enclosing = _pair_neighbours(rows, calls, partner)
    left = rows[kind[rows] == Kind.ENTER]
    again = _next_enters(np.concatenate((enclosing, left)), lane, kind, name)
    inside = again[: len(enclosing)]
    lost = enclosing[(inside >= 0) & (inside < partner[enclosing])]
    partner[partner[lost]] = NO_EXIT
    partner[lost] = NO_EXIT
    again = again[len(enclosing) :]
    _pair_rest(np.union1d(rows, again[again >= 0]), lane, kind, name, partner)
    return partner


def _pair_neighbours(rows: Ints, calls: Calls, partner: Ints) -> tuple[Ints, Ints]:
    """Pair calls that nest; return the rows left, and the enters of pairs that have rows between them."""
    outer: list[Ints] = []
    is_enter = calls.kind[rows] == Kind.ENTER
    key = calls.lane[rows].astype(np.int64) << 32 | calls.name[rows]
    # Innermost pairs are neighbours; without them the next level's are. A few rounds leave only
    # the calls that lack an enter or an exit.
    while True:
        hit = is_enter[:-1] & ~is_enter[1:] & (key[:-1] == key[1:])
        at = np.flatnonzero(hit)
        if len(at) == 0:
            # The first ones enclose no call that could have their name.
            return rows, np.concatenate([rows[:0], *outer[1:]])
        first, second = rows[at], rows[at + 1]
        partner[first], partner[second] = second, first
        outer.append(first)
        keep = np.ones(len(rows), np.bool_)
        keep[at] = keep[at + 1] = False
        rows, is_enter, key = rows[keep], is_enter[keep], key[keep]


def _calls(kind: Ints) -> Ints:
    return np.flatnonzero((kind == Kind.ENTER) | (kind == Kind.EXIT))


def _close_leaves(rows: Ints, lane: Ints, kind: Ints, name: Ints, without_exit: Mask, partner: Ints) -> Ints:
    if len(rows) < 2:
        return rows
    first, second = rows[:-1], rows[1:]
    leaf = without_exit[first] & (kind[first] == Kind.ENTER) & (lane[first] == lane[second])
    leaf &= ~((kind[second] == Kind.EXIT) & (name[second] == name[first]))
    partner[first[leaf]] = NO_EXIT
    left: Ints = rows[np.append(~leaf, True)]
    return left


def _next_enters(rows: Ints, lane: Ints, kind: Ints, name: Ints) -> Ints:
    """Return for each enter the next one of the same function and lane; -1 = none."""
    if len(rows) == 0:
        return rows
    is_wanted = np.zeros(int(name.max()) + 1, np.bool_)
    is_wanted[name[rows]] = True
    enters = np.flatnonzero((kind == Kind.ENTER) & is_wanted[name])
    key = lane[enters].astype(np.int64) << 32 | name[enters]
    order = np.argsort(key, kind="stable")
    enters, key = enters[order], key[order]
    following = np.full(len(lane), -1, np.int64)
    same = key[1:] == key[:-1]
    following[enters[:-1][same]] = enters[1:][same]
    found: Ints = following[rows]
    return found


def _pair_rest(rows: Ints, lane: Ints, kind: Ints, name: Ints, partner: Ints) -> None:
    """Walk over the calls that lack one half, and over the next enters of the same functions."""
    stack: list[int] = []
    for row in rows.tolist():
        if stack and lane[stack[-1]] != lane[row]:
            stack.clear()
        same = next((i for i in range(len(stack) - 1, -1, -1) if name[stack[i]] == name[row]), -1)
        if kind[row] == Kind.ENTER:
            if same >= 0:
                partner[stack.pop(same)] = NO_EXIT
            if partner[row] == OPEN:
                stack.append(row)
        elif same < 0:
            partner[row] = NO_EXIT
        else:
            for call in stack[same + 1 :]:
                partner[call] = NO_EXIT
            partner[row], partner[stack[same]] = stack[same], row
            del stack[same:]


def next_calls(lane: Ints, kind: Ints) -> Ints:
    """Return for each row that is a call's line the next one of its lane; -1 = none."""
    following = np.full(len(lane), -1, np.int64)
    calls = _calls(kind)
    first, second = calls[:-1], calls[1:]
    same = lane[first] == lane[second]
    following[first[same]] = second[same]
    return following


def find_held(calls: Calls, partner: Ints, following: Ints, position: int) -> Held:
    """Return what waits for the exits of open calls when the file is read up to byte `position`."""
    lane, kind, passed = calls.lane, calls.kind, calls.passed
    is_open = (kind == Kind.ENTER) & (partner == OPEN) & (following >= 0) & ~passed
    waits = is_open & ~calls.shared & (position - calls.offset <= WAIT_BYTES)
    if not waits.any():
        return Held(np.zeros(len(lane), np.bool_), passed | is_open)
    starts = np.zeros(len(lane), np.int64)
    starts[following[waits]] = 1
    return Held(_count_in_lane(starts, lane) > 0, passed | (is_open & ~waits))


def _count_in_lane(steps: Ints, lane: Ints) -> Ints:
    """Return the running sum of `steps`, begun anew in each lane."""
    total = np.cumsum(steps, dtype=np.int64)
    starts = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.zeros(0, np.int64)
    base = np.where(starts > 0, total[starts - 1], 0)
    counted: Ints = total - np.repeat(base, np.diff(np.append(starts, len(lane))))
    return counted


def nest(calls: Calls, partner: Ints, following: Ints) -> Nesting:
    """Return depth and innermost enclosing call of every row; `passed` calls enclose nothing."""
    lane, kind, offset = calls.lane, calls.kind, calls.offset
    enter = (kind == Kind.ENTER) & ~calls.passed
    stops = np.where(partner >= 0, partner, 0)
    to_exit = enter & ~calls.shared & (partner >= 0) & (offset[stops] - offset <= WAIT_BYTES)
    to_next = enter & ~to_exit & (following >= 0)
    # An enter has one exit and one next call.
    steps = enter.astype(np.int8)
    steps[partner[to_exit]] -= 1
    steps[following[to_next]] -= 1
    depth = _count_in_lane(steps, lane) - enter
    parent = np.full(len(lane), -1, np.int64)
    index = np.arange(len(lane))
    for level in range(int(depth.max(initial=0))):
        last = np.maximum.accumulate(np.where(enter & (depth == level), index, -1))
        inside = depth == level + 1
        parent[inside] = last[inside]
    return Nesting(depth, parent)
