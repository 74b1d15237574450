"""Records that lack their ends: where the file ends in one, or holds NULs in the place of bytes.

A file system that had written the length of a file, but not yet its bytes, shows NULs after a crash.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import BEHIND_NULS, NUL_BYTES
from tracecorr.read.amdlog.line_edges import NEWLINE
from tracecorr.read.amdlog.records_found import Split
from tracecorr.read.amdlog.rows import Rows
from tracecorr.read.amdlog.wholeness import is_ended
from tracecorr.read.amdlog.wraps import without_cut_number
from tracecorr.read.digits import Ints
from tracecorr.read.text import Text

_HOLE = re.compile(rb"\0+")
# A program may print single NULs, but hardly so many; in a record none can be.
_LEAST_HOLE = bytes(64)
# So many pieces are looked at sooner by looking at the whole block first.
_MANY_PIECES = 10_000
_LARGE_HOLE = re.compile(_LEAST_HOLE + rb"\0*")
# What a piece of a line may be that begins like a record and ends with the file.
_BEGUN = re.compile(rb" *:(?:\d(?::.*)?)?", re.DOTALL)


def open_last(text: Text, split: Split) -> None:
    """Take what is sure of the message of a record that the text ends in: its last number may go on in lost bytes."""
    last = len(split.start) - 1
    message = split.messages.get(last, text.slice(int(split.message[last]), int(split.end[last])))
    if split.end[last] == text.stop and not is_ended(message):
        _cut(split, last, message)
        split.is_cut = True


def is_begun(piece: bytes) -> bool:
    """Tell whether a piece of a line, with which the file ends, is the beginning of a record."""
    return bool(_BEGUN.fullmatch(piece))


def open_at_holes(text: Text, split: Split) -> None:
    """Take what is sure of the messages of records with NULs in them: what stands behind these is of another line."""
    places = np.array([hole.start() for hole in _HOLE.finditer(text.raw, text.start, text.stop)], np.int64)
    found = np.searchsorted(split.start, places, side="right") - 1
    records, first = np.unique(found, return_index=True)
    for record, place in zip(records.tolist(), places[first].tolist(), strict=True):
        if record >= 0 and place < split.end[record]:
            _cut(split, record, text.slice(int(split.message[record]), place))
            _book_hole(text, split, record, place)


def _book_hole(text: Text, split: Split, record: int, place: int) -> None:
    """Book the rest of a record's line, from its first NUL on, as what it is."""
    line_end = text.raw.find(b"\n", place, text.stop) + 1 or text.stop
    stop = min(line_end, int(split.start[record + 1])) if record + 1 < len(split.start) else line_end
    rest = text.bytes[place:stop]
    holes = int(np.count_nonzero(rest == 0))
    behind = len(rest) - holes
    if behind == 1 and rest[-1] == NEWLINE:
        holes, behind = len(rest), 0
    split.used = split.used[0], split.used[1] - len(rest)
    split.skip(NUL_BYTES, 1, holes)
    split.skip(BEHIND_NULS, int(behind > 0), behind)


def list_holes(text: Text, base: int, rows: Rows) -> pl.DataFrame:
    """Return the large holes of a block as rows of `LOSSES`: each from the record before it to the one behind.

    Args:
        text: the block, whose first byte has offset `base` in the file.
        rows: its records. Of a hole before the first one, or behind the last one, nothing is told.
    """
    holes = [hole.start() - text.start + base for hole in _LARGE_HOLE.finditer(text.raw, text.start, text.stop)]
    # ROCr's own lines show another clock.
    own = np.flatnonzero(~rows["is_rocr"])
    behind = np.searchsorted(rows["offset"][own], holes)
    behind = behind[(behind > 0) & (behind < len(own))]
    before, after = (rows["stamp"][own[place]] for place in (behind - 1, behind))
    found = {"source": "amd_log", "from_ns": before, "to_ns": np.maximum(before, after)}
    return schema.LOSSES.conform(pl.DataFrame(found))


def measure_holes(text: Text, start: Ints, end: Ints) -> Ints:
    """Return the bytes of large holes in pieces of lines that are no records."""
    sizes = np.zeros(len(start), np.int64)
    if len(start) > _MANY_PIECES and text.raw.find(_LEAST_HOLE, text.start, text.stop) < 0:
        return sizes
    for i, (first, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if text.raw.find(_LEAST_HOLE, first, stop) >= 0:
            sizes[i] = sum(hole.end() - hole.start() for hole in _LARGE_HOLE.finditer(text.raw, first, stop))
    return sizes


def _cut(split: Split, record: int, message: bytes) -> None:
    """Give a record what is left of its message, of which the last number may be cut."""
    split.torn[record], split.messages[record] = True, without_cut_number(message)
    split.whole.discard(record)
