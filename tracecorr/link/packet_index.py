"""Packet indexes: printed ones beyond 32 bits, and those that a release does not print, by count or by doorbells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracecorr.clock.causal_pairs import list_moments
from tracecorr.clock.hull import NO_HIGH, NO_LOW, Ints
from tracecorr.link.events import attach_columns
from tracecorr.model.columns import IS_PACKET
from tracecorr.model.kinds import BEGINNINGS, GRAPH_CALL, QUEUE_CREATED, QUEUE_DELETED


def _mark_mixed(packets: pl.DataFrame, records: pl.DataFrame, ring: tuple[str, ...]) -> pl.DataFrame:
    """Return `packets` with `mixed`: whether several threads may have taken their indexes in another order.

    A thread takes a packet's index between its previous line and the packet's own. Packets whose intervals overlap are
    of one turn; where several threads wrote them, they may have taken their indexes in another order than they printed.

    Args:
        packets: columns thread, stamp_ns, file, parent_offset and `ring`, in the order of their times.
        records: part events with `thread`.
        ring: columns that name one life of a ring.
    """
    packets = packets.with_columns(_earliest=pl.Series(_find_earliest(packets, records)))
    # The earliest of all that come later: where it lies behind a packet's line, a turn ends.
    later = pl.col("_earliest").shift(-1).cum_min(reverse=True).over(ring)
    packets = packets.with_columns(_ends=later > pl.col("stamp_ns")).with_columns(
        turn=pl.col("_ends").shift(1, fill_value=False).cum_sum().over(ring)
    )
    # Packets without a thread in the log may be of several threads.
    mixed = ((pl.col("thread").n_unique() > 1) | pl.col("thread").is_null().any()).over(*ring, "turn")
    return packets.with_columns(mixed=mixed).drop("_earliest", "_ends", "turn")


def _find_earliest(packets: pl.DataFrame, records: pl.DataFrame) -> Ints:
    """Return when each packet's thread can have taken its index: at its previous line, `NO_LOW` without one.

    A graph launch takes the indexes of several packets before it prints the first of them, in its call. A queue is made
    between two lines of its thread as well.
    """
    log = records.select("thread", "stamp_ns", "end_stamp_ns", "source", "clock").filter(
        (pl.col("source") == "amd_log") & (pl.col("clock") == "mono")
    )
    moments = list_moments(log)
    at, thread = packets["stamp_ns"].fill_null(NO_LOW).to_numpy(), packets["thread"].fill_null(-1).to_numpy()
    earliest = np.full(len(at), NO_LOW)
    for number, lines in moments.items():
        own = np.flatnonzero(thread == number)
        earliest[own] = np.concatenate([[NO_LOW], lines])[np.searchsorted(lines, at[own], side="left")]
    graphs = records.filter((pl.col("layer") == "hip") & pl.col("name").cat.starts_with(GRAPH_CALL))
    calls = graphs.select("file", parent_offset="offset", begun="stamp_ns").unique(["file", "parent_offset"])
    begun = packets.select("file", "parent_offset").join(
        calls, on=["file", "parent_offset"], how="left", maintain_order="left"
    )
    latest: Ints = np.minimum(earliest, begun["begun"].fill_null(NO_HIGH).to_numpy())
    return latest


# The log prints indexes as 32 bit numbers.
_WRAP = 2**32
_COLUMNS = (
    "process", "thread", "ring", "packet_index", "stamp_ns", "file", "offset", "parent_offset", "layer", "name",
    "source", "clock",
)  # fmt: skip
_RING = ("process", "ring", "generation")
# A log that names no process is that of one, told by its file.
_LOG_OF_PROCESS = pl.coalesce(pl.col("process").cast(pl.Int64), -1 - pl.col("file").cast(pl.Int64)).alias("log")


def complete_indexes(records: pl.DataFrame, unplaced: Sequence[int] | pl.Series = ()) -> pl.DataFrame:
    """Return `records` with whole packet indexes, and the column `index_counted`.

    The log prints the lower 32 bits of wptr: from one packet of a ring to the next the index grows, so a fall by
    more than half of them is a wrap. Up to ROCm 6.4 barriers (up to 6.2 all packets) print none: the packets of a
    ring are counted, where the printed indexes around them or the queue's creation leave one count, and where it is
    known in which order its threads took them (`packet_order`).

    Args:
        records: part events with `source` and `process`.
        unplaced: processes with packets that may be on any of their rings (`queue_addresses.name_rings`).
    """
    mine = IS_PACKET & (pl.col("source") == "amd_log") & (pl.col("clock") != "mono_raw")
    named = mine & pl.col("ring").is_not_null()
    # Most logs of today's releases are asked for no more than this.
    if _are_whole(records.select(pl.col("packet_index").filter(named)).to_series()):
        return records.with_columns(index_counted=pl.lit(False))
    rows = records.select(_COLUMNS).with_row_index("_row").filter(pl.col("layer") == "aql")
    lines = rows.filter(named)
    lines = _mark_mixed(_add_generations(lines, rows, records, _list_late(records)), records, _RING)
    placed = ~pl.col("process").is_in(list(unplaced)).fill_null(value=False)
    lines = lines.with_columns(made=pl.col("made") & placed)
    lines = _count(_unwrap(lines))
    found = attach_columns(records, lines.select("_row", "counted", whole="packet_index"), "_row")
    return found.with_columns(
        packet_index=pl.when(pl.col("counted").is_not_null()).then("whole").otherwise("packet_index"),
        index_counted=pl.col("counted").fill_null(False),
    ).drop("counted", "whole")


def _list_late(records: pl.DataFrame) -> pl.Series:
    """Return the processes (`_LOG_OF_PROCESS`) with packets in files that do not have the process's first lines."""
    of_log = pl.col("source") == "amd_log"
    begins = records.filter(pl.col("name").is_in(BEGINNINGS)).select("file", _LOG_OF_PROCESS, begun_ns="stamp_ns")
    packets = records.filter(IS_PACKET & of_log).select("file", _LOG_OF_PROCESS, "stamp_ns")
    # Up to ROCm 4.5 these lines name no process.
    unnamed = records.filter(pl.col("name").is_in(BEGINNINGS) & pl.col("process").is_null()).select("file")
    packets = packets.join(unnamed, on="file", how="anti")
    first = packets.join(begins, on=["file", "log"], how="anti").group_by("log").agg(pl.col("stamp_ns").min())
    begins = begins.group_by("log").agg(pl.col("begun_ns").min())
    both = first.join(begins, on="log", how="left")
    return both.filter((pl.col("stamp_ns") < pl.col("begun_ns")).fill_null(value=True))["log"]


