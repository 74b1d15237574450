"""Processes of the workload: their numbers in every namespace, names and threads, read while they live."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tracecorr.capture.workload.invoker import read_status

_PROC = Path("/proc")
_MOST_NAMED = 3
_SYS_GET_ROBUST_LIST = 274  # x86-64


@dataclass
class SeenProcess:
    """One process of the workload, as /proc showed it.

    Args:
        pid: host number.
        namespace_pid: number in its own pid namespace: what the HIP log prints.
        user: effective uid on the host.
        timens_offsets: ns that its time namespace adds to clocks of the host; empty in the host's.
    """

    pid: int
    namespace_pid: int
    parent: int
    user: int
    comm: str
    exe: str
    cgroup: str
    timens_offsets: dict[str, int]
    seen_ns: int
    how: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields for capture.json."""
        return asdict(self)


class ProcessTable:
    """Follow the processes of a workload from their roots; remembers those that have ended."""

    def __init__(self) -> None:
        self.seen: dict[int, SeenProcess] = {}
        self._alive: set[int] = set()
        self._users: set[int] = set()

    @property
    def users(self) -> frozenset[int]:
        """Return the host uids that its processes had; 0 only if the first of them had it."""
        first = next(iter(self.seen.values()), None)
        return frozenset(self._users if first is not None and first.user == 0 else self._users - {0})

    @property
    def alive(self) -> frozenset[int]:
        """Return the host pids that lived at the last look."""
        return frozenset(self._alive)

    def add(self, pid: int, how: str, *, at_gate: bool = False) -> bool:
        """Take a process in; return whether it is new and alive.

        Args:
            pid: host number.
            how: how it was found.
            at_gate: whether it waits to execute the workload: what it runs now is not the workload's program.
        """
        if pid in self._alive:
            return False
        found = _look_at(pid, how)
        if found is None:
            return False
        self.seen[pid] = replace(found, comm="", exe="") if at_gate else found
        self._users.add(found.user)
        self._alive.add(pid)
        return True

    def refresh(self) -> list[int]:
        """Look at all known processes again and take in their children; return the new ones."""
        fresh: list[int] = []
        todo = sorted(self._alive)
        while todo:
            pid = todo.pop()
            if not self._is_alive(pid):
                self._alive.discard(pid)
                continue
            new = [child for child in list_children(pid) if self.add(child, "child")]
            fresh += new
            todo += new
        return fresh

    def adopt(self, tids: Iterable[int]) -> None:
        """Take in the processes of threads that are the workload's, whatever their parents are by now.

        Args:
            tids: host numbers.
        """
        # To read the status of each thread takes fifty times as long as to list those of known processes.
        known = {tid for pid in self._alive for tid in list_threads(pid)}
        for tid in sorted(set(tids) - known):
            status = read_status(tid) or {}
            # One that was forked since the last look still has its parent.
            how = "child" if int(status.get("PPid", "0")) in self.seen else "left its parents"
            self.add(int(status.get("Tgid", tid)), how)

    def describe_survivors(self, left: Collection[int] = ()) -> str:
        """Return what to say of processes that went on after the command of the workload, or "".

        Args:
            left: host pids of those that have ended by now, but not before they wrote what is missing in the capture.
        """
        named = self._name(self._alive or left)
        goes_on, then = ("go on", "do now") if self._alive else ("went on", "did then")
        return named and (
            f"the command has ended, but it left processes that {goes_on}: {named}; "
            f"what they {then} is not recorded: give a command that waits for them, or attach with "
            "tracecorr capture --pid"
        )

    def describe_released(self) -> str:
        """Return what to say about a workload that still runs after the end of the capture, or ""."""
        named = self._name(self._alive)
        return named and (
            f"the workload still runs: {named}; what it does now is not recorded: end it with kill, or attach with "
            "tracecorr capture --pid"
        )

    def _name(self, pids: Collection[int]) -> str:
        """Return some processes by pid and name, and how many more there are."""
        named = [f"{pid} ({self.seen[pid].comm})" for pid in sorted(pids)]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return f"{', '.join(named[:_MOST_NAMED])}{more}"

    def find_time_offsets(self, first: int, gpu_users: Iterable[int]) -> dict[str, int]:
        """Return what the time namespace of the log's processes adds to clocks of the host, in ns.

        Those that had a GPU open write the logs; where they differ, or none was seen, it is that of `first`.

        Args:
            first: host pid of the workload's first process.
            gpu_users: host pids of processes that had a GPU open.
        """
        found = [self.seen[pid].timens_offsets for pid in gpu_users if pid in self.seen]
        if found and all(offsets == found[0] for offsets in found):
            return found[0]
        return self.seen[first].timens_offsets if first in self.seen else {}

    def _is_alive(self, pid: int) -> bool:
        """Tell whether a process lives, and take over its name and program after an exec.

        One that has ended, and is not waited for yet, has its name still, but no program; one that is ending has
        lost its program before it counts as ended.
        """
        status = read_status(pid)
        if status is None:
            return False
        alive = status.get("State", "Z")[0] not in "ZX"
        before, name = self.seen[pid], status.get("Name", "")
        changed = alive and (name, _read_program(pid)) != (before.comm, before.exe)
        now = _look_at(pid, before.how) if changed else None
        self._users.add(find_user(status))
        if now is not None and now.exe:
            self.seen[pid] = replace(now, seen_ns=before.seen_ns, user=before.user)
        elif name != before.comm:
            self.seen[pid] = replace(before, comm=name, exe="")
        return alive


