"""Five questions of an engineer, on the bundled sample: at most three clicks each, the answer in the first screen.

SYNTHETIC driver and GPU. What the sample holds: six streams of normal priority on four queues, one high, one low; a
request for more memory than there is; a dispatch that never ends, and a stream that waits behind it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_browser, open_at, press, start_server, state_of, wait_for, wait_idle

from tracecorr.bundled import find_sample
from tracecorr.pipeline import correlate
from tracecorr.store import Capture

pytestmark = needs_browser

WIDTH, HEIGHT = 1280, 720
# What is asked, what is clicked on, what is read then.
TASKS = (
    ("which streams share a queue", ["Queues"], r"shared: queue 0 by streams 0, 4; queue 1 by streams 1, 5"),
    ("latency of vadd from call to doorbell", ["Latency"], r"vadd\s+steady\s+call to doorbell\s+\d+"),
    ("why is this call slow", ["HIP calls"], r"hipStreamCreateWithPriority [\d.]+ m?s: [\d.]+ m?s making the queue"),
    ("why does it hang", ["Verdicts"], r"is behind packet \d+ of queue 0 \(dispatch of vadd,"),
    ("did the priority help", ["Queues"], r"who is served first is unknown: no kernel has GPU times; to know it:"),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a server of the bundled sample."""
    folder = tmp_path_factory.mktemp("bundled") / find_sample().name
    shutil.copytree(find_sample(), folder, ignore=shutil.ignore_patterns("tables", "views"))
    correlate(folder)
    return start_server({"sample": Capture.open(Path(folder))})


@pytest.fixture
def first_screen(lone_page: Any, told: str) -> Any:
    """Return the page as somebody sees it first, in a window of a laptop."""
    lone_page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    lone_page.goto(told)
    wait_idle(lone_page)
    lone_page.locator("#tl-findings .tl-found").first.wait_for()
    return lone_page


def _seen(page: Any, pattern: str) -> bool:
    """Tell whether a text stands on the screen, not below its edge."""
    texts = page.evaluate(
        """([w, h]) => [...document.querySelectorAll("#tl-root :is(p, tr, .tl-found, .tl-path)")].filter((node) => {
          const box = node.getBoundingClientRect();
          return box.width && box.top >= 0 && box.bottom <= h && box.left < w;
        }).map((node) => node.innerText)""",
        [WIDTH, HEIGHT],
    )
    return any(re.search(pattern, text) for text in texts)


def test_five_tasks(first_screen: Any) -> None:
    page = first_screen
    for task, tabs, answer in TASKS:
        assert len(tabs) <= 3
        for tab in tabs:
            page.get_by_role("tab", name=tab, exact=True).click()
            wait_idle(page)
        assert _seen(page, answer), task
        # Of another range than the whole capture no page tells: none is shown.
        assert not page.locator(".tl-range").is_visible()


def test_findings_lead_to_an_open_call_whose_bar_reaches_to_the_end(first_screen: Any) -> None:
    page = first_screen
    first = page.locator("#tl-findings .tl-found").first
    assert "open at the end: hipStreamSynchronize" in first.inner_text()
    assert _seen(page, r"hipMalloc returned hipErrorOutOfMemory once")
    first.locator("button").first.click()
    wait_for(page, "__tl.view.detail && __tl.view.detail.stages.some((s) => s.name === 'hipStreamSynchronize')")
    wait_idle(page)
    state = state_of(page)
    own = next(stage for stage in state["detail"]["stages"] if stage["event"] == state["selected"])
    assert own["unseen"] == "end" and own["dur"] > 1_000_000_000
    assert state["t0"] < own["start"] and own["start"] + own["dur"] < state["t1"]
    assert "end not seen, ≥ " in page.locator(".tl-stages tr.chosen").inner_text()


def test_the_panel_takes_a_call_apart_under_headings_that_stay(first_screen: Any) -> None:
    page = first_screen
    press(page, "/")
    page.keyboard.type('"hipStreamCreateWithPriority"')
    press(page, "Enter", "Escape")
    page.locator(".tl-path", has_text="making the queue").wait_for()
    body, heading = page.locator(".tl-body"), page.locator(".tl-stages th").first
    body.evaluate("(node) => { node.scrollTop = 400; }")
    assert body.evaluate("(node) => node.scrollTop") == 400
    assert abs(heading.bounding_box()["y"] - body.bounding_box()["y"]) < 2
    _check_sorting(page, ".tl-stages", "duration")
    page.get_by_role("tab", name="Latency", exact=True).click()
    wait_idle(page)
    _check_sorting(page, "#tl-page .tl-table >> nth=0", "p50")


def _check_sorting(page: Any, table: str, heading: str) -> None:
    """A heading sorts numbers from the largest on, once more from the smallest on; what is not known comes last."""
    head = page.locator(table).locator("th", has_text=heading).first
    at = head.evaluate("(th) => th.cellIndex")
    for direction in ("descending", "ascending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == direction
        cells = page.locator(table).locator(f"tbody td:nth-child({at + 1})")
        told = cells.evaluate_all("(cells) => cells.map((cell) => cell.dataset.ns ? Number(cell.dataset.ns) : null)")
        known = [value for value in told if value is not None]
        assert len(known) > 1 and known == sorted(known, reverse=direction == "descending")
        assert None not in told[: len(known)]


def test_help_opens_from_the_filters_and_serves_the_documents(first_screen: Any, told: str) -> None:
    page = first_screen
    open_at(page, told.split("?")[0] + "#theme=dark")
    press(page, "g", "g")
    assert not page.locator("#tl-side").is_visible()
    press(page, "g")
    page.locator("#tl-colour-by").focus()
    press(page, "?")  # no control of the filters swallows a key of the page
    address = page.locator("#tl-help a", has_text="SQL over the tables").get_attribute("href")
    served = told.split("/?")[0]
    for path, inside in ((address, 'href="tables?theme=dark"'), ("/help/tables?theme=dark", "<table>")):
        text = page.request.get(served + path).text()
        assert "<h1>" in text and 'data-theme="dark"' in text and inside in text, path
    assert page.request.get(f"{served}/help/nothing").status == 404
