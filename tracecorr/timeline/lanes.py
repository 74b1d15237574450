"""Which lanes a capture has, in the order of the path, and which lane a drawn thing belongs to (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

# Lanes that are no layer of `events`: derived from other tables.
DEPTH, SAMPLE, SCHEDULER, DRM_WAIT, DRM_RUN = "depth", "sample", "scheduler", "drm_wait", "drm_run"


@dataclass(frozen=True)
class _Layer:
    """Describe the lanes of one layer: a new one is one line of `_LAYERS`.

    Args:
        name: of the layer.
        label: of its lanes.
        colour: of what is drawn in them, here, in charts and in exports.
        on_queue: its lanes stand below their queue.
        on_gpu: its lanes stand below their GPU.
        is_quiet: a thread with nothing but such lanes does no GPU work of its own; it is folded, behind the queues.
        is_runtime: a thread with such lanes, but no HIP call, is one that the runtime started for itself.
        is_counter: its records are values over time.
    """

    name: str
    label: str
    colour: str
    on_queue: bool = False
    on_gpu: bool = False
    is_quiet: bool = False
    is_runtime: bool = False
    is_counter: bool = False


# Colours: Okabe-Ito and shades of it, safe for colour-blind readers. The order is that of the lanes in their group: the
# path from the call down to the hardware.
# A packet is written before its doorbell rings, so its lane stands above.
_LAYERS = (
    _Layer("marker", "markers, ranges", "#B8A800", is_quiet=True),
    _Layer("hip", "HIP calls", "#0072B2"),
    _Layer("command", "commands", "#56B4E9", is_runtime=True),
    _Layer("signal", "signals, waits", "#8F8A2E", is_runtime=True),
    _Layer("memory", "memory", "#6F7F94", is_runtime=True),
    _Layer("hsa", "ROCr", "#3A8FC2", is_runtime=True),
    _Layer("syscall", "syscalls", "#7A7A7A", is_quiet=True),
    _Layer("ioctl", "ioctls", "#D55E00"),
    _Layer("kfd", "KFD functions", "#A84A00"),
    _Layer("mqd", "MQD operations", "#CC79A7"),
    _Layer("aql", "packets", "#009E73", on_queue=True),
    _Layer("doorbell", "doorbells", "#E6A817", on_queue=True),
    _Layer(DEPTH, "depth (wptr - rptr + 1)", "#4C8F7C", on_queue=True, is_counter=True),
    _Layer("gpu", "GPU execution", "#00795A", on_queue=True, on_gpu=True),
    _Layer("copy", "copies", "#56B4E9", is_runtime=True),
    _Layer("smi", "evictions, faults", "#B22222"),
    _Layer("kernel", "kernel log", "#A0522D", on_gpu=True),
    _Layer(SCHEDULER, "hardware scheduler", "#B5651D", on_gpu=True),
    _Layer("amdgpu", "amdgpu events", "#8C6D1F", on_gpu=True),
    _Layer("drm_sched", "DRM scheduler", "#9A4F78", on_gpu=True, is_quiet=True),
    _Layer(DRM_WAIT, "waiting", "#C79AB2", on_gpu=True),
    _Layer(DRM_RUN, "running", "#9A4F78", on_gpu=True),
    _Layer("hqd", "HQD", "#5A5AA8", on_gpu=True),
    _Layer(SAMPLE, "sample", "#6E7FA8", is_counter=True),
    _Layer("sched", "CPU scheduler", "#9AA0A6", is_quiet=True),
    _Layer("other", "other", "#8A8A8A", is_quiet=True),
)
_RANK = {layer.name: rank for rank, layer in enumerate(_LAYERS)}
_LABEL = {layer.name: layer.label for layer in _LAYERS}
COLOURS = {layer.name: layer.colour for layer in _LAYERS}
_QUEUE_LAYERS = frozenset(layer.name for layer in _LAYERS if layer.on_queue)
_GPU_LAYERS = frozenset(layer.name for layer in _LAYERS if layer.on_gpu)
_QUIET_LAYERS = frozenset(layer.name for layer in _LAYERS if layer.is_quiet)
_RUNTIME_LAYERS = frozenset(layer.name for layer in _LAYERS if layer.is_runtime)
_COUNTERS = frozenset(layer.name for layer in _LAYERS if layer.is_counter)

KEY = ("layer", "process", "thread", "queue", "gpu", "sub")
QUEUE_LINES = "queue lines"  # `sub` of what the log tells of a queue's life: no packets
_LAST = 1 << 40  # sorts what has no owner behind everything else

# Sorts into display order: root, section, owner, queue (-1: no lane of a queue), layer rank, layer, sub.
_Place = tuple[int, int, int, int, int, str, str]
_THREADS, _QUEUES, _COPIES, _RUNTIME, _QUIET = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Group:
    """Name one collapsible header: a process, a thread, the queues of a process, a GPU."""

    id: str
    label: str
    parent: str = ""
    folded: bool = False


@dataclass
class Lane:
    """Describe one lane; what has a default and no owner is known once the records are placed."""

    id: int
    group: str
    label: str
    layer: str
    process: int | None = None
    thread: int | None = None
    queue: int | None = None
    gpu: int | None = None
    rows: int = 1
    count: int = 0
    peak: float = 0.0  # highest value of a counter

    @property
    def is_counter(self) -> bool:
        """Tell whether its records are values over time, drawn as a strip."""
        return self.layer in _COUNTERS


@dataclass(frozen=True)
class Names:
    """Hold the readable names of the owners of lanes, by their key."""

    processes: Mapping[int, str] = field(default_factory=dict)
    threads: Mapping[int, str] = field(default_factory=dict)
    queues: Mapping[int, str] = field(default_factory=dict)
    queue_numbers: Mapping[int, str] = field(default_factory=dict)  # with their node or side, without their properties
    gpus: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Hold all lanes and groups in display order, and the lane of every key combination."""

    lanes: list[Lane]
    groups: list[Group]
    lane_of: pl.DataFrame


