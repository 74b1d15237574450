"""Lines of a block: where they are, and which of them begin like others before them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from tracecorr.native.arrays import Bytes, Ints, address, as_ints
from tracecorr.native.library import KERNEL, LayoutOf, LinesOf

FITS, NO_FRONT, NO_FORM = 0, 1, 2
# Of a form as many bytes are compared at most.
LITERAL_BYTES = 64
# Lines are hardly ever shorter; where they are, they are looked for once more.
_USUAL_LINE_BYTES = 32


def find_lines(raw: Bytes, start: int, stop: int) -> tuple[Ints, Ints]:
    """Return start and end (without the newline) of every line between two positions."""
    for room in ((stop - start) // _USUAL_LINE_BYTES + 1, stop - start):
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = KERNEL.find_lines(address(raw), start, stop, room, address(starts), address(ends))
        if count >= 0:
            return starts[:count], ends[:count]
    raise AssertionError("each line has a byte")


def count_units_in(raw: Bytes, start: Ints, stop: Ints) -> int:
    """Return how often ` us:` stands in some spans."""
    start, stop = as_ints(start), as_ints(stop)
    count: int = KERNEL.count_units_in(address(raw), len(start), address(start), address(stop))
    return count


def count_times(raw: Bytes, start: Ints, end: Ints) -> Ints:
    """Return how many times (digits before ` us:`) each line holds."""
    start, end, times = as_ints(start), as_ints(end), np.empty(len(start), np.int64)
    KERNEL.count_times(address(raw), len(start), *map(address, (start, end, times)))
    return times


def find_pairs(raw: Bytes, at: Ints, end: Ints, most: int, pair: bytes) -> Ints:
    """Return where two bytes stand first in the texts between two positions; -1 = not in their first `most` bytes."""
    at, end, places = as_ints(at), as_ints(end), np.empty(len(at), np.int64)
    KERNEL.find_pairs(address(raw), len(raw), len(at), address(at), address(end), most, *pair, address(places))
    return places


class Lines:
    """Hold what `match_lines` tells of each line, as parallel arrays.

    Args:
        status: `FITS`, `NO_FRONT` (what stands before the message is not known), `NO_FORM` (the message is not), or
            another number where no time stands at its place.
        front: hash of what stands before the message but the time, and of the first bytes of the message; only where it
            is not known.
        thread, time: of lines whose front is known and that have a time.
        slot: where the forms of the message are; only where it has none of them.
        message: its first byte, behind its colour where it has a form.
        what: what a message that has a form is.
    """

    def __init__(self, size: int) -> None:
        self.status, self.front = np.empty(size, np.uint8), np.empty(size, np.uint64)
        self.thread, self.slot, self.time, self.message, self.what = (np.empty(size, np.int64) for _ in range(5))

    def describe(self) -> LinesOf:
        """Return where the columns are."""
        return LinesOf(*map(address, vars(self).values()))

    def first(self, count: int) -> Lines:
        """Return the first lines."""
        lines = Lines(0)
        for name, column in vars(self).items():
            setattr(lines, name, column[:count])
        return lines


def match_lines(of: LayoutOf, raw: Bytes, start: Ints, end: Ints, given: tuple[Ints, Ints] | None = None) -> Lines:
    """Return what lines are that may have a layout; `given` are their threads and slots, where these are known."""
    start, end, lines = as_ints(start), as_ints(end), Lines(len(start))
    if given:
        lines.thread, lines.slot = map(as_ints, given)
    to, places = lines.describe(), (address(start), address(end))
    KERNEL.match_lines(
        ctypes.addressof(of), address(raw), len(raw), len(start), *places, given is not None, ctypes.addressof(to)
    )
    return lines


@dataclass
class Scanned:
    """Hold the lines of a block.

    Args:
        start, end: of each line; its end is before the newline.
        bare: its end before a carriage return.
        levels: how many lines begin with `:0:`, `:1:` and so on.
        units: how often ` us:` stands in it.
        has_holes: whether NULs do.
    """

    start: Ints
    end: Ints
    bare: Ints
    levels: list[int]
    units: int
    has_holes: bool


def scan_lines(of: LayoutOf, raw: Bytes, start: int, stop: int, room: int) -> tuple[Scanned, Lines] | None:
    """Find the lines between two positions, and tell what they are where they have a layout.

    Args:
        of: the layout.
        raw: the bytes.
        start, stop: from where on, and how far.
        room: how many lines there may be; of more nothing is told.
    """
    # Of lines that begin with a level, with none, of times and NULs.
    lines, counts = Lines(room), np.zeros(13, np.int64)
    starts, ends, bare = (np.empty(room, np.int64) for _ in range(3))
    to, places = lines.describe(), map(address, (starts, ends, bare, counts))
    within = address(raw), len(raw), start, stop, room
    count = KERNEL.scan_lines(ctypes.addressof(of), *within, *places, ctypes.addressof(to))
    if count < 0:
        return None
    told: list[int] = counts.tolist()
    scanned = Scanned(starts[:count], ends[:count], bare[:count], told[:10], told[11], told[12] > 0)
    return scanned, lines.first(count)
