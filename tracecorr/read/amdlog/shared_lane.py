"""HIP calls of records without a thread: several threads may print into the one lane.

An exit belongs to the open call of its name only if there is just one. Two open calls of one name
may be those of two threads: which exit is whose cannot be told, so none of them is paired. A call
that is still open when one that it began inside of ends does not nest and is not paired either.
Doubt about a name ends when its open calls have ended, or lie further back than an exit is waited for.
"""

from __future__ import annotations

from collections import deque

from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.digits import Ints, Mask


def pair_without_threads(rows: Ints, kind: Ints, name: Ints, offset: Ints, doubtful: Mask, wait_bytes: int) -> Ints:
    """Return for each of `rows` (calls in file order) its partner; -1 = open, -2 = none.

    Sets `doubtful` where calls are; those of earlier batches that were doubtful still are.
    """
    partner = dict.fromkeys(rows.tolist(), -1)
    by_name: dict[int, deque[int]] = {}
    # At most one call per name is beyond doubt.
    certain: dict[int, int] = {}
    for row in partner:
        code = int(name[row])
        calls = by_name.setdefault(code, deque())
        while calls and doubtful[calls[0]] and offset[row] - offset[calls[0]] > wait_bytes:
            partner[calls.popleft()] = -2
        if kind[row] == Kind.ENTER:
            if calls:
                doubtful[[calls[-1], row]] = True
                certain.pop(code, None)
            elif not doubtful[row]:
                certain[code] = row
            calls.append(row)
            continue
        call = calls.pop() if calls else -1
        if call < 0 or doubtful[call]:
            partner[row] = -2
            partner.update({call: -2} if call >= 0 else {})
            continue
        partner[row], partner[call] = call, row
        del certain[code]
        for other, inner in list(certain.items()):
            if inner > call:
                doubtful[inner] = True
                del certain[other]
    found = rows.copy()
    found[:] = list(partner.values())
    return found