def name_owners(tables: Callable[[str], pl.LazyFrame]) -> Names:
    """Return the readable names of processes, threads, queues (with their streams) and GPUs.

    Args:
        tables: gives the table of a capture by its name.
    """
    processes, threads, queues, gpus = (tables(t).collect() for t in ("processes", "threads", "queues", "gpus"))
    streams = _name_streams(tables("stream_queues"), tables("streams"))
    return Names(
        {r["process"]: _process_name(r) for r in processes.iter_rows(named=True)},
        {r["thread"]: _thread_name(r) for r in threads.iter_rows(named=True)},
        {r["queue"]: _queue_name(r, streams.get(r["queue"], "")) for r in queues.iter_rows(named=True)},
        {r["queue"]: _queue_number(r) for r in queues.iter_rows(named=True)},
        {r["gpu"]: _gpu_name(r) for r in gpus.iter_rows(named=True)},
    )


def plan_lanes(combinations: pl.DataFrame, names: Names) -> Plan:
    """Return the lanes for the distinct `KEY` combinations of a capture.

    Args:
        combinations: distinct rows of the columns `KEY` (layer and sub as text).
        names: readable names of the owners.
    """
    rows = list(combinations.select(KEY).iter_rows(named=True))
    section_of = _thread_sections(rows)
    users = _queue_users(rows, section_of)
    placed = [(_place(row, section_of, users), row) for row in rows]
    lanes: dict[_Place, Lane] = {}
    groups: dict[str, Group] = {}
    owners = dict(reversed(placed))
    for key in sorted(owners):
        lanes[key] = _make_lane(len(lanes), key, owners[key], names)
        for group in _groups_of(key, names):
            groups.setdefault(group.id, group)
    lane_of = pl.DataFrame(
        [{**row, "lane": lanes[key].id} for key, row in placed],
        schema={**{c: combinations.schema[c] for c in KEY}, "lane": pl.Int32},
    )
    return Plan(list(lanes.values()), list(groups.values()), lane_of)


# --- placing one combination ---------------------------------------------------------------------


