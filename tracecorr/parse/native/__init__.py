"""What is done with every line of a log, as compiled loops over arrays of positions (`kernel.c`).

Python learns what lines look like; these functions compare all lines of a block with what was learned, in one pass
each. They see bytes through `Text`'s padding only: a position outside of it fits nothing.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.parse.native.library import CallRowsOf, ClassesOf, DescribedOf, LayoutOf, LinesOf, RowsOf, ShapesOf, load

__all__ = [
    "ASK_RESULT", "FITS", "IS_CUT", "IS_TOLD", "MOST_NUMBERS", "NO_FORM", "NO_FRONT", "CallRowsOf", "ClassesOf",
    "Described", "HashTable", "LayoutOf", "Lines", "Numbers", "Records", "Scanned", "ShapesOf", "address", "code_spans",
    "count_times", "count_units", "count_units_in", "describe_rows", "end_calls", "find_lines", "find_pairs",
    "find_starts", "gather", "gather_texts", "hash_spans", "match_lines", "read_shapes", "scan_lines",
]  # fmt: skip

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

FITS, NO_FRONT, NO_FORM = 0, 1, 2
ASK_RESULT, IS_CUT, IS_TOLD = 1, 2, 4
# A text of a known shape has no more.
MOST_NUMBERS = 64
_LIBRARY = load()
# Lines are hardly ever shorter; where they are, they are looked for once more.
_USUAL_LINE_BYTES = 32
_LEAST_PLACES = 64


# Type of each column of the rows that are joined.
_ROW_COLUMNS = {
    "lane": np.int32, "name": np.int32, "kind": np.int8, "offset": np.int64, "stamp": np.int64, "shared": np.bool_,
    "passed": np.bool_, "is_rocr": np.bool_,
}  # fmt: skip


def address(array: Any) -> int:
    """Return where the first element of a contiguous array lies."""
    place: int = array.ctypes.data
    return place


def _ints(array: npt.NDArray[Any]) -> Ints:
    return np.ascontiguousarray(array, np.int64)


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
        self._put(np.ascontiguousarray(hashes), _ints(codes))

    def _put(self, hashes: Words, codes: Ints) -> None:
        _LIBRARY.table_add(*self.pointers, len(hashes), address(hashes), address(codes))

    @property
    def pointers(self) -> tuple[int, int, int]:
        """Return the table as compiled functions take it."""
        return address(self.keys), address(self.codes), self.mask

    def find(self, hashes: Words) -> tuple[Ints, bool]:
        """Return the codes of hashes, -1 where they are not known, and whether all are known."""
        found, hashes = np.empty(len(hashes), np.int64), np.ascontiguousarray(hashes)
        unknown = _LIBRARY.table_find(*self.pointers, len(hashes), address(hashes), address(found))
        return found, unknown == 0


def hash_spans(raw: Bytes, at: Ints, end: Ints) -> Words:
    """Return the hash of the text between two positions, of any length; outside of the bytes it is that of no text."""
    at, end, hashes = _ints(at), _ints(end), np.empty(len(at), np.uint64)
    _LIBRARY.hash_spans(address(raw), len(raw), len(at), address(at), address(end), address(hashes))
    return hashes


def code_spans(table: HashTable, raw: Bytes, at: Ints, end: Ints) -> tuple[Ints, Words, bool]:
    """Return codes (-1 = not known) and hashes of the texts between two positions, and whether all are known."""
    at, end = _ints(at), _ints(end)
    hashes, codes = np.empty(len(at), np.uint64), np.empty(len(at), np.int64)
    places = address(at), address(end), address(hashes), address(codes)
    unknown = _LIBRARY.code_spans(*table.pointers, address(raw), len(raw), len(at), *places)
    return codes, hashes, unknown == 0


def find_lines(raw: Bytes, start: int, stop: int) -> tuple[Ints, Ints]:
    """Return start and end (without the newline) of every line between two positions."""
    for room in ((stop - start) // _USUAL_LINE_BYTES + 1, stop - start):
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = _LIBRARY.find_lines(address(raw), start, stop, room, address(starts), address(ends))
        if count >= 0:
            return starts[:count], ends[:count]
    raise AssertionError("each line has a byte")


def count_units(raw: Bytes, start: int, stop: int) -> int:
    """Return how often ` us:` stands between two positions."""
    count: int = _LIBRARY.count_units(address(raw), start, stop)
    return count


def count_units_in(raw: Bytes, start: Ints, stop: Ints) -> int:
    """Return how often ` us:` stands in some spans."""
    start, stop = _ints(start), _ints(stop)
    count: int = _LIBRARY.count_units_in(address(raw), len(start), address(start), address(stop))
    return count


def count_times(raw: Bytes, start: Ints, end: Ints) -> Ints:
    """Return how many times (digits before ` us:`) each line holds."""
    start, end, times = _ints(start), _ints(end), np.empty(len(start), np.int64)
    _LIBRARY.count_times(address(raw), len(start), *map(address, (start, end, times)))
    return times


def find_pairs(raw: Bytes, at: Ints, size: int, pair: bytes) -> Ints:
    """Return where two bytes stand first in the `size` bytes from each position; -1 = nowhere."""
    at, places = _ints(at), np.empty(len(at), np.int64)
    _LIBRARY.find_pairs(address(raw), len(raw), len(at), address(at), size, *pair, address(places))
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
    start, end, lines = _ints(start), _ints(end), Lines(len(start))
    if given:
        lines.thread, lines.slot = map(_ints, given)
    to, places = lines.describe(), (address(start), address(end))
    _LIBRARY.match_lines(
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
    """

    start: Ints
    end: Ints
    bare: Ints
    levels: list[int]


