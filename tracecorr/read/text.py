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
from tracecorr.read.digits import (
    KEEP,
    POWERS,
    Ints,
    Mask,
    Words,
    all_digits,
    count_decimal,
    count_hexadecimal,
    decimal_of,
    eight_hexadecimal,
    find,
    hexadecimal_of,
    last_digits,
    swar,
)
from tracecorr.read.heads import Heads, mix

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

    def heads(self, at: Ints, size: int) -> Heads:
        """Return the `size` bytes (a multiple of 8, at most 15 times `PAD`) from each position."""
        windows = np.ndarray((len(self.raw) - size + 1,), f"V{size}", self.raw, strides=(1,))
        return Heads(windows[at], size)

    def starts_with(self, at: Ints, literal: bytes) -> Mask:
        """Return where the bytes at a position are `literal`."""
        same = np.ones(len(at), np.bool_)
        for i in range(0, len(literal), 8):
            part = literal[i : i + 8]
            found = self.word(at + i) & KEEP[len(part)]
            same &= found == np.uint64(int.from_bytes(part, "little"))
        return same

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
            size = find(word, stops + b"\n")
            length[going] += size
            code[going] = mix(code[going], word & KEEP[size])
            going = going[size == 8]
            if len(going) == 0:
                break
        return at + length, mix(code, length.astype(np.uint64))

    def find(self, at: Ints, stops: bytes, most: int) -> Ints:
        """Return the place of the first byte of `stops` or newline after each position, at most `most` bytes on."""
        end = at.copy()
        going = np.arange(len(at))
        for _ in range(0, most, 8):
            size = find(self.word(end[going]), stops + b"\n")
            end[going] += size
            going = going[size == 8]
            if len(going) == 0:
                break
        return end

    def number(self, at: Ints, bare_base: int = 10) -> tuple[Words, Ints, Mask]:
        """Return value, end and presence of the number at each position.

        Understood are `0x` with hexadecimal digits, digits of `bare_base`, `-` before them (two's
        complement) and `(nil)` or `<null>`, which are zero.
        """
        if len(at) == 0:
            return np.zeros(0, np.uint64), at, np.zeros(0, np.bool_)
        heads = self.heads(at, 32)
        first = heads.word(0)
        is_hex = (first & np.uint64(0xFFFF)) == np.uint64(0x7830)
        twice = (first & np.uint64(0xFFFFFFFF)) == np.uint64(0x78307830)
        if twice.any():
            value, end, good = self.number(at + 2 * twice, bare_base)
            return value, np.where(good, end, at), good
        if is_hex.all():
            value, size = _hexadecimal(heads, 2)
            end = at + np.where(size > 0, size + 2, 0)
        elif bare_base == 10 and not is_hex.any() and (count_decimal(first) > 0).all():
            value, size = _decimal(heads, 0)
            end = at + size
        else:
            value, end = self._mixed_numbers(heads, at, is_hex, bare_base)
        if (end == at).any():
            for nothing in (b"(nil)", b"<null>"):
                end += np.where(self.starts_with(at, nothing), len(nothing), 0)
        return value, end, end > at

    @staticmethod
    def _mixed_numbers(heads: Heads, at: Ints, is_hex: Mask, bare_base: int) -> tuple[Words, Ints]:
        """Return value and end of numbers of several kinds."""
        value, end = np.zeros(len(at), np.uint64), at.copy()
        negative = (heads.word(0) & np.uint64(0xFF)) == np.uint64(0x2D)
        bare = _hexadecimal if bare_base == 16 else _decimal
        for rows, skip, digits in (
            (np.flatnonzero(is_hex), 2, _hexadecimal),
            (np.flatnonzero(~is_hex & ~negative), 0, bare),
            (np.flatnonzero(negative), 1, _decimal),
        ):
            if len(rows):
                got, size = digits(heads.take(rows), skip)
                value[rows] = -got if skip == 1 else got
                end[rows] += np.where(size > 0, size + skip, 0)
        return value, end

    def slice(self, at: int, end: int) -> bytes:
        """Return the bytes between two positions."""
        return bytes(self.raw[at:end])

    def read(self, at: int, end: int) -> str:
        """Return the text between two positions; broken UTF-8 is replaced."""
        return self.raw[at:end].decode("utf-8", "replace")


# 2^64 - 1 is 18446744073709551615: its first 16 digits, and its last four.
_START_OF_MOST, _REST_OF_MOST = np.uint64(1844674407370955), np.uint64(1615)


def _hexadecimal(heads: Heads, place: int) -> tuple[Words, Ints]:
    """Return value and number of the hexadecimal digits at a place in each head; 0 where they are more than 16."""
    word = heads.word(place)
    size = count_hexadecimal(word)
    value = hexadecimal_of(word, size)
    more = np.flatnonzero(size == 8)
    if len(more):
        word = heads.word(place + 8)[more]
        rest = count_hexadecimal(word)
        value[more] = (value[more] << (np.uint64(4) * rest.astype(np.uint64))) | hexadecimal_of(word, rest)
        size[more] += rest
        full = more[rest == 8]
        size[full[count_hexadecimal(heads.word(place + 16)[full]) > 0]] = 0
    return value, size


def _decimal(heads: Heads, place: int) -> tuple[Words, Ints]:
    """Return value and number of the decimal digits at a place in each head; 0 where they are 2^64 or more."""
    word = heads.word(place)
    size = count_decimal(word)
    value = decimal_of(word, size)
    more = np.flatnonzero(size == 8)
    for behind in (8, 16):
        if len(more) == 0:
            break
        word = heads.word(place + behind)[more]
        rest = count_decimal(word)
        low, high = decimal_of(word, rest), value[more]
        value[more] = high * POWERS[rest] + low
        size[more] += rest
        if behind == 16:
            wraps = (rest > 4) | (rest == 4) & (high + (low > _REST_OF_MOST) > _START_OF_MOST)
            size[more[wraps]] = 0
        more = more[rest == 8]
    return value, size


def decimal(words_of: Text, end: Ints, size: Ints) -> tuple[Words, Mask]:
    """Return value and validity of the `size` (at most 16) decimal digits before each `end`."""
    low = last_digits(words_of.word(end - 8), np.minimum(size, 8))
    value, good = swar(low), all_digits(low)
    if size.max(initial=0) > 8:
        high = last_digits(words_of.word(end - 16), np.clip(size - 8, 0, 8))
        value, good = value + swar(high) * np.uint64(100_000_000), good & all_digits(high)
    return value, good


def hexadecimal(words_of: Text, end: Ints, size: Ints) -> tuple[Words, Mask]:
    """Return value and validity of the `size` (at most 16) hexadecimal digits before each `end`."""
    value, good = eight_hexadecimal(last_digits(words_of.word(end - 8), np.minimum(size, 8)))
    if size.max(initial=0) > 8:
        high, fine = eight_hexadecimal(last_digits(words_of.word(end - 16), np.clip(size - 8, 0, 8)))
        value, good = value | high << np.uint64(32), good & fine
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
