"""The launches of an experiment, as the workloads stamped them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

STAMPS = {"phase": pl.String, "round": pl.Int64, "role": pl.String, "start_ns": pl.Int64, "return_ns": pl.Int64,
          "complete_ns": pl.Int64}  # fmt: skip
TOGETHER = "together"
# What is found of a phase in which both were started at once, but were not at work at once.
APART = "apart"
PHASES = ("high_alone", "low_alone", "sequential", TOGETHER, APART)
OTHER = {"high": "low", "low": "high"}


def as_rows(phase: str, number: int, stamps: Mapping[str, list[tuple[int, int, int]]]) -> pl.DataFrame:
    """Return the stamps of one round as rows of `STAMPS`."""
    rows = [(phase, number, role, *stamp) for role, found in stamps.items() for stamp in found]
    return pl.DataFrame(rows, schema=STAMPS, orient="row")


def took_ns() -> pl.Expr:
    """Return the time from a launch to the completion that its host noticed."""
    return pl.col("complete_ns") - pl.col("start_ns")
