"""Warnings of an import: which clocks, threads and links are not what a user may take them for, and why."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.fit import warn_refuted
from tracecorr.clock.samples import warn_of_another_run
from tracecorr.link.hqds import NONE_OF_LOG, shows_none_of_log
from tracecorr.link.rocprof import warn_foreign, warn_repeated, warn_timeless
from tracecorr.link.threads.hashed_tids import SHARED_NUMBER
from tracecorr.link.writes.place import LogWrites, count_explained
from tracecorr.model.kinds import UNKNOWN_FORM
from tracecorr.model.reasons import UNKNOWN_EVENT_ID, Lost, list_lossy

# Times that are worse than this tell launches apart no more.
_WIDE_NS = 1_000_000
# So many files of one folder are named in a warning.
_MOST_NAMED = 3
_MOST_TEXT = 160


def list_warnings(
    tables: dict[str, pl.DataFrame],
    maps: dict[str, ClockMap],
    samples: dict[str, Any] | None,
    *,
    attached: bool = False,
) -> list[str]:
    """Return what a user should know before believing the tables: sentences without an end.

    Args:
        tables: all tables, by name.
        maps: the clock maps by `source:clock`.
        samples: clock.json, the readings that belong to the clock marks of a trace; None if it is not there.
        attached: whether the trace was recorded of a process that ran already, whose log it is.
    """
    events, threads = tables["events"], tables["threads"]
    sources = set(events["source"].unique().cast(pl.String))
    warnings = [_describe_unaligned(key, m, alone=len(maps) == 1) for key, m in maps.items() if not m.aligned]
    warnings += [*warn_refuted(tables["clock_map"]), *_warn_wide(tables["clock_map"])]
    log = events.filter(pl.col("source") == "amd_log").select("source", "thread", "stamp_ns")
    if len(log):
        warnings += [
            f"{key} is assumed to be CLOCK_MONOTONIC: no mark, doorbell or queue creation proves it"
            for key, m in maps.items()
            if key.startswith("ftrace:") and m.method == "same_clock" and m.pairs == 0
        ]
    if len(log) and log["thread"].null_count() == len(log):
        warnings.append(
            "the log names no pid and tid: its lines cannot be linked to threads or to the trace; "
            "record it with AMD_LOG_LEVEL=5"
        )
    if len(log) and log["stamp_ns"].null_count() == len(log):
        warnings.append("the log has no times: its lines keep their order only")
    if {"amd_log", "ftrace"} <= sources and threads.filter(
        pl.col("tid").is_not_null() & pl.col("log_tid").is_not_null()
    ).is_empty():
        warnings.append("no thread of the log was found in the trace: HIP calls and system calls cannot be linked")
    warnings += _warn_device_rings(tables["args"])
    warnings += _warn_shared_numbers(threads, tables["processes"])
    warnings += warn_foreign(events, tables["links"])
    # A dump that a capture made is of its run, even from before the first queue.
    if shows_none_of_log(tables["hqd"].filter(pl.col("read_start_ns").is_null()), tables["queues"]):
        warnings.append(f"{NONE_OF_LOG}: it may be of another run")
    warnings += [*warn_repeated(tables["ledger"], tables["files"]), *warn_timeless(tables["ledger"], tables["files"])]
    warnings += _warn_unreadable(tables["ledger"], tables["files"])
    warnings += _warn_unknown_forms(tables["ledger"], tables["args"])
    if "ftrace:unknown" in maps:
        warnings += _warn_two_buffers(events, tables["files"])
    if {"amd_log", "ftrace"} <= sources and (apart_ns := _measure_gap(events)):
        warnings.append(_describe_gap(apart_ns, attached=attached))
    if samples is None:
        return [*warnings, *_warn_unused_marks(events, maps)]
    return [*warnings, *warn_of_another_run(events, tables["args"], samples)]


def warn_of_writes(writes: LogWrites, files: pl.DataFrame) -> list[str]:
    """Name the logs that do not hold what the trace shows to be written, and where, and those that hold more.

    Args:
        writes: what the writes of the trace tell of the logs.
        files: the table.
    """
    named = writes.missing.join(files.select("file", "path"), on="file", maintain_order="left")
    found = named.group_by("path", maintain_order=True).agg("position", "bytes")
    warnings = [
        f"{path}: {sum(sizes):,} bytes are missing, although the trace shows their write: "
        + ", ".join(f"{size:,} at byte {at:,}" for at, size in list(zip(places, sizes, strict=True))[:_MOST_NAMED])
        + (f", and at {len(places) - _MOST_NAMED} more places" if len(places) > _MOST_NAMED else "")
        for path, places, sizes in found.iter_rows()
    ]
    explained = count_explained(writes.placed).join(files.select("file", "path", "size"), on="file")
    warnings += [
        f"{path}: {size - known:,} of its {size:,} bytes belong to no write call of the trace: it began later or lost "
        "records, or they came through io_uring, splice or a 32-bit program; these records are joined to no write"
        for path, size, known in explained.select("path", "size", "explained").iter_rows()
        if known < size
    ]
    paths = dict(files.select("file", "path").iter_rows())
    return warnings + [
        f"{paths[file]}: its records are not joined to the writes of the trace, which shows no file with exactly these "
        "records; import the log as its program wrote it, not as a collector passed it on"
        for file in writes.unfit
    ]


def _warn_shared_numbers(threads: pl.DataFrame, processes: pl.DataFrame) -> list[str]:
    """Name the threads of a log that prints hashes whose lines may be those of several threads."""
    shared = threads.filter(pl.col("how").cast(pl.String) == SHARED_NUMBER).join(processes, on="process", how="left")
    return [
        f"process {pid}: several threads print tid {tid:#07x}, a hash of 20 bits: their lines cannot be separated, so "
        "their calls may be paired wrongly, and are not linked to the trace"
        for pid, tid in shared.select("log_pid", "log_tid").iter_rows()
    ]


def _warn_device_rings(args: pl.DataFrame) -> list[str]:
    """Say that rings are in memory of the GPU (ROCm 10), which only the GPU reads quickly."""
    on = args.filter((pl.col("key").cast(pl.String) == "device_mem_ring_buf") & (pl.col("u64") == 1)).height
    if not on:
        return []
    return [
        f"the rings of {on} queues lie in memory of the GPU (device_mem_ring_buf 1): their packets are known from the "
        "log alone, and reading them there would be slow"
    ]


def _warn_two_buffers(events: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Name traces without a named clock that may be on two clocks: each buffer has its own.

    The files of a trace's CPUs, and pieces of one trace, hold no records of one CPU at the same time.
    """
    rows = events.filter(pl.col("source") == "ftrace").select("file", "cpu", "stamp_ns").drop_nulls()
    spans = rows.group_by("file", "cpu").agg(begin=pl.col("stamp_ns").min(), end=pl.col("stamp_ns").max())
    both = spans.join(spans, on="cpu", suffix="_other").filter(
        pl.col("file") < pl.col("file_other"),
        pl.col("begin") < pl.col("end_other"),
        pl.col("begin_other") < pl.col("end"),
    )
    paths = dict(files.select("file", "path").iter_rows())
    return [
        f"{paths[one]} and {paths[other]} have records of the same CPUs and time, as two buffers do; one clock is "
        "assumed: if there are two, times and links of one are wrong; name it with --ftrace-clock, or import one"
        for one, other in both.select("file", "file_other").unique().sort("file", "file_other").head(1).iter_rows()
    ]


