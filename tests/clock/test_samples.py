"""SYNTHETIC clock samples and marks: a mark is a sample's by its number and by its time."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.clock.hull import NO_HIGH
from tracecorr.clock.samples import are_of_another_run, bound_marks

SAMPLES = [{"id": number, "mono0": 1_000 * number, "mono1": 1_000 * number + 80} for number in range(3)]


def _marks(*marks: tuple[int, int]) -> pl.DataFrame:
    """Return marks of (id, mono), each stamped 50 ns after its reading."""
    frame = pl.DataFrame(marks, schema={"id": pl.UInt64, "mono": pl.UInt64}, orient="row")
    return frame.with_columns(stamp_ns=pl.col("mono").cast(pl.Int64) + 50)


@pytest.mark.parametrize(
    ("marks", "foreign"),
    [
        ([(0, 0), (1, 1_000)], False),
        ([(0, 9_000_000), (1, 9_001_000)], True),
        ([(0, 9_000_000), (1, 1_000)], False),  # a trace of each of two runs, and the samples of one
        ([(2**64 - 1, 9_000_000), (0, 0)], False),  # a damaged one
        ([(7, 9_000_000)], False),  # no sample has its number
        ([], False),
    ],
)
def test_samples_that_no_mark_agrees_with_are_of_another_run(marks: list[tuple[int, int]], foreign: bool) -> None:
    assert are_of_another_run(_marks(*marks), SAMPLES) == foreign


def test_samples_of_other_clocks_alone_are_of_no_other_run() -> None:
    assert not are_of_another_run(_marks((0, 9_000)), [{"boot": {"mono0": 1, "value": 2, "mono1": 3}}])


def test_a_mark_of_another_run_takes_no_end_from_the_sample_of_its_number() -> None:
    bounds = bound_marks(_marks((1, 1_000), (2, 9_002_000)), SAMPLES, (0, 0))
    assert bounds.low_ns.tolist() == [-50, -50]
    assert bounds.high_ns.tolist() == [30, NO_HIGH]
