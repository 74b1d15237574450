"""Causal pairs: what the order of cause and effect says of a clock, without any sample.

Each pair is a span: something of one clock happened between two moments of CLOCK_MONOTONIC, times of lines of HIP.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.hull import NO_HIGH, NO_LOW, Bounds, Ints, Mask, join_bounds
from tracecorr.model import frames
from tracecorr.model.columns import IS_PACKET
from tracecorr.model.frames import gives
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

# Log stamps are truncated to a microsecond: the true time lies up to 1 us later.
LOG_STEP_NS = 1000
# The times of each thread's lines, sorted.
_Moments = dict[int, Ints]
# More creations and ioctls than these tell nothing new of the one shift that all of them have.
_MOST_CREATIONS, _MOST_IOCTLS = 32, 128
# How far a clock may drift from the first CREATE_QUEUE to a later one: 600 ppm.
_DRIFT = 600e-6
_IS_CREATE = (pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE)
# Functions of the driver whose probe records the ring.
_IS_CREATE_PROBE = (pl.col("layer") == "kfd") & pl.col("name").is_in(["kfd_ioctl_create_queue", "kfd_create_queue"])


def bound_spans(spans: pl.DataFrame, steps: tuple[int, int]) -> Bounds:
    """Return what it says of a clock that things happened between two moments of the log.

    Args:
        spans: columns stamp_ns, end_stamp_ns (of the clock), from_ns, to_ns (of the log; null = no such moment).
        steps: how far the true time of a stamp of the clock may lie below and above it.
    """
    below, above = steps
    start, end = spans["stamp_ns"].to_numpy(), spans["end_stamp_ns"].to_numpy()
    low = spans.select((pl.col("from_ns") - pl.col("stamp_ns") - above).fill_null(NO_LOW)).to_series().to_numpy()
    high = spans.select((pl.col("to_ns") - pl.col("end_stamp_ns") + below).fill_null(NO_HIGH)).to_series().to_numpy()
    nothing_low, nothing_high = np.full(len(start), NO_LOW), np.full(len(start), NO_HIGH)
    return join_bounds(Bounds(start, low, nothing_high), Bounds(end, nothing_low, high))


def bound_causes(
    log: pl.DataFrame, trace: pl.DataFrame, args: pl.DataFrame, shared: pl.DataFrame, steps: tuple[int, int]
) -> Bounds:
    """Return what doorbells and queue creations say of the trace's clock.

    Args:
        log: HIP's lines of threads that are known.
        trace: rows of the trace of threads that are known.
        args: part args; `ring` of a probe in the driver.
        shared: file and offset of the Created lines that made no queue.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    doorbells = pair_doorbells(trace.filter(pl.col("layer") == "doorbell"), bracket_packets(log))
    creations = list_creations(log).join(shared, on=["file", "offset"], how="anti")
    made = pair_created_rings(creations, _list_created_rings(trace, args))
    if made.is_empty():
        made = pair_creations(creations, trace.filter(_IS_CREATE), steps)
    return join_bounds(bound_spans(doorbells, steps), bound_spans(made, steps))


def list_moments(log: pl.DataFrame) -> _Moments:
    """Return every moment at which each thread printed a line, sorted.

    Args:
        log: rows of the log: thread (null = unknown, left out), stamp_ns, end_stamp_ns (null = no second line).
    """
    rows = log.select("thread", "stamp_ns", "end_stamp_ns").drop_nulls("thread")
    sides = rows.partition_by("thread", as_dict=True, include_key=False)
    return {
        int(thread): np.sort(
            np.concatenate([side[name].drop_nulls().to_numpy() for name in side.columns]), kind="stable"
        )
        for (thread,), side in sides.items()
    }


