"""A recording that still runs can be followed: its log so far is shown, and what comes later, too."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browsing import Held, needs_browser, open_at, press, start_server, state_of, wait_for, wait_for_address, wait_idle

from tracecorr.app import index, notes
from tracecorr.app.captures import CaptureLike
from tracecorr.app.chain import find_chain
from tracecorr.app.detail import find_record, name_record, raw_lines
from tracecorr.app.library import Library, Wanted
from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.recording import list_raw_files

_PICTURE = "() => document.querySelector('#tl-canvas-host canvas').toDataURL()"


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


def test_the_kernel_side_is_followed(running: tuple[Capture, bytes], data_folder: Path) -> None:
    """REAL: the pages of a trace, the first half of which is there at the first reading."""
    capture, _ = running
    source, target = data_folder / "captures" / "hang-deadlock", capture.path / "raw" / "ftrace" / "main"
    shutil.copytree(source / "raw", target)
    shutil.copyfile(source / "clock.json", capture.path / "raw" / "clock.json")
    shutil.copyfile(source / "amd.log", capture.path / "raw" / "amd_log" / "0-amd.log")
    pages = (target / "cpu0.bin").read_bytes()
    half = len(pages) // 8192 * 4096
    (target / "cpu0.bin").write_bytes(pages[: half + 100])  # a page of which a part is written
    library = Library({"live": capture})

    def count() -> int:
        events = library.get(Wanted("live")).index.capture.table("events")
        return int(events.filter(pl.col("layer").cast(pl.String) == "ioctl").collect().height)

    first = count()
    (target / "cpu0.bin").write_bytes(pages)
    _wait_for(library, 2)
    assert 0 < first < count()


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


def _wait_for_end(library: Library) -> None:
    until = time.monotonic() + 300
    while library.follow(Wanted("live")) is not None:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_event_is_found_again_in_a_later_reading(running: tuple[Capture, bytes]) -> None:
    capture, rest = running
    library = Library({"live": capture})
    first = library.get(Wanted("live"))
    _append(capture, rest)
    _wait_for(library, 2)
    later = library.get(Wanted("live"))
    for event in range(0, first.index.views.events, 7):
        record = name_record(first.index, event)
        assert record is not None
        again = find_record(later.index, **record)
        assert again is not None and name_record(later.index, again) == record
    assert find_record(later.index, "raw/amd_log/9-other.log", 0, "hip", "hipMalloc") is None
    # Who still has the reading before on the screen asks about its numbers.
    assert library.get(Wanted("live"), first.edition) is first and library.get(Wanted("live"), later.edition) is later
    with pytest.raises(InputError, match="was rebuilt"):
        library.get(Wanted("live"), later.edition + 1)


def test_the_end_of_a_killed_recording_is_shown(running: tuple[Capture, bytes]) -> None:
    capture, _ = running
    library = Library({"live": capture})
    library.get(Wanted("live"))
    info = json.loads((capture.path / "capture.json").read_text())
    info["recorder"] = {"pid": os.getpid(), "started": 1}  # its log does not grow any more
    (capture.path / "capture.json").write_text(json.dumps(info))
    _wait_for_end(library)
    warnings = library.get(Wanted("live")).index.meta()["warnings"]
    assert not any("still being recorded" in text for text in warnings)


def test_a_recording_that_ends_is_shown_when_it_has_built_its_tables(
    running: tuple[Capture, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, rest = running
    library = Library({"live": capture})
    library.get(Wanted("live"))
    _append(capture, rest)
    info = json.loads((capture.path / "capture.json").read_text())
    info |= {"state": "complete", "files": list_raw_files(capture.path)}
    (capture.path / "capture.json").write_text(json.dumps(info))
    monkeypatch.setattr("tracecorr.app.live._REST", 0.1)
    for _ in range(20):
        assert library.follow(Wanted("live")) == 1  # its recorder lives, and builds the tables by itself
        time.sleep(0.02)
    assert not capture.has_tables()
    correlate(capture.path)
    _wait_for_end(library)
    shown = library.get(Wanted("live")).index
    chain = find_chain(shown, 100)
    assert chain is not None and raw_lines(shown, chain)[0]["text"]


def test_notes_on_a_recording_are_not_said_to_be_kept(running: tuple[Capture, bytes]) -> None:
    library = Library({"live": running[0]})
    with pytest.raises(OSError, match="still being recorded"):
        notes.save_notes(library.get(Wanted("live")).index, [{"text": "here", "start": 0, "dur": 0}])


_SHOWN = """() => {
  const view = __tl.view, start = Number(BigInt(view.meta.t0_abs));
  const places = [view.t0, view.t1, view.mark.a, view.mark.b, view.notes[0].start].map((t) => start + t);
  return { t0_abs: start, places: places };
}"""


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

    def test_what_is_selected_stays(self, browser: Any, running: tuple[Capture, bytes]) -> None:
        capture, rest = running
        page = browser.new_page()
        address = start_server({"live": capture})
        open_at(page, address)
        page.evaluate("() => __tl.select(100)")
        wait_idle(page)
        press(page, "p")
        before = state_of(page)["detail"]
        _follow(page, capture, rest)
        wait_idle(page)
        after = state_of(page)
        assert after["selected"] is not None and after["detail"]["record"] == before["record"] and after["chainOnly"]
        assert before["raw"][0]["text"] in page.locator("#tl-detail").inner_text()
        wait_for_address(page, "record=")
        open_at(page, page.url)
        assert state_of(page)["detail"]["record"] == before["record"]
        page.close()

    @pytest.mark.parametrize("failure", [None, "no room left"])
    def test_the_picture_stays_until_another_one_is_there_or_cannot_come(
        self, browser: Any, running: tuple[Capture, bytes], failure: str | None
    ) -> None:
        capture, rest = running
        page = browser.new_page()
        open_at(page, start_server({"live": capture}))
        before = page.evaluate(_PICTURE)
        spans = Held(page, "**/api/spans?*")
        _follow(page, capture, rest)
        spans.wait()
        page.wait_for_timeout(200)
        assert page.evaluate(_PICTURE) == before
        spans.answer(failure, idle=failure is None)
        if failure is not None:
            wait_for(page, f"document.getElementById('tl-status').innerText.includes('{failure}')")
        assert page.evaluate(_PICTURE) != before
        page.close()

    def test_what_the_end_brings_looks_as_in_any_capture(
        self, browser: Any, repo: Path, running: tuple[Capture, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tracecorr.app.live._REST", 0.1)
        path, page = running[0].path, browser.new_page()
        open_at(page, start_server({"live": running[0]}))
        assert not page.evaluate("() => __tl.view.meta.groups.some((g) => g.folded)")
        page.evaluate("""() => {
          const view = __tl.view, length = view.meta.length;
          view.setRange(0.2 * length, 0.3 * length);
          Object.assign(view, { mark: { a: 250, b: 900 }, notes: [{ start: 700, dur: 5, text: "here" }] });
          __tl.changed();
        }""")
        before = page.evaluate(_SHOWN)
        (path / "raw" / "amd_log" / "0-amd.log").unlink()
        shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path, dirs_exist_ok=True)
        wait_for(page, "__tl.view.meta.readings === null")
        wait_idle(page)
        folded = page.evaluate("() => __tl.view.meta.groups.filter((g) => g.folded).map((g) => g.id)")
        assert folded and page.evaluate("ids => ids.every((id) => __tl.view.collapsed.has(id))", folded)
        assert "clock sample" in page.locator("#tl-status").inner_text()
        after = page.evaluate(_SHOWN)
        assert after["t0_abs"] < before["t0_abs"] and after["places"] == pytest.approx(before["places"], abs=2)
        page.close()

    def test_a_recording_without_a_line_says_what_comes(self, browser: Any, running: tuple[Capture, bytes]) -> None:
        (running[0].path / "raw" / "amd_log" / "0-amd.log").write_bytes(b"")
        page = browser.new_page()
        open_at(page, start_server({"live": running[0]}))
        drawn = page.evaluate("() => TL.drawSvg()")
        assert "holds no event yet" in drawn and "has no events" not in drawn
        page.close()


def _follow(page: Any, capture: Capture, rest: bytes) -> None:
    """Let the recording go on, and wait until the page has noticed."""
    before = page.evaluate("() => __tl.view.meta.events")
    _append(capture, rest)
    until = time.monotonic() + 300
    while page.evaluate("() => __tl.view.meta.events") <= before:
        assert time.monotonic() < until
        page.wait_for_timeout(100)
