"""Whole rows of the report's tables, every number of them counted by hand (all SYNTHETIC)."""

from __future__ import annotations

from typing import Any

import pytest
from analyze_tables import table

from tracecorr.analyze.calls import summarize_hip_calls, summarize_internal_calls
from tracecorr.analyze.memory import summarize_copies
from tracecorr.analyze.values import render_value


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
    own = "hsa copy, ROCr chose the engine"
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


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("shared", True, "yes"), ("shared", False, "no"), ("p50_ns", None, "-"), ("p50_ns", 1_500, "1.50 us"),
        ("first_ns", 2_500_000_000, "2.500000"), ("calls", 7, "7"), ("share", 0.5, "0.5"),
    ],
)  # fmt: skip
def test_a_value_is_written_by_the_name_of_its_column(column: str, value: Any, text: str) -> None:
    assert render_value(column, value) == text
