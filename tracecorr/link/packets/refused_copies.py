"""Copies that ROCr refused: HIP prints each before it asks for it, and copies by a kernel when that fails."""

from __future__ import annotations

import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import COPY, COPY_FAILED, COPY_REFUSED


def name_refused_copies(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with copies called `COPY_REFUSED` where the next line of their thread says that they failed.

    HIP 6.4 and 7.2 print the failure at once, with nothing of the thread between (rocblit.cpp).

    Args:
        events: rows with event, layer, name, source, thread, file, offset.
    """
    failed = events.select("event", "layer", "name", "thread").filter(
        (pl.col("layer") == "copy") & (pl.col("name") == COPY_FAILED)
    )
    if failed.is_empty():
        return events
    columns = events.select("event", "layer", "name", "source", "thread", "file", "offset")
    # A GPU time is a row of its own with the bytes of the line that tells it.
    lines = columns.filter((pl.col("source") == "amd_log") & (pl.col("layer") != "gpu"))
    lines = lines.join(failed.select("thread").unique(), on="thread", how="semi").sort("file", "offset")
    following = pl.col("name").shift(-1).over("file", "thread")
    refused = lines.filter((pl.col("layer") == "copy") & (pl.col("name") == COPY) & (following == COPY_FAILED))
    is_refused = pl.col("event").is_in(refused["event"].implode())
    return events.with_columns(name=pl.when(is_refused).then(pl.lit(COPY_REFUSED, schema.CAT)).otherwise("name"))
