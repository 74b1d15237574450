"""The figures and the verdict of an experiment, from SYNTHETIC stamps of its launches."""

from __future__ import annotations

from functools import partial

import polars as pl
import pytest
from stamp_series import stamps

from tracecorr.analyze.experiment import (
    as_rows,
    judge_latency,
    measure_overhead,
    measure_yields,
    summarize_phases,
    summarize_throughput,
)

NOTHING = pl.DataFrame(schema={"role": pl.String, "ratio": pl.Float64})
judge = partial(judge_latency, kept=1.2)


def test_figures_of_each_phase() -> None:
    rows = {(r["phase"], r["role"]): r for r in summarize_phases(stamps(100, 100)).to_dicts()}
    assert list(rows) == [("high_alone", "high"), ("low_alone", "low"), ("together", "high"), ("together", "low")]
    alone = rows["high_alone", "high"]
    assert (alone["launches"], alone["call_p50_ns"], alone["call_std_ns"]) == (100, 5000, 0)
    assert 90_000 < alone["done_p50_ns"] < 110_000
    assert 8_000 < alone["per_second"] < 12_000


def test_throughput_counts_both() -> None:
    rows = as_rows("together", 0, {"high": [(0, 1, 10**9)], "low": [(0, 1, 5), (5, 6, 10)]})
    assert summarize_throughput(rows).rows() == [("together", 1, 3, 3.0)]


def test_when_the_low_one_stopped_and_resumed() -> None:
    rows = as_rows(
        "together", 0, {"high": [(100, 101, 200), (500, 501, 600)], "low": [(0, 1, 90), (90, 91, 150), (150, 151, 260)]}
    )
    found = measure_yields(rows).select("low_completions", "stop_ns", "resume_ns").rows()
    assert found == [(1, 50, 160), (0, None, None)]


def test_a_second_program_that_is_being_loaded_launches_nothing() -> None:
    rows = as_rows("sequential", 0, {"high": [(0, 1, 10**9)], "low": [(10**11, 10**11 + 1, 10**11 + 10**9)]})
    again = rows.with_columns(pl.lit(1, pl.Int64).alias("round"))
    assert summarize_throughput(pl.concat([rows, again])).rows() == [("sequential", 2, 4, 1.0)]


def test_a_low_one_that_begins_later_does_not_resume() -> None:
    rows = as_rows("together", 0, {"high": [(0, 1, 10), (95, 96, 110)], "low": [(90, 91, 120)]})
    assert measure_yields(rows)["resume_ns"].to_list() == [None, 25]


def apart(low_from_ns: int) -> pl.DataFrame:
    """Return SYNTHETIC stamps of a high one that slows down after half of its time, and a low one from then on."""
    alone = [(i * 10**6, i * 10**6 + 10, i * 10**6 + 100_000) for i in range(100)]
    beside = [(a, b, c + 300_000 * (i >= 50)) for i, (a, b, c) in enumerate(alone)]
    low = [(low_from_ns + i * 10**6, low_from_ns + i * 10**6 + 10, low_from_ns + i * 10**6 + 900_000)
           for i in range(50)]  # fmt: skip
    return pl.concat([as_rows("high_alone", 0, {"high": alone}), as_rows("together", 0, {"high": beside, "low": low})])


def test_launches_that_nobody_disturbed_tell_nothing() -> None:
    """Two programs that start together need not be ready together: here the low one comes when the high one is gone."""
    found = judge(apart(low_from_ns=10**9), NOTHING)
    assert found.outcome == "UNKNOWN"
    assert found.reason.startswith("only 0 of 100 launches of the high one ran while the low one was at work, ")
    rows = {(r["phase"], r["role"]): r["beside"] for r in summarize_phases(apart(low_from_ns=10**9)).to_dicts()}
    assert rows == {("high_alone", "high"): None, ("together", "high"): 0, ("together", "low"): 0}


def test_the_verdict_takes_the_launches_beside_the_low_one() -> None:
    stamps = apart(low_from_ns=50 * 10**6)
    found = judge(stamps, NOTHING)
    assert (found.outcome, found.counts["launches_beside"]) == ("FAIL", 50)
    assert found.reason.endswith("; 50 of 100 launches ran beside it)")
    fast = stamps.filter(
        (pl.col("role") == "low") | (pl.col("start_ns") < 50 * 10**6) | (pl.col("phase") != "together")
    )
    assert judge(fast, NOTHING).outcome == "UNKNOWN"


