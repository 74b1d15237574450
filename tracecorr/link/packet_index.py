"""Packet indexes: printed ones beyond 32 bits, and those that a release does not print."""

from __future__ import annotations

import polars as pl

from tracecorr.align.rows import attach_columns
from tracecorr.link.false_calls import find_losses
from tracecorr.model.kinds import PACKET_KINDS

_WRAP = 2**32
_COLUMNS = ("process", "ring", "packet_index", "stamp_ns", "file", "offset", "layer", "name", "source", "clock")
_RING = ("process", "ring", "generation")


def complete_indexes(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with whole packet indexes, and the column `index_counted`.

    The log prints the lower 32 bits of wptr: from one packet of a ring to the next the index grows, so a fall by
    more than half of them is a wrap. Up to ROCm 6.4 barriers (up to 6.2 all packets) print none: the packets of a
    ring are counted, where the printed indexes around them or the queue's creation leave one count.

    Args:
        records: part events with `source` and `process`.
    """
    is_packet = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS)
    mine = is_packet & (pl.col("source") == "amd_log") & (pl.col("clock") != "mono_raw")
    rows = records.select(_COLUMNS).with_row_index("_row").filter(pl.col("layer") == "aql")
    lines = rows.filter(mine & pl.col("ring").is_not_null())
    if _are_whole(lines["packet_index"]):
        return records.with_columns(index_counted=pl.lit(False))
    lines = _count(_unwrap(_add_generations(lines, rows)), find_losses(records)["file"])
    found = attach_columns(records, lines.select("_row", "counted", whole="packet_index"), "_row")
    return found.with_columns(
        packet_index=pl.when(pl.col("counted").is_not_null()).then("whole").otherwise("packet_index"),
        index_counted=pl.col("counted").fill_null(False),
    ).drop("counted", "whole")


def _are_whole(printed: pl.Series) -> bool:
    """Tell whether all packets print their index, and none of them can be behind a wrap."""
    span = int(printed.max() or 0) - int(printed.min() or 0)  # type: ignore[arg-type]
    return printed.null_count() == 0 and span <= _WRAP // 2


def _add_generations(lines: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Return the packets in the order of their times with `generation`: how often their ring was made before.

    Up to ROCm 6.1 the Created lines do not name the ring; where they are as many as the process has rings, the log
    shows them all. Where they are more, a ring may have been made again by each that comes after its first packet.
    """
    shape = ("_row", "process", "ring", "packet_index", "stamp_ns", "file", "offset")
    created = records.filter((pl.col("layer") == "aql") & (pl.col("name") == "queue_created"))
    made = created.drop_nulls("ring").with_columns(_row=pl.lit(None, pl.UInt32), packet_index=pl.lit(None, pl.Int64))
    both = pl.concat([lines.select(shape), made.select(shape)]).sort("stamp_ns", "file", "offset")
    both = both.with_columns(generation=pl.col("_row").is_null().cum_sum().over("process", "ring"))
    packets = both.drop_nulls("_row")
    unnamed = created.filter(pl.col("ring").is_null()).select("process", "stamp_ns").drop_nulls().sort("stamp_ns")
    unnamed = unnamed.with_columns(creations=pl.int_range(1, pl.len() + 1).over("process"))
    packets = packets.join_asof(unnamed, on="stamp_ns", by="process", check_sortedness=False)
    since = pl.col("creations") - pl.col("creations").first().over(_RING)
    shown = pl.col("creations").max().over("process") >= pl.col("ring").n_unique().over("process")
    all_new = pl.col("creations").max().over("process") == pl.col("ring").n_unique().over("process")
    made_once = shown & (all_new | (since == 0))
    return packets.with_columns(made=(pl.col("generation") > 0) | made_once.fill_null(False)).drop("creations")


def _unwrap(lines: pl.DataFrame) -> pl.DataFrame:
    """Add 2**32 for each fall of a ring's index by more than half of it; a fall by less is another queue."""
    seen = pl.col("packet_index")
    step = (seen - seen.forward_fill().shift(1)).over(_RING)
    wraps = (step < -_WRAP // 2).cast(pl.Int64) - (step > _WRAP // 2).cast(pl.Int64)
    lines = lines.with_columns(wraps=wraps.fill_null(0))
    return lines.with_columns(packet_index=seen + _WRAP * pl.col("wraps").cum_sum().over(_RING))


def _count(lines: pl.DataFrame, lossy: pl.Series) -> pl.DataFrame:
    """Fill the indexes of packets without one.

    Between two printed indexes as many packets must lie as there are numbers; before the first printed one, and on
    rings that print none, the count starts at 0. In files that lost lines (`lossy`) it needs a printed index behind.
    """
    lines = lines.with_columns(nth=pl.int_range(pl.len()).over(_RING), printed=pl.col("packet_index").is_not_null())
    lead = pl.col("packet_index") - pl.col("nth")
    lines = lines.with_columns(before=lead.forward_fill().over(_RING), after=lead.backward_fill().over(_RING))
    # Nothing printed before: index 0 was the first one.
    first = pl.coalesce("before", pl.when("made").then(0))
    unproven = pl.col("after").is_null() & ~pl.col("file").is_in(lossy.implode())
    agreed = pl.when(unproven | (first == pl.col("after"))).then(first)
    lines = lines.with_columns(agreed=agreed)
    return lines.with_columns(
        packet_index=pl.coalesce("packet_index", pl.col("agreed") + pl.col("nth")),
        counted=~pl.col("printed") & pl.col("agreed").is_not_null(),
    )
