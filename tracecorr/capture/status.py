"""The live line on a terminal: how long, how much, and whether anything was lost."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TextIO

_INTERVAL_SECONDS = 1.0
_CLEAR_LINE = "\r\x1b[K"


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
    """Show the progress on stderr once a second, only where stderr is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._next = 0.0
        self._shown = False

    def is_due(self) -> bool:
        """Tell whether the next line should be shown now."""
        return self._on and time.monotonic() >= self._next

    def show(self, progress: Progress) -> None:
        """Replace the line."""
        self._next = time.monotonic() + _INTERVAL_SECONDS
        self._stream.write(_CLEAR_LINE + render_progress(progress))
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away before other text is printed."""
        if self._shown:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._shown = False
