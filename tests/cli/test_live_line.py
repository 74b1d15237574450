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
from tracecorr.progress import LiveLine, Stages


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


def test_a_watch_tells_the_share_of_all_files_about_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    told: list[str] = []
    watch = Stages(live=told.append).watch("ftrace", 4_000_000)
    first, second = (watch.follow(iter([bytes(1_000_000)] * 2)) for _ in range(2))
    next(first)
    assert told == []
    for chunks in (first, second, second):
        now[0] += 1
        next(chunks)
    assert told == [f"reading ftrace: {share} % of 4 MB" for share in (50, 75, 100)]


def test_stages_tell_what_they_do_and_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [5.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    lasting: list[str] = []
    live: list[str] = []
    stages = Stages(lasting.append, live.append)
    stages.begin("linking")
    now[0] = 7.25
    stages.end("link")
    assert (lasting, live) == (["link: 2.25 s"], ["linking ..."])
    Stages().begin("nobody listens")


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
