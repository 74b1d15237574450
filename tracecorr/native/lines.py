"""Lines of a block."""

from __future__ import annotations

import numpy as np

from tracecorr.native.arrays import Bytes, Ints, address
from tracecorr.native.library import KERNEL

# Lines are hardly ever shorter; where they are, they are looked for once more.
_USUAL_LINE_BYTES = 32


def find_lines(raw: Bytes, start: int, stop: int) -> tuple[Ints, Ints]:
    """Return start and end (without the newline) of every line between two positions."""
    for room in ((stop - start) // _USUAL_LINE_BYTES + 1, stop - start):
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = KERNEL.find_lines(address(raw), start, stop, room, address(starts), address(ends))
        if count >= 0:
            return starts[:count], ends[:count]
    raise AssertionError("each line has a byte")
