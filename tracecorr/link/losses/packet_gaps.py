"""Packet gaps: places of the log at which lines of packets are missing, as the indexes of their queues tell."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.intervals import pair_spans
from tracecorr.clock.rows import number_rows
from tracecorr.link.losses.lossy_files import add_shares
from tracecorr.model.kinds import GRAPH_CALL, PACKET_KINDS, QUEUE_CREATED, QUEUE_DELETED

# Behind one of these a ring is that of another queue.
_MARKS = (QUEUE_CREATED, QUEUE_DELETED)
# Processes that write to one log may have queues of one address.
_RING = ["file", "process", "ring"]
_QUEUE = [*_RING, "life"]
_GAP = {
    "file": pl.UInt16, "queue": pl.Int64, "low": pl.Int64, "high": pl.Int64, "missing": pl.Int64, "printed": pl.Int64,
    "covered": pl.Float64,
}  # fmt: skip
_GRAPH = {"file": pl.UInt16, "low": pl.Int64, "high": pl.Int64, "from_ns": pl.Int64, "to_ns": pl.Int64}


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
    number, first = number_rows(rows, _QUEUE)
    queues = rows.select("packet_index", number=pl.Series(number)).group_by("number", maintain_order=True).agg(
        printed=pl.len().cast(pl.Int64), missing=index.max() - index.min() + 1 - pl.len()
    )  # fmt: skip
    queues = pl.concat([rows.select(_QUEUE)[first], queues.drop("number")], how="horizontal")
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


def list_silent_graphs(events: pl.DataFrame) -> pl.DataFrame:
    """Return file, low, high (bytes), from_ns, to_ns of graph launches whose packets the level of the log may not show.

    HIP 7.1.0 prints commands and the dispatches of graphs at level 5, all other packets at level 4 (measured): so may
    do what shows packets and no command.

    Args:
        events: rows with file, offset, end_offset, ts_ns, dur_ns, layer, name, source.
    """
    rows = events.select("file", "offset", "end_offset", "ts_ns", "dur_ns", "layer", "name", "source")
    is_graph = (pl.col("layer") == "hip") & pl.col("name").cat.starts_with(GRAPH_CALL)
    graphs = rows.filter((pl.col("source") == "amd_log") & is_graph)
    if graphs.is_empty():
        return pl.DataFrame(schema=_GRAPH)
    told = events.select("file", "layer").filter(pl.col("layer") == "command")["file"].unique()
    end = pl.col("dur_ns").fill_null(0)
    return graphs.filter(~pl.col("file").is_in(told.implode())).select(
        "file", low="offset", high=pl.coalesce("end_offset", "offset"), from_ns="ts_ns", to_ns=pl.col("ts_ns") + end
    )


def drop_silent(gaps: pl.DataFrame, graphs: pl.DataFrame, sides: tuple[str, str] = ("low", "high")) -> pl.DataFrame:
    """Return the gaps that no graph launch of `list_silent_graphs` lies in.

    Args:
        gaps: rows with both `sides`, and perhaps file.
        graphs: as `list_silent_graphs` returns them.
        sides: columns of both, where a gap and a launch begin and end.
    """
    spans = {"low": pl.col(sides[0]), "high": pl.col(sides[1])}
    file = pl.col("file") if "file" in gaps.columns else pl.lit(0, pl.UInt16).alias("file")
    silent = pair_spans(gaps.select(file, **spans), graphs.select(file, **spans), ["file"])[0]
    kept = np.ones(gaps.height, dtype=np.bool_)
    kept[silent] = False
    return gaps.filter(pl.Series(kept))


def _list_packets(events: pl.DataFrame) -> pl.DataFrame:
    """Return file, process, ring, life, offset, packet_index of the packets that name a ring."""
    columns = ("file", "process", "ring", "offset", "packet_index", "layer", "name", "source", "clock")
    rows = events.select(columns).filter(
        (pl.col("layer") == "aql") & pl.col("ring").is_not_null() & (pl.col("source") == "amd_log")
        & (pl.col("clock") != "mono_raw")
    )  # fmt: skip
    is_packet, is_mark = pl.col("name").is_in(PACKET_KINDS), pl.col("name").is_in(_MARKS)
    life = is_mark.cum_sum().over(_RING) if _are_reused(rows, is_packet, is_mark) else pl.lit(0, pl.UInt32)
    packets = rows.with_columns(life=life).filter(is_packet)
    return packets.select(*_QUEUE, "offset", "packet_index")


def _are_reused(rows: pl.DataFrame, is_packet: pl.Expr, is_mark: pl.Expr) -> bool:
    """Tell whether any ring has packets on both sides of a mark: to number the lives of all rings takes long."""
    marks = rows.select(is_mark.arg_true()).to_series().to_numpy()
    if not len(marks):
        return False
    ring, first = number_rows(rows, _RING)
    packets = rows.select(is_packet.arg_true()).to_series().to_numpy()
    low, high = np.full(len(first), len(rows)), np.full(len(first), -1)
    high[ring[packets]] = packets
    low[ring[packets[::-1]]] = packets[::-1]
    return bool(((low[ring[marks]] < marks) & (marks < high[ring[marks]])).any())


def add_packet_gaps(losses: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return `losses` with the files in which packet indexes leave numbers out, and the share of packets that lack.

    No call may be torn by that: all lines of one thread, or of one kind, may be what is missing.

    Args:
        losses: as `lossy_files.find_losses` returns them.
        gaps: as `list_packet_gaps` returns them.
    """
    files = gaps.group_by("file").agg(pl.col("missing").sum(), pl.col("printed").first())
    shares = files.select("file", lost=pl.col("missing") / (pl.col("missing") + pl.col("printed")))
    return add_shares(losses, shares)
