"""Steps: how far the true time of a row may lie from the stamp that its source printed."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import Places, attach_columns

# These count cycles, or what else an unnamed clock counts; a cycle is no longer than a nanosecond.
COUNTS = ("x86-tsc", "ticks")
# Without a map, steps of these are no nanoseconds.
UNTIMED = (*COUNTS, "counter")
_CYCLE_NS = 1
# More than an error column holds: it is told as clamped.
_UNKNOWN_NS = 2**32
# `uptime` with one stamp alone.
COARSEST_NS = 20_000_000


def find_steps(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the steps of clocks that text does not round to a microsecond.

    A counter of cycles is printed whole; `uptime` counts jiffies.
    """
    of_trace, clock = pl.col("source") == "ftrace", pl.col("clock")
    is_coarse = of_trace & (clock == "uptime")
    is_count = of_trace & pl.any_horizontal(clock == name for name in COUNTS)
    odd = records.select("source", "clock", "stamp_ns").filter(is_coarse | is_count)
    if odd.is_empty():
        return records
    ticks = odd.filter(is_coarse)["stamp_ns"].drop_nulls().unique().sort().diff().drop_nulls()
    # A jiffy may be counted late, by as much as it is long.
    late = pl.when(is_coarse).then(2 * int(ticks.to_numpy().min()) if len(ticks) else COARSEST_NS)
    return records.with_columns(
        step_lo_ns=pl.when(is_count | is_coarse).then(0).otherwise("step_lo_ns"),
        step_hi_ns=late.when(is_count).then(_CYCLE_NS).otherwise("step_hi_ns"),
    )


def widen_reads(records: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the steps of what has no time but that of the read that brought it: it was earlier.

    Args:
        records: part events with `source` and `step_lo_ns`.
        args: part args; `waited_ns` of an SMI event says how much earlier it may have happened. An event on the clock
            of its read without that may have happened at any time before.
    """
    mine = records.select("file", "source").filter(pl.col("source") == "kfd_smi").select("file").unique()
    if mine.is_empty():
        return records
    waits = args.join(mine, on="file", how="semi").filter(pl.col("key") == "waited_ns")
    keyed = waits.select("u64", row=Places.of(records).find(waits)).drop_nulls()
    wait = pl.col("u64").clip(upper_bound=_UNKNOWN_NS).cast(pl.Int64)
    waited = attach_columns(records, keyed.select("row", waited=wait), "row")
    untold = pl.when((pl.col("source") == "kfd_smi") & (pl.col("clock") == "mono")).then(_UNKNOWN_NS)
    return waited.with_columns(step_lo_ns=pl.coalesce("waited", untold, "step_lo_ns")).drop("waited")
