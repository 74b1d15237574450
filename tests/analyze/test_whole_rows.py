"""Whole rows of the report's tables, every number of them counted by hand (all SYNTHETIC)."""

from __future__ import annotations

from typing import Any

import pytest
from analyze_tables import table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.calls import summarize_hip_calls, summarize_internal_calls
from tracecorr.analyze.clocks import summarize_time_errors
from tracecorr.analyze.ioctls import summarize_evictions
from tracecorr.analyze.memory import summarize_copies
from tracecorr.analyze.queue_creation import summarize_queue_creation
from tracecorr.analyze.queues import summarize_backlog
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.values import render_value
from tracecorr.model.kinds import Flag


def test_stops_of_queues_and_moves_of_pages_by_process() -> None:
    stop = {"layer": "smi", "name": "QUEUE_EVICTION", "process": 0, "pid": 70, "gpu": 1}
    moved = {"layer": "smi", "name": "MIGRATE", "process": 3, "pid": 99, "size_bytes": 4096}
    events = table(
        "events",
        {**stop, "event": 0, "ts_ns": 500, "dur_ns": 30},
        {**stop, "event": 1, "ts_ns": 400, "dur_ns": 10},
        {**stop, "event": 2, "ts_ns": 600, "flags": int(Flag.ENTER_ONLY)},
        {**stop, "event": 3, "ts_ns": 700, "flags": int(Flag.EXIT_ONLY)},
        {**stop, "event": 4, "ts_ns": 800, "dur_ns": 5, "gpu": 2},
        {**moved, "event": 5, "ts_ns": 900, "dur_ns": 7, "result": "EBUSY"},
        {**moved, "event": 6, "ts_ns": 901, "dur_ns": 7, "result": "0"},
        {**moved, "event": 7, "ts_ns": 902, "dur_ns": 7, "result": "ENOMEM"},
        {"layer": "smi", "name": "THERMAL_THROTTLE", "event": 8, "ts_ns": 50},
        {"layer": "kfd", "name": "QUEUE_EVICTION", "event": 9, "ts_ns": 1, "dur_ns": 99},
    )
    args = table(
        "args", *({"event": n, "key": "trigger", "text": "TTM"} for n in range(4)),
        {"event": 4, "key": "cause", "text": "x"}, {"event": 5, "key": "gpu_id", "u64": 7},
    )  # fmt: skip
    found = summarize_evictions(events, args, table("processes", {"process": 0, "comm": "a"}))
    assert found.columns == [
        "pid", "comm", "gpu", "name", "trigger", "events", "total_ns", "longest_ns", "half_seen", "bytes", "failed",
        "first_ns",
    ]  # fmt: skip
    assert found.rows() == [
        (70, "a", 1, "QUEUE_EVICTION", "TTM", 4, 40, 30, 2, None, 0, 400),
        (70, "a", 2, "QUEUE_EVICTION", None, 1, 5, 5, 0, None, 0, 800),
        (99, None, None, "MIGRATE", None, 3, 21, 7, 0, 12288, 2, 900),
        (None, None, None, "THERMAL_THROTTLE", None, 1, None, None, 0, None, 0, 50),
    ]


def test_the_median_error_of_times_is_that_of_events_not_of_widths() -> None:
    """Nine events of ten are known to 1 us; how often a width occurs counts, in any order of the events."""
    widths = [30_000, *[1_000] * 5, 2_000, *[1_000] * 4, None]
    rows = [{"source": "ftrace", "err_lo_ns": 0, "err_hi_ns": width, "flags": 0} for width in widths]
    even = [{"source": "amd_log", "err_lo_ns": width, "err_hi_ns": 100} for width in (5_000, 300, 300, 5_000)]
    assert summarize_time_errors(table("events", *rows, *even)).rows() == [
        ("amd_log", 4, 0, 0, 400, 5_100),
        ("ftrace", 12, 1, 0, 1_000, 30_000),
    ]


def test_the_depth_of_rings_is_summed_up_for_packets_that_print_both_indexes() -> None:
    indexes = [(0, 0), (0, 1), (0, 9), (4, 9), (None, 30), (3, None)]
    packets = [
        {"event": n, "kind": "dispatch", "queue": 7, "packet_ns": 10 * n, "rptr": rptr, "wptr": wptr}
        for n, (rptr, wptr) in enumerate(indexes)
    ]
    others = [
        {"event": 8, "kind": "copy", "queue": 7, "packet_ns": 80, "rptr": 0, "wptr": 99},
        {"event": 9, "kind": "dispatch", "packet_ns": 90, "rptr": 0, "wptr": 99},
    ]
    assert summarize_backlog(table("launches", *packets, *others), table("queues")).rows() == [
        (7, None, 4, 4.8, 10, 10, 2, 20),
    ]


