"""Getting about on the page: from page to page and capture to capture, by link, by time, by number."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import click_event, needs_browser, open_at, press, start_server, state_of, wait_for_address, wait_idle
from synthetic import SyntheticCapture

from tracecorr.app import index
from tracecorr.app.captures import CaptureLike

pytestmark = needs_browser


@pytest.fixture(scope="module")
def three(synthetic_capture: SyntheticCapture) -> str:
    """Return the address of a server of three captures."""
    return start_server(dict.fromkeys(("one", "two", "three"), synthetic_capture))


def test_a_capture_is_opened_once_wherever_a_search_goes_on(
    lone_page: Any, synthetic_capture: SyntheticCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, opened = index.build, []

    def counted(capture: CaptureLike) -> index.CaptureIndex:
        opened.append(capture)
        return build(capture)

    monkeypatch.setattr(index, "build", counted)
    open_at(lone_page, start_server({"one": synthetic_capture}))
    press(lone_page, "/")
    lone_page.keyboard.type("hipStreamCreate")
    press(lone_page, "Enter", "Enter", "Shift+Enter", "Enter")
    assert lone_page.locator(".tl-count").inner_text() == "2 of 4"
    assert len(opened) == 1


def _page_of(page: Any) -> str:
    return str(page.evaluate("() => TL.shownPage"))


def test_what_acts_on_the_timeline_shows_it(page: Any) -> None:
    for button in ("Filters", "Fit", "Chain", "Whole", "Note"):
        page.evaluate("() => TL.openPage('queues')")
        wait_idle(page)
        page.locator("#tl-toolbar button", has_text=button).first.click()
        wait_idle(page)
        assert _page_of(page) == "" and page.locator("#tl-canvas-host canvas").is_visible(), button


def test_a_search_from_a_page_shows_its_hit(page: Any) -> None:
    page.evaluate("() => TL.openPage('queues')")
    wait_idle(page)
    page.evaluate("() => document.activeElement.blur()")
    theme = state_of(page)["theme"]
    press(page, "t")
    assert state_of(page)["theme"] != theme
    press(page, "?")
    assert page.locator("#tl-help").is_visible()
    press(page, "Escape")
    assert not page.locator("#tl-help").is_visible() and _page_of(page) == "queues"
    press(page, "w", "/")
    page.keyboard.type("hipStreamCreate")
    press(page, "Enter")
    assert state_of(page)["selected"] is not None
    assert _page_of(page) == "" and page.locator("#tl-detail").is_visible()


def _said_after(page: Any, event: int, *keys: str) -> str:
    page.evaluate(f"() => __tl.select({event})")
    wait_idle(page)
    press(page, *keys)
    return str(page.locator("#tl-status .tl-message").inner_text())


def test_a_step_that_leads_nowhere_says_why(page: Any, synthetic_capture: SyntheticCapture) -> None:
    """What has no kernel is told so: that no later event of the same kernel follows would give it one."""
    events = synthetic_capture.table("events").collect()
    lone = events.filter(pl.col("kernel").is_null() & pl.col("queue").is_null(), pl.col("name") == "hipStreamCreate")
    event = int(lone["event"][0])
    assert _said_after(page, event, "k") == "this event has no kernel"
    assert _said_after(page, event, "Shift+Q") == "this event has no queue"
    last = int(events.filter(pl.col("kernel").is_not_null(), pl.col("layer") == "aql")["event"].max())
    kernel = events["kernel"][last]
    assert _said_after(page, last, "k") == "no later event of the same kernel" and kernel is not None
    assert _said_after(page, events.height - 1, "e") == "no later error"
    assert _said_after(page, 0, ",") == "no earlier event of the same thread and layer"


def test_the_address_names_what_is_compared(lone_page: Any, three: str) -> None:
    page = lone_page
    open_at(page, three)
    page.evaluate("() => TL.openPage('compare', 'three')")
    wait_for_address(page, "page=compare", "with=three")
    wait_idle(page)
    page.reload()
    wait_idle(page)
    assert "one (A) and three (B)" in page.locator("#tl-page h2").inner_text()
    page.locator("#tl-tabs button", has_text="Timeline").click()
    wait_idle(page)
    page.wait_for_timeout(300)
    assert "with=" not in page.url


def test_pages_are_gone_back_to_however_soon(page: Any) -> None:
    """The address is written a while after other changes."""
    page.evaluate(
        """() => {
          for (const n of ['queues', 'calls']) document.querySelector(`#tl-tabs button[data-page='${n}']`).click();
          history.back();
        }"""
    )
    chosen = "#tl-tabs button[aria-selected='true'][data-page='{}']"
    page.locator(chosen.format("queues")).wait_for()
    wait_idle(page)
    page.go_back()
    page.locator(chosen.format("")).wait_for()
    page.go_forward()
    page.locator(chosen.format("queues")).wait_for()
    wait_idle(page)


def test_two_captures_together_lead_back_to_each(lone_page: Any, three: str) -> None:
    page = lone_page
    open_at(page, three)
    open_at(page, three.split("?")[0] + "?capture=two&other=three#theme=dark")
    choice = page.locator("#tl-toolbar select").first
    assert choice.evaluate("s => s.selectedOptions[0].text").startswith("A ")
    click_event(page, "hip")
    assert page.get_by_role("button", name="copy the number").count() == 0
    choice.select_option("two")
    page.wait_for_url("**?capture=two#**")
    wait_idle(page)
    assert not page.evaluate("() => TL.isPair()") and state_of(page)["theme"] == "dark"


def test_a_time_is_found_by_typing_it(page: Any) -> None:
    length, start = page.evaluate("() => [__tl.view.meta.length, Number(__tl.view.meta.t0_abs)]")
    counter = page.locator(".tl-count")

    def go(text: str) -> dict[str, Any]:
        press(page, "/")
        page.keyboard.type(text)
        press(page, "Enter", "Escape")
        return state_of(page)

    press(page, "Escape")
    state = go("@12.5ms")
    assert state["t0"] < 12_500_000 < state["t1"] and state["t1"] - state["t0"] <= length / 10
    assert state["mark"] == {"a": 12_500_000, "b": 12_500_000}
    state = go("@1,000,000 → 3,000,000 ns")
    assert (state["t0"], state["t1"]) == (1_000_000, 3_000_000)
    state = go("@2..4ms")
    assert (state["t0"], state["t1"]) == (2_000_000, 4_000_000)
    # As the log prints it: us of the host's clock.
    state = go(f"@{(start + 7_000_000) // 1000} us")
    assert abs(state["mark"]["a"] - 7_000_000) < 1_000
    for nonsense in ("@", "@yesterday", "@9999s", "@5ms..1ms"):
        before = go(nonsense)
        assert counter.inner_text() == "not a time of this capture: write @1.5ms" and before["mark"] == state["mark"]


def test_a_filtered_lane_says_how_much_is_left(page: Any) -> None:
    total = page.evaluate("() => __tl.view.meta.lanes.find(n => n.layer === 'hip').count")
    page.evaluate("() => { __tl.view.only = { name: 'hipStreamCreate' }; return TL.applyFilter(); }")
    wait_idle(page)
    left = page.evaluate("() => __tl.view.left[__tl.view.meta.lanes.find(n => n.layer === 'hip').id]")
    assert 0 < left < total and f">{left:,} of {total:,}<" in page.evaluate("() => TL.drawSvg()")
    page.evaluate("() => { __tl.view.only = {}; return TL.applyFilter(); }")
    wait_idle(page)
    assert f">{total:,}<" in page.evaluate("() => TL.drawSvg()")


def test_no_markup_of_the_report_is_left_on_its_pages(page: Any) -> None:
    """Names between back quotes are set as code, also in reasons and in what is missing."""
    for name in ("verdicts", "kernels", "latency", "memory"):
        page.evaluate("name => TL.openPage(name)", name)
        wait_idle(page)
        assert "`" not in page.locator("#tl-page").inner_text(), name


def test_a_page_that_cannot_be_shown_has_its_next_step_on_a_line_of_its_own(browser: Any, url: str) -> None:
    page = browser.new_page()
    open_at(page, url)
    page.route("**/api/page?*", lambda route: route.fulfill(status=409, body="it is gone\nrecord it again\n"))
    page.evaluate("() => TL.openPage('queues')")
    wait_idle(page)
    assert page.locator("#tl-page p").all_inner_texts() == ["it is gone", "record it again"]
    page.close()
