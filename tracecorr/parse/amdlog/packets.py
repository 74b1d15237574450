"""Packets and copies: `key=value` lines whose fields differ from release to release."""

from __future__ import annotations

import re

import numpy as np

from tracecorr.parse import native
from tracecorr.parse.amdlog.messages import PACKET_NAMES
from tracecorr.parse.amdlog.tails import Tails
from tracecorr.parse.digits import Ints, Mask, Words
from tracecorr.parse.text import Codes, Text

_KEY = re.compile(rb"([A-Za-z_0-9]+)\s*$")
WANTED = {
    "SWq": "swq", "HWq": "ring", "id": "log_id", "Header": "header", "grid": "grid", "workgroup": "workgroup",
    "private_seg_size": "private_bytes", "group_seg_size": "group_bytes", "kernel_obj": "kernel_object",
    "kernarg_address": "kernarg", "completion_signal": "signal", "dep_signal": "dep_signals", "rptr": "rptr",
    "wptr": "packet_index", "copy_engine": "engine", "dst": "dst", "src": "src", "size": "size_bytes",
    "wait_event": "wait_event", "signal": "wait_signal",
}  # fmt: skip
_TUPLES = {"grid": ("grid_x", "grid_y", "grid_z"), "workgroup": ("workgroup_x", "workgroup_y", "workgroup_z")}

# Indexes of 32 bits fall where they begin anew.
_WRAP, _HALF = np.uint64(1 << 32), np.uint64(1 << 31)

Fields = dict[str, tuple[Ints, Words]]


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
        self._front_fields: dict[str, tuple[Words, Mask]] = {}
        self._front_kinds = np.zeros(0, np.int64)

    def read(self, text: Text, at: Ints, end: Ints) -> tuple[Fields, list[str], Ints]:
        """Return the fields (rows and values), the packet names, and the code of each row's name."""
        found = _Collected()
        rest, split, tail_fields = self._tails.read(text, at, end)
        if len(rest) and self._tails.learn(text, at[rest], end[rest]):
            rest, split, tail_fields = self._tails.read(text, at, end)
        fast = np.delete(np.arange(len(at)), rest)
        kind = np.full(len(at), -1, np.int64)
        if len(rest):
            whole, kind[rest] = self._read_whole(text, at[rest], end[rest])
            for name, (rows, values) in whole.items():
                found.add(name, rest[rows], values)
        if len(fast):
            front = self._front_codes(text, at[fast], split[fast])
            kind[fast] = self._front_kinds[front]
            for name, (values, present) in self._front_fields.items():
                if present.all():
                    found.add(name, fast, values[front])
                    continue
                has = np.flatnonzero(present[front])
                found.add(name, fast[has], values[front[has]])
            for name, rows, values in tail_fields:
                found.add(name, rows, values)
        return found.join(), [str(v) for v in self._kinds.values], kind

    def _front_codes(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return the code of each front, the part of a line before its tail; new ones are read."""
        codes, hashes, all_known = native.code_spans(self._fronts, text.bytes, at, end)
        if all_known:
            return codes
        missing = np.flatnonzero(codes < 0)
        new, first = np.unique(hashes[missing], return_index=True)
        rows = missing[first]
        fields, kind = self._read_whole(text, at[rows], end[rows])
        before = len(self._front_kinds)
        self._fronts.add(new, np.arange(len(new)) + before)
        self._front_kinds = np.concatenate((self._front_kinds, kind))
        for name in {**self._front_fields, **fields}:
            values, present = np.zeros(before + len(new), np.uint64), np.zeros(before + len(new), np.bool_)
            if name in self._front_fields:
                values[:before], present[:before] = self._front_fields[name]
            if name in fields:
                at_rows, got = fields[name]
                values[before + at_rows], present[before + at_rows] = got, True
            self._front_fields[name] = values, present
        return self._fronts.find(hashes)[0]

    def _read_whole(self, text: Text, at: Ints, end: Ints) -> tuple[Fields, Ints]:
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
    read, has_read = np.zeros(len(sure), np.uint64), np.zeros(len(sure), np.bool_)
    at, values = found["rptr"]
    read[at], has_read[at] = values, ~sure[at]
    at, index = found["packet_index"]
    ahead = read[at] - index
    behind = has_read[at] & (index < read[at]) & ((read[at] >= _WRAP) | (ahead < _HALF))
    if not behind.any():
        return found
    return {**found, "packet_index": (at[~behind], index[~behind]), "slot": (at[behind], index[behind])}


class _Collected:
    """Collect the values of fields."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[Ints, Words]]] = {}

    def add(self, name: str, rows: Ints, values: Words) -> None:
        """Add some values of a field."""
        self._parts.setdefault(name, []).append((rows, values))

    def join(self) -> Fields:
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
