"""Vectorised reading of bytes: words, tokens, numbers, and codes for repeated texts.

Every function works on an array of positions in one block at once. Positions count in the padded
buffer of `Text`, so a word near the start or end of a line may be loaded without a bounds check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr import native

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_LOW = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
# The first n bytes of a word.
_KEEP = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [0xFFFFFFFFFFFFFFFF], np.uint64)
_ZEROS = np.uint64(0x3030303030303030)
MIX = np.uint64(0x9E3779B97F4A7C15)


def _first_of(found: Words) -> Ints:
    """Return the index of the first byte whose highest bit is set in `found` (8 = none)."""
    lowest = found & (~found + np.uint64(1))
    return (np.bitwise_count(lowest - np.uint64(1)) >> 3).astype(np.int64)


def _find(word: Words, stops: bytes) -> Ints:
    """Return the index of the first byte that is one of `stops` (8 = none)."""
    found = np.zeros(len(word), np.uint64)
    for stop in set(stops):
        other = word ^ (_LOW * np.uint64(stop))
        found |= (other - _LOW) & ~other & _HIGH
    return _first_of(found)


def _last_digits(word: Words, keep: Ints | int) -> Words:
    """Return the word with zeros as digits in place of all but its last `keep` bytes."""
    if isinstance(keep, int) and keep == 8:
        return word.copy()
    drop = _KEEP[8 - keep]
    blanked: Words = (word & ~drop) | (_ZEROS & drop)
    return blanked


def _all_digits(word: Words) -> Mask:
    """Tell whether all 8 bytes are decimal digits."""
    over = word + _LOW * np.uint64(6)
    high = _LOW * np.uint64(0xF0)
    good: Mask = ((word & high) | ((over & high) >> np.uint64(4))) == _LOW * np.uint64(0x33)
    return good


def _swar(word: Words) -> Words:
    """Return the value of 8 decimal digits."""
    word = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    word = (word * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)


def _mix(code: Words, word: Words | np.uint64) -> Words:
    """Return the hash `code` continued by a word."""
    code = (code ^ word) * MIX
    return code ^ (code >> np.uint64(29))


PAD = 64
# Room for texts that are added to a block.
_SPARE = 64 << 10


def pad(*parts: bytes | bytearray | memoryview) -> bytearray:
    """Return the joined parts with the padding of `Text`: `PAD` bytes before them, a newline and zeros behind."""
    return bytearray().join((bytes(PAD), *parts, b"\n", bytes(16 * PAD + _SPARE)))


class Text:
    """Hold one block of bytes with padding, readable as bytes and as words at any position."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._wrap(pad(data), PAD, PAD + len(data))

    @classmethod
    def within(cls, raw: bytearray, start: int, stop: int) -> Text:
        """Return a part of padded bytes (`pad`) that ends at a line end, without a copy of it."""
        text = cls.__new__(cls)
        text._wrap(raw, start, stop)
        return text

    def _wrap(self, raw: bytearray, start: int, stop: int) -> None:
        self.raw, self.start, self.stop = raw, start, stop
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(self.raw, np.uint8)
        self.words: Words = np.ndarray((len(self.raw) - 7,), "<u8", self.raw, strides=(1,))

    def with_texts(self, texts: list[bytes]) -> tuple[Text, Ints]:
        """Return the block with further texts behind it, each one a line, and where they begin."""
        added = b"".join(text + b"\n" for text in texts)
        held, place = self, len(self.raw) - 15 * PAD - _SPARE
        if len(added) > _SPARE:
            raw = pad(self.raw[PAD:], added)
            held, place = Text.within(raw, self.start, self.stop), len(self.raw)
        else:
            self.raw[place : place + len(added)] = added
        return held, place + np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])

    def word(self, at: Ints) -> Words:
        """Return the 8 bytes at each position as one little-endian number."""
        found: Words = self.words[at]
        return found

    def lines(self) -> tuple[Ints, Ints]:
        """Return start and end (without the newline) of every line."""
        return native.find_lines(self.bytes, self.start, self.stop)

    def token(self, at: Ints, stops: bytes, most: int) -> tuple[Ints, Words]:
        """Return end and hash of the text from each position up to a byte of `stops` or a newline.

        A token without a stop byte within `most` bytes (a multiple of 8) ends there.
        """
        length = np.zeros(len(at), np.int64)
        code = np.zeros(len(at), np.uint64)
        going = np.arange(len(at))
        for i in range(0, most, 8):
            word = self.word(at[going] + i)
            size = _find(word, stops + b"\n")
            length[going] += size
            code[going] = _mix(code[going], word & _KEEP[size])
            going = going[size == 8]
            if len(going) == 0:
                break
        return at + length, _mix(code, length.astype(np.uint64))

    def slice(self, at: int, end: int) -> bytes:
        """Return the bytes between two positions."""
        return bytes(self.raw[at:end])

    def read(self, at: int, end: int) -> str:
        """Return the text between two positions; broken UTF-8 is replaced."""
        return self.raw[at:end].decode("utf-8", "replace")


def decimal(words_of: Text, end: Ints, size: Ints) -> tuple[Words, Mask]:
    """Return value and validity of the `size` (at most 16) decimal digits before each `end`."""
    low = _last_digits(words_of.word(end - 8), np.minimum(size, 8))
    value, good = _swar(low), _all_digits(low)
    if size.max(initial=0) > 8:
        high = _last_digits(words_of.word(end - 16), np.clip(size - 8, 0, 8))
        value, good = value + _swar(high) * np.uint64(100_000_000), good & _all_digits(high)
    return value, good


class Codes:
    """Give equal texts equal small codes, by their 64-bit hash; only new texts run Python code."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.values: list[Any] = []
        self.table = native.HashTable()
        self._decode = decode
        self._by_value: dict[Any, int] = {}

    def code_of(self, value: Any) -> int:
        """Return the code of a decoded value."""
        code = self._by_value.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def encode(self, text: Text, at: Ints, end: Ints, hashes: Words | None = None) -> Ints:
        """Return the code of each text between `at` and `end`.

        Args:
            text: holds the texts.
            at, end: where they are.
            hashes: of the texts, always made in the same way; where they are not given they are those of the spans.
        """
        if hashes is None:
            codes, hashes, all_known = native.code_spans(self.table, text.bytes, at, end)
        else:
            codes, all_known = self.table.find(hashes)
        if not all_known:
            missing = np.flatnonzero(codes < 0)
            new, first = np.unique(hashes[missing], return_index=True)
            added = [self.code_of(self._decode(text.slice(int(at[i]), int(end[i])))) for i in missing[first]]
            self.table.add(new, np.array(added, np.int64))
            codes[missing], _ = self.table.find(hashes[missing])
        return codes
