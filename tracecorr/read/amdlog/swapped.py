"""Records of several processes that share one pipe: whose second half is behind which first half.

A long line may leave unbuffered stderr in pieces. Where two processes print at once, the first piece of one line is
followed by that of another one, and what follows then is the rest of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracecorr.read.amdlog.torn import is_coloured, may_go_on_with
from tracecorr.read.digits import Ints, Mask
from tracecorr.read.text import Text

# Bytes of a piece (measured with the C library that HIP 7.2.4 and 6.4.3 ran on).
PIECE = 128
# So many lines of other processes may stand between the halves of one.
_MOST_RECORDS = 63


@dataclass(frozen=True)
class Head:
    """Hold the first half of a record whose rest may be on a later line.

    Args:
        message: what is sure of its message.
        coloured: whether that is in colour.
        pid: its process.
        left: so many records may still come before the rest.
    """

    message: bytes
    coloured: bool
    pid: int | None
    left: int = _MOST_RECORDS


def find_swapped(
    text: Text, start: Ints, message: Ints, end: Ints, torn: Mask, thread: Ints, pids: Sequence[int | None],
    waiting: Sequence[Head],
) -> tuple[set[int], tuple[Head, ...]]:  # fmt: skip
    """Return the records that may have the rest of another one for their own: of them only the first piece is sure.

    Args:
        text: a part of the log.
        start, message, end: of its records, in the order of the file.
        torn: which are followed by another record on their line.
        thread: of the records, places in `pids`.
        pids: the process of each thread; the lines of one process never mix.
        waiting: what the part before leaves to this one.

    Returns: with them what this part leaves to the next one.
    """
    swapped: set[int] = set()

    def cut(i: int, stop: int) -> tuple[Head, int]:
        at = int(message[i])
        return Head(text.slice(at, stop), is_coloured(text, at), pids[thread[i]]), i

    heads = [(head, -1) for head in waiting]
    halves = np.flatnonzero(torn)
    heads += [cut(i, int(end[i])) for i in halves[(end[halves] - start[halves]) % PIECE == 0].tolist()]
    left = []
    while heads:
        head, at = heads.pop()
        others = range(at + 1, min(at + 1 + head.left, len(start)))
        for other in others:
            # The next line of its process begins behind the rest of this one.
            if pids[thread[other]] == head.pid:
                break
            rests = range(int(start[other]) + PIECE, int(end[other]), PIECE)
            if any(may_go_on_with(head.message, head.coloured, text.slice(rest, int(end[other]))) for rest in rests):
                if other not in swapped and not torn[other]:
                    heads.append(cut(other, int(start[other]) + PIECE))
                swapped |= {at, other} - {-1}
        else:
            if len(others) < head.left:
                left.append(replace(head, left=head.left - len(others)))
    return swapped, tuple(left)
