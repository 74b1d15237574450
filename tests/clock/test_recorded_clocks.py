"""RECORDED traces on other clocks than CLOCK_MONOTONIC: the truth, which their marks tell, lies within all bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.recorded_clocks import EVIDENCE, measure_clock

# The widest median that was measured, in us, by what is known of the clock.
_MEDIAN_US = {
    ("t1-x86-tsc", "x86-tsc"): (6, 70, 70), ("mt-local", "local"): (14, 45, 45),
    ("t1-local-clock", "local"): (6, 50, 50),
    ("writes-local", "local"): (10, 10, 10),
}  # fmt: skip


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize(("name", "clock"), _MEDIAN_US)
def test_the_truth_lies_within_the_bounds_of_every_row(
    name: str, clock: str, evidence: str, data_folder: Path, tmp_path: Path
) -> None:
    score = measure_clock(data_folder / "captures" / name, tmp_path, evidence, clock)
    assert score.method == ("samples" if evidence == "samples" else "causal_pairs")
    assert score.rows > 1_000
    assert score.outside == 0, score
    assert score.width_ns[0] <= 1_000 * _MEDIAN_US[name, clock][EVIDENCE.index(evidence)]


@pytest.mark.parametrize("name", ["t1-x86-tsc", "mt-threads", "kfd-6.12-t1"])
def test_so_it_does_where_nobody_says_which_clock_it_is(name: str, data_folder: Path, tmp_path: Path) -> None:
    score = measure_clock(data_folder / "captures" / name, tmp_path, "none")
    assert (score.outside, score.method) == (0, "causal_pairs")
