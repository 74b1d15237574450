"""Texts of known shapes, and what lines have in common but for their numbers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracecorr.native.arrays import Bytes, Ints, Words, address, as_ints
from tracecorr.native.library import KERNEL, ShapesOf

Masks = npt.NDArray[np.bool_]
# A text of a known shape has no more.
MOST_NUMBERS = 64


@dataclass(frozen=True)
class Texts:
    """Name texts of some bytes.

    Args:
        raw: the bytes.
        kind: what each text is read as.
        at, size: where it is.
    """

    raw: Bytes
    kind: Ints
    at: Ints
    size: Ints


def list_numbers(of: ShapesOf, texts: Texts, column: Ints, columns: int) -> tuple[Ints, int, list[tuple[Ints, Words]]]:
    """Return the shape of each text (-1 = not known), how many have none, and the numbers of each column.

    Args:
        of: the shapes.
        texts: what is read.
        column: of each number of `of`, -1 = it is not wanted.
        columns: how many there are.

    Returns: as numbers of a column the texts that have one, and the numbers.
    """
    room, counts = (columns, len(texts.at)), np.zeros(columns, np.int64)
    rows, values = np.empty(room, np.int64), np.empty(room, np.uint64)
    shape, unknown = _read(of, texts, column, address(values), None, address(rows), address(counts))
    return shape, unknown, [(rows[i, :count], values[i, :count]) for i, count in enumerate(counts.tolist())]


def fill_numbers(of: ShapesOf, texts: Texts, column: Ints, columns: int) -> tuple[Ints, int, Words, Masks]:
    """Return the same, but the numbers as a row of one per text for each column, zero where a text has none.

    Returns: shapes and how many texts have none; the numbers; which of them are present.
    """
    values, present = np.zeros((columns, len(texts.at)), np.uint64), np.zeros((columns, len(texts.at)), np.bool_)
    return *_read(of, texts, column, address(values), address(present), None, None), values, present


def _read(of: ShapesOf, texts: Texts, column: Ints, *to: int | None) -> tuple[Ints, int]:
    kind, at, size = as_ints(texts.kind), as_ints(texts.at), as_ints(texts.size)
    shape = np.empty(len(at), np.int64)
    places = map(address, (kind, at, size, column, shape))
    unknown = KERNEL.read_shapes(ctypes.addressof(of), address(texts.raw), len(texts.raw), len(at), *places, *to)
    return shape, unknown


def spread_fields(codes: Ints, values: Words, present: Masks) -> tuple[Words, Masks]:
    """Return the values that rows have by their codes (-1 = none), and which are present: one row per field.

    Args:
        codes: of the rows.
        values, present: one row per field, one place per code; there may be more places than codes.
    """
    fields, rooms = values.shape
    spread, has = np.zeros((fields, len(codes)), np.uint64), np.zeros((fields, len(codes)), np.bool_)
    places = map(address, (values, present, spread, has))
    KERNEL.spread_fields(len(codes), address(codes), fields, rooms, *places)
    return spread, has


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
