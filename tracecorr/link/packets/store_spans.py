"""Store spans: between which lines of its thread each packet's doorbell store lies."""

from __future__ import annotations

import polars as pl

from tracecorr import native
from tracecorr.clock.bounds import Ints
from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.rows import number_rows


def span_stores(packets: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `packets` with doorbell_lo_ns and doorbell_hi_ns, which `align.intervals` tells of stamps.

    Of dispatches that follow one another the stores lie before the line behind the last (`span_batches` there).

    Args:
        packets: columns event, ts_ns, name; in the order of their events.
        events: all rows in the order of their times: thread, ts_ns, dur_ns, source, clock; row i is event i.
    """
    is_line = (pl.col("source") == "amd_log") & (pl.col("clock") == "mono") & pl.col("thread").is_not_null()
    codes, first = number_rows(events, ["thread"])
    rows, at = packets["event"].to_numpy(), packets["ts_ns"].to_numpy()
    before, after = native.bracket_rows(
        codes, len(first), events["ts_ns"].to_numpy(), events["dur_ns"].to_arrow(),
        events.select(is_line).to_series().to_numpy(), rows,
    )  # fmt: skip
    dispatch = packets.select(pl.col("name") == "dispatch").to_series()
    native.span_batches(codes[rows], len(first), at, dispatch.to_numpy(), after)
    low, high = (_moments(side) for side in (before, after))
    return packets.with_columns(
        doorbell_lo_ns=pl.when(dispatch).then("ts_ns").otherwise(low),
        doorbell_hi_ns=pl.when(dispatch).then(high).otherwise("ts_ns") + LOG_STEP_NS,
    )


def _moments(moments: Ints) -> pl.Series:
    found = pl.Series(moments)
    return found.set(found == native.NO_MOMENT, None)
