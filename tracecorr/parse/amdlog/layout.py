"""Lines whose prefix looks like one that was read before: time, thread and message at known places.

A prefix is `:level:file:line: TIME us: THREAD ` and then the message, which may begin with a
colour. Releases, log levels and hosts differ in the widths, but hardly ever does a log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.classify import Classifier
from tracecorr.parse.amdlog.forms import COLOUR, FORM_BYTES, Forms
from tracecorr.parse.digits import KEEP, Ints, Mask, all_digits, last_digits, swar
from tracecorr.parse.text import Codes, Heads, Text

HEAD_BYTES = 160
_MOST_LAYOUTS, _MOST_LEARNED = 16, 64
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
        what: what the message is, a code of `Classifier`.
    """

    line: Ints
    stamp: Ints
    thread: Ints
    message: Ints
    what: Ints

    def take(self, rows: Ints | Mask) -> Matched:
        """Return some of the lines."""
        return Matched(*(column[rows] for column in vars(self).values()))


class Layouts:
    """Remember the layouts and the gaps seen."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._forms = Forms()
        self._known: list[Layout] = []
        self._gaps = Codes(bytes)
        self._sites = Codes(lambda text: text if _SITE.fullmatch(text) else None)
        self._no_site = self._sites.code_of(None)

    def match(self, text: Text, start: Ints, end: Ints) -> Matched:
        """Return the lines that fit a known layout; the most frequent layout is tried first.

        Args:
            start, end: of the lines, without a carriage return.
        """
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
        thread, fits = self._gaps.look_up(heads.hash(layout.mark, layout.gap))
        stamp, good = _stamps(heads, layout)
        fits &= good
        site = self._find_sites(text, heads, start, layout, fits)
        what, skip = self._forms.find(heads, place, end - start - place, site)
        rows = np.flatnonzero((what < 0) & fits)
        if len(rows):
            first = heads.take(rows).word(place)
            skip[rows] = len(COLOUR) * ((first & _COLOUR_MASK) == _COLOUR_WORD)
            is_word = _WORD[text.bytes[start[rows] + place + skip[rows]]]
            is_word |= text.starts_with(start[rows] + place, _GRAPH) & (start[rows] + place + len(_GRAPH) <= end[rows])
            fits[rows[~is_word]] = False
            rows = rows[is_word]
            what[rows] = self._look(text, start[rows] + place, end[rows], skip[rows], site[rows])
        matched = Matched(np.arange(len(start)), stamp, thread, start + (place + skip), what)
        return fits, matched if fits.all() else matched.take(np.flatnonzero(fits))

    def _look(self, text: Text, at: Ints, end: Ints, skip: Ints, site: Ints) -> Ints:
        """Return what messages are that have no known form, and learn their forms; `at` is before a colour."""
        what = self._classifier.look(text, at + skip, end)
        _, first = np.unique((site << 32 | what) << 1 | (skip > 0), return_index=True)
        forms = []
        for i in first[:_MOST_LEARNED].tolist():
            begin = int(at[i] + skip[i])
            message, colour = text.slice(begin, int(end[i])), text.slice(int(at[i]), begin)
            forms.append(self._classifier.form_of(int(site[i]), int(what[i]), message, colour))
        self._forms.learn([form for form in forms if form])
        return what

    def _find_sites(self, text: Text, heads: Heads, start: Ints, layout: Layout, fits: Mask) -> Ints:
        """Return the site of each line; clear `fits` where what stands before the time is no level, file and line."""
        size = layout.mark - layout.digits
        code = heads.hash(0, size)
        site, known = self._sites.look_up(code)
        if not known.all():
            new = np.flatnonzero(fits & ~known)
            site[new] = self._sites.encode(text, start[new], start[new] + size, code[new])
        fits &= site != self._no_site
        return site

    def learn(self, text: Text, start: Ints, mark: Ints, size: Ints, message: Ints, thread: Ints) -> None:
        """Remember layouts and gaps of records that were read without them; `message` is before a colour."""
        rows = np.stack((mark - start, size, message - mark), axis=1)
        good = (rows[:, 0] + rows[:, 2] + FORM_BYTES <= HEAD_BYTES) & (rows[:, 0] >= 17) & (rows[:, 2] > 0)
        layouts, place = np.unique(rows[good], axis=0, return_inverse=True)
        thread, start = thread[good], start[good]
        for i, (before, digits, gap) in enumerate(layouts.tolist()):
            layout = Layout(before, digits, gap)
            if layout not in self._known:
                if len(self._known) == _MOST_LAYOUTS:
                    continue
                self._known.append(layout)
            own = np.flatnonzero(place.reshape(-1) == i)
            hashes, first = np.unique(text.heads(start[own], HEAD_BYTES).hash(before, gap), return_index=True)
            new = ~self._gaps.look_up(hashes)[1]
            self._gaps.add(hashes[new], thread[own[first]][new])


def _join(parts: list[Matched]) -> Matched:
    parts = [part for part in parts if len(part.line)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, np.int64)
        return Matched(none, none, none, none, none)
    joined = Matched(*(np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])))
    return joined.take(np.argsort(joined.line, kind="stable"))


def _stamps(heads: Heads, layout: Layout) -> tuple[Ints, Mask]:
    """Return the times of lines, and whether they are numbers."""
    low = last_digits(heads.word(layout.mark - 8), min(layout.digits, 8))
    high = last_digits(heads.word(layout.mark - 16), max(layout.digits - 8, 0))
    if len(high) and (high == high[0]).all():
        # The first digits of a time change every 100 seconds.
        high = high[:1]
    stamp = swar(low) + swar(high) * np.uint64(100_000_000)
    return stamp.view(np.int64), all_digits(low) & all_digits(high)


# The only message that begins with another character; what else does may be a prefix of another layout.
_GRAPH = b"[hipGraph] "
_COLOUR_MASK, _COLOUR_WORD = KEEP[len(COLOUR)], np.uint64(int.from_bytes(COLOUR, "little"))
_WORD = np.zeros(256, np.bool_)
_WORD[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")] = True
