"""Spans of one key that meet are found without crossing all rows of the key (SYNTHETIC)."""

from __future__ import annotations

import random

import polars as pl
import pytest

from tracecorr.link.creations import pair_spans

SPANS = {"process": pl.UInt32, "ring": pl.UInt64, "low": pl.Int64, "high": pl.Int64}


def _make(seed: int, count: int, *, backwards: bool) -> pl.DataFrame:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        low = draw.randrange(200)
        length = draw.randrange(-5 if backwards else 0, 30)
        ring = draw.choice([None, 0x3C00000, (1 << 63) + 8])
        row = [draw.choice([1, 2, None]), ring, low, low + length]
        if draw.random() < 0.1:
            row[draw.choice([2, 3])] = None
        rows.append(row)
    return pl.DataFrame(rows, schema=SPANS, orient="row")


@pytest.mark.parametrize("seed", range(20))
def test_the_pairs_are_those_of_a_full_comparison(seed: int) -> None:
    one, other = _make(seed, 40, backwards=False), _make(seed + 100, 50, backwards=True)
    crossed = one.with_row_index("left").join(other.with_row_index("right"), on=["process", "ring"])
    meet = crossed.filter((pl.col("low_right") <= pl.col("high")) & (pl.col("high_right") >= pl.col("low")))
    left, right = pair_spans(one, other, ["process", "ring"])
    assert list(zip(left, right, strict=True)) == meet.sort("left", "right").select("left", "right").rows()


def test_nothing_meets_nothing() -> None:
    none, some = pl.DataFrame(schema=SPANS), _make(1, 5, backwards=False)
    assert [len(side) for side in pair_spans(none, some, ["process"])] == [0, 0]
    assert [len(side) for side in pair_spans(some, none, ["process"])] == [0, 0]
    assert [len(side) for side in pair_spans(none, none, ["process"])] == [0, 0]


def test_what_comes_again_and_again_is_not_crossed() -> None:
    """A ring is used for 200,000 queues one after the other: all pairs of them would be 40,000,000,000 rows."""
    count = 200_000
    at = pl.int_range(count, eager=True) * 100
    one = pl.DataFrame({"ring": [7] * count, "low": at, "high": at + 50})
    other = pl.DataFrame({"ring": [7] * count, "low": at + 10, "high": at + 20})
    left, right = pair_spans(one, other, ["ring"])
    assert (left == right).all()
    assert len(left) == count