def _are_whole(printed: pl.Series) -> bool:
    """Tell whether all packets print their index, and none of them can be behind a wrap."""
    span = int(printed.max() or 0) - int(printed.min() or 0)  # type: ignore[arg-type]
    return printed.null_count() == 0 and span <= _WRAP // 2


def _add_generations(
    lines: pl.DataFrame, rows: pl.DataFrame, records: pl.DataFrame, headless: pl.Series
) -> pl.DataFrame:
    """Return the packets in the order of their times with `generation`: how often their ring was made before.

    The column `made` tells whether the first packet of that life has index 0. The only Created line of a ring that was
    never deleted may come behind packets of another thread. Of several, one that comes behind packets though no line
    says that their queue was deleted tells not which of them are of which queue: they may be of the new one since the
    line that its thread printed before. In a log that begins in the middle of a run a ring may have been made before:
    there only the packets behind its Created line are those of a new one.

    Args:
        lines: packets.
        rows: rows of layer `aql`.
        records: part events with `thread`.
        headless: processes whose log begins in the middle of the run.
    """
    shape = ("_row", "process", "thread", "ring", "packet_index", "stamp_ns", "file", "offset", "parent_offset")
    created = rows.filter(pl.col("name") == QUEUE_CREATED)
    created = created.with_columns(begun=pl.Series(_find_earliest(created, records), dtype=pl.Int64))
    ends = rows.filter(pl.col("name") == QUEUE_DELETED).with_columns(begun=pl.lit(None, pl.Int64))
    packets = lines.select(*shape, life=pl.lit("packet"), begun=pl.lit(None, pl.Int64))
    both = pl.concat([packets, _marks(created, shape, "made"), _marks(ends, shape, "ended")]).sort(
        "stamp_ns", "file", "offset"
    )
    ring, life = ["process", "ring"], pl.col("life")
    made, ended = life == "made", life == "ended"
    is_begun = ~_LOG_OF_PROCESS.is_in(headless.implode())
    once = is_begun & ((made.sum() == 1) & ~ended.any()).over(ring)
    both = both.with_columns(once=once, generation=pl.when(~once).then(made.cum_sum().over(ring)).otherwise(0))
    over = (ended.cum_sum() > 0).over(_RING)
    begun = (pl.col("begun").backward_fill().over(ring) <= pl.col("stamp_ns")) & ~ended.any().over(_RING)
    late = (life == "packet") & ~pl.col("once") & (over | begun.fill_null(value=False))
    # Of the life before: whether it has packets, and whether its end is seen.
    lives = both.with_columns(late=late).group_by(_RING).agg(
        used=(life == "packet").any(), ended=ended.any(), late=pl.col("late").any()
    )  # fmt: skip
    blurred = lives.filter(pl.col("late") | (pl.col("used") & ~pl.col("ended"))).select(
        *ring, generation=pl.col("generation") + 1, blurred=pl.lit(value=True)
    )
    both = both.with_columns(generation=pl.col("generation") + late.cast(pl.Int64))
    both = both.join(blurred, on=_RING, how="left", maintain_order="left", nulls_equal=True)
    known = pl.col("once") | ((pl.col("generation") > 0) & pl.col("blurred").is_null())
    packets = _add_first_lives(both.filter(life == "packet"), created)
    known |= pl.col("made_once") & is_begun
    return packets.with_columns(made=known).drop("life", "blurred", "once", "made_once", "begun")


