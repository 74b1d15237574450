"""The compiled loops behind the timeline give what plain Python gives."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr import native

_LANES, _HALF, _DEEPEST = 3, 0b110, 7
# Kind -> lane (the last one: none of them), name, style.
_KINDS = [(0, 5, 0), (1, 6, 1), (1, 7, 2), (_LANES, 0, 0)]
_TOLD = native.Told(*(np.array(c, t) for c, t in zip(zip(*_KINDS, strict=True), "iiB", strict=True)), _HALF, 4)
_TIMES = st.integers(0, 40)
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 3), _TIMES, st.none() | st.integers(-3, 9), st.none() | st.integers(0, 12),
        st.none() | st.integers(0, 7),
    ),
    max_size=25,
)  # fmt: skip
_PIECE = st.lists(st.tuples(st.integers(0, 3), _TIMES, _TIMES, st.none() | st.integers(0, 9)), max_size=12)


def _column(values: list[Any], kind: pa.DataType, skipped: int) -> pa.Array:
    """Return a column that begins within the memory of a longer one."""
    return pa.array([None, 0] * skipped + values, kind)[2 * skipped :]


def _drawn(rows: list[tuple[Any, ...]], names: list[str], skipped: int, **more: Any) -> native.Drawn:
    kinds, *columns = zip(*rows, strict=True) if rows else [()] * (len(names) + 1)
    types = {"depth": pa.uint16(), "flags": pa.uint16()}
    given = {n: _column(list(c), types.get(n, pa.int64()), skipped) for n, c in zip(names, columns, strict=True)}
    return native.Drawn(np.array(kinds, np.int32), given, **more)


def _ended(start: int, lasted: int | None) -> int:
    return start + max(lasted or 0, 0)


@given(_ROWS, _PIECE, st.integers(0, 9), st.booleans())
def test_rows_come_to_their_lanes(rows: list[Any], piece: list[Any], skipped: int, has_names: bool) -> None:
    events = [(*row, number) for number, row in enumerate(rows)]
    name = np.arange(len(piece), dtype=np.int32) if has_names else None
    drawn = [
        _drawn(events, ["start", "lasted", "depth", "flags", "event"], skipped),
        _drawn(piece, ["start", "end", "event"], skipped, name=name),
    ]
    survey = native.Survey(_LANES)
    for each in drawn:
        survey.add(each, _TOLD.lane)
    every = [(k, s, _ended(s, lasted), n, f or 0, d) for k, s, lasted, d, f, n in events]
    every += [(k, s, e, -1 if n is None else n, 0, None) for k, s, e, n in piece]
    first = min((row[1] for row in every), default=0)
    assert survey.span == (first, max((row[2] for row in every), default=0))
    lanes = [[row for row in every if _KINDS[row[0]][0] == lane] for lane in range(_LANES)]
    assert survey.counts[:-1].tolist() == [len(lane) for lane in lanes]
    depths = [[-1 if row[5] is None else row[5] for row in lane] for lane in lanes]
    assert survey.highest[:-1].tolist() == [max(lane, default=-1) for lane in depths]
    lowest = np.array([min(lane, default=-1) for lane in depths])
    assert survey.lowest[:-1][lowest >= 0].tolist() == lowest[lowest >= 0].tolist()

    placed = native.Placed(survey.counts[:-1], len(events), first)
    placed.use_depth(lowest)
    others, packets = np.zeros((2, 4), np.int64)
    minimap = native.Minimap(np.array([False, True, False, False]), others, packets, 4 / 30)
    for each in drawn:
        placed.add(each, _TOLD, _DEEPEST, minimap if each is drawn[0] else None)
    expected = [row for lane in lanes for row in lane]
    assert placed.start.tolist() == [row[1] - first for row in expected]
    assert placed.end.tolist() == [row[2] - first for row in expected]
    assert placed.event.tolist() == [row[3] for row in expected]
    assert placed.style.tolist() == [_KINDS[row[0]][2] | (4 if row[4] & _HALF else 0) for row in expected]
    own = [number for number, row in enumerate(expected) if any(row is event for event in every[: len(events)])]
    assert all(placed.place[expected[number][3]] == number for number in own)
    names = [*([None] * len(events)), *(range(len(piece)) if has_names else [None] * len(piece))]
    of = {id(row): _KINDS[row[0]][1] if n is None else n for row, n in zip(every, names, strict=True)}
    assert placed.name.tolist() == [of[id(row)] for row in expected]
    for lane, low, a in zip(depths, lowest, np.cumsum([0, *map(len, lanes)]), strict=False):
        if low >= 0:
            assert placed.row[a : a + len(lane)].tolist() == [min(d - low, _DEEPEST) for d in lane]
    assert placed.state.tolist() == [_state([row[1:3] for row in lane]) for lane in lanes]
    bins = [(min(int((row[1] - first) * 4 / 30), 3), _KINDS[row[0]][0] == 1) for row in every[: len(events)]]
    assert [(others[n], packets[n]) for n in range(4)] == [
        (bins.count((n, False)), bins.count((n, True))) for n in range(4)
    ]


def _state(spans: list[tuple[int, int]]) -> int:
    keys = [(start, start - end) for start, end in spans]
    unsorted = any(b < a for a, b in pairwise(keys))
    crossed = any(start < max(end for _, end in spans[:n]) for n, (start, _) in enumerate(spans) if n)
    return native.UNSORTED * unsorted | native.CROSSED * crossed


_SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-20, 60), st.integers(0, 12), st.integers(0, 7)), max_size=30
)


def _tracks(spans: list[tuple[int, int, int, int]], counters: list[bool]) -> native.Tracks:
    spans = sorted(spans, key=lambda span: span[:2])
    track, start, lasted, style = (np.array([s[i] for s in spans], np.int64) for i in range(4))
    begin, number = np.searchsorted(track, np.arange(4)), np.arange(len(spans), dtype=np.int32)
    return native.Tracks(
        begin, start, start + lasted, number, (number * 7 % 5).astype(np.int32), style.astype(np.uint8),
        is_counter=np.array(counters),
    )  # fmt: skip


def _merge(of: native.Tracks, bin_ns: int) -> list[list[tuple[int, ...]]]:
    """Return the merged records of each track: start, end, event, name, style, busy, longest, count."""
    out = []
    for track, (a, b) in enumerate(pairwise(of.begin.tolist())):
        groups: list[list[int]] = []
        for n in range(a, b):
            long = of.end[n] - of.start[n] >= bin_ns
            before = groups[-1][-1] if groups else None
            apart = before is None or long or of.end[before] - of.start[before] >= bin_ns
            if apart or of.start[n] // bin_ns != of.start[before] // bin_ns:
                groups.append([])
            groups[-1].append(n)
        out.append([_sum(of, group, track) for group in groups])
    return out


def _sum(of: native.Tracks, group: list[int], track: int) -> tuple[int, ...]:
    def longest(n: int) -> int:
        if of.longest is not None:
            return int(of.longest[n])
        assert of.is_counter is not None
        return int(of.name[n] if of.is_counter[track] else of.end[n] - of.start[n])

    best = max(group, key=longest)
    style = of.style[group]
    busy = sum(int(of.end[n] - of.start[n] if of.busy is None else of.busy[n]) for n in group)
    count = sum(1 if of.count is None else int(of.count[n]) for n in group)
    return (
        int(of.start[group[0]]), int(of.end[group].max()), int(of.event[best]), int(of.name[best]),
        int(np.bitwise_and.reduce(style) & 1 | np.bitwise_or.reduce(style) & 6), busy, longest(best), count,
    )  # fmt: skip


def _listed(of: native.Tracks) -> list[list[tuple[int, ...]]]:
    assert of.busy is not None and of.longest is not None and of.count is not None
    rows = list(zip(of.start, of.end, of.event, of.name, of.style, of.busy, of.longest, of.count, strict=True))
    return [[tuple(map(int, row)) for row in rows[a:b]] for a, b in pairwise(of.begin.tolist())]


@given(_SPANS, st.lists(st.booleans(), min_size=3, max_size=3), st.integers(1, 20), st.integers(1, 60))
def test_neighbours_in_a_bin_are_merged(spans: list[Any], counters: list[bool], narrow: int, wide: int) -> None:
    single = _tracks(spans, counters)
    merged = single.merge(narrow, len(spans))
    assert merged is not None
    assert _listed(merged) == _merge(single, narrow)
    again = merged.merge(wide, len(merged.start))
    assert again is not None
    assert _listed(again) == _merge(merged, wide)


@given(_SPANS, st.integers(1, 20))
def test_more_records_than_there_is_room_for_are_refused(spans: list[Any], bin_ns: int) -> None:
    tracks = _tracks(spans, [False] * 3)
    count = sum(map(len, _merge(tracks, bin_ns)))
    assert tracks.merge(bin_ns, count) is not None
    assert not count or tracks.merge(bin_ns, count - 1) is None


@given(st.lists(st.integers(-5, 5) | st.sampled_from([2**40, -(2**62), 2**62 - 1])))
def test_gaps_are_counted_by_their_size(times: list[int]) -> None:
    near = native.count_gaps(np.array(times, np.int64))
    assert near[:63].tolist() == [sum(b - a < (2**n if n else 1) for a, b in pairwise(times)) for n in range(63)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20))
def test_tracks_whose_ends_fall_are_tangled(rows: list[tuple[int, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    begin = np.searchsorted([row[0] for row in rows], np.arange(5))
    found = native.find_tangled(begin, np.array([row[1] for row in rows], np.int64))
    ends = {track: [end for _, end in own] for track, own in groupby(rows, key=lambda row: row[0])}
    assert found.tolist() == [any(b < a for a, b in pairwise(ends.get(track, []))) for track in range(4)]


@pytest.mark.parametrize("start", [2**62, -(2**62)])
def test_times_of_damaged_logs_wrap_around(start: int) -> None:
    single = native.Tracks(
        np.array([0, 2]), np.array([-start, start]), np.array([start, -start]), *np.zeros((2, 2), np.int32),
        np.zeros(2, np.uint8), is_counter=np.array([False]),
    )  # fmt: skip
    merged = single.merge(1 << 44, 2)
    assert merged is not None
    assert int(merged.count.sum()) == 2  # type: ignore[union-attr]
