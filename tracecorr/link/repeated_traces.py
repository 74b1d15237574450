"""Do two kernel traces of a capture hold the same records?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import REPEATED_TRACE

# Texts round to a microsecond.
_STEP_NS = 1000
# The pages of one recording lie in a folder of their own.
_RECORDING = pl.col("path").str.extract(r"^([^/]+/[^/]+/[^/]+)").alias("recording")
_RECORD = ["clock", "tid", "name", "at"]


def find_repeated_traces(traces: Sequence[pl.DataFrame]) -> list[int]:
    """Return the places of the traces of which every record is in another one that is kept: the larger, or the first.

    Args:
        traces: of each its part events: clock, tid, name, stamp_ns.
    """
    counted = [_count_records(trace) for trace in traces]
    kept: list[int] = []
    for place in sorted(range(len(traces)), key=lambda n: -traces[n].height):
        if not any(_holds_all(counted[other], counted[place]) for other in kept):
            kept.append(place)
    return [place for place in range(len(traces)) if place not in kept]


def _count_records(trace: pl.DataFrame) -> pl.DataFrame:
    named = pl.col("clock", "name").cast(pl.String)
    return trace.select(named, "tid", at=_round(pl.col("stamp_ns"))).group_by(_RECORD).len()


def _round(stamp: pl.Expr) -> pl.Expr:
    return (stamp + _STEP_NS // 2) // _STEP_NS


def _holds_all(large: pl.DataFrame, small: pl.DataFrame) -> bool:
    both = small.join(large, on=_RECORD, how="left", nulls_equal=True, suffix="_large")
    return small.height > 0 and bool((both["len"] <= both["len_large"].fill_null(0)).all())


def skip_records(ledger: pl.DataFrame) -> pl.DataFrame:
    """Return the ledger of a trace that is repeated: what was used of it is skipped."""
    used = pl.col("outcome").cast(pl.String) == "used"
    return ledger.with_columns(
        outcome=pl.when(used).then(pl.lit("skipped")).otherwise(pl.col("outcome").cast(pl.String)).cast(schema.CAT),
        reason=pl.when(used).then(pl.lit(REPEATED_TRACE)).otherwise(pl.col("reason").cast(pl.String)).cast(schema.CAT),
    )


def warn_skipped_traces(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about traces that were left out, because another one holds all of their records.

    Args:
        ledger, files: the tables.
    """
    skipped = ledger.filter(pl.col("reason").cast(pl.String) == REPEATED_TRACE).select("file").unique()
    named = files.join(skipped, on="file", how="semi").select(_RECORDING).unique().sort("recording")
    return [f"{path}: all of its records are {REPEATED_TRACE}: they count once" for path in named["recording"]]


def warn_repeated_traces(events: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about traces that hold the same records: one recording in two forms, whose events count twice.

    Args:
        events, files: the tables.
    """
    named = files.filter(pl.col("source").cast(pl.String) == "ftrace").select("file", _RECORDING).drop_nulls()
    if named["recording"].n_unique() < 2:
        return []
    rows = events.filter(pl.col("source") == "ftrace").join(named, on="file")
    rows = rows.select("recording", "tid", "name", at=_round(pl.col("stamp_ns"))).unique()
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
