"""Lines of a block, and texts in it to small codes by their 64-bit hashes."""

from __future__ import annotations

import numpy as np

from tracecorr.native.library import KERNEL, Bytes, Ints, Words, address, as_ints

# Lines are hardly ever shorter; where they are, they are looked for once more.
_USUAL_LINE_BYTES = 32
_LEAST_PLACES = 64


def find_lines(raw: Bytes, start: int, stop: int) -> tuple[Ints, Ints]:
    """Return start and end (without the newline) of every line between two positions."""
    for room in ((stop - start) // _USUAL_LINE_BYTES + 1, stop - start):
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = KERNEL.find_lines(address(raw), start, stop, room, address(starts), address(ends))
        if count >= 0:
            return starts[:count], ends[:count]
    raise AssertionError("each line has a byte")


class HashTable:
    """Map 64-bit hashes to small codes."""

    def __init__(self) -> None:
        self.keys, self.codes = np.zeros(_LEAST_PLACES, np.uint64), np.zeros(_LEAST_PLACES, np.int64)
        self._count = 0

    @property
    def mask(self) -> int:
        """Return what of a hash names its place."""
        return len(self.keys) - 1

    def add(self, hashes: Words, codes: Ints) -> None:
        """Remember the codes of new hashes."""
        self._count += len(hashes)
        if 4 * self._count > len(self.keys):
            keys, kept = self.keys, self.codes
            used = np.flatnonzero(keys)
            room = 1 << (8 * self._count).bit_length()
            self.keys, self.codes = np.zeros(room, np.uint64), np.zeros(room, np.int64)
            self._put(keys[used], kept[used])
        self._put(np.ascontiguousarray(hashes), as_ints(codes))

    def add_one(self, key: int, code: int) -> None:
        """Remember the code of one hash."""
        self.add(np.array([key], np.uint64), np.array([code], np.int64))

    def _put(self, hashes: Words, codes: Ints) -> None:
        KERNEL.table_add(*self.pointers, len(hashes), address(hashes), address(codes))

    @property
    def pointers(self) -> tuple[int, int, int]:
        """Return the table as compiled functions take it."""
        return address(self.keys), address(self.codes), self.mask

    def find(self, hashes: Words) -> tuple[Ints, bool]:
        """Return the codes of hashes, -1 where they are not known, and whether all are known."""
        found, hashes = np.empty(len(hashes), np.int64), np.ascontiguousarray(hashes)
        unknown = KERNEL.table_find(*self.pointers, len(hashes), address(hashes), address(found))
        return found, unknown == 0


def hash_text(text: bytes) -> int:
    """Return the hash of a text as compiled code makes it."""
    raw, at = np.frombuffer(bytes(64) + text + bytes(64), np.uint8), np.array([64], np.int64)
    return int(hash_spans(raw, at, at + len(text))[0])


def hash_spans(raw: Bytes, at: Ints, end: Ints) -> Words:
    """Return the hash of the text between two positions, of any length; outside of the bytes it is that of no text."""
    at, end, hashes = as_ints(at), as_ints(end), np.empty(len(at), np.uint64)
    KERNEL.hash_spans(address(raw), len(raw), len(at), address(at), address(end), address(hashes))
    return hashes


def code_spans(table: HashTable, raw: Bytes, at: Ints, end: Ints) -> tuple[Ints, Words, bool]:
    """Return codes (-1 = not known) and hashes of the texts between two positions, and whether all are known."""
    at, end = as_ints(at), as_ints(end)
    hashes, codes = np.empty(len(at), np.uint64), np.empty(len(at), np.int64)
    places = address(at), address(end), address(hashes), address(codes)
    unknown = KERNEL.code_spans(*table.pointers, address(raw), len(raw), len(at), *places)
    return codes, hashes, unknown == 0
