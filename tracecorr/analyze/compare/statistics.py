"""Latencies of captures: percentiles, bootstrap intervals, which differences are significant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.calls import list_setup_calls, name_kinds
from tracecorr.analyze.latency import LOG_MOMENTS, add_errors, gap_error, list_tellers, widest
from tracecorr.analyze.run_facts import describe_model
from tracecorr.analyze.values import Tables, collect, render_ns
from tracecorr.model.kinds import RECORDED

_Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class Sample:
    """Hold the values of one side of a comparison.

    Args:
        ordered: the values, ascending.
        effective: the number of independent values (see `count_independent`).
    """

    ordered: Ints
    effective: float

    @classmethod
    def of(cls, values: Ints) -> Sample:
        """Return the sample of values in time order."""
        return cls(np.sort(values), count_independent(values))

    def quantile(self, share: float) -> int:
        """Return the value at a share of the sample (nearest rank: a value that occurred)."""
        return int(self.ordered[_rank(share, len(self.ordered)) - 1])


def count_independent(values: Ints) -> float:
    """Return the effective number of independent values of a series.

    Consecutive launches are correlated. The correlation r between neighbours (of being above the median) scales n by
    (1 - r) / (1 + r).

    >>> count_independent(np.array([1, 9] * 50))
    100.0
    """
    if len(values) < 3:
        return float(len(values))
    high = (values > np.median(values)).astype(np.float64)
    spread = float(high.var())
    if spread == 0:
        return float(len(values))
    mean = high.mean()
    correlation = float(np.mean((high[:-1] - mean) * (high[1:] - mean))) / spread
    correlation = min(max(correlation, 0.0), 0.999)
    return max(1.0, len(values) * (1 - correlation) / (1 + correlation))


def resample(sample: Sample, shares: tuple[float, ...], rounds: int, random: np.random.Generator) -> _Floats:
    """Return the percentiles of `rounds` bootstrap samples, shape (rounds, len(shares)).

    The k-th smallest of n independent draws is the value at the k-th smallest of n uniform numbers, which is
    Beta(k, n - k + 1) distributed: no sample has to be drawn.

    Args:
        shares: ascending, between 0 and 1.
    """
    count = max(1, round(sample.effective))
    ranks = [_rank(share, count) for share in shares]
    result = np.empty((rounds, len(shares)))
    below, taken = np.zeros(rounds), 0
    for place, rank in enumerate(ranks):
        step = rank - taken
        if step > 0:
            below = below + (1 - below) * random.beta(step, count - rank + 1, size=rounds)
            taken = rank
        index = np.minimum((below * len(sample.ordered)).astype(np.int64), len(sample.ordered) - 1)
        result[:, place] = sample.ordered[index]
    return result


def _rank(share: float, count: int) -> int:
    return min(max(1, int(np.ceil(share * count))), count)


STAGES = (
    ("call to packet", "call_ns", "packet_ns"),
    ("call to doorbell", "call_ns", "doorbell_ns"),
    ("packet to doorbell", "packet_ns", "doorbell_ns"),
    ("call to return", "call_ns", "return_ns"),
    ("doorbell to GPU start", "doorbell_ns", "gpu_start_ns"),
    ("GPU start to GPU end", "gpu_start_ns", "gpu_end_ns"),
    ("packet to observed completion", "packet_ns", "complete_ns"),
)
_MOMENTS = sorted({moment for _, start, end in STAGES for moment in (start, end)})
_STATISTICS = ("p50", "p95", "p99", "jitter")
# Minimum number of values for an interval.
MIN_VALUES = 20
# Log stamps are truncated to 1 us: a smaller difference is not visible.
_RESOLUTION_NS = 1000
_SEED = 20


def read_steady(tables: Tables, setup_calls: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the launches of known calls without set-up work, with their times, in the order of the log.

    Args:
        tables: gives the table of a capture by its name.
        setup_calls: result of `list_setup_calls`; None = computed here.

    Returns: kind (`name_kinds`), kernel_name, priority (of its queue, as the log prints it), and the columns
        of `STAGES`; doorbell_ns only if it is recorded; their errors (`add_errors`).
    """
    calls = list_setup_calls(tables("events")) if setup_calls is None else setup_calls
    setup = calls.lazy().select(call_event="chain")
    moments = [moment for moment in _MOMENTS if moment != "doorbell_ns"]
    recorded = pl.col("doorbell_evidence") == RECORDED
    known = name_kinds(tables("launches"), tables("events")).filter(pl.col("call_event").is_not_null())
    rows = known.join(setup, on="call_event", how="anti", maintain_order="left")
    names = tables("kernels").select("kernel", kernel_name=pl.coalesce("display", "name"))
    priorities = tables("queues").select("queue", priority="priority_log")
    named = rows.join(names, on="kernel", how="left", maintain_order="left")
    named = named.join(priorities, on="queue", how="left", maintain_order="left")
    told = ("kind", "kernel_name", "priority", *moments, *list_tellers(_MOMENTS))
    found = collect(named.select(*told, doorbell_ns=pl.when(recorded).then("doorbell_ns")))
    found = add_errors(found, tables("events"), _MOMENTS)
    return found if found["packet_ns"].is_sorted() else found.sort("packet_ns", maintain_order=True)


