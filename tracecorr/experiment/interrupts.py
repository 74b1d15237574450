"""Ctrl-C during an experiment: the terminal sends it to the running command, too, which is given time to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_interrupts(most: int | None = None) -> Iterator[None]:
    """Hold each Ctrl-C while a command runs that gets it as well; it is obeyed when the command has ended.

    Args:
        most: how many are held, the next one is obeyed at once; None: all.

    Raises:
        KeyboardInterrupt: there was one.
    """
    if signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield  # Ignored, as under `nohup`, or the caller's own.
        return
    seen = 0

    def hold(*_: object) -> None:
        nonlocal seen
        seen += 1
        if most is not None and seen > most:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if seen:
        raise KeyboardInterrupt
