"""The live line on a terminal: how long, how much, and whether anything was lost."""

from __future__ import annotations

from dataclasses import dataclass


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
