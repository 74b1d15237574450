"""A recording that still runs can be followed: its log so far is shown, and what comes later, too."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_browser, open_at, start_server

from tracecorr.app.library import Library, Wanted
from tracecorr.store import Capture


@pytest.fixture
def running(repo: Path, tmp_path: Path) -> tuple[Capture, bytes]:
    """Return a capture that this process seems to record, with half of a real log, and the rest of that log."""
    sample = repo / "samples" / "t1-streams.tracecorr"
    whole = next((sample / "raw" / "amd_log").iterdir()).read_bytes()
    path = tmp_path / "running.tracecorr"
    (path / "raw" / "amd_log").mkdir(parents=True)
    half = len(whole) // 2
    (path / "raw" / "amd_log" / "0-amd.log").write_bytes(whole[:half])
    started = int(Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19])
    info = json.loads((sample / "capture.json").read_text())
    info |= {"state": "recording", "recorder": {"pid": os.getpid(), "started": started}, "files": []}
    (path / "capture.json").write_text(json.dumps(info))
    return Capture.open(path), whole[half:]


def _append(capture: Capture, rest: bytes) -> None:
    with (capture.path / "raw" / "amd_log" / "0-amd.log").open("ab") as log:
        log.write(rest)


def _wait_for(library: Library, readings: int) -> None:
    until = time.monotonic() + 300
    while (library.follow(Wanted("live")) or 0) < readings:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_whole_lines_are_read_and_later_ones_follow(running: tuple[Capture, bytes]) -> None:
    capture, rest = running
    library = Library({"live": capture})
    first = library.get(Wanted("live")).index
    assert first.views.events > 0 and library.follow(Wanted("live")) == 1
    assert any("still being recorded" in text for text in first.meta()["warnings"])
    ledger = first.capture.table("ledger").collect()
    assert "lost" not in set(ledger["outcome"].cast(str))
    _append(capture, rest)
    _wait_for(library, 2)
    while library.get(Wanted("live")).index.views.events == first.views.events:
        time.sleep(0.05)
    assert not (capture.path / "tables").exists() and not (capture.path / "views").exists()


@pytest.mark.browser
class TestInTheBrowser:
    """The page follows."""

    pytestmark = needs_browser

    def test_the_page_shows_what_comes(self, browser: Any, running: tuple[Capture, bytes]) -> None:
        capture, rest = running
        page = browser.new_page()
        open_at(page, start_server({"live": capture}))
        before = page.evaluate("() => __tl.view.meta.events")
        _append(capture, rest)
        until = time.monotonic() + 300
        while page.evaluate("() => __tl.view.meta.events") <= before:
            assert time.monotonic() < until
            page.wait_for_timeout(100)
        assert "still being recorded" in page.locator("#tl-status").inner_text()
        page.close()
