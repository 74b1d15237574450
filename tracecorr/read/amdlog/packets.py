"""Packets and copies: `key=value` lines whose fields differ from release to release."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.read.amdlog.messages import PACKET_NAMES
from tracecorr.read.amdlog.shapes import Fields
from tracecorr.read.amdlog.tails import Tails
from tracecorr.read.digits import Ints, Mask, Words
from tracecorr.read.text import Codes, Text

_KEY = re.compile(rb"([A-Za-z_0-9]+)\s*$")
WANTED = {
    "SWq": "swq", "HWq": "ring", "id": "log_id", "Header": "header", "grid": "grid", "workgroup": "workgroup",
    "private_seg_size": "private_bytes", "group_seg_size": "group_bytes", "kernel_obj": "kernel_object",
    "kernarg_address": "kernarg", "completion_signal": "signal", "dep_signal": "dep_signals", "rptr": "rptr",
    "wptr": "packet_index", "copy_engine": "engine", "dst": "dst", "src": "src", "size": "size_bytes",
    "wait_event": "wait_event", "signal": "wait_signal",
}  # fmt: skip
_TUPLES = {"grid": ("grid_x", "grid_y", "grid_z"), "workgroup": ("workgroup_x", "workgroup_y", "workgroup_z")}

# Room for so many fronts at first.
_FRONTS = 64
# Indexes of 32 bits fall where they begin anew.
_WRAP, _HALF = np.uint64(1 << 32), np.uint64(1 << 31)

# Name -> rows that have such a field, and the values.
_Lists = dict[str, tuple[Ints, Words]]
# Fields that say what a packet waits for.
_WAITS = ("dep_", "wait_")


@dataclass
class Packets:
    """Hold what the lines of packets and copies say.

    Args:
        fields: all but what they wait for; where a damaged line has several of a name, the last.
        waits: name, rows and values of all signals and events that they wait for.
        names: of packets.
        kind: place of each line's name there; -1 = it was cut before it.
    """

    fields: Fields
    waits: list[tuple[str, Ints, Words]]
    names: list[str]
    kind: Ints

    def take(self, some: Mask) -> Packets:
        """Return what some of the lines say."""
        fields = {name: (values[some], present[some]) for name, (values, present) in self.fields.items()}
        place = np.cumsum(some) - 1
        waits = [(name, place[rows[some[rows]]], values[some[rows]]) for name, rows, values in self.waits]
        return Packets(fields, waits, self.names, self.kind[some])

    def forget(self, names: tuple[str, ...], lines: Mask) -> None:
        """Forget some fields of some of the lines."""
        if not lines.any():
            return
        for name in self.fields.keys() & set(names):
            values, present = self.fields[name]
            self.fields[name] = np.where(lines, np.uint64(0), values), present & ~lines
        self.waits = [
            (name, rows[~lines[rows]], values[~lines[rows]]) if name in names else (name, rows, values)
            for name, rows, values in self.waits
        ]


class PacketReader:
    """Read the fields of packets and copies, by key and not by place.

    Most of a packet's line is one of few texts (queue, header, sizes, kernel). Those are read once;
    of each line only the rest, which differs from packet to packet.
    """

    def __init__(self) -> None:
        # 24 bytes before `=` hold the longest key; the word before `Header` names the packet.
        self._keys = Codes(_key)
        self._kinds = Codes(_kind)
        self._tails = Tails()
        self._fronts = native.HashTable()
        # A row of each field, with a place for the code of each front.
        self._front_names: list[str] = []
        self._front_values = np.zeros((0, _FRONTS), np.uint64)
        self._front_has = np.zeros((0, _FRONTS), np.bool_)
        self._front_kinds = np.full(1, -1, np.int64)

    def read(self, text: Text, at: Ints, end: Ints) -> Packets:
        """Return what lines say that lie between `at` and `end`."""
        rest, split, fields = self._tails.read(text, at, end)
        if len(rest) and self._tails.learn(text, at[rest], end[rest]):
            rest, split, fields = self._tails.read(text, at, end)
        front = self._front_codes(text, at, split, rest)
        spread = native.spread_fields(front, self._front_values, self._front_has)
        for name, values, present in zip(self._front_names, *spread, strict=True):
            fields[name] = _merge((values, present), fields[name]) if name in fields else (values, present)
        # The last one is that of lines without a front.
        kind, waits = self._front_kinds[front], []
        if len(rest):
            whole, kind[rest] = self._read_whole(text, at[rest], end[rest])
            waits = [(name, rest[rows], values) for name, (rows, values) in whole.items() if name.startswith(_WAITS)]
            _put(fields, rest, len(at), whole)
        for name in [name for name in fields if name.startswith(_WAITS)]:
            values, present = fields.pop(name)
            rows = np.flatnonzero(present)
            waits.append((name, rows, values[rows]))
        return Packets(fields, waits, [str(v) for v in self._kinds.values], kind)

    def _front_codes(self, text: Text, at: Ints, end: Ints, rest: Ints) -> Ints:
        """Return the code of each front, the part of a line before its tail; new ones are read.

        Args:
            text: holds the lines.
            at, end: of the fronts.
            rest: lines without a tail; their front has no code.
        """
        codes, hashes, all_known = native.code_spans(self._fronts, text.bytes, at, end)
        if not all_known:
            is_front = codes < 0
            is_front[rest] = False
            missing = np.flatnonzero(is_front)
            new, first = np.unique(hashes[missing], return_index=True)
            self._learn_fronts(text, at[missing[first]], end[missing[first]], new)
            codes, _ = self._fronts.find(hashes)
        codes[rest] = -1
        return codes

    def _learn_fronts(self, text: Text, at: Ints, end: Ints, hashes: Words) -> None:
        fields, kind = self._read_whole(text, at, end)
        before = len(self._front_kinds) - 1
        count = before + len(hashes)
        self._fronts.add(hashes, np.arange(before, count))
        self._front_kinds = np.concatenate((self._front_kinds[:-1], kind, self._front_kinds[-1:]))
        self._front_names += [name for name in fields if name not in self._front_names]
        room = len(self._front_names), max(_FRONTS, 1 << (count - 1).bit_length())
        values, has = np.zeros(room, np.uint64), np.zeros(room, np.bool_)
        held = self._front_values.shape
        values[: held[0], : held[1]], has[: held[0], : held[1]] = self._front_values, self._front_has
        for name, (rows, got) in fields.items():
            row = self._front_names.index(name)
            values[row, before + rows], has[row, before + rows] = got, True
        self._front_values, self._front_has = values, has

    def _read_whole(self, text: Text, at: Ints, end: Ints) -> tuple[_Lists, Ints]:
        """Return the fields of texts, and the code of the packet's name."""
        sign, row = _signs(text, at, end)
        keys = self._key_codes(text, sign, at[row])
        fields = _Collected()
        kind = np.full(len(at), -1, np.int64)
        for code, key in enumerate(self._keys.values):
            hit = np.flatnonzero(keys == code)
            if not key or not len(hit):
                continue
            rows, place = row[hit], sign[hit] + 1
            place = place + (text.bytes[place] == 32)
            place = place + (text.bytes[place] == ord("["))
            self._read_key(text, key, rows, place, end[rows], fields)
            if key == "header":
                kind[rows] = self._kind_codes(text, sign[hit])
        return fields.join(), kind

    def _key_codes(self, text: Text, sign: Ints, at: Ints) -> Ints:
        start = np.maximum(sign - 24, at)
        start = _after_separator(text, start, sign)
        return self._keys.encode(text, start, sign)

    def _kind_codes(self, text: Text, sign: Ints) -> Ints:
        stop = sign - len("Header ")
        start = stop - 16
        return self._kinds.encode(text, start, stop, native.hash_spans(text.bytes, start + 3, stop))

    @staticmethod
    def _read_key(text: Text, key: str, rows: Ints, place: Ints, end: Ints, fields: _Collected) -> None:
        names = _TUPLES.get(key) or (tuple(f"dep_{i}" for i in range(5)) if key == "dep_signals" else (key,))
        for name in names:
            # ROCm 5.6 to 6.0 print the mask of copy engines in hexadecimal without `0x`.
            values, stop, good = text.number(place, bare_base=16 if key == "engine" else 10)
            good &= stop <= end
            rows, place, end = rows[good], stop[good], end[good]
            fields.add(name, rows, values[good])
            for separator in b", ":
                place = place + (text.bytes[place] == separator)


