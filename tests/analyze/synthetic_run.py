"""A SYNTHETIC run in which all is well: every verdict on it is PASS. Tests change it to see the others.

One process makes one high-priority queue (ioctl 3 to 12) and one SDMA queue, launches two kernels, copies once.
"""

from __future__ import annotations

from analyze_tables import Rows

RING, SDMA_RING = 0x3C00000, 0x10E00000
_DOORBELL_OFFSET = (3 << 62) | (0xF7BC << 46)


def make_run() -> Rows:
    """Return the tables of the run, as lists of rows."""
    return {
        "events": [_fill(row) for row in _EVENTS],
        "args": [{"event": 7, "key": "prio", "u64": 11}],
        "launches": [_packet(20, 0), _packet(24, 1), _copy(28)],
        "queues": [
            {
                "queue": 0, "process": 0, "gpu": 0, "hwq": RING, "ring_base": RING, "priority_hip": -1,
                "priority_log": 2, "priority_ioctl": 7, "type": "compute_aql", "size": 16384, "created_ns": 1_900,
                "created_line_event": 9, "create_ioctl_event": 3, "dispatches": 2, "barriers": 0,
            },
            {"queue": 1, "process": 0, "gpu": 0, "ring_base": SDMA_RING, "type": "sdma", "created_ns": 4_000,
             "create_ioctl_event": 10, "dispatches": 0, "barriers": 0},
        ],
        "streams": [{"stream": 0, "process": 0, "handle": 0x5500, "priority": -1}],
        "stream_queues": [{"stream": 0, "queue": 0, "from_ns": 5_000, "to_ns": 6_000}],
        "kernels": [{"kernel": 0, "name": "gemm(float*)", "display": "gemm"}],
        "processes": [{"process": 0, "pid": 100, "log_pid": 1}, {"process": 1, "pid": 2}],
        "threads": [{"thread": 0, "process": 0, "tid": 100, "log_tid": 0x7F00}],
        "gpus": [{"gpu": 0, "gpu_id": 0xF7BC, "scheduler": "HWS"}],
        "links": [
            {"from_event": 1, "to_event": 9, "rule": "call_nesting", "gap_ns": 900, "gap_err_ns": 1000},
            {"from_event": 20, "to_event": 21, "rule": "doorbell_of_packet", "gap_ns": 5, "gap_err_ns": 1},
        ],
        "drm_jobs": [
            {"job": 0, "ring": "sdma0", "ring_kind": "sdma", "process": 1, "queue_event": 40},
            {"job": 1, "ring": "comp_1.0.0", "ring_kind": "kcq", "process": 1, "queue_event": 41},
        ],
        "hqd": [
            {"snapshot": 0, "dump": "hqds", "type": "hiq", "active": True},
            {"snapshot": 0, "dump": "hqds", "type": "cp", "active": True, "quantum": 0x111, "queue": 0,
             "queue_priority": 11, "pipe_priority": 2},
        ],
        "clock_map": [
            {"source": "amd_log:mono", "method": "same_clock", "lo_ns": 0, "hi_ns": 0, "pairs": 0, "violated": 0},
            {"source": "ftrace:mono", "method": "samples", "lo_ns": 400, "hi_ns": 500, "pairs": 9, "violated": 0},
        ],
        "files": [
            {"file": 0, "path": "raw/amd_log/0-amd.log", "source": "amd_log", "size": 100},
            {"file": 1, "path": "raw/ftrace/0-ftrace.txt", "source": "ftrace", "size": 100},
        ],
        "ledger": [
            {"file": f, "source": s, "outcome": "used", "reason": "", "records": 9, "bytes": 100}
            for f, s in ((0, "amd_log"), (1, "ftrace"))
        ],
        "losses": [],
    }  # fmt: skip


def _event(event: int, ts_ns: int, dur_ns: int | None, layer: str, name: str, **more: object) -> dict[str, object]:
    return {"event": event, "ts_ns": ts_ns, "dur_ns": dur_ns, "layer": layer, "name": name, **more}


_EVENTS = [
    _event(1, 1_000, 1_000, "hip", "hipStreamCreateWithPriority"),
    _event(2, 1_050, None, "aql", "queue_allocated_count", parent=1),
    _event(3, 1_100, 300, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", result="0", parent=1),
    _event(4, 1_110, 250, "kfd", "kfd_ioctl_create_queue", result="0", parent=3),
    _event(5, 1_150, 20, "mqd", "init_mqd_v9_4_3", parent=4),
    _event(6, 1_500, 100, "ioctl", "AMDKFD_IOC_UPDATE_QUEUE", result="0", parent=1),
    _event(7, 1_510, 80, "kfd", "kfd_ioctl_update_queue", result="0", parent=6),
    _event(8, 1_700, 10, "syscall", "mmap", arg=_DOORBELL_OFFSET, parent=1),
    _event(9, 1_900, None, "aql", "queue_created", queue=0, parent=1),
    _event(10, 3_500, 300, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", result="0"),
    _event(11, 3_550, 20, "mqd", "init_mqd_sdma", parent=10),
    _event(12, 3_600, 20, "kfd", "pm_send_runlist", parent=10),
    _event(19, 5_000, 900, "hip", "hipLaunchKernel"),
    _event(20, 5_400, None, "aql", "dispatch", queue=0, parent=19),
    _event(21, 5_405, None, "doorbell", "doorbell", queue=0, packet_index=0, parent=20),
    _event(23, 6_000, 900, "hip", "hipLaunchKernel"),
    _event(24, 6_400, None, "aql", "dispatch", queue=0, parent=23),
    _event(25, 6_405, None, "doorbell", "doorbell", queue=0, packet_index=1, parent=24),
    _event(27, 7_000, 900, "hip", "hipMemcpy"),
    _event(28, 7_400, None, "copy", "copy", parent=27, size_bytes=4096),
    _event(40, 7_500, None, "drm_sched", "drm_sched_job", process=1),
    _event(41, 7_600, None, "drm_sched", "drm_sched_job", process=1),
]
_CHAINS = {1: range(1, 10), 19: range(19, 22), 23: range(23, 26), 27: range(27, 29)}
_LOG_LAYERS = ("hip", "aql", "copy")


def _fill(row: dict[str, object]) -> dict[str, object]:
    """Return an event with the columns that follow from its others."""
    source = "amd_log" if row["layer"] in _LOG_LAYERS else "ftrace"
    chain = next((root for root, members in _CHAINS.items() if row["event"] in members), None)
    common = {"source": source, "evidence": "recorded", "process": 0, "thread": 0, "err_lo_ns": 0, "err_hi_ns": 1000}
    return {**common, "chain": chain, **row}


def _packet(event: int, index: int) -> dict[str, object]:
    call_ns = 5_000 + 1_000 * index
    return {
        "event": event, "kind": "dispatch", "process": 0, "thread": 0, "gpu": 0, "call_event": event - 1,
        "doorbell_event": event + 1, "queue": 0, "stream": 0, "kernel": 0, "packet_index": index, "call_ns": call_ns,
        "packet_ns": call_ns + 400, "doorbell_ns": call_ns + 405, "return_ns": call_ns + 900,
        "doorbell_evidence": "recorded", "rptr": 0, "wptr": index,
    }  # fmt: skip


def _copy(event: int) -> dict[str, object]:
    return {
        "event": event, "kind": "copy", "process": 0, "thread": 0, "call_event": event - 1, "stream": 0,
        "call_ns": 7_000, "packet_ns": 7_400, "return_ns": 7_900, "complete_ns": 7_800, "engine": 1, "size_bytes": 4096,
    }  # fmt: skip
