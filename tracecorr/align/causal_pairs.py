"""Causal pairs: what the order of cause and effect says of a trace's clock, without any sample."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.clock_map import NO_HIGH, NO_LOW, Bounds

# Log stamps are truncated to a microsecond: the true time lies up to 1 us later.
LOG_STEP_NS = 1000


def bound_doorbells(stores: pl.DataFrame, packets: pl.DataFrame, rounding_ns: int) -> Bounds:
    """Return what doorbell stores say of the trace's clock, matched by order alone.

    A thread prints its packets in the order in which it stores their doorbells. Where a thread's
    stored values and its printed indexes are the same sequence, store n belongs to packet n. A
    dispatch line is printed before its store, a barrier line after it (HIP 7.2.4).

    Args:
        stores: columns thread, stamp_ns, packet_index, in trace order.
        packets: columns thread, stamp_ns (log clock), packet_index, name, in log order.
        rounding_ns: how far a trace stamp may lie from the true time.
    """
    stores = stores.with_columns(nth=pl.int_range(pl.len()).over("thread"), total=pl.len().over("thread"))
    packets = packets.with_columns(nth=pl.int_range(pl.len()).over("thread"), total=pl.len().over("thread"))
    pairs = stores.join(packets, on=["thread", "nth", "total"], suffix="_log")
    same = (pl.col("packet_index") == pl.col("packet_index_log")).fill_null(False)
    pairs = pairs.filter(same.all().over("thread") & (pl.len().over("thread") == pl.col("total")))
    stamp = pairs["stamp_ns"].to_numpy()
    line = pairs["stamp_ns_log"].to_numpy()
    dispatch = (pairs["name"].cast(pl.String) == "dispatch").to_numpy()
    low = np.where(dispatch, line - stamp - rounding_ns, NO_LOW)
    high = np.where(dispatch, NO_HIGH, line + LOG_STEP_NS - stamp + rounding_ns)
    return Bounds(stamp, low, high)


def bound_queue_creations(creations: pl.DataFrame, ioctls: pl.DataFrame, rounding_ns: int) -> Bounds:
    """Return what queue creations say of the trace's clock.

    Between the lines `Number of allocated hardware queues` and `Created` a thread makes the
    CREATE_QUEUE ioctl of that queue. One shift of the clock must put an ioctl into every such
    interval; when shifts that are no neighbours do, nothing is said.

    Args:
        creations: columns thread, from_ns, to_ns (log clock).
        ioctls: CREATE_QUEUE ioctls of the trace: columns thread, stamp_ns, end_stamp_ns.
        rounding_ns: how far a trace stamp may lie from the true time.
    """
    nothing = Bounds(*(np.empty(0, dtype=np.int64) for _ in range(3)))
    if creations.height < 2 or ioctls.is_empty():
        return nothing
    crossed = creations.with_row_index("creation").join(ioctls, on="thread")
    crossed = crossed.with_columns(
        low=pl.col("from_ns") - pl.col("stamp_ns") - rounding_ns,
        high=pl.col("to_ns") + LOG_STEP_NS - pl.col("end_stamp_ns") + rounding_ns,
    ).filter(pl.col("low") <= pl.col("high"))
    first = crossed.filter(pl.col("creation") == 0)
    choices = [c for c in _shifts(crossed, first) if len(c) == creations.height]
    if len(choices) != 1:
        return nothing
    chosen = crossed[choices[0]]
    return Bounds(chosen["stamp_ns"].to_numpy(), chosen["low"].to_numpy(), chosen["high"].to_numpy())


def _shifts(crossed: pl.DataFrame, first: pl.DataFrame) -> list[list[int]]:
    """Return, for each shift that fits the first creation, one pair (row number) per creation."""
    rows = crossed.with_row_index("row")
    found: dict[tuple[int, ...], list[int]] = {}
    for low, high in first.select("low", "high").iter_rows():
        inside = rows.filter((pl.col("low") <= high) & (pl.col("high") >= low))
        # The first interval of a process can hold ROCr's own queue too: this one comes last.
        last = inside.group_by("creation", maintain_order=True).last()["row"].to_list()
        found.setdefault(tuple(last), last)
    return list(found.values())
