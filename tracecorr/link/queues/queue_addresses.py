"""Queues that packets name by their address (SWq): HIP 5.2 prints it as `HWq` of all packets, 5.7 of BarrierValue."""

from __future__ import annotations

import polars as pl

from tracecorr.align.rows import IS_PACKET, attach_args, attach_columns
from tracecorr.link.event_args import pivot_args
from tracecorr.model.kinds import BEGINNINGS, QUEUE_CREATED, QUEUE_DELETED

_QUEUE, _RING = ["process", "swq"], ["process", "ring"]
_COLUMNS = ("process", "ring", "stamp_ns", "file", "offset", "layer", "name", "source")
_IS_LOGGED = IS_PACKET & (pl.col("source") == "amd_log")


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
    """Return event, line: the packets that still print the address of a queue, and the Created line of that queue.

    Args:
        events: placed events with `process`, `ring`.
        args: args by event, with `swq` of Created lines.
    """
    lives = _list_lives(events, "event")
    lives = lives.join(pivot_args(args, lives["event"], ["swq"]), on="event").rename({"event": "line"})
    if lives.is_empty():
        return lives.select("line", event="line")
    packets = events.select("event", *_COLUMNS).filter(_IS_LOGGED).drop_nulls(_RING)
    return _find_queues(packets, lives.drop_nulls("swq")).select("line", "event")


def _list_lives(records: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Return the lines that begin or end a queue and name no ring."""
    is_life = (
        (pl.col("layer") == "aql")
        & pl.col("name").is_in([QUEUE_CREATED, QUEUE_DELETED])
        & (pl.col("source") == "amd_log")
    )
    rows = records.select(*more, *_COLUMNS).filter(is_life & pl.col("ring").is_null())
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
