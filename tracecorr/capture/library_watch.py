"""Watch which runtimes the workload maps, so that their functions are probed before they are called.

perf tells of the mappings of the workload's threads (`map_watch.py`). Where it does not, those of young processes are
polled: a system call event that announced them, in an instance of its own, would cost every system call of every task
of the machine 43 ns (measured).
"""

from __future__ import annotations

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
)  # fmt: skip

# Most libraries are mapped soon after the start; wheels load theirs on import.
_QUICK_SECONDS, _SLOW_SECONDS, _QUICK_FOR_SECONDS = 0.01, 0.25, 15.0
# Many processes are looked at less often: a look takes no more than this share of the time, within limits.
_LARGEST_SHARE = 0.05
_LONGEST_QUICK_SECONDS, _LONGEST_SLOW_SECONDS = 0.05, 2.0


@dataclass(frozen=True)
class MappedRuntime:
    """A runtime that a process of the workload maps, and when that was seen (CLOCK_MONOTONIC, ns)."""

    pid: int
    runtime: Runtime
    seen_ns: int


class LibraryWatch:
    """Find the runtimes among the executable mappings of the workload's processes, each file once.

    Args:
        known: runtimes that need not be found any more.
        told: whether the kernel tells of mappings (`arrive`): then a look now and then is enough.

    `refused` has the mapped libraries that could not be read, and why.
    """

    def __init__(self, known: Iterable[Runtime] = (), *, told: bool = False) -> None:
        self._told = told
        self._seen: set[tuple[str, int]] = set()
        self._found = {(runtime.device, runtime.inode) for runtime in known}
        self._sizes: dict[int, bytes] = {}
        self._first_look: dict[int, float] = {}
        self._next_look = 0.0
        self.refused: dict[str, str] = {}

    @property
    def pause(self) -> float:
        """Return the seconds until the next look."""
        return max(self._next_look - time.monotonic(), 0.0)

    def look(self, pids: Iterable[int]) -> Iterator[MappedRuntime]:
        """Yield the runtimes that were mapped since the last look, each as soon as it is found.

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
            yield from self._runtimes(pid, self._fresh_mappings(pid))
        now = time.monotonic()
        rest = (now - began) / _LARGEST_SHARE
        least, most = (_QUICK_SECONDS, _LONGEST_QUICK_SECONDS) if young else (_SLOW_SECONDS, _LONGEST_SLOW_SECONDS)
        self._next_look = now + min(max(rest, least), most)

    def find_installed(self, pid: int) -> Iterator[MappedRuntime]:
        """Yield the runtimes that a process may find in its own root, whether it maps them or not."""
        root = Path(f"/proc/{pid}/root")
        for path in installed_libraries(root, read_environment(pid)):
            inside = f"/{path.relative_to(root)}"
            runtime = read_runtime(path, inside, partial(self.refused.setdefault, inside))
            if runtime is not None and (runtime.device, runtime.inode) not in self._found:
                self._found.add((runtime.device, runtime.inode))
                yield MappedRuntime(pid, runtime, time.monotonic_ns())

    def arrive(self, mapped: Iterable[tuple[int, MappedFile]]) -> Iterator[MappedRuntime]:
        """Yield the runtimes among mappings that the kernel told of.

        Args:
            mapped: pid and mapping, as `MapWatch.take` gives them.
        """
        fresh = [(pid, m) for pid, m in mapped if (m.path, m.inode) not in self._seen]
        self._seen.update((m.path, m.inode) for _, m in fresh)
        for pid, mapping in sorted(fresh, key=lambda found: not has_usual_name(found[1].path)):
            yield from self._runtimes(pid, [mapping])

    def look_again(self) -> None:
        """Look at everything at the next turn: the kernel lost what it had to tell."""
        self._sizes.clear()
        self._next_look = 0.0

    def _fresh_mappings(self, pid: int) -> list[MappedFile]:
        """Return the mappings not seen before, those with the usual names of runtimes first."""
        size = _address_space(pid)
        if size == self._sizes.get(pid):
            return []
        fresh = [m for m in list_mappings(pid) if (m.path, m.inode) not in self._seen]
        self._sizes[pid] = size
        self._seen.update((m.path, m.inode) for m in fresh)
        return sorted({m.inode: m for m in fresh}.values(), key=lambda m: not has_usual_name(m.path))

    def _runtimes(self, pid: int, mappings: Iterable[MappedFile]) -> Iterator[MappedRuntime]:
        seen_ns = time.monotonic_ns()
        for mapping in mappings:
            runtime = read_mapped_runtime(pid, mapping, partial(self.refused.setdefault, mapping.path))
            if runtime is not None and (runtime.device, runtime.inode) not in self._found:
                self._found.add((runtime.device, runtime.inode))
                yield MappedRuntime(pid, runtime, seen_ns)


def _address_space(pid: int) -> bytes:
    """Return the size of a process's address space: while it stays the same, nothing was mapped."""
    try:
        return Path(f"/proc/{pid}/statm").read_bytes().split()[0]
    except (OSError, IndexError):
        return b""
