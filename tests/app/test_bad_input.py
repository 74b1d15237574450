"""Captures that are empty, tiny, wide, damaged or not aligned: all shown sensibly."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, start_server, state_of, wait_idle
from synthetic import SyntheticCapture, make_capture

from tracecorr.app import index
from tracecorr.app.library import Library, Wanted
from tracecorr.app.server import make_app
from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.model.kinds import Flag
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


def _empty() -> SyntheticCapture:
    return SyntheticCapture({name: table.empty() for name, table in schema.TABLES.items()}, {}, name="empty")


def _single() -> SyntheticCapture:
    capture = _empty()
    row = {"event": 0, "ts_ns": 5_000, "layer": "syscall", "name": "futex", "evidence": "recorded", "source": "ftrace"}
    capture.tables["events"] = schema.EVENTS.conform(pl.DataFrame([row]))
    capture.name = "single"
    return capture


def _wide(threads: int = 5_000) -> SyntheticCapture:
    capture = _empty()
    number = pl.int_range(2 * threads, eager=True)
    capture.tables["events"] = schema.EVENTS.conform(
        pl.DataFrame({"event": number, "ts_ns": number * 1000, "dur_ns": 700, "thread": number // 2, "process": 0})
        .with_columns(layer=pl.when(pl.col("event") % 2 == 0).then(pl.lit("hip")).otherwise(pl.lit("ioctl")))
        .with_columns(name=pl.lit("call"), evidence=pl.lit("recorded"), source=pl.lit("amd_log"))
    )
    capture.name = "wide"
    return capture


def _unaligned() -> SyntheticCapture:
    capture = make_capture(200)
    events = capture.tables["events"]
    of_trace = pl.col("source").cast(pl.String) == "ftrace"
    capture.tables["events"] = events.with_columns(
        flags=pl.when(of_trace).then(int(Flag.UNALIGNED)).otherwise("flags").cast(pl.UInt16),
        err_lo_ns=pl.when(~of_trace).then("err_lo_ns"),
        err_hi_ns=pl.when(~of_trace).then("err_hi_ns"),
    )
    methods = {"amd_log:mono": "same_clock", "ftrace:local": "unaligned"}
    clocks = [{"source": source, "method": method, "from_ns": 0, "to_ns": 1} for source, method in methods.items()]
    capture.tables["clock_map"] = schema.CLOCK_MAP.conform(pl.DataFrame(clocks))
    capture.name = "unaligned"
    return capture


MAKERS: dict[str, Callable[[], SyntheticCapture]] = {
    "empty": _empty, "single": _single, "wide": _wide, "unaligned": _unaligned,
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_views_of_odd_captures(name: str) -> None:
    capture = MAKERS[name]()
    views = index.build(capture).views
    assert views.events == capture.tables["events"].height
    found = views.pyramid.query(-1, views.length_ns + 1, 1000, range(len(views.lanes)))
    assert int(found.count.sum()) == len(views.pyramid.finest)
    assert len(views.lanes) == {"empty": 0, "single": 1, "wide": 10_000}.get(name, len(views.lanes))


@pytest.fixture(scope="module")
def odd_url() -> str:
    captures = {name: make() for name, make in MAKERS.items()}
    return start_server(captures)


class TestInTheBrowser:
    """The page on odd captures: no error, something sensible on the screen."""

    pytestmark = needs_browser

    def test_no_event(self, lone_page: Any, odd_url: str) -> None:
        open_at(lone_page, odd_url)
        assert "has no events" in lone_page.locator("#tl-status").inner_text()
        press(lone_page, "w", "f", ".", "e", "0", "g", "Escape", "m")
        for name in lone_page.evaluate("() => __tl.view.meta.pages.map(p => p[0])"):
            if name != "compare":
                lone_page.evaluate("name => TL.openPage(name)", name)
                press(lone_page, "Shift")
                shown = lone_page.locator("#tl-page > :not(.tl-examples)")
                assert not any("failed" in text for text in shown.all_inner_texts())

    def test_ten_thousand_lanes(self, lone_page: Any, odd_url: str) -> None:
        open_at(lone_page, odd_url)
        open_at(lone_page, odd_url.split("?")[0] + "?capture=wide")
        state = state_of(lone_page)
        assert state["lanes"] == 10_000 and state["records"] > 0
        lone_page.evaluate("() => { __tl.view.scrollBy(1e9); __tl.changed(); }")
        press(lone_page, "w")
        assert lone_page.evaluate("() => __tl.view.visibleItems(0).length") > 10

    def test_unaligned_side_says_so(self, lone_page: Any, odd_url: str) -> None:
        open_at(lone_page, odd_url)
        open_at(lone_page, odd_url.split("?")[0] + "?capture=unaligned")
        assert "UNALIGNED" in lone_page.locator("#tl-status").inner_text()

    def test_a_damaged_capture_is_explained_in_place_of_the_picture(
        self, browser: Any, repo: Path, tmp_path: Path
    ) -> None:
        capture = _damaged_sample(repo, tmp_path)
        page = browser.new_page()
        page.goto(start_server({"half": capture}))
        # At first it may say there what goes on.
        failure = page.locator(".tl-instead", has_text="damaged")
        failure.wait_for()
        said = failure.inner_text()
        page.close()
        assert "events.parquet is damaged" in said and "tracecorr correlate" in said

    def test_from_a_damaged_capture_the_others_are_reached(self, browser: Any, repo: Path, tmp_path: Path) -> None:
        captures = {"half": _damaged_sample(repo, tmp_path), "empty": _empty(), "single & more": _single()}
        page = browser.new_page()
        page.goto(start_server(captures))
        links = page.locator(".tl-instead .tl-link")
        links.first.wait_for()
        assert links.all_inner_texts() == ["empty", "single & more"]
        links.last.click()
        wait_idle(page)
        assert page.evaluate("() => __tl.view.meta.shown") == "single & more"
        page.evaluate("() => TL.openPage('compare', 'half')")
        wait_idle(page)
        said = page.locator("#tl-page").inner_text()
        assert "half cannot be opened" in said and "tracecorr correlate" in said
        page.locator("#tl-page select").select_option("empty")
        page.locator("#tl-page", has_text="single & more (A) and empty (B)").wait_for()
        page.close()


def _copied_sample(repo: Path, folder: Path) -> Capture:
    path = folder / "half.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    for name in ("tables", "views"):
        shutil.rmtree(path / name, ignore_errors=True)
    return Capture.open(path)


def _damaged_sample(repo: Path, folder: Path) -> Capture:
    capture = _copied_sample(repo, folder)
    Library({"half": capture}).get(Wanted("half"))
    shutil.rmtree(capture.path / "views")
    (capture.path / "tables" / "events.parquet").write_bytes(b"not a table")
    return capture


def test_a_foreseen_failure_is_told_in_lines_without_the_code(
    repo: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of tables that another version built: what is wrong and what to do, no traceback."""
    capture = _copied_sample(repo, tmp_path)
    Library({"half": capture}).get(Wanted("half"))
    shutil.rmtree(capture.path / "views")
    launches = capture.path / "tables" / "launches.parquet"
    pl.read_parquet(launches).drop("kind").write_parquet(launches)
    library = Library({"half": capture})
    with pytest.raises(InputError, match="another version"):
        while library.state(Wanted("half")) is not None:
            pass
    told = [record for record in caplog.records if record.name.startswith("tracecorr")]
    assert [record.exc_info for record in told] == [None]
    assert "another version" in told[0].getMessage() and "next step: " in told[0].getMessage()


