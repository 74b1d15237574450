"""Processes of this machine that share a work."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from tracecorr.model.errors import WorkerError

# Each takes some 300 MiB to read a log; more of them hardly make an import shorter, most of it is one process' work.
_MOST = 8


def count_processes() -> int:
    """Return how many processes this one may use: one for each of its CPUs, 8 at most."""
    return min(len(os.sched_getaffinity(0)), _MOST)


@contextmanager
def open_processes(count: int) -> Iterator[Executor]:
    """Start up to `count` processes that begin anew: threads of this one may hold locks.

    Raises:
        WorkerError: one of them was killed.
    """
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise WorkerError(
            "a process that read a part of a log was killed, perhaps for want of memory",
            "read it in one process: --jobs 1",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
