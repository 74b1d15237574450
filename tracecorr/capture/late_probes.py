"""Arm the runtimes that the workload really loads, as soon as it maps them, and record the gap."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tracecorr.capture.library_watch import LibraryWatch, MappedRuntime
from tracecorr.capture.offer import Offer, Runtime
from tracecorr.capture.plan import Absent, ProbePlan, Wanted
from tracecorr.capture.planning import plan_late_probes
from tracecorr.capture.processes import descends_from
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.runtimes import other_users

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

    def _arm(self, mapped: MappedRuntime, mine: frozenset[int], *, before_start: bool = False) -> None:
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
