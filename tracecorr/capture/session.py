"""One capture from its start to a closed folder: arm, run, collect, leave no trace."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Callable
from typing import Any

from tracecorr.capture.facts import choose_variables, copy_topology, describe_end, first_facts, read_all_clocks
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.container_logs import clear_leftovers
from tracecorr.capture.hiplog.elsewhere import LogDescriptors, LogSight
from tracecorr.capture.hiplog.keeper import LogKeeper, close_logs
from tracecorr.capture.interrupts import Interrupted, Received, SignalInbox
from tracecorr.capture.options import CaptureOptions, describe_replaced
from tracecorr.capture.plan.plan import Offer, Plan
from tracecorr.capture.probes.libraries import KeptPlan, LateProbes
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.snapshots import Snapshots
from tracecorr.capture.stall import StallWatch, warn_of_reset
from tracecorr.capture.status import Pace, Progress, StatusLine
from tracecorr.capture.tracefs.clocks import measure_event_cost, time_call
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal
from tracecorr.capture.workload.container import ContainerMembers
from tracecorr.capture.workload.host import AttachedProcess, Ending
from tracecorr.capture.workload.invoker import Invoker, wait_readable
from tracecorr.capture.workload.launch import launch
from tracecorr.capture.workload.processes import ProcessTable, read_thread_map
from tracecorr.model.errors import ControlFileError, MachineError, SessionError, quote_path
from tracecorr.model.hip_environment import describe_effects
from tracecorr.store.recording import list_raw_files

_Say = Callable[[str], None]

# The terminal signals all processes of its group within a moment.
_COMMON_SECONDS = 0.5
_TICK_SECONDS = 0.1
# What lets a capture start after all.
_STEPS = {errno.EMFILE: "raise the limit of open files (ulimit -n)", errno.ENOSPC: "make room there"}
_PROCESSES_SECONDS, _OPENERS_SECONDS, _CPUS_SECONDS, _STALLS_SECONDS = 0.02, 0.5, 1.0, 0.5


class Session:
    """Run one workload under a plan.

    Args:
        options: what was asked for.
        invoker: as whom the workload runs.
        program: path of its executable on the host.
        folder: where the capture goes.
        token: unique name of the capture.
        say: prints a message.
    """

    def __init__(
        self, options: CaptureOptions, invoker: Invoker, program: str, folder: RecordingFolder, token: str, say: _Say
    ) -> None:
        self._options = options
        self._invoker = invoker
        self._folder = folder
        self._program = program
        self._token = token
        self._processes = ProcessTable()
        self._status = StatusLine(options, say)
        self._started = time.monotonic()
        self._recording_since: float | None = None
        self._find_processes, self._find_openers = Pace(_PROCESSES_SECONDS), Pace(_OPENERS_SECONDS)
        self._find_cpus, self._find_blind = Pace(_CPUS_SECONDS), Pace(_PROCESSES_SECONDS)
        self._find_stalls = Pace(_STALLS_SECONDS)
        self._interrupts, self._end_reason, self._detached = 0, "", False
        self._left: frozenset[int] = frozenset()
        self._info: dict[str, Any] = {}
        self._said: list[str] = []
        self.problems: list[str] = []
        self.is_interrupted = False

    def run(self, plan: Plan, offer: Offer, tracefs: Tracefs, journal: Journal, inbox: SignalInbox) -> int:
        """Arm, run the workload to its end and close the folder; return the workload's exit status.

        Args:
            plan: what to arm.
            offer: what the machine offers.
            tracefs: the tracing folder.
            journal: every change is written there first.
            inbox: signals to this process.

        Raises:
            MachineError: the machine refused the plan; the workload was not started.
            CommandError: the workload cannot be executed.
            SessionError: the capture failed after the start; its folder is closed all the same.
        """
        self._begin_info(plan)
        self._inbox = inbox
        self._launch(journal)
        try:
            inbox.start()
            self._arm(plan, offer, tracefs, journal)
            self._release()
        except OSError as error:
            self._abandon()
            raise self._refuse(error) from error
        except BaseException:
            self._abandon()
            raise
        failure = self._run_to_end(inbox)
        ended = self._launched.workload.status
        status = self._status_after(ended)
        try:
            # How an attached process ends, or one that outlives its capture, is not known here.
            failure = self._close(None if self._options.pid is not None else ended, failure)
        except OSError as error:
            failure = failure or error
        if failure is not None:
            first = "make room on its disk; " if getattr(failure, "errno", 0) == errno.ENOSPC else ""
            step = f"{first}what was recorded is in it: tracecorr correlate {quote_path(self._folder.shown)}"
            raise SessionError(f"the capture failed: {failure}", step) from failure
        return status

    def _launch(self, journal: Journal) -> None:
        """Start the workload up to its gate; one in a container is in the journal, since its gate may never open."""
        if self._options.container is not None or self._options.image is not None:
            journal.note("gate", token=self._token, folder=str(self._folder.shown))
        try:
            self._launched = launch(
                self._options, self._invoker, self._program, self._folder, self._token, self._inbox.interruptible
            )
        except BaseException as error:
            if self._options.container is not None:
                # The gate may have made the folder of its logs before it was ended.
                clear_leftovers(self._token, self._folder.shown)
            if isinstance(error, OSError):
                raise MachineError(f"the workload cannot be started: {error}", "nothing ran; capture again") from error
            raise

    def _abandon(self) -> None:
        """End the workload at its gate and leave the machine as it was."""
        try:
            self._launched.workload.discard()
            self._launched.withdraw()
        except OSError as error:
            self.problems.append(f"the log folder of the workload is left: {error}")
        finally:
            self.problems += self._recorder.disarm() if hasattr(self, "_recorder") else []

    def _status_after(self, ended: int | None) -> int:
        """Return the exit status: the workload's; letting go of an attached one is no failure."""
        if ended is None:
            return 0 if self._options.pid is not None else 128 + signal.SIGINT
        return ended

    def _run_to_end(self, inbox: SignalInbox) -> Exception | None:
        """Watch the workload until it ends, whatever happens to the recording; return what did."""
        failure: Exception | None = None
        while True:
            try:
                self._watch(inbox)
                self._end_recording("the workload ended")
            except Exception as error:
                self._status.clear()
                if failure is not None:
                    raise
                failure = error
                self._end_reason = self._end_reason or f"tracecorr failed: {error}"
                self.problems += self._recorder.disarm()
            else:
                return failure

    def _arm(self, plan: Plan, offer: Offer, tracefs: Tracefs, journal: Journal) -> None:
        self._call_alone_ns = time_call()
        self._recorder = KernelRecorder.arm(plan, tracefs, journal, self._token, self._folder)
        self._late = LateProbes(self._options.wanted, offer, self._recorder)
        self._plan = KeptPlan(self._folder, self._info, self._recorder, self._late)
        interval = self._options.hqd_interval
        if interval is not None and offer.virtual_function:
            self.problems.append("no snapshots of hqds: on a virtual function each register goes through the host")
            interval = None
        self._snapshots = Snapshots(self._folder, interval)
        stall = self._options.stall
        self._stall = StallWatch(self._folder, stall, self._status.tell) if stall is not None else None
        self._sight = self._watch_sight()
        self._descriptors = LogDescriptors(self._launched.variables.get("AMD_LOG_LEVEL_FILE"))
        self._ending = Ending(self._launched.workload, self._status.tell, is_wanted=self._options.kill)
        frames = self._folder.frames if self._options.compress_log else None
        self._logs = LogKeeper(self._launched.logs, frames, self._list_users)

    def _list_users(self) -> frozenset[int]:
        """Return the uids of a container's processes; on the host the workload's logs are its user's alone."""
        is_container = self._options.container is not None or self._options.image is not None
        return self._processes.users if is_container else frozenset()

    def _release(self) -> None:
        workload = self._launched.workload
        self._info["where"] = self._launched.where
        replaced = describe_replaced(self._invoker.environment, self._launched.variables)
        if replaced and self._launched.where == "host":
            self._status.tell(replaced)
        self._info["environment"] = choose_variables({**self._invoker.environment, **self._launched.variables})
        if self._launched.where == "host":
            for effect in describe_effects(self._invoker.environment):
                self._status.tell(effect)
        self._members = ContainerMembers(workload.pid, self._token)
        if self._options.pid is None:
            self._admit(workload.pid, "started", at_gate=True)
        else:
            self._admit(workload.pid, "attached")
            if not self._processes.alive:
                raise AttachedProcess.missing(workload.pid)
            for pid in self._processes.refresh():
                self._recorder.admit(pid)
        if not (self._options.delay or self._options.start_on_signal):
            self._start_recording()
        if self._options.image is not None:
            self._late.prepare(workload.pid)
        self._started = time.monotonic()
        workload.release()
        if self._launched.where == "host":
            self._processes.refresh()  # it has executed its command by now: one that ends at once is seen, too
        self._logs.start()

    def _admit(self, pid: int, how: str, *, at_gate: bool = False) -> None:
        if self._processes.add(pid, how, at_gate=at_gate):
            self._recorder.admit(pid)

    def _start_recording(self, reason: str = "") -> None:
        """Record from now on; `reason` says what ended the wait for it, if the workload runs already."""
        self._info |= {"start": read_all_clocks(), "start_reason": reason}
        self._info["timens_offsets"] = self._time_offsets()
        self._recorder.start()
        self._recording_since = time.monotonic()
        self._plan.learn()
        if self._options.pid is not None:
            self._info["threads"] = read_thread_map(self._processes.alive)
        self._folder.write_info(self._info)

    def _watch(self, inbox: SignalInbox) -> None:
        """Look after the recording until the workload ends or the user lets go of it."""
        workload = self._launched.workload
        while workload.poll() is None and not self._detached:
            pause = _TICK_SECONDS if self._end_reason else min(_TICK_SECONDS, self._late.pause)
            wait_readable([inbox.descriptor, *([] if self._end_reason else self._late.descriptors)], pause)
            for received in inbox.take():
                self._obey(received)
            self._tick()
        self._drop_common(inbox)
        self._status.clear()

    def _drop_common(self, inbox: SignalInbox) -> None:
        """Drop the signal that the terminal sent to the workload, too, and that ended it: it ends nothing else.

        The workload may be gone before the signal is collected here.
        """
        number = (self._launched.workload.status or 0) - 128
        is_there = any(received.number == number for received in inbox.take()) or self._interrupts
        if number in (signal.SIGINT, signal.SIGQUIT) and not is_there:
            inbox.drop(number, _COMMON_SECONDS)

    def _obey(self, received: Received) -> None:
        workload = self._launched.workload
        if received.number == signal.SIGUSR1 and self._is_waiting():
            self._start_recording("--start-on-signal" if self._options.start_on_signal else "SIGUSR1 ended --delay")
        elif received.number in (signal.SIGINT, signal.SIGQUIT):
            self._interrupts += 1
            # The terminal gives its Ctrl-C and Ctrl-\ to a workload on the host by itself.
            if received.from_process or self._launched.where != "host":
                workload.send(received.number)
            if self._interrupts > 1 or self._options.pid is not None:
                self._end_recording("interrupted")
                self._detached = True
        elif received.number in (signal.SIGTERM, signal.SIGHUP):
            self._end_recording(f"tracecorr got {received.number.name}")
            workload.send(received.number)
            self._detached = self._options.pid is not None

    def _tick(self) -> None:
        self._find_processes.run(self._processes.refresh)
        if not self._end_reason:
            self._recorder.tick()
            self._snapshots.tick(self._processes.alive)
            self._late.look(self._processes.alive)
            self._plan.tick()
            self._find_openers.run(self._admit_openers)
            self._follow_logs()
            self._find_cpus.run(lambda: self._recorder.cover(self._processes.alive))
            self._find_blind.run(self._look_for_blind)
            self._find_stalls.run(self._look_for_stalls)
            self._obey_limits()
        self._ending.tick()
        if self._status.is_due():
            self._show()

    def _look_for_stalls(self) -> None:
        """Save what stands; end the workload where that is wanted, after saying what it may do to others."""
        told = self._stall.tick(self._processes.alive) if self._stall is not None else ""
        if told and self._options.stall_kill:
            self._status.tell(warn_of_reset(self._processes.alive))
            self._end_recording(told)
            self._ending.begin(told, "--stall-kill")

    def _watch_sight(self) -> LogSight | None:
        """Return what finds processes that cannot reach the log; a container was given a folder of its own."""
        if self._launched.where != "host" or not self._launched.variables:
            return None
        return LogSight(self._folder.log_folder, self._launched.logs, self._launched.variables)

    def _look_for_blind(self) -> None:
        for problem in self._sight.look(self._processes.alive) if self._sight else ():
            self._status.tell(f"warning: {problem}")
            self._said.append(problem)

    def _admit_openers(self) -> None:
        """Take in what left its parents, and what opened the KFD in a container: workers may be an older daemon's."""
        self._processes.adopt(self._recorder.armed.list_followed())
        if self._options.container is not None:
            for pid in self._members.find_openers():
                self._admit(pid, "opened /dev/kfd in the container")

    def _follow_logs(self) -> None:
        """Record the writes to the HIP logs from when on these are open."""
        try:
            if self._descriptors.look(self._processes.alive, time.monotonic()):
                self._recorder.armed.record_writes(self._descriptors.found)
        except ControlFileError as error:
            self.problems.append(f"the writes of the HIP log are not recorded: {error}")

    def _obey_limits(self) -> None:
        now = time.monotonic()
        if self._is_waiting() and self._options.delay and now - self._started >= self._options.delay:
            self._start_recording(f"--delay {self._options.delay:g}")
        reason = self._reached_limit(now)
        if not reason:
            return
        self._end_recording(reason)
        self._ending.begin(reason)
        self._detached = self._options.pid is not None

    def _is_waiting(self) -> bool:
        return self._recording_since is None and not self._end_reason

    def _reached_limit(self, now: float) -> str:
        options, since = self._options, self._recording_since
        if options.duration is not None and since is not None and now - since >= options.duration:
            return f"--duration {options.duration:g} s is over"
        if options.max_log_bytes is not None and self._logs.size >= options.max_log_bytes:
            return f"the HIP log reached {options.max_log_bytes / 1e9:g} GB (--max-log-gb)"
        if self._recorder.failure is not None:
            return f"the trace cannot be written: {self._recorder.failure.strerror}"
        free = min(self._folder.free_bytes(), self._launched.free_bytes())
        if free < options.min_free_bytes:
            least = f"--min-free-gb {options.min_free_bytes / 1e9:g}"
            return f"only {free / 1e9:.2g} GB are free on the disk of the capture folder ({least})"
        return ""

    def _show(self) -> None:
        counts = self._recorder.count()
        state = "waiting" if self._is_waiting() else "ended" if self._end_reason else "recording"
        elapsed = time.monotonic() - self._started
        self._status.show(Progress(elapsed, counts.events, counts.lost, self._logs.size, state))

    def _end_recording(self, reason: str) -> None:
        """Stop, store, and leave the machine as it was; the workload may still run."""
        if self._end_reason:
            return
        self._end_reason = reason
        if self._stall is not None:
            self._stall.stop()
            self._info["stalls"] = self._stall.found
            self.problems += [found["told"] for found in self._stall.found]
        self._processes.refresh()
        self._processes.adopt(self._recorder.armed.list_followed())
        if self._launched.workload.status is not None:
            self._left = self._processes.alive
        if self._processes.alive:
            # First of all: a limit is reached, and what follows takes its time.
            self._logs.cut()
        self._info["threads"] = self._info.get("threads") or read_thread_map(self._processes.alive)
        self._info["stop"] = read_all_clocks()
        self._plan.learn()
        self._recorder.stop()
        self._measure_cost()
        self._snapshots.finish()
        self.problems += [*self._snapshots.problems, *self._recorder.problems]
        self._info["devices"] = {str(pid): found for pid, found in sorted(self._snapshots.devices.items())}
        self._info["packages"] = dict(sorted(self._snapshots.packages.items()))
        self._plan.learn()
        self.problems += self._recorder.disarm()

    def _measure_cost(self) -> None:
        armed = self._recorder.armed
        cost = measure_event_cost(armed.armed, armed.instances, self._call_alone_ns)
        if cost is not None:
            self._info["event_cost"] = cost.as_json()

    def _begin_info(self, plan: Plan) -> None:
        self._info = first_facts(self._options, plan, self._program, self._invoker)
        try:
            copy_topology(self._folder)
            self._folder.write_info(self._info)
        except OSError as error:
            raise self._refuse(error) from error

    def _refuse(self, error: OSError) -> MachineError:
        """Return what to say where a capture cannot start."""
        step = _STEPS.get(error.errno or 0, "remove the cause")
        what = f"the capture cannot start in {self._folder.shown}, the workload did not run: {error}"
        return MachineError(what, f"{step} and capture again")

    def _time_offsets(self) -> dict[str, int]:
        """Return what the time namespace of the workload adds to its clocks, as far as it is known now."""
        return self._processes.find_time_offsets(self._launched.workload.pid, self._snapshots.devices)

    def _list_files(self) -> list[dict[str, Any]]:
        """Return the entries of capture.json for the raw files; none if a signal ends the reading of long ones."""
        try:
            with self._inbox.interruptible():
                return list_raw_files(self._folder.path, self._logs.stored)
        except Interrupted:
            self.is_interrupted = True
            return []

    def _close(self, ended: int | None, failure: Exception | None) -> Exception | None:
        """Complete capture.json with the workload's exit status, whatever it did to its logs.

        Returns: why the capture failed, where it did, which may be that its logs could not be brought in.

        Raises:
            OSError: capture.json could not be written.
        """
        self._processes.refresh()
        seconds = time.monotonic() - self._started
        closed = close_logs(
            self._logs, self._launched, self._folder, self._processes.alive, seconds, self._inbox.interruptible
        )
        self.is_interrupted = closed.is_interrupted
        files = [] if closed.is_interrupted else self._list_files()
        losses = [*self._recorder.losses, *closed.losses]
        self.problems += closed.problems
        if self._launched.workload.status is None and self._options.pid is None:
            self.problems += filter(None, [self._processes.describe_released()])
        elif self._launched.workload.status is not None and self._launched.where == "host":
            self.problems += filter(None, [self._processes.describe_survivors(self._left if closed.is_cut else ())])
        if self._recorder.failure is not None:
            self.problems.append(f"the trace could not be written: {self._recorder.failure}")
        counts = self._recorder.counts
        failure = failure or next(iter(closed.failures), None)
        if self.is_interrupted:
            self.problems.append("a signal ended the work on the logs; tracecorr correlate completes them")
        self._info |= {
            **describe_end(failure), "exit_status": ended, "end_reason": self._end_reason,
            "timens_offsets": self._time_offsets(),
            "processes": [seen.as_json() for _, seen in sorted(self._processes.seen.items())],
            "events": counts.events, "lost_events": counts.lost, "losses": losses,
            "unwritten_events": self._recorder.unwritten_events,
            "unlogged": self._said, "problems": [*self._said, *self.problems],
            "files": files, "unfinished": self.is_interrupted,
        }  # fmt: skip
        self._folder.write_info(self._info)
        return failure
