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
from tracecorr.read.digits import KEEP, Ints, Mask, Words, all_digits, find, last_digits, mix, swar

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
            size = find(word, stops + b"\n")
            length[going] += size
            code[going] = mix(code[going], word & KEEP[size])
            going = going[size == 8]
            if len(going) == 0:
                break
        return at + length, mix(code, length.astype(np.uint64))

    def slice(self, at: int, end: int) -> bytes:
        """Return the bytes between two positions."""
        return bytes(self.raw[at:end])

    def read(self, at: int, end: int) -> str:
        """Return the text between two positions; broken UTF-8 is replaced."""
        return self.raw[at:end].decode("utf-8", "replace")


def decimal(words_of: Text, end: Ints, size: Ints) -> tuple[Words, Mask]:
    """Return value and validity of the `size` (at most 16) decimal digits before each `end`."""
    low = last_digits(words_of.word(end - 8), np.minimum(size, 8))
    value, good = swar(low), all_digits(low)
    if size.max(initial=0) > 8:
        high = last_digits(words_of.word(end - 16), np.clip(size - 8, 0, 8))
        value, good = value + swar(high) * np.uint64(100_000_000), good & all_digits(high)
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
