"""Descriptors in thousands: a capture on 400 CPUs opens two for each of them and each instance, and perf events."""

from __future__ import annotations

import contextlib
import resource
import select
from collections.abc import Iterable
from pathlib import Path

from tracecorr.capture.workload.invoker import has_capability

_MOST_FILES, _CAP_SYS_RESOURCE = Path("/proc/sys/fs/nr_open"), 24


def wait_readable(descriptors: Iterable[int], seconds: float | None) -> bool:
    """Wait until one of some descriptors is readable; return False where none is after `seconds`, None = for ever.

    Not by select(2), which takes no number from 1024 on.
    """
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else seconds * 1000))


def most_files() -> int:
    """Return how many descriptors this process may open; with CAP_SYS_RESOURCE the kernel's own limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return max(hard, int(_MOST_FILES.read_text())) if has_capability(_CAP_SYS_RESOURCE) else hard


def allow_files() -> None:
    """Let this process open as many files as it may."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for most in (most_files(), hard):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(most, hard)))
            return
