"""Lines whose prefix looks like one that was read before: time, thread and message at known places.

A prefix is `:level:file:line: TIME us: THREAD ` and then the message, which may begin with a
colour. Releases, log levels and hosts differ in the widths, but hardly ever does a log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.classify import Classifier
from tracecorr.parse.amdlog.forms import COLOUR, FORM_BYTES, Forms, site_of, slots
from tracecorr.parse.digits import KEEP, Ints, Mask, Words, all_digits, last_digits, swar
from tracecorr.parse.heads import FACTORS, Heads, mix
from tracecorr.parse.text import Codes, Text

# Of a line as much is compared at most; the rest of it stays unread here.
_HEAD_BYTES = 160
_MOST_LAYOUTS, _MOST_LEARNED, _MOST_FRONTS = 16, 64, 1 << 14
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

    @property
    def size(self) -> int:
        """Return the bytes before the message."""
        return self.mark + self.gap

    @property
    def before(self) -> int:
        """Return how many bytes before a line its head begins, so that the message begins with a word of it."""
        return -self.size % 8

    def heads(self, text: Text, start: Ints) -> Heads:
        """Return the heads of lines: from `before` bytes before them to the end of what is compared."""
        return text.heads(start - self.before, self.before + self.size + FORM_BYTES)

    def site(self, heads: Heads) -> Words:
        """Return the hash of what stands before the time."""
        return heads.hash(self.before, self.mark - self.digits)

    def thread(self, heads: Heads) -> Words:
        """Return the hash of what stands between the time and the message."""
        return heads.hash(self.before + self.mark, self.gap)

    def message(self, heads: Heads) -> Words:
        """Return the first word of the message."""
        return heads.word(self.before + self.size)


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
    """Remember the layouts seen, and the fronts of lines.

    A front is all that stands before the message but the time, and the first bytes of the message: it tells the
    thread, and which forms the message may have.
    """

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._forms = Forms()
        self._known: list[Layout] = []
        self._gaps = Codes(bytes)
        self._sites = Codes(lambda text: text if _SITE.fullmatch(text) else None)
        self._no_site = self._sites.code_of(None)
        self._fronts = Codes(bytes)
        # Of each front its thread, and the slot of its forms; the first one stands for those that are not known.
        self._thread_of, self._slot_of = np.zeros((2, 1), np.int64)

    def match(self, text: Text, start: Ints, end: Ints) -> Matched:
        """Return the lines that fit a known layout; the most frequent layout is tried first.

        Args:
            start, end: of the lines, without a carriage return.
        """
        found: list[tuple[int, Layout]] = []
        parts: list[Matched] = []
        left = np.arange(len(start))
        for layout in self._known:
            if len(left) == 0:
                break
            is_whole = len(left) == len(start)
            spans = (start, end) if is_whole else (start[left], end[left])
            fits, matched = self._match_one(text, *spans, layout)
            matched.line = matched.line if is_whole else left[matched.line]
            found.append((len(matched.line), layout))
            parts.append(matched)
            left = left[~fits]
        order = [layout for _, layout in sorted(found, key=lambda item: -item[0])]
        self._known = order + [layout for layout in self._known if layout not in order]
        return _join(parts)

    def _match_one(self, text: Text, start: Ints, end: Ints, layout: Layout) -> tuple[Mask, Matched]:
        heads = layout.heads(text, start)
        thread, slot, fits = self._find_fronts(text, heads, start, layout)
        stamp, good = _stamps(heads, layout)
        fits &= good
        what, skip = self._forms.find(heads, layout.before + layout.size, end - start - layout.size, slot)
        rows = np.flatnonzero((what < 0) & fits)
        if len(rows):
            at = start[rows] + layout.size
            skip[rows] = len(COLOUR) * ((layout.message(heads.take(rows)) & _COLOUR_MASK) == _COLOUR_WORD)
            is_word = _WORD[text.bytes[at + skip[rows]]]
            is_word |= text.starts_with(at, _GRAPH) & (at + len(_GRAPH) <= end[rows])
            fits[rows[~is_word]] = False
            rows, at = rows[is_word], at[is_word]
            what[rows] = self._look(text, at, end[rows], skip[rows], site_of(slot[rows]))
        matched = Matched(np.arange(len(start)), stamp, thread, start + (layout.size + skip), what)
        return fits, matched if fits.all() else matched.take(np.flatnonzero(fits))

    def _find_fronts(self, text: Text, heads: Heads, start: Ints, layout: Layout) -> tuple[Ints, Ints, Mask]:
        """Return thread, slot of the forms, and whether the line fits the layout, as far as its front tells."""
        hashes = mix(layout.site(heads) + layout.thread(heads) * FACTORS[0], layout.message(heads) & _FIRST_BYTES)
        code, known = self._fronts.look_up(hashes)
        if known.all():
            return self._thread_of[code], self._slot_of[code], known
        rows = np.flatnonzero(~known)
        code[rows] = 0
        thread, slot = self._thread_of[code], self._slot_of[code]
        thread[rows], known[rows] = self._gaps.look_up(layout.thread(heads.take(rows)))
        rows = rows[known[rows]]
        if len(rows):
            some, begin = heads.take(rows), start[rows]
            site = self._sites.encode(text, begin, begin + layout.mark - layout.digits, layout.site(some))
            known[rows] = site != self._no_site
            slot[rows] = slots(site, layout.message(some))
            self._remember_fronts(hashes, thread, slot, rows[known[rows]])
        return thread, slot, known

    def _remember_fronts(self, hashes: Words, thread: Ints, slot: Ints, rows: Ints) -> None:
        new, first = np.unique(hashes[rows], return_index=True)
        count = len(self._thread_of)
        if len(new) and count + len(new) <= _MOST_FRONTS:
            self._fronts.add(new, np.arange(count, count + len(new)))
            self._thread_of = np.append(self._thread_of, thread[rows[first]])
            self._slot_of = np.append(self._slot_of, slot[rows[first]])

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

    def learn(self, text: Text, start: Ints, mark: Ints, size: Ints, message: Ints, thread: Ints) -> None:
        """Remember layouts and gaps of records that were read without them; `message` is before a colour."""
        rows = np.stack((mark - start, size, message - mark), axis=1)
        good = (rows[:, 0] + rows[:, 2] + FORM_BYTES <= _HEAD_BYTES) & (rows[:, 0] >= 17) & (rows[:, 2] > 0)
        layouts, place = np.unique(rows[good], axis=0, return_inverse=True)
        thread, start = thread[good], start[good]
        for i, (before, digits, gap) in enumerate(layouts.tolist()):
            layout = Layout(before, digits, gap)
            if layout not in self._known:
                if len(self._known) == _MOST_LAYOUTS:
                    continue
                self._known.append(layout)
            own = np.flatnonzero(place.reshape(-1) == i)
            hashes, first = np.unique(layout.thread(layout.heads(text, start[own])), return_index=True)
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
    mark = layout.before + layout.mark
    low = last_digits(heads.word(mark - 8), min(layout.digits, 8))
    stamp, good = swar(low), all_digits(low)
    if layout.digits > 8 and len(stamp):
        # The first digits of a time change every 100 seconds: they are read once, and where they are others.
        high = last_digits(heads.word(mark - 16), layout.digits - 8)
        usual = high[len(high) // 2 :][:1]
        stamp += swar(usual) * _ABOVE
        if not all_digits(usual)[0]:
            good[:] = False
        rows = np.flatnonzero(high != usual)
        if len(rows):
            stamp[rows] += (swar(high[rows]) - swar(usual)) * _ABOVE
            good[rows] = all_digits(low[rows]) & all_digits(high[rows])
    return stamp.view(np.int64), good


# What a digit above the lowest 8 counts.
_ABOVE = np.uint64(100_000_000)
# With so much of the message its forms are found.
_FIRST_BYTES = KEEP[4]
# The only message that begins with another character; what else does may be a prefix of another layout.
_GRAPH = b"[hipGraph] "
_COLOUR_MASK, _COLOUR_WORD = KEEP[len(COLOUR)], np.uint64(int.from_bytes(COLOUR, "little"))
_WORD = np.zeros(256, np.bool_)
_WORD[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")] = True
