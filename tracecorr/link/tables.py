"""All tables of a capture from the placed rows of its sources."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracecorr.clock.joins import select_rows, sort_rows
from tracecorr.clock.rows import IS_PACKET, Places, count_groups, select_marked, span_groups
from tracecorr.link import (
    calls,
    creations,
    damage,
    descriptors,
    hqds,
    kernel_log,
    mqds,
    queues,
    rings,
    rocprof,
    samples,
    streams,
)
from tracecorr.link import events as keys
from tracecorr.link.drm_jobs import build_drm_jobs, link_drm_jobs
from tracecorr.link.functions import list_twin_args, nest_calls
from tracecorr.link.launches import PACKET_COLUMNS, build_launches, forget_indexes, name_refused_copies
from tracecorr.link.links import list_links
from tracecorr.link.threads.identities import find_creators
from tracecorr.link.threads.thread_map import Identities
from tracecorr.link.writes.place import LogWrites, find_calls, link_writes
from tracecorr.model import schema

# Columns of events in whose place the keys of the tables stand.
_SPENT = ("ring", "stream", "kernel")
# What is asked of packets.
ASKED_OF_PACKETS = (*PACKET_COLUMNS, *queues.PACKET_IDS)


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
    # Rows and packets are large: nobody holds a column longer than it is asked for.
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
        link_writes(events, writes.placed),
    )  # fmt: skip
    stream_queues = streams.summarize_stream_queues(launches, events)
    asked = streams.list_asked_priorities(stream_queues, owners.streams)
    queue_table = _count_packets(owners.queues, launches, events)
    spans = _span_lives(events)
    # The largest table but for the events comes last.
    links = list_links(events, launches, owners.queues, driver.inside, *edges)
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
    events = samples.attach_processes(rocprof.attach_processes(placed, identities.processes), identities)
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
    found = lines["event"].gather(Places.of(lines).find(part_args))
    return sort_rows(part_args.select(found, "key", "u64", "text").drop_nulls("event"), "event")


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
    return sort_rows(pl.concat([args, *rows]), "event") if rows else args


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
    placed = select_marked(launches.select("queue", "kind"), (kind != "copy") & pl.col("queue").is_not_null())
    counts = count_groups(placed, ["queue"], kind == "dispatch")
    counts = counts.select("queue", dispatches="marked", barriers=pl.col("total") - pl.col("marked"))
    doorbells = events.select("queue", "arg", "layer").filter(pl.col("layer") == "doorbell").drop_nulls("queue")
    signals = doorbells.group_by("queue").agg(doorbell_signal=pl.col("arg").first())
    joined = queue_table.drop("starts_ns")
    for more in (counts, signals):
        joined = joined.join(more, on="queue", how="left", maintain_order="left")
    # The log shows all packets of its queues, and of ROCr's own queues those of copies that kernels make alone.
    logged = pl.any_horizontal(pl.col("hwq", "swq").is_not_null())
    packets = events.select("event", "queue", "layer", "name").drop_nulls("queue")
    packets = packets.filter(IS_PACKET)
    inner = select_rows(packets, launches["event"], chosen=False)["queue"].unique()
    counted = pl.col("dispatches", "barriers")
    told = logged & ~pl.col("queue").is_in(inner.implode())
    return joined.with_columns(pl.when(told).then(counted.fill_null(0)).otherwise(counted))


def _span_lives(events: pl.DataFrame) -> pl.DataFrame:
    """Return the first and the last moment of each process and thread."""
    keys = ["process", "thread"]
    rows = events.select(*keys, "ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0))
    return span_groups(rows, keys, "ts_ns", "end_ns")


def _add_lives(table: pl.DataFrame, spans: pl.DataFrame, key: str) -> pl.DataFrame:
    seen = spans.drop_nulls(key).group_by(key).agg(from_ns=pl.col("first").min(), to_ns=pl.col("last").max())
    return table.drop("from_ns", "to_ns").join(seen, on=key, how="left", maintain_order="left")