def _describe_unaligned(key: str, clock: ClockMap, *, alone: bool) -> str:
    if alone:
        return f"{key} is the only clock, and its offset is unknown: times are on this clock, not on CLOCK_MONOTONIC"
    return f"{key} is UNALIGNED: {clock.reason}; nothing of it is linked by time"


def _warn_unused_marks(events: pl.DataFrame, maps: dict[str, ClockMap]) -> list[str]:
    """Say that marks lie in a trace whose clock was worked out, without the readings that belong to them."""
    bare = [key for key, m in maps.items() if key.startswith("ftrace:") and m.method in ("causal_pairs", "unaligned")]
    marks = events.filter((pl.col("layer") == "marker") & (pl.col("name") == "clock_sync")).height if bare else 0
    if not marks:
        return []
    return [
        f"{bare[0]}: its {marks} clock marks bound the clock from one side only; to bound the other side, import the "
        "clock.json that was recorded with them (--clock-samples)"
    ]


def _warn_wide(clock_map: pl.DataFrame) -> list[str]:
    """Name the clocks whose times are so uncertain that little can be linked by time."""
    width = pl.col("width_ns")
    wide = clock_map.filter(pl.col("source").cast(pl.String).str.starts_with("ftrace:")).group_by(
        pl.col("source").cast(pl.String), maintain_order=True
    ).agg(width.max().alias("width"), pl.col("method").cast(pl.String).first())  # fmt: skip
    return [
        f"{source}: times are known to {width / 1e6:.1f} ms only (by {method}): system calls and doorbells may stay "
        "unlinked; to know them better, record the writes of the log (events/syscalls/sys_enter_write), clock samples "
        "each second, or a doorbell probe"
        for source, width, method in wide.filter(pl.col("width") > _WIDE_NS).iter_rows()
    ]


