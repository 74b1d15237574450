"""What a terminal shows while a verb works: a line that is replaced, and is gone when the verb has ended."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tracecorr import progress
from tracecorr.progress import LiveLine


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Tell that it is one."""
        return True


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    line = LiveLine(stream)
    line.show("reading")
    line.clear()
    assert not line.is_due()
    assert stream.getvalue() == ""


def test_a_line_is_replaced_cut_to_the_terminal_and_taken_away_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "8")
    monkeypatch.setattr(progress.time, "monotonic", lambda: 5.0)
    stream = Terminal()
    line = LiveLine(stream)
    assert line.is_due()
    line.show("reading hip.log")
    assert not line.is_due()
    line.show("linking")
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\x1b[Kreading\r\x1b[Klinking\r\x1b[K"


def _read_all(terminal: int) -> bytes:
    """Return what a terminal shows that nobody writes to any more: a read gives one piece of it."""
    pieces = []
    # Behind the last one Linux tells an error (EIO).
    with suppress(OSError):
        while piece := os.read(terminal, 1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def test_an_import_at_a_terminal_shows_its_stages_and_leaves_none(tmp_path: Path, log_file: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tracecorr", "import", "--amd-log", str(log_file), "-o", str(tmp_path / "x")]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    shown = _read_all(ours).decode()
    os.close(ours)
    assert ended.returncode == 0
    places = [
        shown.index(f"{text} ...") for text in (f"copying {log_file.name}", "reading", "linking", "writing the tables")
    ]
    assert places == sorted(places)
    left = [line.rpartition("\x1b[K")[2] for line in shown.replace("\r\n", "\n").split("\n")]
    assert not any("..." in line for line in left), left
    assert left[-2].startswith("next step: tracecorr report")