def bracket_doorbells(packets: pl.DataFrame, moments: _Moments) -> pl.DataFrame:
    """Return between which two moments of its thread each packet's doorbell store lies.

    A dispatch line is printed before its store, so the store lies before the thread's next line; a barrier line is
    printed after it (HIP 4.5 to 7.2). Several dispatches one behind the other may be of one graph launch, which stores
    once for some of them, behind the line of the last (HIP 7.1.0: the index of the first).

    Args:
        packets: columns thread, at (time of the packet's line, ns), name.
        moments: as `list_moments` returns them.

    Returns: `packets` with doorbell_lo_ns and doorbell_hi_ns; null if the thread has no such line.
    """
    found = np.full((2, packets.height), NO_LOW)
    rows = packets.select("thread", "at", row=pl.int_range(pl.len())).drop_nulls("thread")
    for (thread,), part in rows.partition_by("thread", as_dict=True, include_key=False).items():
        lines, at = moments.get(int(thread), np.empty(0, np.int64)), part["at"].to_numpy()
        before, after = np.searchsorted(lines, at, side="left"), np.searchsorted(lines, at, side="right")
        found[0, part["row"]] = np.append(NO_LOW, lines)[before]
        found[1, part["row"]] = np.append(lines, NO_LOW)[after]
    low, high = (pl.Series(side).set(pl.Series(side == NO_LOW), None) for side in found)
    is_dispatch = pl.col("name") == "dispatch"
    low_ns, high_ns = pl.when(is_dispatch).then("at").otherwise(low), pl.when(is_dispatch).then(high).otherwise("at")
    bracketed = packets.with_columns(doorbell_lo_ns=low_ns, doorbell_hi_ns=high_ns + LOG_STEP_NS)
    return _span_batches(bracketed)


def _span_batches(packets: pl.DataFrame) -> pl.DataFrame:
    """Return `packets` in which dispatches that follow one another on a thread have the last one's doorbell_hi_ns."""
    key, is_dispatch, latest = ["thread", "at"], pl.col("name") == "dispatch", pl.col("doorbell_hi_ns")
    lines = packets.filter(is_dispatch).select(*key, latest).drop_nulls(key).unique(key).sort(key)
    goes_on = (latest == pl.col("at").shift(-1) + LOG_STEP_NS).over("thread").fill_null(value=False)
    if not lines.select(goes_on.any()).item():
        return packets
    lines = lines.with_columns(batch=(~goes_on).shift(1, fill_value=False).cum_sum())
    last = lines.select(*key, _last=latest.last().over("batch"))
    found = packets.join(last, on=key, how="left", maintain_order="left")
    latest = pl.when(is_dispatch).then(pl.coalesce("_last", latest)).otherwise(latest)
    return found.with_columns(doorbell_hi_ns=latest).drop("_last")


def bracket_packets(log: pl.DataFrame) -> pl.DataFrame:
    """Return thread, ring, packet_index, doorbell_lo_ns, doorbell_hi_ns of the packets of a log."""
    packets = log.filter(IS_PACKET).select("thread", "ring", "packet_index", "name", at="stamp_ns")
    return bracket_doorbells(packets, list_moments(log))


