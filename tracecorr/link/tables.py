"""All tables of a capture from the placed rows of its sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.link import (
    calls,
    creations,
    damage,
    descriptors,
    hqds,
    kernel_log,
    locks,
    mqds,
    polled,
    queues,
    rings,
    rocprof,
    streams,
)
from tracecorr.link import events as keys
from tracecorr.link.drm_jobs import build_drm_jobs, link_drm_jobs
from tracecorr.link.functions import list_twin_args, nest_calls
from tracecorr.link.launches import PACKET_COLUMNS, build_launches, forget_indexes, name_refused_copies
from tracecorr.link.threads.identities import find_creators
from tracecorr.link.threads.thread_map import Identities
from tracecorr.link.writes.place import LogWrites, find_calls, link_writes
from tracecorr.model import schema
from tracecorr.model.columns import IS_PACKET, is_counted
from tracecorr.model.frames import EDGES
from tracecorr.model.kinds import DERIVED

# Columns of events in whose place the keys of the tables stand.
_SPENT = ("ring", "stream", "kernel")
# What is asked of packets.
ASKED_OF_PACKETS = (*PACKET_COLUMNS, *queues.PACKET_IDS)
# Layer of the inner row, layers of the outer one, rule.
_NESTED = (
    ("hip", ["hip"], "call_nesting"), ("command", ["hip"], "command_in_call"), ("mqd", ["kfd", "ioctl"], "mqd_in_kfd"),
)  # fmt: skip


def link_tables(
    placed: pl.DataFrame,
    packets: pl.DataFrame,
    part_args: pl.DataFrame,
    identities: Identities,
    trace_aligned: bool,
    hqd: pl.DataFrame,
    known_gpus: pl.DataFrame,
    ledger: pl.DataFrame,
    losses: pl.DataFrame,
    writes: LogWrites,
) -> dict[str, pl.DataFrame]:
    """Return the tables that speak of events, by name.

    Args:
        placed: rows of all sources in time order, with `event`, `ts_ns`, ..., `process`, `thread`.
        packets, part_args: the other parts; of packets `ASKED_OF_PACKETS`.
        identities: threads and processes.
        trace_aligned: whether the trace's clock is known; without it no link uses time across sources.
        hqd: rows of the dumps.
        known_gpus: GPUs as the machine's topology shows them.
        ledger: that of the parts.
        losses: rows of `losses` on the common clock that readers and recorder told of.
        writes: what the writes of the trace tell of the logs.
    """
    # Rows and packets are large: no column is held longer than it is needed.
    held = [_name_processes(placed, identities)]
    del placed
    found_damage = damage.find_damage(held[0], ledger, losses, writes.missing)
    events = held.pop().with_columns(outside=pl.col("parent_offset").is_null())
    events = _nest_events(damage.drop_counts(damage.open_calls(events, found_damage), found_damage))
    events, args, driver = _link_driver_calls(events, part_args, identities, trace_aligned, writes.placed)
    events, owners = _find_owners(events, packets, args, identities, trace_aligned, hqd, known_gpus)
    events = kernel_log.mark_twins(events, args)
    events = kernel_log.attach_named(events, args, identities.processes, owners.queues, owners.hqd)
    named = [
        hqds.assign_gpus(args, driver.devices, owners.gpus),
        hqds.find_gpus_of_sights(events, owners.hqd),
        kernel_log.find_gpus(events, args, owners.gpus),
    ]
    events = keys.attach_gpus(events, owners.queues, pl.concat(named))
    packets = packets.drop(queues.PACKET_IDS)
    jobs = build_drm_jobs(events, args)
    sources = _sources(events, trace_aligned)
    found = build_launches(events, packets, args, sources)
    del packets  # large
    launches, found_edges = damage.open_commands(found.table, found.edges, events, found_damage)
    timed = rocprof.match_packets(events, args, launches, owners.queues, owners.kernels)
    launches = creations.explain_stores(rocprof.fill_gpu_times(launches, timed), owners.queues)
    events = forget_indexes(
        keys.forget_kernels(keys.name_commands(events, found.commands), found.unnamed), found.miscounted
    )
    events = keys.describe_gpu_times(keys.chain_doorbells(events, launches), found.gpu)
    edges = (
        hqds.link_hqds(events, owners.hqd, owners.queues), kernel_log.link_lines(events, owners.queues),
        descriptors.link_doorbell_mappings(events, args, driver.mappings),
        link_drm_jobs(jobs), found_edges, rocprof.list_edges(timed), rocprof.link_correlations(events, args),
        link_writes(events, writes.placed), locks.link_lock_waits(events, args),
    )  # fmt: skip
    stream_queues = streams.summarize_stream_queues(launches, events)
    asked = streams.list_asked_priorities(stream_queues, owners.streams)
    queue_table = _count_packets(owners.queues, launches, events)
    spans = _span_lives(events)
    # The largest table but for the events comes last.
    links = _list_links(events, launches, owners.queues, driver.inside, *edges)
    return {
        "events": keys.finish_events(events),
        "launches": damage.explain_launches(launches, events, found_damage),
        "queues": queue_table.join(asked, on="queue", how="left", maintain_order="left"),
        "gpus": owners.gpus,
        "streams": owners.streams.drop("from_ns"),
        "stream_queues": stream_queues,
        "kernels": keys.describe_kernels(owners.kernels, found.kernels, events, args),
        "processes": _add_lives(identities.processes, spans, "process"),
        "threads": find_creators(_add_lives(identities.threads, spans, "thread"), events),
        "args": args,
        "hqd": owners.hqd,
        "drm_jobs": jobs,
        "losses": damage.list_losses(events, found_damage),
        "links": damage.limit_evidence(links, events, found_damage),
    }


def _name_processes(placed: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return the rows with the processes of those that name them themselves.

    From here on a row's thread and process stand for its numbers and its name.
    """
    events = polled.attach_processes(rocprof.attach_processes(placed, identities.processes), identities)
    events = events.drop("pid", "tid", "comm")
    # On the common clock itself one column serves for both times.
    is_common = events["ts_ns"].equals(events["stamp_ns"])
    return events.with_columns(pl.col("ts_ns").alias("stamp_ns")) if is_common else events


