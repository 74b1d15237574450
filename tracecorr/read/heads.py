"""The first bytes of many texts side by side: their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.read.digits import Ints, Words

MIX = np.uint64(0x9E3779B97F4A7C15)


class Heads:
    """Hold the first `size` bytes from each of many positions, side by side."""

    def __init__(self, rows: npt.NDArray[Any], size: int) -> None:
        self._rows = rows
        self.size = size

    def __len__(self) -> int:
        return len(self._rows)

    def word(self, place: int) -> Words:
        """Return the 8 bytes at `place` of each row as one little-endian number."""
        if len(self._rows) == 0:
            return np.zeros(0, np.uint64)
        found: Words = np.ndarray((len(self._rows),), "<u8", self._rows, place, (self.size,))
        return found

    def take(self, rows: Ints) -> Heads:
        """Return some of the rows."""
        return Heads(self._rows[rows], self.size)


def mix(code: Words, word: Words | np.uint64) -> Words:
    """Return the hash `code` continued by a word."""
    code = (code ^ word) * MIX
    return code ^ (code >> np.uint64(29))
