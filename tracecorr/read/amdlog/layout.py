"""Lines whose prefix looks like one that was read before: time, thread and message at known places.

A prefix is `:level:file:line: TIME us: THREAD ` and then the message, which may begin with a
colour. Releases, log levels and hosts differ in the widths, but hardly ever does a log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.read.amdlog.classify import Classifier
from tracecorr.read.amdlog.forms import COLOUR, FORM_BYTES, Forms, site_of, slots
from tracecorr.read.digits import Ints, Mask, Words
from tracecorr.read.text import Codes, Text

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


# Of lines where none is known only the ends are looked for.
_NO_LAYOUT = Layout(16, 8, 1)


class Layouts:
    """Remember the layouts seen, and the fronts of lines.

    A front is all that stands before the message but the time, and the first bytes of the message: it tells the
    thread, and which forms the message may have.
    """

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._forms = Forms()
        self._known: list[Layout] = []
        # Of each text between time and message its thread; of each site whether it is one.
        self._gaps = native.HashTable()
        self._sites = Codes(lambda text: text if _SITE.fullmatch(text) else None)
        self._no_site = self._sites.code_of(None)
        self._fronts = native.HashTable()
        # Of each front its thread, and the slot of its forms.
        self._thread_of, self._slot_of = np.zeros((2, 0), np.int64)

    def scan(self, text: Text, room: int) -> tuple[native.Scanned, Matched] | None:
        """Return the lines of a block, and those of them that fit a layout; None where there are more than `room`."""
        most = self._known[0] if self._known else _NO_LAYOUT
        found = native.scan_lines(self._describe(most), text.bytes, text.start, text.stop, room)
        if found is None:
            return None
        scanned, lines = found
        start, end = scanned.start, scanned.bare
        if most is _NO_LAYOUT:
            return scanned, self.match(text, start, end)
        fits, matched = self._complete(text, start, end, most, lines)
        if fits.all():
            return scanned, matched
        return scanned, self._match_with(text, start, end, np.flatnonzero(~fits), [matched])

    def match(self, text: Text, start: Ints, end: Ints) -> Matched:
        """Return the lines that fit a known layout; the most frequent layout is tried first.

        Args:
            text: holds the lines.
            start, end: of the lines, without a carriage return.
        """
        return self._match_with(text, start, end, np.arange(len(start)), [])

    def _match_with(self, text: Text, start: Ints, end: Ints, left: Ints, parts: list[Matched]) -> Matched:
        """Return what fits a layout of the lines `left`, with what fitted the first layouts."""
        found = [(len(part.line), layout) for part, layout in zip(parts, self._known, strict=False)]
        for layout in self._known[len(parts) :]:
            if len(left) == 0:
                break
            lines = self._match_lines(text, start[left], end[left], layout)
            fits, matched = self._complete(text, start[left], end[left], layout, lines)
            matched.line = left[matched.line]
            found.append((len(matched.line), layout))
            parts.append(matched)
            left = left[~fits]
        order = [layout for _, layout in sorted(found, key=lambda item: -item[0])]
        self._known = order + [layout for layout in self._known if layout not in order]
        return _join(parts)

    def _complete(
        self, text: Text, start: Ints, end: Ints, layout: Layout, lines: native.Lines
    ) -> tuple[Mask, Matched]:
        """Learn the fronts and forms of lines that are not known; return which lines fit the layout, and these."""
        self._match_new_fronts(text, start, end, layout, lines)
        fits = lines.status == native.FITS
        rows = np.flatnonzero(lines.status == native.NO_FORM)
        if len(rows):
            at = lines.message[rows]
            skip = len(COLOUR) * text.starts_with(at, COLOUR)
            is_word = _WORD[text.bytes[at + skip]]
            is_word |= text.starts_with(at, _GRAPH) & (at + len(_GRAPH) <= end[rows])
            rows, at, skip = rows[is_word], at[is_word], skip[is_word]
            lines.what[rows] = self._look(text, at, end[rows], skip, site_of(lines.slot[rows]))
            lines.message[rows], fits[rows] = at + skip, True
        columns = np.arange(len(start)), lines.time, lines.thread, lines.message, lines.what
        return fits, Matched(*(columns if fits.all() else native.keep_rows(fits, *columns)))

    def _describe(self, layout: Layout) -> native.LayoutOf:
        of = native.LayoutOf(layout.mark, layout.digits, layout.gap, *self._fronts.pointers)
        of.threads, of.slots = native.address(self._thread_of), native.address(self._slot_of)
        self._forms.describe(of)
        return of

    def _match_lines(
        self, text: Text, start: Ints, end: Ints, layout: Layout, given: tuple[Ints, Ints] | None = None
    ) -> native.Lines:
        return native.match_lines(self._describe(layout), text.bytes, start, end, given)

    def _match_new_fronts(self, text: Text, start: Ints, end: Ints, layout: Layout, lines: native.Lines) -> None:
        """Read the lines whose fronts are not known, but their thread and site are, and remember their fronts."""
        rows = np.flatnonzero(lines.status == native.NO_FRONT)
        if len(rows) == 0:
            return
        mark = start[rows] + layout.mark
        thread, _ = self._gaps.find(native.hash_spans(text.bytes, mark, mark + layout.gap))
        rows, mark, thread = rows[thread >= 0], mark[thread >= 0], thread[thread >= 0]
        site = self._sites.encode(text, start[rows], mark - layout.digits)
        is_site = site != self._no_site
        rows, mark, thread, site = rows[is_site], mark[is_site], thread[is_site], site[is_site]
        if len(rows) == 0:
            return
        slot = slots(site, text.word(mark + layout.gap))
        self._remember_fronts(lines.front[rows], thread, slot)
        found = self._match_lines(text, start[rows], end[rows], layout, (thread, slot))
        for name, values in vars(found).items():
            if name != "front":
                vars(lines)[name][rows] = values

    def _remember_fronts(self, hashes: Words, thread: Ints, slot: Ints) -> None:
        new, first = np.unique(hashes, return_index=True)
        count = len(self._thread_of)
        if count + len(new) <= _MOST_FRONTS:
            self._fronts.add(new, np.arange(count, count + len(new)))
            self._thread_of = np.append(self._thread_of, thread[first])
            self._slot_of = np.append(self._slot_of, slot[first])

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
        rows, thread, start = rows[good], thread[good], start[good]
        # Each number is at most `_HEAD_BYTES`.
        _, first, place = np.unique(rows @ _APART, return_index=True, return_inverse=True)
        for i, (before, digits, gap) in enumerate(rows[first].tolist()):
            layout = Layout(before, digits, gap)
            if layout not in self._known:
                if len(self._known) == _MOST_LAYOUTS:
                    continue
                self._known.append(layout)
            own = np.flatnonzero(place.reshape(-1) == i)
            behind = start[own] + layout.mark
            hashes, first = np.unique(native.hash_spans(text.bytes, behind, behind + gap), return_index=True)
            new = self._gaps.find(hashes)[0] < 0
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


_APART = np.array([1 << 16, 1 << 8, 1])
# The only message that begins with another character; what else does may be a prefix of another layout.
_GRAPH = b"[hipGraph] "
_WORD = np.zeros(256, np.bool_)
_WORD[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")] = True
