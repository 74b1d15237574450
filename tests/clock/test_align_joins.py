"""Large frames put in order and joined give what the sorts and joins of frames would."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracecorr.clock.joins import join_nearest, select_rows, sort_rows

_TYPES: dict[str, Any] = {"at": pl.Int64, "command": pl.UInt64, "process": pl.UInt32, "value": pl.Int64}
rows = st.lists(
    st.tuples(
        st.integers(0, 9), st.none() | st.sampled_from([1, 2, 2**40, 2**64 - 1]), st.none() | st.integers(7, 8),
        st.none() | st.integers(0, 99),
    ), max_size=30,
)  # fmt: skip


def _frame(made: list[tuple[int | None, ...]]) -> pl.DataFrame:
    return pl.DataFrame(sorted(made, key=lambda row: row[0] or 0), schema=_TYPES, orient="row")


@pytest.mark.parametrize("by", [["command"], ["process", "command"]], ids=" ".join)
@given(rows, rows, st.booleans(), st.booleans(), st.sampled_from(["at", "since"]))
def test_the_nearest_row_of_a_key_is_found(
    by: list[str], one: Any, other: Any, forward: bool, exact: bool, on: str
) -> None:
    left, right = _frame(one), _frame(other).rename({"at": on})
    found = join_nearest(left, right, by, "at", on, forward=forward, exact=exact)
    sides = {"on": "at"} if on == "at" else {"left_on": "at", "right_on": on}
    expected = left.join_asof(
        right, **sides, by=by, strategy="forward" if forward else "backward", allow_exact_matches=exact,
        check_sortedness=False,
    )  # fmt: skip
    assert_frame_equal(found, expected)
    # Rows that are out of order find the same ones.
    turned = join_nearest(left.reverse(), right, by, "at", on, forward=forward, exact=exact)
    assert_frame_equal(turned, expected.reverse())


def test_rows_without_a_number_are_near_to_none() -> None:
    left = pl.DataFrame([(None, 1, 7, 0), (3, 1, 7, 0)], schema=_TYPES, orient="row")
    right = pl.DataFrame([(None, 1, 7, 5), (2, 1, 7, 6)], schema=_TYPES, orient="row")
    assert join_nearest(left, right, ["command"], "at", "at")["value_right"].to_list() == [None, 6]


@given(rows)
def test_rows_are_put_in_the_order_of_their_keys(made: Any) -> None:
    frame = pl.DataFrame(made, schema=_TYPES, orient="row")
    for keys in (["at"], ["process", "at"], ["process", "value"]):
        assert_frame_equal(sort_rows(frame, *keys), frame.sort(keys, maintain_order=True))


@given(rows, st.lists(st.integers(0, 120)))
def test_rows_of_some_events_are_chosen_or_left_out(made: Any, events: list[int]) -> None:
    frame, chosen = pl.DataFrame(made, schema=_TYPES, orient="row"), pl.Series(events, dtype=pl.Int64)
    some = chosen.to_frame("value")
    joined = {how: frame.join(some, on="value", how=how, maintain_order="left") for how in ("semi", "anti")}
    assert_frame_equal(select_rows(frame, chosen, "value"), joined["semi"])
    assert_frame_equal(select_rows(frame, chosen, "value", chosen=False), joined["anti"])
