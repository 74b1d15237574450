"""Do two kernel traces of a capture hold the same records?"""

from __future__ import annotations

import polars as pl

# Texts round to a microsecond.
_STEP_NS = 1000


def warn_repeated_traces(events: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about traces that hold the same records: one recording in two forms, whose events count twice.

    Args:
        events, files: the tables.
    """
    # The pages of one recording lie in a folder of their own.
    recording = pl.col("path").str.extract(r"^([^/]+/[^/]+/[^/]+)").alias("recording")
    named = files.filter(pl.col("source").cast(pl.String) == "ftrace").select("file", recording).drop_nulls()
    if named["recording"].n_unique() < 2:
        return []
    rows = events.filter(pl.col("source") == "ftrace").join(named, on="file")
    rows = rows.select("recording", "tid", "name", at=(pl.col("stamp_ns") + _STEP_NS // 2) // _STEP_NS).unique()
    both = rows.join(rows, on=["tid", "name", "at"]).filter(pl.col("recording") < pl.col("recording_right"))
    pairs = both.group_by("recording", "recording_right").agg(same=pl.len()).sort("recording", "recording_right")
    counts = dict(rows.group_by("recording").len().iter_rows())
    # Single events of two instances may be the same.
    return [
        f"{one} and {other} hold the same records ({same}): they are one recording in two forms, and each event of it "
        "counts twice; import one of them"
        for one, other, same in pairs.iter_rows()
        if 2 * same >= min(counts[one], counts[other])
    ]
