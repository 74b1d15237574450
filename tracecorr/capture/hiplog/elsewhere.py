"""HIP logs outside of the capture: those of a process that ran before, and of processes that cannot write into it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from tracecorr.capture.hiplog.log_file import find_last_line_end
from tracecorr.capture.workload.engines import ENGINES
from tracecorr.capture.workload.invoker import read_environment, read_status
from tracecorr.capture.workload.processes import find_user, is_writable, list_family

_PROC = Path("/proc")
# Seconds between two looks at a process, at least, and as a share of its age.
_LEAST_PAUSE, _SHARE_OF_AGE = 0.01, 0.05
_RUNTIME = "libamdhip64"
_STARTS = frozenset(("run", "exec", "start", "restart", "compose", "up"))
_DECISIVE = ("AMD_LOG_LEVEL", "AMD_LOG_LEVEL_FILE", "AMD_LOG_MASK")


class LogSight:
    """Find processes that use HIP and do not write their log into the folder of the logs, or less of it.

    Args:
        folder: its path, as the workload was told.
        logs: the folder itself.
        variables: what the workload was told about its log.
    """

    def __init__(self, folder: Path, logs: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._logs = logs
        self._found = logs.stat()
        self._variables = variables
        self._said: set[int] = set()
        self._engines: set[str] = set()

    def look(self, pids: Iterable[int]) -> list[str]:
        """Return a sentence for each process that writes no log here, or less, and for each engine of containers.

        What was said before is not said again.
        """
        said = []
        for pid in pids:
            if (engine := _find_engine(pid)) and engine not in self._engines:
                self._engines.add(engine)
                said.append(_describe_engine(engine))
            why = self._why_not(pid) if pid not in self._said else ""
            if why and _uses_hip(pid):
                self._said.add(pid)
                said.append(why)
        return said

    def _why_not(self, pid: int) -> str:
        status = read_status(pid)
        if status is None:
            return ""
        name = f"process {pid} ({status.get('Name', '?')})"
        number = status.get("NSpid", str(pid)).split()[-1]
        root = _PROC / str(pid) / "root"
        try:
            seen = Path(f"{root}{self._folder}").stat()
        except OSError:
            seen = None
        if seen is None or (seen.st_dev, seen.st_ino) != (self._found.st_dev, self._found.st_ino):
            return (
                f"{name} cannot write its HIP log into the capture: in its root {_target(root)} there is no "
                f"{self._folder}; choose a folder with -o that is mounted at the same path on both sides, or use "
                f"--container; {_describe_fallback(pid, number)}"
            )
        user = find_user(status)
        if user != self._found.st_uid:
            return (
                f"{name} has no HIP log in the capture: it runs as user {user}, and logs in {self._folder} are those "
                f"of user {self._found.st_uid} alone; call tracecorr as that user (sudo), without a change of the user "
                f"in the command; {_describe_fallback(pid, number)}"
            )
        return self._describe_changes(name, number, read_environment(pid) or {})

    def _describe_changes(self, name: str, number: str, environment: Mapping[str, str]) -> str:
        """Return what a process was told else about its log, as far as its environment can be read."""
        told = {key: environment.get(key) for key in _DECISIVE if environment.get(key) != self._variables.get(key)}
        if None in told.values():
            # Programs that give themselves a title write it over their environment.
            log = self._logs / f"{Path(self._variables['AMD_LOG_LEVEL_FILE']).name}_{number}"
            told = {} if log.exists() or "PATH" not in environment else told
        if not told:
            return ""
        words = (f"without {key}" if value is None else f"with {key}={value}" for key, value in told.items())
        return (
            f"{name} was started {', '.join(words)}: its HIP log is missing in the capture, or incomplete; "
            "do not set these variables in the command (--log-level sets the level)"
        )


def _find_engine(pid: int) -> str:
    """Return the engine by which a process starts a program in a container, or ""."""
    try:
        first, *words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    name = Path(first).name
    return name if name in ENGINES and not _STARTS.isdisjoint(words) else ""


def _describe_engine(engine: str) -> str:
    return (
        f"the command starts a container by {engine}: what runs in it has no HIP log here, and may not be recorded at "
        "all; let tracecorr start it: tracecorr capture --image IMAGE -- COMMAND, or --container NAME for a running one"
    )


def _uses_hip(pid: int) -> bool:
    try:
        return _RUNTIME in (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return False


def _describe_fallback(pid: int, number: str) -> str:
    """Return where HIP 7.2 writes the log of a process instead: there it is named by the pid that it has inside."""
    return (
        f"its runtime may write to {_target(_PROC / str(pid) / 'cwd')}/clr_logs_{number}.txt of that root instead: "
        "tracecorr import --amd-log reads it"
    )


def _target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return "/"


class LogDescriptors:
    """Find by which descriptors the processes of a workload write their HIP logs.

    A process is looked at the more rarely, the longer it lives without a log.

    Args:
        log_file: AMD_LOG_LEVEL_FILE as the workload was told; None = as each process has it.
    """

    def __init__(self, log_file: str | None) -> None:
        self._log_file = log_file
        self._first: dict[int, float] = {}
        self._next: dict[int, float] = {}
        self.found: set[int] = set()

    def look(self, pids: Iterable[int], now: float) -> bool:
        """Look at processes; return whether there is another descriptor than before.

        Args:
            pids: those that are alive.
            now: the time, in seconds.
        """
        before = len(self.found)
        for pid in pids:
            if now < self._next.get(pid, 0):
                continue
            named = self._log_file or (read_environment(pid) or {}).get("AMD_LOG_LEVEL_FILE")
            own = {int(link.name) for link, name in _list_open(pid) if _is_log(name, named)} if named else set()
            age = now - self._first.setdefault(pid, now)
            self._next[pid] = now + max(_LEAST_PAUSE, age * (1 if own else _SHARE_OF_AGE))
            self.found |= own
        return len(self.found) > before


def _is_log(name: str, named: str) -> bool:
    return name == Path(named).name or name.startswith(f"{Path(named).name}_")


class OwnLogs:
    """The logs of a running process and its descendants, found among their open files.

    They are the process's: they are only read, through its descriptors, so that their place, a container, and whether
    they were removed meanwhile do not matter.

    Args:
        pid: host number of the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._files: dict[tuple[int, int], tuple[str, int]] = {}
        self._look()

    def copy_to(self, folder: Path, room: int) -> list[str]:
        """Copy the whole lines that are there by now; return what to say of those that are too large.

        Args:
            folder: where to; it is root's or empty.
            room: how many bytes they may take together.

        Raises:
            OSError: one cannot be read or written.
        """
        self._look()
        said = []
        for name, source in self._files.values():
            size = find_last_line_end(source, 0, os.fstat(source).st_size)
            if size > room:
                said.append(f"the log {name} of the process is not copied: it has {size:,} bytes")
                continue
            room -= size
            _copy(source, folder / _free_name(folder, name), size)
        return said

    def close(self) -> None:
        """Let go of them."""
        for _, descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}

    def _look(self) -> None:
        for pid in sorted(list_family([self._pid])):
            named = (read_environment(pid) or {}).get("AMD_LOG_LEVEL_FILE", "")
            user = (read_status(pid) or {}).get("Uid", "").split()
            for link, name in _list_open(pid) if named and user else ():
                if _is_log(name, named):
                    with suppress(OSError):
                        self._take(link, name, int(user[1]))

    def _take(self, link: Path, name: str, user: int) -> None:
        """Open a file of a process, unless it is another user's: what is copied can be read by everybody."""
        descriptor = os.open(link, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(descriptor)
        is_log = stat.S_ISREG(found.st_mode) and found.st_uid == user
        if is_log and (found.st_dev, found.st_ino) not in self._files:
            self._files[found.st_dev, found.st_ino] = name, descriptor
        else:
            os.close(descriptor)


def _list_open(pid: int) -> list[tuple[Path, str]]:
    """Return the descriptors that a process writes to, as links, and the names of their files."""
    found = []
    with suppress(OSError):
        for link in sorted((_PROC / str(pid) / "fd").iterdir()):
            with suppress(OSError):
                if not is_writable(pid, link.name):
                    continue
                found.append((link, link.readlink().name.removesuffix(" (deleted)")))
    return found


def _free_name(folder: Path, name: str) -> str:
    """Return a name that no log in the folder has: containers give out the same numbers."""
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(found for found in names if not os.path.lexists(folder / found))


def _copy(source: int, target: Path, size: int) -> None:
    with target.open("xb") as copy:
        done = 0
        while done < size and (sent := os.sendfile(copy.fileno(), source, done, size - done)):
            done += sent
