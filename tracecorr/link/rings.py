"""Rings of queues that releases up to ROCm 6.1 name by their address (SWq), or name no ring of."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from tracecorr.link.creations import join_creations
from tracecorr.link.events import attach_args, attach_columns, pivot_args
from tracecorr.link.queues import list_creations, list_ends, list_kernel_creations, list_log_packets
from tracecorr.link.streams import DESTROY, assign_streams
from tracecorr.model import frames
from tracecorr.model.columns import IS_PACKET, STREAM_MAKERS
from tracecorr.model.frames import gives
from tracecorr.model.kinds import BEGINNINGS, INFERRED, QUEUE_CREATED, QUEUE_DELETED, QUEUE_SELECTED, RECORDED

_QUEUE, _RING = ["process", "swq"], ["process", "ring"]
_COLUMNS = ("process", "ring", "stamp_ns", "file", "offset", "layer", "name", "source")
_OF_LOG = (pl.col("layer") == "aql") & (pl.col("source") == "amd_log")
_IS_LOGGED, _IS_LINE = _OF_LOG & IS_PACKET, _OF_LOG & ~IS_PACKET


def name_rings(records: pl.DataFrame, args: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return `records` with the rings of packets that print an address, and the processes where some stay unknown.

    Doorbell stores tell both of a queue; and where a process made one queue, its packets have one ring. In the
    processes that are returned other packets print rings, so that those of unknown ring may be on any of them.

    Args:
        records: part events with `source` and `process`.
        args: part args.
    """
    lives = attach_args(_list_lives(records), args, ["swq"]).drop_nulls("swq")
    if lives.is_empty():
        return records, pl.Series("process", [], records.schema["process"])
    rows = records.select(_COLUMNS).with_row_index("_row").drop_nulls("process")
    packets = rows.filter(_IS_LOGGED).drop_nulls("ring")
    addressed = _find_queues(packets, lives).select("_row", "process", swq="ring")
    others = packets.join(addressed, on="_row", how="anti")
    known = pl.concat([_of_stores(rows, args), _of_lone_queues(rows, lives, others)]).unique(_QUEUE, keep="first")
    addressed = addressed.join(known, on=_QUEUE, how="left")
    named = addressed.drop_nulls("ring").select("_row", address_ring="ring")
    unknown = addressed.filter(pl.col("ring").is_null())["process"].unique()
    filled = attach_columns(records, named, "_row")
    filled = filled.with_columns(ring=pl.coalesce("address_ring", "ring")).drop("address_ring")
    return filled, unknown.filter(unknown.is_in(others["process"].implode()))


