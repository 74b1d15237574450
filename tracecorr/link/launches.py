"""Launches: one row per packet or copy that HIP submits, with the time of each stage."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.link.calls import list_unsure_names
from tracecorr.link.commands import match_commands, match_completions
from tracecorr.link.doorbells import list_contradicted, match_stores, share_lone_threads, span_stores
from tracecorr.link.events import attach_columns, fill_columns, find_places
from tracecorr.link.signals import (
    add_migrations,
    drop_ended,
    link_dependencies,
    link_gpu_times,
    list_doubted,
    list_uses,
)
from tracecorr.link.streams import name_streams
from tracecorr.model import schema
from tracecorr.model.columns import IS_PACKET
from tracecorr.model.kinds import (
    COMPLETE,
    COPY,
    COPY_FAILED,
    COPY_REFUSED,
    DERIVED,
    GRAPH_CALL,
    INFERRED,
    RECORDED,
    Flag,
)


def name_refused_copies(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with copies called `COPY_REFUSED` where the next line of their thread says that they failed.

    HIP 6.4 and 7.2 print the failure at once, with nothing of the thread between (rocblit.cpp).

    Args:
        events: rows with event, layer, name, source, thread, file, offset.
    """
    failed = events.select("event", "layer", "name", "thread").filter(
        (pl.col("layer") == "copy") & (pl.col("name") == COPY_FAILED)
    )
    if failed.is_empty():
        return events
    columns = events.select("event", "layer", "name", "source", "thread", "file", "offset")
    # A GPU time is a row of its own with the bytes of the line that tells it.
    lines = columns.filter((pl.col("source") == "amd_log") & (pl.col("layer") != "gpu"))
    lines = lines.join(failed.select("thread").unique(), on="thread", how="semi").sort("file", "offset")
    following = pl.col("name").shift(-1).over("file", "thread")
    refused = lines.filter((pl.col("layer") == "copy") & (pl.col("name") == COPY) & (following == COPY_FAILED))
    is_refused = pl.col("event").is_in(refused["event"].implode())
    return events.with_columns(name=pl.when(is_refused).then(pl.lit(COPY_REFUSED, schema.CAT)).otherwise("name"))


_SHOWN_COLUMNS = [
    "rptr", "header", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "kernel_object",
    "kernarg", "engine", "stream_priority", "virtual_pipe",
]  # fmt: skip
# What the packets of a kernel tell of it, by the column of `kernels`.
_KERNEL_COLUMNS = {"lds": "group_bytes", "scratch": "private_bytes", "kernarg_bytes": "kernarg_bytes"}
# What is asked of packets.
PACKET_COLUMNS = ["file", "offset", "command_offset", "dep_signals", *_SHOWN_COLUMNS, *_KERNEL_COLUMNS.values()]
_EVENT_COLUMNS = [
    "event", "ts_ns", "layer", "name", "process", "thread", "gpu", "file", "offset", "parent", "outside",
    "chain", "queue", "stream_id", "kernel_id", "packet_index", "index_counted", "signal", "command", "size_bytes",
]  # fmt: skip

_EDGE = {"from_event": pl.Int64, "to_event": pl.Int64, "rule": pl.String, "evidence": pl.String}


