"""The tables of a capture, built in a process of its own: a signal ends it at once, whatever it does."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tracecorr.model.errors import TracecorrError
from tracecorr.store.capture import drop_abandoned
from tracecorr.store.log_ranges import count_processes

_PR_SET_PDEATHSIG = 1  # prctl(2)


def build_tables(folder: Path, show: Callable[[str], None] | None) -> list[str]:
    """Build the tables of a capture; return the warnings, among them why there are none.

    Args:
        folder: the capture folder.
        show: called with what is being done now.

    Raises:
        Interrupted: a signal ended it; there are no tables.
    """
    context = get_context("spawn")  # threads of this process may hold locks
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(folder, theirs, os.getpid()))
    process.start()
    theirs.close()
    try:
        while True:
            told = ours.recv()
            if isinstance(told, list):
                return told
            if show is not None:
                show(told)
    except EOFError:
        return ["the tables were not built: the process that built them was killed, perhaps for want of memory"]
    finally:
        _end(process)
        drop_abandoned(folder)


def _build(folder: Path, told: Connection, parent: int) -> None:
    """Build the tables in a process group of its own, which ends with `parent`."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    from tracecorr.pipeline import correlate

    try:
        warnings = correlate(folder, live=told.send, jobs=count_processes())
    except Exception as error:
        # Whatever fails here, the recording is complete, and the exit status is the workload's.
        why = f"{error}" if isinstance(error, TracecorrError | OSError) else f"{type(error).__name__}: {error}"
        warnings = [f"the tables were not built: {why}"]
    told.send(warnings)


def _end(process: BaseProcess) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.kill()
    process.join()
