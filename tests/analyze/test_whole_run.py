"""What a report tells of the whole run: time by layer, iterations, devices, system calls, packets, kernels."""

from __future__ import annotations

from typing import Any

import pytest
from analyze_tables import Rows, tables_of

from tracecorr.analyze.compare.counts import compare_packets_per_call, name_extra_packets
from tracecorr.analyze.ioctls import summarize_devices, summarize_syscalls
from tracecorr.analyze.latency import summarize_iterations, summarize_kernel_latency, summarize_layers
from tracecorr.analyze.launches import summarize_fences
from tracecorr.analyze.queues import summarize_refcounts
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.run_facts import list_machine


def _event(event: int, layer: str, name: str, at: int, lasts: int | None = None, **more: Any) -> dict[str, Any]:
    row = {"event": event, "layer": layer, "name": name, "ts_ns": at, "dur_ns": lasts, "process": 0, "thread": 0}
    return {**row, "source": "ftrace", **more}


def test_the_run_by_layer_counts_what_runs_at_once_once() -> None:
    events = [
        _event(0, "hip", "a", 0, 40), _event(1, "hip", "b", 20, 40, thread=1), _event(2, "syscall", "mmap", 5, 10),
        _event(3, "hip", "half seen", 100),
    ]  # fmt: skip
    rows = summarize_layers(tables_of({"events": events})).rows()
    assert rows == [("hip", 2, 80, 60, 60.0), ("syscall", 1, 10, 10, 10.0)]


def _launches(kernels: list[int], step: int = 100) -> list[dict[str, Any]]:
    return [
        {"event": i, "kind": "dispatch", "process": 0, "kernel": kernel, "packet_ns": step * i}
        for i, kernel in enumerate(kernels)
    ]


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        ([9, *[1, 1, 2] * 120], (3, "k2", 119, 300, 300, 0)),
        ([1] * 101, (1, "k1", 100, 100, 100, 0)),
        ([1] * 6, (1, "k1", 5, 100, 100, None)),
        (list(range(40)), None),
    ],
)
def test_iterations_are_the_period_of_the_kernels(kernels: list[int], found: tuple[Any, ...] | None) -> None:
    names = [{"kernel": kernel, "name": f"k{kernel}", "display": f"k{kernel}"} for kernel in set(kernels)]
    rows = summarize_iterations(tables_of({"launches": _launches(kernels), "kernels": names}))
    columns = ("kernels", "kernel", "iterations", "mean_ns", "p50_ns", "jitter_ns")
    assert rows.select(columns).rows() == ([] if found is None else [found])


