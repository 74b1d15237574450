"""How far may the moments of a launch lie from the truth, and the times between them?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.analyze.frames import collect

# The row of `events` that has the clock, and so the error, of each moment of a launch.
_TOLD_BY = {
    "call_ns": "call_event",
    "return_ns": "call_event",
    "packet_ns": "event",
    "complete_ns": "event",  # a line of the log, too
    "doorbell_ns": "doorbell_event",
    "gpu_start_ns": "gpu_event",
    "gpu_end_ns": "gpu_event",
}
LOG_MOMENTS = ("call_ns", "return_ns", "packet_ns", "complete_ns")


def list_tellers(moments: Sequence[str]) -> list[str]:
    """Return the columns of `launches` that name the rows of `events` with the errors of these moments."""
    return sorted({_TOLD_BY[moment] for moment in moments})


def add_errors(launches: pl.DataFrame, events: pl.LazyFrame, moments: Sequence[str]) -> pl.DataFrame:
    """Return `launches` with the errors of moments, for `gap_error` (columns that begin with `error_`).

    Args:
        launches: rows of `launches` with the columns of `list_tellers`.
        events: the table.
        moments: columns of `launches` such as `doorbell_ns`.
    """
    known = collect(events.select("event", "err_lo_ns", "err_hi_ns"))
    dense = known["event"].is_sorted() and (not known.height or known["event"][-1] == known.height - 1)
    for teller in list_tellers(moments):
        places = launches.select(teller)
        found = (
            pl.select(known[c].gather(places[teller], null_on_oob=True).alias(c) for c in ("err_lo_ns", "err_hi_ns"))
            if dense
            else places.join(known, left_on=teller, right_on="event", how="left", maintain_order="left").drop(teller)
        )
        launches = launches.with_columns(
            found["err_lo_ns"].cast(pl.Int64).alias(f"error_lo_{teller}"),
            found["err_hi_ns"].cast(pl.Int64).alias(f"error_hi_{teller}"),
        )
    return launches


def gap_error(start: str, end: str) -> pl.Expr:
    """Return how far the true time from moment `start` to `end` may lie from theirs, to either side; null = unknown.

    Both ends of a span of the GPU have one clock, whose shift its duration does not carry. Lines of the log have one
    clock, too; what remains is the step of its stamps.
    """
    first, last = _TOLD_BY[start], _TOLD_BY[end]
    if first == last == "gpu_event":
        return pl.lit(0, dtype=pl.Int64)
    lower, upper = (
        pl.col(f"error_lo_{last}") + pl.col(f"error_hi_{first}"),
        pl.col(f"error_hi_{last}") + pl.col(f"error_lo_{first}"),
    )
    return pl.when(lower.is_not_null() & upper.is_not_null()).then(pl.max_horizontal(lower, upper))


def widest(error: pl.Expr) -> pl.Expr:
    """Return the aggregate: the largest error of the rows; null where that of one row is unknown."""
    return pl.when(error.is_not_null().all()).then(error.max())
