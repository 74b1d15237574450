"""Warnings of an import: which clocks, threads and links are not what a user may take them for, and why."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.refuted import warn_refuted
from tracecorr.clock.rows import select_source
from tracecorr.clock.samples import warn_of_another_run
from tracecorr.link.losses.unreadable import warn_unreadable
from tracecorr.link.queues.hqds import NONE_OF_LOG, shows_none_of_log
from tracecorr.link.repeated_traces import warn_repeated_traces, warn_skipped_traces
from tracecorr.link.rocprof import warn_foreign, warn_repeated, warn_timeless

# Times that are worse than this tell launches apart no more.
_WIDE_NS = 1_000_000


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
        samples: clock.json, the readings that belong to the clock marks of a trace; None where it is not there.
        attached: whether the trace was recorded of a process that ran already, whose log it is.
    """
    events, threads = tables["events"], tables["threads"]
    sources = set(events["source"].unique().cast(pl.String))
    warnings = [_describe_unaligned(key, m, alone=len(maps) == 1) for key, m in maps.items() if not m.aligned]
    warnings += [*warn_refuted(tables["clock_map"]), *_warn_wide(tables["clock_map"])]
    log = select_source(events, "amd_log", ["source", "thread", "stamp_ns"])
    if len(log):
        warnings += [
            f"{key} is taken as CLOCK_MONOTONIC unproven: no mark, doorbell or queue creation shows it"
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
    warnings += warn_foreign(events, tables["links"])
    # What a capture dumped by itself is of its run, be it from before the first queue.
    if shows_none_of_log(tables["hqd"].filter(pl.col("read_start_ns").is_null()), tables["queues"]):
        warnings.append(f"{NONE_OF_LOG}: it may be of another run")
    warnings += [*warn_repeated(tables["ledger"], tables["files"]), *warn_timeless(tables["ledger"], tables["files"])]
    warnings += warn_skipped_traces(tables["ledger"], tables["files"])
    warnings += warn_unreadable(tables["ledger"], tables["files"])
    # Of a known clock each record counts once.
    if "ftrace:unknown" in maps:
        warnings += [*warn_repeated_traces(events, tables["files"]), *_warn_two_buffers(events, tables["files"])]
    if {"amd_log", "ftrace"} <= sources and (apart_ns := _measure_gap(events)):
        warnings.append(_describe_gap(apart_ns, attached=attached))
    if samples is None:
        return [*warnings, *_warn_unused_marks(events, maps)]
    return [*warnings, *warn_of_another_run(events, tables["args"], samples)]


def _warn_two_buffers(events: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Say of which traces without a told clock it is not proven that they are on one: each buffer has its own.

    The files of a trace's CPUs, and pieces of one trace, hold no records of one CPU at the same time.
    """
    rows = select_source(events, "ftrace", ["file", "cpu", "stamp_ns"]).drop_nulls()
    spans = rows.group_by("file", "cpu").agg(begin=pl.col("stamp_ns").min(), end=pl.col("stamp_ns").max())
    both = spans.join(spans, on="cpu", suffix="_other").filter(
        pl.col("file") < pl.col("file_other"),
        pl.col("begin") < pl.col("end_other"),
        pl.col("begin_other") < pl.col("end"),
    )
    paths = dict(files.select("file", "path").iter_rows())
    return [
        f"{paths[one]} and {paths[other]} hold records of the same CPUs and time, as two buffers do, and are taken to "
        "be on one clock: if they are not, times and links of one are wrong; name it with --ftrace-clock, or import one"
        for one, other in both.select("file", "file_other").unique().sort("file", "file_other").head(1).iter_rows()
    ]


def _describe_unaligned(key: str, clock: ClockMap, *, alone: bool) -> str:
    if alone:
        return f"{key} is the only clock, and its offset cannot be told: times are its own, not CLOCK_MONOTONIC's"
    return f"{key} is UNALIGNED: {clock.reason}; nothing of it is linked by time"


def _warn_unused_marks(events: pl.DataFrame, maps: dict[str, ClockMap]) -> list[str]:
    """Say that marks lie in a trace whose clock was worked out, without the readings that belong to them."""
    bare = [key for key, m in maps.items() if key.startswith("ftrace:") and m.method in ("causal_pairs", "unaligned")]
    marks = events.filter((pl.col("layer") == "marker") & (pl.col("name") == "clock_sync")).height if bare else 0
    if not marks:
        return []
    return [
        f"{bare[0]}: each of its {marks} clock marks tells the time before it was written, which bounds the clock from "
        "one side only: import with --clock-samples clock.json, the readings that were taken with them, for the other"
    ]


def _warn_wide(clock_map: pl.DataFrame) -> list[str]:
    """Name the clocks whose times are so uncertain that little can be linked by time."""
    width = pl.col("width_ns")
    wide = clock_map.filter(pl.col("source").cast(pl.String).str.starts_with("ftrace:")).group_by(
        pl.col("source").cast(pl.String), maintain_order=True
    ).agg(width.max().alias("width"), pl.col("method").cast(pl.String).first())  # fmt: skip
    return [
        f"{source}: times are known to {width / 1e6:.1f} ms only (by {method}): system calls and doorbells may stay "
        "unlinked; clock samples each second, or a doorbell probe, narrow that"
        for source, width, method in wide.filter(pl.col("width") > _WIDE_NS).iter_rows()
    ]


def _measure_gap(events: pl.DataFrame) -> int:
    """Return the time from the end of the log to the start of the trace, negative from that of the trace to the log.

    It is 0 where they overlap in time; other sources do not count.
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
