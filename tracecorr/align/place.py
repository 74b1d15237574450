"""Place the rows of every source on the common clock, with the error of each time."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.bounds import Ints
from tracecorr.align.clock_map import ClockMap
from tracecorr.align.rows import number_groups
from tracecorr.model.kinds import Flag

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
    times = records.select(_TIMES)
    codes, clocks = number_groups(records, ["source", "clock"])
    # A capture without any file names no clock, but its rows have the same columns.
    keys = [f"{source}:{clock or 'unknown'}" for source, clock in clocks.cast(pl.String).iter_rows()]
    fitting = [maps[key] for key in keys] or [ClockMap("same_clock")]
    placed = _place(times, fitting[0]) if len(fitting) == 1 else _place_each(times, codes, fitting)
    columns = [records.drop(_SPENT).with_columns(placed.get_columns())]
    del records, times, codes, placed
    return _in_order(columns.pop()).with_row_index("event").with_columns(pl.col("event").cast(pl.Int64))


def _place_each(times: pl.DataFrame, codes: Ints, maps: list[ClockMap]) -> pl.DataFrame:
    """Place rows of several clocks; row i is on clock `maps[codes[i]]`."""
    rows = [np.flatnonzero(codes == code) for code in range(len(maps))]
    placed = pl.concat(_place(times[own], clock) for own, clock in zip(rows, maps, strict=True))
    return placed[np.argsort(np.concatenate(rows))]


def _in_order(placed: pl.DataFrame) -> pl.DataFrame:
    keys = [placed[name].to_numpy() for name in ("offset", "file", "ts_ns")]
    order = np.lexsort(keys)
    if (np.diff(order) == 1).all():
        return placed
    rows = pl.Series(order.astype(np.uint32))
    columns = [placed.select(name) for name in reversed(placed.columns)]
    del placed, keys, order
    # One after the other, so that only one of them is in memory twice.
    taken = []
    while columns:
        taken.append(columns.pop().select(pl.all().gather(rows)))
    return pl.concat(taken, how="horizontal")


def _place(piece: pl.DataFrame, clock: ClockMap) -> pl.DataFrame:
    """Return ts_ns, dur_ns, err_lo_ns, err_hi_ns and flags of rows of one clock."""
    stamps = _filled_stamps(piece)
    offset, below, above = clock.offset_at(stamps)
    end = piece["end_stamp_ns"].fill_null(0).to_numpy()
    end_offset, _, _ = clock.offset_at(np.where(end == 0, stamps, end))
    ts = stamps + offset
    placed = piece.with_columns(
        pl.Series("ts_ns", ts),
        pl.Series("mapped_end", end + end_offset),
        _error(below, piece["step_lo_ns"].to_numpy(), "err_lo_ns"),
        _error(above, piece["step_hi_ns"].to_numpy(), "err_hi_ns"),
    )
    known = pl.col("stamp_ns").is_not_null() & pl.lit(clock.aligned)
    clamped = (pl.col("err_lo_ns") == _U32_MAX) | (pl.col("err_hi_ns") == _U32_MAX)
    return placed.select(
        "ts_ns",
        dur_ns=pl.when(pl.col("end_stamp_ns").is_not_null()).then(pl.col("mapped_end") - pl.col("ts_ns")),
        err_lo_ns=pl.when(known).then("err_lo_ns"),
        err_hi_ns=pl.when(known).then("err_hi_ns"),
        flags=pl.col("flags").fill_null(0)
        | pl.when(pl.col("stamp_ns").is_null()).then(int(Flag.NO_TIME)).otherwise(0).cast(pl.UInt16)
        | pl.when(pl.lit(not clock.aligned)).then(int(Flag.UNALIGNED)).otherwise(0).cast(pl.UInt16)
        | pl.when(known & clamped).then(int(Flag.ERROR_CLAMPED)).otherwise(0).cast(pl.UInt16),
    )


def _filled_stamps(piece: pl.DataFrame) -> Ints:
    """Return the stamps; a record without a time stands where its file has it: behind the record before it."""
    if not piece["stamp_ns"].null_count():
        stamps: Ints = piece["stamp_ns"].to_numpy()
        return stamps
    order = piece.select(pl.arg_sort_by("file", "offset")).to_series()
    filled = piece["stamp_ns"].gather(order).forward_fill().backward_fill().fill_null(0).to_numpy()
    stamps = np.empty_like(filled)
    stamps[order.to_numpy()] = filled
    return stamps


def _error(width: Ints, step: Ints, name: str) -> pl.Series:
    return pl.Series(name, np.minimum(width + step, _U32_MAX).astype(np.uint32))