def _add_first_lives(packets: pl.DataFrame, created: pl.DataFrame) -> pl.DataFrame:
    """Add `made_once`: whether Created lines that name no ring show that the packet's ring was not made again.

    Up to ROCm 6.1 none names it; where they are as many as the process has rings, the log shows them all. If they
    are more, a ring may have been made again by each that comes after its first packet.
    """
    unnamed = created.filter(pl.col("ring").is_null()).select("process", "stamp_ns").drop_nulls().sort("stamp_ns")
    unnamed = unnamed.with_columns(creations=pl.int_range(1, pl.len() + 1).over("process"))
    packets = packets.join_asof(unnamed, on="stamp_ns", by="process", check_sortedness=False)
    since = pl.col("creations") - pl.col("creations").first().over(_RING)
    shown = pl.col("creations").max().over("process") >= pl.col("ring").n_unique().over("process")
    all_new = pl.col("creations").max().over("process") == pl.col("ring").n_unique().over("process")
    once = (shown & (all_new | (since == 0))).fill_null(value=False)
    return packets.with_columns(made_once=once).drop("creations")


def _marks(lines: pl.DataFrame, shape: tuple[str, ...], life: str) -> pl.DataFrame:
    """Return lines that name a ring in the form of packets."""
    empty = {"_row": pl.lit(None, pl.UInt32), "packet_index": pl.lit(None, pl.Int64), "life": pl.lit(life)}
    return lines.drop_nulls("ring").with_columns(**empty).select(*shape, "life", "begun")


