"""Spans of time that may overlap: what they cover together, what lies between them, where several lanes meet."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def add_gaps(spans: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return spans in the order of their starts, with what each adds to those of its group before it.

    The sum of `covered_ns` is the length of their union, whatever their order, and with `gap_ns` the time from the
    first start to the last end.

    Args:
        spans: columns start_ns, end_ns (not before the start), and `by`.
        by: the columns of the groups; null is a group.

    Returns: `spans` with covered_ns, gap_ns (time since the last end before it; null where there is none).
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
