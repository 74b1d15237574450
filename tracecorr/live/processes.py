"""Processes that use the GPU, their threads and what these wait for.

Read are files without a lock of theirs (state, cgroup, KFD's sysfs), /proc/PID/task, and what system calls were given,
from the memory of the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracecorr.live.process_memory import Memory

_KFD, _SYSFS = "/dev/kfd", Path("/sys/class/kfd/kfd")
_COMPUTE = "0"  # KFD_QUEUE_TYPE_COMPUTE
_CGROUPS = Path("/sys/fs/cgroup")
# `starttime` of /proc/PID/stat, counted from behind the name.
_START = 19
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


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


# Of x86-64 (asm/unistd_64.h).
_FUTEX, _IOCTL = 202, 16
_CALLS = {
    _FUTEX: "futex", _IOCTL: "ioctl", 0: "read", 1: "write", 7: "poll", 23: "select", 35: "nanosleep", 61: "wait4",
    230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
}  # fmt: skip
_WAIT_EVENTS = 0xC0184B0C
_EVENT_BYTES, _EVENT_ID_AT, _MOST_EVENTS = 48, 40, 4096
# FUTEX_WAIT_PRIVATE with 2, the word of a contended mutex of glibc (lowlevellock.h).
_WAIT_PRIVATE, _CONTENDED = 0x80, 2
_OWNER_AT, _KIND_AT = 8, 16
# Kinds of a pthread mutex, without the bits of robust, priority and sharing (nptl/pthreadP.h).
_MUTEX_KINDS, _KIND_FLAGS = range(4), 0x1F0
_SHOWN_FRAMES, _MOST_THREADS = 6, 2_000


@dataclass(frozen=True)
class Thread:
    """Hold a thread at one time.

    Args:
        tid: its number; ns_tid: inside its pid namespace.
        comm: its name.
        state: as /proc tells it: R, S, D, T, t, Z.
        doing: the system call or `runs`, in words.
        cpu_ns: time that it used the CPU.
        switches: how often it gave up the CPU.
        frames: top of its kernel stack, of a thread in state D.
        lock: address of the mutex that it waits for; 0 = none is known.
        owner: tid of who holds that; 0 = not known.
        events: KFD events that it waits for.
        is_endless: whether it waits for them without a time limit.
    """

    tid: int
    ns_tid: int
    comm: str
    state: str
    doing: str
    cpu_ns: int = 0
    switches: int = 0
    frames: tuple[str, ...] = ()
    syscall: tuple[int, ...] = ()
    lock: int = 0
    owner: int = 0
    events: tuple[int, ...] = ()
    is_endless: bool = False


def read_threads(pid: int) -> list[Thread]:
    """Return the threads of a process, at most 2,000; takes no lock of its memory."""
    try:
        tids = sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())[:_MOST_THREADS]
    except OSError:
        return []
    return [thread for thread in (_read_thread(pid, tid) for tid in tids) if thread]


def _read_thread(pid: int, tid: int) -> Thread | None:
    folder = Path(f"/proc/{pid}/task/{tid}")
    try:
        stat = (folder / "stat").read_text(errors="replace")
        status = dict(_split_lines((folder / "status").read_text(errors="replace")))
    except OSError:
        return None
    comm, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    state, ticks = fields[0], int(fields[11]) + int(fields[12])
    doing, words = _read_syscall(folder)
    frames = tuple(_read_stack(folder)) if state == "D" else ()
    ns_tid = int((status.get("NSpid") or str(tid)).split()[-1])
    switches = int(status.get("voluntary_ctxt_switches", "0"))
    return Thread(tid, ns_tid, comm, state, doing, ticks * _TICK_NS, switches, frames, words)


def _split_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def _read_syscall(folder: Path) -> tuple[str, tuple[int, ...]]:
    """Return what a thread does in words, and number and arguments of its system call."""
    try:
        text = (folder / "syscall").read_text().strip()
    except OSError as error:
        return f"not readable ({error.strerror})", ()
    if text == "running":
        return "runs", ()
    number, *words = text.split()
    if number == "-1":
        return "blocked outside of a system call", ()
    values = (int(number), *(int(word, 16) for word in words[:6]))
    name = _CALLS.get(values[0], f"system call {values[0]}")
    if values[0] == _IOCTL:
        name = "ioctl AMDKFD_IOC_WAIT_EVENTS" if values[2] == _WAIT_EVENTS else f"ioctl {values[2]:#x}"
    return name, values


def _read_stack(folder: Path) -> list[str]:
    try:
        lines = (folder / "stack").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line.split()[-1] if "]" not in line else line.split("] ", 1)[-1] for line in lines[:_SHOWN_FRAMES]]


def add_waits(threads: list[Thread], memory: Memory) -> list[Thread]:
    """Return the threads with what they wait for, as the process's memory tells it."""
    of_ns = {thread.ns_tid: thread.tid for thread in threads}
    return [_add_wait(thread, memory, of_ns) for thread in threads]


def _add_wait(thread: Thread, memory: Memory, of_ns: dict[int, int]) -> Thread:
    call = thread.syscall
    if call[:1] == (_FUTEX,) and call[2] == _WAIT_PRIVATE and call[3] == _CONTENDED:
        words = memory.words(call[1], "<iiiii")
        # The word is an owner only of a mutex, and of glibc's own locks it is something else.
        known = words is not None and words[0] == _CONTENDED and words[4] & ~_KIND_FLAGS in _MUTEX_KINDS
        owner = of_ns.get(words[2], 0) if known and words else 0
        return replace(thread, lock=call[1], owner=owner if owner != thread.tid else 0)
    if call[:1] == (_IOCTL,) and call[2] == _WAIT_EVENTS:
        told = memory.words(call[3], "<QIIII")
        if told:
            events, count, _, timeout, _ = told
            ids = (
                memory.words(events + n * _EVENT_BYTES + _EVENT_ID_AT, "<I") for n in range(min(count, _MOST_EVENTS))
            )
            return replace(thread, events=tuple(i[0] for i in ids if i), is_endless=timeout >= 0xFFFFFFFE)
    return thread
