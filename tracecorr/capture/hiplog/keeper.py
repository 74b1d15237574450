"""The HIP logs of a workload while they are written: found, followed, and cut when a limit is reached; who of it goes
on writing when the capture ends.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Container, Iterable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.discard_log import start_discarding
from tracecorr.capture.hiplog.log_file import CUT_SHORT, GrowingLog, LogFollower
from tracecorr.capture.interrupts import Interrupted
from tracecorr.capture.workload.launch import Launched
from tracecorr.capture.workload.processes import is_writable
from tracecorr.store.capture import LONGEST_NAME
from tracecorr.store.ownership import FOREIGN_FOLDER, find_owners, is_log, open_log
from tracecorr.store.zstd_frames import SUFFIX

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


_PAUSE_SECONDS = 0.1
# A runtime writes some KB at once.
_FULL_BYTES = 1 << 16
_Interruptible = Callable[[], AbstractContextManager[None]]


class LogKeeper:
    """Watch the logs that a workload writes into a folder, and compress them as they grow.

    A runtime cannot be told to stop logging. After `cut` what it still writes is counted and its
    space given back; offsets of what was kept stay as they are. The folder is the workload's: what
    vanishes from it is a loss, what cannot be read goes into `problems`, and neither ends the recording.

    Args:
        folder: where the logs are.
        frames: root's folder for the compressed logs; None to leave the logs as they are.
        users: gives the uids of processes of the workload, beside that of the folder's owner.
    """

    def __init__(
        self, folder: Path, frames: Path | None = None, users: Callable[[], frozenset[int]] = frozenset
    ) -> None:
        self._folder = folder
        self._users = users
        self._frames = frames
        self._logs: dict[str, GrowingLog] = {}
        self._vanished: list[GrowingLog] = []
        self._is_cut = False
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.size = 0
        self.stored: dict[str, tuple[int, str]] = {}
        self.problems: list[str] = []

    def owners(self) -> frozenset[int]:
        """Return the uids whose files in the folder are logs."""
        return find_owners(self._folder) | self._users()

    @property
    def names(self) -> list[str]:
        """Return the names of the logs."""
        with self._lock:
            return sorted(self._logs)

    def start(self) -> None:
        """Look after the logs in a thread of its own until `stop` or `finish`."""
        self._thread = threading.Thread(target=self._work, name="logs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the logs stay as they are."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def refresh(self) -> bool:
        """Look at the files again and compress one frame of each; after a cut, count and free what was added.

        Returns: whether there is more to compress at once.
        """
        with self._lock:
            found = self._find_files()
            self._forget_vanished(found)
            more = [self._look(name, status) for name, status in found.items()]
            self._measure()
            return any(more)

    def cut(self) -> None:
        """Keep nothing that is written from now on."""
        with self._lock:
            self.refresh()
            for log in self._logs.values():
                self._attempt(log, log.cut)
            self._is_cut = True
            self._measure()

    def finish(self, written: Container[str] = ()) -> list[dict[str, Any]]:
        """Cut the logs to what is kept; size and checksum of those that are compressed are then in `stored`.

        Args:
            written: names of logs whose writers go on.

        Returns: one loss (path, bytes, lines, times) for each that lost something.
        """
        self.stop()
        while self.refresh():
            pass
        losses = []
        for log in (*self._vanished, *(log for _, log in sorted(self._logs.items()))):
            is_gone = log in self._vanished
            self._attempt(log, partial(log.close, is_gone=is_gone, is_written=log.path.name in written))
            losses += log.list_losses(is_gone=is_gone)
            if log.follower is not None and log.stored is not None:
                self.stored[log.follower.path.name] = log.stored
        return losses

    def abandon(self) -> None:
        """Leave the logs as a kill would: what is compressed stays, the rest stays in the folder."""
        self.stop()
        for log in self._logs.values():
            self._attempt(log, log.shorten)

    def _work(self) -> None:
        while True:
            try:
                more = self.refresh()
            except Exception as error:
                self._note(f"the logs were no longer followed: {error}")
                return
            if self._stop.wait(0 if more else _PAUSE_SECONDS):
                return

    def _look(self, name: str, status: os.stat_result) -> bool:
        log = self._logs.get(name)
        if log is None:
            # One whose compressed file could have no name stays as it is.
            fits = len(os.fsencode(f"{name}{SUFFIX}")) <= LONGEST_NAME
            follower = LogFollower(self._frames, name) if self._frames is not None and fits else None
            log = self._logs[name] = GrowingLog(self._folder / name, status.st_ino, follower, self.owners)
            if self._is_cut:
                log.cut(at_start=True)
        more = False

        def look() -> None:
            nonlocal more
            more = log.look(status, whole=self._is_cut)
            log.discard()

        self._attempt(log, look)
        if log.follower is not None and log.follower.cannot_free:
            self._note(f"the log {name} takes its space until the end: {log.follower.cannot_free} (punching holes)")
        return more

    def _measure(self) -> None:
        self.size = sum(log.data_bytes for log in self._logs.values())

    def _find_files(self) -> dict[str, os.stat_result]:
        found = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        found[entry.name] = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._note(f"the folder of the logs cannot be read: {error.strerror}")
        owners = self.owners()
        return {name: status for name, status in found.items() if is_log(status, owners)}

    def _forget_vanished(self, found: dict[str, os.stat_result]) -> None:
        """Take out what is gone; a file that was renamed and not shortened is still the same log."""
        gone = [n for n, log in self._logs.items() if n not in found or found[n].st_ino != log.inode]
        logs = [self._logs.pop(name) for name in gone]
        fresh = {status.st_ino: name for name, status in found.items() if name not in self._logs}
        for log in logs:
            name = fresh.pop(log.inode, None)
            if name is None or found[name].st_size < log.size:
                self._vanished.append(log)
            else:
                self._logs[name] = log
                self._attempt(log, partial(log.rename, self._folder / name))

    def _attempt(self, log: GrowingLog, step: Callable[[], object]) -> None:
        """Do something to a log; that it vanished meanwhile is seen at the next refresh."""
        try:
            step()
        except OSError as error:
            self._note(f"the log {log.path.name} cannot be read, cut or compressed: {error.strerror or error}")

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


@dataclass
class ClosedLogs:
    """What came of it.

    Args:
        losses: what was lost of the logs.
        problems: what to tell the user.
        failures: why the logs could not be brought in.
        is_interrupted: whether a signal ended it: `correlate` completes what is left.
    """

    losses: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failures: list[OSError] = field(default_factory=list)
    is_interrupted: bool = False

    @property
    def is_cut(self) -> bool:
        """Tell whether a process still wrote after the recording had ended."""
        return any(loss["reason"] == CUT_SHORT for loss in self.losses)


def close_logs(
    logs: LogKeeper,
    launched: Launched,
    folder: RecordingFolder,
    alive: Iterable[int],
    seconds: float,
    interruptible: _Interruptible = nullcontext,
) -> ClosedLogs:
    """Complete the logs, whatever the workload did to them; who still writes cannot change them any more.

    Args:
        logs: the logs.
        launched: the workload.
        folder: the capture folder.
        alive: processes of the workload that go on.
        seconds: for how long it ran.
        interruptible: lets a signal raise `Interrupted`.
    """
    closed = ClosedLogs()
    owners = logs.owners()
    with closing(LateWriters(launched.logs, alive, owners)) as late:
        steps: list[Callable[[], None]] = [
            lambda: closed.losses.extend(logs.finish(late.names)),
            lambda: closed.problems.extend(launched.collect(owners) or ()),
        ]
        for step in steps:
            try:
                with interruptible():
                    step()
            except OSError as error:
                closed.failures.append(error)
            except Interrupted:
                closed.is_interrupted = True
                logs.abandon()
        try:
            closed.problems += [_describe_foreign(name, folder) for name in folder.seal_logs(owners)]
        except OSError as error:
            closed.failures.append(error)
        said = late.discard(logs.size / seconds)
    closed.problems += [*logs.problems, *(f"the logs are not complete: {error}" for error in closed.failures)]
    closed.problems += [said] if said else []
    if folder.free_bytes() < _FULL_BYTES:
        closed.problems.append(
            "the disk is full: what the HIP runtime could not write is missing in its log, uncounted"
        )
    return closed


def _describe_foreign(name: str, folder: RecordingFolder) -> str:
    place = folder.shown / FOREIGN_FOLDER
    return (
        f"{name} in the log folder is no log of the workload's user: it was neither read nor changed; it is now in "
        f"{place}, which only root can open; move it back"
    )
