"""The pyramid: nothing is lost, nothing overlaps within a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecorr.app import spans, wire


def _records(seed: int, n: int = 20_000, tracks: int = 6) -> spans.Records:
    rng = np.random.default_rng(seed)
    track = np.sort(rng.integers(0, tracks, n)).astype(np.int32)
    start = rng.integers(0, 50_000_000, n)
    order = np.lexsort((start, track))
    start = start[order]
    dur = rng.choice([0, 300, 4_000, 900_000], n, p=[0.4, 0.3, 0.28, 0.02])
    number = np.arange(n, dtype=np.int32)
    ones = np.ones(n, np.int32)
    style = np.zeros(n, np.uint8)
    return spans.Records(track[order], start, start + dur, dur, ones, dur, number, number % 9, style)


@pytest.mark.parametrize("width", [1, 100, 1500])
def test_counts_of_the_whole_range_add_up(width: int) -> None:
    raw = _records(1)
    pyramid = spans.Pyramid(raw, list(range(7)))
    assert len(pyramid.levels) > 1
    found = pyramid.query(-1, 60_000_000, width, range(6))
    assert int(found.count.sum()) == len(raw)
    assert int(found.busy.sum()) == int(raw.busy.sum())


@pytest.mark.parametrize("span", [30_000_000, 3_000_000, 40_000, 500])
def test_no_pixel_of_a_raw_span_is_missing(span: int) -> None:
    raw = _records(2)
    pyramid = spans.Pyramid(raw, list(range(7)))
    rng = np.random.default_rng(3)
    for t0 in rng.integers(0, 45_000_000, 8).tolist():
        found = pyramid.query(t0, t0 + span, 800, range(6))
        for track in range(6):
            want = _pixels(raw, track, t0, span)
            have = _pixels(found, track, t0, span)
            assert not np.any(want & ~have)


def _pixels(r: spans.Records, track: int, t0: int, span: int, width: int = 800) -> np.ndarray:
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
    r = spans.Records(np.zeros(3, np.int32), start, start + dur, dur, np.ones(3, np.int32), dur, n32, n32, n8)
    merged = spans.merge(r, 1000)
    assert (merged.count.tolist(), merged.event.tolist(), merged.end.tolist()) == ([3], [1], [22])


def test_long_spans_stay_apart_at_every_level() -> None:
    raw = _records(4)
    pyramid = spans.Pyramid(raw, list(range(7)))
    for level in pyramid.levels[1:]:
        long = (raw.end - raw.start) >= level.bin_ns
        assert np.isin(raw.event[long], level.records.event[level.records.count == 1]).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60)), max_size=60))
def test_first_fit_rows_never_overlap_below_the_cap(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda p: (p[0], -p[1]))
    start = np.array([p[0] for p in pairs], np.int64)
    end = start + np.array([p[1] for p in pairs], np.int64)
    rows = spans.first_fit(start, end, rows=100)
    for row in set(rows.tolist()):
        mine = rows == row
        assert np.all(start[mine][1:] >= np.maximum.accumulate(end[mine])[:-1])


def test_wire_keeps_nanoseconds_and_alignment() -> None:
    raw = _records(5, n=7)
    pyramid = spans.Pyramid(raw, list(range(7)))
    data = wire.encode(raw, pyramid, 12, 99)
    magic, n, t0, t1 = wire.HEADER.unpack_from(data)
    assert (magic, n, t0, t1) == (wire.MAGIC, 7, 12, 99)
    assert len(data) % 8 == 0
    starts = np.frombuffer(data, "<f8", 7, wire.HEADER.size)
    assert (starts + 12).astype(np.int64).tolist() == raw.start.tolist()
