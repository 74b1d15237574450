"""The end of a packet's line, the part that differs from packet to packet, by the texts between its numbers.

A tail begins at the first key that changes with every packet. Where lines had it before is tried
first, and what stood between the numbers must stand there again; else the line is read by its keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.digits import Ints, Words
from tracecorr.parse.text import Text

_START = re.compile(rb", (?:kernarg_address|dep_signal|signal|completion_signal)=")
_NUMBER = re.compile(rb"0x[0-9a-f]{1,16}|\d{1,19}")
_KEY = re.compile(rb"(\w+) ?= ?\[?$")
_NAMES = {
    b"kernarg_address": "kernarg", b"completion_signal": "signal", b"rptr": "rptr", b"wptr": "packet_index",
    b"signal": "wait_signal", b"dep_signal": "dep_0", b"value": "", b"mask": "", b"correlation_id": "",
}  # fmt: skip
_MOST_TAILS, _MOST_PLACES = 16, 64


@dataclass(frozen=True)
class _Tail:
    """Hold the texts before each number (and behind the last one), and the field of each number."""

    literals: tuple[bytes, ...]
    names: tuple[str, ...]


def _tail_of(text: bytes) -> _Tail | None:
    """Return the tail of a line, null if it has a key that is not known here."""
    literals, names, at = [], [], 0
    for found in _NUMBER.finditer(text):
        literals.append(text[at : found.start()])
        key = _KEY.search(literals[-1])
        if key:
            if key[1] not in _NAMES:
                return None
            names.append(_NAMES[key[1]])
        elif names and literals[-1] in (b", ", b" ") and names[-1].startswith("dep_"):
            names.append(f"dep_{int(names[-1][4:]) + 1}")
        else:
            return None
        at = found.end()
    return _Tail((*literals, text[at:]), tuple(names))


class Tails:
    """Remember the tails seen, and where they began."""

    def __init__(self) -> None:
        self._tails: list[_Tail] = []
        # Length of the front and number of the tail -> lines that had them.
        self._places: dict[tuple[int, int], int] = {}

    def read(self, text: Text, at: Ints, end: Ints) -> tuple[Ints, Ints, list[tuple[str, Ints, Words]]]:
        """Return the lines with a known tail, where it begins, and its fields (name, rows, values)."""
        split, tail = self._find(text, at)
        fields: list[tuple[str, Ints, Words]] = []
        good = np.zeros(len(at), np.bool_)
        for number, known in enumerate(self._tails):
            rows = np.flatnonzero(tail == number)
            if len(rows):
                found, rows = _read_tail(text, known, rows, split[rows], end)
                fields += found
                good[rows] = True
        lines = np.flatnonzero(good)
        return lines, split[lines], fields

    def _find(self, text: Text, at: Ints) -> tuple[Ints, Ints]:
        split, tail = np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)
        left = np.arange(len(at))
        for (length, number), seen in sorted(self._places.items(), key=lambda item: -item[1]):
            if len(left) == 0:
                break
            literal = self._tails[number].literals[0]
            hit = text.starts_with(at[left] + length, literal)
            split[left[hit]], tail[left[hit]] = at[left[hit]] + length, number
            self._places[length, number] = seen // 2 + int(hit.sum())
            left = left[~hit]
        return split, tail

    def learn(self, text: Text, at: Ints, end: Ints) -> bool:
        """Remember the tails of lines that fit no known one; return whether there are new ones."""
        known = len(self._places)
        sizes, first = np.unique(end - at, return_index=True)
        for row in first[np.argsort(sizes)][:32].tolist():
            line = text.slice(int(at[row]), int(end[row]))
            start = _START.search(line)
            tail = _tail_of(line[start.start() :]) if start else None
            if start and tail:
                if tail not in self._tails and len(self._tails) < _MOST_TAILS:
                    self._tails.append(tail)
                if tail in self._tails and len(self._places) < _MOST_PLACES:
                    self._places.setdefault((start.start(), self._tails.index(tail)), 0)
        return len(self._places) > known


def _read_tail(
    text: Text, tail: _Tail, rows: Ints, split: Ints, end: Ints
) -> tuple[list[tuple[str, Ints, Words]], Ints]:
    """Return the fields of the lines that have this tail to the last byte, and those lines."""
    good = np.ones(len(rows), np.bool_)
    place, fields = split + len(tail.literals[0]), []
    for name, literal in zip(tail.names, tail.literals[1:], strict=True):
        values, place, is_number = text.number(place)
        good &= is_number & text.starts_with(place, literal)
        place = place + len(literal)
        if name:
            fields.append((name, values))
    good &= place == end[rows]
    if good.all():
        return [(name, rows, values) for name, values in fields], rows
    return [(name, rows[good], values[good]) for name, values in fields], rows[good]