def _nest_events(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of each side with what encloses them there."""
    return name_refused_copies(nest_calls(calls.find_parents(events).drop("parent_offset")))


@dataclass
class _DriverCalls:
    """Hold the rows `inside` HIP calls, the `devices` behind descriptors, and the `mappings` of doorbell pages."""

    inside: pl.DataFrame
    devices: pl.DataFrame
    mappings: pl.DataFrame


def _link_driver_calls(
    events: pl.DataFrame,
    part_args: pl.DataFrame,
    identities: Identities,
    trace_aligned: bool,
    written: pl.DataFrame,
) -> tuple[pl.DataFrame, pl.DataFrame, _DriverCalls]:
    """Return events with their ioctls named and the HIP calls around them, args by event, and what this tells."""
    lines = calls.list_lines(events, trace_aligned)
    args = _args_by_event(part_args, events)
    devices = descriptors.find_devices(events, args, identities.trace_threads)
    events = descriptors.name_ioctls(events, devices)
    mappings = descriptors.list_mappings(events, devices)
    inside = calls.link_syscalls(events, lines, find_calls(events, written).drop_nulls())
    args = _add_driver_args(args, events, devices, mappings)
    return keys.adopt_syscalls(events, inside), args, _DriverCalls(inside, devices, mappings)


@dataclass
class _Owners:
    """Hold the tables whose rows own events, and `hqd` with the queues of its slots."""

    streams: pl.DataFrame
    queues: pl.DataFrame
    gpus: pl.DataFrame
    kernels: pl.DataFrame
    hqd: pl.DataFrame


def _find_owners(
    events: pl.DataFrame,
    packets: pl.DataFrame,
    args: pl.DataFrame,
    identities: Identities,
    trace_aligned: bool,
    hqd: pl.DataFrame,
    known_gpus: pl.DataFrame,
) -> tuple[pl.DataFrame, _Owners]:
    """Return events with the keys of their streams, queues and kernels, and these."""
    events = streams.name_null_stream(events)
    stream_table = streams.build_streams(events, args)
    addressed = rings.find_lines(events, args)
    events = rings.tell_rings(keys.forget_rings(events, addressed), args)
    found_rings = rings.find_rings(events, args, stream_table, trace_aligned)
    queue_table = queues.build_queues(events, packets, args, trace_aligned, found_rings)
    gpu_table, queue_table = _tell_driver_facts(*hqds.list_gpus(queue_table, hqd, known_gpus), events, args)
    hqd = hqds.attach_queues(hqd, queue_table, identities.processes, gpu_table)
    kernel_table, kernel_ids = keys.list_kernels(events)
    of_queues = queues.assign_queues(events, queue_table, trace_aligned)
    lines = queue_table.select("queue", line="created_line_event").drop_nulls()
    of_queues = pl.concat([of_queues, addressed.join(lines, on="line").select(of_queues.columns)])
    found = (of_queues, streams.assign_streams(events, stream_table), kernel_ids)
    events = keys.attach_keys(events, queue_table, found, hqd).drop(_SPENT)
    events = keys.spread_queues(events, mqds.find_queues_of_calls(queue_table, events, args))
    return events, _Owners(stream_table, queue_table, gpu_table, kernel_table, hqd)


def _tell_driver_facts(
    gpu_table: pl.DataFrame, queue_table: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the GPUs with their schedulers, and the queues with what the driver says of them."""
    queue_table = mqds.add_driver_facts(queue_table, events, args)
    return _add_schedulers(gpu_table, mqds.find_schedulers(queue_table, events)), queue_table


def _args_by_event(part_args: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    # A GPU time is a row of its own with the bytes of the line that tells it; the line's fields stay there.
    is_line = (pl.col("layer") != "gpu") | (pl.col("source") == "rocprof")
    # Few lines have fields.
    is_named = pl.col("offset").is_in(part_args["offset"].unique().implode())
    lines = events.select("event", "file", "offset", "layer", "source").filter(is_named & is_line)
    found = lines["event"].gather(keys.find_places(lines, part_args))
    return part_args.select(found, "key", "u64", "text").drop_nulls("event").sort("event", maintain_order=True)


def _add_driver_args(
    args: pl.DataFrame, events: pl.DataFrame, devices: pl.DataFrame, mappings: pl.DataFrame
) -> pl.DataFrame:
    """Return args with what the driver's side tells of each call: its device, its fields, what it maps."""
    return _add_args(
        args, descriptors.list_device_args(devices), descriptors.list_ioctl_fields(events, args),
        descriptors.list_mapping_args(mappings), list_twin_args(events, args),
        mqds.list_operation_args(mqds.list_mqd_operations(events)),
    )  # fmt: skip


def _add_args(args: pl.DataFrame, *more: pl.DataFrame) -> pl.DataFrame:
    """Return args by event with the rows that a stage found out."""
    rows = [frame.with_columns(pl.col("key").cast(schema.CAT)) for frame in more if len(frame)]
    return pl.concat([args, *rows]).sort("event", maintain_order=True) if rows else args


def _sources(events: pl.DataFrame, trace_aligned: bool) -> set[str]:
    named = set(events.select(pl.col("source").unique().cast(pl.String)).to_series().to_list())
    named |= set() if trace_aligned else {"unaligned"}
    return named | ({"doorbell"} if (events["layer"] == "doorbell").any() else set())


def _add_schedulers(gpu_table: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    joined = gpu_table.join(found.rename({"scheduler": "seen"}), on="gpu", how="left", maintain_order="left")
    scheduler = pl.coalesce(pl.col("scheduler").cast(pl.String), "seen").cast(schema.CAT)
    return joined.with_columns(scheduler=scheduler).drop("seen")


def _count_packets(queue_table: pl.DataFrame, launches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    kind = pl.col("kind")
    placed = launches.select("queue", "kind").filter((kind != "copy") & pl.col("queue").is_not_null())
    is_dispatch = kind == "dispatch"
    counts = placed.group_by("queue").agg(dispatches=is_dispatch.sum(), barriers=(~is_dispatch).sum())
    doorbells = events.select("queue", "arg", "layer").filter(pl.col("layer") == "doorbell").drop_nulls("queue")
    signals = doorbells.group_by("queue").agg(doorbell_signal=pl.col("arg").first())
    joined = queue_table.drop("starts_ns")
    for more in (counts, signals):
        joined = joined.join(more, on="queue", how="left", maintain_order="left")
    # The log shows all packets of its queues, and of ROCr's own queues those of copies that kernels make alone.
    logged = pl.any_horizontal(pl.col("hwq", "swq").is_not_null())
    packets = events.select("event", "queue", "layer", "name").drop_nulls("queue")
    packets = packets.filter(IS_PACKET)
    inner = packets.join(launches, on="event", how="anti")["queue"].unique()
    counted = pl.col("dispatches", "barriers")
    told = logged & ~pl.col("queue").is_in(inner.implode())
    return joined.with_columns(pl.when(told).then(counted.fill_null(0)).otherwise(counted))


def _span_lives(events: pl.DataFrame) -> pl.DataFrame:
    """Return the first and the last moment of each process and thread."""
    keys = ["process", "thread"]
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    return events.group_by(keys).agg(first=pl.col("ts_ns").min(), last=end.max())


def _add_lives(table: pl.DataFrame, spans: pl.DataFrame, key: str) -> pl.DataFrame:
    seen = spans.drop_nulls(key).group_by(key).agg(from_ns=pl.col("first").min(), to_ns=pl.col("last").max())
    return table.drop("from_ns", "to_ns").join(seen, on=key, how="left", maintain_order="left")


def _list_links(
    events: pl.DataFrame, launches: pl.DataFrame, queue_table: pl.DataFrame, inside: pl.DataFrame, *more: pl.DataFrame
) -> pl.DataFrame:
    """Return the table `links`.

    Args:
        events: linked events.
        launches, queue_table: the tables.
        inside: event, call of system calls inside HIP calls.
        more: edges that other modules made: from_event, to_event, rule, evidence.
    """
    ends = launches.select("event", "kind", "call_event", "command_event", "doorbell_event", "doorbell_evidence")
    copies, packets = (ends.filter(mark) for mark in (pl.col("kind") == "copy", pl.col("kind") != "copy"))
    parts = [
        *_nesting(events),
        _functions(events),
        _edge(packets, "call_event", "packet_in_call"),
        _edge(packets, "command_event", "packet_of_command"),
        _edge(copies, "command_event", "copy_of_command"),
        ends.drop_nulls("doorbell_event").select(
            from_event="event", to_event="doorbell_event", rule=pl.lit("doorbell_of_packet"),
            evidence="doorbell_evidence",
        ),
        inside.select(from_event="call", to_event="event", rule=pl.lit("syscall_in_call"), evidence=pl.lit(DERIVED)),
        queue_table.drop_nulls(["create_ioctl_event", "created_line_event"]).select(
            from_event="create_ioctl_event", to_event="created_line_event", rule=pl.lit("ioctl_creates_queue"),
            evidence="create_evidence",
        ),
        *more,
    ]  # fmt: skip
    edges = pl.concat(EDGES.take(part) for part in parts)
    del parts, packets, copies, ends  # large
    return _add_gaps(edges[_order(edges)], events)


def _order(edges: pl.DataFrame) -> pl.Series:
    # Events are numbered below 2^31, and one number is sorted sooner than two.
    key = edges.select(pl.col("from_event") * 2**32 + pl.col("to_event")).to_series().to_numpy()
    return pl.Series(np.argsort(key, kind="stable").astype(np.uint32))


def _edge(rows: pl.DataFrame, cause: str, rule: str) -> pl.DataFrame:
    """Return the edges from the event in column `cause` to each row itself."""
    # Which call and which command is meant follows from the order of a thread's lines, not from a key.
    edges = rows.select(from_event=cause, to_event="event").drop_nulls()
    return edges.with_columns(rule=pl.lit(rule), evidence=pl.lit(DERIVED))


def _nesting(events: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the edges that the readers saw themselves: a record between the enter and exit of its parent."""
    is_inner = pl.col("layer").is_in([n for n, _, _ in _NESTED]) & pl.col("parent").is_not_null()
    inner = events.select("event", "parent", "layer", "source").filter(is_inner)
    above = events.select(over="layer", over_source="source")[inner["parent"]]
    inner = inner.with_columns(above.get_columns())
    is_same = pl.col("source") == pl.col("over_source")
    # Enclosed by enter and exit of one thread: by order, since neither line names the other.
    return [
        _edge(inner.filter(is_same & (pl.col("layer") == layer) & pl.col("over").is_in(over)), "parent", rule)
        for layer, over, rule in _NESTED
    ]


def _functions(events: pl.DataFrame) -> pl.DataFrame:
    """Return the edges from each ioctl to all KFD functions that ran in it, however deep."""
    rows = events.select("event", "enclosing_call", "layer", "flags")
    rows = rows.filter(pl.col("layer").is_in(["ioctl", "kfd"]) & is_counted())
    ioctls = rows.filter(pl.col("layer") == "ioctl").select(enclosing_call="event")
    inside = rows.filter(pl.col("layer") == "kfd").join(ioctls, on="enclosing_call", maintain_order="left")
    return inside.select(
        from_event="enclosing_call", to_event="event", rule=pl.lit("kfd_in_ioctl"), evidence=pl.lit(DERIVED)
    )


def _add_gaps(edges: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    ends, at = (edges["from_event"].to_numpy(), edges["to_event"].to_numpy()), events["ts_ns"].to_numpy()
    gap = at[ends[1]]
    gap -= at[ends[0]]
    widths = events.select("err_lo_ns", "err_hi_ns")
    causes, effects = (widths[end.astype(np.uint32)] for end in ends)
    both = pl.concat([causes, effects.select(pl.all().name.suffix("_effect"))], how="horizontal")
    errors = {name: pl.col(name).cast(pl.Int64) for name in both.columns}
    # By how much the true gap can be larger and smaller.
    larger = errors["err_lo_ns"] + errors["err_hi_ns_effect"]
    smaller = errors["err_hi_ns"] + errors["err_lo_ns_effect"]
    known = larger.is_not_null() & smaller.is_not_null()
    widest = both.select(gap_err_ns=pl.when(known).then(pl.max_horizontal(larger, smaller)))
    return pl.concat([edges, pl.DataFrame({"gap_ns": gap}), widest], how="horizontal")
