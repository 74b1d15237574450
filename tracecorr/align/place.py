"""Place the rows of every source on the common clock, with the error of each time."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.bounds import Ints
from tracecorr.align.clock_map import ClockMap
from tracecorr.model.kinds import Flag

_U32_MAX = 2**32 - 1


def place_records(records: pl.DataFrame, maps: dict[str, ClockMap]) -> pl.DataFrame:
    """Return `records` in time order with `event`, `ts_ns`, `dur_ns`, `err_lo_ns`, `err_hi_ns`, `flags`.

    Args:
        records: part events with `source`, `step_lo_ns` and `step_hi_ns` (how far the source's rounding
            puts the true time below and above a stamp).
        maps: a clock map for every `source:clock` of the records.
    """
    keyed = records.with_columns(
        key=pl.format("{}:{}", pl.col("source").cast(pl.String), pl.col("clock").cast(pl.String).fill_null("unknown"))
    )
    pieces = [_place(piece, maps[str(key[0])]) for key, piece in keyed.partition_by("key", as_dict=True).items()]
    # A capture without any file has no piece, but its rows have the same columns.
    placed = pl.concat(pieces or [_place(keyed, ClockMap("same_clock"))]).drop("key")
    ordered = placed.sort("ts_ns", "file", "offset", maintain_order=True)
    return ordered.with_row_index("event").with_columns(pl.col("event").cast(pl.Int64))


def _place(piece: pl.DataFrame, clock: ClockMap) -> pl.DataFrame:
    # A record without a time stands where its file has it: behind the record before it.
    piece = piece.sort("file", "offset") if piece["stamp_ns"].null_count() else piece
    stamps = piece["stamp_ns"].forward_fill().backward_fill().fill_null(0).to_numpy()
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
    return placed.with_columns(
        dur_ns=pl.when(pl.col("end_stamp_ns").is_not_null()).then(pl.col("mapped_end") - pl.col("ts_ns")),
        err_lo_ns=pl.when(known).then("err_lo_ns"),
        err_hi_ns=pl.when(known).then("err_hi_ns"),
        flags=pl.col("flags").fill_null(0)
        | pl.when(pl.col("stamp_ns").is_null()).then(int(Flag.NO_TIME)).otherwise(0).cast(pl.UInt16)
        | pl.when(pl.lit(not clock.aligned)).then(int(Flag.UNALIGNED)).otherwise(0).cast(pl.UInt16)
        | pl.when(known & clamped).then(int(Flag.ERROR_CLAMPED)).otherwise(0).cast(pl.UInt16),
    ).drop("mapped_end")


def _error(width: Ints, step: Ints, name: str) -> pl.Series:
    return pl.Series(name, np.minimum(width + step, _U32_MAX).astype(np.uint32))
