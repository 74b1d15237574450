"""Beginnings: of which processes the log has the first lines, and what may be from before a log's first line.

A log whose head was cut off (log rotation, AMD_LOG_LEVEL_SIZE, the tail of a file) begins in the middle of a run.
"""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import BEGINNINGS

# A log that names no process is that of one, told by its file.
LOG_OF_PROCESS = pl.coalesce(pl.col("process").cast(pl.Int64), -1 - pl.col("file").cast(pl.Int64)).alias("log")


def list_begun(events: pl.DataFrame) -> pl.Series:
    """Return the processes (as `LOG_OF_PROCESS` numbers them) of which the log has the beginning.

    A beginning that names no process is that of all in its file: up to ROCm 4.5 only lines of HIP calls name theirs.

    Args:
        events: file, process, name.
    """
    begins = events.select("file", "process", "name").filter(pl.col("name").is_in(BEGINNINGS))
    unnamed = begins.filter(pl.col("process").is_null())["file"].unique()
    begun = begins.select(LOG_OF_PROCESS).to_series()
    if len(unnamed):
        begun.append(events.filter(pl.col("file").is_in(unnamed.implode())).select(LOG_OF_PROCESS).to_series())
    return begun.unique()


def is_late(begun: pl.Series) -> pl.Expr:
    """Tell which rows (file, process) are of processes of which the log does not have the beginning.

    Args:
        begun: as `list_begun` returns them.
    """
    return ~LOG_OF_PROCESS.is_in(begun.implode())
