"""Packet gaps: places of the log at which lines of packets are missing, as the indexes of their queues tell."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import PACKET_KINDS

# Behind one of these a ring is that of another queue.
_MARKS = ("queue_created", "queue_deleted")
# Processes that write to one log may have queues of one address.
_QUEUE = ["file", "process", "ring", "life"]
_GAP = {
    "file": pl.UInt16, "queue": pl.Int64, "low": pl.Int64, "high": pl.Int64, "missing": pl.Int64, "printed": pl.Int64,
    "covered": pl.Float64,
}  # fmt: skip


def list_packet_gaps(events: pl.DataFrame) -> pl.DataFrame:
    """Return where the packet indexes of a queue leave numbers out: those lines were lost.

    Packets that show no index, as barriers before ROCm 7.0 do, have some of those.

    Args:
        events: rows with file, process, offset, ring, packet_index, layer, name, source, clock.

    Returns: file, queue (a number), low, high (bytes: between which lines of the log), missing (so many lines at
        least), printed (lines of all queues of the file), covered (the share of the log between the queue's lines that
        such gaps take up).
    """
    rows = _list_packets(events)
    index, offset, queue = pl.col("packet_index"), pl.col("offset"), pl.col("queue")
    # Most logs are complete, and to count is cheaper than to sort.
    queues = rows.group_by(_QUEUE).agg(
        printed=pl.len().cast(pl.Int64), missing=index.max() - index.min() + 1 - pl.len()
    )
    # Also queues that lack nothing tell how much of the log does.
    queues = queues.with_columns(pl.col("printed").sum().over("file"))
    gappy = queues.filter(pl.col("missing") > 0).drop("missing").with_row_index("queue")
    if gappy.is_empty():
        return pl.DataFrame(schema=_GAP)
    lines = rows.join(gappy, on=_QUEUE, nulls_equal=True).sort("queue", "offset")
    lines = lines.with_columns(bare=index.is_null().cum_sum().cast(pl.Int64)).drop_nulls("packet_index")
    lines = lines.sort("queue", "packet_index")
    shown = (pl.col("bare") - pl.col("bare").shift(1)).abs()
    steps = lines.select(
        "file", queue, low=pl.min_horizontal(offset, offset.shift(1)), high=pl.max_horizontal(offset, offset.shift(1)),
        missing=index - index.shift(1) - 1 - shown, printed="printed", same=queue == queue.shift(1),
    )  # fmt: skip
    is_gap, length = pl.col("missing") > 0, pl.col("high") - pl.col("low")
    steps = steps.filter("same").with_columns(
        covered=(length.filter(is_gap).sum() / length.sum().clip(lower_bound=1)).over("queue")
    )
    return steps.filter(is_gap).select(list(_GAP)).cast(_GAP)  # type: ignore[arg-type]


def _list_packets(events: pl.DataFrame) -> pl.DataFrame:
    """Return file, process, ring, life, offset, packet_index of the packets that name a ring."""
    columns = ("file", "process", "ring", "offset", "packet_index", "layer", "name", "source", "clock")
    rows = events.select(columns).filter(
        (pl.col("layer") == "aql") & pl.col("ring").is_not_null() & (pl.col("source") == "amd_log")
        & (pl.col("clock") != "mono_raw")
    )  # fmt: skip
    is_packet, is_mark = pl.col("name").is_in(PACKET_KINDS), pl.col("name").is_in(_MARKS)
    life = is_mark.cum_sum().over("file", "process", "ring")
    return rows.with_columns(life=life).filter(is_packet).select(*_QUEUE, "offset", "packet_index")


def add_packet_gaps(losses: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return `losses` with the files in which packet indexes leave numbers out, and the share of packets that lack.

    No call may be torn by that: all lines of one thread, or of one kind, may be what is missing.

    Args:
        losses: as `false_calls.find_losses` returns them.
        gaps: as `list_packet_gaps` returns them.
    """
    files = gaps.group_by("file").agg(pl.col("missing").sum(), pl.col("printed").first())
    shares = files.select("file", lost=pl.col("missing") / (pl.col("missing") + pl.col("printed")))
    return pl.concat([losses, shares]).group_by("file", maintain_order=True).agg(pl.col("lost").max())
