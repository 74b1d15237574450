"""Watch which runtimes the workload maps, so that their functions are probed before they are called.

perf tells of the mappings of the workload's threads (`map_watch.py`). Where it does not, those of young processes are
polled: a system call event that announced them, in an instance of its own, would cost every system call of every task
of the machine 43 ns (measured).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tracecorr.capture.invoker import read_environment
from tracecorr.capture.offer import Runtime
from tracecorr.capture.runtimes import (
    MappedFile,
    has_usual_name,
    installed_libraries,
    list_mappings,
    read_mapped_runtime,
    read_runtime,
)

# Most libraries are mapped soon after the start; wheels load theirs on import.
_QUICK_SECONDS, _SLOW_SECONDS, _QUICK_FOR_SECONDS = 0.01, 0.25, 15.0
# Many processes are looked at less often: a look takes no more than this share of the time, within limits.
_LARGEST_SHARE = 0.05
_LONGEST_QUICK_SECONDS, _LONGEST_SLOW_SECONDS = 0.05, 2.0
# A file that no probe needs may be large: it is read when nothing else was mapped for so long.
_UNNEEDED, _CALM_SECONDS = 3, 1.0


@dataclass(frozen=True)
class MappedRuntime:
    """A runtime that a process of the workload maps, and when that was seen (CLOCK_MONOTONIC, ns)."""

    pid: int
    runtime: Runtime
    seen_ns: int


class LibraryWatch:
    """Find the runtimes among the executable mappings of the workload's processes; each file is read once.

    Args:
        known: runtimes that need not be found any more.
        told: whether the kernel tells of mappings (`arrive`): then a look now and then is enough.
        reads_hip: whether functions of HIP itself are probed.

    `refused` has the mapped libraries that could not be read, and why.
    """

    def __init__(self, known: Iterable[Runtime] = (), *, told: bool = False, reads_hip: bool = True) -> None:
        self._told, self._reads_hip = told, reads_hip
        self._pending: list[tuple[int, int, int, MappedFile, int]] = []
        self._is_runtime: dict[tuple[str, int], bool | None] = {}  # by path and inode; None: waits to be read
        self._waiting: dict[tuple[str, int], set[int]] = {}
        self._users: set[int] = set()
        self._found = {(runtime.device, runtime.inode) for runtime in known}
        self._sizes: dict[int, bytes] = {}
        self._first_look: dict[int, float] = {}
        self._next_look = self._last_mapped = 0.0
        self.refused: dict[str, str] = {}

    @property
    def pause(self) -> float:
        """Return the seconds until the next look."""
        due = min(self._next_look, self._next_read) if self._pending else self._next_look
        return max(due - time.monotonic(), 0.0)

    @property
    def has_more(self) -> bool:
        """Tell whether mappings wait to be read now."""
        return bool(self._pending) and self._next_read <= time.monotonic()

    @property
    def _next_read(self) -> float:
        """Return when the most likely of the mappings that wait may be read."""
        return self._last_mapped + _CALM_SECONDS if self._pending[0][0] == _UNNEEDED else 0.0

    def look(self, pids: Iterable[int]) -> None:
        """Take note of what was mapped since the last look, when one is due or there is a new process.

        Args:
            pids: the workload's processes that live now.
        """
        began = time.monotonic()
        pids = list(pids)
        if began < self._next_look and self._first_look.keys() >= set(pids):
            return
        young = False
        for pid in pids:
            young |= began - self._first_look.setdefault(pid, began) < _QUICK_FOR_SECONDS and not self._told
            self._note((pid, mapping) for mapping in self._mappings(pid))
        now = time.monotonic()
        rest = (now - began) / _LARGEST_SHARE
        least, most = (_QUICK_SECONDS, _LONGEST_QUICK_SECONDS) if young else (_SLOW_SECONDS, _LONGEST_SLOW_SECONDS)
        self._next_look = now + min(max(rest, least), most)

    def arrive(self, mapped: Iterable[tuple[int, MappedFile]]) -> None:
        """Take note of mappings that the kernel told of (`MapWatch.take`)."""
        self._note(mapped)

    def read_next(self) -> MappedRuntime | None:
        """Read the most likely of the mappings that wait; return its runtime, None where it is none, or known."""
        *_, pid, mapping, seen_ns = heapq.heappop(self._pending)
        runtime = read_mapped_runtime(pid, mapping, partial(self.refused.setdefault, mapping.path))
        key = mapping.path, mapping.inode
        pids = self._waiting.pop(key, set())
        self._is_runtime[key] = runtime is not None
        if runtime is not None:
            self._users |= pids
        if runtime is None or (runtime.device, runtime.inode) in self._found:
            return None
        self._found.add((runtime.device, runtime.inode))
        return MappedRuntime(pid, runtime, seen_ns)

    def find_installed(self, pid: int) -> Iterator[MappedRuntime]:
        """Yield the runtimes that a process may find in its own root, whether it maps them or not."""
        root = Path(f"/proc/{pid}/root")
        for inside, path in installed_libraries(root, read_environment(pid)).items():
            runtime = read_runtime(path, inside, partial(self.refused.setdefault, inside))
            if runtime is not None and (runtime.device, runtime.inode) not in self._found:
                self._found.add((runtime.device, runtime.inode))
                yield MappedRuntime(pid, runtime, time.monotonic_ns())

    def take_users(self) -> set[int]:
        """Return the processes that mapped a runtime, new or known, since the last call."""
        users, self._users = self._users, set()
        return users

    def look_again(self) -> None:
        """Look at everything at the next turn: the kernel lost what it had to tell."""
        self._sizes.clear()
        self._next_look = 0.0

    def _mappings(self, pid: int) -> list[MappedFile]:
        """Return the mappings of a process, none while its address space has the size that it had."""
        size = _address_space(pid)
        if size == self._sizes.get(pid):
            return []
        self._sizes[pid] = size
        return list_mappings(pid)

    def _note(self, mapped: Iterable[tuple[int, MappedFile]]) -> None:
        """Put mappings not seen before in the order in which they are worth reading."""
        now = time.monotonic_ns()
        likely = {inode for _, inode in self._found}  # their users are known before the file is read
        for pid, mapping in mapped:
            key = mapping.path, mapping.inode
            if key not in self._is_runtime:
                self._is_runtime[key], self._last_mapped = None, now / 1e9
                heapq.heappush(self._pending, (self._rank(mapping.path), len(self._is_runtime), pid, mapping, now))
            if self._is_runtime[key] or mapping.inode in likely:
                self._users.add(pid)
            elif self._is_runtime[key] is None:
                self._waiting.setdefault(key, set()).add(pid)

    def _rank(self, path: str) -> int:
        """Say how soon a file is worth reading: those that ring doorbells first, HIP last where it is not probed."""
        if not has_usual_name(path):
            return 2
        return (1 if self._reads_hip else _UNNEEDED) if "amdhip64" in path else 0


def _address_space(pid: int) -> bytes:
    """Return the size of a process's address space: while it stays the same, nothing was mapped."""
    try:
        return Path(f"/proc/{pid}/statm").read_bytes().split()[0]
    except (OSError, IndexError):
        return b""