def without_slots(found: Fields, sure: Mask) -> Fields:
    """Return fields whose `packet_index` was behind the read index of the same line as `slot` instead.

    The development branch of 2026 (rocvirtual.cpp) prints as wptr of a graph's packets where in the ring they lie:
    their index without the rounds before. Where a barrier was read before its line was printed, wptr is its index.

    Args:
        found: fields of some lines.
        sure: lines of which the index is taken as it is.
    """
    if "rptr" not in found or "packet_index" not in found:
        return found
    read, has_read = found["rptr"]
    index, has_index = found["packet_index"]
    ahead = read - index
    behind = has_index & has_read & ~sure & (index < read) & ((read >= _WRAP) | (ahead < _HALF))
    if not behind.any():
        return found
    return {**found, "packet_index": (index, has_index & ~behind), "slot": (index, behind)}


def _merge(one: tuple[Words, Mask], other: tuple[Words, Mask]) -> tuple[Words, Mask]:
    """Return the values of both; where both have one, that of the other."""
    return np.where(other[1], other[0], one[0]), one[1] | other[1]


def _put(fields: Fields, lines: Ints, count: int, found: _Lists) -> None:
    """Put what was found in some of `count` lines to the fields of all, but what they wait for."""
    for name, (rows, values) in found.items():
        if name.startswith(_WAITS):
            continue
        if name not in fields:
            fields[name] = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
        fields[name][0][lines[rows]], fields[name][1][lines[rows]] = values, True


