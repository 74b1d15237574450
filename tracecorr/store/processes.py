"""Processes of this machine that share a work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import Any

from tracecorr.model.errors import WorkerError
from tracecorr.threads import limited_threads

# Each takes some 300 MiB to read a log; more of them hardly make an import shorter, most of it is one process' work.
_MOST = 8
# One encodes what it read while it reads on. Two of them on two CPUs are no sooner done, and each takes its start.
_CPUS_EACH = 2
_LOOK_SECONDS = 0.1


def count_processes() -> int:
    """Return how many processes this one may use: one for two of its CPUs, 8 at most."""
    return min(max(len(os.sched_getaffinity(0)) // _CPUS_EACH, 1), _MOST)


@dataclass(frozen=True)
class _Answer:
    """Wait for what a process was asked, so that Ctrl-C ends it: the handler of polars restarts a wait without end."""

    future: Future[Any]

    def result(self) -> Any:
        while not self.future.done():
            wait([self.future], timeout=_LOOK_SECONDS)
        return self.future.result()


@contextmanager
def open_processes(count: int) -> Iterator[Callable[..., _Answer]]:
    """Give a function that sends a call to one of up to `count` processes, and returns what waits for its result.

    The processes begin anew: threads of this one may hold locks.

    Raises:
        WorkerError: one of them was killed.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_leave_interrupts)
    try:
        # Each has a thread that encodes besides.
        with limited_threads(1):
            yield lambda *call: _Answer(pool.submit(*call))
    except BaseException as error:
        # What they still read nobody wants.
        for process in set(active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise WorkerError(
                "a process that read a part of a log was killed, perhaps for want of memory",
                "read it in one process: --jobs 1",
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
