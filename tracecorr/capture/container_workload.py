"""The workload in a container: its engine's command started, its gate found on the host, then let go."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from tracecorr.capture.containers import MARK
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

    def __init__(self, engine: GatedProcess, token: str, pipe: Path | None) -> None:
        self._engine = engine
        self._pipe = pipe
        self.pid = self._find(token)

    @property
    def status(self) -> int | None:
        """Return the exit status that the engine passed on, None while it runs."""
        return self._engine.status

    def release(self) -> None:
        """Open the gate."""
        if self._pipe is None:
            os.kill(self.pid, signal.SIGCONT)
        else:
            with self._pipe.open("w") as gate:
                gate.write("go\n")

    def discard(self) -> None:
        """End the workload and the engine's command."""
        self.send(signal.SIGKILL)
        self._engine.discard()

    def send(self, number: int) -> None:
        """Send a signal to the process in the container: `docker exec` would not pass it on."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            self._engine.send(number)

    def poll(self, *, block: bool = False) -> int | None:
        """Return the exit status, None while it runs."""
        return self._engine.poll(block=block)

    def _find(self, token: str) -> int:
        end = time.monotonic() + _FIND_SECONDS
        while time.monotonic() < end:
            for pid in find_marked(token):
                if self._pipe is not None or (read_status(pid) or {}).get("State", "").startswith("T"):
                    return pid
            if self._engine.poll() is not None:
                raise MachineError(
                    f"the container's engine ended with status {self._engine.status} before the workload started",
                    "its message above says why; the container needs a shell (sh)",
                )
            time.sleep(_STEP_SECONDS)
        self._engine.discard()
        raise MachineError(f"no process started in the container within {_FIND_SECONDS:g} s", "look at its engine")


def find_marked(token: str) -> Iterator[int]:
    """Yield the shells whose environment holds the mark of a gate."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and _command(path).startswith(b"sh\0-c\0"):
            variables = read_environment(int(path.name))
            if variables and variables.get(MARK) == token:
                yield int(path.name)


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def make_gate_pipe(logs: Path) -> Path:
    """Make the pipe that a new container's gate reads from."""
    pipe = logs / "gate"
    os.mkfifo(pipe, 0o644)
    return pipe


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
        self._folder = os.open(
            self._name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._parent
        )
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
