"""The compiled loop over codes of categories gives what plain Python gives."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracecorr import native

_MOST = 9


@given(st.lists(st.none() | st.integers(0, _MOST), max_size=40), st.integers(0, 17))
def test_codes_are_numbered_in_the_order_of_their_first_rows(codes: list[int | None], skipped: int) -> None:
    # A column that begins within the memory of a longer one.
    column = pa.array([_MOST, None] * skipped + codes, pa.uint32())[2 * skipped :]
    numbers, listed = native.number_codes(column, _MOST)
    known = list(dict.fromkeys(code for code in codes if code is not None))
    assert listed.tolist() == known
    assert numbers.to_pylist() == [None if code is None else known.index(code) for code in codes]
    assert numbers.null_count == codes.count(None)


def test_a_code_beyond_the_highest_one_reads_nothing_beside_the_numbers() -> None:
    numbers, listed = native.number_codes(pa.array([1, 2**32 - 1, 0], pa.uint32()), 1)
    assert (numbers.to_pylist(), listed.tolist()) == ([0, 0, 1], [1, 0])