def scan_lines(of: LayoutOf, raw: Bytes, start: int, stop: int, room: int) -> tuple[Scanned, Lines] | None:
    """Find the lines between two positions, and tell what they are where they have a layout.

    Args:
        of: the layout.
        raw: the bytes.
        start, stop: from where on, and how far.
        room: how many lines there may be; of more nothing is told.
    """
    lines, (starts, ends, bare), levels = (
        Lines(room),
        (np.empty(room, np.int64) for _ in range(3)),
        np.zeros(11, np.int64),
    )
    to, places = lines.describe(), map(address, (starts, ends, bare, levels))
    within = address(raw), len(raw), start, stop, room
    count = _LIBRARY.scan_lines(ctypes.addressof(of), *within, *places, ctypes.addressof(to))
    if count < 0:
        return None
    return Scanned(starts[:count], ends[:count], bare[:count], levels[:10].tolist()), lines.first(count)


@dataclass
class Numbers:
    """Hold the numbers of texts.

    Args:
        shape: of each text, -1 = none that is known.
        all_known: whether each text has one.
        values: one row per column, one value per text.
        present: which of them the text has.
        counts: how many texts have a value, of each column.
    """

    shape: Ints
    all_known: bool
    values: Words
    present: npt.NDArray[np.bool_]
    counts: list[int]


def read_shapes(of: ShapesOf, raw: Bytes, kind: Ints, at: Ints, size: Ints, column: Ints, columns: int) -> Numbers:
    """Return the shapes and numbers of texts.

    Args:
        of: the shapes.
        raw: the bytes.
        kind, at, size: of the texts.
        column: column of each number of `of`, -1 = it is not wanted.
        columns: how many there are.
    """
    kind, at, size = _ints(kind), _ints(at), _ints(size)
    shape, counts = np.empty(len(at), np.int64), np.zeros(columns, np.int64)
    values, present = np.empty((columns, len(at)), np.uint64), np.zeros((columns, len(at)), np.bool_)
    places = (kind, at, size, column, shape, values, present, counts)
    unknown = _LIBRARY.read_shapes(ctypes.addressof(of), address(raw), len(raw), len(at), *map(address, places))
    return Numbers(shape, unknown == 0, values, present, counts.tolist())