class _Collected:
    """Collect the values of fields."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[Ints, Words]]] = {}

    def add(self, name: str, rows: Ints, values: Words) -> None:
        """Add some values of a field."""
        self._parts.setdefault(name, []).append((rows, values))

    def join(self) -> _Lists:
        """Return all values of each field."""
        return {name: _join(parts) for name, parts in self._parts.items()}


def _join(parts: list[tuple[Ints, Words]]) -> tuple[Ints, Words]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([values for _, values in parts])


def _signs(text: Text, at: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the place of each `=` in some texts, and the number of its text."""
    if 4 * int((end - at).sum()) > len(text.bytes):
        signs = np.flatnonzero(text.bytes == ord("=")).astype(np.int64)
        low, high = np.searchsorted(signs, at), np.searchsorted(signs, end)
        count = high - low
        row = np.repeat(np.arange(len(at)), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        return signs[np.repeat(low, count) + within], row
    spans = zip(at.tolist(), end.tolist(), strict=True)
    found = [np.flatnonzero(text.bytes[i:j] == ord("=")) + i for i, j in spans]
    row = np.repeat(np.arange(len(at)), [len(places) for places in found])
    return np.concatenate([np.zeros(0, np.int64), *found]), row


def _after_separator(text: Text, start: Ints, stop: Ints) -> Ints:
    """Return the start of the last word before each `stop`; one blank before it is part of it."""
    words = np.empty((len(start), 3), np.uint64)
    for i in range(3):
        words[:, i] = text.word(stop - 25 + 8 * i)
    chars = words.view(np.uint8).reshape(len(start), 24)
    is_separator = (chars == 32) | (chars == 44) | (chars == 40) | (chars == 10)
    last = 24 - is_separator[:, ::-1].argmax(axis=1)
    last[~is_separator.any(axis=1)] = 0
    found: Ints = np.maximum(stop - 25 + last, start)
    return found


def _key(text: bytes) -> str:
    found = _KEY.search(text)
    return WANTED.get(found[1].decode(), "") if found else ""


def _kind(text: bytes) -> str:
    return next((name for pattern, name in PACKET_NAMES if pattern.search(text)), "packet")
