"""How values are written: addresses as `0x` text, times with a unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from polars.selectors import float as floats

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