def test_a_comparison_with_a_damaged_capture_says_so(
    repo: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It leaves the choice of another one, and the damaged one is not waited for ever after."""
    client = make_app({"one": _single(), "half": _damaged_sample(repo, tmp_path)}, token="t").server.test_client()
    client.get("/?token=t")
    told = client.get("/api/page?name=compare&capture=one")
    assert told.status_code == 200 and told.get_json()["rest"] == ["half"]
    assert "events.parquet is damaged" in told.get_json()["problem"][0]
    assert "tracecorr correlate" in told.get_json()["problem"][1]
    until = time.monotonic() + 60
    while (answer := client.get("/api/meta?capture=half")).status_code == 202:
        assert time.monotonic() < until, answer.text
        time.sleep(0.02)
    assert answer.status_code == 409
    other = client.get("/api/page?name=queues&capture=half")
    assert other.status_code == 409 and "is damaged" in other.text and "tracecorr correlate" in other.text
    assert [record for record in caplog.records if record.exc_info] == []


def test_missing_tables_are_built_when_asked_for(repo: Path, tmp_path: Path) -> None:
    capture = _copied_sample(repo, tmp_path)
    opened = Library({"half": capture}).get(Wanted("half"))
    assert capture.has_tables() and opened.index.views.events > 1000
    assert (tmp_path / "half.tracecorr" / "views" / "pyramid" / "index.json").is_file()


def test_tables_that_were_built_anew_are_read_anew(repo: Path, tmp_path: Path) -> None:
    """A page that was opened before is told so, and never shown other events under its numbers."""
    capture = _copied_sample(repo, tmp_path)
    library = Library({"half": capture})
    first = library.get(Wanted("half"))
    assert library.get(Wanted("half"), first.edition) is first
    log = next((capture.path / "raw" / "amd_log").iterdir())
    import_files(capture.path, [log], [], force=True)
    correlate(capture.path)
    while library.state(Wanted("half")) is not None:
        time.sleep(0.05)
    second = library.get(Wanted("half"))
    assert second.index.views.events == second.index.capture.table("events").select(pl.len()).collect().item()
    assert second.index.views.events < first.index.views.events
    with pytest.raises(InputError, match="was rebuilt") as told:
        library.get(Wanted("half"), first.edition)
    assert told.value.next_step == "reload the page"


def test_a_capture_that_fails_at_once_is_never_called_open(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = _damaged_sample(repo, tmp_path)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    library = Library({"half": capture})
    assert library.state(Wanted("half")) is not None
    with pytest.raises(InputError):
        library.state(Wanted("half"))


def test_one_capture_is_shown_while_another_one_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building the tables of a large capture takes minutes: who reads another one does not wait for it."""
    library, build = Library({"one": _single(), "large": _wide(2)}), index.build
    shown = library.get(Wanted("one"))
    begun, goes_on = threading.Event(), threading.Event()

    def slowly(capture: Any) -> index.CaptureIndex:
        begun.set()
        assert goes_on.wait(60)
        return build(capture)

    monkeypatch.setattr(index, "build", slowly)
    assert library.state(Wanted("large")) is not None
    assert begun.wait(60)
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.append(library.get(Wanted("one"))), daemon=True)
    reader.start()
    reader.join(5)
    goes_on.set()
    assert got == [shown]
    assert library.get(Wanted("large")).index.views.events == 4


