"""Store losses: dispatches before which their thread stored to a doorbell for a packet whose line the log lacks."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.joins import join_nearest, sort_rows

# Where more dispatches show such a store, the log does not print all packets.
_MOST_RUNG = 0.5


def list_rung_before(launches: pl.DataFrame, commands: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return the dispatches (event, file, thread, offset) before which a packet of their thread lacks.

    A dispatch is printed before its doorbell store, and a thread stores nothing between the line of a command and that
    of its first packet: what it stored there is of a packet whose line was lost, and the lines between the two
    packets, which tell the command of the second one, may be lost as well. A barrier is printed behind its store, so
    nothing is known of logs that print none: their level may leave barriers out. Packets that print their index need no
    stores to show what lacks.

    Args:
        launches: event, file, thread, offset, layer, name, ts_ns, packet_index, index_counted.
        commands: all rows of layer `command`: file, thread, offset, ts_ns.
        stores: doorbell stores: thread, ts_ns, err_lo_ns, err_hi_ns (null = the clock is not known).
    """
    place = ("file", "thread", "offset", "ts_ns")
    stored = stores.select("thread", "ts_ns", "err_lo_ns", "err_hi_ns").drop_nulls()
    rings = pl.col("thread").is_in(stored["thread"].unique().implode())
    is_dispatch = (pl.col("name") == "dispatch").alias("is_dispatch")
    prints = pl.col("packet_index").is_not_null() & ~pl.col("index_counted")
    packets = launches.filter(pl.col("layer") == "aql").select("event", *place, is_dispatch, prints.alias("prints"))
    barriers = packets.filter(~pl.col("is_dispatch"))["file"].unique()
    packets = packets.filter(rings & pl.col("file").is_in(barriers.implode()))
    if packets["prints"].all():
        return packets.clear().select("event", "file", "thread", "offset")
    # A command's line has no event here.
    lines = pl.concat([packets, commands.filter(rings).select(place)], how="diagonal")
    lines = sort_rows(lines, "file", "thread", "offset")
    since, before = (pl.col(name).shift(1).over("file", "thread") for name in ("ts_ns", "is_dispatch"))
    follows = since.is_not_null() & before.is_null()
    is_asked = pl.col("is_dispatch") & ~pl.col("prints")
    asked = lines.with_columns(since=since + LOG_STEP_NS, follows=follows).filter(is_asked)
    rung = _select_rung(asked.filter("follows"), stored)
    shares = rung.group_by("file").agg(rung=pl.len()).join(asked.group_by("file").agg(pl.len()), on="file")
    few = shares.filter(pl.col("rung") < _MOST_RUNG * pl.col("len"))
    return rung.join(few, on="file", how="semi").select("event", "file", "thread", "offset")


def _select_rung(asked: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return the rows between whose `since` and `ts_ns` their thread surely stored to a doorbell."""
    early, late = pl.col("err_lo_ns").cast(pl.Int64), pl.col("err_hi_ns").cast(pl.Int64)
    ends = stores.select("thread", low=pl.col("ts_ns") - early, high=pl.col("ts_ns") + late)
    found = join_nearest(sort_rows(asked, "ts_ns"), sort_rows(ends, "high"), ["thread"], "ts_ns", "high", exact=False)
    return found.filter(pl.col("low") > pl.col("since"))


def drop_rung(pairs: pl.DataFrame, rung: pl.DataFrame) -> pl.DataFrame:
    """Leave out the packets from those of `list_rung_before` on that have a command whose line stands before these.

    Args:
        pairs: packets and copies with file, thread, offset and the `command_offset` of their command.
        rung: as `list_rung_before` returns them.
    """
    if rung.is_empty():
        return pairs
    lost = sort_rows(rung.select("file", "thread", "offset", lacks="offset"), "offset")
    behind = join_nearest(pairs, lost, ["file", "thread"], "offset", "offset")
    return behind.filter((pl.col("lacks") <= pl.col("command_offset")).fill_null(value=True)).drop("lacks")
