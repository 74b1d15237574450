"""What spans cover together, and what lies between them, does not depend on how they are told (SYNTHETIC spans)."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.analyze.values import add_gaps, sum_overlaps

Spans = list[tuple[int, int, int]]  # lane, start, end
SPAN = st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 15)).map(lambda s: (s[0], s[1], s[1] + s[2]))
SPANS = st.lists(SPAN, min_size=1, max_size=12)


def frame(spans: Spans) -> pl.DataFrame:
    """Return spans of one group, as the functions take them."""
    rows = pl.DataFrame(spans, schema={"lane": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")
    return rows.with_columns(gpu=pl.lit(None, pl.Int64))


def measure(spans: Spans) -> tuple[int, list[tuple[int, int]], int]:
    """Return busy time, gaps (begin, length) and overlap."""
    rows = add_gaps(frame(spans), ["gpu"])
    gaps = rows.drop_nulls("gap_ns").select(pl.col("start_ns") - pl.col("gap_ns"), "gap_ns").rows()
    overlap = sum_overlaps(frame(spans), ["gpu"], "lane")["overlap_ns"].item()
    return int(rows["covered_ns"].sum()), gaps, overlap


def count_ticks(spans: Spans) -> tuple[int, int]:
    """Return busy time and overlap, counted tick by tick."""
    lanes = [{lane for lane, start, end in spans if start <= tick < end} for tick in range(60)]
    return sum(len(at) > 0 for at in lanes), sum(len(at) > 1 for at in lanes)


@given(SPANS, st.randoms(use_true_random=False), st.integers(0, 40))
def test_order_copies_and_cuts_change_nothing(spans: Spans, random: object, cut: int) -> None:
    measured = measure(spans)
    shuffled = [*spans]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    cut_up = [(n, a, b) for n, a, b in spans if not a < cut < b]
    cut_up += [part for n, a, b in spans if a < cut < b for part in ((n, a, cut), (n, cut, b))]
    assert measure(shuffled) == measure([*spans, *spans[:3]]) == measure(cut_up) == measured


@given(SPANS)
def test_busy_and_idle_are_the_whole_span(spans: Spans) -> None:
    busy, gaps, overlap = measure(spans)
    assert busy + sum(length for _, length in gaps) == max(s[2] for s in spans) - min(s[1] for s in spans)
    assert (busy, overlap) == count_ticks(spans)


def test_groups_know_nothing_of_each_other() -> None:
    spans = pl.DataFrame({"gpu": [0, 0, 1, None], "lane": [0, 1, 0, 0], "start_ns": [0, 5, 3, 90],
                          "end_ns": [10, 8, 4, 99]})  # fmt: skip
    rows = add_gaps(spans, ["gpu"])
    assert rows["gap_ns"].null_count() == 4
    assert rows.group_by("gpu").agg(pl.col("covered_ns").sum()).sort("gpu").rows() == [(None, 9), (0, 10), (1, 1)]
    assert sum_overlaps(spans, ["gpu"], "lane").sort("gpu").rows() == [(None, 0), (0, 3), (1, 0)]
