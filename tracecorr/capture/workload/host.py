"""The workload on the host: forked behind a gate, so that its first system call is already traced."""

from __future__ import annotations

import errno
import os
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tracecorr.capture.workload.invoker import Invoker, read_status, wait_readable
from tracecorr.model.errors import CommandError, InputError, MachineError

# As `docker stop` waits.
GRACE_SECONDS = 10.0


class Ending:
    """Let the workload run on, or end it: SIGTERM, and SIGKILL where that does not.

    Args:
        workload: the process.
        tell: prints a message.
        is_wanted: end it.
        clock: gives the time in seconds.
    """

    def __init__(
        self,
        workload: Workload,
        tell: Callable[[str], None],
        *,
        is_wanted: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workload, self._tell, self._is_wanted, self._clock = workload, tell, is_wanted, clock
        self._until: float | None = None

    def begin(self, reason: str, option: str = "") -> None:
        """Say why the recording ended; ask the workload to end where that is wanted, or `option` wants it."""
        option = option or ("--kill" if self._is_wanted else "")
        after = f"gets SIGTERM ({option})" if option else "keeps running"
        self._tell(f"the recording ended: {reason}; the workload {after}")
        if option:
            self._until = self._clock() + GRACE_SECONDS
            self._workload.send(signal.SIGTERM)

    def tick(self) -> None:
        """Kill the workload once its time is over; with the first process of a container all others of it end, too.

        To that process the kernel gives a SIGTERM only where it has a handler.
        """
        if self._until is None or self._clock() < self._until or self._workload.status is not None:
            return
        self._until = None
        self._tell(f"the workload still runs {GRACE_SECONDS:g} s after SIGTERM: it gets SIGKILL")
        self._workload.send(signal.SIGKILL)


NOT_RUNNABLE, NOT_FOUND = 126, 127
_INTERRUPTED = 128 + signal.SIGINT
_MODE = "check its mode, or name what runs it: python3 FILE, bash FILE"
_FAILURE = struct.Struct("=i")


def resolve_command(command: str, environment: Mapping[str, str]) -> str:
    """Return the path of a command, as execvp of the workload's user would find it.

    Raises:
        CommandError: with status 127 when it is not found, 126 when it cannot be run.
    """
    if os.sep in command:
        candidates = [Path(command)]
    else:
        candidates = [Path(folder or ".") / command for folder in environment.get("PATH", os.defpath).split(":")]
    found = [path for path in candidates if path.is_file()]
    for path in found:
        if path.stat().st_mode & 0o111:
            return os.path.join(os.curdir, path) if len(path.parts) == 1 else str(path)  # noqa: PTH118
    if found or any(path.is_dir() for path in candidates if os.sep in command):
        raise CommandError(f"{command} cannot be run: it is no executable file", _MODE, NOT_RUNNABLE)
    step = (
        f"a file of this name is here: write ./{command}" if Path(command).is_file() else "check the name and the PATH"
    )
    raise CommandError(f"{command}: command not found", step, NOT_FOUND)


class Workload(Protocol):
    """What a session watches: a process that waits at a gate, then runs to its end."""

    @property
    def pid(self) -> int:
        """Return its host number."""

    @property
    def status(self) -> int | None:
        """Return its exit status, None while it runs."""

    def release(self) -> None:
        """Open the gate."""

    def discard(self) -> None:
        """End it at the gate."""

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended."""

    def poll(self, *, block: bool = False) -> int | None:
        """Return its exit status, None while it runs."""


class GatedProcess:
    """Start a command that waits at a gate until `release`; its status can then be waited for.

    The fork happens at once, the exec at `release`: between them the process can be admitted to
    the trace. Must be made before this process starts threads.

    Args:
        path: file to execute.
        command: its arguments, the first one as the user wrote it.
        environment: the workload's.
        invoker: the user it becomes.
        blocked: signals that this process blocks and the workload must not.
    """

    def __init__(
        self,
        path: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        invoker: Invoker,
        blocked: Sequence[signal.Signals] = (),
    ) -> None:
        self._name = command[0]
        self._status: int | None = None
        gate_out, self._gate = os.pipe()
        self._failure, failure_in = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            os.close(self._failure)
            _become_workload(path, command, environment, invoker, blocked, gate_out, failure_in)
        os.close(gate_out)
        os.close(failure_in)
        self._pidfd = os.pidfd_open(self.pid)

    @property
    def status(self) -> int | None:
        """Return the exit status as a shell gives it (128 + signal), None while it runs."""
        return self._status

    def release(self) -> None:
        """Let the command run.

        Raises:
            CommandError: the kernel refused to run it, or Ctrl-C ended it at its gate.
            MachineError: it was killed at its gate.
        """
        try:
            os.write(self._gate, b"g")
            gone = False
        except BrokenPipeError:
            gone = True
        os.close(self._gate)
        reason = os.read(self._failure, _FAILURE.size)
        os.close(self._failure)
        if gone and not reason:
            status = self.poll(block=True)
            if status == _INTERRUPTED:
                raise CommandError(f"{self._name} was interrupted before it ran", "", status)
            raise MachineError(
                f"{self._name} was ended before it ran, with status {status}",
                "see the kernel log (dmesg): did memory run out?",
            )
        if reason:
            self.poll(block=True)
            number = _FAILURE.unpack(reason)[0]
            status = NOT_FOUND if number == errno.ENOENT else NOT_RUNNABLE
            raise CommandError(f"cannot run {self._name}: {os.strerror(number)}", "check the command", status)

    def discard(self) -> None:
        """End the process that still waits at the gate."""
        self.send(signal.SIGKILL)
        self.poll(block=True)

    def send(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self._status is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def poll(self, *, block: bool = False) -> int | None:
        """Return the exit status as a shell gives it (128 + signal), None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._status = 128 - code if code < 0 else code
        return self._status


def _become_workload(
    path: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    invoker: Invoker,
    blocked: Sequence[signal.Signals],
    gate: int,
    failure: int,
) -> None:
    """Wait at the gate, then execute the command; never returns."""
    try:
        invoker.become()
        if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
            # Python's own handler would end it here with the status of a command that cannot run.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        # What Python ignores for itself would stay ignored across the exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        if os.read(gate, 1):
            _execute(path, command, environment)
    except OSError as error:
        os.write(failure, _FAILURE.pack(error.errno or 0))
    finally:
        os._exit(NOT_RUNNABLE)


def _execute(path: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
    try:
        os.execve(path, list(command), environment)
    except OSError as error:
        # A script without an interpreter line runs in the shell, as with execvp.
        if error.errno != errno.ENOEXEC:
            raise
        os.execve("/bin/sh", ["sh", path, *command[1:]], environment)


class AttachedProcess:
    """A process that runs already; its exit status is not ours to know.

    Raises:
        InputError: there is no such process, or it has ended.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        status = read_status(pid) or {}
        leader = status.get("Tgid", str(pid))
        if leader != str(pid):
            raise InputError(f"{pid} is a thread of process {leader}", f"tracecorr capture --pid {leader}")
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError as error:
            raise self.missing(pid) from error
        if self.poll() is not None:
            os.close(self._pidfd)
            raise self.missing(pid)

    @staticmethod
    def missing(pid: int) -> InputError:
        """Return what to say of a process that has ended, or never was."""
        return InputError(
            f"there is no process {pid}, or it has ended",
            "ps -e lists them; numbers inside a container are not the host's",
        )

    def close(self) -> None:
        """Let go of it."""
        os.close(self._pidfd)

    @property
    def status(self) -> int | None:
        """Return 0 when it has ended."""
        return self.poll()

    def release(self) -> None:
        """Do nothing: it runs."""

    def discard(self) -> None:
        """Do nothing: it was not started here."""

    def send(self, number: int) -> None:
        """Send nothing: it was not started here."""

    def poll(self, *, block: bool = False) -> int | None:
        """Return 0 when it has ended, None while it runs."""
        return 0 if wait_readable([self._pidfd], None if block else 0) else None
