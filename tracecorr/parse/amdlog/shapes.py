"""Texts that differ from one seen before in the digits of their numbers only: read at known places.

Most messages come in few shapes: the same words with numbers of the same widths between them. A shape
is learned from one text; of the others all bytes but the digits are compared, and the numbers are where
that one had them. What has no known shape is read by other means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.digits import KEEP, ZEROS, Ints, Mask, Words, all_digits, eight_hexadecimal, swar
from tracecorr.parse.heads import Heads
from tracecorr.parse.text import Text

# Bytes before a text that are at hand, so that the word that ends with a number's digit can be read.
_BEFORE = 8
_MOST_BYTES = 256
_MOST_SHAPES, _MOST_OF_A_KEY, _MOST_PICKED = 1024, 24, 32
_HEXADECIMAL, _DECIMAL = re.compile(rb"0x[0-9a-f]{1,16}"), re.compile(rb"\d{1,16}")
# A zero before an `x` would be another number.
_GOES_ON = {True: re.compile(rb"[0-9a-fA-F]"), False: re.compile(rb"[0-9x]")}
_DIGITS = re.compile(rb"(?<=0x)[0-9a-f]+|\d+")


@dataclass(frozen=True)
class Span:
    """Name a number of a text: its field, and where it begins (with its `0x`) and ends."""

    field: str
    start: int
    stop: int


@dataclass(frozen=True)
class _Digits:
    """Name digits of one base that are read at once: each row is the end of a number, or what stands before it.

    Args:
        numbers: number of the span that each row belongs to.
        stops: byte behind the digits, counted from `_BEFORE` bytes before the text.
        drop: bits of the word before it that are no digits of it.
        scale: what the digits of each row count.
    """

    numbers: tuple[int, ...]
    stops: tuple[int, ...]
    drop: Words
    scale: tuple[np.uint64, ...]


@dataclass(frozen=True)
class _Shape:
    """Hold what texts have in common.

    Args:
        keep: bits that are compared, as words.
        literal: what they are.
        fields: names of the numbers.
        label: what the texts are, as the one said that learned it.
    """

    keep: Words
    literal: Words
    fields: tuple[str, ...]
    decimals: _Digits
    hexadecimals: _Digits
    label: int


@dataclass
class Reading:
    """Hold the numbers of texts of one shape.

    Args:
        rows: which of the texts.
        label: what they are.
        fields: name and values of each number.
    """

    rows: Ints
    label: int
    fields: list[tuple[str, Words]]


class Shapes:
    """Remember the shapes seen, by kind and size of the text."""

    def __init__(self) -> None:
        self._shapes: list[_Shape] = []
        self._known: set[tuple[int, bytes]] = set()
        self._following: list[int] = []
        self._first: dict[int, int] = {}
        self._of_key: dict[int, int] = {}
        self._lay_out()

    def __len__(self) -> int:
        return len(self._shapes)

    def read(self, text: Text, kind: Ints, at: Ints, size: Ints) -> tuple[list[Reading], Ints]:
        """Return the numbers of all texts of known shapes, and which texts have none.

        Args:
            kind: a small number; texts of different kinds have different shapes.
            at, size: of the texts.
        """
        candidate = self._first_of[np.minimum(_keys(kind, size), len(self._first_of) - 1)]
        is_left = candidate < 0
        rows, readings = np.flatnonzero(~is_left), []
        while len(rows):
            tried, rows = rows, rows[:0]
            numbers = candidate[tried]
            for number in np.flatnonzero(np.bincount(numbers)).tolist():
                own = tried[numbers == number]
                reading, missed = _read(text, self._shapes[number], own, at)
                readings.append(reading)
                if len(missed):
                    candidate[missed] = self._following[number]
                    is_left[missed[candidate[missed] < 0]] = True
                    rows = np.concatenate((rows, missed[candidate[missed] >= 0]))
        return readings, np.flatnonzero(is_left)

    def pick(self, kind: Ints, size: Ints) -> Ints:
        """Return some texts that have no shape yet but may have: a few of each kind and size."""
        keys, first = np.unique(_keys(kind, size), return_index=True)
        wanted = [row for key, row in zip(keys.tolist(), first.tolist(), strict=True) if self._has_room(key)]
        return np.array(wanted[:_MOST_PICKED], np.int64)

    def _has_room(self, key: int) -> bool:
        return len(self._shapes) < _MOST_SHAPES and self._of_key.get(key, 0) < _MOST_OF_A_KEY

    def learn(self, kind: int, text: bytes, spans: list[Span], label: int = 0, free_from: int | None = None) -> None:
        """Remember the shape of a text whose numbers are plain ones: `0x` and lower-case digits, or decimal digits.

        Args:
            kind: what it is read as.
            text: has one byte more, the one behind it.
            spans: its numbers.
            label: what the texts of the shape are.
            free_from: what stands behind it is of no interest, and its digits may be anything; None = all is.
        """
        key = int(_keys(np.array([kind]), np.array([len(text) - 1]))[0])
        if len(text) > _MOST_BYTES or not self._has_room(key):
            return
        self._of_key[key] = self._of_key.get(key, 0) + 1
        shape = _shape_of(text, spans, label, len(text) if free_from is None else free_from)
        if shape and (key, shape.literal.tobytes()) not in self._known:
            self._known.add((key, shape.literal.tobytes()))
            self._following.append(self._first.get(key, -1))
            self._first[key] = len(self._shapes)
            self._shapes.append(shape)
            self._lay_out()

    def _lay_out(self) -> None:
        # Keys behind the last one have no shape.
        self._first_of = np.full(max(self._first, default=-1) + 2, -1, np.int64)
        self._first_of[list(self._first)] = list(self._first.values())


def _keys(kind: Ints, size: Ints) -> Ints:
    keys: Ints = kind * _MOST_BYTES + np.minimum(size, _MOST_BYTES - 1)
    return keys


def _shape_of(text: bytes, spans: list[Span], label: int, free_from: int) -> _Shape | None:
    words = -(-(_BEFORE + len(text)) // 8)
    keep = np.zeros(8 * words, np.uint8)
    keep[_BEFORE : _BEFORE + len(text)] = 0xFF
    places: dict[bool, list[tuple[int, int, int]]] = {False: [], True: []}
    for number, span in enumerate(spans):
        found = text[span.start : span.stop]
        is_hexadecimal = _HEXADECIMAL.fullmatch(found) is not None
        goes_on = _GOES_ON[is_hexadecimal].match(text, span.stop)
        if goes_on or not (is_hexadecimal or _DECIMAL.fullmatch(found)):
            return None
        digits = len(found) - 2 * is_hexadecimal
        stop = _BEFORE + span.stop
        keep[stop - digits : stop] = 0
        places[is_hexadecimal] += [(number, stop - i, digits - i) for i in range(0, digits, 8)]
    for free in _DIGITS.finditer(text, free_from):
        keep[_BEFORE + free.start() : _BEFORE + free.end()] = 0
    bits = keep.view(np.uint64)
    held = np.frombuffer(bytes(_BEFORE) + text.ljust(8 * words - _BEFORE, b"\0"), np.uint64)
    fields = tuple(span.field for span in spans)
    return _Shape(bits, held & bits, fields, _digits(places[False], 10**8), _digits(places[True], 1 << 32), label)


def _digits(places: list[tuple[int, int, int]], high: int) -> _Digits:
    """Return the digits at places (number, stop, digits from it back); of a number the lowest ones come first."""
    drop = np.array([KEEP[8 - min(digits, 8)] for _, _, digits in places], np.uint64).reshape(-1, 1)
    numbers = tuple(number for number, _, _ in places)
    scale = tuple(np.uint64(high if number in numbers[:i] else 1) for i, number in enumerate(numbers))
    return _Digits(numbers, tuple(stop for _, stop, _ in places), drop, scale)


def _read(text: Text, shape: _Shape, rows: Ints, at: Ints) -> tuple[Reading, Ints]:
    """Return the numbers of the texts that have a shape, and the other texts."""
    words = len(shape.keep)
    heads = text.heads(at[rows] - _BEFORE, 8 * words)
    differs = (heads.words(0, words) & shape.keep) != shape.literal
    good = ~differs.any(axis=1) if differs.any() else np.ones(len(rows), np.bool_)
    values: list[Words | None] = [None] * len(shape.fields)
    for digits, decode in ((shape.decimals, _decimal), (shape.hexadecimals, eight_hexadecimal)):
        if digits.stops:
            good &= _decode(heads, digits, decode, values)
    named = [(name, value) for name, value in zip(shape.fields, values, strict=True) if value is not None]
    if good.all():
        return Reading(rows, shape.label, named), rows[:0]
    fine = np.flatnonzero(good)
    return Reading(rows[fine], shape.label, [(name, value[fine]) for name, value in named]), rows[~good]


def _decode(
    heads: Heads, digits: _Digits, decode: Callable[[Words], tuple[Words, Mask]], values: list[Words | None]
) -> Mask:
    """Set the values that have digits of one base; return which rows of `heads` have them all."""
    words = np.empty((len(digits.stops), len(heads)), np.uint64)
    for i, stop in enumerate(digits.stops):
        words[i] = heads.word(stop - 8)
    parts, good = decode((words & ~digits.drop) | (ZEROS & digits.drop))
    for number, part, scale in zip(digits.numbers, parts, digits.scale, strict=True):
        before = values[number]
        values[number] = part if before is None else before + part * scale
    have_all: Mask = np.logical_and.reduce(good, axis=0)
    return have_all


def _decimal(words: Words) -> tuple[Words, Mask]:
    return swar(words), all_digits(words)
