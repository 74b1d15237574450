"""The compiled loops over the rows that `link/` asks give what plain Python gives."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracecorr import native


@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["enter", "exit", "line"])), max_size=40), st.integers(0, 9)
)
def test_calls_around_rows_are_found_where_they_begin(rows: list[tuple[int, str]], skipped: int) -> None:
    known: list[int | None] = []
    stacks: dict[int, list[int]] = {0: [], 1: []}
    for row, (thread, what) in enumerate(rows):
        stack = stacks[thread]
        if what == "exit" and stack:
            stack.pop()
        known.append(stack[-1] if stack else None)
        if what == "enter":
            stack.append(row)
    group = np.array([thread for thread, _ in rows], np.uint32)
    is_call = np.array([what == "enter" for _, what in rows], np.bool_)
    begun = pa.array([None] * skipped + [None if at is None else 10 * at for at in known], pa.int64())[skipped:]
    found, missed = native.find_parents(group, 2, 10 * np.arange(len(rows)), begun, is_call)
    assert found.to_pylist() == known
    assert missed.tolist() == []


def test_rows_whose_call_is_not_around_the_one_before_are_told() -> None:
    """What names a row that is no call, one that comes later, one of another group, or one that has ended before."""
    calls = np.array([True, False, True, False, False, False, False])
    group, offset = np.array([0, 0, 0, 0, 0, 1, 0], np.uint32), 10 * np.arange(7)
    found, missed = native.find_parents(group, 2, offset, pa.array([None, 0, None, 10, 60, 20, 0]), calls)
    assert found.to_pylist() == [None, 0, None, None, None, None, None]
    assert missed.tolist() == [3, 4, 5, 6]


@given(st.lists(st.tuples(st.none() | st.integers(0, 40), st.booleans()), max_size=20), st.randoms(), st.integers(0, 9))
def test_roots_are_the_outermost_rows(rows: list[tuple[int | None, bool]], random: Random, skipped: int) -> None:
    """Rows stand in any order: what encloses one may stand behind it."""
    order = list(range(len(rows)))
    random.shuffle(order)
    # An ancestor comes before its rows in `order`: no cycle.
    parents = [None] * len(rows)
    for place, row in enumerate(order):
        above = rows[row][0]
        if above is not None and place:
            parents[row] = order[above % place]  # type: ignore[call-overload]
    known: list[int] = [0] * len(rows)
    for row in order:
        known[row] = row if parents[row] is None else known[parents[row]]
    column = pa.array([None] * skipped + parents, pa.int64())[skipped:]
    named = np.array([name for _, name in rows], np.bool_)
    assert native.find_roots(column).to_pylist() == known
    assert native.find_roots(column, named).to_pylist() == [root if named[root] else None for root in known]


def test_a_row_that_does_not_exist_encloses_nothing() -> None:
    assert native.find_roots(pa.array([5, -1, -9, 1])).to_pylist() == [0, 1, 2, 1]