def _measure_gap(events: pl.DataFrame) -> int:
    """Return the time from the end of the log to the start of the trace, negative from that of the trace to the log.

    It is 0 if they overlap in time; other sources do not count.
    """
    both = events.lazy().with_columns(pl.col("source").cast(pl.String))
    spans = both.group_by("source").agg(low=pl.col("ts_ns").min(), high=pl.col("ts_ns").max()).collect()
    known: dict[str, tuple[int, int]] = {
        source: (low, high) for source, low, high in spans.iter_rows() if low is not None
    }
    if not {"amd_log", "ftrace"} <= known.keys():
        return 0
    log, trace = known["amd_log"], known["ftrace"]
    return max(trace[0] - log[1], 0) - max(log[0] - trace[1], 0)


def _describe_gap(apart_ns: int, *, attached: bool) -> str:
    if attached and apart_ns > 0:
        return (
            f"the HIP log ends {apart_ns / 1e9:.1f} s before the recording began: the process printed no line meanwhile"
        )
    return "log and trace do not overlap in time: are they of one run, and of one machine?"


def _warn_unreadable(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return a warning for each folder with records that could not be read, or without formats."""
    told = ledger.with_columns(pl.col("source", "reason").cast(pl.String))
    lossy = told.filter(pl.col("reason").is_in(list_lossy())).join(files.select("file", "path"), on="file")
    folder = pl.col("path").str.extract(r"^(.*)/").fill_null("")
    found = lossy.group_by(folder.alias("folder"), maintain_order=True).agg(
        pl.col("path").unique(maintain_order=True), pl.col("bytes").sum(), pl.col("reason").unique().sort(),
        records=pl.col("records").filter(pl.col("reason").is_in(list_lossy(Lost.COUNTED))).sum(),
    )  # fmt: skip
    warnings = [_describe_unreadable(row) for row in found.iter_rows(named=True)]
    return [*_warn_without_formats(ledger, files), *warnings]


def _warn_unknown_forms(ledger: pl.DataFrame, args: pl.DataFrame) -> list[str]:
    """Return a warning about messages with a known beginning only: a newer runtime may print them."""
    count = ledger.filter(pl.col("reason").cast(pl.String) == UNKNOWN_FORM)["records"].sum()
    told = args.filter(pl.col("key").cast(pl.String) == UNKNOWN_FORM).head(1)
    return [
        f"{count:,} records of the log begin like a known message, but go on differently: only their known part is "
        f"read; the first (event {event}): {text[:_MOST_TEXT]}"
        for event, text in told.select("event", "text").iter_rows()
    ]


def _describe_unreadable(row: dict[str, Any]) -> str:
    paths = row["path"]
    more = f" and {len(paths) - _MOST_NAMED} more files" if len(paths) > _MOST_NAMED else ""
    counts = [f"{row[what]:,} {what}" for what in ("records", "bytes") if row[what]]
    return (
        f"{', '.join(paths[:_MOST_NAMED])}{more}: records are lost: {' and '.join(counts) or 'the end'} "
        f'could not be read ({", ".join(row["reason"])}); see "Used, skipped and lost bytes" in the report'
    )


def _warn_without_formats(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return a warning for each folder of pages without a used record, because no event has a format."""
    kinds = pl.col("outcome", "reason").cast(pl.String)
    told = ledger.filter(pl.col("source").cast(pl.String) == "ftrace").with_columns(kinds)
    named = told.join(files.select("file", "path"), on="file")
    unknown = pl.col("records").filter(pl.col("reason") == UNKNOWN_EVENT_ID).sum()
    used = pl.col("records").filter(pl.col("outcome") == "used").sum()
    sums = named.group_by(pl.col("path").str.extract(r"^(.*)/").alias("folder"), maintain_order=True).agg(
        unknown=unknown, used=used
    )
    return [
        f"{folder}: none of its {unknown:,} records can be decoded, because the trace has no formats of its events; "
        "copy events/ of the same tracefs beside the pages (of trace-cmd: record again), and import them again"
        for folder, unknown, used in sums.iter_rows()
        if unknown and not used
    ]
