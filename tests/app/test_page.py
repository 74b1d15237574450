"""The page in a real browser: zoom, click, chain, no error, no foreign request."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic import SyntheticCapture

from tracecorr.app import serve
from tracecorr.pipeline import correlate
from tracecorr.store import Capture

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed (apt install chromium)"),
]


_SAMPLE_DISPATCH: list[int] = []


@pytest.fixture(scope="module")
def sample(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    path = tmp_path_factory.mktemp("sample") / "t1-streams.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    correlate(path)
    capture = Capture.open(path)
    kernels = capture.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect()
    _SAMPLE_DISPATCH[:] = [kernels["event"][8]]
    return capture


@pytest.fixture(scope="module")
def url(synthetic_capture: SyntheticCapture, sample: Capture) -> str:
    ready, urls = threading.Event(), []

    def on_ready(found: str) -> None:
        urls.append(found)
        ready.set()

    threading.Thread(
        target=serve,
        args=({"synthetic": synthetic_capture, "t1-streams": sample}, "127.0.0.1", 0, on_ready),
        daemon=True,
    ).start()
    assert ready.wait(30)
    return str(urls[0])


@pytest.fixture
def page(url: str, tmp_path: Path) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    troubles: list[str] = []
    with api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path, executable_path=str(CHROMIUM), args=FLAGS, viewport={"width": 1500, "height": 900}
        )
        page = context.new_page()
        page.on("console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: troubles.append(str(e)))
        own = url.split("/?")[0]
        page.on("request", lambda r: None if r.url.startswith((own, "data:", "blob:")) else troubles.append(r.url))
        page.goto(url)
        _idle(page)
        yield page
        context.close()
    assert troubles == []


def _idle(page: Any) -> None:
    """Wait in Python: the page's policy forbids the eval behind `wait_for_function`."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        page.wait_for_timeout(60)
        if page.evaluate("() => Boolean(window.__perf && __perf.idle && window.__tl && __tl.view.meta)"):
            return
    raise AssertionError("the page did not become idle")


def _state(page: Any) -> dict[str, Any]:
    state: dict[str, Any] = page.evaluate("() => __tl.state()")
    return state


def _click(page: Any, layer: str) -> int:
    """Click on the first visible event of a layer; return its number."""
    spot = page.evaluate("layer => __tl.locate(layer)", layer)
    assert spot is not None
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    page.mouse.click(box["x"] + spot["x"], box["y"] + spot["y"])
    _idle(page)
    return int(spot["event"])


def test_token_leaves_the_address(page: Any) -> None:
    assert "token" not in page.url
    assert _state(page)["records"] > 1000


def test_zoom_by_key_and_wheel(page: Any) -> None:
    before = _state(page)
    page.keyboard.press("w")
    _idle(page)
    nearer = _state(page)
    assert nearer["t1"] - nearer["t0"] < before["t1"] - before["t0"]
    page.mouse.move(900, 400)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -800)
    page.keyboard.up("Control")
    _idle(page)
    nearest = _state(page)
    assert nearest["t1"] - nearest["t0"] < 0.5 * (nearer["t1"] - nearer["t0"])
    page.keyboard.press("0")
    _idle(page)
    assert _state(page)["t0"] == pytest.approx(before["t0"])


def test_click_on_a_dispatch_shows_the_way_from_the_call(page: Any) -> None:
    page.mouse.move(700, 300)
    for _ in range(14):
        page.keyboard.press("w")
    _idle(page)
    event = _click(page, "aql")
    state = _state(page)
    assert state["selected"] == event
    assert [s["layer"] for s in state["detail"]["stages"]] == ["hip", "command", "aql", "doorbell", "gpu"]
    shown = page.locator("#tl-detail").inner_text()
    for text in ("hipLaunchKernel", "KernelExecution", "doorbell", "raw/amd_log/synthetic.log:", "packet_index"):
        assert text in shown
    assert "<b>&</b>" in shown  # text of the log stays text
    page.keyboard.press("f")
    page.keyboard.press("p")
    _idle(page)
    assert _state(page)["lanes"] == 5
    page.keyboard.press("Escape")
    _idle(page)
    assert _state(page)["selected"] is None


def test_search_counts_and_steps(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("hipStreamCreate")
    page.keyboard.press("Enter")
    _idle(page)
    assert page.locator(".tl-count").inner_text() == "1 of 4"
    first = _state(page)["selected"]
    page.keyboard.press("Enter")
    _idle(page)
    assert page.locator(".tl-count").inner_text() == "2 of 4"
    assert _state(page)["selected"] != first


def test_view_comes_back_from_its_address(page: Any) -> None:
    page.keyboard.press("t")
    page.evaluate("() => __tl.select(500)")
    page.mouse.move(800, 300)
    page.keyboard.press("w")
    _idle(page)
    page.wait_for_timeout(300)
    before = _state(page)
    page.reload()
    _idle(page)
    after = _state(page)
    assert (after["selected"], after["theme"]) == (500, before["theme"])
    assert after["t0"] == pytest.approx(before["t0"], abs=1)


def test_help_opens_and_closes(page: Any) -> None:
    page.keyboard.press("?")
    assert page.locator("#tl-help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#tl-help").is_visible()


def test_sample_shows_the_way_from_call_to_doorbell(page: Any, url: str) -> None:
    """On the bundled capture of the real HIP runtime: zoom in, click a dispatch, read its chain."""
    page.goto(url.split("?")[0] + "?capture=t1-streams")
    _idle(page)
    page.evaluate("event => __tl.select(event)", _dispatch())
    _idle(page)
    page.keyboard.press("f")
    _idle(page)
    page.keyboard.press("Escape")
    _idle(page)
    assert _state(page)["selected"] is None
    _click(page, "aql")
    layers = [stage["layer"] for stage in _state(page)["detail"]["stages"]]
    assert layers == ["hip", "command", "aql", "doorbell"]
    shown = page.locator("#tl-detail").inner_text()
    for text in (
        "hipLaunchKernel",
        "KernelExecution",
        "doorbell",
        "raw/amd_log/0-amd.log:",
        "raw/ftrace/0-ftrace.txt:",
    ):
        assert text in shown or text.split("/", 1)[-1] in shown, text


def _dispatch() -> int:
    return int(_SAMPLE_DISPATCH[0])
