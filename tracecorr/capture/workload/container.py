"""The workload in a container: its engine's command started, its gate found on the host, then let go."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tracecorr.capture.tracefs.journal import PREFIX, owner_of
from tracecorr.capture.workload.engines import COMMAND_NOT_FOUND, COMMAND_NOT_RUNNABLE, MARK, is_gate_command
from tracecorr.capture.workload.host import NOT_FOUND, NOT_RUNNABLE, GatedProcess
from tracecorr.capture.workload.invoker import read_environment, read_status, wait_readable
from tracecorr.capture.workload.processes import cgroup_pids, find_cgroup, has_open
from tracecorr.model.errors import CommandError, MachineError

_PROC = Path("/proc")


class ContainerMembers:
    """Find the processes of the container in which a process runs.

    They share its cgroup. If it has none of its own (rootless on cgroup v1, `--cgroups=disabled`), they
    share its mount namespace: the cgroup would be that of the whole host, or of the user's session.

    Args:
        pid: host number of a process in the container.
        token: unique name of the capture, for `find_openers`.
    """

    def __init__(self, pid: int, token: str = "") -> None:
        self._token = token
        cgroup = find_cgroup(pid)
        self._cgroup = cgroup if cgroup.strip("/") and cgroup not in _own_cgroups() else ""
        self._namespace = _mount_namespace(_PROC / str(pid))

    def list_pids(self) -> list[int]:
        """Return the host pids of all of them."""
        return cgroup_pids(self._cgroup) if self._cgroup else self._share_namespace()

    def find_openers(self) -> list[int]:
        """Return the host pids of those whose open files include the KFD; another capture's workload is left to it."""
        pids = self.list_pids()
        return [pid for pid in pids if has_open(pid, "/dev/kfd") and not _is_of_another_capture(pid, self._token)]

    def _share_namespace(self) -> list[int]:
        if self._namespace is None or self._namespace == _mount_namespace(_PROC / "self"):
            return []
        found = [p for p in _PROC.iterdir() if p.name.isdigit() and _mount_namespace(p) == self._namespace]
        return sorted(int(path.name) for path in found)


def _own_cgroups() -> set[str]:
    with suppress(OSError):
        return {line.partition(":")[2].partition(":")[2] for line in (_PROC / "self/cgroup").read_text().splitlines()}
    return set()


def _mount_namespace(process: Path) -> int | None:
    try:
        return (process / "ns/mnt").stat().st_ino
    except OSError:
        return None


# A gate that comes after FIND_SECONDS does not stop; one that came just before is still found.
FIND_SECONDS, _GRACE_SECONDS, _STEP_SECONDS, _END_SECONDS = 60.0, 3.0, 0.02, 2.0


class ContainerProcess:
    """A workload behind a gate in a container; the engine's command gives its exit status.

    Args:
        engine: the engine's command, released already.
        token: value of the gate's mark.
        pipe: the gate's pipe for a new container; None if the gate stops itself.
        command: the workload's program, for messages.

    Raises:
        CommandError: the container has no such program, or it cannot run there.
        MachineError: the gate did not appear.
    """

    def __init__(self, engine: GatedProcess, token: str, pipe: GatePipe | None, command: str = "its command") -> None:
        self._engine = engine
        self._pipe = pipe
        self._command = command
        try:
            self.pid, self._pidfd = self._find(token)
        except BaseException:
            end_gates(token)
            engine.discard()
            raise

    @property
    def status(self) -> int | None:
        """Return the exit status that the engine passed on, None while it runs."""
        return self._engine.status

    def release(self) -> None:
        """Open the gate; of one that has ended the engine passes the status on.

        Raises:
            MachineError: the gate's pipe takes nothing.
        """
        if self._pipe is None:
            _send(self._pidfd, signal.SIGCONT)
        else:
            self._pipe.release()

    def discard(self) -> None:
        """End the workload and the engine's command."""
        self.send(signal.SIGKILL)
        self._engine.discard()

    def send(self, number: int) -> None:
        """Send a signal to the process in the container: `docker exec` would not pass it on."""
        if not _send(self._pidfd, number):
            self._engine.send(number)

    def poll(self, *, block: bool = False) -> int | None:
        """Return the exit status, None while it runs."""
        return self._engine.poll(block=block)

    def _find(self, token: str) -> tuple[int, int]:
        """Return the number of the gate and a descriptor of it."""
        end = time.monotonic() + FIND_SECONDS + _GRACE_SECONDS
        while time.monotonic() < end:
            for pid in find_gates(token):
                pidfd = _open_gate(pid, token)
                if pidfd is not None and self._waits(pid):
                    return pid, pidfd
                if pidfd is not None:
                    os.close(pidfd)
            if self._engine.poll() is not None:
                raise self._explain_end()
            time.sleep(_STEP_SECONDS)
        raise MachineError(
            f"no process started in the container within {FIND_SECONDS:g} s",
            "look at its engine (docker ps, podman ps); a process that starts later ends itself",
        )

    def _waits(self, pid: int) -> bool:
        """Tell whether a gate has come to where it waits: its command can run."""
        if self._pipe is None:
            return (read_status(pid) or {}).get("State", "").startswith("T")
        return self._pipe.is_open_in(pid)

    def _explain_end(self) -> MachineError | CommandError:
        """Return what to say of an engine's command that ended before the gate waited."""
        status, step = self._engine.status, "check the name and the PATH there"
        if status == COMMAND_NOT_FOUND:
            return CommandError(f"{self._command}: command not found in the container", step, NOT_FOUND)
        if status == COMMAND_NOT_RUNNABLE:
            what = f"{self._command} cannot be run in the container: it is no executable file"
            return CommandError(what, "check its mode there", NOT_RUNNABLE)
        return MachineError(
            f"the container's engine ended with status {status} before the workload started",
            "its message above says why; the container needs a shell (sh)",
        )


