"""Doorbells: which store announced which packet, between which lines it lies, and whose handle it was made to."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import numpy as np
import polars as pl

from tracecorr.clock.causal_pairs import bracket_doorbells, list_moments
from tracecorr.link.events import attach_columns, fill_columns
from tracecorr.model import frames
from tracecorr.model.columns import IS_PACKET
from tracecorr.model.frames import gives
from tracecorr.native import Ints


def span_stores(packets: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `packets` with doorbell_lo_ns and doorbell_hi_ns: between which moments the store of each lies.

    Args:
        packets: columns thread, ts_ns, name.
        events: all rows: thread, ts_ns, dur_ns, source, clock.
    """
    is_line = (pl.col("source") == "amd_log") & (pl.col("clock") == "mono")
    is_asked = pl.col("thread").is_in(packets["thread"].unique().implode())
    lines = events.select("thread", "ts_ns", "dur_ns", "source", "clock").filter(is_line & is_asked)
    moments = list_moments(lines.select("thread", stamp_ns="ts_ns", end_stamp_ns=pl.col("ts_ns") + pl.col("dur_ns")))
    return bracket_doorbells(packets.with_columns(at="ts_ns"), moments).drop("at")


# Of the stores on a learned ring, or of an unknown thread, at least this share of those with a packet of their index
# must lie in its interval.
_LEAST_INSIDE = 0.5
_WANTED = ("event", "queue", "thread", "chain", "name", "graph", "packet_index", "doorbell_lo_ns", "doorbell_hi_ns")
# Stands for all threads that only one source names.
_LONE = pl.lit(2**32 - 1, pl.UInt32)
_MATCHED = {"event": pl.Int64, "doorbell_event": pl.Int64, "own": pl.Boolean, "announce_event": pl.Int64}


