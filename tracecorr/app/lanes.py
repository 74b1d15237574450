"""Which lanes a capture has, in the order of the path, and which lane an event belongs to (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

# Order of the lanes inside their group: the path from the call down to the hardware.
# A packet is written before its doorbell rings, so its lane stands above.
LAYER_ORDER = (
    "marker", "hip", "command", "signal", "memory", "hsa", "syscall", "ioctl", "kfd", "mqd", "aql",
    "doorbell", "gpu", "copy", "drm_sched", "amdgpu", "hqd", "sched", "other",
)  # fmt: skip

LAYER_LABEL = {
    "hip": "HIP calls", "command": "commands", "signal": "signals", "memory": "memory", "hsa": "ROCr",
    "syscall": "syscalls", "ioctl": "ioctls", "kfd": "KFD functions", "mqd": "MQD", "doorbell": "doorbells",
    "aql": "packets", "gpu": "GPU execution", "copy": "copies", "drm_sched": "DRM scheduler", "amdgpu": "amdgpu",
    "hqd": "HQD", "sched": "CPU scheduler", "marker": "markers", "other": "other",
}  # fmt: skip

QUEUE_LAYERS = frozenset({"doorbell", "aql", "gpu"})
GPU_LAYERS = frozenset({"gpu", "hqd", "drm_sched", "amdgpu"})
# A thread with nothing but these does no GPU work of its own; it is shown folded, behind the queues.
QUIET_LAYERS = frozenset({"syscall", "sched", "marker", "other", "drm_sched"})
PROCESS_LAYERS = frozenset({"copy", "marker", "other"})

KEY = ("layer", "process", "thread", "queue", "gpu")
_LAST = 1 << 40  # sorts what has no owner behind everything else


@dataclass(frozen=True)
class Group:
    """Name one collapsible header: a process, a thread, the queues of a process, a GPU."""

    id: str
    label: str
    parent: str = ""
    folded: bool = False


@dataclass
class Lane:
    """Describe one lane; `rows` and `count` are known once the spans are placed."""

    id: int
    group: str
    label: str
    layer: str
    queue: int | None = None
    rows: int = 1
    count: int = 0


@dataclass(frozen=True)
class Names:
    """Hold the readable names of the owners of lanes, by their key."""

    processes: Mapping[int, str] = field(default_factory=dict)
    threads: Mapping[int, str] = field(default_factory=dict)
    queues: Mapping[int, str] = field(default_factory=dict)
    gpus: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Hold all lanes and groups in display order, and the lane of every key combination."""

    lanes: list[Lane]
    groups: list[Group]
    lane_of: pl.DataFrame


def name_owners(processes: pl.DataFrame, threads: pl.DataFrame, queues: pl.DataFrame, gpus: pl.DataFrame) -> Names:
    """Return the readable names of processes, threads, queues and GPUs."""
    return Names(
        {r["process"]: _process_name(r) for r in processes.iter_rows(named=True)},
        {r["thread"]: _thread_name(r) for r in threads.iter_rows(named=True)},
        {r["queue"]: _queue_name(r) for r in queues.iter_rows(named=True)},
        {r["gpu"]: _gpu_name(r) for r in gpus.iter_rows(named=True)},
    )


def plan_lanes(combinations: pl.DataFrame, names: Names) -> Plan:
    """Return the lanes for the distinct `KEY` combinations of a capture.

    Args:
        combinations: distinct rows of the columns `KEY` (layer as text).
        names: readable names of the owners.
    """
    rows = list(combinations.select(KEY).iter_rows(named=True))
    busy = {(r["process"], r["thread"]) for r in rows if r["layer"] not in QUIET_LAYERS}
    placed = [(_place(row, (row["process"], row["thread"]) in busy), row) for row in rows]
    lanes: dict[tuple[Any, ...], Lane] = {}
    groups: dict[str, Group] = {}
    for key in sorted({key for key, _ in placed}):
        lane = _make_lane(len(lanes), key, names)
        for group in _groups_of(key, names):
            groups.setdefault(group.id, group)
        lanes[key] = lane
    lane_of = pl.DataFrame(
        [{**row, "lane": lanes[key].id} for key, row in placed],
        schema={**{c: combinations.schema[c] for c in KEY}, "lane": pl.Int32},
    )
    return Plan(list(lanes.values()), list(groups.values()), lane_of)


