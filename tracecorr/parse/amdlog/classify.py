"""Messages to classes and fields: which message each record holds, and the numbers in it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.layout import COLOUR
from tracecorr.parse.amdlog.messages import MESSAGES, Kind, general_name
from tracecorr.parse.digits import Ints, Mask, Words
from tracecorr.parse.text import Codes, Text

_OTHER = len(MESSAGES)
_KINDS = np.array([m.kind for m in MESSAGES] + [Kind.OTHER], np.int64)
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


@dataclass
class Classes:
    """Hold what the records of a block are, as parallel arrays.

    Args:
        found: index in `MESSAGES`; their number for HIP calls and messages without a template.
        kind: `Kind` of each record.
        name: code of its name.
        stop: byte behind the name of a HIP call.
    """

    found: Ints
    kind: Ints
    name: Ints
    stop: Ints


_MORE, _UNSURE = -1, -2
_MOST_SHAPES = 4096


class _Shape:
    """Say what records are that begin alike, and what they must hold behind their first bytes to be that.

    Args:
        literal: the text that makes the message what it is; empty = no such text.
        covered: bytes of the message that are known to be alike.
        is_last: whether there is no key of more bytes.
    """

    def __init__(self, found: int, name: int, literal: bytes, message: bytes, covered: int, *, is_last: bool) -> None:
        covers = covered >= min(len(literal), len(message))
        decided = bool(literal) and (covers or is_last or found < _OTHER) and not _rivals(found, message, covered)
        places = [*range(covered, len(literal) - 7, 8), len(literal) - 8] if len(literal) > covered else []
        self.checks = [(p, np.uint64(int.from_bytes(literal[p : p + 8], "little"))) for p in places]
        self.state = len(self.checks) if decided else _UNSURE if is_last else _MORE
        self.found, self.name = found, name


def _literal(found: int, kind: int, message: bytes, length: int) -> bytes:
    """Return the text that makes a message what it is; `length` is that of a call's name."""
    if found < _OTHER:
        return MESSAGES[found].prefix
    ends = {Kind.ENTER: b" ( ", Kind.EXIT: b": Returned "}
    return message[:length] + ends[kind] if kind in ends else b""


def _rivals(found: int, message: bytes, covered: int) -> bool:
    """Return whether another template, told apart only behind the covered bytes, may fit too."""
    own = len(MESSAGES[found].prefix) if found < _OTHER else 0
    seen = min(covered, len(message))
    others = (m.prefix for i, m in enumerate(MESSAGES) if i != found and len(m.prefix) > own)
    return any(len(p) > covered and p[:seen] == message[:seen] for p in others)


