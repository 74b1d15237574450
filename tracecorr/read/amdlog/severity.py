"""Errors and warnings of the runtime: records whose level says so, with their whole message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.model.kinds import LOG_LEVEL, LOG_MESSAGE
from tracecorr.read.amdlog.frames import Args
from tracecorr.read.digits import Ints, Words
from tracecorr.read.text import Text


@dataclass
class Complaints:
    """Hold which rows are errors or warnings, and the level that printed each."""

    rows: Ints
    levels: Words


def complaints_of(text: Text, start: Ints, rows: Ints) -> Complaints:
    """Return the records that were printed as errors or warnings, with their levels.

    Args:
        text: holds the records.
        start: where each of them begins, with `:LEVEL:`, the level a digit.
        rows: of errors and warnings.
    """
    return Complaints(rows, (text.bytes[start[rows] + 1] - np.uint8(ord("0"))).astype(np.uint64))


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
