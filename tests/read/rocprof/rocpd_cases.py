"""SYNTHETIC rocpd databases: the tables that rocprofv3 makes (schema version 3), filled by hand.

`write_rocpd` makes the tables with times in the rows (ROCm 7.0 on), `timestamps=True` those with `rocpd_timestamp` and
`rocpd_track`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GUID = "0000ddb5-8903-7903-b269-cd8d3745bb8a"
_COMMON = {
    "metadata": "tag TEXT NOT NULL, value TEXT NOT NULL",
    "string": "guid TEXT, string TEXT NOT NULL UNIQUE",
    "info_node": "guid TEXT, hash BIGINT, machine_id TEXT, hostname TEXT",
    "info_process": "guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, command TEXT, extdata JSONB DEFAULT '{}'",
    "info_thread": "guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, name TEXT",
    "info_agent": "guid TEXT, nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, name TEXT",
    "info_queue": "guid TEXT, nid INTEGER, pid INTEGER, name TEXT",
    "info_stream": "guid TEXT, nid INTEGER, pid INTEGER, name TEXT",
    "info_kernel_symbol": "guid TEXT, nid INTEGER, pid INTEGER, code_object_id INTEGER, kernel_name TEXT, "
    "display_name TEXT, kernel_object INTEGER, extdata JSONB DEFAULT '{}'",
    "info_pmc": "guid TEXT, nid INTEGER, pid INTEGER, agent_id INTEGER, name TEXT NOT NULL, symbol TEXT NOT NULL",
    "pmc_event": "guid TEXT, event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL DEFAULT 0.0",
    "event": "guid TEXT, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, "
    "extdata JSONB DEFAULT '{}'",
}
_WHERE = "nid INTEGER, pid INTEGER, tid INTEGER, "
_SIZES = ", ".join(f"{a}_size_{b} INTEGER" for a in ("workgroup", "grid") for b in "xyz")
_DIRECT = {
    "track": "guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, name_id INTEGER, extdata JSONB DEFAULT '{}'",
    "region": f'guid TEXT, {_WHERE}start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER',
    "sample": "guid TEXT, track_id INTEGER, timestamp BIGINT, event_id INTEGER",
    "kernel_dispatch": f"guid TEXT, {_WHERE}agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, "
    f'queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, {_SIZES}, region_name_id INTEGER, '
    "event_id INTEGER",
    "memory_copy": f'guid TEXT, {_WHERE}start BIGINT, "end" BIGINT, name_id INTEGER, dst_agent_id INTEGER, '
    "dst_address INTEGER, src_agent_id INTEGER, src_address INTEGER, size INTEGER, queue_id INTEGER, "
    "stream_id INTEGER, event_id INTEGER",
    "memory_allocate": f'guid TEXT, {_WHERE}agent_id INTEGER, type TEXT, level TEXT, start BIGINT, "end" BIGINT, '
    "address INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER",
}
_TIMES = "track_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER"
_STAMPED = {
    "track": "guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, "
    "stream_id INTEGER, name_id INTEGER, extdata JSONB DEFAULT '{}'",
    "timestamp": "guid TEXT, value BIGINT NOT NULL, phase INTEGER, track_id INTEGER",
    "region": f"guid TEXT, {_TIMES}, name_id INTEGER",
    "sample": "guid TEXT, track_id INTEGER, name_id INTEGER, timestamp_id INTEGER, event_id INTEGER",
    "kernel_dispatch": f"guid TEXT, {_TIMES}, kernel_id INTEGER, dispatch_id INTEGER, {_SIZES}, region_name_id INTEGER",
    "memory_copy": f"guid TEXT, {_TIMES}, name_id INTEGER, size INTEGER, dst_address INTEGER, src_address INTEGER",
    "memory_allocate": f"guid TEXT, {_TIMES}, type TEXT, level TEXT, name_id INTEGER, address INTEGER, size INTEGER",
}


@dataclass
class Profile:
    """Hold what a SYNTHETIC profile says: rows of (tid, correlation id, start_ns, end_ns, ...).

    Args:
        pid: of the process.
        calls: (category, tid, correlation, start, end, name); start == end makes a sample.
        kernels: (tid, correlation, start, end, queue, dispatch id, kernel name).
        copies: (tid, correlation, start, end, name, size).
        memory: (tid, correlation, start, end, level, type, size).
        counters: (dispatch id, name, values of the instances of its block).
    """

    pid: int = 31
    calls: list[tuple[str, int, int, int, int, str]] = field(default_factory=list)
    kernels: list[tuple[int, int, int, int, int, int, str]] = field(default_factory=list)
    copies: list[tuple[int, int, int, int, str, int]] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, str, str, int]] = field(default_factory=list)
    counters: list[tuple[int, str, tuple[float, ...]]] = field(default_factory=list)


SMALL = Profile(
    calls=[
        ("HIP_RUNTIME_API_EXT", 32, 1, 1000, 1100, "hipMalloc"),
        ("HIP_RUNTIME_API_EXT", 32, 2, 1200, 1300, "hipLaunchKernel"),
        ("HSA_CORE_API", 32, 3, 1250, 1260, "hsa_signal_store_screlease"),
        ("MARKER_CORE_API", 32, 4, 1400, 1400, "roctxMarkA"),
    ],
    kernels=[(32, 2, 2000, 2500, 2, 7, "vadd(float*, int)")],
    copies=[(32, 5, 3000, 3300, "MEMORY_COPY_HOST_TO_DEVICE", 4096)],
    memory=[(32, 1, 1010, 1050, "REAL", "ALLOC", 8192)],
    counters=[(7, "SQ_WAVES", (64, 32)), (7, "MeanOccupancy", (0.5,))],
)


class _Writer:
    def __init__(self, path: Path, guid: str, timestamps: bool) -> None:
        self.db = sqlite3.connect(path)
        self.suffix = "_" + guid.replace("-", "_")
        self.timestamps = timestamps
        for name, columns in (_COMMON | (_STAMPED if timestamps else _DIRECT)).items():
            self.db.execute(
                f'CREATE TABLE "rocpd_{name}{self.suffix}" (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, {columns})'
            )
            self.db.execute(f'CREATE VIEW IF NOT EXISTS "rocpd_{name}" AS SELECT * FROM "rocpd_{name}{self.suffix}"')

    def add(self, table: str, **values: Any) -> int:
        names = ", ".join(f'"{k}"' for k in values)
        marks = ", ".join("?" * len(values))
        done = self.db.execute(
            f'INSERT INTO "rocpd_{table}{self.suffix}" ({names}) VALUES ({marks})', tuple(values.values())
        )
        assert done.lastrowid is not None
        return done.lastrowid

    def string(self, text: str) -> int:
        found = self.db.execute(f'SELECT id FROM "rocpd_string{self.suffix}" WHERE string = ?', (text,)).fetchone()
        return int(found[0]) if found else self.add("string", string=text)

    def event(self, category: str, correlation: int, message: str = "") -> int:
        extdata = f'{{"message": "{message}"}}' if message else "{}"
        return self.add("event", category_id=self.string(category), stack_id=correlation, extdata=extdata)

    def place(self, pid: int, tid: int, start: int, end: int, **where: Any) -> dict[str, Any]:
        """Return the columns of owner and times in either layout."""
        if not self.timestamps:
            return {"pid": pid, "tid": tid, "start": start, "end": end, **where}
        track = self.add("track", pid=pid, tid=tid, **where)
        stamps = [self.add("timestamp", value=v, phase=p) for p, v in ((1, start), (2, end))]
        return {"track_id": track, "start_id": stamps[0], "end_id": stamps[1]}


def write_rocpd(path: Path, profile: Profile = SMALL, guid: str = GUID, timestamps: bool = False) -> Path:
    """Write a SYNTHETIC database and return its path; a second call with another guid adds its tables."""
    w = _Writer(path, guid, timestamps)
    w.add("metadata", tag="schema_version", value="3")
    w.add("info_process", id=profile.pid, pid=profile.pid, command="synthetic")
    for tid in sorted({c[1] for c in profile.calls} | {k[0] for k in profile.kernels}):
        w.add("info_thread", id=tid, pid=profile.pid, tid=tid)
    for category, tid, correlation, start, end, name in profile.calls:
        message = "phase one" if category.startswith("MARKER") else ""
        event = w.event(category, correlation, message)
        if start != end:
            place = w.place(profile.pid, tid, start, end)
            w.add("region", name_id=w.string(name), event_id=event, **place)
        elif timestamps:
            track, stamp = w.add("track", pid=profile.pid, tid=tid), w.add("timestamp", value=start, phase=0)
            w.add("sample", track_id=track, name_id=w.string(name), timestamp_id=stamp, event_id=event)
        else:
            track = w.add("track", pid=profile.pid, tid=tid, name_id=w.string(category))
            w.add("sample", track_id=track, timestamp=start, event_id=event)
    symbols: dict[str, int] = {}
    agent = w.add("info_agent", type="GPU", absolute_index=4, name="gfx942")
    for tid, correlation, start, end, queue, dispatch, kernel in profile.kernels:
        if kernel not in symbols:
            symbols[kernel] = w.add("info_kernel_symbol", kernel_name=f"{kernel}.kd", display_name=kernel)
        event = w.event("KERNEL_DISPATCH", correlation)
        place = w.place(profile.pid, tid, start, end, queue_id=queue, agent_id=agent)
        w.add("kernel_dispatch", kernel_id=symbols[kernel], dispatch_id=dispatch, event_id=event, **place)
        for of, name, values in profile.counters:
            counter = w.add("info_pmc", name=name, symbol=name) if of == dispatch else None
            for value in values if counter else ():
                w.add("pmc_event", event_id=event, pmc_id=counter, value=value)
    for tid, correlation, start, end, name, size in profile.copies:
        event, place = w.event("MEMORY_COPY", correlation), w.place(profile.pid, tid, start, end)
        w.add("memory_copy", name_id=w.string(name), size=size, event_id=event, **place)
    for tid, correlation, start, end, level, type_, size in profile.memory:
        event, place = w.event("MEMORY_ALLOCATION", correlation), w.place(profile.pid, tid, start, end)
        w.add("memory_allocate", level=level, type=type_, size=size, event_id=event, **place)
    w.db.commit()
    w.db.close()
    return path


def sdk_json(profile: Profile = SMALL) -> dict[str, Any]:
    """Return a SYNTHETIC JSON of rocprofv3 that says the same."""
    kinds: list[dict[str, Any]] = [{"kind": "NONE", "operations": []}]

    def names(kind: str, operation: str) -> dict[str, Any]:
        if kind not in [k["kind"] for k in kinds]:
            kinds.append({"kind": kind, "operations": []})
        place = [k["kind"] for k in kinds].index(kind)
        if operation not in kinds[place]["operations"]:
            kinds[place]["operations"].append(operation)
        return {"kind": place, "operation": kinds[place]["operations"].index(operation)}

    def record(kind: str, operation: str, tid: int, correlation: int, start: int, end: int) -> dict[str, Any]:
        return {
            "size": 64, **names(kind, operation), "correlation_id": {"internal": correlation, "external": 0},
            "start_timestamp": start, "end_timestamp": end, "thread_id": tid,
        }  # fmt: skip

    kernels = sorted({k[6] for k in profile.kernels})
    records: dict[str, list[dict[str, Any]]] = {
        "kernel_dispatch": [
            {
                **record("KERNEL_DISPATCH", "KERNEL_DISPATCH_COMPLETE", *k[:4]),
                "dispatch_info": {
                    "agent_id": {"handle": 3}, "queue_id": {"handle": k[4]}, "kernel_id": kernels.index(k[6]) + 1,
                    "dispatch_id": k[5], "grid_size": {"x": 64, "y": 1, "z": 1},
                },
            }
            for k in profile.kernels
        ],
        "hip_api": [record(c[0], c[5], *c[1:5]) for c in profile.calls if c[0].startswith("HIP")],
        "hsa_api": [record(c[0], c[5], *c[1:5]) for c in profile.calls if c[0].startswith("HSA")],
        "marker_api": [record(c[0], c[5], *c[1:5]) for c in profile.calls if c[0].startswith("MARKER")],
        "memory_copy": [{**record("MEMORY_COPY", c[4], *c[:4]), "bytes": c[5]} for c in profile.copies],
        "memory_allocation": [
            {**record("MEMORY_ALLOCATION", f"MEMORY_ALLOCATION_{m[5]}ATE", *m[:4]), "allocation_size": m[6]}
            for m in profile.memory
        ],
    }  # fmt: skip
    markers = [{"key": c[2], "value": "phase one"} for c in profile.calls if c[0].startswith("MARKER")]
    symbols = [
        {"kernel_id": i + 1, "kernel_name": f"{n}.kd", "formatted_kernel_name": n} for i, n in enumerate(kernels)
    ]
    process = {
        "metadata": {"pid": profile.pid, "command": ["synthetic"]}, "agents": [{"id": {"handle": 3}, "node_id": 4}],
        "strings": {"buffer_records": kinds, "marker_api": markers}, "kernel_symbols": symbols,
        "counters": [{"id": {"handle": i}, "name": c[1]} for i, c in enumerate(profile.counters)],
        "callback_records": {"counter_collection": [_collect(profile, k) for k in records["kernel_dispatch"]]},
        "buffer_records": records,
    }  # fmt: skip
    return {"rocprofiler-sdk-tool": [process]}


def _collect(profile: Profile, dispatch: dict[str, Any]) -> dict[str, Any]:
    """Return the counters of a dispatch as the JSON has them."""
    own = dispatch["dispatch_info"]["dispatch_id"]
    values = [
        {"counter_id": {"handle": i}, "value": value}
        for i, (of, _, told) in enumerate(profile.counters) if of == own for value in told
    ]  # fmt: skip
    return {"thread_id": dispatch["thread_id"], "dispatch_data": dispatch, "records": values}
