"""The page at its edges: zoomed out, filtered to nothing, half seen, not answered, in a small window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, state_of, wait_idle

from tracecorr.model.kinds import Flag
from tracecorr.store import Capture

pytestmark = needs_browser


@pytest.fixture
def window(browser: Any) -> Iterator[Any]:
    """Return a page of its own, whose size may be changed and whose requests may fail."""
    page = browser.new_page()
    yield page
    page.close()


def _on_the_canvas(page: Any, text: str) -> bool:
    return text in str(page.evaluate("() => TL.drawSvg()"))


def _of(url: str, capture: str) -> str:
    return f"{url.split('?', maxsplit=1)[0]}?capture={capture}"


def test_zoomed_out_the_whole_capture_is_in_view(page: Any) -> None:
    length = page.evaluate("() => __tl.view.meta.length")
    for x in (300, 1400):
        page.mouse.move(x, 300)
        for keys in ("w" * 12 + "s" * 40, "a" * 10 + "d" * 20):
            for key in keys:
                page.keyboard.press(key)
            wait_idle(page)
            shown = state_of(page)
            assert shown["t0"] <= 0 and shown["t1"] >= length


def test_what_was_seen_by_half_is_not_called_an_instant(page: Any, url: str, sample: Capture) -> None:
    for flag, words in ((Flag.ENTER_ONLY, "end not seen"), (Flag.EXIT_ONLY, "begin not seen")):
        half = sample.table("events").filter(pl.col("flags") & int(flag) > 0).select("event").collect()
        open_at(page, _of(url, "t1-streams") + f"#sel={half['event'][0]}")
        chosen = page.locator("#tl-detail .tl-stages tr.chosen").inner_text()
        assert words in chosen and "instant" not in chosen


def test_a_filter_that_leaves_nothing_says_so_in_the_picture(page: Any) -> None:
    assert not _on_the_canvas(page, "No event passes the filters")
    press(page, "g")
    page.fill("[data-filter=name]", "no such name")
    wait_idle(page)
    assert _on_the_canvas(page, "No event passes the filters")
    page.locator("#tl-side button", has_text="Clear").click()
    wait_idle(page)
    assert not _on_the_canvas(page, "No event passes the filters")


def test_a_view_that_could_not_be_loaded_is_not_shown_as_empty(window: Any, url: str) -> None:
    open_at(window, url)
    open_at(window, _of(url, "synthetic"))
    window.route("**/api/spans?*", lambda route: route.abort())
    press(window, "w", "w", "w", "w", "w", "w", "d")
    assert _on_the_canvas(window, "Not all of this view is loaded: the server does not answer")
    assert "does not answer" in window.locator(".tl-message").inner_text()
    window.unroute("**/api/spans?*")
    press(window, "d", "d")
    assert not _on_the_canvas(window, "Not all of this view is loaded")
    assert window.locator(".tl-message").inner_text() == ""


def test_in_a_low_window_lanes_and_measure_are_in_sight(window: Any, url: str) -> None:
    open_at(window, url)
    window.set_viewport_size({"width": 750, "height": 450})
    open_at(window, _of(url, "t1-streams") + "#sel=100&lanes=chain")
    press(window, "m")
    card = window.locator("#tl-card")
    zoom, box = card.locator("button", has_text="Zoom").bounding_box(), card.bounding_box()
    assert zoom["y"] + zoom["height"] <= box["y"] + box["height"]
    assert window.locator("#tl-canvas-host").bounding_box()["height"] > 130
