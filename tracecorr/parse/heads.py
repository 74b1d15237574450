"""The first bytes of many texts side by side: their words, and hashes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.parse.digits import KEEP, Ints, Words

MIX = np.uint64(0x9E3779B97F4A7C15)
# Odd numbers without a pattern; a hash of words is their sum of products.
FACTORS = np.array([pow(0x9E3779B97F4A7C15, 2 * i + 3, 1 << 64) for i in range(64)], np.uint64)


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

    def words(self, place: int, count: int) -> Words:
        """Return `count` words from `place` (a multiple of 8) of each row, one row per row."""
        shape = len(self._rows), count
        return np.ndarray(shape, "<u8", self._rows, place, (self.size, 8)) if len(self) else np.zeros(shape, np.uint64)

    def hash(self, place: int, size: int) -> Words:
        """Return the hash of `size` bytes at `place` of each row."""
        if size < 8:
            return mix(np.full(len(self), size, np.uint64), self.word(place) & KEEP[size])
        # Whole words of the rows at once, and those at both ends, which may overlap them.
        first, last = -(-place // 8), (place + size) // 8
        code = np.vecdot(self.words(8 * first, last - first), FACTORS[: last - first])
        for i, at in enumerate((place, place + size - 8)):
            if at % 8:
                code += self.word(at) * FACTORS[last - first + i]
        return mix(code, np.uint64(size))

    def find_pair(self, pair: bytes) -> Ints:
        """Return where each row has the two bytes `pair` first; -1 = nowhere."""
        wanted = np.frombuffer(pair, "<u2")[0]
        found = np.full(len(self), self.size)
        for odd in (0, 1) if len(self) else ():
            shape = len(self), self.size // 2 - odd
            hits = np.ndarray(shape, "<u2", self._rows, odd, (self.size, 2)) == wanted
            some = np.flatnonzero(hits.any(axis=1))
            found[some] = np.minimum(found[some], 2 * hits[some].argmax(axis=1) + odd)
        return np.where(found < self.size, found, -1)

    def take(self, rows: Ints) -> Heads:
        """Return some of the rows."""
        return Heads(self._rows[rows], self.size)


def mix(code: Words, word: Words | np.uint64) -> Words:
    """Return the hash `code` continued by a word."""
    code = (code ^ word) * MIX
    return code ^ (code >> np.uint64(29))