@gives(frames.SPANS)
def pair_doorbells(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the doorbell stores whose packet line is known, as spans for `bound_spans`: by thread, ring and index.

    If an index comes again its ring was made again: lower indexes that are there once may be of two lives.

    Args:
        stores: columns thread, ring, packet_index, stamp_ns.
        packets: columns thread, ring, packet_index, doorbell_lo_ns, doorbell_hi_ns.
    """
    keys = ["thread", "ring", "packet_index"]
    stores, packets = stores.drop_nulls(keys), packets.drop_nulls(keys)
    alone = pl.len().over(keys) == 1
    again = pl.concat([side.filter(~alone).select(keys) for side in (stores, packets)])
    again = again.group_by("thread", "ring").agg(again=pl.col("packet_index").max())
    pairs = stores.filter(alone).join(packets.filter(alone), on=keys).join(again, on=["thread", "ring"], how="left")
    pairs = pairs.filter((pl.col("packet_index") > pl.col("again")).fill_null(value=True))
    return pairs.select("stamp_ns", end_stamp_ns="stamp_ns", from_ns="doorbell_lo_ns", to_ns="doorbell_hi_ns")


@gives(frames.SPANS)
def pair_created_rings(creations: pl.DataFrame, probes: pl.DataFrame) -> pl.DataFrame:
    """Return the creations of queues whose ring a probe in the kernel recorded, as spans for `bound_spans`.

    Args:
        creations: columns thread, ring, from_ns (null = not known), to_ns (log clock).
        probes: columns thread, ring, stamp_ns, end_stamp_ns.
    """
    keys = ["thread", "ring"]
    alone = pl.len().over(keys) == 1
    pairs = probes.drop_nulls(keys).filter(alone).join(creations.drop_nulls(keys).filter(alone), on=keys)
    end = pl.coalesce("end_stamp_ns", "stamp_ns")
    return pairs.drop_nulls("from_ns").select("stamp_ns", "from_ns", "to_ns", end_stamp_ns=end)


@gives(frames.SPANS)
def pair_creations(creations: pl.DataFrame, ioctls: pl.DataFrame, steps: tuple[int, int]) -> pl.DataFrame:
    """Return which ioctl made which queue, by the one shift of the clock that puts an ioctl into every creation.

    Between the lines `Number of allocated hardware queues` and `Created` a thread makes the CREATE_QUEUE ioctl of
    that queue. If two shifts do it that share no ioctl in some creation, nothing is said. If several ioctls may
    be that of a creation (ROCr makes a queue of its own within the first one), its span is what all of them allow.

    Args:
        creations: columns thread, from_ns, to_ns (log clock).
        ioctls: CREATE_QUEUE ioctls of the trace: columns thread, stamp_ns, end_stamp_ns.
        steps: how far the true time of a trace stamp may lie below and above it.

    Returns: spans for `bound_spans`.
    """
    creations = creations.drop_nulls("from_ns").sort("to_ns").head(_MOST_CREATIONS)
    # One whose exit is missing made its queue, too; it ended later.
    end = pl.coalesce("end_stamp_ns", "stamp_ns")
    ioctls = ioctls.select("thread", "stamp_ns", end=end).sort("stamp_ns").head(_MOST_IOCTLS)
    from_ns, to_ns = creations["from_ns"].to_numpy(), creations["to_ns"].to_numpy()
    stamp, last = ioctls["stamp_ns"].to_numpy(), ioctls["end"].to_numpy()
    low, high = from_ns[:, None] - stamp - steps[1], to_ns[:, None] - last + steps[0]
    fits = (creations["thread"].to_numpy()[:, None] == ioctls["thread"].to_numpy()) & (low <= high)
    chosen = _choose_ioctls(low, high, fits, stamp) if len(creations) > 1 else None
    if chosen is None:
        return pl.DataFrame(schema=frames.SPANS.schema)
    first_end, last_start = np.where(chosen, last, NO_HIGH).min(axis=1), np.where(chosen, stamp, NO_LOW).max(axis=1)
    return pl.DataFrame({"stamp_ns": last_start, "end_stamp_ns": first_end, "from_ns": from_ns, "to_ns": to_ns})


def _choose_ioctls(low: Ints, high: Ints, fits: Mask, stamp: Ints) -> Mask | None:
    """Return which ioctls (columns) may be those of which creations (rows); None if no shift or several are likely.

    Of the shifts that put an ioctl into each creation those are meant that put most ioctls into one: a shift that is
    too long by one creation leaves the last ioctl over.
    """
    row, column = np.nonzero(fits)
    drift = _DRIFT * np.abs(stamp[column] - stamp[column[:1]])
    least, most = low[row, column] - drift, high[row, column] + drift
    best = 0
    found: list[Mask] = []
    for shift in np.unique(least):
        inside = (least <= shift) & (shift <= most)
        count = len(np.unique(column[inside]))
        if len(np.unique(row[inside])) < len(low) or count < best:
            continue
        found = [*(found if count == best else []), inside]
        best = count
    masks = [np.zeros(low.shape, dtype=np.bool_) for _ in found]
    for mask, inside in zip(masks, found, strict=True):
        mask[row[inside], column[inside]] = True
    if not masks or not all((masks[0] & mask).any(axis=1).all() for mask in masks):
        return None
    chosen: Mask = np.logical_or.reduce(masks)
    return chosen


def _list_created_rings(trace: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of probes in the kernel that recorded the `ring` of a CREATE_QUEUE.

    Args:
        trace: part events with file, offset, layer, name.
        args: part args.
    """
    rings = args.filter(pl.col("key") == "ring").select("file", "offset", ring="u64")
    return trace.filter(_IS_CREATE_PROBE).drop("ring").join(rings, on=["file", "offset"])


def list_creations(log: pl.DataFrame) -> pl.DataFrame:
    """Return the Created lines of queues: file, offset, thread, ring, to_ns, from_ns.

    `from_ns` is when their thread counted the queues; null if the thread's line before is not that count: then it is
    missing.
    """
    name = pl.col("name")
    lines = log.filter(name.is_in([QUEUES_COUNTED, QUEUE_CREATED, QUEUE_SELECTED])).sort("file", "offset")
    before, before_ns = (pl.col(column).shift(1).over("thread") for column in ("name", "stamp_ns"))
    made = lines.with_columns(from_ns=pl.when(before == QUEUES_COUNTED).then(before_ns)).filter(name == QUEUE_CREATED)
    return made.select("file", "offset", "thread", "ring", "from_ns", to_ns=pl.col("stamp_ns") + LOG_STEP_NS)


@gives(frames.SPANS)
def list_raw_line_spans(log: pl.DataFrame) -> pl.DataFrame:
    """Return ROCr's own lines between the HIP lines of the same thread around them, as spans for `bound_spans`.

    A thread prints its lines in order: in a file where some are not, lines were moved, and tell nothing of others.

    Args:
        log: rows of the log with `thread`, `clock`, `file`, `offset`, `stamp_ns`.
    """
    thread, is_raw = ["file", "thread"], pl.col("clock") == "mono_raw"
    hip = pl.when(~is_raw).then("stamp_ns")
    ordered = log.sort("file", "offset").with_columns(
        from_ns=hip.forward_fill().over(thread), to_ns=(hip + LOG_STEP_NS).backward_fill().over(thread)
    )
    moved = (pl.col("stamp_ns") < pl.col("from_ns").shift(1).over(thread)) & ~is_raw
    ordered = ordered.filter(~moved.any().over("file"))
    return ordered.filter(is_raw).select("stamp_ns", "from_ns", "to_ns", end_stamp_ns="stamp_ns")


@gives(frames.SPANS)
def list_gpu_time_spans(times: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return the GPU times of `Signal =` lines between their packet and that line, as spans for `bound_spans`.

    A packet starts after its line (a barrier: after its thread's line before that), and its GPU time was past when it
    was printed.

    Args:
        times: rows of layer `gpu` of the log, with `line_stamp_ns`.
        log: HIP's lines of threads that are known.
    """
    lines = log.filter((pl.col("layer") == "aql") & pl.col("signal").is_not_null())
    packets = bracket_doorbells(lines.with_columns(at="stamp_ns"), list_moments(log))
    latest = packets.select("file", "process", "signal", "offset", from_ns="doorbell_lo_ns").sort("offset")
    both = times.sort("offset").join_asof(latest, on="offset", by=["file", "process", "signal"], check_sortedness=False)
    return both.select("from_ns", "stamp_ns", "end_stamp_ns", to_ns=pl.col("line_stamp_ns") + LOG_STEP_NS)