def compare_latency(first: pl.DataFrame, second: pl.DataFrame, confidence: float, rounds: int) -> pl.DataFrame:
    """Return one row per stage, kind and statistic that both sides have.

    If the queues of one side have several priorities, launches are compared by priority: a different mix of priorities
    is no difference of latency.

    Args:
        first, second: results of `read_steady`.
        confidence: chance that all intervals of the table together hold their true difference.
        rounds: bootstrap rounds.

    Returns: stage, kind (and priority), statistic (`p50`, `p95`, `p99`, `jitter` = P99 - P50), a_launches, b_launches,
        a_ns, b_ns, difference_ns (B - A), low_ns and high_ns (its interval; null = too few launches to bound it),
        clock_error_ns (how far the clocks of both sides may move the difference, included in the interval; null =
        unknown, and nothing is significant), percent, significant (null = too few launches).
    """
    pairs = list(_pairs(*_part_priorities(first, second)))
    wide = 1 - (1 - confidence) / max(1, len(pairs) * len(_STATISTICS))
    rows = [row for pair in pairs for row in _compare(pair, wide, rounds)]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


_SCHEMA = {
    "stage": pl.String, "kind": pl.String, "statistic": pl.String, "a_launches": pl.Int64, "b_launches": pl.Int64,
    "a_ns": pl.Int64, "b_ns": pl.Int64, "difference_ns": pl.Int64, "low_ns": pl.Int64, "high_ns": pl.Int64,
    "clock_error_ns": pl.Int64, "percent": pl.Float64, "significant": pl.Boolean,
}  # fmt: skip


