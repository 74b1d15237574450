"""What an experiment with a high and a low priority workload shows: latencies, throughput, who waited for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.compare.latency import MIN_VALUES, has_enough, interval_of_difference, reaches_percentile
from tracecorr.analyze.compare.quantiles import QUANTILES, Sample
from tracecorr.analyze.frames import percentile
from tracecorr.analyze.values import render_ns
from tracecorr.analyze.verdicts.model import Finding, failed, passed, unknown

STAMPS = {"phase": pl.String, "round": pl.Int64, "role": pl.String, "start_ns": pl.Int64, "return_ns": pl.Int64,
          "complete_ns": pl.Int64}  # fmt: skip
PHASES = ("high_alone", "low_alone", "sequential", "together")
# Above this slow-down by instrumentation a captured round explains nothing about latency.
MAX_OVERHEAD = 1.2
_ROUNDS = 20_000
_CONFIDENCE, _P95 = 0.95, QUANTILES.index(0.95)


def summarize_phases(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return one row per phase and role: call and launch-to-completion latency, throughput.

    Args:
        stamps: rows of `STAMPS`: one launch each, times of the workload's own CLOCK_MONOTONIC, uninstrumented.

    Returns: phase, role, rounds, launches, beside (how many of them ran while the other one was at work, null where the
        other one had no turn), call_mean_ns, call_p50_ns, call_p95_ns, call_p99_ns, call_std_ns, and the same for
        `done` (launch to completion), per_second (launches by the time from first start to last completion).
    """
    measured = _mark_beside(stamps).with_columns(
        call=pl.col("return_ns") - pl.col("start_ns"), done=pl.col("complete_ns") - pl.col("start_ns")
    )
    spans = stamps.group_by("phase", "role", "round").agg(
        n=pl.len(), span=pl.col("complete_ns").max() - pl.col("start_ns").min()
    )
    rates = spans.group_by("phase", "role").agg(per_second=(pl.col("n").sum() * 1e9 / pl.col("span").sum()).round(1))
    figures = [expr for name in ("call", "done") for expr in _describe(name)]
    rows = measured.group_by("phase", "role").agg(
        rounds=pl.col("round").n_unique().cast(pl.Int64),
        launches=pl.len().cast(pl.Int64),
        beside=pl.when(pl.col("beside").count() > 0).then(pl.col("beside").sum().cast(pl.Int64)),
        **dict(figures),
    )
    order = pl.col("phase").replace_strict({p: i for i, p in enumerate(PHASES)}, default=9, return_dtype=pl.Int64)
    return rows.join(rates, on=["phase", "role"]).sort(order, "role")


