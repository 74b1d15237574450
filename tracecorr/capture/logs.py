"""The HIP logs while they are written: how large, and where they are cut when a limit is reached."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PUNCH_HOLE, _KEEP_SIZE = 0x02, 0x01
_BLOCK = 4096
_CHUNK = 1 << 20


@dataclass
class _Log:
    """One log file: how long it is, and from where on it is not kept (None: all of it is)."""

    path: Path
    inode: int
    size: int = 0
    kept: int | None = None
    counted: int = 0
    lost_lines: int = 0
    cut_ns: int = 0


class LogKeeper:
    """Watch the logs that a workload writes into a folder.

    A runtime cannot be told to stop logging. After `cut` what it still writes is counted and its
    space given back; offsets of what was kept stay as they are. The folder is the workload's: what
    vanishes from it is a loss, what cannot be read goes into `problems`, and neither ends the recording.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, _Log] = {}
        self._vanished: list[_Log] = []
        self._is_cut = False
        self.problems: list[str] = []

    @property
    def size(self) -> int:
        """Return the bytes of all logs that are kept."""
        return sum(log.size if log.kept is None else log.kept for log in self._logs.values())

    @property
    def names(self) -> list[str]:
        """Return the names of the logs."""
        return sorted(self._logs)

    def refresh(self) -> None:
        """Look at the files again; after a cut, count and free what was added."""
        found = self._find_files()
        self._forget_vanished(found)
        for name, status in found.items():
            log = self._logs.setdefault(name, _Log(self._folder / name, status.st_ino))
            log.size = status.st_size
            if self._is_cut:
                self._attempt(log, self._discard)

    def cut(self) -> None:
        """Keep nothing that is written from now on."""
        self.refresh()
        self._is_cut = True
        for log in self._logs.values():
            if log.kept is None:
                log.kept = log.counted = log.size
                log.cut_ns = time.monotonic_ns()
                self._attempt(log, _cut_at_line)

    def finish(self) -> list[dict[str, Any]]:
        """Cut the files to what is kept; return one loss (path, bytes, lines, times) for each that lost something."""
        self.refresh()
        losses = [_vanished_loss(log) for log in self._vanished]
        for name, log in sorted(self._logs.items()):
            if log.kept is None or log.size <= log.kept:
                continue
            self._attempt(log, _truncate)
            losses.append({
                "source": "amd_log", "path": f"raw/amd_log/{name}", "reason": "the recording had ended",
                "offset": log.kept, "bytes": log.size - log.kept, "records": log.lost_lines,
                "from_ns": log.cut_ns, "to_ns": time.monotonic_ns(),
            })  # fmt: skip
        return losses

    def _find_files(self) -> dict[str, os.stat_result]:
        found = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        found[entry.name] = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._note(f"the folder of the logs cannot be read: {error.strerror}")
        return {name: status for name, status in found.items() if stat.S_ISREG(status.st_mode)}

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
                log.path = self._folder / name
                self._logs[name] = log

    def _attempt(self, log: _Log, step: Callable[[_Log], None]) -> None:
        """Do something to a log; that it vanished meanwhile is seen at the next refresh."""
        try:
            step(log)
        except OSError as error:
            self._note(f"the log {log.path.name} cannot be read or cut: {error.strerror or error}")

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _discard(self, log: _Log) -> None:
        if log.kept is None:
            log.kept, log.cut_ns = 0, time.monotonic_ns()
        if log.size <= log.counted:
            return
        descriptor = _open_log(log.path, os.O_RDWR)
        try:
            while log.counted < log.size:
                data = os.pread(descriptor, min(_CHUNK, log.size - log.counted), log.counted)
                if not data:
                    break
                log.lost_lines += data.count(b"\n")
                log.counted += len(data)
            _free(descriptor, -(-log.kept // _BLOCK) * _BLOCK, log.counted // _BLOCK * _BLOCK)
        finally:
            os.close(descriptor)


def _vanished_loss(log: _Log) -> dict[str, Any]:
    return {
        "source": "amd_log", "path": f"raw/amd_log/{log.path.name}",
        "reason": "the file was removed or replaced while the workload ran",
        "offset": 0, "bytes": log.size, "from_ns": None, "to_ns": time.monotonic_ns(),
    }  # fmt: skip


def _cut_at_line(log: _Log) -> None:
    log.kept = log.counted = _last_line_end(log.path, log.size)


def _truncate(log: _Log) -> None:
    descriptor = _open_log(log.path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, log.kept or 0)
    finally:
        os.close(descriptor)


def _open_log(path: Path, flags: int) -> int:
    """Open a file of the workload's folder; it may be anything, so no link is followed and nothing waited for."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no plain file")
    return descriptor


def _last_line_end(path: Path, size: int) -> int:
    """Return where the last whole line of the first `size` bytes ends."""
    descriptor = _open_log(path, os.O_RDONLY)
    try:
        end = size
        while end > 0:
            start = max(end - _CHUNK, 0)
            found = os.pread(descriptor, end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0
    finally:
        os.close(descriptor)


def _free(descriptor: int, start: int, end: int) -> None:
    """Give the space of a range back to the file system; a file system that cannot keeps it."""
    if end > start:
        libc = ctypes.CDLL(None, use_errno=True)
        offset, length = ctypes.c_int64(start), ctypes.c_int64(end - start)
        libc.fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, offset, length)
