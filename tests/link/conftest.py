"""Synthetic kernel traces, correlated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Correlator = Callable[[str], Capture]


@pytest.fixture
def correlate_trace(tmp_path: Path) -> Correlator:
    """Return a function that makes a capture of trace lines `TASK-TID TGID: BODY`, one microsecond apart."""

    def make(text: str) -> Capture:
        lines = ["# tracer: nop", "#"]
        for number, line in enumerate(text.strip().splitlines()):
            task, tgid, body = line.strip().split(None, 2)
            lines.append(f"{task:>16} ({tgid:>7}) [000] ..... 100.{number:06d}: {body}")
        trace = tmp_path / "trace.txt"
        trace.write_text("\n".join(lines) + "\n")
        out = tmp_path / "trace.tracecorr"
        import_files(out, [], [trace], clock="mono", force=True)
        correlate(out)
        return Capture.open(out)

    return make
