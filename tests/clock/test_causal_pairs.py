"""HAND-MADE: what pairs of cause and effect say of a clock, in numbers that can be checked by hand."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.clock.causal_pairs import (
    bound_spans,
    bracket_doorbells,
    bracket_packets,
    list_creations,
    list_moments,
    pair_created_rings,
    pair_creations,
    pair_doorbells,
)
from tracecorr.clock.hull import NO_HIGH, NO_LOW
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED

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


def test_indexes_up_to_one_that_came_again_pair_nothing() -> None:
    """Of the ring's two lives the store of 3 is of the first, its line of the second; other rings are no concern."""
    stores = [(1, 0xA, n, at) for n, at in ((3, 30), (5, 50), (5, 150), (8, 180))] + [(1, 0xB, 2, 40)]
    packets = [(1, 0xA, n, at, at + 9) for n, at in ((3, 125), (5, 145), (8, 175))] + [(1, 0xB, 2, 35, 45)]
    found = pair_doorbells(
        pl.DataFrame(stores, schema=STORES, orient="row"), pl.DataFrame(packets, schema=PACKETS, orient="row")
    )
    assert sorted(found["stamp_ns"]) == [40, 180]


def test_a_store_without_its_ring_is_no_pair() -> None:
    found = pair_doorbells(
        pl.DataFrame([(1, None, 5, 100)], schema=STORES, orient="row"),
        pl.DataFrame([(1, None, 5, 10, 20)], schema=PACKETS, orient="row"),
    )
    assert found.is_empty()


CREATIONS = {"thread": pl.UInt32, "ring": pl.UInt64, "from_ns": pl.Int64, "to_ns": pl.Int64}
PROBES = {"thread": pl.UInt32, "ring": pl.UInt64, "stamp_ns": pl.Int64, "end_stamp_ns": pl.Int64}


def test_a_recorded_ring_lies_in_its_creation_of_the_log() -> None:
    creations = pl.DataFrame(
        [(1, 0xA, 10_000, 21_000), (1, 0xB, 30_000, 41_000), (1, 0xC, 1, 2), (1, 0xC, 3, 4)],
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
    """Return creations; the last line of each was printed up to 1 us after its stamp, which is cut."""
    return pl.DataFrame(
        [(thread, a * US, (b + 1) * US) for a, b in spans],
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


def _log(*lines: tuple[int, str, int]) -> pl.DataFrame:
    """Return lines of a log: thread, name, time in us."""
    rows = [
        {"thread": thread, "name": name, "stamp_ns": us * US, "end_stamp_ns": None, "layer": "aql", "ring": 7,
         "packet_index": n, "file": 0, "offset": n}
        for n, (thread, name, us) in enumerate(lines)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"end_stamp_ns": pl.Int64, "thread": pl.UInt32})


def test_a_store_lies_behind_the_line_of_a_dispatch_and_before_that_of_a_barrier() -> None:
    log = _log((1, "dispatch", 10), (2, "dispatch", 12), (1, "hipOther", 15), (1, "barrier_and", 20))
    packets = log.filter(pl.col("name") != "hipOther").with_columns(at="stamp_ns")
    found = bracket_doorbells(packets, list_moments(log)).select("name", "doorbell_lo_ns", "doorbell_hi_ns")
    assert found.rows() == [
        ("dispatch", 10_000, 16_000), ("dispatch", 12_000, None), ("barrier_and", 15_000, 21_000)
    ]  # fmt: skip


def test_dispatches_one_behind_the_other_may_be_of_one_store_behind_the_last() -> None:
    """As a graph launch of HIP 7.1.0 stores; the fourth has another line before it."""
    log = _log(*((1, "dispatch", us) for us in (10, 12, 14)), (1, "hipOther", 20), (1, "dispatch", 30), (1, "x", 40))
    assert bracket_packets(log)["doorbell_hi_ns"].to_list() == [21_000, 21_000, 21_000, 41_000]


COUNT, MADE, TAKEN = (1, QUEUES_COUNTED), (1, QUEUE_CREATED), (1, QUEUE_SELECTED)


@pytest.mark.parametrize(
    ("lines", "since"), [
        pytest.param([COUNT, MADE, COUNT, MADE], [0, 20_000], id="each has its own"),
        pytest.param([COUNT, MADE, MADE], [0, None], id="that of the second one is missing"),
        pytest.param([COUNT, TAKEN, MADE], [None], id="a queue was taken"),
        pytest.param([COUNT, (2, QUEUE_CREATED), MADE], [None, 0], id="another thread's"),
        pytest.param([COUNT, (1, "dispatch"), MADE], [0], id="other lines between"),
    ],
)  # fmt: skip
def test_a_count_is_that_of_the_next_line_that_answers_one(
    lines: list[tuple[int, str]], since: list[int | None]
) -> None:
    log = _log(*((thread, name, 10 * n) for n, (thread, name) in enumerate(lines)))
    assert list_creations(log)["from_ns"].to_list() == since
