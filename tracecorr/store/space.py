"""Space of a file on its file system: kept for what will be written, given back behind what was read."""

from __future__ import annotations

import ctypes
import os

# Flags of fallocate (falloc.h of the kernel).
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


def reserve_space(descriptor: int, offset: int, length: int) -> None:
    """Keep space for a range of a file, whose size stays.

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
