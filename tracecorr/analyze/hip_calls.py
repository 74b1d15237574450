"""Which HIP calls were made, how often, and how long did they take?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, count_failed, describe_ns
from tracecorr.model.hip_names import is_internal


def summarize_hip_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per HIP function that a program calls by name, the longest total first.

    Times are those of whole calls: a call inside another one counts in both. Calls whose return
    was not seen are counted in `calls` and `half_seen`, and in no time. `share` is the part of the time of all these
    calls, percent.
    """
    return _summarize(events, internal=False)


def summarize_internal_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per function that no program calls by name (`__hipPushCallConfiguration`), as above."""
    return _summarize(events, internal=True)


def is_called(*, internal: bool = False) -> pl.Expr:
    """Tell of events whether they are calls of HIP functions that a program names, or of internal ones."""
    # What a profiler timed again is in the section of rocprof.
    logged = (pl.col("layer").cast(pl.String) == "hip") & pl.col("source").cast(pl.String).ne_missing("rocprof")
    # A call whose name is not known counts as one of the program's.
    inner = is_internal(pl.col("name").cast(pl.String).fill_null("hip"))
    return logged & (inner if internal else ~inner)


def _summarize(events: pl.LazyFrame, *, internal: bool) -> pl.DataFrame:
    return collect(
        events.filter(is_called(internal=internal))
        .with_columns(as_text("name"))
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *count_failed(),
            pl.col("dur_ns").is_null().sum().cast(pl.Int64).alias("half_seen"),
            *describe_ns("dur_ns"),
        )
        .with_columns(share=_share_of_all())
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


def _share_of_all() -> pl.Expr:
    whole = pl.col("total_ns").sum()
    return pl.when(whole > 0).then(100 * pl.col("total_ns") / whole).round(1)