def find_starts(
    raw: Bytes, at: Ints, end: Ints, skips: Ints, which: Ints, texts: list[bytes]
) -> tuple[Ints, Ints, Ints]:
    """Return where one of some texts stands behind each position, which one (-1 = none), and the hits of each trial.

    Args:
        raw: the bytes.
        at, end: positions, and how far the texts behind them reach.
        skips, which: distance and number of a text; they are tried in this order.
        texts: what is looked for.
    """
    at, end, hits = _ints(at), _ints(end), np.zeros_like(which)
    split, found = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
    width = max(map(len, texts), default=1)
    literals = np.frombuffer(b"".join(text.ljust(width) for text in texts) or b"\0", np.uint8)
    sizes = np.array([len(text) for text in texts], np.int64)
    places = (skips, which, sizes, literals)
    _LIBRARY.find_starts(
        address(raw), len(raw), len(at), address(at), address(end), len(which), *map(address, places), width,
        *map(address, (split, found, hits)),
    )  # fmt: skip
    return split, found, hits


class Described:
    """Hold what the codes of records say of their rows, as parallel arrays.

    Args:
        message: index in `MESSAGES`.
        length: bytes of the record.
        kind, layer, name, result, told_us: columns of the row.
        asks: what else is to be read of it, or is special.
    """

    def __init__(self, size: int) -> None:
        self.message, self.length = np.empty(size, np.int64), np.empty(size, np.int64)
        self.kind, self.layer = np.empty(size, np.int8), np.empty(size, np.int8)
        self.name, self.result = np.empty(size, np.int32), np.empty(size, np.int32)
        self.told_us = np.empty(size, np.int64)
        self.asks = np.empty(size, np.uint8)


def describe_rows(
    of: ClassesOf, raw: Bytes, records: tuple[Ints, Ints, Ints], messages: tuple[Ints, Ints], what: Ints
) -> tuple[Described, int]:
    """Return what the codes of records say of their rows, and which `asks` there are.

    Args:
        of: what the codes stand for.
        raw: the bytes.
        records: start of each record, of its message, and its end.
        messages: start and end of each message; those of torn records lie elsewhere.
        what: code of each record.
    """
    described = Described(len(what))
    to = DescribedOf(*map(address, vars(described).values()))
    held = [_ints(array) for array in (*records, *messages, what)]
    places = map(address, held)
    asks: int = _LIBRARY.describe_rows(ctypes.addressof(of), address(raw), len(what), *places, ctypes.addressof(to))
    return described, asks


def end_calls(of: CallRowsOf, rows: Ints) -> tuple[Ints, Ints, Words, npt.NDArray[np.uint16]]:
    """Return of rows that row which is their exit (-1 = none), the same where it ends a span, stream and flags."""
    leave, span = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    stream, flags = np.empty(len(rows), np.uint64), np.empty(len(rows), np.uint16)
    _LIBRARY.end_calls(ctypes.addressof(of), len(rows), *map(address, (rows, leave, span, stream, flags)))
    return leave, span, stream, flags


_GATHERS = {
    (np.dtype(np.int64), np.dtype(np.int64)): _LIBRARY.gather_i64,
    (np.dtype(np.uint64), np.dtype(np.uint64)): _LIBRARY.gather_u64,
    (np.dtype(np.int64), np.dtype(np.uint32)): _LIBRARY.gather_u32,
}


