"""The levels of detail: nothing is lost, nothing overlaps within a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.timeline import levels

TRACKS = 6


def _finest(seed: int, n: int = 20_000) -> levels.Single:
    rng = np.random.default_rng(seed)
    track = np.sort(rng.integers(0, TRACKS, n)).astype(np.int32)
    start = rng.integers(0, 50_000_000, n)
    start = start[np.lexsort((start, track))]
    dur = rng.choice([0, 300, 4_000, 900_000], n, p=[0.4, 0.3, 0.28, 0.02])
    number = np.arange(n, dtype=np.int32)
    begin = np.searchsorted(track, np.arange(TRACKS + 1)).astype(np.int64)
    counter = np.zeros(TRACKS, bool)
    return levels.Single(start, start + dur, number, number % 9, np.zeros(n, np.uint8), begin, counter)


def _pyramid(finest: levels.Single) -> levels.Pyramid:
    return levels.build_pyramid(finest, np.arange(TRACKS + 1))


@pytest.mark.parametrize("width", [1, 100, 1500])
def test_counts_of_the_whole_range_add_up(width: int) -> None:
    raw = _finest(1)
    pyramid = _pyramid(raw)
    assert len(pyramid.levels) > 1
    found = pyramid.query(-1, 60_000_000, width, range(6))
    assert int(found.count.sum()) == len(raw)
    assert int(found.busy.sum(dtype=float)) == pytest.approx(int((raw.end - raw.start).sum()), rel=1e-6)


@pytest.mark.parametrize("span", [30_000_000, 3_000_000, 40_000, 500])
def test_no_pixel_of_a_raw_span_is_missing(span: int) -> None:
    finest = _finest(2)
    raw, pyramid = finest.take(np.arange(len(finest))), _pyramid(finest)
    rng = np.random.default_rng(3)
    for t0 in rng.integers(0, 45_000_000, 8).tolist():
        found = pyramid.query(t0, t0 + span, 800, range(6))
        for track in range(6):
            want = _pixels(raw, track, t0, span)
            have = _pixels(found, track, t0, span)
            assert not np.any(want & ~have)


def _pixels(r: levels.Records, track: int, t0: int, span: int, width: int = 800) -> np.ndarray:
    mine = (r.track == track) & (r.end >= t0) & (r.start <= t0 + span)
    painted = np.zeros(width, bool)
    for s, e in zip(r.start[mine].tolist(), r.end[mine].tolist(), strict=True):
        a, b = (max(0, (t - t0) * width // span) for t in (s, e))
        painted[a : min(b, width - 1) + 1] = True
    return painted


def test_merged_block_points_at_its_longest_event() -> None:
    start = np.array([0, 10, 20])
    dur = np.array([1, 5, 2])
    n32, n8 = np.arange(3, dtype=np.int32), np.zeros(3, np.uint8)
    r = levels.Records(np.zeros(3, np.int32), start, start + dur, dur, np.ones(3, np.int32), dur, n32, n32, n8)
    merged = levels.merge(r, 1000)
    assert (merged.count.tolist(), merged.event.tolist(), merged.end.tolist()) == ([3], [1], [22])


def test_long_spans_stay_apart_at_every_level() -> None:
    raw = _finest(4)
    pyramid = _pyramid(raw)
    for level in pyramid.levels[1:]:
        long = (raw.end - raw.start) >= level.bin_ns
        assert np.isin(raw.event[long], level.records.event[level.records.count == 1]).all()


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60)), max_size=60))
def test_first_fit_rows_never_overlap_below_the_cap(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda p: (p[0], -p[1]))
    start = np.array([p[0] for p in pairs], np.int64)
    end = start + np.array([p[1] for p in pairs], np.int64)
    rows = levels.first_fit(start, end, rows=100)
    for row in set(rows.tolist()):
        mine = rows == row
        assert np.all(start[mine][1:] >= np.maximum.accumulate(end[mine])[:-1])
    assert rows.max(initial=0) == _most_beside(start, end)


def _most_beside(start: np.ndarray, end: np.ndarray) -> int:
    """Return how many earlier spans still run at most when one starts: no fewer rows beside its own will do."""
    return max((int((end[:i] > start[i]).sum()) for i in range(len(start))), default=0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), max_size=60))
def test_first_fit_of_a_queue_never_overlaps(pairs: list[tuple[int, int]]) -> None:
    """Spans that end in the order in which they start take turns."""
    start = np.cumsum([p[0] for p in pairs]).astype(np.int64)
    end = np.maximum.accumulate(start + np.array([p[1] for p in pairs], np.int64)) if pairs else start
    rows = levels.first_fit(start, end, rows=100)
    for row in set(rows.tolist()):
        mine = rows == row
        assert np.all(start[mine][1:] >= end[mine][:-1])
    assert rows.max(initial=0) == _most_beside(start, end)


def test_spans_that_reach_far_are_found_from_every_window() -> None:
    """One span covers thousands of short ones on its own track."""
    finest = _finest(6)
    first = finest.begin[2]
    end = finest.end.copy()
    end[first] = 60_000_000
    tangled = levels.Single(finest.start, end, finest.event, finest.name, finest.style, finest.begin, finest.counter)
    pyramid = _pyramid(tangled)
    assert 2 in pyramid.levels[0].tangled
    for span in (1_000, 1_000_000, 20_000_000):
        found = pyramid.query(30_000_000, 30_000_000 + span, 500, [2])
        assert first in found.event


def test_a_counter_keeps_its_highest_value() -> None:
    start = np.arange(0, 100_000, 10, dtype=np.int64)
    code = np.zeros(len(start), np.int32)
    code[4321] = 9
    n = np.arange(len(start), dtype=np.int32)
    single = levels.Single(
        start, start + 10, n, code, np.zeros(len(start), np.uint8), np.array([0, len(start)]), np.array([True])
    )
    found = levels.build_pyramid(single, np.arange(2)).query(0, 100_000, 4, [0])
    assert found.name.max() == 9
    assert found.event[found.name.argmax()] == 4321
    assert int(found.count.sum()) == len(start)


def test_events_are_told_apart_without_those_that_are_none() -> None:
    found = levels.distinct_events(np.array([7, -1, 2, 7, 0, 2, -1], np.int32), 8)
    assert found.tolist() == [0, 2, 7]
    assert levels.distinct_events(np.zeros(0, np.int32), 0).tolist() == []
