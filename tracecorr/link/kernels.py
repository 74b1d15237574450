"""Kernels: one row per kernel name, demangled, with a short name for lanes."""

from __future__ import annotations

import polars as pl

from tracecorr.align.rows import number_groups
from tracecorr.model.kernel_names import demangle_name, shorten_name


def list_kernels(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the table `kernels`, and `event` -> `kernel_id` for every row that names one."""
    named = events.select("event", "kernel").drop_nulls("kernel")
    codes, groups = number_groups(named, ["kernel"])
    names = groups.select(pl.col("kernel").cast(pl.String)).with_row_index("kernel_id")
    readable = [demangle_name(name) for name in names["kernel"]]
    table = names.select(
        kernel="kernel_id",
        name=pl.Series(readable, dtype=pl.String),
        mangled=pl.when(pl.col("kernel").str.starts_with("_Z")).then("kernel"),
        display=pl.Series([shorten_name(name) for name in readable], dtype=pl.String),
    )
    return table, named.select("event", pl.Series("kernel_id", codes, dtype=pl.UInt32))
