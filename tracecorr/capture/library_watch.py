"""Watch which runtimes the workload maps, so that their functions are probed before they are called."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracecorr.capture.offer import Runtime
from tracecorr.capture.plan import EventPlan, InstancePlan
from tracecorr.capture.runtimes import MappedFile, has_usual_name, list_mappings, read_mapped_runtime

INSTANCE = "watch"
_EXECUTABLE_FILE = "prot & 4 && !(flags & 32)"  # PROT_EXEC, not MAP_ANONYMOUS
_EVENT = "syscalls/sys_enter_mmap"
_READ_BYTES = 1 << 16
# A mapping is announced before it is made: it is looked for again until then.
_LOOK_AGAIN_SECONDS = (0.0, 0.001, 0.005, 0.02)
# Without the announcements, and for what they miss.
_QUICK_SECONDS, _SLOW_SECONDS, _QUICK_FOR_SECONDS = 0.02, 0.5, 10.0
_TID = re.compile(rb"-(\d+)\s+(?:\([ \d-]+\)\s+)?\[\d+\]")


@dataclass(frozen=True)
class MappedRuntime:
    """A runtime that a process of the workload maps, and when that was seen (CLOCK_MONOTONIC, ns)."""

    pid: int
    runtime: Runtime
    seen_ns: int


def plan_watch(events: frozenset[str], syscalls: bool) -> InstancePlan | None:
    """Return the instance that announces new executable mappings, None where it cannot.

    Args:
        events: what the machine offers, as `system/name`.
        syscalls: whether the plan records system calls anyway; else their events would be what
            slows every task of the machine.
    """
    if not syscalls or _EVENT not in events:
        return None
    system, _, name = _EVENT.partition("/")
    plans = (EventPlan(system, name, _EXECUTABLE_FILE),)
    options = (("event-fork", "1"), ("overwrite", "1"))
    return InstancePlan(INSTANCE, "mono", True, buffer_kb_per_cpu=64, events=plans, options=options)


class LibraryWatch:
    """Find the runtimes among the executable mappings of the workload's processes, each file once.

    Args:
        instance: tracefs folder of the watching instance; None to look at intervals only.
        known: runtimes that need not be found any more.
    """

    def __init__(self, instance: Path | None, known: Iterable[Runtime] = ()) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._found = {(runtime.device, runtime.inode) for runtime in known}
        self._next_look: dict[int, float] = {}
        self._first_look: dict[int, float] = {}
        self.descriptor = -1
        if instance is not None:
            with contextlib.suppress(OSError):
                (instance / "buffer_percent").write_text("0")
            self.descriptor = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the instance, so that it can be removed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def look(self, pids: Iterable[int]) -> Iterator[MappedRuntime]:
        """Yield the runtimes that were mapped since the last look, each as soon as it is found.

        Args:
            pids: the workload's processes, which are looked at when their time has come.
        """
        announced = self._announced()
        for wait in _LOOK_AGAIN_SECONDS if announced else ():
            time.sleep(wait)
            for pid in tuple(announced):
                fresh = self._fresh_mappings(pid)
                if fresh:
                    announced.discard(pid)
                yield from self._runtimes(pid, fresh)
            if not announced:
                break
        for pid in pids:
            if self._is_due(pid):
                yield from self._runtimes(pid, self._fresh_mappings(pid))

    def _announced(self) -> set[int]:
        """Return the processes that announced a mapping."""
        if self.descriptor < 0:
            return set()
        text = b""
        with contextlib.suppress(BlockingIOError):
            text = os.read(self.descriptor, _READ_BYTES)
        return {pid for tid in {int(tid) for tid in _TID.findall(text)} if (pid := _process_of(tid))}

    def _is_due(self, pid: int) -> bool:
        now = time.monotonic()
        if now < self._next_look.get(pid, 0.0):
            return False
        young = now - self._first_look.setdefault(pid, now) < _QUICK_FOR_SECONDS
        quick = young and self.descriptor < 0
        self._next_look[pid] = now + (_QUICK_SECONDS if quick else _SLOW_SECONDS)
        return True

    def _fresh_mappings(self, pid: int) -> list[MappedFile]:
        """Return the mappings not seen before, those with the usual names of runtimes first."""
        fresh = [m for m in list_mappings(pid) if (m.path, m.inode) not in self._seen]
        self._seen.update((m.path, m.inode) for m in fresh)
        return sorted({m.inode: m for m in fresh}.values(), key=lambda m: not has_usual_name(m.path))

    def _runtimes(self, pid: int, mappings: Iterable[MappedFile]) -> Iterator[MappedRuntime]:
        seen_ns = time.monotonic_ns()
        for mapping in mappings:
            runtime = read_mapped_runtime(pid, mapping)
            if runtime is not None and (runtime.device, runtime.inode) not in self._found:
                self._found.add((runtime.device, runtime.inode))
                yield MappedRuntime(pid, runtime, seen_ns)


def _process_of(tid: int) -> int | None:
    """Return the process that a thread belongs to, None when it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{tid}/status").read_text(errors="replace")
        return int(text.partition("\nTgid:")[2].split()[0])
    return None
