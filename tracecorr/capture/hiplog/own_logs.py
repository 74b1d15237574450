"""The HIP logs that a process writes already when a capture attaches to it: copied as they are at the end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from tracecorr.capture.hiplog.log_file import find_last_line_end
from tracecorr.capture.workload.invoker import read_environment, read_status
from tracecorr.capture.workload.processes import is_writable, list_family

_PROC = Path("/proc")
# Seconds between two looks at a process, at least, and as a share of its age.
_LEAST_PAUSE, _SHARE_OF_AGE = 0.01, 0.05


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
