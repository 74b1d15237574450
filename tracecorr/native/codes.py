"""Columns of categories: their codes to numbers that do not depend on what else the process has seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.native.arrays import address
from tracecorr.native.library import KERNEL

_WORD_BITS = 8


def number_codes(codes: pa.UInt32Array, most: int) -> tuple[pa.Int32Array, npt.NDArray[np.uint32]]:
    """Return the codes numbered in the order of their first rows, null where they are, and the code of each number.

    Args:
        codes: a column in one piece.
        most: the highest one.
    """
    count, (valid, values) = len(codes), codes.buffers()
    # The bits that tell what is null are taken as they are: they begin within a byte, and the numbers with as many that
    # nobody reads.
    skipped = codes.offset % _WORD_BITS if valid else 0
    numbers, listed = np.empty(skipped + count, np.int32), np.empty(most + 1, np.uint32)
    number = np.append(np.full(most + 1, -1, np.int32), np.int32(0))
    told = KERNEL.number_codes(
        count, values.address + codes.type.bit_width // 8 * codes.offset, valid.address if valid else None,
        codes.offset, most, address(number), address(listed), address(numbers[skipped:]),
    )  # fmt: skip
    bits = valid.slice(codes.offset // _WORD_BITS) if valid else None
    numbered = pa.Array.from_buffers(pa.int32(), count, [bits, pa.py_buffer(numbers)], codes.null_count, skipped)
    return numbered, listed[:told]