def gather(
    values: npt.NDArray[Any], rows: Ints, dtype: npt.DTypeLike, null: int, via: Ints | None = None
) -> tuple[npt.NDArray[Any], Bytes, int]:
    """Return the values of some rows, a bitmap of those that are not null, and how many are.

    Args:
        values: one per row; 64 bits.
        rows: which; -1 = null.
        dtype: what the values become; those that it cannot hold are null.
        null: the value that stands for null.
        via: of each row the one whose value it takes, -1 = null.
    """
    taken, bits = np.empty(len(rows), dtype), np.zeros(-(-len(rows) // 8), np.uint8)
    taking = _GATHERS[values.dtype, taken.dtype]
    through = None if via is None else address(via)
    nulls = taking(len(rows), address(rows), through, address(values), null, address(taken), address(bits))
    return taken, bits, nulls


def gather_texts(
    codes: npt.NDArray[np.int32], rows: Ints, numbers: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    """Return the numbers of the texts of some rows, a bitmap of those that have one, and how many have none.

    Args:
        codes: of the text of each row, -1 = none.
        rows: which; -1 = none.
        numbers: of each code.

    Returns: -1 as the last one where a text has no number yet.
    """
    taken, bits = np.empty(len(rows), np.int32), np.zeros(-(-len(rows) // 8), np.uint8)
    places = map(address, (rows, codes, numbers, taken, bits))
    return taken, bits, _LIBRARY.gather_texts(len(rows), *places)


class Records:
    """Hold the rows of a block in the order of the file, as the functions take them that join rows.

    Args:
        lane: one per thread.
        name, kind: what each row is.
        offset: byte of the file.
        stamp: ns.
        shared: rows without a thread: their lane may be that of several.
        passed: calls of earlier blocks that enclose nothing in this one.
        is_rocr: rows that ROCr printed.
    """

    def __init__(self, **columns: npt.NDArray[Any]) -> None:
        self.columns: dict[str, npt.NDArray[Any]] = {
            name: np.ascontiguousarray(columns[name], dtype) for name, dtype in _ROW_COLUMNS.items()
        }
        self.count = len(self.columns["lane"])
        self.lanes = int(self.columns["lane"].max(initial=-1)) + 1
        self._of = RowsOf(self.count, self.lanes, *map(address, self.columns.values()))

    def pair_calls(self, is_leaf: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints, Ints]:
        """Join calls that nest.

        Args:
            is_leaf: calls without an exit line: one ends where the next call of its lane begins, if not by an exit.

        Returns:
            Of an enter its exit, of an exit its enter, -1 = open, -2 = it has none; the next call's row of the same
            lane of each call (-1 = none); the calls that are left; enters of joined calls with calls inside.
        """
        partner, following, left, outer, below, place = (np.empty(self.count, np.int64) for _ in range(6))
        counts, (top, last, depth) = np.zeros(2, np.int64), np.empty((3, self.lanes), np.int64)
        places = (is_leaf, partner, following, left, outer, counts, top, last, depth, below, place)
        _LIBRARY.pair_calls(ctypes.addressof(self._of), *map(address, places))
        return partner, following, left[: counts[0]], outer[: counts[1]]

    def nest_calls(self, partner: Ints, wait_bytes: int) -> tuple[Ints, Ints]:
        """Return how many calls enclose each row, and the innermost one (-1 = none).

        A call encloses what follows up to its exit where that is at most `wait_bytes` behind it, else up to the next
        call's line.
        """
        depth, parent, below = (np.empty(self.count, np.int64) for _ in range(3))
        top, last, opened = np.empty((3, self.lanes), np.int64)
        places = (depth, parent, top, last, opened, below)
        _LIBRARY.nest_calls(ctypes.addressof(self._of), address(partner), wait_bytes, *map(address, places))
        return depth, parent

    def fold(self, is_dispatch: npt.NDArray[np.bool_], kernel: npt.NDArray[np.int32]) -> tuple[Ints, Ints, Ints, Bytes]:
        """Return names and argument sizes of dispatches, commands of packets and copies (-1 = none), and what waits.

        Args:
            is_dispatch: HIP's dispatches.
            kernel: of rows that name one; -1 = its name is not known.
        """
        shader, kernarg, command = (np.empty(self.count, np.int64) for _ in range(3))
        waiting, calls, seen = (
            np.empty(self.count, np.uint8),
            np.empty(self.lanes, np.int64),
            np.empty((self.lanes, 6), np.int64),
        )
        places = (is_dispatch, kernel, shader, kernarg, command, waiting, calls, seen)
        _LIBRARY.fold_rows(ctypes.addressof(self._of), *map(address, places))
        return shader, kernarg, command, waiting
