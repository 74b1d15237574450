"""Queues that are named by their address (SWq).

Up to ROCm 6.1 lines about a queue print it, HIP 5.2 prints it as `HWq` of all packets, and 5.7 of BarrierValue.
"""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import IS_PACKET, attach_args, attach_columns
from tracecorr.link.event_args import pivot_args
from tracecorr.model.kinds import BEGINNINGS, QUEUE_CREATED, QUEUE_DELETED

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
