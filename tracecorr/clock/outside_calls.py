"""Requests outside of calls: a thread asks the KFD for memory in its HIP calls; by a wrong clock it does not."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import NO_HIGH, NO_LOW
from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.intervals import pair_spans
from tracecorr.read.kfd.ioctls import KFD_PREFIX

# Threads of ROCr wait for events, and set some, without any call.
_OF_EVENTS = tuple(f"{KFD_PREFIX}{name}" for name in ("WAIT_EVENTS", "SET_EVENT", "RESET_EVENT"))
# Of so many requests at least this share lies in calls: also what uses ROCr beside HIP makes some.
_LEAST, _LEAST_INSIDE = 5, 0.5


def count_outside(
    requests: pl.DataFrame, calls: pl.DataFrame, clock: ClockMap, steps: tuple[int, int]
) -> tuple[int, int]:
    """Return how many requests surely lie in no call of their thread, and of how many; zeros where that tells nothing.

    Args:
        requests: system calls of the trace: thread, name, stamp_ns, end_stamp_ns.
        calls: HIP calls of the log in the order of their lines: thread, stamp_ns, end_stamp_ns. One that lacks a line
            may reach to the calls beside it.
        clock: of the trace.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    spans = _list_spans(calls)
    lives = spans.group_by("thread").agg(first=pl.col("stamp_ns").min(), last=pl.col("stamp_ns").max())
    asked = requests.filter(
        pl.col("name").str.starts_with(KFD_PREFIX), ~pl.col("name").is_in(_OF_EVENTS), pl.col("stamp_ns").is_not_null()
    )
    low, high = (pl.Series(np.round(side), dtype=pl.Int64) for side in clock.bound(asked["stamp_ns"].to_numpy()))
    end = pl.coalesce("end_stamp_ns", "stamp_ns")
    asked = asked.select("thread", low=pl.col("stamp_ns") + low - steps[0], high=end + high + steps[1])
    # The log of a thread may begin later, or end earlier.
    asked = asked.join(lives, on="thread").filter(pl.col("low") > pl.col("first"), pl.col("high") < pl.col("last"))
    inside, _ = pair_spans(asked, spans, ["thread"])
    outside = asked.height - len(np.unique(inside))
    tells = asked.height >= _LEAST and outside > (1 - _LEAST_INSIDE) * asked.height
    return (outside, asked.height) if tells else (0, 0)


def _list_spans(calls: pl.DataFrame) -> pl.DataFrame:
    """Return thread, stamp_ns, low, high: where each call may lie."""
    stamp, is_half = pl.col("stamp_ns"), pl.col("end_stamp_ns").is_null()
    before, after = stamp.shift(1).over("thread").fill_null(NO_LOW), stamp.shift(-1).over("thread").fill_null(NO_HIGH)
    return calls.select(
        "thread", "stamp_ns", low=pl.when(is_half).then(before).otherwise("stamp_ns"),
        high=pl.when(is_half).then(after).otherwise(pl.col("end_stamp_ns") + LOG_STEP_NS),
    )  # fmt: skip
