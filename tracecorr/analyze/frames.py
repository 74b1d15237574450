"""What all questions share: how tables are read, and how times and spans of time are summed up."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.model.columns import is_failed
from tracecorr.model.kinds import NOT_YET
from tracecorr.store.fleet import Tables as Tables  # all questions take it from here

# A sum beyond it may have wrapped; rounded to a float it is still told apart from 2**63.
_LARGEST = 2.0**62


def percentile(value: pl.Expr, percent: int) -> pl.Expr:
    """Return a percentile by nearest rank: a value that occurred, of two values the smaller one for 50.

    It is null if the value is so large that a quantile, a float, does not hold it.
    """
    return value.quantile(percent / 100, "equiprobable").cast(pl.Int64, strict=False)


def total(value: pl.Expr) -> pl.Expr:
    """Return the sum of whole numbers; null without any, and where it is larger than such a number can be."""
    fits = value.cast(pl.Float64).sum().abs() < _LARGEST
    return pl.when((value.count() > 0) & fits).then(value.sum().cast(pl.Int64))


def describe_ns(column: str, quantiles: tuple[int, ...] = (50, 95, 99)) -> list[pl.Expr]:
    """Return the aggregates `total_ns, mean_ns, p50_ns, ..., max_ns` of a column of nanoseconds.

    Percentiles are those of `percentile`, never interpolated. Without any value all are null, `total_ns`, too.
    """
    value = pl.col(column)
    return [
        total(value).alias("total_ns"),
        value.mean().round(0).cast(pl.Int64, strict=False).alias("mean_ns"),
        *(percentile(value, q).alias(f"p{q}_ns") for q in quantiles),
        value.max().cast(pl.Int64).alias("max_ns"),
    ]


def spread_ns(took: pl.Expr, name: str) -> tuple[pl.Expr, ...]:
    """Return the aggregates `NAME_p50_ns`, `NAME_p95_ns` and `NAME_max_ns` of nanoseconds."""
    return (
        percentile(took, 50).alias(f"{name}_p50_ns"),
        percentile(took, 95).alias(f"{name}_p95_ns"),
        took.max().alias(f"{name}_max_ns"),
    )


def count_failed() -> tuple[pl.Expr, pl.Expr]:
    """Return the aggregates `errors`, rows that failed, and `not_yet`, rows that tell only of something not done.

    Both are null if no row has a result.
    """
    result = pl.col("result").cast(pl.String)
    is_known = pl.when(result.count() > 0)
    errors = is_known.then(is_failed(result).sum().cast(pl.Int64)).alias("errors")
    return errors, is_known.then(result.is_in(NOT_YET).sum().cast(pl.Int64)).alias("not_yet")


def as_text(*columns: str) -> list[pl.Expr]:
    """Return the columns as strings: categoricals of different files do not compare otherwise."""
    return [pl.col(c).cast(pl.String) for c in columns]


def collect(frame: pl.LazyFrame) -> pl.DataFrame:
    """Return the rows of a frame that is too large to be held before it is summed up."""
    return frame.collect(engine="streaming")


def add_gaps(spans: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return spans in the order of their starts, with what each adds to those of its group before it.

    The sum of `covered_ns` is the length of their union, whatever their order, and with `gap_ns` the time from the
    first start to the last end.

    Args:
        spans: columns start_ns, end_ns (not before the start), and `by`.
        by: the columns of the groups; null is a group.

    Returns: `spans` with covered_ns, gap_ns (time since the last end before it; null if there is none).
    """
    ordered = spans.sort("start_ns", "end_ns", maintain_order=True)
    ordered = ordered.with_columns(_before=pl.col("end_ns").cum_max().shift(1).over(by))
    start, end, before = pl.col("start_ns"), pl.col("end_ns"), pl.col("_before")
    return ordered.with_columns(
        covered_ns=(end - pl.max_horizontal(start, before)).clip(lower_bound=0),
        gap_ns=pl.when(start > before).then(start - before),
    ).drop("_before")


def sum_overlaps(spans: pl.DataFrame, by: Sequence[str], lane: str) -> pl.DataFrame:
    """Return one row per group: `by`, overlap_ns (the time in which spans of two lanes and more ran at once).

    Args:
        spans: columns start_ns, end_ns, `by` and `lane`.
        by: the columns of the groups.
        lane: the column whose values run beside each other.
    """
    groups = spans.select(by).unique(maintain_order=True).with_row_index("_group")
    own = ["_group", lane]
    numbered = spans.join(groups, on=by, nulls_equal=True).select(*own, "start_ns", "end_ns")
    parts = add_gaps(numbered, own).with_columns(_part=pl.col("gap_ns").is_not_null().cum_sum().over(own))
    merged = parts.group_by(*own, "_part").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    edges = pl.concat([
        merged.select("_group", at=pl.col("start_ns"), step=pl.lit(1)),
        merged.select("_group", at=pl.col("end_ns"), step=pl.lit(-1)),
    ]).sort("at")  # fmt: skip
    depth = edges.with_columns(
        depth=pl.col("step").cum_sum().over("_group"), lasts=(pl.col("at").shift(-1) - pl.col("at")).over("_group")
    )
    several = pl.col("lasts").filter(pl.col("depth") > 1).sum().cast(pl.Int64)
    return groups.join(depth.group_by("_group").agg(overlap_ns=several), on="_group", how="left").drop("_group")
