"""The end of a packet's line, the part that differs from packet to packet, by the texts between its numbers.

A tail begins at the first key that changes with every packet. Where lines had it before is tried
first, and it must have a shape that was seen before; else the line is read by its keys.
"""

from __future__ import annotations

import re

import numpy as np

from tracecorr import native
from tracecorr.read.amdlog.shapes import Fields, Shapes, Span
from tracecorr.read.digits import Ints
from tracecorr.read.text import Text

_START = re.compile(rb", (?:kernarg_address|dep_signal|signal|completion_signal)=")
_NUMBER = re.compile(rb"0x[0-9a-f]{1,16}|\d{1,19}")
_KEY = re.compile(rb"[ ,(](\w+) ?= ?\[?$")
_NAMES = {
    b"kernarg_address": "kernarg", b"completion_signal": "signal", b"rptr": "rptr", b"wptr": "packet_index",
    b"signal": "wait_signal", b"dep_signal": "dep_0", b"value": "", b"mask": "", b"correlation_id": "",
}  # fmt: skip
_MOST_PLACES, _MOST_LEARNED = 64, 32


def _spans_of(tail: bytes) -> list[Span] | None:
    """Return the numbers of a tail, None if it has a key that is not known here, or one twice.

    Those of no interest have no name.
    """
    spans: list[Span] = []
    at = 0
    for found in _NUMBER.finditer(tail):
        literal = tail[at : found.start()]
        key = _KEY.search(literal)
        if key:
            if key[1] not in _NAMES:
                return None
            name = _NAMES[key[1]]
        elif spans and literal in (b", ", b" ") and spans[-1].field.startswith("dep_"):
            name = f"dep_{int(spans[-1].field[4:]) + 1}"
        else:
            return None
        spans.append(Span(name, *found.span()))
        at = found.end()
    names = [span.field for span in spans if span.field]
    return spans if len(set(names)) == len(names) else None


class Tails:
    """Remember the shapes of the tails seen, and where they began."""

    def __init__(self) -> None:
        self._shapes = Shapes()
        self._starts: list[bytes] = []
        # Length of the front and number of the text that the tail starts with -> lines that had them.
        self._places: dict[tuple[int, int], int] = {}

    def read(self, text: Text, at: Ints, end: Ints) -> tuple[Ints, Ints, Fields]:
        """Return the lines without a known tail, where those of lines begin, and the fields."""
        split, start = self._find(text, at, end)
        filling = self._shapes.fill(text, start, split, end - split)
        return filling.rest, split, filling.fields

    def _find(self, text: Text, at: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return where the tail of each line begins, and the number of its first text (-1 = not known)."""
        tried = sorted(self._places, key=lambda place: -self._places[place])
        skips, which = np.array(tried, np.int64).reshape(-1, 2).T.copy()
        split, start, hits = native.find_starts(text.bytes, at, end, skips, which, self._starts)
        for place, count in zip(tried, hits.tolist(), strict=True):
            self._places[place] = self._places[place] // 2 + count
        return split, start

    def learn(self, text: Text, at: Ints, end: Ints) -> bool:
        """Remember the tails of some lines of which none is known; return whether there are new ones."""
        known = len(self._places), len(self._shapes)
        sizes, first = np.unique(end - at, return_index=True)
        for row in first[np.argsort(sizes)][:_MOST_LEARNED].tolist():
            line = text.slice(int(at[row]), int(end[row]) + 1)
            start = _START.search(line)
            spans = _spans_of(line[start.start() :]) if start else None
            if start and spans:
                if start[0] not in self._starts:
                    self._starts.append(start[0])
                place = start.start(), self._starts.index(start[0])
                if len(self._places) < _MOST_PLACES:
                    self._places.setdefault(place, 0)
                self._shapes.learn(place[1], line[start.start() :], spans)
        return known != (len(self._places), len(self._shapes))
