"""Losses of the log: when lines are missing, and how many at least. The log itself never tells."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.link.losses.packet_gaps import drop_silent
from tracecorr.model import schema

_SPAN = {"from_ns": pl.Int64, "to_ns": pl.Int64, "count": pl.Int64}


def list_log_losses(torn: pl.DataFrame, launches: pl.DataFrame, silent: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the spans in which lines of the log are missing, as rows of `losses`; a complete log has none.

    Signs are packet indexes that no line shows, and calls of which one line is there. `count` is what is missing at
    least: one line per packet or call. Spans that overlap are one.

    Args:
        torn: as `list_torn_calls` returns them.
        launches: the table.
        silent: graph launches whose packets the level of the log may not show (`packet_gaps.list_silent_graphs`).
    """
    gaps = _list_packet_gaps(launches)
    if silent is not None:
        gaps = drop_silent(gaps, silent, ("from_ns", "to_ns"))
    spans = pl.concat([gaps, torn]).drop_nulls(["from_ns", "to_ns"]).sort("from_ns")
    begins = pl.col("from_ns") > pl.col("to_ns").cum_max().shift(1)
    merged = spans.group_by(begins.fill_null(True).cum_sum().alias("span"), maintain_order=True).agg(
        pl.col("from_ns").min(), pl.col("to_ns").max(), pl.col("count").sum()
    )
    return schema.LOSSES.conform(merged.select("from_ns", "to_ns", "count", source=pl.lit("amd_log")))


def list_untold_losses(spans: pl.DataFrame, losses: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return, as rows of `losses`, the whole time of files that lack lines while no span tells when; without a count.

    Args:
        spans: as `list_log_losses` returns them.
        losses: files that lack lines, and the share that lacks (0 = they only may).
        events: file, ts_ns, layer.
    """
    lossy = losses.filter(pl.col("lost") > 0)["file"]
    if lossy.is_empty():
        return spans.clear()
    # A line tells when the GPU worked before it.
    is_printed = pl.col("file").is_in(lossy.implode()) & (pl.col("layer") != "gpu")
    rows = events.select("file", "ts_ns", "layer").filter(is_printed).drop_nulls("ts_ns")
    files = rows.group_by("file").agg(from_ns=pl.col("ts_ns").min(), to_ns=pl.col("ts_ns").max()).sort("from_ns")
    told = files.join_where(
        spans.select(since="from_ns", until="to_ns"),
        pl.col("since") <= pl.col("to_ns"), pl.col("until") >= pl.col("from_ns"),
    )  # fmt: skip
    untold = files.join(told, on="file", how="anti", maintain_order="left")
    return schema.LOSSES.conform(untold.select("from_ns", "to_ns", source=pl.lit("amd_log")))


def list_torn_calls(events: pl.DataFrame, calls: HipCalls, halves: pl.DataFrame) -> pl.DataFrame:
    """Return from_ns, to_ns, count of the missing lines of calls: between the half that is there and its neighbour.

    Args:
        events: placed events as the reader gave them.
        calls: those of `events`.
        halves: calls that lack one of their lines (`lossy_files.list_half_calls`).
    """
    if halves.is_empty():
        return pl.DataFrame(schema=_SPAN)
    rows, offset, (thread, first) = calls.rows["row"], calls.rows["offset"], calls.threads
    half = np.searchsorted(rows.to_numpy(), halves["row"].to_numpy())
    before, behind = native.find_beside(thread, len(first), offset.to_arrow(), thread[half], offset.to_numpy()[half])
    # The line before or behind each half, where its thread has one.
    other = np.where(halves["is_exit"].to_numpy(), before, behind)
    other = np.where(other < 0, half, other)
    one, two = (events["ts_ns"].gather(rows.gather(places)) for places in (half, other))
    return pl.DataFrame({"one": one, "two": two}).select(
        from_ns=pl.min_horizontal("one", "two"), to_ns=pl.max_horizontal("one", "two"), count=pl.lit(1, pl.Int64)
    )


def _list_packet_gaps(launches: pl.DataFrame) -> pl.DataFrame:
    """Return from_ns, to_ns, count of the packet indexes that a queue's lines leave out.

    Packets that show no index, as barriers before ROCm 7.0 do, have some of those.
    """
    rows = launches.select("queue", "packet_index", "packet_ns").drop_nulls(["queue", "packet_ns"])
    index, at = pl.col("packet_index"), pl.col("packet_ns")
    # Most logs are complete, and to count is cheaper than to sort.
    gappy = rows.group_by("queue").agg(missing=index.max() - index.min() + 1 - pl.len())
    gappy = gappy.filter(pl.col("missing") > 0).select("queue")
    printed = rows.join(gappy, on="queue", how="semi").sort("queue", "packet_ns")
    bare = printed.with_columns(bare=index.is_null().cum_sum().cast(pl.Int64)).drop_nulls("packet_index")
    ordered = bare.sort("queue", "packet_index")
    shown = (pl.col("bare") - pl.col("bare").shift(1)).abs()
    steps = ordered.select(
        "queue", from_ns=pl.min_horizontal(at, at.shift(1)), to_ns=pl.max_horizontal(at, at.shift(1)),
        count=index - index.shift(1) - 1 - shown, same=pl.col("queue") == pl.col("queue").shift(1),
    )  # fmt: skip
    return steps.filter(pl.col("same") & (pl.col("count") > 0)).select(*_SPAN).cast(_SPAN)  # type: ignore[arg-type]
