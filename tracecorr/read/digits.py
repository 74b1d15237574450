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
POWERS = np.array([10**n for n in range(9)], np.uint64)
_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
ZEROS = np.uint64(0x3030303030303030)
_SIXTEENS = np.uint64(0x1010101010101010)


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


def count_decimal(word: Words) -> Ints:
    """Return how many of the first bytes are decimal digits."""
    low = word & _SEVEN
    good = (low + np.uint64(0x5050505050505050)) & ~(low + np.uint64(0x4646464646464646)) & ~word
    return first_of(~good & HIGH)


def count_hexadecimal(word: Words) -> Ints:
    """Return how many of the first bytes are hexadecimal digits."""
    low = word & _SEVEN
    good = (low + np.uint64(0x5050505050505050)) & ~(low + np.uint64(0x4646464646464646))
    low |= np.uint64(0x2020202020202020)
    # Bit 6 moved up: letters have it, `!` to `&` do not.
    letter = (low + np.uint64(0x1F1F1F1F1F1F1F1F)) & ~(low + np.uint64(0x1919191919191919)) & (word << np.uint64(1))
    return first_of(~((good | letter) & ~word) & HIGH)


def decimal_of(word: Words, size: Ints) -> Words:
    """Return the value of the first `size` bytes, all decimal digits."""
    shift = np.uint64(8) * (8 - size).astype(np.uint64)
    return swar((word << shift) | (ZEROS & KEEP[8 - size]))


def hexadecimal_of(word: Words, size: Ints) -> Words:
    """Return the value of the first `size` bytes, all hexadecimal digits."""
    word = word << (np.uint64(8) * (8 - size).astype(np.uint64))
    word = (word & np.uint64(0x0F0F0F0F0F0F0F0F)) + np.uint64(9) * ((word >> np.uint64(6)) & LOW)
    return _joined_nibbles(word)


def _joined_nibbles(word: Words) -> Words:
    """Return the number whose hexadecimal digits are the values of the 8 bytes."""
    word = ((word << np.uint64(4)) | (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    word = ((word << np.uint64(8)) | (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return ((word << np.uint64(16)) | (word >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


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


def eight_hexadecimal(word: Words) -> tuple[Words, Mask]:
    """Return the value of 8 (lower-case) hexadecimal digits, and whether all bytes are that."""
    letters = (word >> np.uint64(6)) & LOW
    value = (word & (LOW * np.uint64(15))) + letters * np.uint64(9)
    # A byte is a digit when its value gives it back, and is 10 or more for letters only.
    good: Mask = value + ZEROS + letters * np.uint64(39) == (word | letters << np.uint64(5))
    good &= ((value + LOW * np.uint64(6)) & _SIXTEENS) == letters << np.uint64(4)
    good &= (value & _SIXTEENS) == 0
    return _joined_nibbles(value), good


def swar(word: Words) -> Words:
    """Return the value of 8 decimal digits."""
    word = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    word = (word * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
