"""The numbers in messages that have a template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecorr.read.amdlog.messages import MESSAGES
from tracecorr.read.amdlog.shapes import Shapes, Span
from tracecorr.read.digits import Ints, Mask, Words
from tracecorr.read.text import Text

# Templates that begin alike are wordings of the same message: one after the other is tried.
_WORDINGS = {m.prefix: [i for i, other in enumerate(MESSAGES) if other.prefix == m.prefix] for m in MESSAGES}

# Of each message, and of a record that has none of them.
HAS_FIELDS = np.array([any(len(MESSAGES[i].steps) > 1 for i in _WORDINGS[m.prefix]) for m in MESSAGES] + [False])


@dataclass
class Field:
    """Hold the values of one field of one message; a field without a name is of no interest."""

    name: str
    rows: Ints
    values: Words


@dataclass
class _Found(Field):
    """Hold a field with the place of its numbers in the text."""

    start: Ints
    stop: Ints

    def take(self, some: Mask) -> _Found:
        """Return the values of some rows."""
        return _Found(self.name, self.rows[some], self.values[some], self.start[some], self.stop[some])


class FieldReader:
    """Read the fields of messages; remembers the shapes of their texts."""

    def __init__(self) -> None:
        self._shapes = Shapes()

    def read(self, text: Text, some: Ints, kind: Ints, at: Ints, end: Ints) -> Iterator[Field]:
        """Yield the fields of records whose message has some.

        Args:
            text: holds the messages.
            some: rows of the records.
            kind: index in `MESSAGES` of each.
            at, end: where its message lies.
        """
        size = end - at
        reading = self._shapes.read(text, kind, at, size)
        yield from (Field(name, some[rows], values) for name, rows, values in reading.fields)
        rest = reading.rest
        if len(rest):
            for item in _fields(text, kind, at, at + size, rest):
                if item.name:
                    yield Field(item.name, some[item.rows], item.values)
            picked = rest[self._shapes.pick(kind[rest], size[rest])]
            self._learn(text, kind, at, at + size, picked)

    def _learn(self, text: Text, kind: Ints, at: Ints, end: Ints, rows: Ints) -> None:
        spans: dict[int, list[Span]] = {row: [] for row in rows.tolist()}
        for item in _fields(text, kind, at, end, rows):
            places = zip(item.rows.tolist(), item.start.tolist(), item.stop.tolist(), strict=True)
            for row, start, stop in places:
                spans[row].append(Span(item.name, start - int(at[row]), stop - int(at[row])))
        for row, of_row in spans.items():
            index, message = int(kind[row]), text.slice(int(at[row]), int(end[row]) + 1)
            self._shapes.learn(index, message, of_row, free_from=_end_of_interest(index, message, of_row))


def _end_of_interest(index: int, message: bytes, spans: list[Span]) -> int | None:
    """Return where the part of a message that is read ends; None = it may be read to its end."""
    steps = MESSAGES[_WORDINGS[MESSAGES[index].prefix][0]].steps
    if not spans or [span.field for span in spans] != steps[1::2]:
        return None
    last = steps[-1].encode()
    return spans[-1].stop + len(last) if message.startswith(last, spans[-1].stop) else None


def _fields(text: Text, found: Ints, at: Ints, end: Ints, some: Ints) -> Iterator[_Found]:
    """Yield the fields of some messages."""
    messages = found[some]
    for index in np.flatnonzero(np.bincount(messages)).tolist():
        rows = some[messages == index]
        told = np.zeros(0, np.int64)
        for wording in _WORDINGS[MESSAGES[index].prefix]:
            items, rows = _fields_of(text, wording, rows, at, end)
            # What stands before the text that differs was read with the wording before.
            yield from (item.take(~np.isin(item.start, told)) for item in items)
            told = np.concatenate((told, *(item.start for item in items)))


def _fields_of(text: Text, index: int, rows: Ints, at: Ints, end: Ints) -> tuple[list[_Found], Ints]:
    """Return the fields of one template, and the rows whose text between two fields differs."""
    steps = MESSAGES[index].steps
    place = at[rows] + len(steps[0].encode())
    items, differ = [], []
    for name, literal in zip(steps[1::2], steps[2::2], strict=True):
        values, stop, good = text.number(place)
        good &= stop <= end[rows]
        rows, start, place = rows[good], place[good], stop[good]
        items.append(_Found(name, rows, values[good], start, place))
        follows = literal.encode()
        fits = text.starts_with(place, follows) & (place + len(follows) <= end[rows])
        differ.append(rows[~fits])
        rows, place = rows[fits], place[fits] + len(follows)
    return items, np.concatenate(differ) if differ else rows[:0]
