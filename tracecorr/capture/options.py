"""What a capture is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tracecorr.capture.plan import Wanted


@dataclass(frozen=True)
class CaptureOptions:
    """All that the command line can say of one capture; times in seconds."""

    command: tuple[str, ...]
    output: Path | None = None
    force: bool = False
    wanted: Wanted = field(default_factory=Wanted)
    duration: float | None = None
    delay: float = 0.0
    start_on_signal: bool = False
    max_log_bytes: int | None = None
    min_free_bytes: int = 1 << 30
    kill: bool = False
    correlate: bool = True
    as_root: bool = False
    log_level: int = 5
    compress_log: bool = True
    container: str | None = None
    image: str | None = None
    run_options: tuple[str, ...] = ()
    pid: int | None = None
    hqd_interval: float | None = None
    quiet: bool = False
