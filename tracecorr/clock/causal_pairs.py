"""Causal pairs: what the order of cause and effect says of a trace's clock, without any sample."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, Ints, join_bounds, no_bounds
from tracecorr.clock.clock_map import ClockMap, fit_clock_map
from tracecorr.clock.creation_shift import choose_ioctls
from tracecorr.clock.intervals import Moments, list_silences, pair_spans
from tracecorr.clock.suspends import SHORTEST_NS

# Log stamps are truncated to a microsecond: the true time lies up to 1 us later.
LOG_STEP_NS = 1000
# The longest system calls say the most; more of them only cost time.
_MAX_CALLS = 20_000
# Each creation is compared with each ioctl.
_MOST_CREATIONS = 1_000


def bound_spans(spans: pl.DataFrame, steps: tuple[int, int]) -> Bounds:
    """Return what it says of a trace's clock that things of the trace happened between two moments of the log.

    Args:
        spans: columns stamp_ns, end_stamp_ns (trace), from_ns, to_ns (log; null = no such moment).
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    below, above = steps
    start, end = spans["stamp_ns"].to_numpy(), spans["end_stamp_ns"].to_numpy()
    low = spans.select((pl.col("from_ns") - pl.col("stamp_ns") - above).fill_null(NO_LOW)).to_series().to_numpy()
    high = spans.select((pl.col("to_ns") - pl.col("end_stamp_ns") + below).fill_null(NO_HIGH)).to_series().to_numpy()
    nothing_low, nothing_high = np.full(len(start), NO_LOW), np.full(len(start), NO_HIGH)
    return join_bounds(Bounds(start, low, nothing_high), Bounds(end, nothing_low, high))


