"""Figures of preemption policies on SYNTHETIC stamps with known truth, and the words on what they mean."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracecorr.analyze.compare.statistics import _sum_up
from tracecorr.analyze.experiment import as_rows
from tracecorr.analyze.policies import (
    compare_stamps,
    describe_policy,
    measure_handovers,
    summarize_low,
    summarize_policies,
)
from tracecorr.analyze.verdicts.model import passed

Spans = list[tuple[int, int]]


def _rows(phase: str, policy: str, number: int = 0, **roles: Spans) -> pl.DataFrame:
    return as_rows(phase, number, {role: [(a, a, b) for a, b in spans] for role, spans in roles.items()}, policy)


# Launches of the high one -> (way, back) with completions of the low one at 100, 200, ..., 1000.
LOW: Spans = [(at - 90, at) for at in range(100, 1001, 100)]
HANDOVERS = {
    "the last completion inside the launch": ([(150, 350)], [(150, 50)]),
    "none inside": ([(210, 290)], [(0, 10)]),
    "a new launch before it went on": ([(150, 210), (250, 310)], [(50, None), (50, 90)]),
    "the low one had not begun": ([(5, 50), (150, 210)], [(50, 90)]),
    "the low one had ended": ([(950, 1000)], []),
}


@pytest.mark.parametrize("case", HANDOVERS)
def test_how_soon_the_low_one_made_way_and_went_on(case: str) -> None:
    high, expected = HANDOVERS[case]
    found = measure_handovers(_rows("together", "event", high=high, low=LOW))
    assert found.select("way_ns", "back_ns").rows() == expected


def test_rates_beside_between_and_alone() -> None:
    """Completions at each 100 ns; 300 ns of 990 belong to the high one, in two launches of which parts overlap."""
    together = _rows("together", "slice", high=[(150, 350), (300, 450)], low=LOW)
    (row,) = summarize_low(pl.concat([together, _rows("low_alone", "slice", low=LOW[:5])])).to_dicts()
    assert row["beside_per_second"] == pytest.approx(3 / 300e-9, rel=1e-3)
    assert row["idle_per_second"] == pytest.approx(7 / 690e-9, rel=1e-3)
    assert row["alone_per_second"] == pytest.approx(5 / 490e-9, rel=1e-3)
    assert (row["policy"], row["launches"], row["p50_ns"], row["gave_way"]) == ("slice", 10, 90, 2)


def test_stamps_are_compared_with_the_launches_of_the_log() -> None:
    """The third stamp's call is not in the log, the second one's has two packets."""
    rows = as_rows("high_alone", 0, {"high": [(100, 120, 200), (300, 330, 420), (500, 520, 600)]})
    launches = pl.DataFrame({"call_ns": [105, 310, 310, None, 450], "complete_ns": [190, 380, 400, 5, None]})
    (found,) = compare_stamps(rows, launches).to_dicts()
    assert (found["stamps"], found["with_launch"]) == (3, 2)
    assert [found[name] for name in ("call_p50_ns", "call_p95_ns", "late_p50_ns", "late_p95_ns")] == [5, 10, 10, 20]


def _series(policy: str, phase: str, took: list[int]) -> pl.DataFrame:
    starts = np.cumsum([0, *[t + 10 for t in took[:-1]]]).tolist()
    return _rows(phase, policy, high=[(s, s + t) for s, t in zip(starts, took, strict=True)])


def test_order_statistics_and_the_cost_of_a_policy() -> None:
    took = list(range(1, 101))
    stamps = pl.concat([
        _series("none", "high_alone", [50] * 30), _series("none", "together", took),
        _series("event", "high_alone", [55] * 30), _series("event", "together", took[::-1]),
        _series("stop", "together", [7] * 5),
    ])  # fmt: skip
    none, event, stop = summarize_policies(stamps).to_dicts()
    for row in (none, event):
        assert [row[f"p{q}_ns"] for q in (50, 95, 99)] == [50, 95, 99]
        assert (row["launches"], row["mean_ns"], row["std_ns"]) == (100, 50, 29)
    assert (none["cost"], event["cost"], stop["cost"]) == (1.0, 1.1, None)
    assert stop["p95_least_ns"] is None and stop["alone_p50_ns"] is None


def test_the_interval_holds_the_true_p95() -> None:
    """Of 200 SYNTHETIC samples of 100 exponential latencies, most intervals hold the P95 of the distribution."""
    random, true = np.random.default_rng(7), -np.log(0.05) * 1e6
    held = 0
    for _ in range(200):
        took = (random.exponential(1e6, 100)).astype(np.int64).tolist()
        (row,) = summarize_policies(_series("none", "together", took)).to_dicts()
        held += row["p95_least_ns"] <= true <= row["p95_most_ns"]
    assert 180 <= held <= 200


def test_the_intervals_of_a_setting_hold_the_true_percentiles() -> None:
    """As above, for a value of `experiment sweep`; P50 and P95 are values that occurred, at their nearest rank."""
    random, held = np.random.default_rng(8), np.zeros(2)
    for _ in range(200):
        took = random.exponential(1e6, 100).astype(np.int64)
        steady = pl.DataFrame({"call_ns": np.zeros(100, np.int64), "packet_ns": took})
        found = _sum_up(steady, "call to packet", "call_ns", "packet_ns")
        assert found is not None and found[1] == 100
        for place, share in ((0, 0.5), (1, 0.95)):
            value, least, most = found[2 + 3 * place : 5 + 3 * place]
            assert value == np.sort(took)[round(100 * share) - 1]
            held[place] += least <= -np.log(1 - share) * 1e6 <= most
    assert all(180 <= count <= 200 for count in held)


WORDS = {
    "nothing captured": ("priority", {}, None, "preemption) is UNKNOWN"),
    "nothing records it": ("priority", {"evictions": None, "suspends": 0}, None, "preemption) is UNKNOWN"),
    "recorded": ("event", {"evictions": 2, "suspends": 1}, None, "2 evictions, 1 suspends"),
    "none happened": ("slice", {"evictions": 0, "suspends": 0}, None, "nothing shows that waves were saved"),
    "a long kernel": ("stop", {}, 9_000_000, "up to 9.00 ms, longer than 5.00 ms: no host policy can reach it"),
    "arbitration": ("priority", {}, None, "arbitration"),
    "hold-back": ("stop", {}, None, "host hold-back"),
    "saved waves": ("suspend", {"evictions": 0, "suspends": 3}, 9_000_000, "saves their waves"),
    "isolation": ("cumask", {}, 9_000_000, "isolation"),
}


@pytest.mark.parametrize("case", WORDS)
def test_words(case: str) -> None:
    policy, moves, longest, told = WORDS[case]
    said = describe_policy(policy, passed("its P95 is the same", {}), moves, longest, 5_000_000)
    assert said.startswith("PASS, its P95 is the same. It acts by ") and told in said
    assert ("no host policy" in said) == (case == "a long kernel")
