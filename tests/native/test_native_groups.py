"""The compiled loops over rows of large frames give what plain Python gives."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
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


@given(_ROWS, _WIDTHS)
def test_groups_are_counted_and_spanned(rows: list[tuple[int, int, int, bool]], width: type[np.integer]) -> None:
    group, low, high, marks = (
        np.array([row[i] for row in rows], kind) for i, kind in enumerate((width, int, int, bool))
    )
    total, marked = native.count_groups(group, 4, marks)
    assert total.tolist() == [sum(row[0] == number for row in rows) for number in range(4)]
    assert marked.tolist() == [sum(row[0] == number and row[3] for row in rows) for number in range(4)]
    known = list(dict.fromkeys(row[0] for row in rows))
    group = np.array([known.index(row[0]) for row in rows], width)
    first = np.array([group.tolist().index(number) for number in range(len(known))], np.int64)
    lowest, highest = native.span_groups(group, first, low, high)
    assert lowest.tolist() == [min(row[1] for row in rows if row[0] == number) for number in known]
    assert highest.tolist() == [max(row[2] for row in rows if row[0] == number) for number in known]


_MOMENT = st.tuples(st.integers(0, 4) | _NEAR, st.sampled_from([0, 1, 2**16 - 1]), _NEAR)


@given(st.lists(_MOMENT, max_size=12))
def test_rows_that_are_not_in_order_take_their_places_among_themselves(rows: list[tuple[int, int, int]]) -> None:
    at, file, offset = (np.array([row[i] for row in rows], kind) for i, kind in enumerate((int, np.uint16, int)))
    found = native.find_unordered(at, file, offset).tolist()
    assert found == [
        n for n, row in enumerate(rows) if any(one > row for one in rows[:n]) or any(one < row for one in rows[n + 1 :])
    ]
    placed = dict(enumerate(rows)) | dict(zip(found, sorted(rows[n] for n in found), strict=True))
    assert list(placed.values()) == sorted(rows)


_KEYS = st.lists(st.integers(-5, 60), max_size=40)


@given(_KEYS, _KEYS)
def test_keys_are_found_where_bisection_finds_them(keys: list[int], wanted: list[int]) -> None:
    keys.sort()
    assert native.search_near(np.array(keys, int), np.array(wanted, int)).tolist() == [
        sum(key < one for key in keys) for one in wanted
    ]


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


def _is_unsure(group: list[int], lines: list[tuple[int, int, int | None, int | None]]) -> list[bool]:
    """Ask of lines: offset, time, end offset, duration."""
    offset, at = (np.array([line[i] for line in lines], np.int64) for i in (0, 1))
    ends = (_column([line[i] for line in lines], pa.int64(), 3) for i in (2, 3))
    threads = max(group, default=-1) + 1
    return [bool(one) for one in native.find_unsure(np.array(group, np.uint8), threads, offset, at, *ends)]


_LINE = st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 12),
                  st.none() | st.integers(0, 6))  # fmt: skip


@settings(max_examples=500)
@given(st.lists(_LINE, max_size=8))
def test_a_thread_that_is_sure_is_in_order(rows: list[tuple[int, int, int, int | None, int | None]]) -> None:
    rows = sorted(rows, key=lambda row: row[2])
    unsure = _is_unsure([row[0] for row in rows], [row[1:] for row in rows])
    for thread, is_unsure in enumerate(unsure):
        own = [row[1:] for row in rows if row[0] == thread]
        begins = [(offset, at) for offset, at, _, _ in own]
        ends = [(end, at + lasted) for _, at, end, lasted in own if end is not None and lasted is not None]
        falls = any(one[0] > other[0] for one, other in itertools.pairwise(begins))
        crossed = any((end[0] - line[0]) * (end[1] - line[1]) < 0 for end in ends for line in begins)
        assert is_unsure or not (falls or crossed)


def test_calls_that_nest_are_sure_up_to_a_depth() -> None:
    nested = [(n, n, 100 - n, 100 - 2 * n) for n in range(16)]
    behind = [(101, 101, 105, 4), (102, 103, None, None), (106, 106, None, 1)]
    assert _is_unsure([0] * 19, nested + behind) == [False]
    assert _is_unsure([0] * 17, [*nested, (16, 16, 84, 68)]) == [True]
    # A line in the last call by its place, and behind it by its time; and the other way round.
    assert _is_unsure([0, 0, 1, 1], [(0, 0, 9, 5), (4, 7, None, None)] * 2) == [True, True]
    assert _is_unsure([0, 0, 1, 1], [(0, 0, 9, 5), (10, 4, None, None), (0, 4, 9, 5), (5, 5, None, None)]) == [
        True,
        False,
    ]


def test_values_of_another_width_are_refused() -> None:
    with pytest.raises(KeyError):
        native.number_values(pa.array([True, False]), np.zeros(2, np.uint8))
