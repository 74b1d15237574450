"""The workload in a container: its engine's command started, its gate found on the host, then let go."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tracecorr.capture.containers import MARK, is_gate_command
from tracecorr.capture.invoker import read_environment, read_status
from tracecorr.capture.workload import GatedProcess
from tracecorr.model.errors import MachineError

_FIND_SECONDS, _STEP_SECONDS = 60.0, 0.02
_SYS_OPENAT2 = 437
_RESOLVE_IN_ROOT, _RESOLVE_NO_MAGICLINKS = 0x10, 0x02


class ContainerProcess:
    """A workload behind a gate in a container; the engine's command gives its exit status.

    Args:
        engine: the engine's command, released already.
        token: value of the gate's mark.
        pipe: the gate's pipe for a new container; None where the gate stops itself.

    Raises:
        MachineError: the gate did not appear.
    """

    def __init__(self, engine: GatedProcess, token: str, pipe: GatePipe | None) -> None:
        self._engine = engine
        self._pipe = pipe
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
        end = time.monotonic() + _FIND_SECONDS
        while time.monotonic() < end:
            for pid in find_marked(token):
                if self._pipe is None and not (read_status(pid) or {}).get("State", "").startswith("T"):
                    continue
                pidfd = _open_gate(pid, token)
                if pidfd is not None:
                    return pid, pidfd
            if self._engine.poll() is not None:
                raise MachineError(
                    f"the container's engine ended with status {self._engine.status} before the workload started",
                    "its message above says why; the container needs a shell (sh)",
                )
            time.sleep(_STEP_SECONDS)
        raise MachineError(f"no process started in the container within {_FIND_SECONDS:g} s", "look at its engine")


def end_gates(token: str) -> None:
    """End every gate of a capture that still waits; a workload behind an open gate is none."""
    for pid in find_marked(token):
        pidfd = _open_gate(pid, token)
        if pidfd is not None:
            _send(pidfd, signal.SIGKILL)
            os.close(pidfd)


def find_marked(token: str) -> Iterator[int]:
    """Yield the shells whose environment holds the mark of a gate."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and _is_gate(int(path.name), token):
            yield int(path.name)


def _is_gate(pid: int, token: str) -> bool:
    if not is_gate_command(_command(Path(f"/proc/{pid}"))):
        return False
    return (read_environment(pid) or {}).get(MARK) == token


def _open_gate(pid: int, token: str) -> int | None:
    """Return a descriptor of a gate, None where its number is another process's by now."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if _is_gate(pid, token):
        return pidfd
    os.close(pidfd)
    return None


def _send(pidfd: int, number: int) -> bool:
    """Send a signal; return False where the process has ended."""
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

    def close(self) -> None:
        """Let go of it; a gate that still waits ends."""
        os.close(self._descriptor)
        # What is in its place and is no file is thrown out when the logs are sealed.
        with suppress(FileNotFoundError, IsADirectoryError):
            self._path.unlink()


class ContainerLogs:
    """The folder of the logs inside a running container, reached from the host through its root.

    The container's user owns it: links in it are resolved inside that root or not at all.
    """

    def __init__(self, pid: int, inside: str) -> None:
        root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            parent, self._name = os.path.split(inside)
            self._parent = _open_in_root(root, parent)
        finally:
            os.close(root)
        try:
            self._folder = os.open(
                self._name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._parent
            )
        except OSError:
            os.close(self._parent)
            raise
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._folder}")

    def free_bytes(self) -> int:
        """Return the space left on the file system where the logs land."""
        left = os.statvfs(self._folder)
        return left.f_bavail * left.f_frsize

    def move_to(self, target: Path) -> None:
        """Move the logs into the capture folder and take their folder away from the container."""
        for name in sorted(entry.name for entry in self.path.iterdir()):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
            with os.fdopen(descriptor, "rb") as source:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    with (target / name).open("xb") as copy:
                        shutil.copyfileobj(source, copy, 1 << 20)
            os.unlink(name, dir_fd=self._folder)
        os.rmdir(self._name, dir_fd=self._parent)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)
        os.close(self._parent)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _open_in_root(root: int, path: str) -> int:
    """Open a folder below a root; no link leads out of it (openat2, Linux 5.6)."""
    libc = ctypes.CDLL(None, use_errno=True)
    how = _OpenHow(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    found = libc.syscall(_SYS_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return int(found)
