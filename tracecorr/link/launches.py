"""Launches: one row per packet or copy that HIP submits, with the time of each stage."""

from __future__ import annotations

import polars as pl

from tracecorr.align.causal_pairs import LOG_STEP_NS
from tracecorr.align.intervals import bracket_doorbells, list_moments
from tracecorr.link.doorbells import match_stores
from tracecorr.model import schema
from tracecorr.model.kinds import INFERRED, PACKET_KINDS, RECORDED

_PACKET_COLUMNS = [
    "rptr", "header", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "kernel_object",
    "kernarg", "engine",
]  # fmt: skip


def select_launches(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the log's packets and copies that HIP submits (ROCr's own packets are left out)."""
    name = pl.col("name").cast(pl.String)
    packet = (pl.col("layer") == "aql") & name.is_in(PACKET_KINDS)
    copy = (pl.col("layer") == "copy") & (name == "copy")
    internal = args.filter(pl.col("key").cast(pl.String) == "rocr").select("event")
    return events.filter(packet | copy).join(internal, on="event", how="anti", maintain_order="left")


def build_launches(events: pl.DataFrame, packets: pl.DataFrame, args: pl.DataFrame, sources: set[str]) -> pl.DataFrame:
    """Return the table `launches`.

    Args:
        events: linked events with `queue`, `stream_id`, `kernel_id`, `chain`, `parent`.
        packets: part packets.
        args: args by event.
        sources: `ftrace` in it says that a trace is there at all, `doorbell` that it holds stores,
            `unaligned` that its clock is not known, so that no store is matched.
    """
    base = select_launches(events, args)
    if base.is_empty():
        return schema.LAUNCHES.empty()
    log = events.filter(pl.col("source") == "amd_log")
    stores = events.filter((pl.col("layer") == "doorbell") & pl.lit("unaligned" not in sources))
    base = _add_intervals(base, log)
    fields = packets.select("file", "offset", "command_offset", *_PACKET_COLUMNS)
    joined = base.join(fields, on=["file", "offset"], how="left", maintain_order="left")
    joined = joined.join(match_stores(stores, base), on="event", how="left", maintain_order="left")
    joined = _add_command(_add_call(joined, events), log)
    times = events.select(doorbell_event="event", doorbell_ns="ts_ns")
    joined = joined.join(times, on="doorbell_event", how="left", maintain_order="left")
    return schema.LAUNCHES.conform(_select(joined, sources))


def _add_intervals(base: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Add the interval in which the log lets each packet's doorbell store lie."""
    packets = base.filter(pl.col("layer") == "aql").select("event", "thread", "name", at="ts_ns")
    monotonic = log.filter(pl.col("clock").cast(pl.String) != "mono_raw")
    moments = list_moments(monotonic, "ts_ns", pl.col("ts_ns") + pl.col("dur_ns"))
    intervals = bracket_doorbells(packets, moments, LOG_STEP_NS)
    return base.join(
        intervals.select("event", "doorbell_lo_ns", "doorbell_hi_ns"), on="event", how="left", maintain_order="left"
    )


def _add_call(joined: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    calls = events.filter(pl.col("layer") == "hip").select(
        call_event="event", call_ns="ts_ns", return_ns=pl.col("ts_ns") + pl.col("dur_ns")
    )
    return joined.join(calls, left_on="chain", right_on="call_event", how="left", maintain_order="left",
                       coalesce=False)  # fmt: skip


def _add_command(joined: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Add the command line of each packet, the stream that it names, and the command's completion line."""
    commands = log.filter(pl.col("layer") == "command")
    complete = pl.col("name").cast(pl.String) == "complete"
    lines = commands.filter(~complete).select(
        "file", command_offset="offset", command_event="event", enqueue_ns="ts_ns", command_stream="stream_id"
    )
    joined = joined.join(lines, on=["file", "command_offset"], how="left", maintain_order="left")
    ends = commands.filter(complete).select("process", "command", "ts_ns", complete_ns="ts_ns").sort("ts_ns")
    # Pointers are reused at once: the completion is the first one after the packet.
    found = (
        joined.select("event", "process", "command", "ts_ns")
        .drop_nulls("command")
        .sort("ts_ns")
        .join_asof(ends, on="ts_ns", by=["process", "command"], strategy="forward", check_sortedness=False)
    )
    return joined.join(found.select("event", "complete_ns"), on="event", how="left", maintain_order="left")


def _select(joined: pl.DataFrame, sources: set[str]) -> pl.DataFrame:
    is_packet = pl.col("layer") == "aql"
    seen = pl.col("doorbell_event").is_not_null()
    evidence = pl.when(seen).then(pl.lit(RECORDED)).when(is_packet).then(pl.lit(INFERRED))
    return joined.select(
        "event", pl.col("name").alias("kind"), "process", "thread", "gpu", "call_event", "command_event",
        "doorbell_event", "announce_event", "queue", pl.coalesce("command_stream", "stream_id").alias("stream"),
        pl.col("kernel_id").alias("kernel"), "packet_index", "call_ns", "enqueue_ns",
        pl.col("ts_ns").alias("packet_ns"), "doorbell_ns", "complete_ns", "return_ns",
        evidence.alias("doorbell_evidence"),
        pl.when(~seen).then("doorbell_lo_ns").alias("doorbell_lo_ns"),
        pl.when(~seen).then("doorbell_hi_ns").alias("doorbell_hi_ns"),
        *_PACKET_COLUMNS, pl.when(is_packet).then("packet_index").alias("wptr"), "signal", "size_bytes",
        _reason(sources).alias("unlinked_reason"),
    )  # fmt: skip


def _reason(sources: set[str]) -> pl.Expr:
    """Say which link a launch lacks, the first on the path first."""
    is_packet = pl.col("layer") == "aql"
    if "ftrace" not in sources:
        no_store = "no kernel trace"
    elif "unaligned" in sources:
        no_store = "the clock of the trace is not known"
    elif "doorbell" not in sources:
        no_store = "no doorbell probe in the trace"
    else:
        no_store = "no doorbell store with this index at its time"
    return (
        pl.when(pl.col("call_event").is_null()).then(pl.lit("no enclosing HIP call in the log"))
        .when(is_packet & pl.col("packet_index").is_null()).then(pl.lit("the log prints no packet index"))
        .when(is_packet & pl.col("doorbell_event").is_null()).then(pl.lit(no_store))
    )  # fmt: skip
