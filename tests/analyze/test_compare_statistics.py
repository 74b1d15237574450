"""What of a comparison is more than chance: intervals, samples, resampling (SYNTHETIC values)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from analyze_tables import tables_of

from tracecorr.analyze.compare.counts import compare_kernels
from tracecorr.analyze.compare.statistics import (
    QUANTILES,
    Sample,
    compare_latency,
    count_independent,
    is_significant,
    resample,
)
from tracecorr.analyze.values import Tables


def series(rng: np.random.Generator, count: int, shift: int = 0) -> pl.DataFrame:
    """Return launches whose way from call to packet takes a random time, in steps of the log."""
    ns = (rng.gamma(4, 5, count).astype(np.int64) + shift) * 1000
    moments = ("return_ns", "doorbell_ns", "gpu_start_ns", "gpu_end_ns", "complete_ns")
    tellers = ("call_event", "event", "doorbell_event", "gpu_event")
    errors = (f"error_{end}_{teller}" for end in ("lo", "hi") for teller in tellers)
    empty = {c: pl.Series([None] * count, dtype=pl.Int64) for c in (*moments, *errors, "priority")}
    return pl.DataFrame({"kind": ["dispatch"] * count, "call_ns": np.zeros(count, np.int64), "packet_ns": ns} | empty)


def test_equal_runs_are_hardly_ever_called_different() -> None:
    rng = np.random.default_rng(5)
    wrong = [compare_latency(series(rng, 400), series(rng, 400), 0.95, 4000)["significant"].any() for _ in range(40)]
    assert sum(wrong) <= 6  # 5 % are expected; more than 6 of 40 has a chance below 1 %


@pytest.mark.parametrize(("few", "many"), [(34, 1113), (100, 1000)])
def test_a_few_of_equal_launches_are_hardly_ever_called_different_from_many(few: int, many: int) -> None:
    """SYNTHETIC launches of which 3 of 100 are slow: a few hold hardly a slow one, and show no P99."""
    rng = np.random.default_rng(1)

    def draw(count: int) -> pl.DataFrame:
        slow = rng.exponential(200_000, count) * (rng.random(count) < 0.03)
        return series(rng, count).with_columns(
            packet_ns=pl.Series((rng.normal(20_000, 1000, count) + slow).astype(int))
        )

    wrong = [compare_latency(draw(few), draw(many), 0.95, 4000)["significant"].any() for _ in range(40)]
    assert sum(wrong) <= 6


@pytest.mark.parametrize("count", [20, 24, 200, 2000])
def test_every_interval_holds_the_difference_that_was_measured(count: int) -> None:
    """Also of launches that come in a ramp: they are worth one, and their P99 then falls on their P50."""
    ramp = series(np.random.default_rng(1), count).with_columns(packet_ns=pl.int_range(count) * 20_000 + 100_000)
    even = series(np.random.default_rng(2), count)
    for first, second in ((even, ramp), (ramp, even), (ramp, ramp)):
        for row in compare_latency(first, second, 0.5, 2000).to_dicts():
            assert row["low_ns"] is None or row["low_ns"] <= row["difference_ns"]
            assert row["high_ns"] is None or row["high_ns"] >= row["difference_ns"]
    jitter = compare_latency(even, ramp, 0.95, 2000).row(3, named=True)
    assert jitter["statistic"] == "jitter" and not jitter["significant"]  # one value tells no spread


def test_a_jitter_between_few_independent_values_is_not_significant() -> None:
    """Without bounds the ramp's jitter resamples to 0, and would be called smaller than any other."""
    rng = np.random.default_rng(3)
    ramp = series(rng, 100).with_columns(packet_ns=pl.int_range(100) * 400 + 10_000)
    wide = series(rng, 2000)
    row = compare_latency(wide, ramp, 0.95, 2000).row(3, named=True)
    assert row["statistic"] == "jitter" and row["difference_ns"] < -5_000
    widest = int(wide["packet_ns"].max() - wide["packet_ns"].min())  # type: ignore[operator]
    assert (row["low_ns"], row["high_ns"], row["significant"]) == (-widest, None, None)


def test_intervals_are_as_wide_as_all_rows_of_the_table_together_need() -> None:
    """Two stages are twice as many rows: each of their intervals is that of one stage at half the risk."""
    rng = np.random.default_rng(9)
    first, second = series(rng, 300), series(rng, 300)
    both = [side.with_columns(return_ns="packet_ns") for side in (first, second)]
    together = compare_latency(both[0], both[1], 0.95, 2000).filter(stage="call to packet")
    assert together.equals(compare_latency(first, second, 0.975, 2000))


@pytest.mark.parametrize(
    ("difference", "low", "high", "significant"),
    [
        (2_000, 1, 3_000, True), (2_000, 0, 3_000, False), (-2_000, -3_000, -1, True), (-2_000, -3_000, 0, False),
        (1_000, 1, 3_000, True), (999, 1, 3_000, False), (-1_000, -3_000, -1, True), (-999, -3_000, -1, False),
        (2_000, None, 3_000, None), (2_000, 1, None, True), (-2_000, -3_000, None, None), (-2_000, None, -1, True),
    ],
)  # fmt: skip
def test_a_significant_difference_is_beyond_chance_and_the_step_of_the_stamps(
    difference: int, low: int | None, high: int | None, significant: bool | None
) -> None:
    assert is_significant(difference, low, high) is significant


