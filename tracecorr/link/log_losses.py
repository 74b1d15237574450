"""Losses of the log: when lines are missing, and how many at least. The log itself never tells."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.link.false_calls import list_half_calls
from tracecorr.model import schema
from tracecorr.model.kinds import Flag

_SPAN = {"from_ns": pl.Int64, "to_ns": pl.Int64, "count": pl.Int64}


def list_log_losses(torn: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Return the spans in which lines of the log are missing, as rows of `losses`; a complete log has none.

    Signs are packet indexes that no line shows, and calls of which one line is there. `count` is what is missing at
    least: one line per packet or call. Spans that overlap are one.

    Args:
        torn: as `list_torn_calls` returns them.
        launches: the table.
    """
    spans = pl.concat([_list_packet_gaps(launches), torn]).drop_nulls(["from_ns", "to_ns"]).sort("from_ns")
    begins = pl.col("from_ns") > pl.col("to_ns").cum_max().shift(1)
    merged = spans.group_by(begins.fill_null(True).cum_sum().alias("span"), maintain_order=True).agg(
        pl.col("from_ns").min(), pl.col("to_ns").max(), pl.col("count").sum()
    )
    return schema.LOSSES.conform(merged.select("from_ns", "to_ns", "count", source=pl.lit("amd_log")))


def list_torn_calls(events: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return from_ns, to_ns, count of the missing lines of calls: between the half that is there and its neighbour.

    Args:
        events: placed events as the reader gave them, with `thread`.
        losses: files of the log that lost lines (`false_calls.find_losses`).
    """
    if losses.is_empty():
        return pl.DataFrame(schema=_SPAN)
    line, mine = ["file", "thread"], (pl.col("layer") == "hip") & pl.col("file").is_in(losses["file"].implode())
    rows = events.select(*line, "offset", "name", "layer", "source", "flags", "ts_ns").filter(mine)
    calls = rows.drop_nulls("thread").with_columns(pl.col("flags").fill_null(0)).sort("offset")
    halves, neighbours = list_half_calls(calls), calls.select(*line, "offset", other="ts_ns")
    is_exit = pl.col("flags") & int(Flag.EXIT_ONLY) > 0
    alone: dict[str, Any] = {"on": "offset", "by": line, "allow_exact_matches": False, "check_sortedness": False}
    sides = [
        halves.filter(is_exit).join_asof(neighbours, strategy="backward", **alone),
        halves.filter(~is_exit).join_asof(neighbours, strategy="forward", **alone),
    ]
    at, other = pl.col("ts_ns"), pl.col("other").fill_null(pl.col("ts_ns"))
    return pl.concat(sides).select(
        from_ns=pl.min_horizontal(at, other), to_ns=pl.max_horizontal(at, other), count=pl.lit(1, pl.Int64)
    )


def _list_packet_gaps(launches: pl.DataFrame) -> pl.DataFrame:
    """Return from_ns, to_ns, count of the packet indexes that a queue's lines leave out."""
    rows = launches.select("queue", "packet_index", "packet_ns").drop_nulls()
    index, at = pl.col("packet_index"), pl.col("packet_ns")
    # Most logs are complete, and to count is cheaper than to sort.
    gappy = rows.group_by("queue").agg(missing=index.max() - index.min() + 1 - pl.len())
    gappy = gappy.filter(pl.col("missing") > 0).select("queue")
    ordered = rows.join(gappy, on="queue", how="semi").sort("queue", "packet_index")
    steps = ordered.select(
        "queue", from_ns=pl.min_horizontal(at, at.shift(1)), to_ns=pl.max_horizontal(at, at.shift(1)),
        count=index - index.shift(1) - 1, same=pl.col("queue") == pl.col("queue").shift(1),
    )  # fmt: skip
    return steps.filter(pl.col("same") & (pl.col("count") > 0)).select(*_SPAN).cast(_SPAN)  # type: ignore[arg-type]
