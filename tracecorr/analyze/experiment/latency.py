"""Did the high one keep its latency beside the low one, as far as so many launches show it?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.compare.latency import MIN_VALUES, interval_of_difference, reaches_percentile
from tracecorr.analyze.compare.quantiles import QUANTILES, Sample
from tracecorr.analyze.experiment.overlap import advise, describe_share, is_apart, part_phases
from tracecorr.analyze.experiment.stamps import APART, TOGETHER, took_ns
from tracecorr.analyze.values import render_ns
from tracecorr.analyze.verdicts.model import Finding, failed, passed, unknown

# Above this slow-down by instrumentation a captured round explains nothing about latency.
MAX_OVERHEAD = 1.2
_ROUNDS = 20_000
_CONFIDENCE, _P95 = 0.95, QUANTILES.index(0.95)


def judge_latency(stamps: pl.DataFrame, overhead: pl.DataFrame, kept: float) -> Finding:
    """Return whether the high one kept its latency beside the low one.

    Args:
        stamps: uninstrumented launches.
        overhead: what `measure_overhead` gave; empty when nothing was captured.
        kept: how many times its P95 alone the P95 together may be.
    """
    launches = part_phases(stamps).filter(pl.col("role") == "high")
    alone_ns, beside_ns, apart_ns = (_list_latencies(launches, phase) for phase in ("high_alone", TOGETHER, APART))
    counts = {"launches_high_alone": len(alone_ns), "launches_together": len(beside_ns) + len(apart_ns),
              "launches_beside": len(beside_ns)}  # fmt: skip
    if few := _say_too_few(counts, stamps):
        return unknown(*few, counts)
    alone, beside = Sample.of(alone_ns), Sample.of(beside_ns)
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
    elif not _has_enough(lesser, greater, times):
        is_chance = True
        said += f": so few launches {'beside the low one' if is_kept else 'alone'} may all have been faster than P95"
    if is_kept and (not is_chance or reaches_percentile(lesser, _P95, _CONFIDENCE)):
        return passed(said, counts)
    if is_chance:
        return unknown(said, "more --rounds, on a machine without other work", counts)
    return failed(said, counts)


def _has_enough(lesser: Sample, greater: Sample, times: float) -> bool:
    """Tell whether the side of the lesser P95 has values enough to show that so many times it is less.

    All of n values lie below the percentile with a chance of share^n, whatever they are drawn from. Where that is not
    rare, the percentile may be much larger than any value that was seen, which no bootstrap shows. Then it counts as
    less only where the other side's percentile that n values do bound lies above all of them.

    Args:
        lesser, greater: the sides.
        times: what the lesser side's values are multiplied with.
    """
    if reaches_percentile(lesser, _P95, _CONFIDENCE):
        return True
    shown = ((1 - _CONFIDENCE) / 2) ** (1 / lesser.effective)
    return greater.quantile(shown) > times * int(lesser.ordered[-1])


def _list_latencies(launches: pl.DataFrame, phase: str) -> npt.NDArray[np.int64]:
    return launches.filter(pl.col("phase") == phase).select(took_ns().alias("ns"))["ns"].to_numpy()


def _say_too_few(counts: Mapping[str, int], stamps: pl.DataFrame) -> tuple[str, str] | None:
    """Return why there are too few launches to compare, and what helps; None where there are enough."""
    stamped = min(counts["launches_high_alone"], counts["launches_together"])
    if stamped < MIN_VALUES:
        return (
            f"{stamped} launches of the high one were stamped, {MIN_VALUES} are needed",
            "let it print a stamp per launch; more --rounds",
        )
    share = f"only {describe_share(stamps)}"
    if counts["launches_beside"] < MIN_VALUES:
        return f"{share}, {MIN_VALUES} are needed", f"{advise(stamps)}; more --rounds"
    if is_apart(stamps):
        return f"{share}: these rounds tell of either alone", advise(stamps)
    return None


def _share(counts: Mapping[str, int]) -> str:
    return f"{counts['launches_beside']} of {counts['launches_together']} launches"


def _ratios_of_high(overhead: pl.DataFrame) -> list[float]:
    return overhead.filter(pl.col("role") == "high")["ratio"].drop_nulls().to_list()
