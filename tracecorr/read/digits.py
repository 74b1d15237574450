"""Numbers out of 8-byte words: all digits of a word at once, with additions and shifts (SWAR).

A word holds 8 characters, the first one in its lowest byte.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

LOW = np.uint64(0x0101010101010101)
HIGH = np.uint64(0x8080808080808080)
# The first n bytes of a word.
KEEP = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [0xFFFFFFFFFFFFFFFF], np.uint64)
ZEROS = np.uint64(0x3030303030303030)
MIX = np.uint64(0x9E3779B97F4A7C15)


def first_of(found: Words) -> Ints:
    """Return the index of the first byte whose highest bit is set in `found` (8 = none)."""
    lowest = found & (~found + np.uint64(1))
    return (np.bitwise_count(lowest - np.uint64(1)) >> 3).astype(np.int64)


def find(word: Words, stops: bytes) -> Ints:
    """Return the index of the first byte that is one of `stops` (8 = none)."""
    found = np.zeros(len(word), np.uint64)
    for stop in set(stops):
        other = word ^ (LOW * np.uint64(stop))
        found |= (other - LOW) & ~other & HIGH
    return first_of(found)


def last_digits(word: Words, keep: Ints | int) -> Words:
    """Return the word with zeros as digits in place of all but its last `keep` bytes."""
    if isinstance(keep, int) and keep == 8:
        return word.copy()
    drop = KEEP[8 - keep]
    blanked: Words = (word & ~drop) | (ZEROS & drop)
    return blanked


def all_digits(word: Words) -> Mask:
    """Tell whether all 8 bytes are decimal digits."""
    over = word + LOW * np.uint64(6)
    high = LOW * np.uint64(0xF0)
    good: Mask = ((word & high) | ((over & high) >> np.uint64(4))) == LOW * np.uint64(0x33)
    return good


def swar(word: Words) -> Words:
    """Return the value of 8 decimal digits."""
    word = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    word = (word * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)


def mix(code: Words, word: Words | np.uint64) -> Words:
    """Return the hash `code` continued by a word."""
    code = (code ^ word) * MIX
    return code ^ (code >> np.uint64(29))
