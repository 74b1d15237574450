"""Memory of another process: which pages may be read, what stands at an address, where ROCr's signals are.

Only pages that are present are read, and only of private anonymous memory or of shared memory without a file: pages of
files, devices and absent pages may block a reader or change the process.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

PAGE = os.sysconf("SC_PAGE_SIZE")
# `id` of ROCr's SharedSignal, 80 bytes behind the amd_signal_t that it holds (core/inc/signal.h).
_SIGNAL_ID, _ID_OFFSET = 0x71FCCA6A3D5D5276, 80
_SIGNAL_STEP, _WORD = 64, 8
_PIECE = 4 << 20
_PRESENT = 1 << 63
# What a mapping without a private anonymous page may be called; `---` and files are never read.
_SHARED = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV")


@dataclass(frozen=True)
class _Mapping:
    """Hold one line of /proc/PID/maps."""

    start: int
    end: int
    rights: str
    offset: int
    inode: int
    path: str

    @property
    def is_plain(self) -> bool:
        """Tell whether its present pages can be read without waiting for a file or a device."""
        anonymous = self.rights[3] == "p" and self.inode == 0 and not self.path.startswith(("[vv", "[vs", "[vd"))
        return self.rights.startswith("rw") and (anonymous or any(name in self.path for name in _SHARED))


def _read_mappings(pid: int) -> list[_Mapping]:
    """Return the mappings of a process; takes its memory lock.

    Raises:
        OSError: there is no such process, or no right to look.
    """
    found = []
    with Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            span, rights, offset, _, inode, *path = line.rstrip("\n").split(maxsplit=5)
            start, _, end = span.partition("-")
            found.append(_Mapping(int(start, 16), int(end, 16), rights, int(offset, 16), int(inode), "".join(path)))
    return found


class Memory:
    """Read the memory of a process.

    Args:
        pid: its number.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.mappings = _read_mappings(pid)
        self._mem = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self._pages = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
        self._plain = sorted((m.start, m.end) for m in self.mappings if m.is_plain)
        self._starts = np.array([start for start, _ in self._plain], np.uint64)

    def close(self) -> None:
        """Close the files."""
        os.close(self._mem)
        os.close(self._pages)

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; nothing if they cannot all be read without waiting."""
        at = int(np.searchsorted(self._starts, address, side="right")) - 1
        if at < 0 or size <= 0 or address + size > self._plain[at][1]:
            return b""
        first = address // PAGE
        if not self._present(first, (address + size - 1) // PAGE - first + 1).all():
            return b""
        try:
            data = os.pread(self._mem, size, address)
        except (OSError, OverflowError):
            return b""
        return data if len(data) == size else b""

    def words(self, address: int, form: str) -> tuple[int, ...] | None:
        """Return numbers at an address, in the form of `struct`; None if they cannot be read."""
        data = self.read(address, struct.calcsize(form))
        return struct.unpack(form, data) if data else None

    def _present(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Return of some pages whether they are present; what pagemap does not tell is not."""
        try:
            data = os.pread(self._pages, 8 * count, 8 * first)
        except OSError:
            data = b""
        told = np.zeros(count, np.bool_)
        entries = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        told[: len(entries)] = (entries & np.uint64(_PRESENT)) > 0
        return told

    def list_present(self) -> Iterator[tuple[int, int]]:
        """Yield runs of present pages (start, end), small mappings first: ROCr's pools are among those."""
        for start, end in sorted(self._plain, key=lambda span: span[1] - span[0]):
            # In pieces: pagemap has 8 bytes for each page of a mapping, however few are present.
            for at in range(start, end, _PIECE * 64):
                stop = min(at + _PIECE * 64, end)
                present = self._present(at // PAGE, (stop - at) // PAGE)
                edges = np.flatnonzero(np.diff(np.concatenate(([False], present, [False]))))
                for low, high in edges.reshape(-1, 2).tolist():
                    yield at + low * PAGE, at + high * PAGE

    def find_signals(self, most_bytes: int, cpu_s: float) -> tuple[list[int], bool, int]:
        """Return the addresses of all amd_signal_t, whether everything was looked at, and how many bytes were.

        Args:
            most_bytes: budget of bytes.
            cpu_s: budget of time on a CPU; on a busy machine the search may last longer.
        """
        until = time.thread_time() + cpu_s
        found: list[int] = []
        looked, buffer = 0, bytearray(_PIECE)
        for start, end in self.list_present():
            for at in range(start, end, _PIECE):
                size = min(_PIECE, end - at)
                if looked + size > most_bytes or time.thread_time() > until:
                    return found, False, looked
                looked += size
                try:
                    got = os.preadv(self._mem, [memoryview(buffer)[:size]], at)
                except OSError:
                    continue
                words = np.frombuffer(buffer, np.uint64, got // _WORD)[(_ID_OFFSET % _SIGNAL_STEP) // _WORD :: 8]
                hits = np.flatnonzero(words == np.uint64(_SIGNAL_ID))
                found += [at + int(hit) * _SIGNAL_STEP + _ID_OFFSET % _SIGNAL_STEP - _ID_OFFSET for hit in hits]
        return found, True, looked
