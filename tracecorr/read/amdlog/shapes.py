"""Texts that differ from one seen before in the digits of their numbers only: read at known places.

Most messages come in few shapes: the same words with numbers of the same widths between them. A shape
is learned from one text; of the others all bytes but the digits are compared, and the numbers are where
that one had them. What has no known shape is read by other means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.read.digits import Ints, Mask, Words
from tracecorr.read.text import Text

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
class _Number:
    """Name a number of a shape.

    Args:
        field: its name; empty = it is of no interest.
        stop: byte behind it, from the beginning of the text.
        digits: how many it has.
        is_hex: whether they are hexadecimal.
    """

    field: str
    stop: int
    digits: int
    is_hex: bool


@dataclass(frozen=True)
class _Shape:
    """Hold what texts have in common.

    Args:
        keep: bits that are compared, as words.
        literal: what they are.
        numbers: what differs.
        label: what the texts are, as the one said that learned it.
    """

    keep: Words
    literal: Words
    numbers: tuple[_Number, ...]
    label: int


# Of each field the number of each text, zero where it has none, and whether it has one.
Fields = dict[str, tuple[Words, Mask]]


@dataclass
class Reading:
    """Hold the numbers of texts.

    Args:
        rest: texts without a known shape.
        fields: name, texts that have a number of this name, and the numbers; in the order of the texts.
    """

    rest: Ints
    fields: list[tuple[str, Ints, Words]]


@dataclass
class Filling:
    """Hold the numbers of texts, one place per text.

    Args:
        rest: texts without a known shape.
        labels: of each text what it is; -1 = not known.
        fields: the numbers; of several ones of a name, the last.
    """

    rest: Ints
    labels: Ints
    fields: Fields


class Shapes:
    """Remember the shapes seen, by kind and size of the text."""

    def __init__(self) -> None:
        self._shapes: list[_Shape] = []
        self._known: set[tuple[int, bytes]] = set()
        self._following: list[int] = []
        self._first: dict[int, int] = {}
        self._of_key: dict[int, int] = {}
        self._is_laid_out = False

    def __len__(self) -> int:
        return len(self._shapes)

    def read(self, text: Text, kind: Ints, at: Ints, size: Ints) -> Reading:
        """Return the numbers of all texts of known shapes.

        Args:
            text: holds the texts.
            kind: a small number; texts of different kinds have different shapes; -1 = it has none.
            at, size: of the texts.
        """
        self._lay_out()
        texts = native.Texts(text.bytes, kind, at, size)
        shape, unknown, found = native.list_numbers(self._of, texts, self._columns, len(self._names))
        fields = [(name, *numbers) for name, numbers in zip(self._names, found, strict=True) if len(numbers[0])]
        return Reading(_rest(shape, unknown), fields)

    def fill(self, text: Text, kind: Ints, at: Ints, size: Ints) -> Filling:
        """Return the same, with a place for each text."""
        self._lay_out()
        texts = native.Texts(text.bytes, kind, at, size)
        shape, unknown, values, present = native.fill_numbers(self._of, texts, self._by_name, len(self._distinct))
        fields = {name: (values[i], present[i]) for i, name in enumerate(self._distinct)}
        return Filling(_rest(shape, unknown), self._labels[shape], fields)

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
        if len(text) > _MOST_BYTES or len(spans) > native.MOST_NUMBERS or not self._has_room(key):
            return
        self._of_key[key] = self._of_key.get(key, 0) + 1
        shape = _shape_of(text, spans, label, len(text) if free_from is None else free_from)
        if shape and (key, shape.literal.tobytes()) not in self._known:
            self._known.add((key, shape.literal.tobytes()))
            self._following.append(self._first.get(key, -1))
            self._first[key] = len(self._shapes)
            self._shapes.append(shape)
            self._is_laid_out = False

    def _lay_out(self) -> None:
        """Describe the shapes as `read_shapes` takes them, where new ones were learned."""
        if self._is_laid_out:
            return
        # Keys behind the last one have no shape.
        first = np.full(max(self._first, default=-1) + 2, -1, np.int64)
        first[list(self._first)] = list(self._first.values())
        numbers = [number for shape in self._shapes for number in shape.numbers]
        words_to = np.cumsum([len(shape.keep) for shape in self._shapes], dtype=np.int64)
        numbers_to = np.cumsum([len(shape.numbers) for shape in self._shapes], dtype=np.int64)
        arrays = {
            "first_of": first, "following": np.array(self._following, np.int64),
            "words_from": np.append(0, words_to[:-1]), "words_to": words_to,
            "keep": np.concatenate([np.zeros(0, np.uint64), *(shape.keep for shape in self._shapes)]),
            "literal": np.concatenate([np.zeros(0, np.uint64), *(shape.literal for shape in self._shapes)]),
            "numbers_from": np.append(0, numbers_to[:-1]), "numbers_to": numbers_to,
            "stop": np.array([n.stop for n in numbers], np.int64),
            "digits": np.array([n.digits for n in numbers], np.int64),
            "is_hex": np.array([n.is_hex for n in numbers], np.int64),
        }  # fmt: skip
        self._name_columns()
        self._is_laid_out = True
        self._arrays = arrays  # what the description points to
        self._of = native.ShapesOf(key_count=len(first), before=_BEFORE, most_bytes=_MOST_BYTES)
        for name, array in arrays.items():
            setattr(self._of, name, native.address(array))

    def _name_columns(self) -> None:
        """Name the columns that numbers are put to, and tell that of each number."""
        # Where they are listed, by their place among the numbers of a text: its fields come in the order of the text.
        places = [(place, n.field) for shape in self._shapes for place, n in enumerate(shape.numbers)]
        known = {one: number for number, one in enumerate(sorted({one for one in places if one[1]}))}
        self._names = [field for _, field in known]
        self._columns = np.array([known.get(one, -1) for one in places], np.int64)
        self._distinct = sorted(set(self._names))
        self._by_name = np.array([self._distinct.index(field) if field else -1 for _, field in places], np.int64)
        # The last one is that of texts without a shape.
        self._labels = np.array([*(shape.label for shape in self._shapes), -1], np.int64)


def _rest(shape: Ints, unknown: int) -> Ints:
    return np.flatnonzero(shape < 0) if unknown else shape[:0]


def _keys(kind: Ints, size: Ints) -> Ints:
    keys: Ints = kind * _MOST_BYTES + np.minimum(size, _MOST_BYTES - 1)
    return keys


def _shape_of(text: bytes, spans: list[Span], label: int, free_from: int) -> _Shape | None:
    words = -(-(_BEFORE + len(text)) // 8)
    keep = np.zeros(8 * words, np.uint8)
    keep[_BEFORE : _BEFORE + len(text)] = 0xFF
    numbers = []
    for span in spans:
        found = text[span.start : span.stop]
        is_hex = _HEXADECIMAL.fullmatch(found) is not None
        goes_on = _GOES_ON[is_hex].match(text, span.stop)
        if goes_on or not (is_hex or _DECIMAL.fullmatch(found)):
            return None
        digits = len(found) - 2 * is_hex
        keep[_BEFORE + span.stop - digits : _BEFORE + span.stop] = 0
        numbers.append(_Number(span.field, span.stop, digits, is_hex))
    for free in _DIGITS.finditer(text, free_from):
        keep[_BEFORE + free.start() : _BEFORE + free.end()] = 0
    bits = keep.view(np.uint64)
    held = np.frombuffer(bytes(_BEFORE) + text.ljust(8 * words - _BEFORE, b"\0"), np.uint64)
    return _Shape(bits, held & bits, tuple(numbers), label)