def test_high_keeps_its_latency() -> None:
    assert judge(stamps(100, 100), NOTHING).outcome == "PASS"
    assert judge(stamps(100, 300), NOTHING).outcome == "FAIL"
    few = judge(stamps(100, 100, count=5), NOTHING)
    assert few.outcome == "UNKNOWN" and few.reason.startswith("5 launches of the high one were stamped, ")


def test_a_limit_that_is_kept_by_what_may_be_chance_is_told_so() -> None:
    """Of 100 launches P95 together lies below the limit, the end of its interval above it."""
    near, sure = (judge(stamps(100, 100), NOTHING, kept=kept) for kept in (1.2, 1.5))
    assert near.reason.endswith("it is not longer than the limit, but that may be chance")
    assert (sure.outcome, sure.reason.endswith("limit 1.5 times that alone)")) == ("PASS", True)


def test_a_limit_that_a_few_launches_exceed_by_chance_is_unknown() -> None:
    """Four of sixty launches waited: P95 lies among them, yet another four might not have."""

    def series(phase: str, waited: tuple[int, ...], all_ns: int = 0) -> pl.DataFrame:
        took = [100_000 + all_ns + i % 7 * 1000 + (1_000_000 if i in waited else 0) for i in range(60)]
        rows = [(i * 10**7, i * 10**7 + 5000, i * 10**7 + ns) for i, ns in enumerate(took)]
        return as_rows(phase, 0, {"high": rows})

    low = as_rows("together", 0, {"low": [(i * 10**6, i * 10**6, i * 10**6 + 50_000) for i in range(600)]})
    late = pl.concat([series("high_alone", ()), series("together", (5, 20, 35, 50)), low])
    found = judge(late, NOTHING)
    assert found.counts["together_p95_ns"] > 2 * found.counts["alone_p95_ns"]
    assert found.counts["low_ns"] <= 0
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but that may be chance")
    assert judge(late, NOTHING, kept=100).outcome == "PASS"
    # All a little later, within the limit: that is sure, but no more than that.
    later = pl.concat([series("high_alone", ()), series("together", (5, 20, 35, 50), all_ns=10_000), low])
    found = judge(later, NOTHING)
    assert 0 < found.counts["low_ns"] < 0.2 * found.counts["alone_p95_ns"]
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but that may be chance")
    assert judge(later, NOTHING, kept=1.05).outcome == "FAIL"


@pytest.mark.parametrize(
    ("together", "outcome"), [(60, "PASS"), (100, "PASS"), (105, "UNKNOWN"), (130, "UNKNOWN"), (400, "FAIL")]
)
def test_few_launches_near_the_limit_are_unknown(together: int, outcome: str) -> None:
    """SYNTHETIC: of 30 launches all lie below P95 with a chance of one in five."""
    few = judge(stamps(100, together, count=30), NOTHING)
    assert (few.outcome, few.reason.endswith("but that may be chance")) == (outcome, outcome == "UNKNOWN")


def test_launches_too_few_to_show_a_percentile_may_all_be_faster() -> None:
    """Of the 30 launches alone 28 are faster than the limit demands, and the interval knows no longer one beside."""

    def rows(phase: str, took_us: list[int]) -> pl.DataFrame:
        return as_rows(
            phase, 0, {"high": [(i * 10**6, i * 10**6, i * 10**6 + us * 1000) for i, us in enumerate(took_us)]}
        )

    low = as_rows("together", 0, {"low": [(i * 10**6, i * 10**6, i * 10**6 + 50_000) for i in range(30)]})
    found = judge(pl.concat([rows("high_alone", [100] * 28 + [130] * 2), rows("together", [125] * 30), low]), NOTHING)
    assert found.outcome == "UNKNOWN"
    assert found.reason.endswith(": so few launches beside the low one may all have been faster than P95")


def test_costly_instrumentation_makes_it_unknown() -> None:
    plain = stamps(100, 100)
    slow = plain.with_columns(pl.col("complete_ns") + 60_000)
    overhead = measure_overhead(plain, slow)
    assert overhead.filter(pl.col("phase") == "high_alone")["ratio"].item() > 1.2
    assert judge(plain, overhead).outcome == "UNKNOWN"
    assert judge(plain, measure_overhead(plain, plain)).outcome == "PASS"