def _select_launches(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the log's packets and copies that HIP submits (ROCr's own packets are left out)."""
    copy = (pl.col("layer") == "copy") & (pl.col("name") == COPY)
    internal = args.filter(pl.col("key") == "rocr").select("event")
    chosen = events.select(_EVENT_COLUMNS).filter(IS_PACKET | copy)
    return chosen.join(internal, on="event", how="anti", maintain_order="left") if len(internal) else chosen


@dataclass(frozen=True)
class Launches:
    """Hold what became of the packets and copies.

    Args:
        table: the table `launches`.
        edges: links that it does not show: from_event, to_event, rule, evidence.
        gpu: GPU times: event (packet or copy), gpu_event.
        commands: event, command (pointer, null = none) of the packets and copies whose row names another one: the
            reader sees only what is written before them.
        unnamed: events of dispatches that may have the kernel of another one.
        miscounted: events of packets whose counted index is wrong.
        kernels: kernel, lds, scratch, kernarg_bytes: the largest that its packets tell.
    """

    table: pl.DataFrame = field(default_factory=schema.LAUNCHES.empty)
    edges: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_EDGE))
    gpu: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"event": pl.Int64, "gpu_event": pl.Int64}))
    commands: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"event": pl.Int64, "command": pl.UInt64})
    )
    unnamed: pl.Series = field(default_factory=lambda: pl.Series("event", [], dtype=pl.Int64))
    miscounted: pl.Series = field(default_factory=lambda: pl.Series("event", [], dtype=pl.Int64))
    kernels: pl.DataFrame = field(default_factory=lambda: schema.KERNELS.empty().select("kernel", *_KERNEL_COLUMNS))


def build_launches(
    events: pl.DataFrame,
    packets: pl.DataFrame,
    args: pl.DataFrame,
    sources: set[str],
) -> Launches:
    """Return the table `launches` and the links between packets, signals and completions.

    Args:
        events: linked events with `queue`, `stream_id`, `kernel_id`, `chain`, `parent`, and `outside`: whether the
            reader saw no call around them.
        packets: part packets, at least `PACKET_COLUMNS`.
        args: args by event.
        sources: `ftrace` in it says that a trace is there at all, `doorbell` that it holds stores,
            `unaligned` that its clock is not known, so that no store is matched.
    """
    base = _select_launches(events, args)
    if base.is_empty():
        return Launches()
    commands = _commands(events)
    stores = _stores(events, sources)
    base = _add_intervals(_add_call(base, events), events)
    stores, shared = share_lone_threads(stores, base, events)
    miscounted = list_contradicted(stores, shared)
    base, shared = forget_indexes(base, miscounted), forget_indexes(shared, miscounted)
    places = find_places(packets, base)
    joined = base.with_columns(packets["command_offset"].gather(places))
    joined = _add(joined, match_stores(stores, shared))
    joined = joined.rename({"command": "command_seen"})
    joined = _add(joined, match_commands(joined, commands.filter(pl.col("name") != COMPLETE)))
    joined = _add(joined, match_completions(joined, commands))
    del commands, stores, shared  # large
    is_other = pl.col("command").ne_missing(pl.col("command_seen"))
    other_command = joined.select(pl.col("event", "command").filter(is_other))
    joined = _adopt_calls(joined, events)
    joined = joined.with_columns(stream=name_streams(joined, events))
    uses = list_uses(add_migrations(base, events))
    times = _gpu_times(events)
    spans = link_gpu_times(times, uses).join(base, on="event", how="semi", maintain_order="left")
    is_doubted = pl.col("event").is_in(list_doubted(events, uses).implode())
    gpu = drop_ended(spans.filter(~is_doubted), joined, times)
    joined = _add(joined, gpu)
    joined = joined.with_columns(doorbell_ns=events["ts_ns"].gather(joined["doorbell_event"]))
    edges = _list_edges(link_dependencies(base, packets, uses), joined, gpu)
    unnamed = list_unsure_names(joined)
    joined = joined.with_columns(_take(packets.select(_SHOWN_COLUMNS), places).get_columns())
    if len(unnamed):
        sure = ~pl.col("event").is_in(unnamed.implode())
        joined = joined.with_columns(kernel_id=pl.when(sure).then("kernel_id"))
    told = _take(packets.select(_KERNEL_COLUMNS.values()), places).with_columns(joined["kernel_id"].alias("kernel"))
    kernels = told.drop_nulls("kernel").group_by("kernel").agg(
        pl.col(column).max().alias(name) for name, column in _KERNEL_COLUMNS.items()
    )  # fmt: skip
    reason = _reason(sources, *_span_trace(events), is_doubted)
    table = schema.LAUNCHES.conform(_select(joined.with_columns(unlinked_reason=reason)))
    return Launches(table, edges, gpu.select("event", "gpu_event"), other_command, unnamed, miscounted, kernels)


def _take(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Return some rows of a frame, without a copy where they are all of them in their order."""
    return frame if rows.equals(pl.int_range(frame.height, eager=True)) else frame[rows]


def _list_edges(dependencies: pl.DataFrame, joined: pl.DataFrame, gpu: pl.DataFrame) -> pl.DataFrame:
    """Return the links that the table does not show: what a packet waits for, its completion, its GPU time."""
    completed = joined.select(from_event="event", to_event="complete_event").drop_nulls("to_event")
    timed = gpu.select(from_event="event", to_event="gpu_event")
    return pl.concat([
        dependencies.with_columns(rule=pl.lit("signal_dependency")),
        completed.with_columns(rule=pl.lit("completion_of_packet")),
        timed.with_columns(rule=pl.lit("gpu_time_of_signal")),
    ]).with_columns(evidence=pl.lit(DERIVED))  # fmt: skip


