"""What did the driver do while the runtime made a queue?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.model.kinds import INFERRED

_COLUMNS = ("thread", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns")


def sum_ioctls_inside(tables: Tables, spans: pl.DataFrame) -> pl.DataFrame:
    """Return how many ioctls of the same thread surely lie between two lines of the log, and how long they took.

    An ioctl that the errors of the clocks may put outside of both lines is left out, as are those of threads of which
    it is only inferred that they are the log's. So there may have been more.

    Args:
        tables: gives a table by its name.
        spans: start_event, end_event: rows of `events`; spans of one thread do not overlap.

    Returns: end_event, rocr_ioctls, rocr_in_ioctls_ns; only of spans with such ioctls.
    """
    guessed = tables("threads").filter(pl.col("evidence").cast(pl.String) == INFERRED).select("thread").collect()
    known = _add_bounds(tables, spans).join(guessed, on="thread", how="anti")
    own = pl.col("thread").is_in(known["thread"].unique().implode())
    ioctls = collect(tables("events").filter((pl.col("layer") == "ioctl") & own).select(_COLUMNS))
    ioctls = ioctls.select(
        "thread", "dur_ns", low_ns=pl.col("ts_ns") - pl.col("err_lo_ns").cast(pl.Int64),
        high_ns=pl.col("ts_ns") + pl.col("dur_ns") + pl.col("err_hi_ns").cast(pl.Int64),
    ).drop_nulls()  # fmt: skip
    held = ioctls.sort("low_ns").join_asof(
        known.sort("from_ns"), left_on="low_ns", right_on="from_ns", by="thread", check_sortedness=False
    )
    inside = held.filter(pl.col("high_ns") <= pl.col("to_ns"))
    return inside.group_by("end_event").agg(
        pl.len().cast(pl.Int64).alias("rocr_ioctls"), pl.col("dur_ns").sum().alias("rocr_in_ioctls_ns")
    )


def _add_bounds(tables: Tables, spans: pl.DataFrame) -> pl.DataFrame:
    """Return end_event, thread, from_ns and to_ns of each span: it had surely begun then, and had not ended."""
    events = pl.concat([spans["start_event"], spans["end_event"]]).drop_nulls().unique().sort()
    lines = collect(
        tables("events").filter(pl.col("event").is_in(events.implode()))
        .select("event", "thread", "ts_ns", pl.col("err_lo_ns", "err_hi_ns").cast(pl.Int64))
    )  # fmt: skip
    begun = lines.select(start_event="event", from_ns=pl.col("ts_ns") + pl.col("err_hi_ns"))
    ended = lines.select("thread", end_event="event", to_ns=pl.col("ts_ns") - pl.col("err_lo_ns"))
    joined = spans.join(begun, on="start_event").join(ended, on="end_event")
    return joined.select("end_event", "thread", "from_ns", "to_ns").drop_nulls()
