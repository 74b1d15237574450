"""HAND-MADE: which shift of a clock puts an ioctl into every creation of a queue."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracecorr.clock.creation_shift import bound_by_shift

OFFSET_NS = 77_000_000
STEPS = (500, 500)
# When each creation began and ended, us; its ioctl is the part in the middle.
MADE = [(1_000, 2_000), (2_300, 3_900), (9_000, 9_800), (20_000, 21_400)]


def creations(process: int = 0) -> pl.DataFrame:
    return pl.DataFrame({
        "process": [process] * len(MADE), "from_ns": [a * 1000 for a, _ in MADE], "to_ns": [b * 1000 for _, b in MADE],
    })  # fmt: skip


def ioctls(spans: list[tuple[int, int]], process: int = 0) -> pl.DataFrame:
    return pl.DataFrame({
        "process": [process] * len(spans), "stamp_ns": [a * 1000 - OFFSET_NS for a, _ in spans],
        "end_stamp_ns": [b * 1000 - OFFSET_NS for _, b in spans],
    })  # fmt: skip


OWN = [(a + 300, b - 200) for a, b in MADE]


def test_the_only_shift_is_found_though_ioctls_of_others_lie_between() -> None:
    found = bound_by_shift(creations(), ioctls([(100, 500), *OWN, (30_000, 30_400)]), STEPS)
    assert len(found) == len(MADE)
    assert found.low_ns.max() <= OFFSET_NS <= found.high_ns.min()
    assert found.high_ns.min() - found.low_ns.max() < 1_000_000


def test_two_shifts_say_nothing() -> None:
    later = [(a + 50_000, b + 50_000) for a, b in OWN]
    assert len(bound_by_shift(creations(), ioctls(OWN + later), STEPS)) == 0


def test_a_creation_without_its_ioctl_says_nothing() -> None:
    assert len(bound_by_shift(creations(), ioctls(OWN[:-1]), STEPS)) == 0


def test_another_process_says_nothing() -> None:
    assert len(bound_by_shift(creations(), ioctls(OWN, process=1), STEPS)) == 0


def test_two_creations_are_too_few() -> None:
    assert len(bound_by_shift(creations().head(2), ioctls(OWN[:2]), STEPS)) == 0


def test_the_bounds_are_those_of_each_creation_with_its_steps() -> None:
    """The ioctl lies between the lines, give or take the steps of its stamps and what the clock drifts meanwhile."""
    found = bound_by_shift(creations(), ioctls(OWN), STEPS)
    for k, ((start, end), (enter, leave)) in enumerate(zip(MADE, OWN, strict=True)):
        low, high = (start - enter) * 1000 + OFFSET_NS, (end - leave) * 1000 + OFFSET_NS
        # All four lie 300 us behind the first line and 200 us before the last one.
        assert found.low_ns[k] == low - STEPS[1] - 1_000
        assert found.high_ns[k] == high + STEPS[0] + 1_000


def test_three_creations_are_enough() -> None:
    assert len(bound_by_shift(creations().head(3), ioctls(OWN[:3]), STEPS)) == 3


@pytest.mark.parametrize("ppm", [-550, 550])
def test_a_clock_that_drifts_between_creations_is_followed(ppm: float) -> None:
    """Ten seconds at 550 ppm are 5.5 ms, more than a creation takes."""
    spans = [(start + n * 10_000_000, end + n * 10_000_000) for n, (start, end) in enumerate(MADE)]
    made = pl.DataFrame({
        "process": [0] * 4, "from_ns": [a * 1000 for a, _ in spans], "to_ns": [b * 1000 for _, b in spans],
    })  # fmt: skip
    drifted = [tuple(round(at * (1 - ppm * 1e-6)) for at in (start + 300, end - 200)) for start, end in spans]
    found = bound_by_shift(made, ioctls(drifted), STEPS)
    assert len(found) == 4
    truth = OFFSET_NS + ppm * 1e-6 * np.array([start + 300 for start, _ in spans]) * 1000
    assert (found.low_ns - 2_000 <= truth).all()
    assert (truth <= found.high_ns + 2_000).all()


def test_one_ioctl_is_not_in_two_creations() -> None:
    """Creations of two threads at a time hold two ioctls; one alone is none of either for sure."""
    twice = pl.concat([creations(), creations().with_columns(pl.col("from_ns") + 1000)])
    assert len(bound_by_shift(twice, ioctls(OWN), STEPS)) == 0


def test_an_ioctl_longer_than_its_creation_is_another_one() -> None:
    longer = [(a - 300, b + 300) for a, b in MADE]
    assert len(bound_by_shift(creations(), ioctls(longer), STEPS)) == 0


def test_creations_at_other_distances_say_nothing() -> None:
    """Each ioctl fits some creation, but no shift puts one into all of them."""
    moved = [OWN[0], (OWN[1][0] + 900, OWN[1][1] + 900), OWN[2], (OWN[3][0] - 900, OWN[3][1] - 900)]
    assert len(bound_by_shift(creations(), ioctls(moved), STEPS)) == 0
