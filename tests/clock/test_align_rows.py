"""Rows found and filled without joins give what the joins would."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracecorr.clock.rows import (
    Places,
    append_rows,
    attach_columns,
    count_groups,
    fill_columns,
    fold_constants,
    list_groups,
    number_groups,
    order_by_group,
    select_groups,
    span_groups,
)
from tracecorr.model.schema import CAT

# Values near each other, far from each other, at the ends of their type, and none.
numbers = st.none() | st.integers(-3, 3) | st.sampled_from([-(2**63), 2**40, 2**63 - 1])
keys = st.lists(st.tuples(numbers, st.none() | st.sampled_from(["hip", "aql", "ioctl"])), max_size=40)


@given(keys)
def test_groups_are_numbered_in_the_order_of_their_first_rows(rows: list[tuple[int | None, str | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": CAT}, orient="row")
    codes, groups = number_groups(frame, ["a", "b"])
    assert_frame_equal(groups, frame.unique(maintain_order=True))
    assert_frame_equal(groups[codes], frame)


@given(keys)
def test_unsigned_keys_are_numbered_too(rows: list[tuple[int | None, str | None]]) -> None:
    unsigned = [None if value is None else value % 2**64 for value, _ in rows]
    frame = pl.DataFrame({"a": pl.Series(unsigned, dtype=pl.UInt64)})
    codes, groups = number_groups(frame, ["a"])
    assert_frame_equal(groups, frame.unique(maintain_order=True))
    assert_frame_equal(groups[codes], frame)


@given(keys)
def test_groups_are_counted_and_put_in_order_without_frames(rows: list[tuple[int | None, str | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": CAT}, orient="row").with_row_index("n")
    groups = frame.group_by("a", "b", maintain_order=True)
    own = ["a", "b"]
    assert_frame_equal(list_groups(frame, own), groups.len().drop("len"))
    counted = groups.agg(total=pl.len(), marked=(pl.col("n") % 2 == 1).sum())
    assert_frame_equal(count_groups(frame, own, pl.col("n") % 2 == 1), counted)
    assert_frame_equal(count_groups(frame, own), counted.drop("marked"))
    spans = groups.agg(first=pl.col("n").min(), last=pl.col("n").max())
    assert_frame_equal(span_groups(frame, own, "n", "n"), spans)
    asked = frame.select(own).slice(1, 2)
    for how, chosen in (("semi", True), ("anti", False)):
        joined = frame.join(asked, on=own, how=how, maintain_order="left")
        assert_frame_equal(select_groups(frame, own, asked, chosen=chosen), joined)
    order, codes, _ = order_by_group(frame, own)
    assert order.tolist() == groups.agg("n").explode("n")["n"].to_list()
    assert codes.tolist() == sorted(number_groups(frame, own)[0].tolist())


places = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=30)


@given(places, places, st.data())
def test_places_find_the_first_row_that_was_chosen(
    rows: list[tuple[int, int]], wanted: list[tuple[int, int]], data: st.DataObject
) -> None:
    shape = {"file": pl.UInt16, "offset": pl.Int64}
    frame = pl.DataFrame(rows, schema=shape, orient="row")
    asked = pl.DataFrame([*wanted, (1, None)], schema=shape, orient="row")
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=np.bool_)
    known = frame.with_row_index("row").filter(chosen).unique(["file", "offset"], keep="first", maintain_order=True)
    expected = asked.join(known, on=["file", "offset"], how="left", maintain_order="left")["row"]
    assert Places.of(frame, chosen).find(asked).to_list() == expected.to_list()


@given(st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=20), st.data())
def test_columns_are_attached_and_filled_as_by_a_join(own: list[int | None], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(own) - 1), unique=True))
    found = pl.DataFrame({"event": rows, "value": range(100, 100 + len(rows)), "text": ["x"] * len(rows)},
                         schema={"event": pl.Int64, "value": pl.Int64, "text": CAT})  # fmt: skip
    frame = pl.DataFrame({"own": pl.Series(own, dtype=pl.Int64)}).with_row_index("event")
    frame = frame.with_columns(pl.col("event").cast(pl.Int64))
    joined = frame.join(found, on="event", how="left", maintain_order="left")
    assert_frame_equal(attach_columns(frame, found), joined)
    filled = fill_columns(frame, found.select("event", own="value"))
    assert filled["own"].to_list() == joined.select(pl.coalesce("own", "value")).to_series().to_list()


@given(keys)
def test_columns_of_one_value_stay_equal_as_literals(rows: list[tuple[int | None, str | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": CAT}, orient="row")
    assert_frame_equal(fold_constants(frame), frame)


@pytest.mark.parametrize("value", [None, 7])
def test_columns_of_one_value_take_no_memory(value: int | None) -> None:
    frame = pl.DataFrame({"a": [value] * 1000, "b": range(1000)}, schema={"a": pl.Int64, "b": pl.Int64})
    folded = fold_constants(frame)
    assert folded.select("a").estimated_size() < frame.select("a").estimated_size() / 100
    assert folded.select("b").estimated_size() == frame.select("b").estimated_size()


@given(keys, keys)
def test_appended_rows_come_behind_in_one_piece(
    many: list[tuple[int | None, str | None]], more: list[tuple[int | None, str | None]]
) -> None:
    columns = {"a": pl.Int64, "b": CAT}
    frame, rows = (pl.DataFrame(part, schema=columns, orient="row") for part in (many, more))
    rows = rows.with_columns(c=pl.int_range(pl.len()))
    expected = pl.concat([frame, rows], how="diagonal")
    joined = append_rows(frame, rows)
    assert_frame_equal(joined, expected)
    assert {joined[name].n_chunks() for name in joined.columns} == {1}


def test_an_appended_value_like_all_others_takes_no_memory() -> None:
    joined = append_rows(pl.DataFrame({"a": [7] * 1000, "b": [7] * 1000}), pl.DataFrame({"a": [7], "b": [8]}))
    assert joined.select("a").estimated_size() < joined.select("b").estimated_size() / 100
