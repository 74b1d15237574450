"""HAND-MADE: which shift of a clock puts an ioctl into every creation of a queue."""

from __future__ import annotations

import polars as pl

from tracecorr.align.creation_shift import bound_by_shift

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
