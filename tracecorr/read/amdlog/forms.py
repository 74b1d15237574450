"""What the messages of a place in the source begin with, and what such a record is then.

A site (level, file and line) prints one text or few. A form is a text that a site printed before: as
far as it decides what the message is, and nothing else. It is compared word by word with the bytes of
a line; only messages that begin otherwise are looked at in full (`classify.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr import native
from tracecorr.read.digits import KEEP, Ints, Words

COLOUR = b"\x1b[32m "
# Bytes of a message (with its colour) that are compared at most.
FORM_BYTES = native.LITERAL_BYTES
_MOST_FORMS, _MOST_OF_A_SLOT = 4096, 8
# The forms of a site are kept in so many slots, by a hash of the first 4 bytes.
_SLOTS, _FACTOR, _SHIFT = 64, np.uint64(0x9E3779B1), np.uint64(26)


@dataclass(frozen=True)
class Form:
    """Name a text that messages begin with, and what they are.

    Args:
        site: code of the level, file and line that print it.
        literal: the text, with the colour before it.
        what: what the message is, a code of `Classifier`.
        skip: bytes of the colour.
    """

    site: int
    literal: bytes
    what: int
    skip: int


class Forms:
    """Remember the forms seen, by site."""

    def __init__(self) -> None:
        self._known: set[Form] = set()
        # The form of number 0 fits nothing, and is the last one of every slot.
        self._forms = [Form(-1, b"", -1, 0)]
        self._following = [0]
        self._first: dict[int, int] = {}
        self._in_slot: dict[int, int] = {}
        self._lay_out()

    def describe(self, of: native.LayoutOf) -> None:
        """Tell `match_lines` what the forms are."""
        of.slot_count, of.first_of = len(self._first_of), native.address(self._first_of)
        of.following, of.sizes = native.address(self._following_of), native.address(self._sizes)
        of.whats, of.skips = native.address(self._what), native.address(self._skip)
        of.literals = native.address(self._literals)

    def learn(self, forms: list[Form]) -> None:
        """Remember forms; those that are too short, too long or too many are left out."""
        before = len(self._forms)
        for form in forms:
            size = len(form.literal)
            if form in self._known or not 4 <= size <= FORM_BYTES or len(self._forms) == _MOST_FORMS:
                continue
            first = np.frombuffer(form.literal[:8].ljust(8), np.uint64)
            slot = int(slots(np.array([form.site]), first)[0])
            if self._in_slot.get(slot, 0) < _MOST_OF_A_SLOT:
                self._known.add(form)
                self._in_slot[slot] = self._in_slot.get(slot, 0) + 1
                self._following.append(self._first.get(slot, 0))
                self._first[slot] = len(self._forms)
                self._forms.append(form)
        if len(self._forms) > before:
            self._lay_out()

    def _lay_out(self) -> None:
        self._what = np.array([form.what for form in self._forms], np.int64)
        self._skip = np.array([form.skip for form in self._forms], np.int64)
        self._sizes = np.array([len(form.literal) for form in self._forms], np.int64)
        self._literals = np.frombuffer(b"".join(form.literal.ljust(FORM_BYTES) for form in self._forms), np.uint8)
        self._following_of = np.array(self._following, np.int64)
        # Slots behind the last one have no form.
        self._first_of = np.zeros(max(self._first, default=-1) + 2, np.int64)
        self._first_of[list(self._first)] = list(self._first.values())


def slots(site: Ints, first: Words) -> Ints:
    """Return where the forms of sites are found whose messages begin with these words: with their first 4 bytes."""
    hashes = ((first & _FIRST_BYTES) * _FACTOR & _FIRST_BYTES) >> _SHIFT
    found: Ints = hashes.view(np.int64) + site * _SLOTS
    return found


def site_of(slot: Ints) -> Ints:
    """Return the site of slots."""
    return slot // _SLOTS


_FIRST_BYTES = KEEP[4]