def _unwrap(lines: pl.DataFrame) -> pl.DataFrame:
    """Add 2**32 for each fall of a ring's index by more than half of it; a fall by less is another queue."""
    seen = pl.col("packet_index")
    step = (seen - seen.forward_fill().shift(1)).over(_RING)
    wraps = (step < -_WRAP // 2).cast(pl.Int64) - (step > _WRAP // 2).cast(pl.Int64)
    lines = lines.with_columns(wraps=wraps.fill_null(0))
    return lines.with_columns(packet_index=seen + _WRAP * pl.col("wraps").cum_sum().over(_RING))


def _count(lines: pl.DataFrame) -> pl.DataFrame:
    """Fill the indexes of packets without one.

    Between two printed indexes as many packets must lie as there are numbers; before the first printed one, and on
    rings that print none, the count starts at 0. Packets that may have taken their indexes in another order (`mixed`)
    do not tell how far the count is.
    """
    lines = lines.with_columns(nth=pl.int_range(pl.len()).over(_RING), printed=pl.col("packet_index").is_not_null())
    lead = pl.when(~pl.col("mixed")).then(pl.col("packet_index") - pl.col("nth"))
    lines = lines.with_columns(before=lead.forward_fill().over(_RING), after=lead.backward_fill().over(_RING))
    # Nothing printed before: index 0 was the first one.
    first = pl.coalesce("before", pl.when("made").then(0))
    agreed = pl.when(pl.col("after").is_null() | (first == pl.col("after"))).then(first)
    lines = lines.with_columns(number=agreed + pl.col("nth"))
    lines = lines.with_columns(number=pl.when(~pl.col("mixed")).then("number"))
    return lines.with_columns(
        packet_index=pl.coalesce("packet_index", "number"), counted=~pl.col("printed") & pl.col("number").is_not_null()
    )


def measure_depth() -> pl.Expr:
    """Return how many packets lay in the ring when a packet was written, itself included (an upper bound).

    The log prints both indexes as 32 bit numbers (rocvirtual.cpp, ROCm 6.2 to 7.2); the read index counts consumed
    packets, not completed kernels. Columns wptr and rptr of `launches`.
    """
    return ((pl.col("wptr") - pl.col("rptr")) % _WRAP) + 1


def list_store_depths(events: pl.LazyFrame, args: pl.LazyFrame) -> pl.LazyFrame:
    """Return how many packets lay in the ring at each store of a doorbell whose probe read the read index.

    Args:
        events, args: the tables.

    Returns: queue, process, event, ts_ns, depth (with the stored packet; an upper bound, as `measure_depth`).
    """
    is_store = (pl.col("layer").cast(pl.String) == "doorbell") & pl.col("queue").is_not_null()
    stores = events.filter(is_store & pl.col("packet_index").is_not_null())
    finished = args.filter(pl.col("key").cast(pl.String) == "finished").select("event", finished=pl.col("u64"))
    depth = pl.col("packet_index") - pl.col("finished").cast(pl.Int64, strict=False) + 1
    told = stores.select("event", "queue", "process", "ts_ns", "packet_index").join(finished, on="event")
    # Another thread's packet may have ended, and moved the index, before this one's store.
    return told.select("queue", "process", "event", "ts_ns", depth=depth.clip(lower_bound=0))


_WRITER, _OF_RING = ["process", "thread", "ring"], ["process", "ring"]
_CHECKED = ("stamp_ns", "file", "offset", "packet_index", "layer", "name", *_WRITER)


def check_indexes(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the packet indexes that doorbell stores tell, and without those that they disprove.

    A thread stores each packet's index to the ring's doorbell in the order in which it prints the packets. If it
    stored as often as it printed between two packets whose stores are known, each store is that of one packet. If it
    stored an index that it has no packet of, packets of the ring were lost: none of its counts holds, nor any of its
    log's rings whose stores are not known; nor do these where a thread stored to unknown rings more often than it
    printed packets that may be there. No clock is needed. A ring that was made again tells no
    further index.

    Args:
        records: part events with `source`, `process`, `thread`, `index_counted`, and the ring of doorbell stores.
    """
    if not (records["layer"] == "doorbell").any():
        return records
    rows = records.select(*_CHECKED, "source", "index_counted").with_row_index("_row").drop_nulls(["process", "thread"])
    lines = rows.filter(IS_PACKET & (pl.col("source") == "amd_log")).drop_nulls("ring")
    stores = rows.filter(pl.col("layer") == "doorbell").drop_nulls("packet_index")
    asked = lines.filter(pl.col("index_counted") | pl.col("packet_index").is_null()).select(_OF_RING).unique()
    if asked.is_empty() or stores.is_empty():
        return records
    overstored = _list_overstored(lines, stores)
    lines, stores = lines.join(asked, on=_OF_RING, how="semi"), stores.join(asked, on=_OF_RING, how="semi")
    short = _list_short(lines, stores)
    wrong = _list_miscounted(lines, stores, short, overstored)
    whole = lines.join(short, on=_OF_RING, how="anti")
    told = _lay_beside(whole.sort("file", "offset"), stores.sort("stamp_ns", maintain_order=True))
    none, found = wrong.select("_row", stored=pl.lit(None, pl.Int64)), told.cast({"stored": pl.Int64})
    return _set_indexes(records, pl.concat([none, found]))


def _set_indexes(records: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    if found.is_empty():
        return records
    joined = attach_columns(records, found.with_columns(is_set=pl.lit(value=True)), "_row")
    is_set = pl.col("is_set").is_not_null()
    return joined.with_columns(
        packet_index=pl.when(is_set).then("stored").otherwise("packet_index"),
        index_counted=pl.when(is_set).then(pl.col("stored").is_not_null()).otherwise("index_counted"),
    ).drop("stored", "is_set")


def _list_short(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return the rings (process, ring) on which a thread stored more indexes than it has packets for."""
    known = [*_WRITER, "packet_index"]
    bare = stores.join(lines.select(known), on=known, how="anti").group_by(_WRITER).agg(stores=pl.len())
    open_lines = lines.group_by(_WRITER).agg(free=pl.col("packet_index").is_null().sum())
    found = bare.join(open_lines, on=_WRITER, how="left")
    return found.filter(pl.col("stores") > pl.col("free").fill_null(0)).select(_OF_RING).unique()


def _list_overstored(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.Series:
    """Return the files whose threads stored to doorbells of unknown rings more often than packets of theirs explain.

    These are packets without an index, or on rings without a known store.
    """
    unknown = stores.filter(pl.col("ring").is_null()).group_by("thread").agg(stores=pl.len())
    free = lines.join(stores.drop_nulls("ring").select(_OF_RING).unique(), on=_OF_RING, how="anti")
    free = pl.concat([free, lines.filter(pl.col("packet_index").is_null())]).unique("_row")
    packets = free.group_by("thread").agg(packets=pl.len())
    threads = unknown.join(packets, on="thread", how="left")
    threads = threads.filter(pl.col("stores") > pl.col("packets").fill_null(0))
    return lines.join(threads, on="thread", how="semi")["file"].unique()


def _list_miscounted(
    lines: pl.DataFrame, stores: pl.DataFrame, short: pl.DataFrame, overstored: pl.Series
) -> pl.DataFrame:
    """Return the packets whose counted index is wrong: packets of their ring are missing, or may be.

    If packets of one ring are missing, or files are `overstored`, the log lost lines. Another ring of it that has no
    stores is counted right only up to its last packet that prints an index.
    """
    lossy = pl.concat([lines.join(short, on=_OF_RING, how="semi")["file"], overstored]).unique()
    known = lines.filter(~pl.col("index_counted") & pl.col("packet_index").is_not_null())
    last = known.group_by(_OF_RING).agg(last=pl.col("offset").max())
    open_rings = lines.filter("index_counted", pl.col("file").is_in(lossy.implode())).join(
        stores, on=_OF_RING, how="anti"
    )
    unproven = open_rings.join(last, on=_OF_RING, how="left").filter(pl.col("offset") > pl.col("last").fill_null(-1))
    disproved = lines.filter("index_counted").join(short, on=_OF_RING, how="semi")
    return pl.concat([disproved, unproven.select(disproved.columns)])


def _lay_beside(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return _row, stored: the values of the stores that lie beside packets without an index.

    Args:
        lines: packets, in the order of the log.
        stores: in the order of the trace.
    """
    place, rising = pl.int_range(pl.len()).over(_WRITER), (pl.col("packet_index").diff() > 0).over(_WRITER)
    stores = stores.with_columns(at=place, rises=rising.fill_null(value=True))
    stores = stores.filter(pl.col("rises").all().over(_WRITER))
    # Signed: of packets before the trace begins there are no stores.
    count = pl.len().cast(pl.Int64)
    sizes = stores.group_by(_WRITER).agg(stores=count)
    lines = lines.with_columns(nth=place, lines=count.over(_WRITER)).join(sizes, on=_WRITER, maintain_order="left")
    known = stores.select(*_WRITER, "packet_index", "at")
    lines = lines.join(known, on=[*_WRITER, "packet_index"], how="left", maintain_order="left")
    # By how much a packet's place among its thread's is another one than its store's: equal on both sides of a stretch
    # in which no packet of either is missing. The ends of both are such places, too.
    shift = pl.col("at") - pl.col("nth")
    before, after = shift.forward_fill().over(_WRITER), shift.backward_fill().over(_WRITER)
    lines = lines.with_columns(
        before=before.fill_null(0), after=pl.coalesce(after, pl.col("stores") - pl.col("lines")),
        stretch=pl.col("at").is_not_null().cum_sum().over(_WRITER),
    ).with_columns(at=pl.col("nth") + pl.col("before"))  # fmt: skip
    told = lines.filter(pl.col("before") == pl.col("after")).join(
        stores.select(*_WRITER, "at", stored="packet_index"), on=[*_WRITER, "at"]
    )
    # A packet whose index is known must be beside the store of that index.
    wrong = told.filter(pl.col("packet_index") != pl.col("stored")).select(*_WRITER, "stretch")
    told = told.join(wrong, on=[*_WRITER, "stretch"], how="anti").filter(pl.col("packet_index").is_null())
    twice = pl.len().over("process", "ring", "stored") > 1
    return told.filter(~twice).select("_row", "stored")
