"""One process at a time builds the tables of a capture, or replaces it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecorr.model.errors import CaptureError


@contextmanager
def lock_capture(path: Path) -> Iterator[bool]:
    """Keep other processes from building tables in a folder, and from replacing it; readers are not held up.

    Nothing is written: the lock is one of the kernel's, and ends with its process. A file system without locks has
    none here either.

    Yields: whether other processes are kept away.

    Raises:
        CaptureError: another process has the lock.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _take(descriptor, path)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CaptureError(
            f"another process builds the tables of {path}", "wait for its end, or stop it, and run the command again"
        ) from error
    except OSError:
        return False
    return True
