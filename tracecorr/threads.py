"""How many threads polars begins with: an operation wakes all of them, and most operations here are short."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# Read once by polars (2.1), when it is imported.
_SETTING = "POLARS_MAX_THREADS"
# Of the columns of a capture more threads hardly make anything sooner; 192 of them take three times the CPU time.
_MOST = 16


@contextmanager
def limited_threads(most: int = _MOST) -> Iterator[None]:
    """Give polars no more than `most` threads where it is imported meanwhile, here or in a process that starts.

    What the environment says already counts more. Afterwards it says what it said before, so that no workload
    inherits our limit.
    """
    if _SETTING in os.environ:
        yield
        return
    os.environ[_SETTING] = str(min(most, len(os.sched_getaffinity(0))))
    try:
        yield
    finally:
        os.environ.pop(_SETTING, None)


def begin_polars() -> None:
    """Import polars with few threads, and numpy, whose threads leave all signals to those of the program.

    A capture waits for its signals in one thread: one that another thread takes would end it half-way.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with limited_threads():
            import_module("polars")
        import_module("numpy")  # OpenBLAS starts a thread for each CPU
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
