"""Columns of categories: their codes to numbers that do not depend on what else the process has seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.native.arrays import address, places_of
from tracecorr.native.library import KERNEL

_BYTE_BITS = 8


def number_codes(codes: pa.UInt32Array, most: int) -> tuple[pa.Int32Array, npt.NDArray[np.uint32]]:
    """Return the codes numbered in the order of their first rows, null where they are, and the code of each number.

    Args:
        codes: a column in one piece.
        most: the highest one.
    """
    count, valid, (place, bits, first_bit) = len(codes), codes.buffers()[0], places_of(codes)
    # The bits that tell what is null are taken as they are: they begin within a byte, and the numbers with as many that
    # nobody reads.
    skipped = codes.offset % _BYTE_BITS if valid else 0
    numbers, listed = np.empty(skipped + count, np.int32), np.empty(most + 1, np.uint32)
    number = np.append(np.full(most + 1, -1, np.int32), np.int32(0))
    written = address(number), address(listed), address(numbers[skipped:])
    told = KERNEL.number_codes(count, place, bits, first_bit, most, *written)
    kept = valid.slice(first_bit // _BYTE_BITS) if valid else None
    numbered = pa.Array.from_buffers(pa.int32(), count, [kept, pa.py_buffer(numbers)], codes.null_count, skipped)
    return numbered, listed[:told]
