"""Steps: how far the true time of a row may lie from the stamp that its source printed."""

from __future__ import annotations

import polars as pl

# These count cycles, or what else an unnamed clock counts; a cycle is no longer than a nanosecond.
COUNTS = ("x86-tsc", "ticks")
# Without a map, steps of these are no nanoseconds.
UNTIMED = (*COUNTS, "counter")
_CYCLE_NS = 1
# More than an error column holds: it is told as clamped.
_UNKNOWN_NS = 2**32


def find_steps(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the steps of clocks that text does not round to a microsecond.

    Args:
        records: part events with `source`, `clock`, `step_lo_ns` and `step_hi_ns` (ns below and above a stamp).
    """
    is_count = (pl.col("source") == "ftrace") & pl.any_horizontal(pl.col("clock") == name for name in COUNTS)
    if not records.select(is_count.any()).item():
        return records
    return records.with_columns(
        step_lo_ns=pl.when(is_count).then(0).otherwise("step_lo_ns"),
        step_hi_ns=pl.when(is_count).then(_CYCLE_NS).otherwise("step_hi_ns"),
    )


def widen_reads(records: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the steps of what has no time but that of the read that brought it: it was earlier.

    Args:
        records: part events with `source` and `step_lo_ns`.
        args: part args; `waited_ns` of an SMI event says how much earlier it may have happened. An event on the clock
            of its read without that may have happened at any time before.
    """
    is_read = pl.col("source") == "kfd_smi"
    if not records.select(is_read.any()).item():
        return records
    place, wait = ["file", "offset"], pl.col("u64").clip(upper_bound=_UNKNOWN_NS).cast(pl.Int64)
    waits = args.filter(pl.col("key") == "waited_ns").select(*place, waited=wait).unique(place, keep="first")
    waited = records.join(waits, on=place, how="left", maintain_order="left")
    untold = pl.when(is_read & (pl.col("clock") == "mono")).then(_UNKNOWN_NS)
    return waited.with_columns(
        step_lo_ns=pl.when(is_read).then(pl.coalesce("waited", untold, "step_lo_ns")).otherwise("step_lo_ns")
    ).drop("waited")
