"""Kernels: one row per kernel name, with a short name for lanes."""

from __future__ import annotations

import re

import polars as pl

_TILE = re.compile(r"MT\d+x\d+x\d+")


def list_kernels(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the table `kernels`, and `event` -> `kernel_id` for every row that names one."""
    named = events.filter(pl.col("kernel").is_not_null()).select("event", pl.col("kernel").cast(pl.String))
    names = named.select("kernel").unique(maintain_order=True).with_row_index("kernel_id")
    table = names.select(
        kernel="kernel_id",
        name="kernel",
        mangled=pl.when(pl.col("kernel").str.starts_with("_Z")).then("kernel"),
        display=pl.Series([shorten_name(name) for name in names["kernel"]], dtype=pl.String),
    )
    return table, named.join(names, on="kernel", maintain_order="left").select("event", "kernel_id")


def shorten_name(name: str) -> str:
    """Return a short name for a lane: without arguments and template values, Tensile kernels by their tile.

    >>> shorten_name("gemm16(float const*, float const*, float*, int)")
    'gemm16'
    >>> shorten_name("Cijk_Ailk_Bljk_SB_MT64x64x32_MI32x32x1_SN_LDSB0")
    'Cijk_Ailk_Bljk_SB MT64x64x32'
    """
    tile = _TILE.search(name)
    if name.startswith("Cijk_") and tile:
        return f"{name[: tile.start()].rstrip('_')} {tile.group()}"
    plain = name.split("(", 1)[0].split("<", 1)[0].strip()
    return (plain.split(" ")[-1] or name)[:64]