def _part_priorities(*sides: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the launches with one `kind` per priority, for kinds with several priorities on one side."""
    seen = [side.select(pl.col("kind").cast(pl.String), "priority").drop_nulls().unique() for side in sides]
    mixed = pl.concat([side.filter(pl.len().over("kind") > 1) for side in seen])["kind"].unique()
    if mixed.is_empty():
        return list(sides)
    known = pl.format("{}, log priority {}", "kind", "priority")
    apart = pl.coalesce(known, pl.format("{}, log priority unknown", "kind"))
    kind = pl.col("kind").cast(pl.String)
    return [side.with_columns(kind=pl.when(kind.is_in(mixed.implode())).then(apart).otherwise(kind)) for side in sides]


def name_uncompared(first: pl.DataFrame, second: pl.DataFrame, latency: pl.DataFrame) -> str:
    """Return how many launches of the compared kinds are in no row; empty if there are none.

    Args:
        first, second: results of `read_steady`.
        latency: the result of `compare_latency`.
    """
    compared = pl.col("kind").is_in(latency["kind"].unique().implode())
    told: list[str] = []
    for side, rows, parts in zip("AB", (first, second), _part_priorities(first, second), strict=True):
        counts = (
            parts.select(compared=compared.fill_null(value=False), kind=rows["kind"].cast(pl.String))
            .group_by("kind")
            .agg(pl.len().alias("launches"), (~pl.col("compared")).sum().alias("left"))
        )
        some = counts.filter((pl.col("left") > 0) & (pl.col("left") < pl.col("launches"))).sort("kind")
        told += [f"{left:,} of {n:,} launches of {kind} of {side}" for kind, n, left in some.iter_rows()]
    if not told:
        return ""
    return f"{', '.join(told)} are in no row: the other side has too few of their log priority"


@dataclass(frozen=True)
class _Pair:
    """Hold a stage of one kind of launches on both sides, and the clock error of its difference."""

    stage: str
    kind: str
    first: Sample
    second: Sample
    clock_error_ns: int | None


def _pairs(first: pl.DataFrame, second: pl.DataFrame) -> Iterator[_Pair]:
    kinds = sorted(
        set.intersection(*(set(side["kind"].drop_nulls().unique().cast(pl.String)) for side in (first, second)))
    )
    for stage, start, end in STAGES:
        for kind in kinds:
            sides = [
                side.filter(pl.col("kind") == kind)
                .select((pl.col(end) - pl.col(start)).alias("ns"), _clock_error(start, end).alias("error"))
                .drop_nulls("ns")
                for side in (first, second)
            ]
            if min(side.height for side in sides) >= MIN_VALUES:
                errors = [side.select(widest(pl.col("error"))).item() for side in sides]
                known = None if None in errors else sum(errors)
                a, b = (Sample.of(side["ns"].to_numpy()) for side in sides)
                yield _Pair(stage, kind, a, b, known)


def _clock_error(start: str, end: str) -> pl.Expr:
    """Return the error of a stage with ends on two clocks; the stamps of the log are on one clock."""
    one_clock = start in LOG_MOMENTS and end in LOG_MOMENTS
    return pl.lit(0, dtype=pl.Int64) if one_clock else gap_error(start, end)


def _compare(pair: _Pair, confidence: float, rounds: int) -> Iterator[tuple[Any, ...]]:
    """Yield one row per statistic.

    A clock error moves all launches alike: each percentile may be wrong by the error, a jitter by twice the error.
    """
    values = [_measure(side) for side in (pair.first, pair.second)]
    bounds = bound_difference(pair.first, pair.second, confidence, rounds)
    for place, name in enumerate(_STATISTICS):
        a, b = (int(side[place]) for side in values)
        percent = round(100 * (b - a) / a, 1) if a > 0 else None
        error = None if pair.clock_error_ns is None else pair.clock_error_ns * (2 if name == "jitter" else 1)
        low, high = bounds[place]
        low, high = (None if low is None else low - (error or 0)), (None if high is None else high + (error or 0))
        found = is_significant(b - a, low, high)
        yield (
            pair.stage, pair.kind, name, len(pair.first.ordered), len(pair.second.ordered), a, b, b - a, low, high,
            error, percent, found if error is not None else False,
        )  # fmt: skip


def bound_difference(
    first: Sample, second: Sample, confidence: float, rounds: int
) -> list[tuple[int | None, int | None]]:
    """Return low and high end of the differences B - A of P50, P95, P99 and jitter; None = no bound.

    All n values lie below a percentile with probability share^n. Unless that is rare the percentile may be larger than
    all values, which a bootstrap cannot show: there is no low end if A has so few values, no high end if B has. For the
    median the same holds in the other direction.
    """
    low, high = interval_of_difference(first, second, confidence, rounds)
    ends: list[tuple[int | None, int | None]] = []
    for place in range(len(_STATISTICS)):
        above = [reaches_percentile(side, place, confidence) for side in (first, second)]
        below = above if place == 0 else [True, True]
        ends.append((
            int(low[place]) if above[0] and below[1] else None, int(high[place]) if above[1] and below[0] else None,
        ))  # fmt: skip
    return ends


def reaches_percentile(sample: Sample, place: int, confidence: float) -> bool:
    """Tell whether a sample has so many values that they rarely all lie below a percentile.

    Args:
        sample: the values.
        place: index of the percentile in `QUANTILES`; len(QUANTILES) = the jitter.
        confidence: one minus the probability of that.
    """
    return bool(QUANTILES[min(place, len(QUANTILES) - 1)] ** sample.effective <= (1 - confidence) / 2)


def count_needed(place: int, confidence: float) -> int:
    """Return how many independent values bound a percentile (see `reaches_percentile`)."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(QUANTILES[place]))


def tell_bounds(low: int | None, high: int | None) -> str:
    """Return the interval of a significant difference in words; None = no bound.

    >>> tell_bounds(2_000, 3_000), tell_bounds(2_000, None), tell_bounds(None, -2_000)
    ('difference between 2.00 us and 3.00 us', 'difference at least 2.00 us', 'difference at most -2.00 us')
    """
    if low is not None and high is not None:
        return f"difference between {render_ns(low)} and {render_ns(high)}"
    ends = (("at least", low), ("at most", high))
    return "difference " + " ".join(f"{word} {render_ns(end)}" for word, end in ends if end is not None)


def is_significant(difference: int, low: int | None, high: int | None) -> bool | None:
    """Tell whether a difference is more than chance (0 is not in its interval) and more than the step of the stamps.

    Args:
        difference: B - A.
        low, high: its interval; None = no bound.

    Returns: None if the bound that would decide is missing.
    """
    if (low if difference > 0 else high) is None:
        return None
    is_sure = (low is not None and low > 0) or (high is not None and high < 0)
    return is_sure and abs(difference) >= _RESOLUTION_NS


def interval_of_difference(
    first: Sample, second: Sample, confidence: float, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return low and high ends of the differences B - A of P50, P95, P99 and jitter, around the measured ones."""
    random = np.random.default_rng(_SEED)
    later = _statistics(resample(second, QUANTILES, rounds, random))
    earlier = _statistics(resample(first, QUANTILES, rounds, random))
    tail = (1 - confidence) / 2
    low, high = np.quantile(later - earlier, [tail, 1 - tail], axis=0, method="nearest")
    if min(first.effective, second.effective) < MIN_VALUES:
        below, above = _bound_jitter(first), _bound_jitter(second)
        low[-1], high[-1] = above[0] - below[1], above[1] - below[0]
    # For few or skewed values the bootstrap may not contain the measured difference.
    measured = _measure(second) - _measure(first)
    return np.minimum(low, measured), np.maximum(high, measured)


def _bound_jitter(sample: Sample) -> tuple[int, int]:
    """Return the bounds of a jitter with few independent launches, for which P99 equals P50."""
    return 0, int(sample.ordered[-1] - sample.ordered[0])


def _measure(sample: Sample) -> np.ndarray:
    """Return P50, P95, P99 and jitter of a sample itself."""
    measured: np.ndarray = _statistics(np.array([[sample.quantile(q) for q in QUANTILES]]))[0]
    return measured


def _statistics(quantiles: np.ndarray) -> np.ndarray:
    """Return P50, P95, P99 and P99 - P50, one row per round."""
    return np.column_stack([quantiles, quantiles[:, 2] - quantiles[:, 0]])


_SETTING_SCHEMA = {
    "value": pl.String, "reached": pl.String, "queues": pl.Int64, "streams": pl.Int64, "stage": pl.String,
    "launches": pl.Int64, "p50_ns": pl.Int64, "p50_least_ns": pl.Int64, "p50_most_ns": pl.Int64, "p95_ns": pl.Int64,
    "p95_least_ns": pl.Int64, "p95_most_ns": pl.Int64, "measured_on": pl.String,
}  # fmt: skip
_ROUNDS, _SETTING_SEED, _CONFIDENCE = 4000, 44, 0.95
_SHARES = (0.5, 0.95)


def summarize_setting(name: str, value: str, tables: Tables, info: Mapping[str, Any]) -> pl.DataFrame:
    """Return one row per stage of the steady launches of a capture made with a value of a setting.

    Args:
        name: of the setting.
        value: what it was.
        tables: gives the table of the capture by its name.
        info: contents of capture.json.

    Returns: value, reached (whether the workload's environment had it, as recorded), queues (compute queues that the
        runtime made), streams, stage (of `compare.statistics.STAGES`), launches, p50_ns and p95_ns with the ends of
        their bootstrap intervals (95 %; null with too few launches), measured_on (what stood for a GPU; null = a GPU).
    """
    queues = collect(tables("queues").filter(pl.col("hwq").is_not_null()).select(pl.len())).item()
    streams = collect(tables("streams").select(pl.len())).item()
    steady = read_steady(tables)
    head = (value, _tell_reached(name, value, info), queues, streams)
    model = describe_model(info) or None
    rows = [(*head, *found, model) for stage, start, end in STAGES if (found := _sum_up(steady, stage, start, end))]
    return pl.DataFrame(rows or [(*head, None, 0, *[None] * 6, model)], schema=_SETTING_SCHEMA, orient="row")


def _tell_reached(name: str, value: str, info: Mapping[str, Any]) -> str:
    """Return whether the setting reached the process; that it acted is shown by queues, streams and times alone."""
    found = [text for text in info.get("command") or [] if text == f"{name}={value}"]
    stored = (info.get("environment") or {}).get(name)
    if stored == value or found:
        return "set for the process"
    if stored is not None:
        return f"no: the process had {stored}"
    return "an argument of the program"


def _sum_up(steady: pl.DataFrame, stage: str, start: str, end: str) -> tuple[Any, ...] | None:
    took = steady.select(took=pl.col(end) - pl.col(start)).drop_nulls()["took"].to_numpy()
    if not len(took):
        return None
    sample = Sample.of(took)
    middle, high = (sample.quantile(share) for share in _SHARES)
    if len(took) < MIN_VALUES:
        return stage, len(took), middle, None, None, high, None, None
    drawn = resample(sample, QUANTILES, _ROUNDS, np.random.default_rng(_SETTING_SEED))[:, :2]
    least, most = np.quantile(drawn, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0).astype(int).tolist()
    return stage, len(took), middle, least[0], most[0], high, least[1], most[1]
