"""Vectorised reading of bytes: words, tokens, numbers, and codes for repeated texts.

Every function works on an array of positions in one block at once. Positions count in the padded
buffer of `Text`, so a word near the start or end of a line may be loaded without a bounds check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

PAD = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_KEEP = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [0xFFFFFFFFFFFFFFFF], np.uint64)
_ZEROS = np.uint64(0x3030303030303030)
_SIXTEENS = np.uint64(0x1010101010101010)

_DIGIT = np.full(256, 99, np.uint8)
for _value, _text in enumerate(b"0123456789abcdef"):
    _DIGIT[_text] = _value
    _DIGIT[bytes([_text]).upper()[0]] = _value


class Text:
    """Hold one block of bytes with padding, readable as bytes and as words at any position."""

    def __init__(self, data: bytes) -> None:
        self.raw = b"".join((bytes(PAD), data, b"\n", bytes(4 * PAD)))
        self.start, self.stop = PAD, PAD + len(data)
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(self.raw, np.uint8)
        self.words: Words = np.ndarray((len(self.raw) - 7,), "<u8", self.raw, strides=(1,))

    def word(self, at: Ints) -> Words:
        """Return the 8 bytes at each position as one little-endian number."""
        found: Words = self.words[at]
        return found

    def starts_with(self, at: Ints, literal: bytes) -> Mask:
        """Return where the bytes at a position are `literal`."""
        same = np.ones(len(at), np.bool_)
        for i in range(0, len(literal), 8):
            part = literal[i : i + 8]
            found = self.word(at + i) & _KEEP[len(part)]
            same &= found == np.uint64(int.from_bytes(part, "little"))
        return same

    def lines(self) -> tuple[Ints, Ints]:
        """Return start and end (without the newline) of every line."""
        breaks = np.flatnonzero(self.bytes[self.start : self.stop] == 10).astype(np.int64) + self.start
        if self.stop > self.start and (len(breaks) == 0 or breaks[-1] != self.stop - 1):
            breaks = np.append(breaks, self.stop)
        starts = np.empty_like(breaks)
        starts[:1], starts[1:] = self.start, breaks[:-1] + 1
        return starts, breaks

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

    def find(self, at: Ints, stops: bytes, most: int) -> Ints:
        """Return the place of the first byte of `stops` or newline after each position, at most `most` bytes on."""
        end = at.copy()
        going = np.arange(len(at))
        for _ in range(0, most, 8):
            size = _find(self.word(end[going]), stops + b"\n")
            end[going] += size
            going = going[size == 8]
            if len(going) == 0:
                break
        return end

    def span_hash(self, at: Ints, end: Ints) -> Words:
        """Return the hash of the text between two positions, of any length."""
        size = np.maximum(end - at, 0)
        code = np.zeros(len(at), np.uint64)
        if len(size) and (size == size[0]).all():
            for i in range(0, int(size[0]), 8):
                code = _mix(code, self.word(at + i) & _KEEP[min(int(size[0]) - i, 8)])
            return _mix(code, size.astype(np.uint64))
        going, i = np.flatnonzero(size > 0), 0
        while len(going):
            left = np.minimum(size[going] - i, 8)
            code[going] = _mix(code[going], self.word(at[going] + i) & _KEEP[left])
            i += 8
            going = going[size[going] > i]
        return _mix(code, size.astype(np.uint64))

    def number(self, at: Ints, bare_base: int = 10) -> tuple[Words, Ints, Mask]:
        """Return value, end and presence of the number at each position.

        Understood are `0x` with hexadecimal digits, digits of `bare_base`, `-` before them (two's
        complement) and `(nil)` or `<null>`, which are zero.
        """
        head = self.word(at)
        value = np.zeros(len(at), np.uint64)
        end = at.copy()
        is_hex = (head & np.uint64(0xFFFF)) == np.uint64(0x7830)
        negative = (head & np.uint64(0xFF)) == np.uint64(0x2D)
        for rows, skip, base in ((is_hex, 2, 16), (~is_hex & ~negative, 0, bare_base), (negative, 1, 10)):
            if rows.any():
                got, size = self._digits(at[rows] + skip, base)
                value[rows] = -got if skip == 1 else got
                end[rows] += np.where(size > 0, size + skip, 0)
        if (end == at).any():
            for nothing in (b"(nil)", b"<null>"):
                end += np.where(self.starts_with(at, nothing), len(nothing), 0)
        return value, end, end > at

    def _digits(self, at: Ints, base: int) -> tuple[Words, Ints]:
        words = np.empty((len(at), 3), np.uint64)
        for i in range(3):
            words[:, i] = self.word(at + 8 * i)
        digits = _DIGIT[words.view(np.uint8).reshape(len(at), 24)]
        stop = digits >= base
        stop[:, 20 if base == 10 else 16] = True
        size = stop.argmax(axis=1)
        value = np.zeros(len(at), np.uint64)
        for i in range(int(size.max(initial=0))):
            value = np.where(i < size, value * np.uint64(base) + digits[:, i], value)
        return value, size.astype(np.int64)

    def slice(self, at: int, end: int) -> bytes:
        """Return the bytes between two positions."""
        return self.raw[at:end]

    def read(self, at: int, end: int) -> str:
        """Return the text between two positions; broken UTF-8 is replaced."""
        return self.raw[at:end].decode("utf-8", "replace")


def decimal(words_of: Text, end: Ints, size: Ints) -> tuple[Words, Mask]:
    """Return value and validity of the `size` (at most 16) decimal digits before each `end`."""
    low = _blank(words_of.word(end - 8), np.minimum(size, 8))
    value, good = _swar(low), _all_digits(low)
    if size.max(initial=0) > 8:
        high = _blank(words_of.word(end - 16), np.clip(size - 8, 0, 8))
        value, good = value + _swar(high) * np.uint64(100_000_000), good & _all_digits(high)
    return value, good


def hexadecimal(words_of: Text, end: Ints, size: Ints) -> tuple[Words, Mask]:
    """Return value and validity of the `size` (at most 16) hexadecimal digits before each `end`."""
    low = _blank(words_of.word(end - 8), np.minimum(size, 8))
    value, good = _hex_swar(low)
    if size.max(initial=0) > 8:
        high, fine = _hex_swar(_blank(words_of.word(end - 16), np.clip(size - 8, 0, 8)))
        value, good = value | high << np.uint64(32), good & fine
    return value, good


def _hex_swar(word: Words) -> tuple[Words, Mask]:
    letters = (word >> np.uint64(6)) & _LOW
    value = (word & (_LOW * np.uint64(15))) + letters * np.uint64(9)
    # A byte is a digit when its value gives it back, and is 10 or more for letters only.
    good: Mask = value + _ZEROS + letters * np.uint64(39) == (word | letters << np.uint64(5))
    good &= ((value + _LOW * np.uint64(6)) & _SIXTEENS) == letters << np.uint64(4)
    good &= (value & _SIXTEENS) == 0
    value = (value << np.uint64(4) | value >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    value = (value << np.uint64(8) | value >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    return (value << np.uint64(16) | value >> np.uint64(32)) & np.uint64(0xFFFFFFFF), good


def _blank(word: Words, keep: Ints) -> Words:
    drop = _KEEP[8 - keep]
    return (word & ~drop) | (_ZEROS & drop)


def _all_digits(word: Words) -> Mask:
    over = word + _LOW * np.uint64(6)
    high = _LOW * np.uint64(0xF0)
    good: Mask = ((word & high) | ((over & high) >> np.uint64(4))) == _LOW * np.uint64(0x33)
    return good


def _swar(word: Words) -> Words:
    word = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    word = (word * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)


def _find(word: Words, stops: bytes) -> Ints:
    found = np.zeros(len(word), np.uint64)
    for stop in set(stops):
        other = word ^ (_LOW * np.uint64(stop))
        found |= (other - _LOW) & ~other & _HIGH
    lowest = found & (~found + np.uint64(1))
    return np.where(found == 0, 8, np.bitwise_count(lowest - np.uint64(1)) >> 3).astype(np.int64)


def _mix(code: Words, word: Words) -> Words:
    code = (code ^ word) * _MIX
    return code ^ (code >> np.uint64(29))


class Codes:
    """Give equal texts equal small codes, by their 64-bit hash; only new texts run Python code."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.values: list[Any] = []
        self._decode = decode
        self._keys = np.zeros(0, np.uint64)
        self._codes = np.zeros(0, np.int64)
        self._by_value: dict[Any, int] = {}

    def code_of(self, value: Any) -> int:
        """Return the code of a decoded value."""
        code = self._by_value.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def encode(self, text: Text, at: Ints, end: Ints, hashes: Words) -> Ints:
        """Return the code of each text between `at` and `end`, whose hashes are given."""
        codes, known = self._look_up(hashes)
        if not known.all():
            missing = np.flatnonzero(~known)
            new, first = np.unique(hashes[missing], return_index=True)
            added = [self.code_of(self._decode(text.slice(int(at[i]), int(end[i])))) for i in missing[first]]
            keys = np.concatenate((self._keys, new))
            order = np.argsort(keys)
            self._keys = keys[order]
            self._codes = np.concatenate((self._codes, np.array(added, np.int64)))[order]
            codes, _ = self._look_up(hashes)
        return codes

    def _look_up(self, hashes: Words) -> tuple[Ints, Mask]:
        if len(self._keys) == 0:
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.bool_)
        at = np.minimum(np.searchsorted(self._keys, hashes), len(self._keys) - 1)
        return self._codes[at], self._keys[at] == hashes