def _look_at(pid: int, how: str) -> SeenProcess | None:
    status = read_status(pid)
    if status is None or status.get("State", "Z")[0] in "ZX":
        return None
    return SeenProcess(
        pid=pid,
        namespace_pid=int(status.get("NSpid", str(pid)).split()[-1]),
        parent=int(status.get("PPid", "0")),
        user=find_user(status),
        comm=status.get("Name", ""),
        exe=_read_program(pid),
        cgroup=find_cgroup(pid),
        timens_offsets=read_time_offsets(pid),
        seen_ns=time.monotonic_ns(),
        how=how,
    )


def find_user(status: Mapping[str, str]) -> int:
    """Return the effective uid on the host, from the fields of /proc/PID/status."""
    return int(status.get("Uid", "0 0").split()[1])


def _read_program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return str((_PROC / str(pid) / "exe").readlink())
    return ""


def list_threads(pid: int) -> list[int]:
    """Return the threads of a process (host numbers); the pid alone for one that is gone."""
    try:
        return sorted(int(task.name) for task in (_PROC / str(pid) / "task").iterdir())
    except OSError:
        return [pid]


def find_threads(pid: int) -> Iterator[list[int]]:
    """Yield the threads of a process, then those that started meanwhile, until there are no more."""
    seen: set[int] = set()
    while fresh := [tid for tid in list_threads(pid) if tid not in seen]:
        seen.update(fresh)
        yield fresh


def list_children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    children: list[int] = []
    for tid in list_threads(pid):
        # Of some thousand threads, many times a second: by way of Path and text it takes nearly twice as long.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{tid}/children", "rb", buffering=0) as words:  # noqa: PTH123
            children += map(int, words.read().split())
    return children


def list_family(pids: Collection[int]) -> set[int]:
    """Return processes and all their descendants that live now."""
    family, todo = set(pids), list(pids)
    while todo:
        fresh = set(list_children(todo.pop())) - family
        family |= fresh
        todo += fresh
    return family


def descends_from(pid: int, ancestors: Container[int]) -> bool:
    """Tell whether a process is one of `ancestors` or descends from one, as far as its parents still live."""
    while pid > 1 and pid not in ancestors:
        pid = int((read_status(pid) or {}).get("PPid", "0"))
    return pid in ancestors


def read_time_offsets(pid: int) -> dict[str, int]:
    """Return what a process's time namespace adds to the clocks `monotonic` and `boottime`, in ns."""
    offsets = {}
    try:
        for line in (_PROC / str(pid) / "timens_offsets").read_text().splitlines():
            clock, seconds, nanoseconds = line.split()
            offsets[clock] = int(seconds) * 1_000_000_000 + int(nanoseconds)
    except (OSError, ValueError):
        return {}
    return {clock: value for clock, value in offsets.items() if value}


def read_thread_map(pids: Iterable[int]) -> list[dict[str, Any]]:
    """Return tid, name and robust list head of every thread that lives now.

    The head is the pthread address that the HIP log prints as tid, plus a constant of the C library.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    threads = []
    for pid in pids:
        tids = []
        with contextlib.suppress(OSError):
            tids = sorted(int(task.name) for task in (_PROC / str(pid) / "task").iterdir())
        for tid in tids:
            comm = _read(_PROC / f"{pid}/task/{tid}/comm")
            threads.append({"pid": pid, "tid": tid, "comm": comm, "robust_list": _robust_list(libc, tid)})
    return threads


def _robust_list(libc: ctypes.CDLL, tid: int) -> int | None:
    if os.uname().machine != "x86_64":
        return None
    head, size = ctypes.c_uint64(), ctypes.c_uint64()
    if libc.syscall(_SYS_GET_ROBUST_LIST, tid, ctypes.byref(head), ctypes.byref(size)):
        return None
    return head.value or None


def find_cgroup(pid: int) -> str:
    """Return the cgroup of a process: of version 2, or of the first hierarchy of version 1 in which it has one.

    If systemd has a hierarchy of version 1, containers may be in those of version 1 alone: in the one of version 2
    they stay in the service of their engine, all together (Docker's driver `cgroupfs`).
    """
    lines = (line.split(":", 2) for line in _read(_PROC / str(pid) / "cgroup").splitlines())
    paths = {words[1]: words[2] for words in lines if len(words) > 2}
    named = [path for path in (paths.get("name=systemd", ""), *reversed(paths.values())) if path.strip("/")]
    return (named or [*paths.values(), ""])[0]


def cgroup_pids(cgroup: str) -> list[int]:
    """Return the host pids in a cgroup and below it (version 2, or any hierarchy of version 1)."""
    mounts = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")]
    for mount in mounts:
        folder = mount / cgroup.lstrip("/")
        if cgroup.strip("/") and (folder / "cgroup.procs").is_file():
            files = [folder / "cgroup.procs", *folder.rglob("*/cgroup.procs")]
            return sorted({int(word) for file in files for word in _read(file).split()})
    return []


def has_open(pid: int, device: str) -> bool:
    """Tell whether a process has a device open, by the name it has in its own root."""
    try:
        links = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    for link in links:
        with contextlib.suppress(OSError):
            if str(link.readlink()) == device:
                return True
    return False


def is_writable(pid: int, descriptor: str) -> bool:
    """Tell whether a process has a descriptor open for writing; one that only names a file (O_PATH) is not."""
    flags = re.search(r"^flags:\s*([0-7]+)$", _read(_PROC / str(pid) / "fdinfo" / descriptor), re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
