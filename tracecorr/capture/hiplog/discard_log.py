"""Keep the logs small that a workload writes on after its capture, until it ends.

A runtime cannot be told to stop logging, and its file cannot be taken from it. This is run as a program of its own,
which goes on after tracecorr has ended: it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

_PAUSE_MS = 1000
_BLOCK = 512  # of st_blocks
MOST_BYTES = 1 << 20


def start_discarding(files: Sequence[int], processes: Sequence[int]) -> int:
    """Start a process that empties files until their writers have ended; return its number.

    Args:
        files: descriptors of the logs, open for writing.
        processes: pidfds of those who write them.

    Raises:
        OSError: it cannot be started.
    """
    words = [",".join(map(str, descriptors)) for descriptors in (files, processes)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *words], pass_fds=(*files, *processes), cwd="/", start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ).pid  # fmt: skip


def _discard_until_end(files: Iterable[int], processes: Iterable[int]) -> None:
    """Give the space of files back, each second, while one of the processes lives.

    Args:
        files: descriptors, open for writing; a file that takes more than `MOST_BYTES` is emptied.
        processes: pidfds.
    """
    logs, living = list(files), set(processes)
    poller = select.poll()
    for process in living:
        poller.register(process, select.POLLIN)
    while living:
        for log in logs:
            with suppress(OSError):
                if os.fstat(log).st_blocks * _BLOCK > MOST_BYTES:
                    os.ftruncate(log, 0)
        for process, _ in poller.poll(_PAUSE_MS):
            poller.unregister(process)
            living.discard(process)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # tracecorr blocks what the user may send to this
    _discard_until_end(*([int(number) for number in word.split(",")] for word in sys.argv[1:]))
