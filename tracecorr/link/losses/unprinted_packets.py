"""Unprinted packets: logs that lack the line of a packet, as the doorbell stores of its thread show."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.joins import join_nearest, sort_rows
from tracecorr.clock.rows import span_groups
from tracecorr.model.kinds import PACKET_KINDS

_COLUMNS = ("file", "thread", "offset", "ts_ns", "err_lo_ns", "err_hi_ns", "layer", "name", "source", "clock", "ring")
# Lines of ROCr tell of packets that HIP does not submit, and the GPU has times of its own.
_IS_LINE = (pl.col("source") == "amd_log") & (pl.col("layer") != "gpu") & (pl.col("clock") != "mono_raw")
# Where more packets are followed by stores of others, the log does not print all packets.
_MOST_FOLLOWED = 0.1


def list_unprinted(events: pl.DataFrame, graphs: pl.DataFrame) -> pl.Series:
    """Return the files (file) in which a thread stored to more doorbells between two packets than these explain.

    A dispatch is printed before its store, a barrier behind it: between the lines of two packets that follow each other
    lie the store of the first one, if that is a dispatch, and that of the second one, if that is a barrier. What else
    was stored there is of a packet whose line was lost. Logs that print no barriers tell nothing: their level may leave
    them out. Nor do stores to a ring of which the log has no packet: a program may use ROCr's queues beside HIP.

    Args:
        events: placed rows with file, thread, offset, ts_ns, err_lo_ns, err_hi_ns, layer, name, source, clock,
            ring (null = not known).
        graphs: as `packet_gaps.list_silent_graphs` returns them; files with any print not all packets.
    """
    is_store = (pl.col("layer") == "doorbell") & (pl.col("source") == "ftrace")
    stores = events.select(_COLUMNS).filter(is_store).drop_nulls(["thread", "ts_ns", "err_lo_ns", "err_hi_ns"])
    if stores.is_empty():
        return events["file"].clear()
    packets = _list_packets(events, graphs["file"].unique())
    steps = _list_steps(events, packets)
    own = pl.col("ring").is_null() | pl.col("ring").is_in(packets["ring"].unique().implode())
    begun = pl.col("ts_ns") - pl.col("err_lo_ns").cast(pl.Int64)
    asked = stores.filter(own).select("thread", at=begun, latest=pl.col("ts_ns") + pl.col("err_hi_ns").cast(pl.Int64))
    # A trace may hold a record twice.
    asked = sort_rows(asked.unique(), "at")
    found = join_nearest(asked, sort_rows(steps, "since"), ["thread"], "at", "since")
    inside = found.filter(pl.col("latest") <= pl.col("until"))
    counts = inside.group_by("file", "offset").agg(pl.col("explained").first(), stored=pl.len())
    followed = counts.filter(pl.col("stored") > pl.col("explained")).group_by("file").agg(followed=pl.len())
    few = followed.join(steps.group_by("file").len(), on="file")
    return few.filter(pl.col("followed") < _MOST_FOLLOWED * pl.col("len"))["file"]


def _list_packets(events: pl.DataFrame, silent: pl.Series) -> pl.DataFrame:
    """Return the packets that HIP submitted, with `rings_late`: whether their doorbells are stored behind their lines.

    Args:
        events: as for `list_unprinted`.
        silent: files that are not asked.
    """
    is_packet = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS)
    packets = events.select(_COLUMNS).filter(is_packet & _IS_LINE).drop_nulls(["thread", "ts_ns"])
    packets = packets.with_columns(rings_late=pl.col("name") == "dispatch")
    barriers = packets.filter(~pl.col("rings_late"))["file"].unique()
    return packets.filter(pl.col("file").is_in(barriers.implode()) & ~pl.col("file").is_in(silent.implode()))


def _list_steps(events: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return file, thread, offset, since, until, explained: from each packet of a thread to its next one, or to the
    thread's last line, and how many stores the packets explain.

    Args:
        events: as for `list_unprinted`.
        packets: as `_list_packets` returns them.
    """
    asked = events.select(_IS_LINE & pl.col("file").is_in(packets["file"].unique().implode())).to_series()
    lines = events.select("file", "thread", "ts_ns").filter(asked).drop_nulls()
    ends = span_groups(lines, ["file", "thread"], "ts_ns", "ts_ns").select("file", "thread", end="last")
    after = pl.col("ts_ns", "rings_late").shift(-1).over("file", "thread").name.prefix("next_")
    steps = sort_rows(packets, "file", "thread", "offset").with_columns(after).join(ends, on=["file", "thread"])
    rings_early = ~pl.col("next_rings_late").fill_null(value=True)
    explained = pl.col("rings_late").cast(pl.Int64) + rings_early.cast(pl.Int64)
    since, until = pl.col("ts_ns") + LOG_STEP_NS, pl.coalesce("next_ts_ns", "end")
    return steps.select("file", "thread", "offset", since=since, until=until, explained=explained)