@gives(frames.QUEUE_LINES)
def find_lines(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return event, line: the rows that name a queue by its address alone, and the Created line of that queue.

    Args:
        events: placed events with `process`, `ring`.
        args: args by event, with `swq` of lines that print it.
    """
    lines = events.select("event", *_COLUMNS).filter(_IS_LINE).drop_nulls("process")
    told = lines.join(pivot_args(args, lines["event"], ["swq"]), on="event").drop_nulls("swq")
    found = _find_queues_of_lines(told, lines.filter((pl.col("name") == QUEUE_DELETED) & pl.col("ring").is_not_null()))
    lives = told.filter(pl.col("name").is_in([QUEUE_CREATED, QUEUE_DELETED]) & pl.col("ring").is_null())
    if lives.is_empty():
        return found
    packets = events.select("event", *_COLUMNS).filter(_IS_LOGGED).drop_nulls(_RING)
    return pl.concat([_find_queues(packets, lives.rename({"event": "line"})).select("line", "event"), found])


def _find_queues_of_lines(told: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return line, event of the lines about a queue (its users, CU mask, end) that print its address, not its ring.

    Args:
        told: lines about queues that print an address, Created lines among them: event, process, ring, name, swq.
        ends: those that tell the end of a queue by its ring.
    """
    created = pl.col("name") == QUEUE_CREATED
    asked = told.filter(~created & pl.col("ring").is_null()).select("event", *_QUEUE)
    made = told.filter(created).select(*_QUEUE, line="event", ring="ring")
    ended = told.filter(pl.col("name") == QUEUE_DELETED).select(*_QUEUE, ended="event")
    ended_ring = ends.select(*_RING, ended_ring="event")
    # Each is of the life before it: a line that ends one is of that one, too.
    found = asked.sort("event")
    for lives, keys, at in ((made, _QUEUE, "line"), (ended, _QUEUE, "ended"), (ended_ring, _RING, "ended_ring")):
        found = found.join_asof(
            lives.sort(at), left_on="event", right_on=at, by=keys, allow_exact_matches=False, check_sortedness=False,
            coalesce=False,
        )  # fmt: skip
    goes_on = pl.max_horizontal("ended", "ended_ring") < pl.col("line")
    return found.drop_nulls("line").filter(goes_on.fill_null(value=True)).select("line", "event")


def tell_rings(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with the ring of lines about a queue where what they print is that of a packet of the process.

    Lines about a queue that went wrong print its ring while those about its creation print its address (ROCm <= 6.1),
    or are not in the log.

    Args:
        events: placed events with `process`, `ring`; those of packets are no addresses.
        args: args by event, with `queue` where a line does not tell which of the two it prints.
    """
    named = args.filter((pl.col("key") == "queue") & pl.col("u64").is_not_null()).select("event", asked="u64")
    if named.is_empty():
        return events
    rows = events.select("event", *_COLUMNS)
    rings = rows.filter(_IS_LOGGED).select(_RING).drop_nulls().unique()
    told = rows.filter(_IS_LINE & pl.col("ring").is_null()).select("event", "process").join(named, on="event")
    found = told.join(rings.with_columns(asked="ring"), on=["process", "asked"]).select("event", told_ring="ring")
    joined = attach_columns(events, found)
    return joined.with_columns(ring=pl.coalesce("ring", "told_ring")).drop("told_ring")


def _list_lives(records: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that begin or end a queue and name no ring."""
    is_life = (
        (pl.col("layer") == "aql")
        & pl.col("name").is_in([QUEUE_CREATED, QUEUE_DELETED])
        & (pl.col("source") == "amd_log")
    )
    rows = records.select(_COLUMNS).filter(is_life & pl.col("ring").is_null())
    return rows.drop_nulls("process")


def _find_queues(packets: pl.DataFrame, lives: pl.DataFrame) -> pl.DataFrame:
    """Return the packets whose `ring` is the address of a queue of their time, with the columns of its Created line."""
    made = lives.drop("ring", "layer", "source", "file", "offset").rename({"swq": "ring", "name": "life"})
    before = packets.sort("stamp_ns").join_asof(
        made.sort("stamp_ns"), on="stamp_ns", by=_RING, check_sortedness=False, suffix="_line"
    )
    return before.filter(pl.col("life") == QUEUE_CREATED)


def _of_stores(rows: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return process, swq, ring of the queues whose doorbell stores tell both, of each one."""
    stores = rows.filter((pl.col("layer") == "doorbell") & pl.col("ring").is_not_null())
    told = attach_args(stores, args, ["swq"]).select(*_QUEUE, "ring").drop_nulls().unique()
    return told.filter((pl.len().over(_QUEUE) == 1) & (pl.len().over(_RING) == 1))


def _of_lone_queues(rows: pl.DataFrame, lives: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return process, swq, ring of processes that made one queue, and whose packets name one ring.

    That holds where the log has the process from its beginning on.
    """
    begun = rows.filter(pl.col("name").is_in(BEGINNINGS) & (pl.col("layer") == "other"))["process"].unique()
    made = lives.filter((pl.col("name") == QUEUE_CREATED) & pl.col("process").is_in(begun.implode())).select(_QUEUE)
    rings = others.select(_RING).unique()
    alone = (side.filter(pl.len().over("process") == 1) for side in (made, rings))
    one, ring = alone
    return one.join(ring, on="process").select(*_QUEUE, "ring")


RINGS = {"event": pl.Int64, "ring": pl.UInt64, "ring_evidence": pl.String}
# Kernels of other launches, such as cooperative ones, go to a queue of the device (CLR's VirtualGPU::submitKernel).
_LAUNCH = r"^hip(Ext|Hcc)?(Module)?LaunchKernel"
_PAIR = ["line", "process", "ring"]


@gives(frames.FOUND_RINGS)
def find_rings(
    events: pl.DataFrame,
    args: pl.DataFrame,
    streams: pl.DataFrame,
    aligned: bool,
) -> pl.DataFrame:
    """Return the ring of each Created line that names none, where only one can be meant: event, ring, ring_evidence.

    What tells it, surest first: doorbell stores that name both (recorded), the line's
    CREATE_QUEUE ioctl where a probe recorded the ring (as sure as that ioctl is the line's), and (inferred)

    - the dispatches of the streams for which the queue was made, or selected, go to this ring, and those of no other,
    - there was but one created queue without a ring when the ring's first packet was printed.

    Args:
        events: placed events with `process`, `thread`, `ring`, `parent`, numbered by their rows.
        args: args by event.
        streams: the table `streams`.
        aligned: whether the clock of the trace is known.
    """
    is_line = (pl.col("layer") == "aql") & (pl.col("name") == QUEUE_CREATED) & pl.col("process").is_not_null()
    if events.filter(is_line & pl.col("ring").is_null()).is_empty():
        return pl.DataFrame(schema=RINGS)
    made = list_creations(events, args).drop_nulls("process").rename({"event": "line"})
    lines = made
    packets = list_log_packets(events).drop_nulls("process").select("process", "ring", "ts_ns").sort("ts_ns")
    ends = list_ends(events, args).select("process", "swq", deleted_ns="ts_ns").drop_nulls()
    # On an unknown clock nothing says which of two creations with one address is meant.
    kernel_side = list_kernel_creations(events if aligned else events.clear(), args)
    found = _of_named_stores(lines, events, args)
    found = pl.concat([found, _of_ioctls(lines, kernel_side).join(found, on="line", how="anti")])
    found = _drop_contradicted(found, lines, packets, ends)
    claims = _claims_of_streams(lines, events, args, streams)
    alone = (pl.len().over("line") == 1) & (pl.len().over("process", "ring") == 1)
    add = partial(_add_inferred, lines=lines, packets=packets, deleted=ends, kernel_side=kernel_side)
    found = add(found, claims.filter(alone))
    found = add(found, _pair_in_order(_move_to_selected(lines, events, args), packets, events, claims, found))
    return found.select(event="line", ring="ring", ring_evidence="ring_evidence").cast(RINGS)  # type: ignore[arg-type]


def _of_named_stores(lines: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return line, process, ring, ring_evidence from doorbell stores: signals name queue (SWq), ring and queue id.

    Ids are given out in the order of the creations, so they tell queues apart that had one address after the other.
    """
    stores = events.select("event", "process", "ring", "layer").filter(
        (pl.col("layer") == "doorbell") & pl.all_horizontal(pl.col("process", "ring").is_not_null())
    )
    named = stores.join(pivot_args(args, stores["event"], ["swq", "qid"]), on="event").drop_nulls(["swq", "qid"])
    keys = ["process", "swq"]
    place, lives = pl.int_range(pl.len()).over(keys).alias("place"), pl.len().over(keys).alias("lives")
    rung = named.select(*keys, "ring", "qid").unique().sort("qid").with_columns(place, lives)
    made = lines.filter(pl.col("ring").is_null()).select("line", *keys, "ts_ns").drop_nulls().sort("ts_ns")
    both = made.with_columns(place, lives).join(rung, on=[*keys, "place", "lives"])
    return both.select(*_PAIR, ring_evidence=pl.lit(RECORDED))


def _of_ioctls(lines: pl.DataFrame, kernel_side: pl.DataFrame) -> pl.DataFrame:
    """Return line, process, ring, ring_evidence from the ioctls that lie between the two lines of a creation."""
    unnamed = lines.filter(pl.col("ring").is_null()).rename({"line": "event"})
    unnamed = unnamed.with_columns(ring_evidence=pl.lit(None, pl.String))
    joins = join_creations(unnamed, kernel_side.with_columns(ring_base=pl.lit(None, pl.UInt64)))
    rings = kernel_side.select(ring="ring_base", ioctl="event").drop_nulls()
    owned = joins.join(rings, on="ioctl").join(unnamed.select("event", "process"), on="event")
    return owned.select("process", "ring", line="event", ring_evidence="evidence").select(*_PAIR, "ring_evidence")


def _add_inferred(
    found: pl.DataFrame,
    pairs: pl.DataFrame,
    lines: pl.DataFrame,
    packets: pl.DataFrame,
    deleted: pl.DataFrame,
    kernel_side: pl.DataFrame,
) -> pl.DataFrame:
    """Return `found` with further pairs whose line and ring have no other one, and that nothing contradicts."""
    possible = _drop_contradicted(_drop_taken(pairs, found, lines), lines, packets, deleted)
    return pl.concat([found, _drop_misplaced(possible, lines, kernel_side)])


def _drop_contradicted(
    pairs: pl.DataFrame, lines: pl.DataFrame, packets: pl.DataFrame, deleted: pl.DataFrame
) -> pl.DataFrame:
    """Return the pairs of the rings whose packets were all printed while there was one of their queues.

    Args:
        pairs: line, process, ring, and others.
        lines: Created lines as `list_creations` returns them.
        packets: process, ring, ts_ns, in the order of time.
        deleted: process, swq, deleted_ns.
    """
    keys = ["process", "ring"]
    lives = pairs.select(_PAIR).join(lines.select("line", "swq", made_ns="ts_ns"), on="line").sort("made_ns")
    ends = deleted.sort("deleted_ns")
    lives = lives.join_asof(
        ends, left_on="made_ns", right_on="deleted_ns", by=["process", "swq"], strategy="forward",
        check_sortedness=False,
    ).with_columns(next_ns=pl.col("made_ns").shift(-1).over(keys))  # fmt: skip
    first = packets.group_by(keys).agg(pl.col("ts_ns").min())
    begun = lives.group_by(keys).agg(pl.col("made_ns").min()).join(first, on=keys)
    late = lives.drop_nulls("deleted_ns").sort("deleted_ns").join_asof(
        packets, left_on="deleted_ns", right_on="ts_ns", by=keys, strategy="forward", allow_exact_matches=False,
        check_sortedness=False,
    ).filter((pl.col("ts_ns") < pl.col("next_ns")).fill_null(pl.col("ts_ns").is_not_null()))  # fmt: skip
    for wrong in (begun.filter(pl.col("ts_ns") < pl.col("made_ns")), late):
        pairs = pairs.join(wrong, on=keys, how="anti")
    return pairs


def _drop_taken(pairs: pl.DataFrame, found: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of lines and rings that have no other one."""
    named = lines.drop_nulls("ring").select(_PAIR)
    for taken in (named, found):
        pairs = pairs.join(taken, on="line", how="anti").join(taken, on=["process", "ring"], how="anti")
    return pairs


def _drop_misplaced(pairs: pl.DataFrame, lines: pl.DataFrame, kernel_side: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs, inferred: a CREATE_QUEUE of the ring, where the trace shows one, lies in the queue's making."""
    shown = kernel_side.select("process", "end_ns", ring="ring_base", start_ns="ts_ns").drop_nulls("ring")
    rows = pairs.join(lines.select("line", "from_ns", "ts_ns"), on="line").join(shown, on=["process", "ring"])
    inside = (pl.col("end_ns") >= pl.col("from_ns")) & (pl.col("start_ns") <= pl.col("ts_ns"))
    seen = rows.group_by("line").agg(inside=inside.fill_null(value=False).any())
    return pairs.join(seen.filter(~pl.col("inside")), on="line", how="anti").with_columns(
        ring_evidence=pl.lit(INFERRED)
    )


def _claims_of_streams(
    lines: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame, streams: pl.DataFrame
) -> pl.DataFrame:
    """Return line and ring of each stream: the queue that it was given, and each ring that its launches went to."""
    named = assign_streams(events, streams)
    calls = events.select("event", "layer", name=pl.col("name").cast(pl.String)).filter(pl.col("layer") == "hip")
    calls = calls.join(named, on="event").select("name", "stream_id", parent="event")
    given = _list_given(lines, calls, events, args)
    inside = events.select("process", "parent", "ring", "layer", "name").filter(
        (pl.col("layer") == "aql") & (pl.col("name") == "dispatch") & pl.col("ring").is_not_null()
    )
    launches = calls.filter(pl.col("name").str.contains(_LAUNCH)).drop("name")
    used = inside.join(launches, on="parent").select("stream_id", "ring").unique()
    owners = lines.select("line", "process")
    return given.join(used, on="stream_id").join(owners, on="line").select(_PAIR).unique()


def _list_given(lines: pl.DataFrame, calls: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return stream_id and line: the queue that a stream was given when it was made, or gave back when it ended."""
    kinds = (QUEUE_CREATED, QUEUE_SELECTED, "queue_released")
    rows = events.select("event", "process", "ts_ns", "parent", "layer", kind="name").filter(
        (pl.col("layer") == "aql") & pl.col("kind").is_in(kinds)
    )
    rows = rows.join(pivot_args(args, rows["event"], ["swq"]), on="event").join(calls, on="parent")
    ends = pl.col("kind") == "queue_released"
    made_stream = pl.any_horizontal(pl.col("name").str.starts_with(maker) for maker in STREAM_MAKERS)
    fits = pl.when(ends).then(pl.col("name") == DESTROY).otherwise(made_stream)
    # A call that makes two queues says not which of them is the stream's.
    rows = rows.filter(fits).filter(pl.len().over("parent") == 1).sort("ts_ns")
    keys = ["process", "swq"]
    made = lines.select("line", "ts_ns", *keys).drop_nulls().sort("ts_ns")
    return rows.join_asof(made, on="ts_ns", by=keys, check_sortedness=False).select("stream_id", "line").drop_nulls()


def _move_to_selected(lines: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the Created lines, with the time of the first line that takes their queue where that is before them."""
    is_selected = (pl.col("layer") == "aql") & (pl.col("name") == QUEUE_SELECTED)
    rows = events.select("event", "process", "layer", "name", shown_ns="ts_ns").filter(is_selected)
    keys = ["process", "swq"]
    # Before a Created line a log does not tell whether an address is a queue's.
    named = pivot_args(args, rows["event"], ["swq", "queue"]).select("event", swq=pl.coalesce("swq", "queue"))
    rows = rows.join(named, on="event").drop_nulls(keys).sort("shown_ns")
    made = lines.select("line", "ts_ns", *keys).drop_nulls().sort("ts_ns")
    times: dict[str, Any] = {"left_on": "shown_ns", "right_on": "ts_ns", "by": keys, "check_sortedness": False}
    early = rows.join(rows.join_asof(made, **times).drop_nulls("line"), on="event", how="anti")
    early = early.join_asof(made, strategy="forward", **times).group_by("line").agg(pl.col("shown_ns").min())
    moved = lines.join(early, on="line", how="left", maintain_order="left")
    return moved.with_columns(pl.min_horizontal("ts_ns", "shown_ns")).drop("shown_ns")


def _pair_in_order(
    lines: pl.DataFrame, packets: pl.DataFrame, events: pl.DataFrame, claims: pl.DataFrame, found: pl.DataFrame
) -> pl.DataFrame:
    """Return line and ring where one queue alone was left when the first packet of a ring was printed.

    That holds for a log from the beginning of its process on, as long as no queue of it ends. Rings and queues of which
    streams tell different things say that something is not as thought.
    """
    named = lines.join(found.select("line", found="ring"), on="line", how="left")
    taken = named.select("process", ring=pl.coalesce("ring", "found")).drop_nulls()
    place = pl.int_range(pl.len()).over("process").alias("place")
    left = named.filter(pl.all_horizontal(pl.col("ring", "found").is_null())).sort("ts_ns").with_columns(place)
    keys = ["process", "ring"]
    times = pl.col("ts_ns").min().alias("first_ns"), pl.col("ts_ns").max().alias("last_ns")
    free = packets.group_by(keys).agg(times).join(taken, on=keys, how="anti").sort("first_ns").with_columns(place)
    made = left.select("process", "ts_ns", made=pl.col("place") + 1)
    free = free.join_asof(made, left_on="first_ns", right_on="ts_ns", by="process", check_sortedness=False)
    made_before = pl.col("made").fill_null(0)
    possible = (made_before > pl.col("place")).all().over("process")
    alone = (made_before == pl.col("place") + 1).cast(pl.Int8).cum_min().over("process") == 1
    pairs = free.filter(possible & alone).join(
        left.select("line", "process", "place", at="ts_ns"), on=["process", "place"]
    )
    pairs = pairs.join(_list_spans(events), on="process")
    whole = (pl.col("begun_ns") <= pl.col("at")) & (pl.col("ended_ns") > pl.col("last_ns")).fill_null(value=True)
    pairs = pairs.filter(whole).select(_PAIR)
    return pairs.join(claims, on="line", how="anti").join(claims, on=keys, how="anti")


def _list_spans(events: pl.DataFrame) -> pl.DataFrame:
    """Return process, begun_ns, ended_ns (of its first queue to end) of the processes whose beginning the log has."""
    rows = events.select("process", "layer", "name", "ts_ns").filter(pl.col("layer").is_in(["aql", "other"]))
    begun = rows.filter(pl.col("name").is_in(BEGINNINGS)).group_by("process").agg(begun_ns=pl.col("ts_ns").min())
    ended = rows.filter(pl.col("name") == QUEUE_DELETED).group_by("process").agg(ended_ns=pl.col("ts_ns").min())
    return begun.join(ended, on="process", how="left")
