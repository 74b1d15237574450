"""The kernel's half of a recording: armed instances, drained pages, clock marks, and what describes them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from tracecorr.capture.facts import save_formats, save_names, save_stats, save_symbols
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.kernel_log import KernelLog
from tracecorr.capture.plan.plan import SMI_EVENTS, Absent, Plan, ProbePlan
from tracecorr.capture.probes.mappings import MapWatch
from tracecorr.capture.probes.perf import PerfRecorder
from tracecorr.capture.smi_events import FILE, SmiRecorder, close_clients, open_clients
from tracecorr.capture.tracefs.arm import Armed, PerfProbe, arm
from tracecorr.capture.tracefs.clocks import ClockSampler
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.drain import Counts, Drain, TopBuffer, count_events, read_stats, read_top_clock
from tracecorr.capture.tracefs.journal import Journal
from tracecorr.capture.workload.invoker import allow_files

_PROBES = "probes"  # the recording of what perf binds to the workload
_MARK_SECONDS = 1.0
_NAMES_SECONDS = 10.0
# clock.json is written whole: the longer a recording lasts, the rarer, so that hours cost no more per second.
_SAVED_SHARE = 0.02
# For libraries that appear late, when none was known before the start.
_PERF_BUFFER_KB = 1024


class KernelRecorder:
    """Record one plan into a capture folder.

    Args:
        armed: instances and probes, recording off.
        folder: where pages, marks and descriptions go.
    """

    def __init__(self, armed: Armed, folder: RecordingFolder) -> None:
        self.armed = armed
        self._folder = folder
        self._instances: dict[str, Path] = dict(armed.instances)
        self._clock = next((plan.clock for plan in armed.armed.instances), "mono")
        self._absent: list[Absent] = []
        allow_files()
        with ExitStack() as opened:  # where the rest fails: no instance can be removed while its files are open
            self._drain = Drain(self._instances, self._open_pages)
            opened.callback(self._drain.close)
            self._sampler = ClockSampler(self._instances)
            opened.callback(self._sampler.close)
            self._perf = self._open_perf()
            self.map_watch = self._open_map_watch()
            self._smi = self._open_smi()
            self._top = self._open_top()
            self._kernel_log = KernelLog(folder)
            opened.callback(self._kernel_log.stop)
            opened.pop_all()
        self._next_mark = self._next_names = self._next_save = self._started = 0.0
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

    @property
    def plan(self) -> Plan:
        """Return what was really armed, and what is absent and why."""
        plan = self.armed.armed
        smi = plan.smi_gpus if self._smi is not None else ()
        failed = self.map_watch.failed if self.map_watch is not None else ""
        unwatched = (Absent("some libraries as soon as they are mapped", f"perf: {failed}"),) if failed else ()
        return replace(
            plan, absent=(*plan.absent, *self._perf.absent, *self._absent, *unwatched, *self._kernel_log.absent),
            smi_gpus=smi, watch_mappings=plan.watch_mappings if self.map_watch is not None else "",
        )  # fmt: skip

    @property
    def problems(self) -> list[str]:
        """Return what went wrong on the way."""
        sources = (self._smi, self._top, self._kernel_log)
        return [problem for source in sources if source is not None for problem in source.problems]

    @property
    def losses(self) -> list[dict[str, Any]]:
        """Return what was dropped before it could be copied or written, as capture.json has it."""
        losses = self._top.losses if self._top is not None else []
        if not self.discarded_bytes:
            return losses
        why = f"the trace could not be written: {self.failure}"
        return [*losses, {"source": "ftrace", "bytes": self.discarded_bytes, "reason": why}]

    @property
    def discarded_bytes(self) -> int:
        """Return the bytes of pages and perf records that no file could take."""
        smi = self._smi.discarded_bytes if self._smi is not None else 0
        return self._drain.discarded_bytes + self._perf.counts.discarded_bytes + smi

    @property
    def unwritten_events(self) -> int:
        """Return how many of the events that are lost the disk had no room for; of pages only the bytes are known."""
        return self._perf.counts.unwritten

    @property
    def failure(self) -> OSError | None:
        """Return why pages could not be written, if so."""
        return self._drain.failure or self._perf.failure or (self._smi.failure if self._smi is not None else None)

    def admit(self, pid: int) -> None:
        """Follow a process of the workload and its later children."""
        self.armed.admit(pid)
        self._perf.admit(pid)
        if self.map_watch is not None:
            self.map_watch.admit(pid)

    def start(self) -> None:
        """Record from now on."""
        self._describe()
        self._drain.start()
        self.armed.start()
        self._perf.start()
        self._start_smi()
        if self._top is not None:
            self._top.start()
        self._kernel_log.start()
        self.recording = True
        self._sampler.burst("start")
        self._save_clock()
        self._started = time.monotonic()
        self._next_mark = self._started + _MARK_SECONDS

    def add_probes(self, probes: tuple[ProbePlan, ...], pids: Iterable[int]) -> list[ProbePlan]:
        """Arm probes that became possible during the recording; return those that the kernel accepted.

        Args:
            probes: the new ones.
            pids: processes of the workload that live now.
        """
        known = len(self.armed.perf_probes)
        accepted = self.armed.add_probes(probes)
        fresh = self.armed.perf_probes[known:]
        self._learn(fresh)
        self._perf.add_probes(fresh, pids)
        return accepted

    def place(self, pid: int) -> None:
        """See to it that a process of the workload that maps a probed library by now has its probes."""
        self._perf.place(pid)

    def cover(self, pids: Iterable[int]) -> None:
        """Follow the workload to CPUs that it could not use when it started."""
        fresh = self._perf.cover(pids) if self.armed.armed.perf_cpus else ()
        if fresh:
            if self.map_watch is not None:
                self.map_watch.cover(fresh, pids)
            cpus = " ".join(map(str, sorted(fresh)))
            why = f"the workload was bound to others at its start; probed there since {time.monotonic_ns()} ns"
            self._absent.append(Absent(f"earlier hits of probes on CPUs {cpus}", why))

    def tick(self) -> None:
        """Do what is due: a clock mark each second, kept at least once in a fiftieth of the time; names each ten."""
        now = time.monotonic()
        if not self.recording or now < self._next_mark:
            return
        self._next_mark = now + _MARK_SECONDS
        self._sampler.sample_narrowly("during")
        self._kernel_log.tick()
        if self._top is not None:
            self._top.tick()
        if now >= self._next_save:
            self._next_save = now + _SAVED_SHARE * (now - self._started)
            self._save_clock()
        if now >= self._next_names:
            self._next_names = now + _NAMES_SECONDS
            self._save_names()

    def count(self) -> Counts:
        """Return the events recorded and lost so far."""
        if self.recording:
            self.counts = self._sum([read_stats(path) for path in self._instances.values()])
        return self.counts

    def stop(self) -> None:
        """End the recording and store what is left; the machine is still armed."""
        if not self.recording:
            return
        self.recording = False
        try:
            self._sampler.burst("end")
            self.armed.stop()
        finally:
            self._take_rest()
        self._save_clock()
        self._describe()

    def disarm(self) -> list[str]:
        """Leave the machine as it was found; return what could not be undone yet."""
        try:
            self._stop_readers()
        finally:
            try:
                if self.map_watch is not None:
                    self.map_watch.close()
                self._sampler.close()
                self._drain.close()
            finally:
                problems = self.armed.disarm()
        return problems

    def _take_rest(self) -> None:
        """Empty rings and buffers, and keep what the kernel counted: whatever else fails on a full disk."""
        try:
            self._stop_readers()
        finally:
            self._drain.stop()
        stats = {name: read_stats(path) for name, path in self._instances.items()}
        self.counts = self._sum(list(stats.values()))
        for name, counters in stats.items():
            save_stats(self._folder, name, counters)

    def _stop_readers(self) -> None:
        try:
            self._perf.stop()
        finally:
            for source in (self._smi, self._top, self._kernel_log):
                if source is not None:
                    source.stop()

    def _open_map_watch(self) -> MapWatch | None:
        if not self.armed.armed.watch_mappings:
            return None
        try:
            return MapWatch(self._perf.cpus, whole_machine=self.armed.armed.watch_mappings == "machine")
        except OSError as error:
            self._absent.append(Absent("libraries as soon as they are mapped", f"perf: {error.strerror}"))
            return None

    def _open_smi(self) -> SmiRecorder | None:
        if not self.armed.armed.smi_gpus:
            return None
        try:
            clients = open_clients()
        except OSError as error:
            self._absent.append(Absent(SMI_EVENTS, str(error.strerror)))
            return None
        try:
            return SmiRecorder(clients, self._folder.open_new(FILE))
        except BaseException:
            close_clients(clients)
            raise

    def _open_top(self) -> TopBuffer | None:
        if not self.armed.armed.copy_top_buffer:
            return None
        root = self.armed.tracefs.root
        return TopBuffer(root, self._folder.open_new(f"raw/trace_printk/{read_top_clock(root)}.txt"))

    def _start_smi(self) -> None:
        try:
            if self._smi is not None:
                self._smi.start()
        except OSError as error:
            self._absent.append(Absent(SMI_EVENTS, str(error.strerror)))

    def _open_perf(self) -> PerfRecorder:
        size = self.armed.armed.perf_buffer_kb_per_cpu or _PERF_BUFFER_KB
        self._learn(self.armed.perf_probes)
        return PerfRecorder(
            self.armed.perf_probes, size, lambda name: self._folder.open_new(f"raw/ftrace/{_PROBES}/{name}"),
            self.armed.armed.perf_cpus,
        )  # fmt: skip

    def _learn(self, probes: list[PerfProbe]) -> None:
        for probe in probes:
            name = f"{self.armed.group}/{probe.name}"
            self._folder.write_once(f"raw/ftrace/{_PROBES}/events/{name}/format", probe.format)

    def _open_pages(self, name: str, cpu: int) -> IO[bytes]:
        return self._folder.open_new(f"raw/ftrace/{name}/cpu{cpu}.bin")

    def _sum(self, stats: list[dict[str, dict[str, str]]]) -> Counts:
        probes = self._perf.counts
        return sum((count_events(s) for s in stats), Counts(probes.samples, probes.lost))

    def _describe(self) -> None:
        for name, instance in self._instances.items():
            save_formats(self._folder, name, instance, self.armed.group)
            save_symbols(self._folder, name, self.armed.function_symbols(name))
        self._save_names()

    def _save_names(self) -> None:
        for name, instance in self._instances.items():
            save_names(self._folder, name, instance)
        if self.armed.perf_probes:
            save_names(self._folder, _PROBES, next(iter(self._instances.values())))

    def _save_clock(self) -> None:
        top = self._top.clock_content() if self._top is not None else {}
        self._folder.write_text("raw/clock.json", self._sampler.render(self._clock, top))
