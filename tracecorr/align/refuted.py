"""Traces that were said to be on CLOCK_MONOTONIC, and are shown to be on another clock."""

from __future__ import annotations

import polars as pl

_SAID = "ftrace:mono"


def find_refuted_ns(clock_map: pl.DataFrame) -> int | None:
    """Return how far beside CLOCK_MONOTONIC a trace runs that was said to be on it, by bounds that leave no zero.

    Args:
        clock_map: the table.

    Returns: the largest offset that is shown, ns; None where no trace was said to be, or nothing refutes it.
    """
    fitted = ~pl.col("method").cast(pl.String).is_in(["same_clock", "unaligned"])
    said = clock_map.filter((pl.col("source").cast(pl.String) == _SAID) & fitted)
    grown = (pl.col("rate_ppb") * 1e-9 * (pl.col("to_ns") - pl.col("from_ns"))).round().cast(pl.Int64)
    ends = [said.with_columns(at=pl.col("offset_ns") + more) for more in (0, grown)]
    beside = pl.concat(ends).filter((pl.col("at") > pl.col("lo_ns")) | (pl.col("at") < -pl.col("hi_ns")))
    shown = beside.sort(pl.col("at").abs())["at"]
    return None if shown.is_empty() else int(shown[-1])


def warn_refuted(clock_map: pl.DataFrame) -> list[str]:
    """Return what to say of a trace that is on another clock than was said, and what to do about it."""
    offset_ns = find_refuted_ns(clock_map)
    if offset_ns is None:
        return []
    return [
        f"{_SAID}: the trace was said to be on CLOCK_MONOTONIC, but the evidence shows that it runs "
        f"{offset_ns / 1e6:+.3f} ms beside it; times are those that the evidence gives. Name the clock that it was "
        "recorded with (--ftrace-clock local, unless trace_clock was set), or leave the option out. If it was mono, "
        "the log is of another time namespace or machine"
    ]
