"""What all questions share: how tables are read, times and spans summed up, and values written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from polars.selectors import float as floats

from tracecorr.model.columns import is_failed
from tracecorr.model.kinds import NOT_YET
from tracecorr.store.fleet import Tables as Tables

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


# Columns that hold a point in time; every other `_ns` column holds a duration.
POINTS = {"created_ns", "destroyed_ns", "from_ns", "to_ns", "first_ns", "last_ns", "peak_at_ns", "max_gap_at_ns"}
# Columns of the tables that hold a time; others that end in `_ns` hold a duration.
_TIMES = POINTS | {
    "ts_ns", "stamp_ns", "call_ns", "enqueue_ns", "packet_ns", "doorbell_ns", "gpu_start_ns", "gpu_end_ns",
    "complete_ns", "return_ns", "doorbell_lo_ns", "doorbell_hi_ns", "queued_ns", "run_ns", "done_ns",
    "read_start_ns", "read_end_ns",
}  # fmt: skip
# Their numbers name things and count nothing: digits are not set apart in groups.
IDENTIFIERS = frozenset({
    "event", "parent", "chain", "pid", "tid", "log_pid", "cpu", "depth", "fd", "process", "thread", "queue", "stream",
    "gpu", "gpu_id", "kfd_node", "kfd_queue_id", "snapshot", "vmid",
})  # fmt: skip
_ADDRESSES = (pl.UInt64, pl.List(pl.UInt64))
_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))


def addresses_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `frame` with its UInt64 columns as `0x...` text and its categoricals as strings.

    Only addresses, handles and masks are UInt64 (see `model.schema`), and JSON readers lose
    integers above 2^53.
    """
    return frame.with_columns(plain_columns(frame.schema))


def plain_columns(columns: pl.Schema) -> list[pl.Expr]:
    """Return the expressions that turn UInt64 columns to `0x...` text and categoricals to strings."""
    return [
        *(hex_text(pl.col(name), dtype) for name, dtype in columns.items() if dtype in _ADDRESSES),
        *(pl.col(name).cast(pl.String) for name, dtype in columns.items() if dtype == pl.Categorical),
    ]


def hex_text(value: pl.Expr, dtype: pl.DataType | None = None) -> pl.Expr:
    """Return addresses, or lists of them, as `0x...` text."""
    kind = pl.List(pl.String) if isinstance(dtype, pl.List) else pl.String()
    return value.map_batches(
        lambda series: pl.Series([None if v is None else _hex(v) for v in series.to_list()], dtype=kind),
        return_dtype=kind,
    )


def plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as JSON can hold them: it has no NaN and no infinity, and its readers refuse them."""
    return addresses_as_text(frame).with_columns(pl.when(floats().is_finite()).then(floats())).to_dicts()


def render_value(column: str, value: Any) -> str:
    """Return the text of one value of a column whose name tells its unit."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in POINTS:
        return f"{value / 1e9:.6f}"
    if column.endswith("_ns"):
        return render_ns(value)
    return str(value)


def render_row(columns: Sequence[str], row: Sequence[Any]) -> list[str]:
    """Return the values of a row of the tables for people: times in s, durations with a unit, floats in 4 digits."""
    return [
        f"{value / 1e9:.6f} s" if column in _TIMES and value is not None
        else render_ns(round(value)) if column.endswith("_ns") and isinstance(value, float)
        else f"{value:.4g}" if isinstance(value, float)
        else render_value(column, value)
        for column, value in zip(columns, row, strict=True)
    ]  # fmt: skip


def render_ns(ns: int) -> str:
    """Return a duration with the unit in which it has at most four digits before the point."""
    for unit, size in _UNITS:
        # As it is rounded: 999,999 ns are 1.00 ms and not 1000.00 us.
        if round(1000 * abs(ns) / size, 2) >= 1000:
            return f"{ns / size:.2f} {unit}"
    return f"{ns} ns"


def count_of(number: int, noun: str, single: str = "") -> str:
    """Return a number with its noun.

    Args:
        number: how many.
        noun: one of them; their plural where `single` is given.
        single: one of them.

    >>> count_of(1, "queue"), count_of(3, "queue"), count_of(2, "dispatches", "dispatch")
    ('1 queue', '3 queues', '2 dispatches')
    """
    if number == 1:
        return f"1 {single or noun}"
    return f"{number} {noun}" if single else f"{number} {noun}s"


def render_heading(column: str) -> str:
    """Return the heading of a column in a table for people."""
    name = column.removesuffix("_ns").replace("_", " ")
    unit = "s" if column in POINTS else "%" if name == "share" else ""
    return f"{name} ({unit})" if unit else name


def _hex(value: Any) -> Any:
    return f"0x{value:x}" if isinstance(value, int) else [None if v is None else f"0x{v:x}" for v in value]