def test_a_percentile_beyond_all_launches_is_not_judged() -> None:
    """Launches of which the slowest of few are faster than all others: of a P99, their maximum, that tells nothing."""
    rng = np.random.default_rng(4)
    few, many = series(rng, 20), series(rng, 2000, 900)
    first, second = compare_latency(few, many, 0.95, 2000), compare_latency(many, few, 0.95, 2000)
    for rows, bounded, unbounded in ((first, "high_ns", "low_ns"), (second, "low_ns", "high_ns")):
        assert rows["significant"].to_list() == [True, None, None, None]
        assert rows[unbounded].is_null().to_list() == [False, True, True, True]
        assert rows[bounded].null_count() == 0
    # Few that are slower than any other show it: the P99 of all the others is bounded.
    late = compare_latency(series(rng, 2000), series(rng, 20, 900), 0.95, 2000)
    assert late["significant"].to_list() == [True, True, True, None]
    assert late["low_ns"].is_null().to_list() == [False] * 4 and late["high_ns"].null_count() == 3


def test_another_mix_of_priorities_is_no_other_latency() -> None:
    """Packets of low priority take 5 us longer, on both sides; B has more of them."""
    rng = np.random.default_rng(9)

    def side(high: int, low: int) -> pl.DataFrame:
        parts = ((high, 2, 0), (low, 0, 5))
        return pl.concat([series(rng, n, shift).with_columns(priority=pl.lit(p)) for n, p, shift in parts if n])

    mixed = compare_latency(side(1500, 500), side(500, 1500), 0.95, 2000)
    assert not mixed["significant"].any()
    assert mixed["kind"].unique().sort().to_list() == ["dispatch, log priority 0", "dispatch, log priority 2"]
    # Runs that have one priority each are compared as they are: that may be what is asked.
    alone = compare_latency(side(1500, 0), side(0, 1500), 0.95, 2000)
    assert alone["kind"].unique().to_list() == ["dispatch"] and alone["significant"].any()


def test_the_median_of_each_kernel_is_compared_where_there_are_enough_launches() -> None:
    rng = np.random.default_rng(7)
    names = {"slower": 400, "same": 400, "rare": 5}

    def side(shift: int) -> tuple[Tables, pl.DataFrame]:
        launches = [{"kind": "dispatch", "kernel": k} for k, n in enumerate(names.values()) for _ in range(n)]
        kernels = [{"kernel": k, "name": name} for k, name in enumerate(names)]
        steady = [
            series(rng, count, shift if name == "slower" else 0).with_columns(kernel_name=pl.lit(name))
            for name, count in names.items()
        ]
        copies = steady[0].with_columns(pl.lit("copy").alias("kind"), pl.col("packet_ns") * 1_000)
        return tables_of({"launches": launches, "kernels": kernels}), pl.concat([*steady, copies])

    (first, a), (second, b) = side(0), side(5)
    rows = {row["name"]: row for row in compare_kernels(first, second, (a, b), 0.95, 4000).to_dicts()}
    assert rows["slower"]["significant"] and not rows["same"]["significant"]
    assert rows["slower"]["low_ns"] <= 5000 <= rows["slower"]["high_ns"]
    assert rows["slower"]["difference_ns"] == rows["slower"]["b_p50_ns"] - rows["slower"]["a_p50_ns"]
    assert (rows["rare"]["a_dispatches"], rows["rare"]["a_p50_ns"], rows["rare"]["significant"]) == (5, None, None)


def test_what_the_clocks_may_be_apart_is_not_called_significant() -> None:
    """Doorbells of a trace that is known to 9 us are 5 us later in B: that may be its clock alone."""
    rng = np.random.default_rng(6)
    first, second = (
        series(rng, 2000, shift).with_columns(
            doorbell_ns="packet_ns", packet_ns=pl.lit(0, pl.Int64), error_lo_event=0, error_hi_event=1_000
        )
        for shift in (0, 5)
    )
    exact = [side.with_columns(error_lo_doorbell_event=0, error_hi_doorbell_event=0) for side in (first, second)]
    wide = [side.with_columns(error_lo_doorbell_event=8_000, error_hi_doorbell_event=9_000) for side in (first, second)]

    def median(sides: list[pl.DataFrame]) -> dict[str, Any]:
        found = compare_latency(sides[0], sides[1], 0.95, 4000).filter(stage="packet to doorbell")
        return found.row(0, named=True)

    assert median(exact)["significant"] and median(exact)["clock_error_ns"] == 2_000
    assert not median(wide)["significant"] and median(wide)["clock_error_ns"] == 18_000
    assert median(wide)["high_ns"] - median(exact)["high_ns"] == 16_000
    assert not median([first, second])["significant"] and median([first, second])["clock_error_ns"] is None


def test_resampling_agrees_with_drawing_samples() -> None:
    rng = np.random.default_rng(8)
    values = rng.exponential(1000, 300).astype(np.int64)
    drawn = np.sort(values[rng.integers(0, 300, (20_000, 300))], axis=1)[:, [149, 284, 296]]
    ours = resample(Sample(np.sort(values), 300.0), QUANTILES, 20_000, rng)
    assert np.abs(drawn.mean(0) / ours.mean(0) - 1).max() < 0.01
    assert np.abs(np.quantile(drawn, 0.9, axis=0) / np.quantile(ours, 0.9, axis=0) - 1).max() < 0.03
    assert (np.diff(ours, axis=1) >= 0).all()


def test_values_that_come_in_runs_count_less() -> None:
    alike = np.repeat(np.arange(10) % 2, 100).astype(np.int64)
    assert count_independent(alike) < 20
    assert count_independent(np.random.default_rng(1).integers(0, 9, 1000)) > 800
    assert count_independent(np.array([3, 3, 3, 3])) == 4
    # Neighbours agree 4 times and differ 3 times: r = 1 / 7.
    assert count_independent(np.array([1, 1, 9, 9, 1, 1, 9, 9])) == pytest.approx(6)