def forget_indexes(packets: pl.DataFrame, miscounted: pl.Series) -> pl.DataFrame:
    """Take the index from packets where it was counted wrongly."""
    wrong = pl.col("event").is_in(miscounted.implode())
    return packets.with_columns(
        packet_index=pl.when(~wrong).then("packet_index"), index_counted=pl.col("index_counted") & ~wrong
    ) if len(miscounted) else packets  # fmt: skip


def _add(joined: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return `joined` with what was found for its events; no event is found twice."""
    if found.is_empty():
        # Literals take no memory.
        return attach_columns(joined, found)
    return joined.join(found, on="event", how="left", maintain_order="left")


def _gpu_times(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of GPU times whose clock is known, with the time of the line that told each."""
    known = (pl.col("layer") == "gpu") & (pl.col("flags").fill_null(0) & int(Flag.UNALIGNED) == 0)
    columns = events.select(
        "event",
        "ts_ns",
        "dur_ns",
        "err_lo_ns",
        "err_hi_ns",
        "process",
        "signal",
        "file",
        "offset",
        "source",
        "layer",
        "name",
        "flags",
    )
    rows = columns.filter(known & (pl.col("source") == "amd_log"))
    lines = columns.filter((pl.col("layer") == "signal") & (pl.col("name") == "gpu_time"))
    lines = lines.select("file", "offset", line_ns="ts_ns").unique(["file", "offset"], keep="first")
    rows = rows.join(lines, on=["file", "offset"], how="left", maintain_order="left")
    return rows.with_columns(end_ns=pl.col("ts_ns") + pl.col("dur_ns"))


def _stores(events: pl.DataFrame, sources: set[str]) -> pl.DataFrame:
    columns = ("event", "queue", "thread", "ts_ns", "packet_index", "err_lo_ns", "err_hi_ns", "ring_learned", "layer")
    return events.select(columns).filter((pl.col("layer") == "doorbell") & pl.lit("unaligned" not in sources))


def _commands(events: pl.DataFrame) -> pl.DataFrame:
    columns = ("event", "file", "offset", "process", "thread", "parent", "name", "ts_ns", "command", "stream_id")
    rows = events.select(*columns, "source", "layer")
    return rows.filter((pl.col("source") == "amd_log") & (pl.col("layer") == "command")).select(columns)


def _add_intervals(base: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add the interval in which the log lets each packet's doorbell store lie."""
    found = span_stores(base, events)
    is_packet = pl.col("layer") == "aql"
    # A graph launch writes several packets before it stores once: all that is known is that it does so before its end.
    # A dispatch whose call is not known, because lines were lost, may be of one.
    unsure = pl.col("call_event").is_null() & pl.col("file").is_in(_list_half_graphs(events).implode())
    batched = (pl.col("graph") | unsure) & (pl.col("name") == "dispatch")
    latest = pl.when(batched).then(pl.col("return_ns") + LOG_STEP_NS).otherwise("doorbell_hi_ns")
    return found.with_columns(
        pl.when(is_packet).then("doorbell_lo_ns").alias("doorbell_lo_ns"),
        pl.when(is_packet).then(latest).alias("doorbell_hi_ns"),
    )


def _list_half_graphs(events: pl.DataFrame) -> pl.Series:
    """Return the files in which graph launches end whose enter is missing."""
    halves = events.select("file", "name", "layer", "flags").filter(
        (pl.col("layer") == "hip") & (pl.col("flags").fill_null(0) & int(Flag.EXIT_ONLY) > 0)
    )
    return halves.filter(pl.col("name").cat.starts_with(GRAPH_CALL))["file"].unique()


def _add_call(joined: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add the outermost HIP call of each packet, and whether it is a graph launch."""
    calls = joined["chain"]
    start, duration = events["ts_ns"].gather(calls), events["dur_ns"].gather(calls)
    graph = events["name"].gather(calls).cat.starts_with(GRAPH_CALL)
    return joined.with_columns(
        call_event="chain", call_ns=start, return_ns=start + duration, graph=graph.fill_null(value=False)
    )


def _adopt_calls(joined: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Give packets that a worker thread wrote the call that enqueued their command."""
    lost = joined.select("call_event", "command_event").with_row_index("row").filter(pl.col("call_event").is_null())
    adopted = events["chain"].gather(lost["command_event"])
    start, duration = events["ts_ns"].gather(adopted), events["dur_ns"].gather(adopted)
    found = lost.select("row", call_event=adopted, call_ns=start, return_ns=start + duration)
    return fill_columns(joined, found, "row")


def _select(joined: pl.DataFrame) -> pl.DataFrame:
    is_packet = pl.col("layer") == "aql"
    seen = pl.col("doorbell_event").is_not_null()
    # One store that announces several packets is known by rule, not by its value.
    own = pl.when("own").then(_word(RECORDED)).otherwise(_word(DERIVED))
    evidence = pl.when(seen).then(own).when(is_packet).then(_word(INFERRED))
    return joined.select(
        "event", pl.col("name").alias("kind"), "process", "thread", "gpu", "call_event", "command_event",
        "doorbell_event", "announce_event", "gpu_event", "gpu_start_ns", "gpu_end_ns", "queue",
        "stream", pl.col("kernel_id").alias("kernel"), "packet_index", "call_ns", "enqueue_ns",
        pl.col("ts_ns").alias("packet_ns"), "doorbell_ns", "complete_ns", "return_ns",
        evidence.alias("doorbell_evidence"),
        pl.when(~seen).then("doorbell_lo_ns").alias("doorbell_lo_ns"),
        pl.when(~seen).then("doorbell_hi_ns").alias("doorbell_hi_ns"),
        *_SHOWN_COLUMNS, *_read_header(),
        pl.when(is_packet & ~pl.col("index_counted")).then("packet_index").alias("wptr"), "signal", "size_bytes",
        "unlinked_reason",
    )  # fmt: skip


def _read_header() -> list[pl.Expr]:
    """Return what the header of a packet says: bit 8, and the scopes in bits 9 and 11 (hsa.h, AQL packet header)."""
    header, one, two = pl.col("header"), pl.lit(1, pl.UInt32), pl.lit(3, pl.UInt32)
    scopes = {"acquire": 1 << 9, "release": 1 << 11}
    fields = [(header // (1 << 8) & one).cast(pl.Boolean).alias("barrier")]
    return fields + [(header // step & two).cast(pl.UInt16).alias(name) for name, step in scopes.items()]


def _span_trace(events: pl.DataFrame) -> tuple[pl.Expr, pl.Expr]:
    """Return the first and the last moment of the kernel trace."""
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    traced = events.lazy().filter(pl.col("source") == "ftrace").select(first=pl.col("ts_ns").min(), last=end.max())
    first, last = traced.collect().row(0)
    return pl.lit(first, pl.Int64), pl.lit(last, pl.Int64)


def _reason(sources: set[str], trace_from: pl.Expr, trace_to: pl.Expr, is_doubted: pl.Expr) -> pl.Expr:
    """Say which link of a launch is missing, the first on the path first."""
    is_packet = pl.col("layer") == "aql"
    if "ftrace" not in sources:
        no_store = _word("no kernel trace")
    elif "unaligned" in sources:
        no_store = _word("the clock of the trace is not known")
    elif "doorbell" not in sources:
        no_store = _word("no doorbell probe in the trace")
    else:
        early = pl.when(pl.col("doorbell_hi_ns") < trace_from).then(_word("the kernel trace began after it"))
        late = early.when(pl.col("doorbell_lo_ns") > trace_to).then(_word("the kernel trace ended before it"))
        no_store = late.otherwise(_word("no doorbell store with this index at its time"))
    no_index = "the log prints no packet index and it cannot be counted"
    no_end = "the log ends in its call"
    no_thread = "the log names no thread: its HIP call is not certain"
    return (
        pl.when(pl.col("call_event").is_null() & pl.col("thread").is_null()).then(_word(no_thread))
        .when(pl.col("call_event").is_null()).then(_word("no enclosing HIP call in the log"))
        .when(pl.all_horizontal(pl.col("command_event", "return_ns").is_null())).then(_word(no_end))
        .when(pl.col("command_event").is_null()).then(_word("no command line before it in its call"))
        .when(is_packet & pl.col("packet_index").is_null()).then(_word(no_index))
        .when(is_packet & pl.col("doorbell_event").is_null()).then(no_store)
        .when(is_doubted).then(_word("the runtime calls the GPU time of its signal invalid"))
    )  # fmt: skip


def _word(text: str) -> pl.Expr:
    """Return a text as the tables hold it; columns of plain texts are large."""
    return pl.lit(text).cast(schema.CAT)
