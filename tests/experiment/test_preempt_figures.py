"""The figures and the verdict of an experiment, from SYNTHETIC stamps of its launches."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import polars as pl
import pytest
from stamp_series import stamps

from tracecorr.analyze.experiment import (
    add_causes,
    as_rows,
    describe_apart,
    find_limit,
    judge_latency,
    list_overlaps,
    measure_overhead,
    measure_yields,
    summarize_phases,
    summarize_throughput,
    summarize_yields,
)

NOTHING = pl.DataFrame(schema={"role": pl.String, "ratio": pl.Float64})
judge = partial(judge_latency, kept=1.2)


def test_figures_of_each_phase() -> None:
    rows = {(r["phase"], r["role"]): r for r in summarize_phases(stamps(100, 100)).to_dicts()}
    both = [("together", "high"), ("together", "low"), ("apart", "low")]  # The low one goes on when the high one ended.
    assert list(rows) == [("high_alone", "high"), ("low_alone", "low"), *both]
    alone = rows["high_alone", "high"]
    assert (alone["launches"], alone["call_p50_ns"], alone["call_std_ns"]) == (100, 5000, 0)
    assert 90_000 < alone["done_p50_ns"] < 110_000
    assert 8_000 < alone["per_second"] < 12_000


def test_throughput_counts_both() -> None:
    rows = as_rows("together", 0, {"high": [(0, 1, 10**9)], "low": [(0, 1, 5), (5, 6, 10)]})
    assert summarize_throughput(rows).rows() == [("together", 1, 3, 3, 3.0)]


def low_alone(pause_ns: int, count: int = 50) -> pl.DataFrame:
    """Return SYNTHETIC stamps of a low one that is alone and completes a launch each so many ns."""
    return as_rows(
        "low_alone", 0, {"low": [(i * pause_ns, i * pause_ns + 1, (i + 1) * pause_ns) for i in range(count)]}
    )


def beside(low_ends: list[int], high: list[tuple[int, int]]) -> pl.DataFrame:
    """Return SYNTHETIC stamps of high launches (start, end) beside a low one with these completions, 10 ns alone."""
    low = [(start, start, end) for start, end in pairwise([0, *low_ends])]
    return pl.concat([low_alone(10), as_rows("together", 0, {"high": [(a, a, b) for a, b in high], "low": low})])


def kinds(rows: pl.DataFrame) -> list[tuple[str, int, int, int | None, int | None]]:
    return measure_yields(rows).select("kind", "low_completions", "pause_ns", "stop_ns", "resume_ns").rows()


def test_a_stop_is_a_pause_that_the_low_one_alone_does_not_make() -> None:
    """Alone it completes each 10 ns: no more than 20 ns are its usual pause."""
    found = beside([*range(10, 130, 10), 185, *range(190, 400, 10)], [(115, 180), (200, 260), (300, 318)])
    assert find_limit(found) == 20
    assert kinds(found) == [("stopped", 1, 60, 5, 70), ("went on", 7, 10, None, None),
                            ("too short to tell", 2, 10, None, None)]  # fmt: skip


def test_a_pause_inside_a_launch_ends_there() -> None:
    found = beside([*range(10, 130, 10), 160, *range(170, 300, 10)], [(105, 205)])
    assert kinds(found) == [("stopped", 7, 40, 15, 55)]
    rows = summarize_yields(found).select("what", "launches", "mean_ns").rows()
    assert rows[:4] == [("stopped", 1, 40), ("stopped", 1, 15), ("stopped", 1, 55), ("went on", 0, None)]
    assert rows[-1] == ("low one alone", None, 10)


def test_a_low_one_that_is_not_at_work_throughout_a_launch_tells_nothing() -> None:
    """Neither one that begins in it, nor one that ends in it, nor one that has ended."""
    rows = beside([*range(110, 200, 10)], [(190, 240), (300, 400)])
    early = as_rows("together", 1, {"high": [(0, 0, 60)], "low": [(5, 5, 10), (10, 10, 90)]})
    assert [kind for kind, *_ in kinds(pl.concat([rows, early]))] == ["not at work throughout"] * 3


def test_two_that_only_sleep_do_not_stop_each_other() -> None:
    """SYNTHETIC: each sleeps on, whatever the other one does; so it was told that one stops after 288 us."""
    sleep = [(i * 500_000, i * 500_000 + 10, (i + 1) * 500_000) for i in range(58)]
    both = as_rows(
        "together", 0, {"high": [(a + 200_000, b + 200_000, c + 200_000) for a, b, c in sleep], "low": sleep}
    )
    told = {(r["what"], r["launches"]) for r in summarize_yields(pl.concat([low_alone(500_000), both])).to_dicts()}
    assert told == {("stopped", 0), ("went on", 0), ("too short to tell", 57), ("not at work throughout", 1),
                    ("low one alone", None)}  # fmt: skip


def test_without_the_low_one_alone_no_stop_is_claimed() -> None:
    rows = beside([10, 20, 500], [(15, 400)]).filter(pl.col("phase") != "low_alone")
    assert (find_limit(rows), kinds(rows)[0][0]) == (None, "too short to tell")
    assert summarize_yields(low_alone(10)).is_empty()


def test_a_second_program_that_is_being_loaded_launches_nothing() -> None:
    rows = as_rows("sequential", 0, {"high": [(0, 1, 10**9)], "low": [(10**11, 10**11 + 1, 10**11 + 10**9)]})
    again = rows.with_columns(pl.lit(1, pl.Int64).alias("round"))
    assert summarize_throughput(pl.concat([rows, again])).rows() == [("sequential", 2, 4, None, 1.0)]


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
    assert (
        found.remedy == "more launches of the high one (--iterations of the samples), which ended 900.60 ms before "
        "the low one began; more --rounds"
    )
    rows = {(r["phase"], r["role"]) for r in summarize_phases(apart(low_from_ns=10**9)).to_dicts()}
    assert rows == {("high_alone", "high"), ("apart", "high"), ("apart", "low")}
    assert summarize_throughput(apart(low_from_ns=10**9)).select("phase", "beside").rows() == [("apart", 0)]


def test_how_many_launches_ran_beside_the_other_one_is_told_for_each_round() -> None:
    second = apart(low_from_ns=10**9).with_columns(pl.lit(1, pl.Int64).alias("round"))
    rows = list_overlaps(pl.concat([apart(low_from_ns=50 * 10**6), second]), "plain").rows()
    assert [row[:5] for row in rows] == [("plain", 0, "high", 100, 50), ("plain", 0, "low", 50, 50),
                                         ("plain", 1, "high", 100, 0), ("plain", 1, "low", 50, 0)]  # fmt: skip
    assert rows[3][5:] == (10**9, 49_900_000)


def test_hardly_a_launch_beside_the_other_one_is_told_first() -> None:
    """The low one ended early; where both were at work long enough there is no such notice."""
    early = apart(low_from_ns=-45 * 10**6)
    assert describe_apart(apart(low_from_ns=50 * 10**6), "plain") == ""
    told = describe_apart(early, "captured")
    assert told.startswith("captured rounds of both at once: 5 of 100 launches of the high one ran while the low one ")
    assert told.endswith("more launches of the low one (--iterations of the samples), which ended first")
    found = judge(pl.concat([early, early, early, early, early]), NOTHING)
    assert (found.outcome, found.counts["launches_beside"]) == ("UNKNOWN", 25)
    assert found.reason.endswith("ran while the low one was at work: these rounds show each one alone")


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
    assert near.reason.endswith("it is not longer than the limit, but this may be chance")
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
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but this may be chance")
    assert judge(late, NOTHING, kept=100).outcome == "PASS"
    # All a little later, within the limit: that is sure, but no more than that.
    later = pl.concat([series("high_alone", ()), series("together", (5, 20, 35, 50), all_ns=10_000), low])
    found = judge(later, NOTHING)
    assert 0 < found.counts["low_ns"] < 0.2 * found.counts["alone_p95_ns"]
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but this may be chance")
    assert judge(later, NOTHING, kept=1.05).outcome == "FAIL"


@pytest.mark.parametrize(
    ("together", "outcome"), [(60, "PASS"), (100, "PASS"), (105, "UNKNOWN"), (130, "UNKNOWN"), (400, "FAIL")]
)
def test_few_launches_near_the_limit_are_unknown(together: int, outcome: str) -> None:
    """SYNTHETIC: of 30 launches all lie below P95 with a chance of one in five."""
    few = judge(stamps(100, together, count=30), NOTHING)
    assert (few.outcome, few.reason.endswith("but this may be chance")) == (outcome, outcome == "UNKNOWN")


def test_launches_too_few_to_show_a_percentile_may_all_be_faster() -> None:
    """Of the 30 launches alone 28 are faster than the limit demands, and the interval knows no longer one beside."""

    def rows(phase: str, took_us: list[int]) -> pl.DataFrame:
        return as_rows(
            phase, 0, {"high": [(i * 10**6, i * 10**6, i * 10**6 + us * 1000) for i, us in enumerate(took_us)]}
        )

    low = as_rows("together", 0, {"low": [(i * 10**6, i * 10**6, i * 10**6 + 50_000) for i in range(30)]})
    found = judge(pl.concat([rows("high_alone", [100] * 28 + [130] * 2), rows("together", [125] * 30), low]), NOTHING)
    assert found.outcome == "UNKNOWN"
    assert found.reason.endswith(": with so few launches beside the low one all of them may be faster than P95")


def test_instrumentation_is_measured_in_like_situations() -> None:
    """SYNTHETIC: beside the low one a launch takes four times as long; captured, the low one came too late."""
    plain, captured = apart(low_from_ns=50 * 10**6), apart(low_from_ns=10**9)
    undisturbed = captured.with_columns(complete_ns=pl.col("start_ns") + 100_000 + 10_000 * (pl.col("role") == "high"))
    for first, other, ratio in ((plain, undisturbed, 1.1), (undisturbed, plain, 0.91)):
        rows = measure_overhead(first, other).filter(pl.col("role") == "high").select("phase", "ratio").rows()
        assert rows == [("high_alone", ratio), ("together", None), ("apart", ratio)]
    beside = {r["phase"]: r for r in measure_overhead(plain, undisturbed).filter(pl.col("role") == "high").to_dicts()}
    assert (beside["together"]["plain_launches"], beside["together"]["captured_launches"]) == (50, 0)
    assert judge(undisturbed, measure_overhead(undisturbed, plain)).reason.startswith("only 0 of 100")


def test_a_ratio_of_a_few_launches_is_none() -> None:
    few = measure_overhead(stamps(100, 100), stamps(100, 100, count=5))
    assert few["ratio"].null_count() == few.height > 0
    assert measure_overhead(stamps(100, 100), stamps(100, 100).clear()).is_empty()


def test_costly_instrumentation_makes_it_unknown() -> None:
    plain = stamps(100, 100)
    slow = plain.with_columns(pl.col("complete_ns") + 60_000)
    overhead = measure_overhead(plain, slow)
    assert overhead.filter(pl.col("phase") == "high_alone")["ratio"].item() > 1.2
    assert judge(plain, overhead).outcome == "UNKNOWN"
    assert judge(plain, measure_overhead(plain, plain)).outcome == "PASS"


def set_priorities(*refused: bool | None) -> pl.DataFrame:
    return pl.DataFrame({"update_refused": refused}, schema={"update_refused": pl.Boolean})


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ((True, True), "the driver refused to set the priority (UPDATE_QUEUE) of 2 of 2 queues of the captured rounds"),
        ((True, False, None), "the driver refused to set the priority (UPDATE_QUEUE) of 1 of 2 queues of the captured"),
        ((None,), "whether the driver accepted the priorities is not recorded"),
        ((), "whether the driver accepted the priorities is not recorded"),
        ((False, False), ""),
    ],
)
def test_a_verdict_names_what_else_its_evidence_tells(refused: tuple[bool | None, ...], told: str) -> None:
    late, kept = judge(stamps(100, 300), NOTHING), judge(stamps(100, 100), NOTHING)
    found = add_causes(late, set_priorities(*refused), 2)
    assert found.outcome == "FAIL" and found.reason.startswith(f"{late.reason}; ")
    assert told in found.reason
    assert ("says nothing about preemption" in found.reason) == (True in refused)
    assert ("priorit" in found.reason) == bool(told)
    assert found.reason.endswith("; both may also have waited for a CPU (this machine has 2), which is not measured")
    # A latency that was kept needs no cause; that no priority arrived is told all the same.
    calm = add_causes(kept, set_priorities(*refused), 2)
    assert (calm.reason == kept.reason) == (True not in refused)