@pytest.mark.parametrize("damage", ["index.json", "0.start.npy", "1.end.npy"])
def test_damaged_views_are_built_again(repo: Path, tmp_path: Path, damage: str) -> None:
    capture = _copied_sample(repo, tmp_path)
    first = Library({"half": capture}).get(Wanted("half")).index.views
    start = first.pyramid.finest.start.copy()  # the file is mapped
    file = capture.path / "views" / "pyramid" / damage
    file.write_bytes(file.read_bytes()[:-9])
    again = Library({"half": capture}).get(Wanted("half")).index.views
    assert (again.pyramid.finest.start == start).all()
    assert len(again.pyramid.levels) == len(first.pyramid.levels)


def _link_file(raw: Path) -> None:
    log = next((raw / "amd_log").iterdir())
    log.rename(raw.parent.parent / "elsewhere")
    log.symlink_to(raw.parent.parent / "elsewhere")


def _link_folder(raw: Path) -> None:
    raw.rename(raw.parent.parent / "elsewhere")
    raw.symlink_to(raw.parent.parent / "elsewhere")


def _make_pipe(raw: Path) -> None:
    log = next((raw / "amd_log").iterdir())
    log.unlink()
    os.mkfifo(log)


@pytest.mark.parametrize("change", [_link_file, _link_folder, _make_pipe])
def test_only_files_of_the_capture_itself_are_shown(repo: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    capture = _copied_sample(repo, tmp_path)
    Library({"half": capture}).get(Wanted("half"))
    change(capture.path / "raw")
    app = make_app({"half": capture}, token="t")
    client = app.server.test_client()
    client.get("/?token=t")
    while client.get("/api/meta").status_code == 202:
        pass
    found = client.get("/api/search?q=hipLaunchKernel").get_json()
    answer = client.get(f"/api/event?event={found['event']}")
    assert answer.status_code == 200 and b"not readable" in answer.data
    assert [record["text"] for record in answer.get_json()["raw"] if "hipLaunchKernel (" in record["text"]] == []


def test_tables_on_which_polars_panics_are_called_damaged(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its panic is no `Exception`: uncaught it would end the thread that opens, and the page wait for ever."""
    capture = _copied_sample(repo, tmp_path)

    def panic(_: Any) -> index.CaptureIndex:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr(index, "build", panic)
    library = Library({"half": capture})
    with pytest.raises(InputError, match="index out of bounds"):
        while library.state(Wanted("half")) is not None:
            pass
