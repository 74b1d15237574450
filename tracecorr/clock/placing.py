"""Place the rows of every source on the common clock, with the error of each time.

The error begins with the step: how far the true time of a row may lie from the stamp that its source printed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tracecorr.clock.clock_map import ClockMap
from tracecorr.model.columns import fold_constant
from tracecorr.model.frames import PLACED
from tracecorr.model.kinds import Flag

# These count cycles, or what else an unnamed clock counts; a cycle is no longer than a nanosecond.
COUNTS = ("x86-tsc", "ticks")
# Without a map, steps of these are no nanoseconds.
UNTIMED = (*COUNTS, "counter")
_CYCLE_NS = 1
# More than an error column can hold: it is marked as clamped.
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


_U32_MAX = 2**32 - 1
_TIMES = ("stamp_ns", "end_stamp_ns", "step_lo_ns", "step_hi_ns", "file", "offset", "flags")
# What the times on the common clock stand for from here on.
_SPENT = ("end_stamp_ns", "step_lo_ns")


def place_records(records: pl.DataFrame, maps: dict[str, ClockMap]) -> pl.DataFrame:
    """Return `records` in time order with `event`, `ts_ns`, `dur_ns`, `err_lo_ns`, `err_hi_ns`, `flags`.

    Args:
        records: part events with `source`, `step_lo_ns` and `step_hi_ns` (how far the source's rounding
            puts the true time below and above a stamp). What the caller does not hold is freed column by column.
        maps: a clock map for every `source:clock` of the records.
    """
    # A capture without any file names no clock, but its rows have the same columns.
    clocks = records.lazy().select("source", "clock").unique(maintain_order=True).collect()
    keys = [f"{source}:{clock or 'unknown'}" for source, clock in clocks.cast(pl.String).iter_rows()]
    fitting = [maps[key] for key in keys] or [ClockMap("same_clock")]
    times = records.select(_TIMES)
    if len(fitting) == 1:
        placed = _place(times, fitting[0])
    else:
        each = clocks.with_row_index("map")
        of_map = records.select("source", "clock").join(each, on=["source", "clock"], how="left", nulls_equal=True)
        placed = _place_each(times, of_map["map"].to_numpy(), fitting)
        del of_map
    # Stamps that are on the common clock already stay in one column.
    own = len(fitting) == 1 and _is_common(fitting[0]) and not times["stamp_ns"].null_count()
    time = "stamp_ns" if own else "ts_ns"
    columns = [pl.concat([records.drop(*_SPENT, "flags"), placed.drop("ts_ns") if own else placed], how="horizontal")]
    del records, times, placed
    ordered = _in_order(columns.pop(), time)
    return PLACED.take(ordered.select(pl.all().exclude("ts_ns"), ts_ns=time, event=pl.int_range(pl.len())))


def _place_each(times: pl.DataFrame, of_map: np.ndarray, maps: list[ClockMap]) -> pl.DataFrame:
    """Place rows of several clocks; row i is on clock `maps[of_map[i]]`."""
    rows = [np.flatnonzero(of_map == number) for number in range(len(maps))]
    placed = pl.concat(_place(times[own], clock) for own, clock in zip(rows, maps, strict=True))
    return placed[np.argsort(np.concatenate(rows))]


def _in_order(placed: pl.DataFrame, time: str) -> pl.DataFrame:
    """Return the rows in the order of time, file and offset, with one column at a time in memory twice."""
    # What is nearly in order, as the rows of a log are, numpy sorts in a part of the time that a frame takes.
    order = np.lexsort([placed[name].to_numpy() for name in ("offset", "file", time)])
    if (order[1:] > order[:-1]).all():
        return placed
    rows = pl.Series(order.astype(np.uint32))
    ordered = pl.DataFrame(height=placed.height)
    columns = [placed.drop_in_place(name) for name in placed.columns]
    del placed, order

    def gather() -> Iterator[pl.Series | pl.Expr]:
        for place in range(len(columns)):
            folded, columns[place] = fold_constant(columns[place]), pl.Series()
            yield folded.gather(rows) if isinstance(folded, pl.Series) else folded

    return ordered.with_columns(gather())


def _place(piece: pl.DataFrame, clock: ClockMap) -> pl.DataFrame:
    """Return ts_ns, dur_ns, err_lo_ns, err_hi_ns and flags of rows of one clock."""
    stamps, ends = _filled_stamps(piece), piece["end_stamp_ns"]
    offset, below, above = _offset_at(clock, stamps)
    end_offset, _, _ = _offset_at(clock, ends.fill_null(stamps) if clock.hull else ends)
    timeless = piece["stamp_ns"].null_count() > 0
    # What is the same in all rows stays a literal, which takes no memory.
    placed = piece.select(
        "flags", "stamp_ns", ts_ns=_shifted(pl.lit(stamps), offset, clock),
        end_ns=_shifted(pl.col("end_stamp_ns"), end_offset, clock),
        err_lo_ns=_error("step_lo_ns", below, clock, timeless=timeless),
        err_hi_ns=_error("step_hi_ns", above, clock, timeless=timeless),
    )  # fmt: skip
    return placed.select(
        "ts_ns", "err_lo_ns", "err_hi_ns", dur_ns=_duration(placed, timeless=timeless), flags=_flags(placed, clock)
    )


def _offset_at(clock: ClockMap, stamps: pl.Series) -> tuple[pl.Expr, ...]:
    """Return offset, and how far the true offset may lie below and above it, at each stamp."""
    if clock.hull is None:
        return pl.lit(clock.shift_ns), pl.lit(0), pl.lit(0)
    return tuple(pl.lit(pl.Series(values)) for values in clock.offset_at(stamps.to_numpy()))


def _is_common(clock: ClockMap) -> bool:
    return clock.hull is None and not clock.shift_ns


def _shifted(stamps: pl.Expr, offset: pl.Expr, clock: ClockMap) -> pl.Expr:
    # What need not be moved is not copied.
    return stamps if _is_common(clock) else stamps + offset


def _duration(placed: pl.DataFrame, *, timeless: bool) -> pl.Expr:
    """Return end minus start; null if the start has no time, or lies behind the end."""
    lasted = placed["end_ns"] - placed["ts_ns"]
    dur = pl.lit(lasted)
    whole = pl.when(dur >= 0).then(dur) if (lasted < 0).any() else dur
    return pl.when(pl.col("stamp_ns").is_not_null()).then(whole) if timeless else whole


def _error(step: str, width: pl.Expr, clock: ClockMap, *, timeless: bool) -> pl.Expr:
    if not clock.aligned:
        return pl.lit(None, pl.UInt32)
    whole = (pl.col(step) + width).clip(upper_bound=_U32_MAX).cast(pl.UInt32)
    return pl.when(pl.col("stamp_ns").is_not_null()).then(whole) if timeless else whole


def _flags(placed: pl.DataFrame, clock: ClockMap) -> pl.Expr:
    flags = pl.col("flags").fill_null(0)
    clamped = ((pl.col("err_lo_ns") == _U32_MAX) | (pl.col("err_hi_ns") == _U32_MAX)).fill_null(False)
    for rows, flag in (
        (pl.col("stamp_ns").is_null(), Flag.NO_TIME), (pl.lit(not clock.aligned), Flag.UNALIGNED),
        (clamped, Flag.ERROR_CLAMPED),
    ):  # fmt: skip
        if placed.select(rows.any()).item():
            flags = flags | pl.when(rows).then(int(flag)).otherwise(0).cast(pl.UInt16)
    return flags


def _filled_stamps(piece: pl.DataFrame) -> pl.Series:
    """Return the stamps; a record without a time stands where its file has it: behind the record before it."""
    if not piece["stamp_ns"].null_count():
        return piece["stamp_ns"]
    order = piece.select(pl.arg_sort_by("file", "offset")).to_series()
    filled = piece["stamp_ns"].gather(order).forward_fill().backward_fill().fill_null(0).to_numpy()
    stamps = np.empty_like(filled)
    stamps[order.to_numpy()] = filled
    return pl.Series(stamps)
