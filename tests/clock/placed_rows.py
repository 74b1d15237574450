"""Rows as they are when they are placed on the common clock."""

from __future__ import annotations

import polars as pl

from tracecorr.model.frames import PLACED


def complete(given: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the columns that placing keeps: null where they are not given."""
    made = {"event", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", *given.columns}
    return given.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in PLACED.schema.items() if name not in made
    )
