"""Protobuf records in bulk: each kind of record has one width, so that numpy writes all of them at once.

A varint may be longer than it must be (leading groups of zero bits); readers accept that, protozero writes such
lengths itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
VARINT, FIXED64, LENGTH = 0, 1, 2


def encode_varints(values: npt.NDArray[Any], width: int) -> Bytes:
    """Return each value as a varint of exactly `width` bytes (10 hold any 64 bits), shape (n, width)."""
    rest = values.astype(np.uint64)
    encoded = np.empty((len(rest), width), dtype=np.uint8)
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        encoded[:, place] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        rest = rest >> np.uint64(7)
    return encoded


def encode_fixed64(values: npt.NDArray[Any]) -> Bytes:
    """Return each 64 bit value as 8 little-endian bytes, shape (n, 8)."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), 8)


def encode_tag(message: Any, field: str, kind: int) -> Bytes:
    """Return the tag of a field of a message class, as its descriptor numbers it, shape (1, 1 or 2 or 3)."""
    key = message.DESCRIPTOR.fields_by_name[field].number << 3 | kind
    width = 1 if key < 1 << 7 else 2 if key < 1 << 14 else 3
    return encode_varints(np.array([key]), width)


def join_columns(count: int, *columns: Bytes) -> Bytes:
    """Return records made of columns; a column of one row is repeated, shape (count, sum of widths)."""
    return np.hstack([np.broadcast_to(c, (count, c.shape[1])) for c in columns])


def scatter(out: Bytes, offsets: npt.NDArray[np.int64], records: Bytes) -> None:
    """Write each record at its offset."""
    if len(records):
        out[offsets[:, None] + np.arange(records.shape[1])] = records
