"""Wait for descriptors, whatever their numbers: a capture on some 400 CPUs has thousands, select(2) takes 1024."""

from __future__ import annotations

import select
from collections.abc import Iterable


def wait_readable(descriptors: Iterable[int], seconds: float | None) -> bool:
    """Wait until one of some descriptors is readable; return False where none is after `seconds`, None = for ever."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else seconds * 1000))
