"""Who of a workload goes on writing its logs when the capture ends, and what becomes of that."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from tracecorr.capture.hiplog.discard_log import start_discarding
from tracecorr.capture.workload.processes import is_writable
from tracecorr.store.ownership import open_log

_PROC = Path("/proc")
_MOST_NAMED = 3


class LateWriters:
    """The logs that processes of the workload have open at the end of the capture.

    Made before the logs are taken out of the folder: later they have no name any more.

    Args:
        folder: where the logs are.
        pids: processes of the workload that live.
        owners: uids of the workload.
    """

    def __init__(self, folder: Path, pids: Iterable[int], owners: Container[int]) -> None:
        self._files: dict[tuple[int, int], tuple[str, int]] = {}
        self._processes: dict[int, int] = {}
        writes = {pid: _list_written(pid) for pid in sorted(pids)}
        for name in _list_names(folder):
            with suppress(OSError):
                descriptor = open_log(folder / name, os.O_RDWR, owners)
                found = os.fstat(descriptor)
                if (found.st_dev, found.st_ino) not in self._files:
                    self._files[found.st_dev, found.st_ino] = name, descriptor
                else:
                    os.close(descriptor)
        written: set[tuple[int, int]] = set()
        for pid, theirs in writes.items():
            if mine := theirs & self._files.keys():
                with suppress(OSError):
                    self._processes[pid] = os.pidfd_open(pid)
                    written |= mine
        for key in self._files.keys() - written:
            os.close(self._files.pop(key)[1])

    @property
    def names(self) -> frozenset[str]:
        """Return the names that these logs have in the folder."""
        return frozenset(name for name, _ in self._files.values())

    def discard(self, bytes_per_second: float) -> str:
        """Let a process of its own keep what they write from now on small; return what to say of it, or "".

        Args:
            bytes_per_second: how much was logged so far.
        """
        # One that has a name is not out of the folder: what is in it must not be lost.
        nameless = [file for _, file in self._files.values() if os.fstat(file).st_nlink == 0]
        if not nameless:
            return ""
        shown = ", ".join(map(str, list(self._processes)[:_MOST_NAMED]))
        more = len(self._processes) - _MOST_NAMED
        who = f"{shown} and {more} more" if more > 0 else shown
        rate = f"some {bytes_per_second * 60 / 1e6:,.1f} MB per minute so far"
        what = f"the workload still runs (pid {who}) and its runtime still logs, {rate}; these lines are not kept"
        try:
            pid = start_discarding(nameless, list(self._processes.values()))
        except OSError as error:
            return f"{what}, and it takes space without a name until the workload ends ({error.strerror})"
        return f"{what}: process {pid} gives its space back each second until the workload ends"

    def close(self) -> None:
        """Let go of all of them."""
        for descriptor in (*(file for _, file in self._files.values()), *self._processes.values()):
            os.close(descriptor)


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:  # it is the workload's, who may have removed it
        return []


def _list_written(pid: int) -> set[tuple[int, int]]:
    """Return device and inode of the plain files that a process has open for writing."""
    found = set()
    with suppress(OSError):
        for link in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                status = link.stat()
                if stat.S_ISREG(status.st_mode) and is_writable(pid, link.name):
                    found.add((status.st_dev, status.st_ino))
    return found