def test_ways_of_copies_come_with_the_most_bytes_first() -> None:
    copy = {"kind": "copy", "engine": 1, "packet_ns": 100}
    launches = table(
        "launches",
        {**copy, "size_bytes": 10, "complete_ns": 130, "gpu_start_ns": 100, "gpu_end_ns": 104},
        {**copy, "size_bytes": 30, "complete_ns": 150, "gpu_start_ns": 110, "gpu_end_ns": 114},
        {**copy, "size_bytes": 20, "complete_ns": 140, "gpu_start_ns": 120, "gpu_end_ns": 120},
        {**copy, "engine": 0, "size_bytes": 500},
        {**copy, "engine": None},
        {"kind": "barrier_and", "kernel": 1, "size_bytes": 7},
        {"kind": "dispatch", "kernel": 1},
        {"kind": "dispatch", "kernel": 2},
    )
    events = table(
        "events",
        *({"layer": "copy", "name": "memcpy_from_staging", "size_bytes": size} for size in (1, 2, 6)),
        {"layer": "copy", "name": "copy", "size_bytes": 900},
        {"layer": "other", "name": "memcpy_from_staging", "size_bytes": 900},
    )
    kernels = table("kernels", {"kernel": 1, "name": "__amd_rocclr_fillBuffer"}, {"kernel": 2, "name": "vadd"})
    own = "hsa copy, engine left to ROCr"
    assert summarize_copies(events, launches, kernels).rows() == [
        (own, 0, 1, 500, 500, None, 0, None),
        ("copy engine (SDMA)", 1, 3, 60, 20, 40, 2, 5.0),
        ("host memcpy out of a staging buffer", None, 3, 9, 2, None, None, None),
        ("blit kernel __amd_rocclr_fillBuffer", None, 1, None, None, None, None, None),
        (own, None, 1, None, None, None, 0, None),
    ]


def test_calls_are_counted_timed_and_told_from_those_that_failed_or_were_half_seen() -> None:
    call = {"layer": "hip", "source": "amd_log", "name": "hipMalloc", "result": "hipSuccess"}
    late, failed = {"result": "hipErrorNotReady"}, {"result": "hipErrorOutOfMemory"}
    events = table(
        "events",
        *({**call, "dur_ns": ns} for ns in (10, 20, 30, 40)),
        *({**call, **failed, "dur_ns": 0} for _ in range(2)),
        *({**call, "result": None} for _ in range(2)),
        *({**call, **late, "name": "hipEventQuery", "dur_ns": 300} for _ in range(2)),
        {**call, "name": "hipFree", "dur_ns": 300},
        {**call, "name": "hiprtcGetCode", "result": "HIPRTC_SUCCESS", "dur_ns": 0},
        {**call, "dur_ns": 7, "source": "rocprof"},
        {**call, "dur_ns": 7, "name": "__hipPushCallConfiguration"},
        {**call, "dur_ns": 7, "layer": "hsa"},
        {"layer": "hip", "source": "amd_log"},
    )
    assert summarize_hip_calls(events).rows() == [
        ("hipEventQuery", 2, 0, 2, 0, 600, 300, 300, 300, 300, 300, 60.0),
        ("hipFree", 1, 0, 0, 0, 300, 300, 300, 300, 300, 300, 30.0),
        ("hipMalloc", 8, 2, 0, 2, 100, 17, 10, 40, 40, 40, 10.0),
        ("hiprtcGetCode", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0),
        (None, 1, None, None, 1, None, None, None, None, None, None, None),
    ]
    assert summarize_internal_calls(events)["name"].to_list() == ["__hipPushCallConfiguration"]


def test_the_making_of_queues_names_who_made_them_and_each_stage() -> None:
    run = make_run()
    run["streams"][0]["create_event"] = 1
    run["events"] += [
        {**run["events"][4], "event": 13, "ts_ns": 1_300, "parent": 4},  # once more for another XCC
        {**run["events"][3], "event": 14, "ts_ns": 1_350, "dur_ns": 10, "name": "pm_send_runlist"},
    ]
    columns = (
        "queue", "pid", "tid", "stream", "call_event", "rocr_ns", "ioctl_ns", "kfd_event", "kfd_ns", "init_mqd_event",
        "mqd_operations", "mqd_ns", "doorbell_map_event",
    )  # fmt: skip
    made = summarize_queue_creation(tables_of(run)).select(columns)
    assert made.row(0) == (0, 100, 100, 0, 1, 850, 300, 4, 250, 5, "init init", 50, 8)
    assert made.row(1) == (1, 100, 100, None, None, None, 300, 12, 20, 11, "init", 50, 8)
    # A second queue of the call: which of them the stream was given is not known.
    run["queues"][1].update(created_line_event=9, hwq=0x99)
    assert summarize_queue_creation(tables_of(run))["stream"].to_list() == [None, None]


def test_the_summary_counts_clocks_once_and_names_the_worst_of_their_errors() -> None:
    run = make_run()
    run["clock_map"] += [
        {"source": "ftrace:mono", "method": "samples", "from_ns": 9, "lo_ns": 600, "hi_ns": 700},
        {"source": "kfd_smi:boot", "method": "unaligned"},
    ]
    for event in run["events"]:
        if event["source"] == "ftrace":
            event.update(err_lo_ns=2_000)
    summary = summarize_capture("x", tables_of(run)).summary
    assert (summary["clocks"], summary["unaligned"], summary["widest_clock"]) == (3, ["kfd_smi:boot"], "ftrace:mono")
    assert (summary["time_error_p50_ns"], summary["time_error_ns"]) == (3_000, 3_000)
    counted = {
        "hip_calls": 4, "ioctls": 3, "queues": 2, "streams": 1, "kernels": 1, "drm_jobs": 2, "dispatches": 2,
        "packets": 2, "packets_and_copies": 3, "doorbell_stores": 2, "doorbells_recorded": 2, "doorbells_inferred": 0,
    }  # fmt: skip
    assert {name: summary[name] for name in counted} == counted


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("shared", True, "yes"), ("shared", False, "no"), ("p50_ns", None, "-"), ("p50_ns", 1_500, "1.50 us"),
        ("first_ns", 2_500_000_000, "2.500000"), ("calls", 7, "7"), ("share", 0.5, "0.5"),
    ],
)  # fmt: skip
def test_a_value_is_written_by_the_name_of_its_column(column: str, value: Any, text: str) -> None:
    assert render_value(column, value) == text
