"""Messages to classes: which message each record holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.read.amdlog.forms import Form
from tracecorr.read.amdlog.general_names import GeneralNames
from tracecorr.read.amdlog.messages import MESSAGES, Kind
from tracecorr.read.digits import Ints, Mask
from tracecorr.read.text import Codes, Text

# Behind the name of a call.
RETURNED, SUCCESS = b": Returned ", b"hipSuccess :"
_OTHER = len(MESSAGES)
_MOST_NAMES = 1 << 16
_KINDS = np.array([m.kind for m in MESSAGES] + [Kind.OTHER], np.int64)


def _candidates(head: bytes) -> tuple[int, ...]:
    # Longest first, so that a wording wins over a shorter one that it begins with.
    fitting = [i for i, m in enumerate(MESSAGES) if m.prefix[:8] == head[: min(8, len(m.prefix))]]
    return tuple(sorted(fitting, key=lambda i: -len(MESSAGES[i].prefix)))


@dataclass
class Found:
    """Hold what records are, as parallel arrays.

    Args:
        message: index in `MESSAGES`; their number for HIP calls and messages without a template.
        kind: `Kind` of each record.
        name: code of its name.
        length: bytes of the name of a HIP call.
        succeeds: 1 for the exits of HIP calls that are known to return `hipSuccess`, else 0.
    """

    message: Ints
    kind: Ints
    name: Ints
    length: Ints
    succeeds: Ints


class Classifier:
    """Find the message of each record.

    What a record is, is a code: it stands for the columns of `Found`, one row of `columns` each.
    """

    def __init__(self) -> None:
        self._heads = Codes(_candidates)
        self.names = Codes(lambda text: text.decode("utf-8", "replace"))
        self._general = GeneralNames(self.names)
        self._message_names = np.array([self.names.code_of(m.name) for m in MESSAGES] + [0], np.int64)
        self._whats: dict[tuple[int, ...], int] = {}
        self.columns = np.zeros((5, 0), np.int64)

    def found(self, what: Ints) -> Found:
        """Return what codes stand for."""
        return Found(*(column[what] for column in self.columns))

    @property
    def kind_of(self) -> Ints:
        """Return the kind that each code stands for."""
        kinds: Ints = self.columns[1]
        return kinds

    def look(self, text: Text, at: Ints, end: Ints, is_rocr: Mask | None = None) -> Ints:
        """Return what records are whose messages lie between `at` and `end`."""
        found = self._find(text, at, end)
        kind, name, length = _KINDS[found], self._message_names[found], np.zeros(len(at), np.int64)
        maybe = np.flatnonzero(found == _OTHER if is_rocr is None else (found == _OTHER) & ~is_rocr)
        kind[maybe], name[maybe], length[maybe] = self._calls(text, at[maybe], end[maybe])
        others = np.flatnonzero(kind == Kind.OTHER)
        name[others], kind[others] = self.general(text, at[others], end[others]), Kind.ROW
        succeeds = self._succeeds(text, at + length, end, kind)
        return self._codes_of(np.stack((found, kind, name, length, succeeds)))

    @staticmethod
    def _succeeds(text: Text, stop: Ints, end: Ints, kind: Ints) -> Ints:
        """Return 1 for exits that return success; `stop` is behind the name of a call."""
        start = stop + len(RETURNED)
        rows = np.flatnonzero((kind == Kind.EXIT) & (start + len(SUCCESS) <= end))
        succeeds = np.zeros(len(kind), np.int64)
        succeeds[rows] = text.starts_with(start[rows], SUCCESS)
        return succeeds

    def code_of_name(self, name: str) -> int:
        """Return the code of a record without a template that is a row of this name."""
        columns = np.array([[_OTHER], [Kind.ROW], [self.names.code_of(name)], [0], [0]], np.int64)
        return int(self._codes_of(columns)[0])

    def _codes_of(self, columns: Ints) -> Ints:
        # One number per column set: the names are few, the other numbers are small.
        message, kind, name, length, succeeds = columns
        keys, first, place = np.unique(
            (((name << 8 | message) << 8 | kind) << 8 | length) << 1 | succeeds, return_index=True, return_inverse=True
        )
        known = len(self._whats)
        distinct = columns[:, first]
        codes = [self._whats.setdefault(tuple(one), len(self._whats)) for one in distinct.T.tolist()]
        if len(self._whats) > known:
            new = np.array(codes) >= known
            order = np.argsort(np.array(codes)[new])
            self.columns = np.concatenate((self.columns, distinct[:, new][:, order]), axis=1)
        return np.array(codes, np.int64)[place.reshape(-1)] if len(keys) else np.zeros(0, np.int64)

    def form_of(self, site: int, what: int, message: bytes, colour: bytes) -> Form | None:
        """Return the form of a message of a site; None where its first bytes do not decide what it is."""
        found, kind, _, length, succeeds = self.columns[:, what].tolist()
        ends = {Kind.ENTER: b" ( ", Kind.EXIT: RETURNED + SUCCESS if succeeds else RETURNED}
        literal = MESSAGES[found].prefix if found < _OTHER else message[:length] + ends.get(kind, b"")
        if found == _OTHER and kind not in ends:
            return None
        # As far as it takes to tell the message from others that begin with the same text.
        rivals = [len(m.prefix) for m in MESSAGES if m.prefix.startswith(literal) and m.prefix != literal]
        extent = max(rivals, default=len(literal))
        return Form(site, colour + message[:extent], what, len(colour)) if len(message) >= extent else None

    def _find(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return the index in `MESSAGES` of each record; their number stands for none of them."""
        found = np.full(len(at), _OTHER, np.int64)
        heads = self._heads.encode(text, at, at + 8)
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
        """Return kind, name code and length of the name of records that may be HIP calls."""
        stop, code = text.token(at, b" :", 64)
        enter = text.starts_with(stop, b" ( ") & (stop + 3 <= end)
        leave = text.starts_with(stop, RETURNED) & (stop + len(RETURNED) <= end)
        kind = np.where(enter, Kind.ENTER, np.where(leave, Kind.EXIT, Kind.OTHER))
        kind[stop == at] = Kind.OTHER
        kind[~_is_word(text, at)] = Kind.OTHER
        name = np.zeros(len(at), np.int64)
        is_call = kind != Kind.OTHER
        if len(self.names.values) >= _MOST_NAMES:
            # No HIP has so many functions: what is new now is text of a program.
            is_call &= self.names.table.find(code)[0] >= 0
            kind[~is_call] = Kind.OTHER
        name[is_call] = self.names.encode(text, at[is_call], stop[is_call], code[is_call])
        return kind, name, np.where(is_call, stop - at, 0)

    def general(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return a name code for messages without a template."""
        return self._general.encode(text, at, end)


def _is_word(text: Text, at: Ints) -> Mask:
    first = text.bytes[at] | 0x20
    is_word: Mask = ((first >= ord("a")) & (first <= ord("z"))) | (text.bytes[at] == ord("_"))
    return is_word
