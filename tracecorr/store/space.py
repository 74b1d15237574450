"""Space of a file on its file system: kept for what will be written, given back behind what was read; and its holes."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

# A hole of fewer bytes is read as the zeros that it is.
LEAST_HOLE = 1 << 20
_NO_HOLE = 1 << 62
# Flags of fallocate (falloc.h of the kernel).
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


def open_regular(path: Path) -> int:
    """Open a regular file for reading; return its descriptor. Anything else in its place, as a FIFO, is not waited for.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def find_hole(descriptor: int, offset: int) -> tuple[int, int]:
    """Return start and end of the first hole of at least `LEAST_HOLE` bytes at or behind an offset of a file.

    Without such a hole both are the largest offset there is: a file that grows has no end.
    """
    size = os.fstat(descriptor).st_size
    while offset < size:
        hole = _seek(descriptor, offset, os.SEEK_HOLE, size)
        data = _seek(descriptor, hole, os.SEEK_DATA, size)
        if data - hole >= LEAST_HOLE:
            return hole, data
        offset = max(data, hole + 1)
    return _NO_HOLE, _NO_HOLE


def _seek(descriptor: int, offset: int, whence: int, size: int) -> int:
    try:
        return os.lseek(descriptor, offset, whence)
    except OSError:
        return size  # nothing but a hole is behind the offset, or the file system knows no holes


def reserve_space(descriptor: int, offset: int, length: int) -> None:
    """Keep space for a range of a file; its size stays.

    Raises:
        OSError: there is none, or the file system cannot.
    """
    _fallocate(descriptor, _KEEP_SIZE, offset, length)


def free_space(descriptor: int, offset: int, length: int) -> None:
    """Give the space of a range of a file back; the file's size stays, the range reads as zeros.

    Raises:
        OSError: the file system cannot.
    """
    _fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, offset, length)


def _fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
