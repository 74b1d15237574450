"""Arrays as the compiled functions take them: by address."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


def address(array: Any) -> int:
    """Return where the first element of a contiguous array lies.

    Arrow tells it much sooner than numpy's own `ctypes.data`, and each block asks hundreds of times.
    """
    place: int = pa.py_buffer(array).address
    return place


def as_ints(array: npt.NDArray[Any]) -> Ints:
    """Return an array of any numbers as contiguous 64-bit ones."""
    return np.ascontiguousarray(array, np.int64)


def places_of(column: pa.Array) -> tuple[int, int | None, int]:
    """Return where numbers lie, and the bits that tell which there are, from which bit on."""
    valid, values = column.buffers()
    return values.address + column.type.bit_width // 8 * column.offset, valid.address if valid else None, column.offset


class Scratch:
    """Keep arrays for the next turn: fresh memory costs more than to write to it."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, size: int, dtype: Any) -> npt.NDArray[Any]:
        """Return an array whose content is left from before; zeros at first."""
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.zeros(size + size // 8, dtype)
        return self._held[name][:size]