class Classifier:
    """Find the message of each record."""

    def __init__(self) -> None:
        self._heads = Codes(_candidates)
        self.names = Codes(lambda text: text.decode("utf-8", "replace"))
        self._message_names = np.array([self.names.code_of(m.name) for m in MESSAGES] + [0], np.int64)
        self._keys = Codes(bytes)
        self._shapes: list[_Shape] = []
        # Found, kind, name, length of the name, state of each shape; the first one is unknown.
        self._columns = np.array([[_OTHER], [Kind.OTHER], [0], [0], [_UNSURE]], np.int64)
        self._lay_out_checks()

    def classify(self, text: Text, at: Ints, end: Ints, keys: Words, is_rocr: Mask) -> Classes:
        """Return what each record is; `keys` are hashes of more and more of its first bytes."""
        codes = self._shape_codes(text, at, end, keys)
        found, kind, name, length, state = (column[codes] for column in self._columns)
        classes = Classes(found, kind, name, at + length)
        unsure = (state < 0) | is_rocr
        for i in range(int(state.max(initial=0))):
            rows = np.flatnonzero(state > i)
            shapes = codes[rows]
            place = at[rows] + self._places[i, shapes]
            unsure[rows] |= (text.word(place) != self._words[i, shapes]) | (place + 8 > end[rows])
        rows = np.flatnonzero(unsure)
        if len(rows):
            one = self._look(text, at[rows], end[rows], is_rocr[rows])
            for mine, theirs in zip(vars(classes).values(), vars(one).values(), strict=True):
                mine[rows] = theirs
        return classes

    def _shape_codes(self, text: Text, at: Ints, end: Ints, keys: Words) -> Ints:
        """Return the shape of each record; the first one stands for unknown."""
        codes = np.zeros(len(at), np.int64)
        rows = np.arange(len(at))
        for level in range(3):
            key = keys[rows, level] if level else keys[:, 0]
            found, known = self._keys.look_up(key)
            if not known.all() and len(self._shapes) < _MOST_SHAPES:
                self._learn(text, at, end, keys[:, level], rows[~known], level)
                found, known = self._keys.look_up(key)
            codes[rows] = np.where(known, found, 0)
            rows = rows[known & (self._columns[4, found] == _MORE)]
            if len(rows) == 0:
                break
        return codes

    def _learn(self, text: Text, at: Ints, end: Ints, key: Words, unknown: Ints, level: int) -> None:
        keys, first = np.unique(key[unknown], return_index=True)
        rows = unknown[first]
        one = self._look(text, at[rows], end[rows], np.zeros(len(rows), np.bool_))
        columns = []
        for i, row in enumerate(rows.tolist()):
            start = int(at[row])
            message = text.slice(start, int(end[row]))
            # The key of a coloured message includes the colour.
            covered = 8 * level + 8 - len(COLOUR) * (text.slice(start - len(COLOUR), start) == COLOUR)
            found, kind, name, length = int(one.found[i]), int(one.kind[i]), int(one.name[i]), int(one.stop[i]) - start
            literal = _literal(found, kind, message, length)
            shape = _Shape(found, name, literal, message, covered, is_last=level == 2)
            self._shapes.append(shape)
            columns.append((found, kind, name, length, shape.state))
        self._keys.add(keys, np.arange(len(keys)) + self._columns.shape[1])
        self._columns = np.concatenate((self._columns, np.array(columns, np.int64).T), axis=1)
        self._lay_out_checks()

    def _lay_out_checks(self) -> None:
        most = max((len(shape.checks) for shape in self._shapes), default=0)
        self._places = np.zeros((most, len(self._shapes) + 1), np.int64)
        self._words = np.zeros((most, len(self._shapes) + 1), np.uint64)
        for code, shape in enumerate(self._shapes, 1):
            for i, (place, word) in enumerate(shape.checks):
                self._places[i, code], self._words[i, code] = place, word

    def _look(self, text: Text, at: Ints, end: Ints, is_rocr: Mask) -> Classes:
        """Return what records are that no known shape decides."""
        found = self._find(text, at, end)
        kind, name, stop = _KINDS[found], self._message_names[found], at.copy()
        maybe = np.flatnonzero((found == _OTHER) & ~is_rocr)
        kind[maybe], name[maybe], stop[maybe] = self._calls(text, at[maybe], end[maybe])
        others = np.flatnonzero(kind == Kind.OTHER)
        name[others], kind[others] = self.general(text, at[others], end[others]), Kind.ROW
        return Classes(found, kind, name, stop)

    def _find(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return the index in `MESSAGES` of each record; their number stands for none of them."""
        found = np.full(len(at), _OTHER, np.int64)
        heads = self._heads.encode(text, at, at + 8, text.word(at) * np.uint64(0x9E3779B97F4A7C15))
        for code in np.unique(heads).tolist():
            rows = np.flatnonzero(heads == code)
            for index in self._heads.values[code]:
                prefix = MESSAGES[index].prefix
                hit = text.starts_with(at[rows], prefix) & (at[rows] + len(prefix) <= end[rows])
                found[rows[hit]] = index
                rows = rows[~hit]
                if len(rows) == 0:
                    break
        return found

    def _calls(self, text: Text, at: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Return kind, name code and position behind the name of records that may be HIP calls."""
        stop, code = text.token(at, b" :", 64)
        enter = text.starts_with(stop, b" ( ") & (stop + 3 <= end)
        leave = text.starts_with(stop, b": Returned ") & (stop + 11 <= end)
        kind = np.where(enter, Kind.ENTER, np.where(leave, Kind.EXIT, Kind.OTHER))
        kind[stop == at] = Kind.OTHER
        kind[~_is_word(text, at)] = Kind.OTHER
        name = np.zeros(len(at), np.int64)
        is_call = kind != Kind.OTHER
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