def share_lone_threads(
    stores: pl.DataFrame, packets: pl.DataFrame, events: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return both with one thread for all that only the trace, or only the log, names.

    Who is who may be unknown, as that of threads that use one stack after the other; ring, index and time of a store
    tell its packet all the same. Not where the ring was learned from what its thread did.

    Args:
        stores, packets: as in `match_stores`.
        events: thread, source.
    """
    if stores.is_empty():
        return stores, packets
    of_log = pl.col("source") == "amd_log"
    threads = events.select("thread", "source").group_by("thread").agg(log=of_log.any(), trace=(~of_log).any())
    sides = [threads.filter(~pl.col(other))["thread"].implode() for other in ("log", "trace")]
    alone = pl.col("thread").is_in(sides[0]) & ~pl.col("ring_learned")
    return (
        stores.with_columns(thread=pl.when(alone).then(_LONE).otherwise("thread")),
        packets.with_columns(thread=pl.when(pl.col("thread").is_in(sides[1])).then(_LONE).otherwise("thread")),
    )


@gives(frames.STORES_OF_PACKETS)
def match_stores(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return, per packet, its own doorbell store and the store that announced it.

    The own store has value == index; a packet without one (a graph launch stores once for several packets) takes the
    thread's first store on that queue with a later value, or (HIP 7.1.0) an earlier one that was made behind the
    packet's line. The announcing store is the earliest one of any thread with a value >= index, or that one. A ring
    that was learned wrongly shows the same indexes, at other times: its stores belong to no packet.

    Args:
        stores: event, queue, thread, ts_ns, packet_index, err_lo_ns, err_hi_ns, ring_learned (whether the ring was
            learned from the order of stores and lines).
        packets: event, queue, thread, chain, name, graph (whether the call is a graph launch), packet_index,
            doorbell_lo_ns, doorbell_hi_ns: the interval in which the log lets the store lie; a store outside of it
            is another packet's.

    Returns: event (packet), doorbell_event, announce_event, own (whether value == index).
    """
    wanted = packets.select(_WANTED).drop_nulls(["queue", "packet_index"])
    usable = stores.drop_nulls(["queue", "packet_index"])
    if usable.is_empty():
        return pl.DataFrame(schema=_MATCHED)
    usable, pairs = _pair_by_index(usable, wanted)
    own = _own_stores(pairs)
    batch = wanted.filter("graph").join(own, on="event", how="anti").sort("packet_index")
    later = usable.sort("packet_index").select("queue", "thread", "packet_index", doorbell_event="event")
    batch = batch.join_asof(
        later, on="packet_index", by=["queue", "thread"], strategy="forward", check_sortedness=False
    )
    batch = _store_behind(batch, usable)
    matched = pl.concat([
        own.with_columns(own=pl.lit(True)),
        _same_call(batch, own, wanted).select("event", "doorbell_event", own=pl.lit(False)),
    ])  # fmt: skip
    matched = matched.join(_announcing(usable, wanted), on="event", how="left", maintain_order="left")
    # Events are numbered in the order of their times.
    return matched.with_columns(announce_event=pl.min_horizontal("announce_event", "doorbell_event"))


def _store_behind(batch: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return `batch` with another doorbell_event where its thread rang that queue between packet and `doorbell_event`.

    HIP 7.1.0 stores the index of the first of the packets that a graph launch wrote since its last store. If the
    errors of the times leave a choice, or such a store was lost, it is not known.

    Args:
        batch: packets of graph launches: queue, thread, doorbell_lo_ns, doorbell_event.
        stores: event, queue, thread, ts_ns, err_lo_ns, err_hi_ns.
    """
    key, at = ["queue", "thread"], "doorbell_lo_ns"
    early, late = (pl.col("ts_ns") + way * pl.col(name).fill_null(0).cast(pl.Int64)
                   for way, name in ((-1, "err_lo_ns"), (1, "err_hi_ns")))  # fmt: skip
    asked = batch.with_row_index("row").select("row", *key, at).drop_nulls().sort(at)
    first = [
        asked.join_asof(
            stores.select(*key, side.alias(at), rung="event").sort(at), on=at, by=key, strategy="forward",
            check_sortedness=False,
        ).select("row", "rung")
        for side in (early, late)
    ]  # fmt: skip
    behind = first[0].join(first[1], on="row", suffix="_perhaps").drop_nulls("rung")
    joined = attach_columns(batch, behind, "row")
    is_passed = (pl.col("rung") < pl.col("doorbell_event")).fill_null(pl.col("rung").is_not_null())
    sure = pl.when(is_passed & (pl.col("rung") == pl.col("rung_perhaps"))).then("rung")
    return joined.with_columns(
        doorbell_event=pl.when(is_passed.any().over("thread")).then(sure).otherwise("doorbell_event")
    ).drop("rung", "rung_perhaps")  # fmt: skip


def list_contradicted(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.Series:
    """Return the packets (event) whose index was counted, on queues whose stores show that a count is wrong.

    A store of such an index lies at another time, or is of another thread: the log lost packets before. On these queues
    only packets whose own store agrees keep their index.

    Args:
        stores: as in `match_stores`.
        packets: as in `match_stores`, and index_counted.
    """
    wanted = packets.select(*_WANTED, "index_counted").drop_nulls(["queue", "packet_index"])
    counted = wanted.filter("index_counted")
    usable = stores.drop_nulls(["queue", "packet_index"])
    if counted.is_empty() or usable.is_empty():
        return counted["event"].clear()
    usable, pairs = _pair_by_index(usable, counted)
    unsure = counted.join(pairs.filter("is_inside"), on="event", how="anti")
    shown = usable.drop_nulls("thread").select("queue", "packet_index").unique()
    wrong = unsure.drop_nulls("thread").join(shown, on=["queue", "packet_index"], how="semi")
    return unsure.join(wrong.select("queue").unique(), on="queue", how="semi", maintain_order="left")["event"]


def _pair_by_index(stores: pl.DataFrame, packets: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the stores of known queues, and packets with those of their index, without those of other queues.

    These are stores whose ring was learned wrongly, and of processes that only have a pid in common: a pid of a
    namespace. The store of an index lies at another time as a rule, and in the packet's interval by chance alone.
    """
    pairs = _pair_all(stores, packets)
    for doubtful, keys in ((pl.col("ring_learned"), ["queue"]), (pl.col("thread") == _LONE, ["queue", "thread"])):
        shares = pairs.filter(doubtful).group_by(keys).agg(pl.col("is_inside").mean())
        wrong = shares.filter(pl.col("is_inside") < _LEAST_INSIDE)
        stores, pairs = (side.join(wrong, on=keys, how="anti", maintain_order="left") for side in (stores, pairs))
    return stores, pairs


def _pair_all(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return packets with each store of their index on their thread, and whether it lies in the packet's interval."""
    pairs = packets.join(
        stores.select(
            "queue",
            "thread",
            "packet_index",
            "ring_learned",
            store="event",
            store_ns="ts_ns",
            early="err_lo_ns",
            late="err_hi_ns",
        ),
        on=["queue", "thread", "packet_index"],
    )
    after = pl.col("store_ns") + pl.col("late").fill_null(0) >= pl.col("doorbell_lo_ns")
    before = pl.col("store_ns") - pl.col("early").fill_null(0) <= pl.col("doorbell_hi_ns")
    # An open side (the thread's first or last record) bounds nothing.
    return pairs.with_columns(is_inside=after.fill_null(True) & before.fill_null(True))


def _own_stores(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the store of each packet's own index, in the interval that the log leaves for it."""
    inside = pairs.filter("is_inside")
    alone = (pl.len().over("event") == 1) & (pl.len().over("store") == 1)
    return inside.filter(alone).select("event", doorbell_event="store")


def _same_call(batch: pl.DataFrame, own: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Keep the dispatches whose later store is that of a dispatch of the same graph launch.

    The next store of another call, or that of a barrier behind them, only shows that their own one was lost.
    """
    dispatches = packets.filter(pl.col("name") == "dispatch")
    calls = own.join(dispatches.select("event", owner_chain="chain"), on="event").drop("event")
    joined = batch.drop_nulls("doorbell_event").join(calls, on="doorbell_event", maintain_order="left")
    is_dispatch = pl.col("name") == "dispatch"
    return joined.filter(is_dispatch & (pl.col("chain") == pl.col("owner_chain")))


def _announcing(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the earliest store with value >= index, from any thread."""
    # Events are numbered in the order of their times.
    falling = stores.select("queue", "packet_index", "event").sort("packet_index", "event", descending=True)
    suffix = falling.select("queue", "packet_index", announce_event=pl.col("event").cum_min().over("queue")).reverse()
    wanted = packets.select("event", "queue", "packet_index").sort("packet_index")
    found = wanted.join_asof(suffix, on="packet_index", by="queue", strategy="forward", check_sortedness=False)
    return found.select("event", "announce_event")


# Stores and packets of a thread that are laid side by side from a new handle on; more of them tell nothing new.
_COMPARED = 1000
# A handle belongs to a ring when this share of its matched stores says so, ...
_SHARE = 0.9
# ... and this share of those among matched ones is matched: in a log that lost lines others find a packet by chance.
_LEAST_MATCHED = 0.5


def fill_store_rings(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with `ring` on doorbell stores of known handles, and with the column `ring_learned`.

    A thread prints its packets in the order in which it stores their doorbells, so the values stored and the
    indexes printed are one sequence, apart from what was lost. No clock is needed.

    Args:
        records: part events with `source`, `process` and `thread`.
    """
    columns = ("process", "thread", "arg", "ring", "packet_index", "stamp_ns", "file", "offset", "layer", "name")
    is_nameless = records.select((pl.col("layer") == "doorbell") & pl.col("ring").is_null()).to_series()
    if not is_nameless.any():
        return records.with_columns(ring_learned=pl.lit(False))
    rows = records.select(columns).with_row_index("_row")
    handles = rows.filter(is_nameless)
    stores = handles.drop_nulls(["thread", "arg", "packet_index"]).sort("stamp_ns", maintain_order=True)
    lines = rows.filter(IS_PACKET)
    lines = lines.drop_nulls(["thread", "ring", "packet_index"]).sort("file", "offset")
    learned = handles.drop("ring").join(learn_rings(stores, lines), on=["process", "arg"])
    known = learned.select("_row", "ring", ring_learned=pl.lit(True))
    filled = fill_columns(records, known.select("_row", "ring"), "_row")
    flagged = attach_columns(filled, known.select("_row", "ring_learned"), "_row")
    return flagged.with_columns(pl.col("ring_learned").fill_null(False))


def learn_rings(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return process, arg (doorbell signal handle) -> ring.

    Args:
        stores: columns process, thread, arg, packet_index, in the order of the trace.
        lines: columns thread, ring, packet_index, in the order of the log.
    """
    packets = {key[0]: part for key, part in lines.partition_by("thread", as_dict=True, maintain_order=True).items()}
    votes = [
        vote
        for key, part in stores.partition_by("thread", as_dict=True, maintain_order=True).items()
        if key[0] in packets
        for vote in _match_thread(part, packets[key[0]])
    ]
    if not votes:
        return pl.DataFrame(schema={"process": pl.UInt32, "arg": pl.UInt64, "ring": pl.UInt64})
    keys = ["process", "arg"]
    compared, at = pl.concat(votes).with_columns(compared=pl.len().over(keys)), pl.col("at")
    beside = compared.drop_nulls("ring").group_by(*keys, "ring", "compared")
    counted = beside.agg(votes=pl.len(), first=at.min(), last=at.max())
    alike = pl.col("votes") >= _SHARE * pl.col("votes").sum().over(keys)
    chosen = counted.filter(alike & (pl.col("votes") >= _LEAST_MATCHED * pl.col("compared")))
    # A ring has one doorbell at a time: two handles may only follow each other.
    ordered = chosen.sort("first").with_columns(before=pl.col("last").shift(1).over("process", "ring"))
    crossed = (pl.col("first") <= pl.col("before")).fill_null(False).any().over("process", "ring")
    return ordered.filter(~crossed).select("process", "arg", "ring")


def _match_thread(stores: pl.DataFrame, packets: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield votes (process, arg, ring, at): a store and the packet that the sequences of the thread put beside it.

    Of stores between such ones that have no packet the ring is null.

    Only stretches that begin with a handle not seen before are compared; the queues of a program are few. One store
    announces all packets of a graph launch: those whose index is never stored are left out.
    """
    handles, values = stores["arg"].to_numpy(), stores["packet_index"].to_numpy()
    packets = packets.filter(pl.col("packet_index").is_in(stores["packet_index"].unique().implode()))
    rings, indexes = packets["ring"].to_numpy(), packets["packet_index"].to_numpy()
    known: dict[int, int] = {}
    store = packet = 0
    while store < len(values):
        left, right = _match_stretch(values[store : store + _COMPARED], indexes[packet : packet + _COMPARED])
        left, right = left + store, right + packet
        if len(left):
            compared = stores[int(left[0]) : int(left[-1]) + 1].select("process", "arg", at="stamp_ns")
            beside = packets["ring"].clear(len(compared)).scatter(left - left[0], packets["ring"].gather(right))
            yield compared.with_columns(beside)
        known |= dict(zip(handles[left].tolist(), rings[right].tolist(), strict=True))
        tried = np.unique(handles[: store + _COMPARED])
        fresh = np.flatnonzero(~np.isin(handles, tried))
        if not len(fresh):
            return
        store = int(fresh[0])
        packet = _place_before(handles[:store], values[:store], rings, indexes, known, packet)


def _match_stretch(values: Ints, indexes: Ints) -> tuple[Ints, Ints]:
    matcher = SequenceMatcher(None, values.tolist(), indexes.tolist(), autojunk=False)
    blocks = matcher.get_matching_blocks()
    pairs = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _place_before(handles: Ints, values: Ints, rings: Ints, indexes: Ints, known: dict[int, int], first: int) -> int:
    """Return the place behind the packet of the last store of a known handle, not before place `first`."""
    for store in range(len(handles) - 1, max(len(handles) - _COMPARED, 0) - 1, -1):
        ring = known.get(int(handles[store]))
        if ring is None:
            continue
        found = np.flatnonzero((rings[first:] == ring) & (indexes[first:] == values[store]))
        if len(found):
            return first + int(found[0]) + 1
    return first
