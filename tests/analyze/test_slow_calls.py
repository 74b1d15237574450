"""Slow calls are taken apart: SYNTHETIC tables of one call whose parts are known."""

from __future__ import annotations

from typing import Any

from analyze_tables import tables_of

from tracecorr.analyze.slow_calls import summarize_slow_calls

_MS = 1_000_000
_CALL = {"event": 0, "layer": "hip", "name": "hipStreamCreateWithPriority", "ts_ns": 0, "dur_ns": 2825 * _MS}


def _row(event: int, layer: str, name: str, at_ms: float, lasts_ms: float | None = None, **more: Any) -> dict[str, Any]:
    dur = None if lasts_ms is None else int(lasts_ms * _MS)
    row = {"event": event, "layer": layer, "name": name, "ts_ns": int(at_ms * _MS), "dur_ns": dur, "chain": 0}
    return {**row, "thread": 0, "tid": 7, "process": 0, "source": "amd_log" if layer == "aql" else "ftrace", **more}


def _tell(*more: dict[str, Any], args: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    call = {**_CALL, "thread": 0, "tid": 7, "process": 0, "source": "amd_log", "chain": 0}
    rows = {
        "events": [
            call,
            _row(1, "aql", "queue_allocated_count", 100),
            _row(2, "syscall", "mmap", 120, 80.3),
            _row(3, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", 210, 0.3),
            _row(4, "aql", "queue_created", 270),
            *more,
        ],
        "threads": [{"thread": 0, "process": 0, "tid": 7}],
        "args": args or [],
    }
    return summarize_slow_calls(tables_of(rows)).row(0, named=True)


def test_the_parts_of_a_call_and_its_rest() -> None:
    row = _tell()
    assert (row["queue_ns"], row["of_queue"], row["of_queue_ns"]) == (170 * _MS, "mmap", 80_300_000)
    assert (row["syscall_ns"], row["ioctl_ns"], row["rest_ns"]) == (80_300_000, 300_000, 2655 * _MS)
    assert row["off_cpu_ns"] is None
    assert row["summary"] == (
        "hipStreamCreateWithPriority 2.83 s: 170.00 ms making the queue, of it one mmap of 80.30 ms; 80.30 ms in 1 "
        "system call; 300.00 us in 1 ioctl; 2.65 s not explained: record with --event-set full to see whether it ran"
    )


def test_locks_calls_inside_and_times_off_the_cpu_are_parts() -> None:
    """What is recorded of the thread's switches says whether the rest of the call ran."""
    away, back = (
        _row(7, "sched", "sched_switch", 900, chain=None),
        _row(8, "sched", "sched_switch", 1900, tid=0, chain=None),
    )
    args = [{"event": 7, "key": "next_pid", "u64": 0}, {"event": 8, "key": "next_pid", "u64": 7}]
    inner = _row(6, "hip", "hipInit", 300, 100, parent=0, source="amd_log")
    row = _tell(_row(5, "syscall", "futex", 500, 50), inner, away, back, args=args)
    assert (row["lock_ns"], row["child_ns"], row["off_cpu_ns"]) == (50 * _MS, 100 * _MS, 1000 * _MS)
    assert row["rest_ns"] == (2825 - 170 - 50 - 100 - 1000) * _MS
    assert row["summary"].endswith("1.00 s off the CPU; 1.50 s not explained: the thread ran on a CPU")
