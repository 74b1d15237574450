"""Where the text of a line begins and ends: without blanks, colours and carriage returns."""

from __future__ import annotations

import numpy as np

from tracecorr.read.digits import Ints
from tracecorr.read.text import Text

NEWLINE, _RETURN = 10, 13
# So many blanks are skipped at once.
MOST_BLANKS = 64


def without_return(text: Text, end: Ints) -> Ints:
    """Return the ends of lines without the carriage return that some end with."""
    has_return = text.bytes[end - 1] == _RETURN
    return end - has_return if has_return.any() else end


def skip_blanks(text: Text, at: Ints, end: Ints, blanks: bytes) -> Ints:
    """Return the places behind what blanks stand there, `MOST_BLANKS` at most.

    Args:
        text: the block.
        at, end: from where on, and how far.
        blanks: what counts as one.
    """
    is_blank = np.zeros(256, np.bool_)
    is_blank[list(blanks)] = True
    for _ in range(MOST_BLANKS):
        more = is_blank[text.bytes[at]] & (at < end)
        if not more.any():
            break
        at = at + more
    return at


def skip_colour(text: Text, at: Ints, end: Ints) -> Ints:
    """Return the places behind an escape sequence that sets a colour, and the spaces behind it."""
    first = text.bytes[at]
    for escape in (b"\x1b[", b"^[[", "\u2190[".encode()):
        rows = np.flatnonzero(first == escape[0])
        rows = rows[text.starts_with(at[rows], escape)]
        if len(rows):
            stop, _ = text.token(at[rows], b"m", 8)
            at = at.copy()
            at[rows] = stop + 1
    return skip_blanks(text, np.minimum(at, end), end, b" ")