def end_gates(token: str) -> None:
    """End every gate of a capture that still waits; a workload behind an open gate is none."""
    for pid in find_gates(token):
        pidfd = _open_gate(pid, token)
        if pidfd is not None:
            _send(pidfd, signal.SIGKILL)
            wait_readable([pidfd], _END_SECONDS)
            os.close(pidfd)


def find_gates(token: str) -> Iterator[int]:
    """Yield the shells that wait at the gate of a capture."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and _is_gate(int(path.name), token):
            yield int(path.name)


def find_marked(token: str) -> Iterator[int]:
    """Yield the processes whose environment holds the mark of a capture: its workload's, and its gate."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and _is_marked(int(path.name), token):
            yield int(path.name)


def _is_of_another_capture(pid: int, token: str) -> bool:
    """Tell whether a process is of the workload of a capture other than `token` that still runs, by its mark."""
    mark = (read_environment(pid) or {}).get(MARK, token)
    owner = owner_of(f"{PREFIX}{mark}") if mark != token else None
    return owner is not None and not owner.is_dead()


def _is_gate(pid: int, token: str) -> bool:
    return is_gate_command(_command(Path(f"/proc/{pid}"))) and _is_marked(pid, token)


def _is_marked(pid: int, token: str) -> bool:
    return (read_environment(pid) or {}).get(MARK) == token


def _open_gate(pid: int, token: str) -> int | None:
    """Return a descriptor of a gate, None if its number is another process's by now."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if _is_gate(pid, token):
        return pidfd
    os.close(pidfd)
    return None


def _send(pidfd: int, number: int) -> bool:
    """Send a signal; return False if the process has ended."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


class GatePipe:
    """The pipe that a new container's gate reads from.

    The folder belongs to the workload's user, who can put anything in the pipe's place: it is
    opened once, when it is made, and never again by its name.

    Args:
        logs: folder of the logs, which the container sees.

    Raises:
        MachineError: no pipe can be made there.
    """

    def __init__(self, logs: Path) -> None:
        self._path = logs / "gate"
        try:
            os.mkfifo(self._path, 0o644)
            # Open for both, it needs no reader yet and keeps what is written until one comes.
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags)
        except OSError as error:
            raise MachineError(
                f"cannot make the gate's pipe in the capture folder: {error.strerror}", "try another folder with -o"
            ) from error
        if not stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise MachineError("the gate's pipe in the capture folder was replaced", "try another folder with -o")

    def release(self) -> None:
        """Let the gate that reads from it, now or later, go on; never waits.

        Raises:
            MachineError: someone else filled it.
        """
        try:
            os.write(self._descriptor, b"go\n")
        except BlockingIOError as error:
            raise MachineError("the gate's pipe is full: another process wrote to it", "capture again") from error

    def is_open_in(self, pid: int) -> bool:
        """Tell whether a process has it open, to read from it."""
        mine = os.fstat(self._descriptor)
        with suppress(OSError):
            return any(os.path.samestat(mine, path.stat()) for path in Path(f"/proc/{pid}/fd").iterdir())
        return False

    def close(self) -> None:
        """Let go of it; a gate that still waits ends."""
        mine = os.fstat(self._descriptor)
        os.close(self._descriptor)
        # Anything else in its place is put aside when the logs are sealed.
        with suppress(FileNotFoundError):
            if os.path.samestat(mine, self._path.lstat()):
                self._path.unlink()
