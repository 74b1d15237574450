"""One capture from its start to a closed folder: arm, run, collect, leave no trace."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.host_facts import copy_topology, read_all_clocks, read_host
from tracecorr.capture.invoker import Invoker
from tracecorr.capture.journal import Journal
from tracecorr.capture.logs import LogKeeper
from tracecorr.capture.naming import log_environment
from tracecorr.capture.options import CaptureOptions
from tracecorr.capture.owner import new_token, this_process
from tracecorr.capture.plan import Plan
from tracecorr.capture.processes import ProcessTable, read_thread_map
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.signals import WATCHED, Received, SignalInbox
from tracecorr.capture.status import Progress, StatusLine
from tracecorr.capture.tracefs import Tracefs
from tracecorr.capture.workload import GatedProcess
from tracecorr.store.recording import list_raw_files

Say = Callable[[str], None]

_TICK_SECONDS = 0.1
_STORED_PREFIXES = ("AMD_", "HIP_", "HSA_", "ROCR_", "GPU_", "HCC_")


class Session:
    """Run one workload under a plan.

    Args:
        options: what was asked for.
        invoker: as whom the workload runs.
        program: path of its executable.
        folder: where the capture goes.
        say: prints a message.
    """

    def __init__(
        self, options: CaptureOptions, invoker: Invoker, program: str, folder: RecordingFolder, say: Say
    ) -> None:
        self._options = options
        self._invoker = invoker
        self._folder = folder
        self._say = say
        self._program = program
        self._logs = LogKeeper(folder.path / "raw/amd_log")
        self._processes = ProcessTable()
        self._status = StatusLine()
        self._recorder: KernelRecorder | None = None
        self._started_ns = time.monotonic_ns()
        self._interrupts = 0
        self._end_reason = ""
        self._detached = False
        self._info: dict[str, Any] = {}
        self.problems: list[str] = []

    def run(self, plan: Plan, tracefs: Tracefs) -> int:
        """Arm, run the workload to its end and close the folder; return the workload's exit status.

        Raises:
            MachineError: the machine refused the plan; the workload was not started.
            CommandError: the workload cannot be executed.
        """
        self._begin_info(plan)
        with SignalInbox() as inbox:
            workload = self._make_workload()
            inbox.start()
            try:
                token = new_token()
                self._recorder = KernelRecorder.arm(plan, tracefs, Journal.create(token), token, self._folder)
                try:
                    self._let_run(workload)
                    self._watch(workload, inbox)
                finally:
                    self._end_recording("the workload ended")
            except BaseException:
                workload.discard()
                raise
        status = 128 + signal.SIGINT if workload.status is None else workload.status
        self._close(status)
        return status

    def _make_workload(self) -> GatedProcess:
        environment = {
            **self._invoker.environment,
            **log_environment(self._options.log_level, self._folder.log_folder / "hip"),
        }
        self._info["environment"] = {k: v for k, v in sorted(environment.items()) if k.startswith(_STORED_PREFIXES)}
        return GatedProcess(self._program, self._options.command, environment, self._invoker, WATCHED)

    def _let_run(self, workload: GatedProcess) -> None:
        assert self._recorder is not None
        self._recorder.armed.admit(workload.pid)
        if not (self._options.delay or self._options.start_on_signal):
            self._start_recording()
        self._processes.add(workload.pid, "started")
        self._started_ns = time.monotonic_ns()
        workload.release()

    def _start_recording(self) -> None:
        assert self._recorder is not None
        self._info["start"] = read_all_clocks()
        self._recorder.start()
        self._info["plan"] = _plan_facts(self._recorder.armed.armed)
        self._folder.write_info(self._info)

    def _watch(self, workload: GatedProcess, inbox: SignalInbox) -> None:
        """Look after the recording until the workload ends or the user lets go of it."""
        while workload.poll() is None and not self._detached:
            select.select([inbox.descriptor], [], [], _TICK_SECONDS)
            for received in inbox.take():
                self._obey(received, workload)
            self._tick(workload)
        self._status.clear()

    def _obey(self, received: Received, workload: GatedProcess) -> None:
        if received.number == signal.SIGUSR1:
            if self._is_waiting():
                self._start_recording()
        elif received.number == signal.SIGINT:
            self._interrupts += 1
            if received.from_process:
                workload.send(signal.SIGINT)
            if self._interrupts > 1:
                self._end_recording("interrupted twice")
                self._detached = True
        elif received.number in (signal.SIGTERM, signal.SIGHUP):
            self._end_recording(f"tracecorr got {received.number.name}")
            workload.send(received.number)

    def _tick(self, workload: GatedProcess) -> None:
        assert self._recorder is not None
        self._recorder.tick()
        self._processes.refresh()
        self._logs.refresh()
        elapsed = (time.monotonic_ns() - self._started_ns) / 1e9
        if self._is_waiting() and self._options.delay and elapsed >= self._options.delay:
            self._start_recording()
        reason = self._reached_limit(elapsed)
        if reason and not self._end_reason:
            self._end_recording(reason)
            self._status.clear()
            self._say(f"the recording ended: {reason}; the workload runs on")
            if self._options.kill:
                workload.send(signal.SIGTERM)
        if self._status.is_due() and not self._options.quiet:
            self._show(elapsed)

    def _is_waiting(self) -> bool:
        return self._recorder is not None and "start" not in self._info and not self._end_reason

    def _reached_limit(self, elapsed: float) -> str:
        assert self._recorder is not None
        options = self._options
        if options.duration is not None and "start" in self._info and elapsed - options.delay >= options.duration:
            return f"--duration {options.duration:g} s is over"
        if options.max_log_bytes is not None and self._logs.size >= options.max_log_bytes:
            return f"the HIP log reached {options.max_log_bytes / 1e9:g} GB (--max-log-gb)"
        if self._recorder.failure is not None:
            return f"the trace cannot be written: {self._recorder.failure.strerror}"
        if self._folder.free_bytes() < options.min_free_bytes:
            return f"less than {options.min_free_bytes / 1e9:.1f} GB is free where the capture lies"
        return ""

    def _show(self, elapsed: float) -> None:
        assert self._recorder is not None
        counts = self._recorder.count()
        state = "waiting" if self._is_waiting() else "ended" if self._end_reason else "recording"
        self._status.show(Progress(elapsed, counts.events, counts.lost, self._logs.size, state))

    def _end_recording(self, reason: str) -> None:
        """Stop, store, and leave the machine as it was; the workload may still run."""
        if self._end_reason or self._recorder is None:
            return
        self._end_reason = reason
        self._info["threads"] = read_thread_map(self._processes.alive)
        self._recorder.stop()
        self._info["stop"] = read_all_clocks()
        self._info["plan"] = _plan_facts(self._recorder.armed.armed)
        self.problems += self._recorder.disarm()
        self._logs.cut() if self._workload_may_write() else self._logs.refresh()

    def _workload_may_write(self) -> bool:
        self._processes.refresh()
        return bool(self._processes.alive)

    def _begin_info(self, plan: Plan) -> None:
        options = self._options
        self._info = {
            "state": "recording", "recorder": asdict(this_process()), "command": list(options.command),
            "program": self._program, "user": self._invoker.name, "cwd": str(Path.cwd()), "host": read_host(),
            "wanted": asdict(options.wanted), "plan": _plan_facts(plan), "ftrace_clock": "auto", "files": [],
        }  # fmt: skip
        copy_topology(self._folder)
        self._folder.write_info(self._info)

    def _close(self, status: int) -> None:
        """Complete capture.json and give the folder to the user."""
        assert self._recorder is not None
        strange = self._folder.seal_logs()
        losses = self._logs.finish()
        if self._recorder.discarded_bytes:
            losses.append({"source": "ftrace", "bytes": self._recorder.discarded_bytes,
                           "reason": f"the trace could not be written: {self._recorder.failure}"})  # fmt: skip
        self.problems += [f"{name} in the log folder was no plain file and was removed" for name in strange]
        counts = self._recorder.counts
        self._info |= {
            "state": "complete", "exit_status": status, "end_reason": self._end_reason,
            "processes": [seen.as_json() for _, seen in sorted(self._processes.seen.items())],
            "events": counts.events, "lost_events": counts.lost, "losses": losses,
            "problems": self.problems, "files": list_raw_files(self._folder.path),
        }  # fmt: skip
        self._folder.write_info(self._info)
        self._folder.hand_over(self._invoker)


def _plan_facts(plan: Plan) -> dict[str, Any]:
    """Return what was armed and what is absent, for capture.json."""
    return {
        "instances": [asdict(instance) for instance in plan.instances],
        "probes": [asdict(probe) for probe in plan.probes],
        "absent": [asdict(absent) for absent in plan.absent],
    }
