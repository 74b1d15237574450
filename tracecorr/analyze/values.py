"""How values are written: addresses as `0x` text, times with a unit."""

from __future__ import annotations

from typing import Any

import polars as pl

# Columns that hold a point in time; every other `_ns` column holds a duration.
_POINTS = {"created_ns", "destroyed_ns", "from_ns", "to_ns", "first_ns", "last_ns", "peak_at_ns", "max_gap_at_ns"}
_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))


def addresses_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `frame` with its UInt64 columns as `0x...` text and its categoricals as strings.

    Only addresses, handles and masks are UInt64 (see `model.schema`), and JSON readers lose
    integers above 2^53.
    """
    return frame.with_columns(
        *(
            pl.col(name).map_elements(_hex, return_dtype=_text_type(dtype), skip_nulls=True)
            for name, dtype in frame.schema.items()
            if dtype in (pl.UInt64, pl.List(pl.UInt64))
        ),
        *(pl.col(name).cast(pl.String) for name, dtype in frame.schema.items() if dtype == pl.Categorical),
    )


def plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as JSON can hold them."""
    return addresses_as_text(frame).to_dicts()


def render_value(column: str, value: Any) -> str:
    """Return the text of one value of a column whose name tells its unit."""
    if value is None:
        return "-"
    if column in _POINTS:
        return f"{value / 1e9:.6f}"
    if column.endswith("_ns"):
        return render_ns(value)
    return str(value)


def render_ns(ns: int) -> str:
    """Return a duration with the unit in which it has at most four digits before the point."""
    for unit, size in _UNITS:
        if abs(ns) >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns} ns"


def render_heading(column: str) -> str:
    """Return the heading of a column in a table for people."""
    name = column.removesuffix("_ns").replace("_", " ")
    return f"{name} (s)" if column in _POINTS else name


def _hex(value: Any) -> Any:
    return f"0x{value:x}" if isinstance(value, int) else [None if v is None else f"0x{v:x}" for v in value]


def _text_type(dtype: pl.DataType) -> pl.DataType:
    return pl.String() if dtype == pl.UInt64 else pl.List(pl.String())