def _thread_sections(rows: list[dict[str, Any]]) -> dict[tuple[Any, Any], int]:
    """Return for each (process, thread) whether it is the program's, the runtime's, or a quiet one."""
    layers: dict[tuple[Any, Any], set[str]] = {}
    for row in rows:
        layers.setdefault((row["process"], row["thread"]), set()).add(row["layer"])
    # Without any HIP call of a process nothing tells its own threads from those of the runtime.
    told = {process for (process, _), seen in layers.items() if "hip" in seen}

    def section(process: Any, seen: set[str]) -> int:
        if seen <= _QUIET_LAYERS:
            return _QUIET
        return _RUNTIME if process in told and "hip" not in seen and seen & _RUNTIME_LAYERS else _THREADS

    return {key: section(key[0], seen) for key, seen in layers.items()}


def _queue_users(rows: list[dict[str, Any]], section_of: Mapping[tuple[Any, Any], int]) -> dict[tuple[Any, int], int]:
    """Return for each (process, queue) the first thread of the program that wrote packets into it."""
    found: dict[tuple[Any, int], int] = {}
    for row in rows:
        process, thread, queue = row["process"], row["thread"], row["queue"]
        if row["layer"] != "aql" or row["sub"] == QUEUE_LINES or queue is None or thread is None:
            continue
        if section_of[process, thread] == _THREADS:
            found[process, queue] = min(found.get((process, queue), thread), thread)
    return found


def _place(
    row: Mapping[str, Any], section_of: Mapping[tuple[Any, Any], int], users: Mapping[tuple[Any, int], int]
) -> _Place:
    layer, sub = row["layer"] or "other", row["sub"] or ""
    rank = _RANK.get(layer, len(_LAYERS))
    process = _LAST if row["process"] is None else row["process"]
    if layer in _QUEUE_LAYERS and row["queue"] is not None:
        user = users.get((row["process"], row["queue"]))
        if user is not None:
            return (process, _THREADS, user, row["queue"], rank, layer, sub)
        return (process, _QUEUES, row["queue"], row["queue"], rank, layer, sub)
    gpu = _LAST if row["gpu"] is None else row["gpu"]
    if layer in _GPU_LAYERS or (layer in (SAMPLE, "smi") and row["process"] is None):
        return (_LAST, _QUEUES, gpu, -1, _RANK[DRM_WAIT] if layer == DRM_RUN else rank, *_pair(layer, sub))
    if layer in ("copy", SAMPLE) or row["thread"] is None:
        return (process, _COPIES, 0, -1, rank, layer, sub)
    return (process, section_of[row["process"], row["thread"]], row["thread"], -1, rank, layer, sub)


def _pair(layer: str, sub: str) -> tuple[str, str]:
    # The two lanes of one ring stand together: ring first, then waiting and running.
    return (f"{DRM_WAIT}:{sub}", layer) if layer in (DRM_WAIT, DRM_RUN) else (layer, sub)


def _groups_of(key: _Place, names: Names) -> Iterable[Group]:
    process, section, owner, queue, *_ = key
    if process == _LAST and queue < 0:
        if section == _QUEUES:
            label = names.gpus.get(owner, f"GPU {owner}") if owner != _LAST else "GPU and driver (GPU not named)"
            return [Group(f"g{owner}", label)]
        return [Group("capture", "whole capture")] if section == _COPIES else _thread_groups("capture", owner, names)
    unnamed = f"process {process}" if process != _LAST else "process not known"
    root = Group(f"p{process}", names.processes.get(process, unnamed))
    if queue >= 0:
        return [root, Group(f"{root.id}.q{queue}", names.queues.get(queue, f"queue {queue}"), root.id)]
    if section == _QUIET:
        quiet = Group(f"{root.id}.i", "threads without GPU work", root.id, folded=True)
        return [root, quiet, *_thread_groups(quiet.id, owner, names)]
    if section == _RUNTIME:
        runtime = Group(f"{root.id}.r", "ROCr background work", root.id)
        return [root, runtime, *_thread_groups(runtime.id, owner, names)]
    if section == _THREADS:
        return [root, *_thread_groups(root.id, owner, names)]
    return [root, Group(f"{root.id}.x", "copies and other", root.id)]


