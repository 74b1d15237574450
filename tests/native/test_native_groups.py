"""The compiled loops over rows of large frames give what plain Python gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr import native

_WIDTHS = st.sampled_from([np.uint8, np.uint16, np.uint32, np.int64])
_NEAR = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
_ROWS = st.lists(st.tuples(st.integers(0, 3), _NEAR, _NEAR, st.booleans()), max_size=30)
_TYPES = {pa.uint8(): 2**8 - 1, pa.uint16(): 2**16 - 1, pa.int32(): 2**31 - 1, pa.uint64(): 2**64 - 1}


def _column(values: list[int | None], kind: pa.DataType, skipped: int) -> pa.Array:
    """Return a column that begins within the memory of a longer one."""
    return pa.array([None] * skipped + values, kind)[skipped:]


@given(
    st.sampled_from(sorted(_TYPES, key=str)).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.lists(st.tuples(st.integers(0, 2), st.none() | st.sampled_from([0, 1, 7, _TYPES[kind]])))
        )
    ),
    st.sampled_from([np.uint8, np.uint16, np.uint32]),
    st.integers(0, 9),
)
def test_groups_are_parted_by_values_in_the_order_of_their_first_rows(
    rows: tuple[pa.DataType, list[tuple[int, int | None]]], width: type[np.integer], skipped: int
) -> None:
    kind, pairs = rows
    values = _column([value for _, value in pairs], kind, skipped)
    group, first = native.number_values(values, np.array([group for group, _ in pairs], width))
    known = list(dict.fromkeys(pairs))
    assert group.tolist() == [known.index(pair) for pair in pairs]
    assert first.tolist() == [pairs.index(pair) for pair in known]


@pytest.mark.parametrize(("count", "width"), [(256, 1), (257, 2), (65_536, 2), (65_537, 4)])
def test_numbers_of_many_groups_are_as_wide_as_they_must_be(count: int, width: int) -> None:
    values = np.arange(count) * 4096
    group, first = native.number_values(pa.array(np.append(values, values[::-1])), np.zeros(2 * count, np.uint8))
    assert group.itemsize == width
    assert group.tolist() == [*range(count), *range(count - 1, -1, -1)]
    assert first.tolist() == list(range(count))


_MOMENT = st.tuples(st.integers(0, 4) | _NEAR, st.sampled_from([0, 1, 2**16 - 1]), _NEAR)


_KEYS = st.lists(st.integers(-5, 60), max_size=40)


_SIDE = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 9), st.booleans()), max_size=20)


@given(_SIDE, _SIDE, st.sampled_from([np.uint8, np.uint16, np.uint32]), st.booleans(), st.booleans())
def test_the_nearest_row_of_its_group_is_found(
    rows: list[tuple[int, int, bool]], asked: list[tuple[int, int, bool]], kind: type, forward: bool, exact: bool
) -> None:
    rows.sort(key=lambda row: row[1])
    columns = [
        [np.array([row[i] for row in side], kind if i == 0 else int) for i in range(2)] for side in (asked, rows)
    ]
    (own, wanted), (group, keys) = columns
    marks = np.array([row[2] for row in asked], bool)
    found = native.find_near(own, wanted, marks, group, keys, 3, forward=forward, exact=exact)
    expected = []
    for one, key, is_asked in asked:
        near = [n for n, (other, at, _) in enumerate(rows) if other == one and (at - key) * (1 if forward else -1) >= 0]
        near = [n for n in near if is_asked and (exact or rows[n][1] != key)]
        expected.append((near[0] if forward else near[-1]) if near else None)
    assert found.to_pylist() == expected


@given(st.data(), st.sampled_from([pa.uint8(), pa.uint16(), pa.int32(), pa.int64()]), st.integers(0, 2))
def test_values_are_placed_in_their_rows(data: st.DataObject, kind: pa.DataType, skipped: int) -> None:
    rows = data.draw(st.lists(st.integers(0, 30), unique=True))
    values = data.draw(st.lists(st.none() | st.integers(0, 99), min_size=len(rows), max_size=len(rows)))
    found = native.place_values(31, np.array(rows, np.uint32), _column(values, kind, skipped))
    assert found.type == kind
    assert found.to_pylist() == [dict(zip(rows, values, strict=True)).get(row) for row in range(31)]


def test_a_row_behind_the_end_of_a_column_takes_no_value() -> None:
    with pytest.raises(IndexError, match="2 rows has no row 2"):
        native.place_values(2, np.array([0, 2], np.uint32), pa.array([7, 8]))


@given(_KEYS, _KEYS)
def test_the_first_row_of_a_key_is_found(keys: list[int], wanted: list[int]) -> None:
    keys.sort()
    rows = np.arange(len(keys)) * 3
    found = native.find_rows(np.array(keys, int), rows, np.array(wanted, int))
    assert found.to_pylist() == [3 * keys.index(one) if one >= 0 and one in keys else None for one in wanted]


_LINE = st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 12),
                  st.none() | st.integers(0, 6))  # fmt: skip


def test_values_of_another_width_are_refused() -> None:
    with pytest.raises(KeyError):
        native.number_values(pa.array([True, False]), np.zeros(2, np.uint8))
