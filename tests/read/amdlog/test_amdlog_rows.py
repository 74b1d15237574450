"""Rows of a block stand behind those that the block before left, with null where nobody has set a column."""

from __future__ import annotations

import numpy as np
import pytest

from tracecorr.read.amdlog.calls import NULLS, Rows


@pytest.mark.parametrize("left", [0, 2])
def test_rows_stand_behind_those_that_were_left(left: int) -> None:
    before, new = Rows(left), Rows(3, room=left)
    before["stamp"], before["name"] = np.arange(left), np.arange(left)
    new["stamp"], new["kind"] = np.array([7, 8, 9]), np.array([1, 2, 3])
    new["ring"][1] = 5
    rows = new.behind(before)
    assert (len(rows), len(new)) == (left + 3, 3)
    assert rows["stamp"].tolist() == [*range(left), 7, 8, 9]
    assert rows["name"].tolist() == [*range(left), *[NULLS["name"]] * 3]
    assert rows["kind"].tolist() == [*[NULLS["kind"]] * left, 1, 2, 3]
    assert rows["ring"].tolist() == [*[NULLS["ring"]] * left, 0, 5, 0]
    assert rows["packet_index"].tolist() == [NULLS["packet_index"]] * (left + 3)
    assert new["stamp"].tolist() == [7, 8, 9]


def test_a_column_is_set_where_one_of_both_has_it() -> None:
    before, new = Rows(1), Rows(1, room=1)
    before["arg"] = np.array([4], np.uint64)
    rows = new.behind(before)
    assert (rows.has("arg"), rows.has("ring")) == (True, False)
    assert rows.take(np.array([1, 0]))["arg"].tolist() == [0, 4]