def _thread_groups(parent: str, owner: int, names: Names) -> list[Group]:
    return [Group(f"{parent}.t{owner}", names.threads.get(owner, f"thread {owner}"), parent)]


def _make_lane(lane: int, key: _Place, row: Mapping[str, Any], names: Names) -> Lane:
    section, on_queue = key[1], key[3] >= 0
    layer, sub = row["layer"] or "other", row["sub"] or ""
    label = _LABEL.get(layer, layer)
    if sub == QUEUE_LINES:
        label = sub
    elif sub:
        label = f"{sub} {label}" if layer in (DRM_WAIT, DRM_RUN) else sub if layer == SAMPLE else f"{label} {sub}"
    group = list(_groups_of(key, names))[-1].id
    thread = row["thread"] if section in (_THREADS, _RUNTIME, _QUIET) and not on_queue else None
    queue = row["queue"] if on_queue else None
    process = row["process"] if key[0] != _LAST else None
    return Lane(lane, group, label, layer, process, thread, queue, row["gpu"])


# --- readable names ------------------------------------------------------------------------------
# Rows of two captures shown together have a `side` (A or B) and their `own` number in it.


def _side(row: Mapping[str, Any]) -> str:
    return f"{row['side']} · " if row.get("side") else ""


def _process_name(row: Mapping[str, Any]) -> str:
    pid, log_pid = row["pid"], row["log_pid"]
    number = pid if pid is not None else log_pid
    inside = f" (log pid {log_pid})" if log_pid is not None and pid is not None and log_pid != pid else ""
    comm = f" · {row['comm']}" if row["comm"] else ""
    return f"{_side(row)}process {number if number is not None else '?'}{inside}{comm}"


def _thread_name(row: Mapping[str, Any]) -> str:
    if row["tid"] is not None:
        number = str(row["tid"])
    else:
        number = f"{row['log_tid']:#x}" if row["log_tid"] is not None else "?"
    comm = f" · {row['comm']}" if row["comm"] else ""
    guessed = " (tid inferred)" if row["evidence"] == "inferred" else ""
    return f"{_side(row)}thread {number}{comm}{guessed}"


_MOST_STREAMS = 4  # in the name of a queue; of more their number


def _name_streams(stream_queues: pl.LazyFrame, streams: pl.LazyFrame) -> dict[int, str]:
    """Return in words the streams that used each queue."""
    known = streams.collect()
    number = pl.col("own") if "own" in known.columns else pl.col("stream")
    used = stream_queues.select("stream", "queue").drop_nulls().unique().collect()
    named = used.join(known.select("stream", number=number), on="stream").sort("queue", "stream")
    found = {}
    for queue, numbers in named.group_by("queue", maintain_order=True).agg("number").iter_rows():
        word = "stream" if len(numbers) == 1 else "streams"
        told = f"{word} {', '.join(map(str, numbers))}"
        found[queue] = told if len(numbers) <= _MOST_STREAMS else f"{len(numbers)} streams"
    return found


def _queue_name(row: Mapping[str, Any], streams: str) -> str:
    ring = row["hwq"] if row["hwq"] is not None else row["ring_base"]
    priority = row["priority_log"]
    level = (
        {0: "low priority", 1: "normal priority", 2: "high priority"}.get(priority, "") if priority is not None else ""
    )
    parts = [_queue_number(row), streams, f"HWq {ring:#x}" if ring is not None else None, row["type"], level]
    return " · ".join(p for p in parts if p)


def _queue_number(row: Mapping[str, Any]) -> str:
    return f"{_side(row)}queue {row.get('own', row['queue'])}"


def _gpu_name(row: Mapping[str, Any]) -> str:
    parts = [f"GPU {row.get('own', row['gpu'])}", row["gfx_target"], row["pci"]]
    return _side(row) + " · ".join(p for p in parts if p)
