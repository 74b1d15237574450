"""Packets and copies: `key=value` lines whose fields differ from release to release."""

from __future__ import annotations

import re

import numpy as np

from tracecorr.parse.amdlog.messages import PACKET_NAMES
from tracecorr.parse.text import Codes, Ints, Text, Words

_KEY = re.compile(rb"([A-Za-z_0-9]+)\s*$")
WANTED = {
    "SWq": "swq", "HWq": "ring", "id": "log_id", "Header": "header", "grid": "grid", "workgroup": "workgroup",
    "private_seg_size": "private_bytes", "group_seg_size": "group_bytes", "kernel_obj": "kernel_object",
    "kernarg_address": "kernarg", "completion_signal": "signal", "dep_signal": "dep_signals", "rptr": "rptr",
    "wptr": "packet_index", "copy_engine": "engine", "dst": "dst", "src": "src", "size": "size_bytes",
    "wait_event": "wait_event", "signal": "wait_signal",
}  # fmt: skip
_TUPLES = {"grid": ("grid_x", "grid_y", "grid_z"), "workgroup": ("workgroup_x", "workgroup_y", "workgroup_z")}


class PacketReader:
    """Read the fields of packets and copies, by key and not by place."""

    def __init__(self) -> None:
        # 24 bytes before `=` hold the longest key; the word before `Header` names the packet.
        self._keys = Codes(_key)
        self._kinds = Codes(_kind)

    def read(self, text: Text, at: Ints, end: Ints) -> tuple[dict[str, tuple[Ints, Words]], list[str], Ints]:
        """Return the fields (rows and values), the packet names, and the code of each row's name."""
        signs = np.flatnonzero(text.bytes == ord("=")).astype(np.int64)
        low, high = np.searchsorted(signs, at), np.searchsorted(signs, end)
        count = high - low
        row = np.repeat(np.arange(len(at)), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        sign = signs[np.repeat(low, count) + within]
        keys = self._key_codes(text, sign, at[row])
        fields: dict[str, tuple[Ints, Words]] = {}
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
        return fields, [str(v) for v in self._kinds.values], kind

    def _key_codes(self, text: Text, sign: Ints, at: Ints) -> Ints:
        start = np.maximum(sign - 24, at)
        start = _after_separator(text, start, sign)
        return self._keys.encode(text, start, sign, text.span_hash(start, sign))

    def _kind_codes(self, text: Text, sign: Ints) -> Ints:
        stop = sign - len("Header ")
        start = stop - 16
        return self._kinds.encode(text, start, stop, text.span_hash(start + 3, stop))

    @staticmethod
    def _read_key(
        text: Text, key: str, rows: Ints, place: Ints, end: Ints, fields: dict[str, tuple[Ints, Words]]
    ) -> None:
        names = _TUPLES.get(key) or (tuple(f"dep_{i}" for i in range(5)) if key == "dep_signals" else (key,))
        for name in names:
            # ROCm 5.6 to 6.0 print the mask of copy engines in hexadecimal without `0x`.
            values, stop, good = text.number(place, bare_base=16 if key == "engine" else 10)
            good &= stop <= end
            rows, place, end = rows[good], stop[good], end[good]
            if name in fields:
                fields[name] = _join(fields[name], (rows, values[good]))
            else:
                fields[name] = rows, values[good]
            for separator in b", ":
                place = place + (text.bytes[place] == separator)


def _join(first: tuple[Ints, Words], second: tuple[Ints, Words]) -> tuple[Ints, Words]:
    return np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))


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
