"""Threads by doorbells, asked for their times: the stores of one thread keep their distance from its lines."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import NO_LOW, Ints
from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.clock_map import MAX_RATE
from tracecorr.clock.intervals import bracket_doorbells, list_moments, span_batches
from tracecorr.clock.rows import number_groups
from tracecorr.clock.steps import COARSEST_NS, UNTIMED
from tracecorr.link.threads.lives import LOG_THREAD

# Pairs of a store and a line that are asked for one offset together; of many, so many such windows tell enough.
_WINDOW, _MOST_WINDOWS = 16, 64
# Of two threads that are one, at least this share of the pairs of a window agree.
_LEAST_AGREED = 0.75
# Stamps of a text are rounded to a microsecond.
_ROUNDING_NS = 1_000


def find_slack(clock: pl.Expr) -> pl.Expr:
    """Return how far the time of a record of a trace may lie from its stamp; null where its clock counts no ns."""
    is_coarse = clock == "uptime"
    return pl.when(~clock.is_in(UNTIMED).fill_null(value=True)).then(
        pl.when(is_coarse).then(COARSEST_NS).otherwise(_ROUNDING_NS)
    ).cast(pl.Int64)  # fmt: skip


def bracket_lines(lines: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return packets of the log with doorbell_lo_ns and doorbell_hi_ns: between which lines of its thread its store is.

    Args:
        lines: LOG_THREAD, name, stamp_ns of packets.
        log: LOG_THREAD, stamp_ns of all lines.
    """
    codes, groups = number_groups(lines, LOG_THREAD)
    numbered = lines.with_columns(thread=pl.Series(codes), at=pl.col("stamp_ns").fill_null(NO_LOW))
    every = (
        log.select(*LOG_THREAD, "stamp_ns").join(groups.with_row_index("thread"), on=LOG_THREAD).drop_nulls("stamp_ns")
    )
    moments = list_moments(every, "stamp_ns", pl.lit(None, pl.Int64))
    bracketed = span_batches(bracket_doorbells(numbered, moments, LOG_STEP_NS), LOG_STEP_NS)
    is_timed = pl.col("stamp_ns").is_not_null()
    return bracketed.with_columns(
        pl.when(is_timed).then(name) for name in ("doorbell_lo_ns", "doorbell_hi_ns")
    ).drop("thread", "at", "stamp_ns", "name")  # fmt: skip


def list_untimely(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of threads whose stores and lines are of two: file, log_pid, log_tid, tid_key.

    Processes that do the same have stores of equal rings and indexes, as two runs of a program have. Within some pairs
    of a store and a line that are one thread's, the offset of the clocks hardly changes.

    Args:
        pairs: LOG_THREAD, tid_key, stamp_ns (of the store), doorbell_lo_ns, doorbell_hi_ns (of the line; null = not
            known), slack_ns (how far the store's time may lie from its stamp; null = its clock counts no nanoseconds).
    """
    known = pairs.drop_nulls(["stamp_ns", "doorbell_lo_ns", "doorbell_hi_ns", "slack_ns"]).sort("doorbell_lo_ns")
    parts = known.partition_by(*LOG_THREAD, "tid_key", as_dict=True, maintain_order=True)
    untimely = [key for key, part in parts.items() if _count_agreed(part) < _LEAST_AGREED]
    return pl.DataFrame(untimely, schema={name: pairs.schema[name] for name in (*LOG_THREAD, "tid_key")}, orient="row")


def _count_agreed(pairs: pl.DataFrame) -> float:
    """Return which share of the pairs of a window one offset satisfies, in the middle."""
    count = len(pairs)
    at, slack = pairs["stamp_ns"].to_numpy(), pairs["slack_ns"].to_numpy()
    low = pairs["doorbell_lo_ns"].to_numpy() - at - slack
    high = pairs["doorbell_hi_ns"].to_numpy() - at + slack
    width = min(count, _WINDOW)
    starts = np.unique(np.linspace(0, count - width, min(_MOST_WINDOWS, 1 + (count - 1) // width)).astype(np.int64))
    rows = starts[:, None] + np.arange(width)
    agreed = [_agree(at[row], low[row], high[row]) for row in rows]
    return float(np.median(agreed)) / width


def _agree(at: Ints, low: Ints, high: Ints) -> int:
    """Return how many bounds of a window one offset satisfies, whatever the clock drifts there."""
    drift = (np.abs(at - at[len(at) // 2]) * MAX_RATE).astype(np.int64)
    lows, highs = np.sort(low - drift), np.sort(high + drift)
    held = np.arange(1, len(lows) + 1) - np.searchsorted(highs, lows, side="left")
    return int(held.max())
