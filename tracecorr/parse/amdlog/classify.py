"""Messages to classes and fields: which message each record holds, and the numbers in it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.messages import MESSAGES, Kind, general_name
from tracecorr.parse.text import Codes, Ints, Mask, Text, Words

_OTHER = len(MESSAGES)
# Templates that begin alike are wordings of the same message: one after the other is tried.
_WORDINGS = {m.prefix: [i for i, other in enumerate(MESSAGES) if other.prefix == m.prefix] for m in MESSAGES}


@dataclass
class Field:
    """Hold the values of one field of one message."""

    name: str
    rows: Ints
    values: Words


def _candidates(head: bytes) -> tuple[int, ...]:
    # Longest first, so that a wording wins over a shorter one that it begins with.
    fitting = [i for i, m in enumerate(MESSAGES) if m.prefix[:8] == head[: min(8, len(m.prefix))]]
    return tuple(sorted(fitting, key=lambda i: -len(MESSAGES[i].prefix)))


class Classifier:
    """Find the message of each record."""

    def __init__(self) -> None:
        self._heads = Codes(_candidates)
        self.names = Codes(lambda text: text.decode("utf-8", "replace"))

    def classify(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return the index in `MESSAGES` of each record; their number stands for none of them."""
        found = np.full(len(at), _OTHER, np.int64)
        heads = self._heads.encode(text, at, at + 8, text.word(at) * np.uint64(0x9E3779B97F4A7C15))
        for code, candidates in enumerate(self._heads.values):
            if not candidates:
                continue
            rows = np.flatnonzero(heads == code)
            for index in candidates:
                prefix = MESSAGES[index].prefix
                hit = text.starts_with(at[rows], prefix) & (at[rows] + len(prefix) <= end[rows])
                found[rows[hit]] = index
                rows = rows[~hit]
                if len(rows) == 0:
                    break
        return found

    def calls(self, text: Text, at: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Return kind, name code and position behind the name of records that may be HIP calls."""
        stop, code = text.token(at, b" :", 64)
        enter = text.starts_with(stop, b" ( ") & (stop + 3 <= end)
        leave = text.starts_with(stop, b": Returned ") & (stop + 11 <= end)
        kind = np.where(enter, int(Kind.ENTER), np.where(leave, int(Kind.EXIT), int(Kind.OTHER)))
        kind[stop == at] = int(Kind.OTHER)
        kind[~_is_word(text, at)] = int(Kind.OTHER)
        name = np.zeros(len(at), np.int64)
        is_call = kind != int(Kind.OTHER)
        name[is_call] = self.names.encode(text, at[is_call], stop[is_call], code[is_call])
        return kind, name, stop

    def general(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return a name code for messages without a template."""
        found = zip(at.tolist(), end.tolist(), strict=True)
        return np.array([self.names.code_of(general_name(text.slice(i, j))) for i, j in found], np.int64)


def _is_word(text: Text, at: Ints) -> Mask:
    first = text.bytes[at] | 0x20
    is_word: Mask = ((first >= ord("a")) & (first <= ord("z"))) | (text.bytes[at] == ord("_"))
    return is_word


def fields(text: Text, found: Ints, at: Ints, end: Ints) -> Iterator[Field]:
    """Yield the fields of all records whose message has some."""
    present = np.unique(found)
    for index in present[present < _OTHER].tolist():
        rows = np.flatnonzero(found == index)
        for wording in _WORDINGS[MESSAGES[index].prefix]:
            if len(rows):
                rows = yield from _fields_of(text, wording, rows, at, end)


def _fields_of(text: Text, index: int, rows: Ints, at: Ints, end: Ints) -> Generator[Field, None, Ints]:
    """Yield the fields of one template; return the rows whose text between two fields differs."""
    steps = MESSAGES[index].steps
    place = at[rows] + len(steps[0].encode())
    differ = []
    for name, literal in zip(steps[1::2], steps[2::2], strict=True):
        values, stop, good = text.number(place)
        good &= stop <= end[rows]
        rows, place = rows[good], stop[good]
        if name:
            yield Field(name, rows, values[good])
        follows = literal.encode()
        fits = text.starts_with(place, follows) & (place + len(follows) <= end[rows])
        differ.append(rows[~fits])
        rows, place = rows[fits], place[fits] + len(follows)
    return np.concatenate(differ) if differ else rows[:0]