def _mark_beside(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return the stamps with `beside`: whether a launch ran while the other one was at work; null but for `together`.

    At work is a workload from its first start to its last completion: two that are started together need not be ready
    together, and the shorter one leaves the other alone.
    """
    together = pl.col("phase") == "together"
    work = stamps.filter(together).group_by("round", role=pl.when(pl.col("role") == "high").then(pl.lit("low"))
                                            .otherwise(pl.lit("high")))  # fmt: skip
    spans = work.agg(begin=pl.col("start_ns").min(), end=pl.col("complete_ns").max())
    beside = (pl.col("complete_ns") >= pl.col("begin")) & (pl.col("start_ns") <= pl.col("end"))
    return (
        stamps.join(spans, on=["round", "role"], how="left", maintain_order="left")
        .with_columns(beside=pl.when(together).then(beside.fill_null(False)))
        .drop("begin", "end")
    )


def _describe(name: str) -> list[tuple[str, pl.Expr]]:
    value = pl.col(name)
    whole = [(f"{name}_mean_ns", value.mean().round(0).cast(pl.Int64))]
    whole += [(f"{name}_p{q}_ns", percentile(value, q)) for q in (50, 95, 99)]
    return [*whole, (f"{name}_std_ns", value.std().fill_nan(None).round(0).cast(pl.Int64))]


def summarize_throughput(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return launches per second of both roles in total: one after the other, and together.

    The time between the two, in which the second one is loaded and no one launches, is not counted.
    """
    shared = stamps.filter(pl.col("phase").is_in(["sequential", "together"]))
    turn = pl.when(pl.col("phase") == "sequential").then("role")
    spans = shared.group_by("phase", "round", turn=turn).agg(
        n=pl.len(), span=pl.col("complete_ns").max() - pl.col("start_ns").min()
    )
    return spans.group_by("phase").agg(
        rounds=pl.col("round").n_unique().cast(pl.Int64), launches=pl.col("n").sum().cast(pl.Int64),
        total_per_second=(pl.col("n").sum() * 1e9 / pl.col("span").sum()).round(1),
    ).sort("phase")  # fmt: skip


def measure_yields(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return, per launch of the high one beside the low one, when the low one was last and next seen to complete.

    Completions are those that the host noticed, so these are bounds of what the GPU did, not its schedule.

    Returns: round, start_ns, complete_ns, low_completions (inside the launch), stop_ns (from the launch to the last
        completion of the low one inside it, null when there is none), resume_ns (from the launch to the first one
        after it, null when there is none, or when the low one had not begun before the launch).
    """
    together = stamps.filter(pl.col("phase") == "together")
    low = together.filter(pl.col("role") == "low").select("round", "start_ns", low_ns="complete_ns").sort("low_ns")
    high = together.filter(pl.col("role") == "high").select("round", "start_ns", "complete_ns").sort("start_ns")
    rows: list[dict[str, Any]] = []
    for (number,), part in high.group_by("round", maintain_order=True):
        beside = low.filter(pl.col("round") == number)
        ends, begin = beside["low_ns"].to_numpy(), beside["start_ns"].min()
        starts, dones = part["start_ns"].to_numpy(), part["complete_ns"].to_numpy()
        first, last = np.searchsorted(ends, starts, "left"), np.searchsorted(ends, dones, "right")
        for start, done, i, j in zip(starts, dones, first, last, strict=True):
            stop = int(ends[j - 1] - start) if j > i else None
            resume = int(ends[j] - start) if j < len(ends) and begin <= start else None
            rows.append({"round": number, "start_ns": int(start), "complete_ns": int(done),
                         "low_completions": int(j - i), "stop_ns": stop, "resume_ns": resume})  # fmt: skip
    names = ("round", "start_ns", "complete_ns", "low_completions", "stop_ns", "resume_ns")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64))


def measure_overhead(stamps: pl.DataFrame, captured: pl.DataFrame) -> pl.DataFrame:
    """Return, per phase and role, the median latency without and with instrumentation, and their ratio."""
    medians = [
        side.group_by("phase", "role").agg(p50=percentile(pl.col("complete_ns") - pl.col("start_ns"), 50))
        for side in (stamps, captured)
    ]
    joined = medians[0].join(medians[1], on=["phase", "role"], suffix="_captured").sort("phase", "role")
    ratio = pl.when(pl.col("p50") > 0).then(pl.col("p50_captured") / pl.col("p50")).round(2)
    return joined.select("phase", "role", plain_p50_ns="p50", captured_p50_ns="p50_captured", ratio=ratio)


def judge_latency(stamps: pl.DataFrame, overhead: pl.DataFrame, kept: float) -> Finding:
    """Return whether the high one kept its latency beside the low one.

    Args:
        stamps: uninstrumented launches.
        overhead: what `measure_overhead` gave; empty when nothing was captured.
        kept: how many times its P95 alone the P95 together may be.
    """
    launches = _mark_beside(stamps).filter(pl.col("role") == "high")
    latency = {
        phase: launches.filter((pl.col("phase") == phase) & pl.col("beside").fill_null(True))
        .select((pl.col("complete_ns") - pl.col("start_ns")).alias("ns"))["ns"]
        .to_numpy()
        for phase in ("high_alone", "together")
    }
    counts = {f"launches_{phase}": len(launches.filter(pl.col("phase") == phase)) for phase in latency}
    counts["launches_beside"] = len(latency["together"])
    if few := _say_too_few(counts):
        return unknown(*few, counts)
    alone, beside = Sample.of(latency["high_alone"]), Sample.of(latency["together"])
    low, high = interval_of_difference(alone, beside, _CONFIDENCE, _ROUNDS)
    first, second = alone.quantile(0.95), beside.quantile(0.95)
    least, most = int(low[_P95]), int(high[_P95])
    counts |= {"alone_p95_ns": first, "together_p95_ns": second, "low_ns": least, "high_ns": most}
    said = f"its P95 is {render_ns(first)} alone and {render_ns(second)} beside the low one"
    said += f" (difference {render_ns(least)} to {render_ns(most)}, limit {kept:g} times that alone"
    said += f"; {_share(counts)} ran beside it)" if counts["launches_beside"] < counts["launches_together"] else ")"
    slowest = max(_ratios_of_high(overhead), default=0.0)
    if slowest > MAX_OVERHEAD:
        return unknown(
            f"{said}, but instrumentation slows the high one {slowest} times",
            "the captured rounds do not explain the plain ones: lower --log-level, or a longer kernel", counts,
        )  # fmt: skip
    return _judge_limit(alone, beside, kept, said, counts)


def _judge_limit(alone: Sample, beside: Sample, kept: float, said: str, counts: Mapping[str, int]) -> Finding:
    """Return whether P95 beside the low one is within its limit, as far as so many launches show it."""
    limit_ns = (kept - 1) * counts["alone_p95_ns"]
    is_kept = counts["together_p95_ns"] <= kept * counts["alone_p95_ns"]
    is_chance = counts["high_ns"] > limit_ns if is_kept else counts["low_ns"] <= limit_ns
    lesser, greater, times = (beside, alone, 1 / kept) if is_kept else (alone, beside, kept)
    if is_chance:
        said += f": it is {'not longer' if is_kept else 'longer'} than the limit, but that may be chance"
    elif not has_enough(lesser, greater, _P95, _CONFIDENCE, times):
        is_chance = True
        said += f": so few launches {'beside the low one' if is_kept else 'alone'} may all have been faster than P95"
    if is_kept and (not is_chance or reaches_percentile(lesser, _P95, _CONFIDENCE)):
        return passed(said, counts)
    if is_chance:
        return unknown(said, "more --rounds, on a machine without other work", counts)
    return failed(said, counts)


def _say_too_few(counts: Mapping[str, int]) -> tuple[str, str] | None:
    """Return why there are too few launches to compare, and what helps; None where there are enough."""
    stamped = min(counts["launches_high_alone"], counts["launches_together"])
    if stamped < MIN_VALUES:
        return (
            f"{stamped} launches of the high one were stamped, {MIN_VALUES} are needed",
            "let it print a stamp per launch; more --rounds",
        )
    if counts["launches_beside"] < MIN_VALUES:
        return (
            f"only {_share(counts)} of the high one ran while the low one was at work, {MIN_VALUES} are needed",
            "let the low one launch longer than the high one, and begin as early; more --rounds",
        )
    return None


def _share(counts: Mapping[str, int]) -> str:
    return f"{counts['launches_beside']} of {counts['launches_together']} launches"


def _ratios_of_high(overhead: pl.DataFrame) -> list[float]:
    return overhead.filter(pl.col("role") == "high")["ratio"].drop_nulls().to_list()


def as_rows(phase: str, number: int, stamps: Mapping[str, list[tuple[int, int, int]]]) -> pl.DataFrame:
    """Return the stamps of one round as rows of `STAMPS`."""
    rows = [(phase, number, role, *stamp) for role, found in stamps.items() for stamp in found]
    return pl.DataFrame(rows, schema=STAMPS, orient="row")
