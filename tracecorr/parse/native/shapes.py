"""Texts of known shapes, and what lines have in common but for their numbers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracecorr.parse.native.arrays import Bytes, Ints, Words, address, as_ints
from tracecorr.parse.native.library import KERNEL, ShapesOf

# A text of a known shape has no more.
MOST_NUMBERS = 64


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
    kind, at, size = as_ints(kind), as_ints(at), as_ints(size)
    shape, counts = np.empty(len(at), np.int64), np.zeros(columns, np.int64)
    values, present = np.empty((columns, len(at)), np.uint64), np.zeros((columns, len(at)), np.bool_)
    places = (kind, at, size, column, shape, values, present, counts)
    unknown = KERNEL.read_shapes(ctypes.addressof(of), address(raw), len(raw), len(at), *map(address, places))
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
    at, end, hits = as_ints(at), as_ints(end), np.zeros_like(which)
    split, found = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
    width = max(map(len, texts), default=1)
    literals = np.frombuffer(b"".join(text.ljust(width) for text in texts) or b"\0", np.uint8)
    sizes = np.array([len(text) for text in texts], np.int64)
    places = (skips, which, sizes, literals)
    KERNEL.find_starts(
        address(raw), len(raw), len(at), address(at), address(end), len(which), *map(address, places), width,
        *map(address, (split, found, hits)),
    )  # fmt: skip
    return split, found, hits
