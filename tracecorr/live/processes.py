"""Processes that use the GPU, and what files without a lock of theirs tell: state, cgroup, KFD's sysfs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_KFD, _SYSFS = "/dev/kfd", Path("/sys/class/kfd/kfd")
_COMPUTE = "0"  # KFD_QUEUE_TYPE_COMPUTE
_CGROUPS = Path("/sys/fs/cgroup")
# `starttime` of /proc/PID/stat, counted from behind the name.
_START, _TICK_NS = 19, 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """Hold a process without its memory.

    Args:
        pid: its number.
        comm: its name.
        state: as /proc tells it: R, S, D, T, t, Z.
        tracer: pid of its tracer; 0 = none.
        is_frozen: whether its cgroup is frozen.
        evicted_ms: how long its queues have been evicted, by GPU (gpu_id); empty = the driver does not tell.
        queues: how many compute queues it has on each GPU (gpu_id).
        began_ns: when it began (monotonic).
    """

    pid: int
    comm: str
    state: str
    tracer: int
    is_frozen: bool
    evicted_ms: dict[int, int]
    queues: dict[int, int]
    began_ns: int = 0


def find_processes() -> list[int]:
    """Return the processes that have /dev/kfd open, or that the driver lists; ours is never one of them."""
    found = {int(name) for name in _list(_SYSFS / "proc") if name.isdecimal()}
    for name in _list(Path("/proc")):
        if name.isdecimal() and uses_gpu(int(name)):
            found.add(int(name))
    return sorted(found - {os.getpid()})


def uses_gpu(pid: int) -> bool:
    """Tell whether a process has /dev/kfd open; a root of its own has it below that."""
    return any(link.endswith(_KFD) for link in _links(f"/proc/{pid}/fd"))


def read_process(pid: int) -> Process | None:
    """Return what is known of a process without reading its memory; None if there is none."""
    status = dict(line.split(":", 1) for line in _read(Path(f"/proc/{pid}/status")).splitlines() if ":" in line)
    if not status:
        return None
    cgroup = _cgroup(pid)
    frozen = _read(_CGROUPS / cgroup.lstrip("/") / "cgroup.events") if cgroup else ""
    folder = _SYSFS / "proc" / str(pid)
    evicted = {
        int(name.removeprefix("stats_")): int(text)
        for name in _list(folder) if name.startswith("stats_")
        if (text := _read(folder / name / "evicted_ms").strip()).isdecimal()
    }  # fmt: skip
    queues: dict[int, int] = {}
    for name in _list(folder / "queues"):
        gpu, kind = (_read(folder / "queues" / name / file).strip() for file in ("gpuid", "type"))
        if gpu.isdecimal() and kind == _COMPUTE:
            queues[int(gpu)] = queues.get(int(gpu), 0) + 1
    state, tracer = status.get("State", "?").strip()[:1], int(status.get("TracerPid", "0"))
    return Process(pid, status.get("Name", "").strip(), state, tracer, "frozen 1" in frozen, evicted, queues,
                   _read_start(pid))  # fmt: skip


def _read_start(pid: int) -> int:
    """Return when a process began on CLOCK_MONOTONIC; the kernel tells it on CLOCK_BOOTTIME, in ticks."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    suspended = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return int(fields[_START]) * _TICK_NS - suspended if len(fields) > _START else 0


def _read_slots() -> dict[int, int]:
    """Return how many compute queues each GPU (gpu_id) has room for at once (`num_cp_queues`)."""
    found = {}
    for name in _list(_SYSFS / "topology" / "nodes"):
        node = _SYSFS / "topology" / "nodes" / name
        gpu = _read(node / "gpu_id").strip()
        told = dict(line.split() for line in _read(node / "properties").splitlines() if len(line.split()) == 2)
        if gpu.isdecimal() and int(gpu) and told.get("num_cp_queues", "").isdecimal():
            found[int(gpu)] = int(told["num_cp_queues"])
    return found


def tell_occupancy() -> list[str]:
    """Return for each GPU, in words, how many compute queues of how many processes share its slots."""
    found: dict[int, dict[int, int]] = {}
    for name in sorted(filter(str.isdecimal, _list(_SYSFS / "proc")), key=int):
        process = read_process(int(name))
        for gpu, queues in (process.queues if process else {}).items():
            found.setdefault(gpu, {})[int(name)] = queues
    told = []
    for gpu, slots in sorted(_read_slots().items()):
        held = found.get(gpu, {})
        whose = ", ".join(f"pid {pid}: {queues}" for pid, queues in held.items())
        line = f"GPU {gpu:x}: {sum(held.values())} compute queues of {len(held)} processes on {slots} slots"
        line += f" ({whose})" if whose else ""
        told.append(f"{line}: {_CROWDED}" if sum(held.values()) > slots else line)
    return told


_CROWDED = (
    "oversubscribed, the run list rotates; fewer queues (GPU_MAX_HW_QUEUES) or more slots (amdgpu.num_kcq=2) end that"
)


def _cgroup(pid: int) -> str:
    lines = _read(Path(f"/proc/{pid}/cgroup")).splitlines()
    return next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), "")


def _links(folder: str) -> list[str]:
    try:
        return [str(path.readlink()) for path in Path(folder).iterdir()]
    except OSError:
        return []


def _list(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
