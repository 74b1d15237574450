"""The kernel's half of a recording: armed instances, drained pages, clock marks, and what describes them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from tracecorr.capture.armed import Armed, arm
from tracecorr.capture.clock_samples import ClockSampler
from tracecorr.capture.descriptions import save_formats, save_names, save_stats
from tracecorr.capture.drain import Counts, Drain, count_events, read_stats
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.journal import Journal
from tracecorr.capture.plan import Plan, ProbePlan
from tracecorr.capture.tracefs import Tracefs

_MARK_SECONDS = 1.0
_NAMES_SECONDS = 10.0


class KernelRecorder:
    """Record one plan into a capture folder.

    Args:
        armed: instances and probes, recording off.
        folder: where pages, marks and descriptions go.
        avoid: CPUs that the readers should keep away from.
    """

    def __init__(self, armed: Armed, folder: RecordingFolder, avoid: frozenset[int] = frozenset()) -> None:
        self.armed = armed
        self._folder = folder
        self._instances: dict[str, Path] = dict(armed.instances)
        self._clock = next((plan.clock for plan in armed.armed.instances), "mono")
        self._drain = Drain(
            self._instances, lambda name, cpu: folder.open_new(f"raw/ftrace/{name}/cpu{cpu}.bin"), avoid
        )
        self._sampler = ClockSampler(self._instances)
        self._next_mark = self._next_names = 0.0
        self.recording = False
        self.counts = Counts()

    @classmethod
    def arm(cls, plan: Plan, tracefs: Tracefs, journal: Journal, token: str, folder: RecordingFolder) -> KernelRecorder:
        """Arm the plan and get ready to drain it; undo it all when that fails."""
        armed = arm(plan, tracefs, journal, token)
        try:
            return cls(armed, folder)
        except BaseException:
            armed.disarm()
            raise

    def start(self) -> None:
        """Record from now on."""
        self._describe()
        self._drain.start()
        self.armed.start()
        self.recording = True
        self._sampler.burst("start")
        self._save_clock()
        self._next_mark = time.monotonic() + _MARK_SECONDS

    def add_probes(self, probes: Iterable[ProbePlan]) -> list[ProbePlan]:
        """Arm probes that became possible during the recording."""
        accepted = self.armed.add_probes(probes)
        self._describe()
        return accepted

    def tick(self) -> None:
        """Do what is due: a clock mark each second, the names of threads each ten."""
        now = time.monotonic()
        if not self.recording or now < self._next_mark:
            return
        self._next_mark = now + _MARK_SECONDS
        self._sampler.sample("during")
        self._save_clock()
        if now >= self._next_names:
            self._next_names = now + _NAMES_SECONDS
            for name, instance in self._instances.items():
                save_names(self._folder, name, instance)

    def count(self) -> Counts:
        """Return the events recorded and lost so far."""
        if self.recording:
            self.counts = sum((count_events(read_stats(path)) for path in self._instances.values()), Counts())
        return self.counts

    def stop(self) -> None:
        """End the recording and store what is left; the machine is still armed."""
        if not self.recording:
            return
        self._sampler.burst("end")
        self.armed.stop()
        self.recording = False
        self._drain.stop()
        self._save_clock()
        self._describe()
        stats = [save_stats(self._folder, name, instance) for name, instance in self._instances.items()]
        self.counts = sum((count_events(s) for s in stats), Counts())

    def disarm(self) -> list[str]:
        """Leave the machine as it was found; return what could not be undone yet."""
        self._sampler.close()
        self._drain.close()
        return self.armed.disarm()

    @property
    def discarded_bytes(self) -> int:
        """Return the bytes of pages that no file could take."""
        return self._drain.discarded_bytes

    @property
    def failure(self) -> OSError | None:
        """Return why pages could not be written, if so."""
        return self._drain.failure

    def _describe(self) -> None:
        for name, instance in self._instances.items():
            save_formats(self._folder, name, instance, self.armed.group)
            save_names(self._folder, name, instance)

    def _save_clock(self) -> None:
        self._folder.write_text("raw/clock.json", json.dumps(self._sampler.content(self._clock)))
