"""Records that lack their ends: where the file ends in one, or holds NULs in the place of bytes.

A file system that had written the length of a file, but not yet its bytes, shows NULs after a crash.
"""

from __future__ import annotations

import re

import numpy as np

from tracecorr.parse.amdlog.records_found import Split
from tracecorr.parse.amdlog.wholeness import is_ended
from tracecorr.parse.amdlog.wraps import without_cut_number
from tracecorr.parse.text import Text

_HOLE = re.compile(rb"\0+")


def open_last(text: Text, split: Split) -> None:
    """Take what is sure of the message of a record that the text ends in: its last number may go on in lost bytes."""
    last = len(split.start) - 1
    message = split.messages.get(last, text.slice(int(split.message[last]), int(split.end[last])))
    if split.end[last] == text.stop and not is_ended(message):
        _cut(split, last, message)


def open_at_holes(text: Text, split: Split) -> None:
    """Take what is sure of the messages of records with NULs in them: what stands behind these is of another line."""
    places = np.array([hole.start() for hole in _HOLE.finditer(text.raw, text.start, text.stop)], np.int64)
    found = np.searchsorted(split.start, places, side="right") - 1
    records, first = np.unique(found, return_index=True)
    for record, place in zip(records.tolist(), places[first].tolist(), strict=True):
        if record >= 0 and place < split.end[record]:
            _cut(split, record, text.slice(int(split.message[record]), place))


def _cut(split: Split, record: int, message: bytes) -> None:
    """Give a record what is left of its message, of which the last number may be cut."""
    split.torn[record], split.messages[record] = True, without_cut_number(message)
    split.whole.discard(record)
