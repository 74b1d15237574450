"""Records of several processes that share one pipe: whose second half is behind which first half.

A long line may leave unbuffered stderr in pieces. Where two processes print at once, the first piece of one line is
followed by that of another one, and what follows then is the rest of either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracecorr.parse.amdlog.torn import may_go_on_with
from tracecorr.parse.digits import Ints, Mask
from tracecorr.parse.text import Text

# Bytes of a piece (measured with the C library that HIP 7.2.4 and 6.4.3 ran on).
PIECE = 128
# So many lines of other processes may stand between the halves of one.
_MOST_RECORDS = 64


def find_swapped(
    text: Text, start: Ints, message: Ints, end: Ints, torn: Mask, thread: Ints, pids: Sequence[int | None]
) -> set[int]:
    """Return the records that may have the rest of another one for their own: of them only the first piece is sure.

    Args:
        start, message, end: of the records, in the order of the file.
        torn: which are followed by another record on their line.
        thread: of the records, places in `pids`.
        pids: the process of each thread; the lines of one process never mix.
    """
    swapped: set[int] = set()
    # Records of which only a first half is sure, with its end.
    heads = [(i, int(end[i])) for i in np.flatnonzero(torn & ((end - start) % PIECE == 0)).tolist()]
    while heads:
        head, cut = heads.pop()
        for other in range(head + 1, min(head + _MOST_RECORDS, len(start))):
            # The next line of its process begins behind the rest of this one.
            if pids[thread[other]] == pids[thread[head]]:
                break
            rests = range(int(start[other]) + PIECE, int(end[other]), PIECE)
            if any(may_go_on_with(text, int(message[head]), cut, rest, int(end[other])) for rest in rests):
                if other not in swapped and not torn[other]:
                    heads.append((other, int(start[other]) + PIECE))
                swapped |= {head, other}
    return swapped
