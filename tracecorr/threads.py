"""What polars and numpy begin with: few threads, because most operations here are short."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# Each is read once by its library, when that is imported.
_POLARS, _BLAS = "POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS"
# Of the columns of a capture more threads hardly make anything sooner; 192 of them take three times the CPU time.
# Beside them a thread of our own encodes what is stored.
_MOST, _CPUS_EACH = 16, 2


@contextmanager
def limited_threads(most: int = _MOST) -> Iterator[None]:
    """Give polars a thread for two CPUs, at most `most`, and numpy's OpenBLAS one, where they are imported meanwhile.

    So it is here, and in a process that starts. What the environment says already counts more. Afterwards it says what
    it said before, so that no workload inherits our limit.
    """
    # No matrix here is large, but each thread of OpenBLAS spins for a while before it sleeps.
    threads = min(most, max(len(os.sched_getaffinity(0)) // _CPUS_EACH, 1))
    wanted = {_POLARS: str(threads), _BLAS: "1"}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def begin_polars() -> None:
    """Import polars with few threads, and numpy, whose threads leave all signals to those of the program.

    A capture waits for its signals in one thread: one that another thread takes would end it half-way. The objects of
    both stay as long as the process: Python looks for garbage among them neither now nor later.
    """
    if {"polars", "numpy"} <= sys.modules.keys():
        # What a program had before that calls the command line may still become garbage.
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with limited_threads():
            import_module("polars")
            import_module("numpy")
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
