"""Lines whose prefix looks like one that was read before: time, thread and message at known places.

A prefix is `:level:file:line: TIME us: THREAD ` and then the message, which may begin with a
colour. Releases, log levels and hosts differ in the widths, but hardly ever does a log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.digits import KEEP, Ints, Mask, Words, all_digits, last_digits, swar
from tracecorr.parse.text import Codes, Heads, Text, mix

HEAD_BYTES = 128
KEY_BYTES = 24
_MOST_LAYOUTS = 16
COLOUR = b"\x1b[32m "
# What stands before the time: level, file and line.
SITE = rb":(?:\d:)?(?:[A-Za-z]:)?[^:\n\[\]]{0,200}:\d+ *: "
_SITE = re.compile(SITE)


@dataclass(frozen=True)
class Layout:
    """Name the places of a prefix.

    Args:
        mark: bytes before the end of the time's digits.
        digits: digits of the time.
        gap: bytes from there to the message (or its colour): ` us: [pid:7 tid: 0x7f..] `.
    """

    mark: int
    digits: int
    gap: int


@dataclass
class Matched:
    """Hold the lines that fit a layout as parallel arrays.

    Args:
        line: index of the line.
        stamp: microseconds.
        thread: code of the thread.
        message: first byte of the message, behind its colour.
        keys: hashes of the first 8, 16 and 24 bytes of the message, with its colour; shape (lines, 3).
    """

    line: Ints
    stamp: Ints
    thread: Ints
    message: Ints
    keys: Words

    def take(self, rows: Ints | Mask) -> Matched:
        """Return some of the lines."""
        return Matched(*(column[rows] for column in vars(self).values()))


class Layouts:
    """Remember the layouts and the gaps seen."""

    def __init__(self) -> None:
        self._known: list[Layout] = []
        self._gaps = Codes(bytes)
        self._sites = Codes(lambda text: bool(_SITE.fullmatch(text)))
        self._no_site = self._sites.code_of(False)

    def match(self, text: Text, start: Ints, end: Ints) -> Matched:
        """Return the lines that fit a known layout; the most frequent layout is tried first."""
        found: list[tuple[int, Layout]] = []
        parts: list[Matched] = []
        left = np.arange(len(start))
        heads = text.heads(start, HEAD_BYTES) if self._known else Heads(np.zeros(0), HEAD_BYTES)
        for layout in self._known:
            if len(left) == 0:
                break
            fits, matched = self._match_one(text, heads, start[left], end[left], layout)
            matched.line = left[matched.line]
            found.append((len(matched.line), layout))
            parts.append(matched)
            left = left[~fits]
            if len(left):
                heads = heads.take(np.flatnonzero(~fits))
        order = [layout for _, layout in sorted(found, key=lambda item: -item[0])]
        self._known = order + [layout for layout in self._known if layout not in order]
        return _join(parts)

    def _match_one(self, text: Text, heads: Heads, start: Ints, end: Ints, layout: Layout) -> tuple[Mask, Matched]:
        place = layout.mark + layout.gap
        thread, fits = self._gaps.look_up(_gap_hash(heads, layout))
        low = last_digits(heads.word(layout.mark - 8), min(layout.digits, 8))
        high = last_digits(heads.word(layout.mark - 16), max(layout.digits - 8, 0))
        fits &= all_digits(low) & all_digits(high)
        self._check_sites(text, heads, start, layout, fits)
        first = heads.word(place)
        coloured = (first & KEEP[len(COLOUR)]) == np.uint64(int.from_bytes(COLOUR, "little"))
        fits &= _is_word(first) | (coloured & _is_word(first >> np.uint64(8 * len(COLOUR))))
        stamp = (swar(low) + swar(high) * np.uint64(100_000_000)).astype(np.int64)
        message = start + (place + len(COLOUR) * coloured)
        keys = np.empty((len(start), 3), np.uint64)
        keys[:, 0] = mix(np.zeros(len(start), np.uint64), first)
        keys[:, 1] = mix(keys[:, 0], heads.word(place + 8))
        keys[:, 2] = mix(keys[:, 1], heads.word(place + 16))
        short = np.flatnonzero(end - start < place + KEY_BYTES)
        keys[short] = message_keys(text, start[short] + place, end[short])
        matched = Matched(np.arange(len(start)), stamp, thread, message, keys)
        return fits, matched if fits.all() else matched.take(fits)

    def _check_sites(self, text: Text, heads: Heads, start: Ints, layout: Layout, fits: Mask) -> None:
        """Clear `fits` where what stands before the time is no level, file and line."""
        size = layout.mark - layout.digits
        code = _hash_of(heads, 0, size)
        found, known = self._sites.look_up(code)
        new = np.flatnonzero(fits & ~known)
        if len(new):
            found[new] = self._sites.encode(text, start[new], start[new] + size, code[new])
        fits &= found != self._no_site

    def learn(self, text: Text, start: Ints, mark: Ints, size: Ints, message: Ints, thread: Ints) -> None:
        """Remember layouts and gaps of records that were read without them; `message` is before a colour."""
        rows = np.stack((mark - start, size, message - mark), axis=1)
        good = (rows[:, 0] + rows[:, 2] + KEY_BYTES <= HEAD_BYTES) & (rows[:, 0] >= 17) & (rows[:, 2] > 0)
        layouts, place = np.unique(rows[good], axis=0, return_inverse=True)
        thread, start = thread[good], start[good]
        for i, (before, digits, gap) in enumerate(layouts.tolist()):
            layout = Layout(before, digits, gap)
            if layout not in self._known:
                if len(self._known) == _MOST_LAYOUTS:
                    continue
                self._known.append(layout)
            own = np.flatnonzero(place.reshape(-1) == i)
            hashes, first = np.unique(_gap_hash(text.heads(start[own], HEAD_BYTES), layout), return_index=True)
            new = ~self._gaps.look_up(hashes)[1]
            self._gaps.add(hashes[new], thread[own[first]][new])


def message_keys(text: Text, at: Ints, end: Ints) -> Words:
    """Return the hashes of the first 8, 16 and 24 bytes of each text; shape (texts, 3)."""
    keys = np.empty((len(at), 3), np.uint64)
    key = np.zeros(len(at), np.uint64)
    size = end - at
    for i in range(3):
        key = mix(key, text.word(at + 8 * i) & KEEP[np.clip(size - 8 * i, 0, 8)])
        # Shorter ones carry their length: a text and the same text with NUL bytes behind it differ.
        keys[:, i] = np.where(size < 8 * i + 8, mix(key, size.astype(np.uint64)), key)
    return keys


def _join(parts: list[Matched]) -> Matched:
    parts = [part for part in parts if len(part.line)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, np.int64)
        return Matched(none, none, none, none, np.zeros((0, 3), np.uint64))
    joined = Matched(*(np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])))
    return joined.take(np.argsort(joined.line, kind="stable"))


def _gap_hash(heads: Heads, layout: Layout) -> Words:
    return _hash_of(heads, layout.mark, layout.gap)


def _hash_of(heads: Heads, place: int, size: int) -> Words:
    """Return the hash of `size` bytes at `place` of each head."""
    code = np.full(len(heads), size, np.uint64)
    for at in [*range(0, size - 7, 8), max(size - 8, 0)]:
        word = heads.word(place + at)
        code = mix(code, word & KEEP[size] if size < 8 else word)
    return code


def _is_word(word: Words) -> Mask:
    """Return whether the first byte is a letter or `_`."""
    first = (word & np.uint64(0xFF)).astype(np.uint8)
    good: Mask = _WORD[first]
    return good


_WORD = np.zeros(256, np.bool_)
_WORD[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")] = True
