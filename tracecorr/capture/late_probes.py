"""Arm the runtimes that the workload really loads, as soon as it maps them, and record the gap."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tracecorr.capture.library_watch import LibraryWatch, MappedRuntime
from tracecorr.capture.offer import Offer, Runtime
from tracecorr.capture.plan import Absent, ProbePlan, Wanted
from tracecorr.capture.planning import plan_late_probes
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.runtimes import other_users


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
        self._watch = LibraryWatch(offer.runtimes, told=self._maps is not None)
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
        """Arm what the processes `pids` have mapped since the last look."""
        known = frozenset(pids)
        if self._maps is not None:
            told, lost = self._maps.take()
            for mapped in self._watch.arrive(told):
                self._arm(mapped, known | {mapped.pid})
            if lost:
                self._watch.look_again()
        for mapped in self._watch.look(known):
            self._arm(mapped, known)

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
        accepted = [*self._recorder.add_probes(urgent, mine), *self._recorder.add_probes(rest, mine)]
        self.armed.append({
            "library": runtime.path, "kind": runtime.kind, "version": runtime.version, "pid": mapped.pid,
            "before_start": before_start, "seen_ns": mapped.seen_ns, "armed_ns": time.monotonic_ns(),
            "probes": [probe.name for probe in accepted],
            "absent": [absence.why for absence in absent if runtime.path in absence.what],
        })  # fmt: skip
