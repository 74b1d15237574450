"""HIP calls: which exit belongs to which enter, and which calls enclose a record.

All arrays are in the order of the file; each row has a lane (one per thread). That the exit
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

from tracecorr import native
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.amdlog.shared_lane import pair_without_threads
from tracecorr.read.digits import Ints, Mask

# They print no exit line (some releases do, then it is the very next record of the thread).
WITHOUT_EXIT = ("hipGetLastError", "hipExtGetLastError")
# Bounds what waits: all rows that are held back lie in the last so many bytes read.
WAIT_BYTES = 8 << 20

OPEN, NO_EXIT = -1, -2


@dataclass
class Held:
    """Say what of a batch waits for the exits of open calls.

    Args:
        rows: rows whose depth and parent the next batch may show.
        passed: open calls that enclose nothing behind this batch.
    """

    rows: Mask
    passed: Mask


def pair(records: native.Records, without_exit: Mask, doubtful: Mask) -> tuple[Ints, Ints]:
    """Return of an enter its exit, `OPEN` or `NO_EXIT`, of an exit its enter, or `NO_EXIT`; and the next calls.

    Args:
        records: the rows.
        without_exit: functions that print no exit line.
        doubtful: calls in shared lanes of which no exit can be told; those of this block are added.

    Returns: with the partners of each call the next call's row of its lane (-1 = none).
    """
    lane, kind, name = (records.columns[column] for column in ("lane", "kind", "name"))
    partner, following, left, enclosing = records.pair_calls(without_exit)
    _pair_shared(records, partner, doubtful)
    enters = left[kind[left] == Kind.ENTER]
    again = _next_enters(np.concatenate((enclosing, enters)), lane, kind, name)
    inside = again[: len(enclosing)]
    lost = enclosing[(inside >= 0) & (inside < partner[enclosing])]
    partner[partner[lost]] = NO_EXIT
    partner[lost] = NO_EXIT
    again = again[len(enclosing) :]
    walked = np.union1d(left, again[again >= 0])
    _pair_rest(walked[np.argsort(lane[walked], kind="stable")], lane, kind, name, partner)
    return partner, following


def _pair_shared(records: native.Records, partner: Ints, doubtful: Mask) -> None:
    """Set the partners of calls in shared lanes."""
    lane, kind, name, offset = (records.columns[column] for column in ("lane", "kind", "name", "offset"))
    shared = records.columns["shared"]
    if not shared.any():
        return
    rows = np.flatnonzero(shared & ((kind == Kind.ENTER) | (kind == Kind.EXIT)) & (partner == OPEN))
    rows = rows[np.argsort(lane[rows], kind="stable")]
    in_doubt = doubtful[rows]
    found = pair_without_threads(np.arange(len(rows)), kind[rows], name[rows], offset[rows], in_doubt, WAIT_BYTES)
    doubtful[rows], partner[rows] = in_doubt, np.where(found >= 0, rows[np.maximum(found, 0)], found)


def _next_enters(rows: Ints, lane: Ints, kind: Ints, name: Ints) -> Ints:
    """Return for each enter the next one of the same function and lane; -1 = none."""
    if len(rows) == 0:
        return rows
    # Mostly these are the last calls of a block.
    first = int(rows.min())
    is_wanted = np.zeros(int(name.max()) + 1, np.bool_)
    is_wanted[name[rows]] = True
    enters = first + np.flatnonzero((kind[first:] == Kind.ENTER) & is_wanted[name[first:]])
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


def nest(records: native.Records, partner: Ints) -> tuple[Ints, Ints]:
    """Return how many calls enclose each row, and the innermost one (-1 = none)."""
    return records.nest_calls(partner, WAIT_BYTES)


def find_held(records: native.Records, partner: Ints, following: Ints, position: int) -> Held:
    """Return what waits for the exits of open calls when the file is read up to byte `position`."""
    lane, kind, offset, passed = (records.columns[column] for column in ("lane", "kind", "offset", "passed"))
    is_open = (kind == Kind.ENTER) & (partner == OPEN) & (following >= 0) & ~passed
    waits = is_open & ~records.columns["shared"] & (position - offset <= WAIT_BYTES)
    if not waits.any():
        return Held(np.zeros(records.count, np.bool_), passed | is_open)
    first = np.full(records.lanes, records.count)
    np.minimum.at(first, lane[waits], following[waits])
    return Held(np.arange(records.count) >= first[lane], passed | (is_open & ~waits))
