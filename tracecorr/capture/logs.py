"""The HIP logs while they are written: how large, and where they are cut when a limit is reached."""

from __future__ import annotations

import ctypes
import os
import stat
import time
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
    size: int = 0
    kept: int | None = None
    counted: int = 0
    lost_lines: int = 0
    cut_ns: int = 0


class LogKeeper:
    """Watch the logs that a workload writes into a folder.

    A runtime cannot be told to stop logging. After `cut` what it still writes is counted and its
    space given back; offsets of what was kept stay as they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, _Log] = {}
        self._is_cut = False

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
        for entry in os.scandir(self._folder):
            if entry.is_file(follow_symlinks=False):
                log = self._logs.setdefault(entry.name, _Log(self._folder / entry.name))
                log.size = entry.stat(follow_symlinks=False).st_size
                if self._is_cut:
                    self._discard(log)

    def cut(self) -> None:
        """Keep nothing that is written from now on."""
        self.refresh()
        self._is_cut = True
        for log in self._logs.values():
            if log.kept is None:
                log.kept = log.counted = _last_line_end(log.path, log.size)
                log.cut_ns = time.monotonic_ns()

    def finish(self) -> list[dict[str, Any]]:
        """Cut the files to what is kept; return one loss (path, bytes, lines, times) for each that lost something."""
        self.refresh()
        losses = []
        for name, log in sorted(self._logs.items()):
            if log.kept is None or log.size <= log.kept:
                continue
            descriptor = _open_log(log.path, os.O_WRONLY)
            os.ftruncate(descriptor, log.kept)
            os.close(descriptor)
            losses.append({
                "source": "amd_log", "path": f"raw/amd_log/{name}", "reason": "the recording had ended",
                "offset": log.kept, "bytes": log.size - log.kept, "records": log.lost_lines,
                "from_ns": log.cut_ns, "to_ns": time.monotonic_ns(),
            })  # fmt: skip
        return losses

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
