"""Captures of small SYNTHETIC logs, given by their messages."""

from __future__ import annotations

from pathlib import Path

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_LINE = ":5:{:<25}:{:<4}: {:010d} us: [pid:7 tid: 0x7f00000000{}0] {}\n"


def correlate_messages(folder: Path, *messages: str) -> Capture:
    """Return a capture of a log with these messages, one a microsecond, with its tables.

    Args:
        folder: for the log and the capture.
        messages: of one thread; of another one where they begin with `@`.
    """
    lines = [
        _LINE.format(
            "rocvirtual.cpp", 1395, 5_000_000_000 + n, "ab"[message.startswith("@")], message.removeprefix("@")
        )
        for n, message in enumerate(messages)
    ]
    (folder / "amd.log").write_text("".join(lines))
    out = folder / "log.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    return Capture.open(out)
