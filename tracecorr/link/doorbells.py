"""Doorbells: which store announced which packet."""

from __future__ import annotations

import polars as pl

# A handle is one queue's doorbell when this share of its stores has a packet line with the same index.
_SHARE = 0.95


def learn_rings(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return process, arg (doorbell signal handle) -> ring for stores whose probe did not read the ring.

    The handle of a queue never changes. The ring is the one whose packet lines have the same thread and
    index, and lie nearest in time; a handle with two equally near rings stays unknown.

    Args:
        stores: doorbell events with process, thread, arg, packet_index, ts_ns, ring (null).
        packets: packet events with process, thread, ring, packet_index, ts_ns.
    """
    pairs = stores.select("process", "thread", "arg", "packet_index", at="ts_ns").join(
        packets.select("process", "thread", "ring", "packet_index", "ts_ns"), on=["process", "thread", "packet_index"]
    )
    near = pairs.group_by("process", "arg", "ring").agg(
        gap=(pl.col("at") - pl.col("ts_ns")).abs().median(), matched=pl.col("packet_index").n_unique()
    )
    total = stores.group_by("process", "arg").agg(total=pl.col("packet_index").n_unique())
    near = near.join(total, on=["process", "arg"]).filter(pl.col("matched") >= _SHARE * pl.col("total"))
    best = near.with_columns(best=pl.col("gap").min().over("process", "arg"))
    best = best.filter(pl.col("gap") == pl.col("best")).filter(pl.len().over("process", "arg") == 1)
    # With a second ring nearly as near, time does not tell them apart.
    near = near.sort("gap").with_columns(place=pl.int_range(pl.len()).over("process", "arg"))
    second = near.filter(pl.col("place") == 1).select("process", "arg", second="gap")
    best = best.join(second, on=["process", "arg"], how="left").filter(
        pl.col("second").is_null() | (pl.col("gap") * 2 <= pl.col("second"))
    )
    # Two handles cannot be the doorbell of one ring: the nearer one is.
    best = best.sort("gap").unique(["process", "ring"], keep="first", maintain_order=True)
    return best.select("process", "arg", "ring")


def match_stores(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return, per packet, its own doorbell store and the store that announced it.

    The own store has value == index; a packet without one (a graph launch stores once for several
    packets) takes the thread's first later store on that queue. The announcing store is the earliest
    one of any thread with a value >= index.

    Args:
        stores: event, queue, thread, ts_ns, packet_index, err_lo_ns, err_hi_ns.
        packets: event, queue, thread, chain, packet_index, doorbell_lo_ns, doorbell_hi_ns: the interval
            in which the log lets the store lie; a store outside of it is another packet's.

    Returns: event (packet), doorbell_event, announce_event, own (whether value == index).
    """
    wanted = packets.drop_nulls(["queue", "packet_index"])
    usable = stores.drop_nulls(["queue", "packet_index"])
    own = _own_stores(usable, wanted)
    batch = wanted.join(own, on="event", how="anti").sort("packet_index")
    later = usable.sort("packet_index").select("queue", "thread", "packet_index", doorbell_event="event")
    batch = batch.join_asof(
        later, on="packet_index", by=["queue", "thread"], strategy="forward", check_sortedness=False
    )
    matched = pl.concat([
        own.with_columns(own=pl.lit(True)),
        _same_call(batch, own, wanted).select("event", "doorbell_event", own=pl.lit(False)),
    ])  # fmt: skip
    return matched.join(_announcing(usable, wanted), on="event", how="left", maintain_order="left")


def _own_stores(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the store of each packet's own index, on its thread and in the interval that the log leaves for it."""
    pairs = packets.join(
        stores.select("queue", "thread", "packet_index", "err_lo_ns", "err_hi_ns", store="event", store_ns="ts_ns"),
        on=["queue", "thread", "packet_index"],
        suffix="_store",
    )
    after = pl.col("store_ns") + pl.col("err_hi_ns_store").fill_null(0) >= pl.col("doorbell_lo_ns")
    before = pl.col("store_ns") - pl.col("err_lo_ns_store").fill_null(0) <= pl.col("doorbell_hi_ns")
    # An open side (the thread's first or last record) bounds nothing.
    inside = pairs.filter(after.fill_null(True) & before.fill_null(True))
    alone = (pl.len().over("event") == 1) & (pl.len().over("store") == 1)
    return inside.filter(alone).select("event", doorbell_event="store")


def _same_call(batch: pl.DataFrame, own: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Keep the packets whose later store is that of a packet of the same HIP call: a graph launch.

    The next store of another call only shows that this packet's own one was lost.
    """
    calls = own.join(packets.select("event", owner_chain="chain"), on="event").drop("event")
    joined = batch.drop_nulls("doorbell_event").join(calls, on="doorbell_event", maintain_order="left")
    return joined.filter(pl.col("chain") == pl.col("owner_chain"))


def _announcing(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the earliest store with value >= index, from any thread."""
    falling = stores.sort("packet_index", descending=True).with_columns(
        earliest=pl.struct("ts_ns", "event").rank("ordinal").over("queue")
    )
    falling = falling.with_columns(least=pl.col("earliest").cum_min().over("queue"))
    names = falling.select("queue", "earliest", announce_event="event")
    suffix = falling.select("queue", "packet_index", "least").join(
        names, left_on=["queue", "least"], right_on=["queue", "earliest"]
    )
    return (
        packets.sort("packet_index")
        .join_asof(suffix.sort("packet_index"), on="packet_index", by="queue", strategy="forward",
                   check_sortedness=False)
        .select("event", "announce_event")
    )  # fmt: skip


def infer_intervals(packets: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return between which two moments each packet's unseen doorbell store lies.

    A dispatch line is printed before its store, so the store lies before the thread's next record; a
    barrier line is printed after it (HIP 4.5 to 7.2).

    Args:
        packets: event, thread, name, ts_ns, err_hi_ns.
        log: all log events, with thread, ts_ns, dur_ns.

    Returns: event, doorbell_lo_ns, doorbell_hi_ns.
    """
    moments = pl.concat([
        log.select("thread", "ts_ns"),
        log.drop_nulls("dur_ns").select("thread", ts_ns=pl.col("ts_ns") + pl.col("dur_ns")),
    ]).drop_nulls().unique().sort("ts_ns")  # fmt: skip
    sides = {
        side: packets.sort("ts_ns").join_asof(
            moments.select("thread", "ts_ns", other="ts_ns"), on="ts_ns", by="thread", strategy=side,
            allow_exact_matches=False, check_sortedness=False,
        ).select("event", pl.col("other").alias(side))
        for side in ("backward", "forward")
    }  # fmt: skip
    step = pl.col("err_hi_ns").fill_null(0).cast(pl.Int64)
    dispatch = pl.col("name").cast(pl.String) == "dispatch"
    both = packets.join(sides["backward"], on="event").join(sides["forward"], on="event")
    return both.select(
        "event",
        doorbell_lo_ns=pl.when(dispatch).then("ts_ns").otherwise("backward"),
        doorbell_hi_ns=pl.when(dispatch).then(pl.col("forward") + step).otherwise(pl.col("ts_ns") + step),
    )
