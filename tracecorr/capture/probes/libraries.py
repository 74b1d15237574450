"""Watch which runtimes the workload maps, so that their functions are probed before they are called.

perf tells of the mappings of the workload's threads (`map_watch.py`). If it does not, those of young processes are
polled: a system call event that announced them, in an instance of its own, would cost every system call of every task
of the machine 43 ns (measured).
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tracecorr.capture.facts import facts_after_late
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import Absent, Offer, ProbePlan, Runtime, Wanted
from tracecorr.capture.plan.planning import plan_late_probes
from tracecorr.capture.plan.runtimes import (
    MappedFile,
    has_usual_name,
    installed_libraries,
    list_mappings,
    other_users,
    read_mapped_runtime,
    read_runtime,
)
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.status import Pace
from tracecorr.capture.workload.invoker import read_environment
from tracecorr.capture.workload.processes import descends_from

# The session has other work, too.
_TURN_SECONDS = 0.1
_HURRY = -15


class LateProbes:
    """Probe runtimes that appear after the start.

    Args:
        wanted: what the command line asks for.
        offer: what the machine offers; its runtimes are armed already.
        recorder: the recording.
    """

    def __init__(self, wanted: Wanted, offer: Offer, recorder: KernelRecorder) -> None:
        self._wanted = wanted
        self._offer = offer
        self._recorder = recorder
        self._maps = recorder.map_watch
        reads_hip = wanted.event_set == "full" or any("hip" in text for text in wanted.uprobes)
        self._watch = LibraryWatch(offer.runtimes, told=self._maps is not None, reads_hip=reads_hip)
        self._count = len(offer.runtimes)
        self.armed: list[dict[str, Any]] = []

    @property
    def pause(self) -> float:
        """Return the seconds until the next look."""
        return self._watch.pause

    @property
    def descriptors(self) -> list[int]:
        """Return what becomes readable when the workload has mapped something."""
        return [self._maps.descriptor] if self._maps is not None else []

    @property
    def absent(self) -> tuple[Absent, ...]:
        """Return the mapped libraries that cannot be probed because they cannot be read."""
        return tuple(Absent(f"probes of {path}", why) for path, why in sorted(self._watch.refused.items()))

    def prepare(self, pid: int) -> None:
        """Arm what a process that waits at its gate may load: nothing of that is late."""
        for found in self._watch.find_installed(pid):
            self._arm(found, frozenset({pid}), before_start=True)

    def look(self, pids: Iterable[int]) -> None:
        """Arm what the processes `pids` have mapped since the last look; what takes too long waits for the next."""
        known = frozenset(pids)
        end = time.monotonic() + _TURN_SECONDS
        self._watch.look(known)
        self._listen(known)
        if not self._watch.has_more:
            return
        with _hurry():
            while self._watch.has_more and time.monotonic() < end:
                mapped = self._watch.read_next()
                if mapped is not None:
                    self._arm(mapped, known | {mapped.pid})
                # What was mapped meanwhile may be worth more than what waits.
                self._listen(known)

    def _listen(self, known: frozenset[int]) -> None:
        if self._maps is not None:
            told, lost = self._maps.take()
            mine = {pid for pid in {pid for pid, _ in told} if descends_from(pid, known)}
            self._watch.arrive((pid, mapping) for pid, mapping in told if pid in mine)
            if lost:
                self._watch.look_again()
        for pid in self._watch.take_users():
            self._recorder.place(pid)

    def _plan(self, runtime: Runtime) -> tuple[tuple[ProbePlan, ...], tuple[Absent, ...]]:
        offer, taken = replace(self._offer, runtimes=(runtime,)), len(self._recorder.armed.perf_probes)
        return plan_late_probes(self._wanted, offer, self._count, taken)

    def _arm(self, mapped: _MappedRuntime, mine: frozenset[int], *, before_start: bool = False) -> None:
        self._count += 1
        runtime = mapped.runtime
        probes, absent = self._plan(runtime)
        if not self._wanted.probe_shared and any(probe.through == "tracefs" for probe in probes):
            # Only where others would not pay; to count them takes a look at every process.
            probes, absent = self._plan(replace(runtime, other_users=len(other_users(runtime, mine))))
        # The workload runs on meanwhile: doorbells first.
        urgent = tuple(probe for probe in probes if probe.name.startswith("doorbell"))
        rest = tuple(probe for probe in probes if probe not in urgent)
        accepted = self._recorder.add_probes(urgent, mine)
        urgent_ns = time.monotonic_ns()
        accepted += self._recorder.add_probes(rest, mine)
        self.armed.append({
            "library": runtime.path, "kind": runtime.kind, "version": runtime.version, "pid": mapped.pid,
            "before_start": before_start or not self._recorder.recording,
            "seen_ns": mapped.seen_ns, "doorbells_ns": urgent_ns, "armed_ns": time.monotonic_ns(),
            "probes": [probe.name for probe in accepted],
            "absent": [absence.why for absence in absent if runtime.path in absence.what],
        })  # fmt: skip


@contextmanager
def _hurry() -> Iterator[None]:
    """Let this thread go before others for a moment: on a busy machine the first doorbells would ring unseen."""
    me = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, me)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, me, min(before, _HURRY))
    try:
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, me, before)


_SECONDS = 1.0
# Whoever fills the disk would take the space that is kept for the end of the capture while it changes hands.
_LEAST_BYTES = 2 << 20


class KeptPlan:
    """Keep capture.json true.

    Args:
        folder: the capture folder.
        info: contents of capture.json.
        recorder: the recording.
        late: what is armed while it runs.
    """

    def __init__(
        self, folder: RecordingFolder, info: dict[str, Any], recorder: KernelRecorder, late: LateProbes
    ) -> None:
        self._folder, self._info = folder, info
        self._recorder, self._late = recorder, late
        self._pace = Pace(_SECONDS)
        self._told = self._count()

    def learn(self) -> None:
        """Take into `info` what was armed, also late, and what is absent after all."""
        self._info["plan"] = facts_after_late(self._recorder.plan, self._late.armed, self._late.absent)

    def tick(self) -> None:
        """Write capture.json if there is news, at most once a second."""
        if self._count() != self._told:
            self._pace.run(self._write)

    def _write(self) -> None:
        if self._folder.free_bytes() < _LEAST_BYTES:
            return
        count = self._count()
        self.learn()
        with suppress(OSError):  # the end of the capture tries again
            self._folder.write_info(self._info)
            self._told = count

    def _count(self) -> tuple[int, int]:
        return len(self._late.armed), len(self._late.absent)


# Most libraries are mapped soon after the start; wheels load theirs on import.
_QUICK_SECONDS, _SLOW_SECONDS, _QUICK_FOR_SECONDS = 0.01, 0.25, 15.0
# Many processes are looked at less often: a look takes no more than this share of the time, within limits.
_LARGEST_SHARE = 0.05
_LONGEST_QUICK_SECONDS, _LONGEST_SLOW_SECONDS = 0.05, 2.0
# A file that no probe needs may be large: it is read when nothing else was mapped for so long.
_UNNEEDED, _CALM_SECONDS = 3, 1.0


@dataclass(frozen=True)
class _MappedRuntime:
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

    def read_next(self) -> _MappedRuntime | None:
        """Read the most likely of the mappings that wait; return its runtime, None if it is none, or known."""
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
        return _MappedRuntime(pid, runtime, seen_ns)

    def find_installed(self, pid: int) -> Iterator[_MappedRuntime]:
        """Yield the runtimes that a process may find in its own root, whether it maps them or not."""
        root = Path(f"/proc/{pid}/root")
        for inside, path in installed_libraries(root, read_environment(pid)).items():
            runtime = read_runtime(path, inside, partial(self.refused.setdefault, inside))
            if runtime is not None and (runtime.device, runtime.inode) not in self._found:
                self._found.add((runtime.device, runtime.inode))
                yield _MappedRuntime(pid, runtime, time.monotonic_ns())

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
