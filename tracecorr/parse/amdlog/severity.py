"""Errors and warnings of the runtime: records whose level says so, with their whole message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.model.kinds import LOG_LEVEL, LOG_MESSAGE, WORST_LEVELS
from tracecorr.parse.amdlog.frames import Args
from tracecorr.parse.digits import Ints, Words
from tracecorr.parse.text import Text

_COLON, _ZERO = ord(":"), ord("0")


@dataclass
class Complaints:
    """Hold which rows are errors or warnings, and the level that printed each."""

    rows: Ints
    levels: Words


def find_complaints(text: Text, start: Ints) -> Complaints:
    """Return the records that were printed as errors or warnings: they begin with `:LEVEL:`, the level a digit.

    Args:
        text: holds the records.
        start: where each of them begins.
    """
    levels = text.bytes[start + 1] - np.uint8(_ZERO)
    rows = np.flatnonzero(levels <= max(WORST_LEVELS))
    rows = rows[(text.bytes[start[rows]] == _COLON) & (text.bytes[start[rows] + 2] == _COLON)]
    return Complaints(rows, levels[rows].astype(np.uint64))


def add_complaints(args: Args, complaints: Complaints, text: Text, offset: Ints, at: Ints, end: Ints) -> None:
    """Add the level and the whole message of errors and warnings to `args`: a row's name is short, without numbers.

    Args:
        args: takes the fields.
        complaints: the rows.
        text: holds the messages of all rows.
        offset: of each row in the file.
        at, end: where its message lies in the text.
    """
    args.add(LOG_LEVEL, offset[complaints.rows], complaints.levels)
    for row in complaints.rows.tolist():
        args.add_text(LOG_MESSAGE, int(offset[row]), text.read(int(at[row]), int(end[row])).strip())
