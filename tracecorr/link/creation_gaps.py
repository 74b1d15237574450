"""Creation gaps: places of the log at which lines of queue creations are missing, as the trace tells."""

from __future__ import annotations

import polars as pl

from tracecorr.align.cooperative import CREATED
from tracecorr.model.schema import CAT

_CREATE = pl.lit("AMDKFD_IOC_CREATE_QUEUE", CAT)
_COLUMNS = (
    "file", "thread", "offset", "end_offset", "ts_ns", "dur_ns", "err_lo_ns", "name", "layer", "source", "clock",
)  # fmt: skip


def add_creation_gaps(gaps: pl.DataFrame, events: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return `gaps` with those between two lines of a thread where it made several queues and printed one of them.

    What lacks are the Created line of the one and the count of the other at least, and perhaps an exit and an enter
    between them. In a whole log ROCr made one of them for itself: only in a log that lost lines are these places of a
    loss.

    Args:
        gaps: as `packet_gaps.list_packet_gaps` returns them.
        events: placed events with `thread`.
        losses: files of the log that lost lines (`false_calls.find_losses`).
    """
    ioctls = events.select("thread", "ts_ns", "err_lo_ns", "name", "layer", "source").filter(
        (pl.col("layer") == "ioctl") & (pl.col("source") == "ftrace") & (pl.col("name") == _CREATE)
    ).drop_nulls(["thread", "err_lo_ns"]).unique(["thread", "ts_ns"]).sort("ts_ns")  # fmt: skip
    several = ioctls.filter(pl.len().over("thread") > 1)
    # Of others it is only not proven that they are whole.
    shown = losses.filter(pl.col("lost") > 0)["file"]
    if several.is_empty() or shown.is_empty():
        return gaps
    lossy = events.select(_COLUMNS).filter(pl.col("file").is_in(shown.implode()))
    lines = _list_lines(lossy, several["thread"].unique())
    by = {"on": "ts_ns", "by": "thread", "check_sortedness": False}
    before = several.join_asof(lines.select("thread", "ts_ns", "file", low="offset"), **by)  # type: ignore[arg-type]
    after = before.join_asof(
        lines.select("thread", "ts_ns", "made", behind="file", high="offset"),
        strategy="forward", **by,  # type: ignore[arg-type]
    ).filter("made", pl.col("file") == pl.col("behind"))  # fmt: skip
    counted = after.group_by("file", "low", "high", maintain_order=True).agg(made=pl.len()).filter(pl.col("made") > 1)
    first = int(gaps["queue"].max() or 0) + 1  # type: ignore[arg-type]
    found = counted.with_row_index("queue", first).with_columns(
        missing=pl.col("made"), printed=pl.lit(1), covered=pl.lit(0.0)
    )
    return pl.concat([gaps, found.select(gaps.columns).cast(gaps.schema)])


def _list_lines(events: pl.DataFrame, threads: pl.Series) -> pl.DataFrame:
    """Return thread, ts_ns, file, offset, made (whether it is a Created line) of all lines of threads, by time."""
    rows = events.filter(
        (pl.col("source") == "amd_log") & (pl.col("clock") == "mono") & pl.col("thread").is_in(threads.implode())
    )
    ends = rows.drop_nulls(["end_offset", "dur_ns"]).select(
        "thread", pl.col("ts_ns") + pl.col("dur_ns"), "file", offset="end_offset", made=pl.lit(value=False)
    )
    made = (pl.col("name") == CREATED).fill_null(value=False)
    return pl.concat([rows.select("thread", "ts_ns", "file", "offset", made=made), ends]).sort("ts_ns", "offset")