# --- placing one combination ---------------------------------------------------------------------
# A place is (process, section, owner, layer rank, layer): tuples sort into display order.

_THREADS, _QUEUES, _REST, _QUIET = 0, 1, 2, 3


def _place(row: Mapping[str, Any], busy: bool) -> tuple[int, int, int, int, str]:
    layer = row["layer"] or "other"
    rank = LAYER_ORDER.index(layer) if layer in LAYER_ORDER else len(LAYER_ORDER)
    process = _LAST if row["process"] is None else row["process"]
    if layer in QUEUE_LAYERS and row["queue"] is not None:
        return (process, _QUEUES, row["queue"], rank, layer)
    if layer in GPU_LAYERS:
        return (_LAST, _QUEUES, _LAST if row["gpu"] is None else row["gpu"], rank, layer)
    if layer in PROCESS_LAYERS or row["thread"] is None:
        return (process, _REST, 0, rank, layer)
    return (process, _THREADS if busy else _QUIET, row["thread"], rank, layer)


def _groups_of(key: tuple[int, int, int, int, str], names: Names) -> Iterable[Group]:
    process, section, owner, _, _ = key
    if process == _LAST:
        if section == _QUEUES:
            label = names.gpus.get(owner, f"GPU {owner}") if owner != _LAST else "GPU and driver"
            return [Group(f"g{owner}", label)]
        return [Group("capture", "whole capture")] if section == _REST else _thread_groups("capture", owner, names)
    root = Group(f"p{process}", names.processes.get(process, f"process {process}"))
    if section == _QUIET:
        quiet = Group(f"{root.id}.i", "threads without GPU work", root.id, folded=True)
        return [root, quiet, *_thread_groups(quiet.id, owner, names)]
    if section == _THREADS:
        return [root, *_thread_groups(root.id, owner, names)]
    if section == _QUEUES:
        return [root, Group(f"{root.id}.q{owner}", names.queues.get(owner, f"queue {owner}"), root.id)]
    return [root, Group(f"{root.id}.x", "copies and other", root.id)]


def _thread_groups(parent: str, owner: int, names: Names) -> list[Group]:
    return [Group(f"{parent}.t{owner}", names.threads.get(owner, f"thread {owner}"), parent)]


def _make_lane(lane: int, key: tuple[int, int, int, int, str], names: Names) -> Lane:
    process, section, owner, _, layer = key
    label = "queue lines" if layer == "aql" and section == _THREADS else LAYER_LABEL.get(layer, layer)
    group = list(_groups_of(key, names))[-1].id
    if section == _QUEUES and process != _LAST:
        return Lane(lane, group, label, layer, owner)
    return Lane(lane, group, label, layer)


# --- readable names ------------------------------------------------------------------------------


def _process_name(row: Mapping[str, Any]) -> str:
    pid, log_pid = row["pid"], row["log_pid"]
    number = pid if pid is not None else log_pid
    inside = f" (log pid {log_pid})" if log_pid is not None and pid is not None and log_pid != pid else ""
    comm = f" · {row['comm']}" if row["comm"] else ""
    return f"process {number if number is not None else '?'}{inside}{comm}"


def _thread_name(row: Mapping[str, Any]) -> str:
    if row["tid"] is not None:
        number = str(row["tid"])
    else:
        number = f"{row['log_tid']:#x}" if row["log_tid"] is not None else "?"
    comm = f" · {row['comm']}" if row["comm"] else ""
    guessed = " (tid inferred)" if row["evidence"] == "inferred" else ""
    return f"thread {number}{comm}{guessed}"


def _queue_name(row: Mapping[str, Any]) -> str:
    ring = row["hwq"] if row["hwq"] is not None else row["ring_base"]
    priority = row["priority_log"]
    level = (
        {0: "low priority", 1: "normal priority", 2: "high priority"}.get(priority, "") if priority is not None else ""
    )
    parts = [f"queue {row['queue']}", f"HWq {ring:#x}" if ring is not None else None, row["type"], level]
    return " · ".join(p for p in parts if p)


def _gpu_name(row: Mapping[str, Any]) -> str:
    parts = [f"GPU {row['gpu']}", row["gfx_target"], row["pci"]]
    return " · ".join(p for p in parts if p)