def pair_doorbells(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the doorbell stores whose packet line is known: by thread, ring and index, where these are unique.

    Where an index comes again its ring was made again: of the indexes up to that one, those that are there once may be
    of two lives, the store of one and the line of the other. So may one above it, where the line or the store that
    would show it was lost: only what lies in the same life on both sides, of as many, is a pair.

    Args:
        stores: columns thread, ring, packet_index, stamp_ns.
        packets: columns thread, ring, packet_index, doorbell_lo_ns, doorbell_hi_ns.

    Returns: spans for `bound_spans`.
    """
    keys = ["thread", "ring", "packet_index"]
    alone = pl.len().over(keys) == 1
    stores, packets = stores.drop_nulls(keys), packets.drop_nulls(keys)
    again = pl.concat([side.filter(~alone).select(keys) for side in (stores, packets)])
    again = again.group_by("thread", "ring").agg(again=pl.col("packet_index").max())
    pairs = stores.filter(alone).join(packets.filter(alone), on=keys)
    if not again.is_empty():
        lived = [
            _number_lives(side.join(again, on=["thread", "ring"]), at).filter(alone)
            for side, at in ((stores, "stamp_ns"), (packets, pl.coalesce("doorbell_hi_ns", "doorbell_lo_ns")))
        ]
        within = lived[0].join(lived[1], on=[*keys, "again", "life", "lives"])
        within = within.filter(pl.col("packet_index") > pl.col("again")).select(pairs.columns)
        pairs = pl.concat([pairs.join(again, on=["thread", "ring"], how="anti", maintain_order="left"), within])
    return pairs.select("stamp_ns", end_stamp_ns="stamp_ns", from_ns="doorbell_lo_ns", to_ns="doorbell_hi_ns")


def _number_lives(rows: pl.DataFrame, at: str | pl.Expr) -> pl.DataFrame:
    """Return stores or packets with `life`, how often the indexes of their ring began anew before, and `lives`.

    The indexes of one thread on one ring rise, as long as the ring lives.
    """
    ring = ["thread", "ring"]
    begun = (pl.col("packet_index").diff() < 0).fill_null(value=False).cum_sum()
    numbered = rows.sort(at, "packet_index").with_columns(life=begun.over(ring))
    return numbered.with_columns(lives=pl.col("life").max().over(ring))


def pair_created_rings(creations: pl.DataFrame, probes: pl.DataFrame) -> pl.DataFrame:
    """Return the creations of queues whose ring a probe in the kernel recorded, as spans for `bound_spans`.

    Also a creation whose first line lacks shows that a ring was made twice: of these no probe is surely that of the
    other one.

    Args:
        creations: columns thread, ring, from_ns (null = not known), to_ns (log clock).
        probes: columns thread, ring, stamp_ns, end_stamp_ns.
    """
    keys = ["thread", "ring"]
    alone = pl.len().over(keys) == 1
    pairs = probes.drop_nulls(keys).filter(alone).join(creations.drop_nulls(keys).filter(alone), on=keys)
    return pairs.drop_nulls("from_ns").select(
        "stamp_ns", pl.coalesce("end_stamp_ns", "stamp_ns").alias("end_stamp_ns"), "from_ns",
        to_ns=pl.col("to_ns") + LOG_STEP_NS,
    )  # fmt: skip


def pair_creations(creations: pl.DataFrame, ioctls: pl.DataFrame, steps: tuple[int, int]) -> pl.DataFrame:
    """Return which ioctl made which queue, by the one shift of the clock that puts an ioctl into every creation.

    Between the lines `Number of allocated hardware queues` and `Created` a thread makes the CREATE_QUEUE ioctl
    of that queue. When shifts that are no neighbours put one there, nothing is said. Where several ioctls may be that
    of a creation (ROCr makes a queue of its own within the first one), its span is what all of them allow.

    Args:
        creations: columns thread, from_ns, to_ns (log clock).
        ioctls: CREATE_QUEUE ioctls of the trace: columns thread, stamp_ns, end_stamp_ns.
        steps: how far the true time of a trace stamp may lie below and above it.

    Returns: spans for `bound_spans`.
    """
    creations = creations.with_columns(to_ns=pl.col("to_ns") + LOG_STEP_NS).sort("to_ns").head(_MOST_CREATIONS)
    ioctls = ioctls.sort("stamp_ns").head(_MOST_CREATIONS)
    from_ns, to_ns = creations["from_ns"].to_numpy(), creations["to_ns"].to_numpy()
    stamp, end = ioctls["stamp_ns"].to_numpy(), ioctls["end_stamp_ns"].to_numpy()
    low, high = from_ns[:, None] - stamp - steps[1], to_ns[:, None] - end + steps[0]
    fits = (creations["thread"].to_numpy()[:, None] == ioctls["thread"].to_numpy()) & (low <= high)
    chosen = choose_ioctls(low, high, fits, stamp) if len(creations) > 1 else None
    if chosen is None:
        return pl.DataFrame(schema=dict.fromkeys(("stamp_ns", "end_stamp_ns", "from_ns", "to_ns"), pl.Int64))
    first_end, last_start = np.where(chosen, end, NO_HIGH).min(axis=1), np.where(chosen, stamp, NO_LOW).max(axis=1)
    return pl.DataFrame({"stamp_ns": last_start, "end_stamp_ns": first_end, "from_ns": from_ns, "to_ns": to_ns})


def drop_contradicted(spans: pl.DataFrame, named: Bounds, steps: tuple[int, int]) -> pl.DataFrame:
    """Return the creations that were paired by a shift, none where pairs by a name tell that it is another one.

    In a trace that lost records the ioctls that are left may fit other creations. The clock may have been stepped
    between the two kinds of pairs, but by no less than the shortest suspend.

    Args:
        spans: as `pair_creations` returns them.
        named: what doorbells of known rings and indexes say.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    if spans.is_empty():
        return spans
    bounds, clock = bound_spans(spans, steps), fit_clock_map(named, "causal_pairs")
    if not clock.aligned:
        return spans
    low, high = clock.bound(bounds.stamp_ns)
    apart = np.maximum(bounds.low_ns.astype(np.float64) - high, low - bounds.high_ns.astype(np.float64))
    return spans.clear() if ((apart > 0) & (apart < SHORTEST_NS)).any() else spans


def count_creations(
    creations: pl.DataFrame, ioctls: pl.DataFrame, clock: ClockMap, steps: tuple[int, int]
) -> tuple[int, int]:
    """Count the queue creations that may hold a CREATE_QUEUE ioctl of their thread, and those whose ioctl is elsewhere.

    An ioctl that lies in a creation is none of another one: where a thread has no other ioctls left, the record of that
    creation's own one is lost.

    Args:
        creations: columns thread, from_ns, to_ns (log clock).
        ioctls: CREATE_QUEUE ioctls of the trace: columns thread, stamp_ns.
        clock: of the trace.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    low, high = (pl.Series(side) for side in clock.bound(ioctls["stamp_ns"].to_numpy()))
    stamp = pl.col("stamp_ns")
    reach = pl.col("to_ns") + LOG_STEP_NS
    creation, ioctl = pair_spans(
        creations.select("thread", low="from_ns", high=reach),
        ioctls.select("thread", low=stamp + low - steps[0], high=stamp + high + steps[1]),
        ["thread"],
    )
    made, asked = _mark(creations, creation), _mark(ioctls, ioctl)
    # Of each thread: what holds nothing, and what nothing holds.
    empty, spare = (
        rows.join(others, on="thread", how="semi").group_by("thread").agg(found=(~pl.col("held")).sum())
        for rows, others in ((made, asked), (asked, made))
    )
    foreign = empty.join(spare, on="thread").select(pl.min_horizontal("found", "found_right").sum()).item()
    return len(np.unique(creation)), int(foreign)


def _mark(rows: pl.DataFrame, held: Ints) -> pl.DataFrame:
    """Return thread, held: whether a row is one of those numbers."""
    return rows.select("thread").with_columns(held=pl.int_range(pl.len()).is_in(pl.Series(held).implode()))


def bound_silences(calls: pl.DataFrame, moments: Moments, rough: ClockMap, steps: tuple[int, int]) -> Bounds:
    """Return what system calls say of the clock once it is roughly known.

    A thread prints nothing while it is in the kernel: a call lies between two of its lines. Where only one of
    these silences is long enough and near enough, it bounds the clock.

    Args:
        calls: columns thread, stamp_ns, end_stamp_ns of the trace.
        moments: the lines of the log (`list_moments`).
        rough: what is known of the clock.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    duration = pl.col("end_stamp_ns") - pl.col("stamp_ns")
    longest = calls.drop_nulls().filter(duration >= 0).top_k(_MAX_CALLS, by=duration)
    found = [
        _silences_of_thread(part, moments[int(key[0])], rough, steps)
        for key, part in longest.partition_by("thread", as_dict=True).items()
        if int(key[0]) in moments
    ]
    return join_bounds(*found) if found else no_bounds()


def _silences_of_thread(calls: pl.DataFrame, lines: Ints, rough: ClockMap, steps: tuple[int, int]) -> Bounds:
    start, end = calls["stamp_ns"].to_numpy(), calls["end_stamp_ns"].to_numpy()
    start_low, _ = rough.bound(start)
    _, end_high = rough.bound(end)
    call, silence = list_silences(lines, start + start_low - steps[0] - LOG_STEP_NS, end + end_high + steps[1])
    opened = np.concatenate([[NO_LOW // 4], lines])[silence]
    closed = np.concatenate([lines + LOG_STEP_NS, [NO_HIGH // 4]])[silence]
    low, high = opened - start[call] - steps[1], closed - end[call] + steps[0]
    # The clock may drift by a little during the call: one nanosecond in a thousand is allowed for.
    drift = (end[call] - start[call]) // 1000 + 1
    fits = np.maximum(low, start_low[call]) <= np.minimum(high, end_high[call]) + drift
    call, low, high = call[fits], low[fits], high[fits]
    alone = np.bincount(call, minlength=len(start))[call] == 1
    call, low, high = call[alone], low[alone], high[alone]
    low = np.where(low < NO_LOW // 8, NO_LOW, low)
    high = np.where(high > NO_HIGH // 8, NO_HIGH, high)
    return join_bounds(
        Bounds(start[call], low, np.full(len(call), NO_HIGH)), Bounds(end[call], np.full(len(call), NO_LOW), high)
    )
