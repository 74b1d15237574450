"""HAND-MADE: what pairs of cause and effect say of a clock, in numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, no_bounds
from tracecorr.clock.causal_pairs import (
    bound_silences,
    bound_spans,
    count_creations,
    drop_contradicted,
    pair_created_rings,
    pair_creations,
    pair_doorbells,
)
from tracecorr.clock.clock_map import ClockMap, fit_clock_map

# A stamp of the trace may stand up to 3 ns after, and up to 7 ns before the time that it means.
STEPS = (3, 7)
SPAN = {"stamp_ns": pl.Int64, "end_stamp_ns": pl.Int64, "from_ns": pl.Int64, "to_ns": pl.Int64}


def test_what_happens_between_two_lines_bounds_the_clock_from_both_sides() -> None:
    """From 1000 to 1500 on the trace's clock, after 10,000 and before 12,000 on the log's."""
    found = bound_spans(pl.DataFrame([(1_000, 1_500, 10_000, 12_000)], schema=SPAN, orient="row"), STEPS)
    # It began at 1007 at the latest, so the offset is 8993 at least; it ended at 1497 at the earliest.
    assert found.stamp_ns.tolist() == [1_000, 1_500]
    assert found.low_ns.tolist() == [8_993, NO_LOW]
    assert found.high_ns.tolist() == [NO_HIGH, 10_503]


def test_a_missing_line_bounds_nothing() -> None:
    rows = [(1_000, 1_500, None, 12_000), (2_000, 2_500, 10_000, None)]
    found = bound_spans(pl.DataFrame(rows, schema=SPAN, orient="row"), STEPS)
    assert found.low_ns.tolist() == [NO_LOW, 7_993, NO_LOW, NO_LOW]
    assert found.high_ns.tolist() == [NO_HIGH, NO_HIGH, 10_503, NO_HIGH]


STORES = {"thread": pl.UInt32, "ring": pl.UInt64, "packet_index": pl.Int64, "stamp_ns": pl.Int64}
PACKETS = {"thread": pl.UInt32, "ring": pl.UInt64, "packet_index": pl.Int64,
           "doorbell_lo_ns": pl.Int64, "doorbell_hi_ns": pl.Int64}  # fmt: skip


def test_a_store_is_that_of_the_packet_with_its_thread_ring_and_index() -> None:
    stores = [(1, 0xA, 5, 100), (1, 0xB, 5, 200), (2, 0xA, 5, 300), (1, 0xA, 6, 400)]
    packets = [(1, 0xA, 5, 10, 20), (2, 0xA, 5, 30, 40), (1, 0xA, 7, 50, 60)]
    found = pair_doorbells(
        pl.DataFrame(stores, schema=STORES, orient="row"), pl.DataFrame(packets, schema=PACKETS, orient="row")
    )
    assert sorted(found.rows()) == [(100, 100, 10, 20), (300, 300, 30, 40)]


@pytest.mark.parametrize("twice", ["store", "packet"])
def test_what_is_there_twice_is_no_pair(twice: str) -> None:
    """A ring is made again, and its indexes begin anew: which of both is meant is not known."""
    stores = [(1, 0xA, 5, 100)] + [(1, 0xA, 5, 900)] * (twice == "store")
    packets = [(1, 0xA, 5, 10, 20)] + [(1, 0xA, 5, 90, 95)] * (twice == "packet")
    found = pair_doorbells(
        pl.DataFrame(stores, schema=STORES, orient="row"), pl.DataFrame(packets, schema=PACKETS, orient="row")
    )
    assert found.is_empty()


def test_a_store_without_its_ring_is_no_pair() -> None:
    found = pair_doorbells(
        pl.DataFrame([(1, None, 5, 100)], schema=STORES, orient="row"),
        pl.DataFrame([(1, None, 5, 10, 20)], schema=PACKETS, orient="row"),
    )
    assert found.is_empty()


CREATIONS = {"thread": pl.UInt32, "ring": pl.UInt64, "from_ns": pl.Int64, "to_ns": pl.Int64}
PROBES = {"thread": pl.UInt32, "ring": pl.UInt64, "stamp_ns": pl.Int64, "end_stamp_ns": pl.Int64}


def test_a_recorded_ring_lies_in_its_creation_of_the_log() -> None:
    """The line at its end is stamped in whole microseconds, cut: it was printed up to 1000 ns later."""
    creations = pl.DataFrame(
        [(1, 0xA, 10_000, 20_000), (1, 0xB, 30_000, 40_000), (1, 0xC, 1, 2), (1, 0xC, 3, 4)],
        schema=CREATIONS, orient="row",
    )  # fmt: skip
    probes = pl.DataFrame(
        [(1, 0xA, 100, 150), (1, 0xB, 200, None), (2, 0xB, 300, 350), (1, 0xC, 5, 6)], schema=PROBES, orient="row"
    )
    found = pair_created_rings(creations, probes)
    assert sorted(found.rows()) == [(100, 150, 10_000, 21_000), (200, 200, 30_000, 41_000)]


def test_a_ring_that_was_made_twice_is_no_pair() -> None:
    creations = pl.DataFrame([(1, 0xA, 10_000, 20_000)], schema=CREATIONS, orient="row")
    probes = pl.DataFrame([(1, 0xA, 100, 150), (1, 0xA, 900, 950)], schema=PROBES, orient="row")
    assert pair_created_rings(creations, probes).is_empty()
    # The line of the first creation that comes before its own one was lost.
    again = pl.DataFrame([(1, 0xA, None, 5_000), (1, 0xA, 10_000, 20_000)], schema=CREATIONS, orient="row")
    assert pair_created_rings(again, probes[:1]).is_empty()
    assert pair_created_rings(again[:1], probes[:1]).is_empty()
    assert len(pair_created_rings(again[1:], probes[:1])) == 1


US = 1_000


def creations(*spans: tuple[int, int], thread: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        [(thread, a * US, b * US) for a, b in spans],
        schema={"thread": pl.UInt32, "from_ns": pl.Int64, "to_ns": pl.Int64}, orient="row",
    )  # fmt: skip


def ioctls(*spans: tuple[int, int], thread: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        [(thread, a * US, b * US) for a, b in spans],
        schema={"thread": pl.UInt32, "stamp_ns": pl.Int64, "end_stamp_ns": pl.Int64}, orient="row",
    )  # fmt: skip


def test_the_one_shift_that_fits_all_creations_tells_whose_ioctl_is_whose() -> None:
    """The trace shows 5000 us less; a third ioctl lies in none."""
    found = pair_creations(
        creations((6_000, 6_400), (6_900, 7_300)), ioctls((1_100, 1_300), (1_500, 1_600), (2_000, 2_200)), STEPS
    )
    assert found.rows() == [
        (1_100 * US, 1_300 * US, 6_000 * US, 6_401 * US), (2_000 * US, 2_200 * US, 6_900 * US, 7_301 * US)
    ]  # fmt: skip


def test_the_last_ioctl_of_the_first_creation_is_its_own() -> None:
    """ROCr makes a queue for itself within the first creation of a process, before the one that was asked for."""
    found = pair_creations(
        creations((6_000, 6_900), (7_500, 7_800)), ioctls((1_100, 1_150), (1_300, 1_500), (2_550, 2_750)), STEPS
    )
    assert found["stamp_ns"].to_list() == [1_300 * US, 2_550 * US]


def test_a_wide_first_creation_does_not_lend_a_later_ioctl_to_a_narrow_one() -> None:
    """Times of a recorded capture, us, on one clock: the third ioctl alone fits the second creation at every shift.

    By the first creation alone the trace may be shifted so far that the fourth ioctl falls into the second creation.
    """
    made = creations((0, 12_857), (56_759, 61_353), (61_663, 63_329))
    calls = ioctls((5_723, 5_725), (9_521, 9_522), (57_993, 57_994), (62_836, 62_837))
    assert pair_creations(made, calls, STEPS)["stamp_ns"].to_list() == [9_521 * US, 57_993 * US, 62_836 * US]


def test_what_two_ioctls_of_a_creation_allow_is_said_where_either_may_be_its_own() -> None:
    """Not each shift that fits the second creation leaves the later one in the first."""
    made, calls = creations((6_000, 6_400), (7_000, 7_600)), ioctls((1_050, 1_060), (1_300, 1_310), (2_300, 2_310))
    (first, _) = pair_creations(made, calls, STEPS).rows()
    assert first == (1_300 * US, 1_060 * US, 6_000 * US, 6_401 * US)


def test_two_shifts_that_fit_all_creations_say_nothing() -> None:
    twice = ioctls((1_100, 1_300), (2_000, 2_200), (5_100, 5_300), (6_000, 6_200))
    assert pair_creations(creations((6_000, 6_400), (6_900, 7_300)), twice, STEPS).is_empty()


def test_one_creation_fits_any_shift() -> None:
    assert pair_creations(creations((6_000, 6_400)), ioctls((1_100, 1_300)), STEPS).is_empty()


def test_creations_that_contradict_the_doorbells_by_less_than_a_suspend_say_nothing() -> None:
    """The doorbells show a clock that is 5000 us behind; half a second is that of a machine that slept."""
    stamps = np.arange(3_000, 4_000, 50) * US
    doorbells = Bounds(stamps, np.full(20, 4_990 * US), np.full(20, 5_010 * US))
    for shift_us, told in ((5_000, True), (6_400, False), (3_600, False), (505_000, True)):
        found = pair_creations(
            creations((1_000 + shift_us, 1_400 + shift_us), (1_900 + shift_us, 2_300 + shift_us)),
            ioctls((1_100, 1_300), (2_000, 2_200)), STEPS,
        )  # fmt: skip
        assert len(found) == 2
        assert drop_contradicted(found, doorbells, STEPS).height == (2 if told else 0), shift_us
    assert drop_contradicted(found, no_bounds(), STEPS).height == 2


def test_ioctls_of_other_threads_are_in_no_creation() -> None:
    other = ioctls((1_100, 1_300), (2_000, 2_200), thread=2)
    assert pair_creations(creations((6_000, 6_400), (6_900, 7_300)), other, STEPS).is_empty()


def test_a_creation_without_an_ioctl_says_nothing() -> None:
    assert pair_creations(creations((6_000, 6_400), (9_900, 9_950)), ioctls((1_100, 1_300)), STEPS).is_empty()


def test_an_ioctl_as_long_as_its_creation_fits_it_and_a_longer_one_does_not() -> None:
    """The last line is cut by up to 1 us, and stamps of the trace are 10 ns apart at most from what they mean."""
    made = creations((6_000, 6_400), (6_900, 7_300))
    for longer_ns, fits in ((0, True), (1_010, True), (1_011, False)):
        calls = ioctls((1_000, 1_400), (1_900, 2_300)).with_columns(pl.col("end_stamp_ns") + longer_ns)
        assert pair_creations(made, calls, STEPS).is_empty() is not fits, longer_ns


def test_an_ioctl_longer_than_the_first_creation_is_not_its_own_though_the_others_are_wide() -> None:
    made = creations((6_000, 6_400), (6_700, 7_900))
    assert pair_creations(made, ioctls((1_000, 1_500), (1_900, 2_300)), STEPS).is_empty()


MADE = {"thread": pl.UInt32, "from_ns": pl.Int64, "to_ns": pl.Int64}
STAMPS = {"thread": pl.UInt32, "stamp_ns": pl.Int64}
# Three creations of a thread, and one of another one.
MADE_ROWS = [(1, 10_000, 20_000), (1, 30_000, 40_000), (1, 50_000, 60_000), (2, 30_000, 40_000)]


@pytest.mark.parametrize(
    ("stamps", "held", "foreign"),
    [
        # All as it was, the first one also with the ioctl of ROCr's own queue.
        ([(1, 12_000), (1, 15_000), (1, 35_000), (1, 55_000), (2, 35_000)], 4, 0),
        # The clock is another one: each is outside.
        ([(1, 22_000), (1, 45_000), (1, 65_000), (2, 45_000)], 0, 4),
        # One record is lost, and no ioctl is left over.
        ([(1, 15_000), (1, 55_000)], 2, 0),
        # One is lost, and one is of a creation whose lines are.
        ([(1, 15_000), (1, 55_000), (1, 95_000)], 2, 1),
        # Several are left over, of one creation.
        ([(1, 15_000), (1, 35_000), (1, 95_000), (1, 99_000), (2, 95_000)], 2, 2),
        # Of the second thread none is recorded. Rounded stamps reach over the edges, the line before an end is cut.
        ([(1, 9_993), (1, 41_003), (1, 61_003)], 3, 0),
        ([(1, 9_992), (1, 41_004)], 0, 2),
        ([], 0, 0),
    ],
)
def test_creations_hold_their_ioctls_or_these_are_elsewhere(
    stamps: list[tuple[int, int]], held: int, foreign: int
) -> None:
    creations = pl.DataFrame(MADE_ROWS, schema=MADE, orient="row")
    ioctls = pl.DataFrame(stamps, schema=STAMPS, orient="row")
    assert count_creations(creations, ioctls, ClockMap("same_clock"), STEPS) == (held, foreign)


def test_by_another_clock_other_creations_hold_their_ioctls() -> None:
    """Known to 1 us: 8.5 us before its creation, an ioctl may be in it by that clock, and 9 us before it not."""
    creations = pl.DataFrame(MADE_ROWS, schema=MADE, orient="row")
    at = np.arange(4) * 100_000
    later = fit_clock_map(Bounds(at, at * 0 + 7_500, at * 0 + 8_500), "samples", 0.0)
    for stamp, found in ((1_493, (1, 0)), (1_492, (0, 1))):
        ioctls = pl.DataFrame([(1, stamp)], schema=STAMPS, orient="row")
        assert count_creations(creations, ioctls, later, STEPS) == found


# The lines of a thread, us; what is known of its trace's clock: the offset lies within 20 us of zero.
LINES = {1: np.array([0, 10, 100, 110, 300]) * US}


def rough(around_us: int = 20) -> ClockMap:
    at = np.array([-(10**6), 0, 10**6])
    return fit_clock_map(Bounds(at, at * 0 - around_us * US, at * 0 + around_us * US), "samples", 0.0)


def silences(*calls: tuple[int, int], thread: int = 1, around_us: int = 20) -> Bounds:
    return bound_silences(ioctls(*calls, thread=thread), LINES, rough(around_us), STEPS)


def test_a_call_lies_in_the_only_silence_that_is_long_and_near_enough() -> None:
    found = silences((30, 80))
    assert found.stamp_ns.tolist() == [30 * US, 80 * US]
    # After the line at 10 us, and before the one at 100 us, whose stamp is cut.
    assert found.low_ns.tolist() == [10 * US - 30 * US - 7, NO_LOW]
    assert found.high_ns.tolist() == [NO_HIGH, 101 * US - 80 * US + 3]


def test_a_call_that_fits_two_silences_says_nothing() -> None:
    """A call of 5 us at 105 us: it may lie between 100 and 110 as well as behind 110."""
    assert len(silences((103, 108))) == 0


def test_before_the_first_line_and_behind_the_last_one_silence_has_one_end() -> None:
    before, behind = silences((-200, -50)), silences((350, 400))
    assert (before.low_ns.tolist(), before.high_ns.tolist()) == ([NO_LOW] * 2, [NO_HIGH, 51 * US + 3])
    assert (behind.low_ns.tolist(), behind.high_ns.tolist()) == ([-50 * US - 7, NO_LOW], [NO_HIGH] * 2)


def test_a_call_longer_than_any_silence_near_it_says_nothing() -> None:
    assert len(silences((0, 120))) == 0


def test_a_call_may_be_longer_than_its_silence_by_what_the_clock_drifts() -> None:
    """The silence lasts 91 us at most; a clock that is 1000 ppm fast shows 91.091 us, and a nanosecond of rounding."""
    for end_ns, fits in ((5_000 + 91_010, True), (5_000 + 91_102, True), (5_000 + 91_103, False)):
        call = pl.DataFrame({"thread": [1], "stamp_ns": [5_000], "end_stamp_ns": [end_ns]})
        assert (len(bound_silences(call, LINES, rough(), STEPS)) > 0) is fits, end_ns


def test_a_call_of_an_unknown_thread_or_without_an_end_says_nothing() -> None:
    assert len(silences((30, 80), thread=2)) == 0
    assert len(silences((80, 30))) == 0
    half = ioctls((30, 80)).with_columns(end_stamp_ns=pl.lit(None, pl.Int64))
    assert len(bound_silences(half, LINES, rough(), STEPS)) == 0


def test_only_what_is_still_possible_counts() -> None:
    """With an offset known to 1 us a call of 5 us at 103 us has one silence left, with 20 us it has two."""
    assert len(silences((103, 108), around_us=1)) == 2


def test_each_thread_has_its_own_silences() -> None:
    """The second thread prints at 60 us, so that its call of 30 us ends before; the first one does not."""
    lines = {**LINES, 2: np.array([0, 60, 300]) * US}
    both = pl.concat([ioctls((30, 80)), ioctls((25, 55), thread=2)])
    found = bound_silences(both, lines, rough(4), STEPS)
    highs = dict(zip(found.stamp_ns.tolist(), found.high_ns.tolist(), strict=True))
    assert (highs[80 * US], highs[55 * US]) == (101 * US - 80 * US + 3, 61 * US - 55 * US + 3)


def test_a_line_may_have_been_printed_behind_a_call_that_its_cut_stamp_puts_it_before() -> None:
    """0.2 us at 100.3 us at the earliest: the line of 100 us may be as late as 100.999 us, and so behind the call."""
    call = pl.DataFrame({"thread": [1], "stamp_ns": [101_300], "end_stamp_ns": [101_500]})
    assert len(bound_silences(call, LINES, rough(1), STEPS)) == 0


def test_a_call_may_be_as_late_as_what_is_known_of_the_clock_allows() -> None:
    """10 us at 85 us: before the line of 100 us, or 15 us later between those of 100 and 110 us."""
    assert len(silences((85, 95))) == 0
    assert len(silences((85, 95), around_us=4)) == 2
