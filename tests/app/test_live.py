"""A recording that still runs can be followed: its log so far is shown, and what comes later, too."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_browser, open_at, start_server, state_of, wait_idle

from tracecorr.app import index
from tracecorr.app.library import Library, Wanted
from tracecorr.app.source import CaptureLike
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


def test_a_reading_is_told_of_when_its_picture_is_there(
    running: tuple[Capture, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, rest = running
    library = Library({"live": capture})
    first = library.get(Wanted("live"))
    build, begun, go_on = index.build, threading.Event(), threading.Event()

    def build_late(capture: CaptureLike) -> index.CaptureIndex:
        begun.set()
        assert go_on.wait(300)
        return build(capture)

    monkeypatch.setattr(index, "build", build_late)
    _append(capture, rest)
    until = time.monotonic() + 300
    while not begun.wait(0.05):
        assert time.monotonic() < until
        library.follow(Wanted("live"))
    assert library.follow(Wanted("live")) == first.readings and library.get(Wanted("live")) is first
    go_on.set()
    _wait_for(library, 2)
    assert library.get(Wanted("live")).index.views.events > first.index.views.events


@pytest.mark.browser
class TestInTheBrowser:
    """The page follows."""

    pytestmark = needs_browser

    def test_the_page_shows_what_comes(self, browser: Any, running: tuple[Capture, bytes]) -> None:
        capture, rest = running
        page = browser.new_page()
        open_at(page, start_server({"live": capture}))
        _follow(page, capture, rest)
        assert "still being recorded" in page.locator("#tl-status").inner_text()
        page.close()

    def test_what_somebody_reads_and_types_stays(self, browser: Any, running: tuple[Capture, bytes]) -> None:
        capture, rest = running
        page = browser.new_page()
        open_at(page, start_server({"live": capture}) + "#page=queues&q=hip")
        search, bar = page.locator("#tl-toolbar input"), page.locator("#tl-page .tl-outdated")
        found = page.locator(".tl-count").inner_text()
        assert found.endswith(" found") and not bar.is_visible()
        search.focus()
        _follow(page, capture, rest)
        wait_idle(page)
        assert page.evaluate("() => TL.page") == "queues" and bar.is_visible()
        assert search.input_value() == "hip"
        assert page.evaluate("() => document.activeElement.type") == "search"
        assert page.locator(".tl-count").inner_text() not in ("", found)
        events = page.evaluate("() => __tl.view.meta.events")
        assert f"{events:,} events" in page.locator("#tl-toolbar").inner_text()
        _leads_nowhere_until_shown_anew(page)
        page.close()


def _follow(page: Any, capture: Capture, rest: bytes) -> None:
    """Let the recording go on, and wait until the page has noticed."""
    before = page.evaluate("() => __tl.view.meta.events")
    _append(capture, rest)
    until = time.monotonic() + 300
    while page.evaluate("() => __tl.view.meta.events") <= before:
        assert time.monotonic() < until
        page.wait_for_timeout(100)


def _leads_nowhere_until_shown_anew(page: Any) -> None:
    event = page.locator("#tl-page .tl-lead", has_text="#").first
    event.click()
    wait_idle(page)
    assert state_of(page)["selected"] is None
    page.locator("#tl-page button", has_text="Show anew").click()
    wait_idle(page)
    event.click()
    wait_idle(page)
    assert state_of(page)["selected"] == int(event.inner_text().lstrip("#"))