def test_devices_and_system_calls() -> None:
    events = [
        _event(0, "syscall", "openat", 10, 5, result="3"), _event(1, "ioctl", "AMDKFD_IOC_GET_VERSION", 30, 2),
        _event(2, "syscall", "openat", 50, 9, result="ENOENT"), _event(3, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", 70, 3),
    ]  # fmt: skip
    args = [{"event": 0, "key": "path", "text": "/dev/kfd"}]
    args += [{"event": event, "key": key, "text": text} for event in (1, 3) for key, text in (
        ("device", "/dev/kfd"), ("device_by", "open"),
    )]  # fmt: skip
    tables = tables_of({"events": events, "args": args, "threads": [{"thread": 0, "process": 0, "comm": "python"}]})
    (row,) = summarize_devices(tables).rows()
    assert row == (0, "/dev/kfd", 10, 0, "python", 2, 1, 30, "python", "open", True)
    info = {"devices": {"4242": {"open": ["4 /dev/kfd"], "mapped": []}}}
    (answer,) = (one for one in summarize_capture("x", tables, info).answers if "/dev/kfd" in one.question)
    assert answer.lines[0].startswith(
        "/dev/kfd, process 0: opened at 0.000000 s by thread python (event 0); 2 calls on"
    )
    assert answer.lines[1] == "/proc showed while it ran: process 4242 had open descriptor 4 /dev/kfd"
    (row,) = summarize_syscalls(tables("events")).to_dicts()
    assert [row[key] for key in ("name", "calls", "errors", "total_ns", "max_ns", "longest")] == [
        "openat", 2, 1, 14, 9, 2,
    ]  # fmt: skip


def test_fences_and_reference_counts() -> None:
    launch = {"kind": "dispatch", "queue": 0, "header": 0xB02, "barrier": True, "acquire": 1, "release": 1}
    rows: Rows = {"launches": [{**launch, "event": 0}, {**launch, "event": 1}]}
    assert summarize_fences(tables_of(rows)("launches")).rows() == [(0, "dispatch", True, "agent", "agent", 2, 0)]
    counts = [("queue_acquired", 1), ("queue_selected", 2), ("queue_released", 1)]
    rows = {
        "events": [_event(i, "aql", name, i, queue=0) for i, (name, _) in enumerate(counts)],
        "args": [{"event": i, "key": "refcount", "u64": count} for i, (_, count) in enumerate(counts)],
        "stream_queues": [{"stream": stream, "queue": 0} for stream in (1, 0)],
    }
    assert summarize_refcounts(tables_of(rows)).rows() == [(0, 1, 1, 1, 2, 1, True, "0 1")]


def test_latency_by_kernel_tells_first_launches_apart_and_p99_only_of_a_hundred() -> None:
    launches = [
        {"event": i, "kind": "dispatch", "process": 0, "kernel": 0, "call_event": 1000 + i, "call_ns": 0,
         "doorbell_ns": 500 if i == 0 else 10}
        for i in range(101)
    ]  # fmt: skip
    tables = tables_of({"launches": launches, "kernels": [{"kernel": 0, "name": "k", "display": "k"}], "events": []})
    rows = summarize_kernel_latency(tables("launches"), tables("events"), tables("kernels"))
    assert rows.drop("kernel", "p95_ns").rows() == [
        ("first", "call to doorbell", 1, 500, None, 500), ("steady", "call to doorbell", 100, 10, 10, 10),
    ]  # fmt: skip


def test_one_barrier_more_per_synchronisation_is_a_finding() -> None:
    def side(barriers: int) -> Any:
        calls = [_event(i, "hip", "hipDeviceSynchronize", i, source="amd_log") for i in range(4)]
        packets = [
            {"event": 10 + i, "kind": "barrier_and", "call_event": i % 4, "process": 0} for i in range(4 * barriers)
        ]
        return tables_of({"events": calls, "launches": packets})

    frame = compare_packets_per_call(side(1), side(2))
    assert list(name_extra_packets(frame, [True, True])) == [
        "barrier_and per hipDeviceSynchronize: 1.00 in A, 2.00 in B"
    ]
    assert not list(name_extra_packets(compare_packets_per_call(side(1), side(1)), [True, True]))
    assert not list(name_extra_packets(frame, [True, False]))


def test_the_machine_is_told_by_capture_topology_and_log() -> None:
    gpu = {"gpu": 0, "gfx_target": "gfx942", "cus": 80, "xcc_count": 4, "partition": "SPX", "firmware": "MEC 190"}
    rows: Rows = {
        "gpus": [gpu],
        "events": [_event(0, "other", "hip_version", 0, source="amd_log")],
        "args": [{"event": 0, "key": "version", "text": "HIP Version: 7.2"}],
    }
    host = {"kernel": "6.12", "parameters": {"num_kcq": "2"}, "gpus": {"0000:c5:00.0": "AMD Instinct MI300X"}}
    info = {"host": host, "environment": {"GPU_MAX_HW_QUEUES": "8"}, "packages": {"torch": "2.9.0+rocm6.4"}}
    assert list_machine(tables_of(rows), info).select("what", "value").rows() == [
        ("kernel", "6.12"), ("GPU 0", "gfx942, 80 CUs, 4 XCCs, SPX, MEC 190"), ("HIP", "HIP Version: 7.2"),
        ("GPU at 0000:c5:00.0", "AMD Instinct MI300X"), ("Python package torch", "2.9.0+rocm6.4"),
        ("environment GPU_MAX_HW_QUEUES", "8"), ("amdgpu.num_kcq", "2"),
    ]  # fmt: skip
