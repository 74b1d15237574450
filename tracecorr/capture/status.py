"""The live line on a terminal: how long, how much, and whether anything was lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tracecorr.capture.options import CaptureOptions
from tracecorr.progress import LiveLine

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


@dataclass(frozen=True)
class Progress:
    """What a recording has so far."""

    seconds: float
    events: int
    lost: int
    log_bytes: int
    state: str = "recording"


def render_progress(progress: Progress) -> str:
    """Return the line."""
    minutes, seconds = divmod(int(progress.seconds), 60)
    lost = f", {progress.lost:,} LOST" if progress.lost else ""
    return (
        f"tracecorr: {progress.state} {minutes}:{seconds:02d}, {progress.events:,} events{lost}, "
        f"log {progress.log_bytes / 1e6:,.1f} MB"
    )


class StatusLine:
    """Show how a recording goes, and messages where the line is.

    What the workload prints to the same terminal would stand behind the line, or be wiped out with it: then there is
    none.

    Args:
        options: of the capture.
        say: prints a message.
    """

    def __init__(self, options: CaptureOptions, say: Callable[[str], None]) -> None:
        self._line = LiveLine()
        self._say = say
        self._wanted = not options.quiet and (options.pid is not None or not sys.stdout.isatty())

    def is_due(self) -> bool:
        """Tell whether a line is wanted now."""
        return self._wanted and self._line.is_due()

    def show(self, progress: Progress) -> None:
        """Replace the line."""
        self._line.show(render_progress(progress))

    def clear(self) -> None:
        """Take the line away."""
        self._line.clear()

    def tell(self, message: str) -> None:
        """Print a message in place of the line."""
        self.clear()
        self._say(message)
