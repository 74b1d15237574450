"""Launches: one row per packet or copy that HIP submits, with the time of each stage."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracecorr.align.causal_pairs import LOG_STEP_NS
from tracecorr.align.intervals import bracket_doorbells, list_moments
from tracecorr.link.commands import GRAPH_CALL, match_commands, match_completions
from tracecorr.link.doorbells import match_stores
from tracecorr.link.signals import link_dependencies, link_gpu_times, list_uses
from tracecorr.model import schema
from tracecorr.model.kinds import DERIVED, INFERRED, PACKET_KINDS, RECORDED, Flag

_PACKET_COLUMNS = [
    "rptr", "header", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "kernel_object",
    "kernarg", "engine",
]  # fmt: skip

EDGE = {"from_event": pl.Int64, "to_event": pl.Int64, "rule": pl.String, "evidence": pl.String}


def select_launches(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the log's packets and copies that HIP submits (ROCr's own packets are left out)."""
    name = pl.col("name").cast(pl.String)
    packet = (pl.col("layer") == "aql") & name.is_in(PACKET_KINDS)
    copy = (pl.col("layer") == "copy") & (name == "copy")
    internal = args.filter(pl.col("key").cast(pl.String) == "rocr").select("event")
    return events.filter(packet | copy).join(internal, on="event", how="anti", maintain_order="left")


@dataclass(frozen=True)
class Launches:
    """Hold what became of the packets and copies.

    Args:
        table: the table `launches`.
        edges: links that it does not show: from_event, to_event, rule, evidence.
        gpu: GPU times: event (packet or copy), gpu_event.
        commands: event, command (pointer, null = none) of the packets and copies whose row names another one: the
            reader sees only what is written before them.
    """

    table: pl.DataFrame = field(default_factory=schema.LAUNCHES.empty)
    edges: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=EDGE))
    gpu: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"event": pl.Int64, "gpu_event": pl.Int64}))
    commands: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"event": pl.Int64, "command": pl.UInt64})
    )


def build_launches(events: pl.DataFrame, packets: pl.DataFrame, args: pl.DataFrame, sources: set[str]) -> Launches:
    """Return the table `launches` and the links between packets, signals and completions.

    Args:
        events: linked events with `queue`, `stream_id`, `kernel_id`, `chain`, `parent`.
        packets: part packets.
        args: args by event.
        sources: `ftrace` in it says that a trace is there at all, `doorbell` that it holds stores,
            `unaligned` that its clock is not known, so that no store is matched.
    """
    base = select_launches(events, args)
    if base.is_empty():
        return Launches()
    log = events.filter(pl.col("source") == "amd_log")
    stores = events.filter((pl.col("layer") == "doorbell") & pl.lit("unaligned" not in sources))
    base = _add_intervals(_add_call(base, events), log)
    fields = packets.select("file", "offset", "command_offset", *_PACKET_COLUMNS)
    joined = base.join(fields, on=["file", "offset"], how="left", maintain_order="left")
    joined = joined.join(match_stores(stores, base), on="event", how="left", maintain_order="left")
    joined = _add_command(joined, log.filter(pl.col("layer") == "command"))
    other_command = joined.filter(pl.col("command").ne_missing(pl.col("command_seen"))).select("event", "command")
    joined = _adopt_calls(joined, events)
    uses = list_uses(base)
    gpu = link_gpu_times(_gpu_times(events), uses)
    joined = joined.join(gpu, on="event", how="left", maintain_order="left")
    times = events.select(doorbell_event="event", doorbell_ns="ts_ns")
    joined = joined.join(times, on="doorbell_event", how="left", maintain_order="left")
    edges = pl.concat([
        link_dependencies(base, packets, uses).with_columns(rule=pl.lit("signal_dependency")),
        joined.drop_nulls("complete_event").select(
            from_event="event", to_event="complete_event", rule=pl.lit("completion_of_packet")
        ),
        gpu.select(from_event="event", to_event="gpu_event", rule=pl.lit("gpu_time_of_signal")),
    ]).with_columns(evidence=pl.lit(DERIVED))  # fmt: skip
    table = schema.LAUNCHES.conform(_select(joined, sources))
    return Launches(table, edges, gpu.select("event", "gpu_event"), other_command)


