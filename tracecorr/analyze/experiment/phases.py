"""Latency and throughput of each phase of an experiment, and what instrumentation costs there."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.compare.latency import MIN_VALUES
from tracecorr.analyze.experiment.overlap import is_apart, mark_beside, part_phases
from tracecorr.analyze.experiment.stamps import APART, PHASES, TOGETHER, took_ns
from tracecorr.analyze.frames import percentile


def summarize_phases(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return one row per phase and role: call and launch-to-completion latency, throughput.

    Args:
        stamps: rows of `STAMPS`: one launch each, times of the workload's own CLOCK_MONOTONIC, uninstrumented.

    Returns: phase (`overlap.part_phases`), role, rounds, launches, call_mean_ns, call_p50_ns, call_p95_ns,
        call_p99_ns, call_std_ns, and the same for `done` (launch to completion), per_second (launches by the time from
        first start to last completion; before and after the other one's work each by its own).
    """
    parts = part_phases(stamps)
    measured = parts.with_columns(call=pl.col("return_ns") - pl.col("start_ns"), done=took_ns())
    spans = parts.group_by("phase", "role", "round", "place").agg(
        n=pl.len(), span=pl.col("complete_ns").max() - pl.col("start_ns").min()
    )
    rates = spans.group_by("phase", "role").agg(per_second=(pl.col("n").sum() * 1e9 / pl.col("span").sum()).round(1))
    figures = [expr for name in ("call", "done") for expr in _describe(name)]
    rows = measured.group_by("phase", "role").agg(
        rounds=pl.col("round").n_unique().cast(pl.Int64), launches=pl.len().cast(pl.Int64), **dict(figures)
    )
    return rows.join(rates, on=["phase", "role"]).sort(_order(), "role")


def _order() -> pl.Expr:
    return pl.col("phase").replace_strict({p: i for i, p in enumerate(PHASES)}, default=9, return_dtype=pl.Int64)


def _describe(name: str) -> list[tuple[str, pl.Expr]]:
    value = pl.col(name)
    whole = [(f"{name}_mean_ns", value.mean().round(0).cast(pl.Int64))]
    whole += [(f"{name}_p{q}_ns", percentile(value, q)) for q in (50, 95, 99)]
    return [*whole, (f"{name}_std_ns", value.std().fill_nan(None).round(0).cast(pl.Int64))]


def summarize_throughput(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return launches per second of both roles in total: one after the other, and started together.

    The time between the two, in which the second one is loaded and no one launches, is not counted.

    Returns: phase (apart where both were hardly at work at once), rounds, launches, beside (how many of them ran while
        the other one was at work, null where they ran in turn), total_per_second.
    """
    shared = mark_beside(stamps).filter(pl.col("phase").is_in(["sequential", TOGETHER]))
    turn = pl.when(pl.col("phase") == "sequential").then("role")
    spans = shared.group_by("phase", "round", turn=turn).agg(
        n=pl.len(), beside=pl.col("beside").sum(), span=pl.col("complete_ns").max() - pl.col("start_ns").min()
    )
    together = pl.col("phase") == TOGETHER
    called = pl.lit(APART if is_apart(stamps) else TOGETHER)
    return spans.group_by("phase").agg(
        rounds=pl.col("round").n_unique().cast(pl.Int64), launches=pl.col("n").sum().cast(pl.Int64),
        beside=pl.col("beside").sum().cast(pl.Int64),
        total_per_second=(pl.col("n").sum() * 1e9 / pl.col("span").sum()).round(1),
    ).sort("phase").with_columns(
        phase=pl.when(together).then(called).otherwise("phase"), beside=pl.when(together).then("beside")
    )  # fmt: skip


def measure_overhead(stamps: pl.DataFrame, captured: pl.DataFrame) -> pl.DataFrame:
    """Return, per phase and role, the median latency without and with instrumentation, and their ratio.

    Returns: phase (`overlap.part_phases`: launches beside the other one's work are compared with such, the others of
        the same rounds with each other), role, plain_launches, captured_launches, plain_p50_ns, captured_p50_ns, ratio
        (null with fewer than `MIN_VALUES` launches on a side).
    """
    plain, instrumented = (
        part_phases(side)
        .group_by("phase", "role")
        .agg(launches=pl.len().cast(pl.Int64), p50_ns=percentile(took_ns(), 50))
        for side in (stamps, captured)
    )
    keys = ["phase", "role"]
    # What was never captured in turn is compared with nothing.
    ran = captured["phase"].unique().to_list()
    joined = plain.join(instrumented, on=keys, how="full", suffix="_captured", coalesce=True)
    joined = joined.filter(pl.col("phase").is_in([*ran, *([APART] if TOGETHER in ran else [])])).sort(_order(), "role")
    counts = [pl.col(name).fill_null(0) for name in ("launches", "launches_captured")]
    is_known = (pl.min_horizontal(counts) >= MIN_VALUES) & (pl.col("p50_ns") > 0)
    return joined.select(
        *keys, plain_launches=counts[0], captured_launches=counts[1], plain_p50_ns="p50_ns",
        captured_p50_ns="p50_ns_captured",
        ratio=pl.when(is_known).then(pl.col("p50_ns_captured") / pl.col("p50_ns")).round(2),
    )  # fmt: skip
