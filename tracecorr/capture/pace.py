"""Pace: work that is done again and again, but takes only a small share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable

_LARGEST_SHARE, _LONGEST_REST_SECONDS = 0.05, 0.2


class Pace:
    """Say when a piece of work is due: after its interval, or later when it takes long.

    Args:
        seconds: interval between two turns.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def run(self, work: Callable[[], object]) -> None:
        """Do the work if it is due."""
        began = time.monotonic()
        if began < self._next:
            return
        work()
        now = time.monotonic()
        self._next = now + max(self._seconds, min((now - began) / _LARGEST_SHARE, _LONGEST_REST_SECONDS))
