"""Which rows count as calls: one that two tracers recorded is two rows."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import Flag


def is_counted() -> pl.Expr:
    """Tell of rows with `flags` whether each is the one that counts of its call; never null.

    Example:
        >>> pl.DataFrame({"flags": [None, 0, 512, 1024, 1536]}).select(is_counted()).to_series().to_list()
        [True, True, True, False, False]
    """
    return pl.col("flags").fill_null(0) & int(Flag.TWIN) == 0
