"""The messages of a batch of blocks that are read further, close together in one text.

Numbers are read from many messages at once. A block alone holds too few of some kinds, and a text
of many whole blocks would not fit into the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.parse.digits import Ints
from tracecorr.parse.text import PAD, Text

# Bytes that a message takes in the excerpt; longer ones are copied one by one.
_WIDTHS = np.array([64, 128, 192, 256, 384, 512, 704, 960])


@dataclass
class Excerpt:
    """Hold messages of one block: their bytes, and where each one begins and ends in them."""

    parts: list[bytes]
    size: int
    at: Ints
    end: Ints

    @classmethod
    def of(cls, text: Text, at: Ints, end: Ints, whole: dict[int, bytes]) -> Excerpt:
        """Copy messages out of a block; those in `whole` (torn records put together) are taken from there."""
        # With the byte behind it (the line end): a number must not go on in the next message.
        length = end - at + 1
        width = np.searchsorted(_WIDTHS, length)
        for row, message in whole.items():
            length[row], width[row] = len(message) + 1, len(_WIDTHS)
        place = np.zeros(len(at), np.int64)
        parts: list[bytes] = []
        size = 0
        for i in np.flatnonzero(np.bincount(width)).tolist():
            rows = np.flatnonzero(width == i)
            if i < len(_WIDTHS):
                step = int(_WIDTHS[i])
                parts.append(text.heads(at[rows], step).tobytes())
                place[rows] = size + np.arange(len(rows)) * step
            else:
                ends = np.cumsum(length[rows])
                parts += [
                    whole[row] + b"\n" if row in whole else text.slice(int(at[row]), int(end[row]) + 1)
                    for row in rows.tolist()
                ]
                place[rows] = size + ends - length[rows]
            size += len(rows) * int(_WIDTHS[i]) if i < len(_WIDTHS) else int(ends[-1])
        return cls(parts, size, place, place + length - 1)


def join_excerpts(excerpts: list[Excerpt]) -> tuple[Text, Ints, Ints]:
    """Return one text with the messages of all blocks, and where each of them begins and ends."""
    before = np.cumsum([PAD, *(excerpt.size for excerpt in excerpts)]).tolist()
    none = np.zeros(0, np.int64)
    at = np.concatenate([none, *(e.at + b for e, b in zip(excerpts, before, strict=False))])
    end = np.concatenate([none, *(e.end + b for e, b in zip(excerpts, before, strict=False))])
    return Text(b"".join([part for excerpt in excerpts for part in excerpt.parts])), at, end
