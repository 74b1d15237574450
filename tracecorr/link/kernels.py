"""Kernels: one row per kernel, its name demangled, with a short one for lanes."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import number_groups
from tracecorr.model.kernel_names import demangle_name, label_kernels


def list_kernels(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the table `kernels`, and `event` -> `kernel_id` for every row that names one.

    A kernel that is printed mangled and demangled is one: HIP 6.4.3 prints mangled what a graph launches, demangled
    what a call does. Where two mangled names read the same, the demangled one is neither of them.
    """
    named = events.select("event", "kernel").drop_nulls("kernel")
    codes, groups = number_groups(named, ["kernel"])
    printed = groups.select(pl.col("kernel").cast(pl.String)).with_row_index("code")
    readable = pl.Series([demangle_name(name) for name in printed["kernel"]], dtype=pl.String)
    is_mangled = pl.col("kernel").str.starts_with("_Z")
    names = printed.with_columns(name=readable, mangled=pl.when(is_mangled).then("kernel"))
    only = pl.when(pl.col("mangled").n_unique().over("name") - pl.col("mangled").is_null().any().over("name") == 1)
    shared = pl.col("mangled").drop_nulls().first().over("name")
    names = names.with_columns(mangled=only.then(shared).otherwise("mangled"))
    table = names.select("name", "mangled").unique(maintain_order=True).with_row_index("id")
    ids = names.join(table, on=["name", "mangled"], how="left", nulls_equal=True, maintain_order="left")["id"]
    display = pl.Series(label_kernels(table["name"].to_list()), dtype=pl.String)
    return table.select(kernel="id", name="name", mangled="mangled", display=display), named.select(
        "event", kernel_id=ids.gather(codes)
    )