def _gpu_times(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of GPU times whose clock is known, with the time of the line that told each."""
    known = (pl.col("layer") == "gpu") & (pl.col("flags").fill_null(0) & int(Flag.UNALIGNED) == 0)
    rows = events.filter(known & (pl.col("source") == "amd_log"))
    lines = events.filter((pl.col("layer") == "signal") & (pl.col("name") == "gpu_time"))
    lines = lines.select("file", "offset", line_ns="ts_ns").unique(["file", "offset"], keep="first")
    rows = rows.join(lines, on=["file", "offset"], how="left", maintain_order="left")
    return rows.with_columns(end_ns=pl.col("ts_ns") + pl.col("dur_ns"))


def _add_intervals(base: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Add the interval in which the log lets each packet's doorbell store lie."""
    packets = base.filter(pl.col("layer") == "aql").select("event", "thread", "name", at="ts_ns")
    moments = list_moments(log.filter(pl.col("clock") == "mono"), "ts_ns", pl.col("ts_ns") + pl.col("dur_ns"))
    intervals = bracket_doorbells(packets, moments, LOG_STEP_NS)
    return base.join(
        intervals.select("event", "doorbell_lo_ns", "doorbell_hi_ns"), on="event", how="left", maintain_order="left"
    )


def _add_call(joined: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add the outermost HIP call of each packet, and whether it is a graph launch."""
    calls = events.filter(pl.col("layer") == "hip").select(
        call_event="event", call_ns="ts_ns", return_ns=pl.col("ts_ns") + pl.col("dur_ns"),
        graph=pl.col("name").cast(pl.String).str.starts_with(GRAPH_CALL),
    )  # fmt: skip
    joined = joined.join(calls, left_on="chain", right_on="call_event", how="left", maintain_order="left",
                         coalesce=False)  # fmt: skip
    return joined.with_columns(pl.col("graph").fill_null(False))


def _adopt_calls(joined: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Give packets that a worker thread wrote the call that enqueued their command."""
    if joined["call_event"].null_count() == 0:
        return joined
    commands = events.filter(pl.col("layer") == "command").select(command_event="event", adopted="chain")
    calls = events.filter(pl.col("layer") == "hip").select(
        adopted="event", adopted_ns="ts_ns", adopted_end=pl.col("ts_ns") + pl.col("dur_ns")
    )
    found = joined.join(commands, on="command_event", how="left", maintain_order="left")
    found = found.join(calls, on="adopted", how="left", maintain_order="left")
    lost = pl.col("call_event").is_null()
    return found.with_columns(
        call_event=pl.coalesce("call_event", "adopted"),
        call_ns=pl.when(lost).then("adopted_ns").otherwise("call_ns"),
        return_ns=pl.when(lost).then("adopted_end").otherwise("return_ns"),
    ).drop("adopted", "adopted_ns", "adopted_end")


def _add_command(joined: pl.DataFrame, commands: pl.DataFrame) -> pl.DataFrame:
    """Add the command line of each packet, the stream that it names, and the command's completion line.

    What the row of the packet had as `command` becomes `command_seen`.
    """
    complete = pl.col("name").cast(pl.String) == "complete"
    joined = joined.rename({"command": "command_seen"})
    found = match_commands(joined, commands.filter(~complete))
    joined = joined.join(found, on="event", how="left", maintain_order="left")
    ends = match_completions(joined, commands)
    return joined.join(ends, on="event", how="left", maintain_order="left")


def _select(joined: pl.DataFrame, sources: set[str]) -> pl.DataFrame:
    is_packet = pl.col("layer") == "aql"
    seen = pl.col("doorbell_event").is_not_null()
    # One store that announces several packets is known by rule, not by its value.
    own = pl.when("own").then(pl.lit(RECORDED)).otherwise(pl.lit(DERIVED))
    evidence = pl.when(seen).then(own).when(is_packet).then(pl.lit(INFERRED))
    return joined.select(
        "event", pl.col("name").alias("kind"), "process", "thread", "gpu", "call_event", "command_event",
        "doorbell_event", "announce_event", "gpu_event", "gpu_start_ns", "gpu_end_ns", "queue",
        pl.coalesce("command_stream", "stream_id").alias("stream"),
        pl.col("kernel_id").alias("kernel"), "packet_index", "call_ns", "enqueue_ns",
        pl.col("ts_ns").alias("packet_ns"), "doorbell_ns", "complete_ns", "return_ns",
        evidence.alias("doorbell_evidence"),
        pl.when(~seen).then("doorbell_lo_ns").alias("doorbell_lo_ns"),
        pl.when(~seen).then("doorbell_hi_ns").alias("doorbell_hi_ns"),
        *_PACKET_COLUMNS, 
        pl.when(is_packet & ~pl.col("index_counted")).then("packet_index").alias("wptr"), "signal", "size_bytes",
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
        .when(pl.col("command_event").is_null()).then(pl.lit("no command line before it in its call"))
        .when(is_packet & pl.col("packet_index").is_null()).then(pl.lit("the log prints no packet index"))
        .when(is_packet & pl.col("doorbell_event").is_null()).then(pl.lit(no_store))
    )  # fmt: skip
