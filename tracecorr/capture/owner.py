"""Whose capture it is: a process named so that its death can be proved."""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

PREFIX = "tracecorr_"
_TOKEN = re.compile(r"(?P<pid>\d+)_(?P<started>\d+)_(?P<number>\d+)_(?P<namespace>\d+)")
_numbers = itertools.count()


@dataclass(frozen=True)
class Owner:
    """A process: number, start time in clock ticks since boot, pid namespace, boot."""

    pid: int
    started: int
    namespace: int
    boot: str = ""

    def is_dead(self) -> bool:
        """Tell whether the process certainly does not live any more; what cannot be seen from here may live."""
        if self.boot and self.boot != boot_id():
            return True
        return self.namespace == pid_namespace() and start_time(self.pid) != self.started


def this_process() -> Owner:
    """Return the owner that this process is."""
    return Owner(os.getpid(), start_time(os.getpid()) or 0, pid_namespace(), boot_id())


def new_token() -> str:
    """Return the name of a new capture of this process; nobody else's capture has it."""
    me = this_process()
    return f"{me.pid}_{me.started}_{next(_numbers)}_{me.namespace}"


def owner_of(name: str) -> Owner | None:
    """Return the owner named in `tracecorr_TOKEN...`; None for names of another kind."""
    found = _TOKEN.match(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    return Owner(int(found["pid"]), int(found["started"]), int(found["namespace"])) if found else None


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def pid_namespace() -> int:
    """Return the number of this process's pid namespace."""
    return Path("/proc/self/ns/pid").stat().st_ino


def boot_id() -> str:
    """Return the id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
