"""What somebody does while an answer is under way stays: answers that were overtaken change nothing on the page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsing import Held, needs_browser, open_at, press, state_of, wait_for_address, wait_idle

from tracecorr.store import Capture

pytestmark = needs_browser


def _type_fast(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_keys_that_come_faster_than_answers_act_one_after_the_other(page: Any) -> None:
    press(page, "w", ".", ".", ".")
    third = state_of(page)["selected"]
    press(page, "f")
    fitted = state_of(page)
    press(page, "Escape", "0", "w")
    _type_fast(page, ".", ".", ".", "f")
    wait_idle(page)
    assert (state_of(page)["selected"], state_of(page)["t0"]) == (third, pytest.approx(fitted["t0"]))
    press(page, "/")
    page.keyboard.type("hipStreamCreate")
    _type_fast(page, "Enter", "Enter", "Enter")
    wait_idle(page)
    assert page.locator(".tl-count").inner_text() == "3 of 4"


def test_the_event_that_was_chosen_last_is_selected(page: Any) -> None:
    held = Held(page, "**/api/search?*")
    page.evaluate("() => TL.setSearch('hipStreamCreate')")
    press(page, "/")
    page.keyboard.press("Enter")
    held.wait()
    page.evaluate("() => __tl.select(500)")
    held.answer()
    assert state_of(page)["selected"] == 500
    assert page.locator(".tl-count").inner_text() == "4 found"  # what is searched for is counted all the same


def test_lanes_are_those_of_the_filter_that_was_set_last(page: Any) -> None:
    press(page, "g")
    held = Held(page, "**/api/filter?*")
    page.fill("[data-filter=name]", "hip")
    held.wait()
    with page.expect_response(lambda r: "/api/filter" in r.url and "hipStreamCreate" in r.url):
        page.fill("[data-filter=name]", "hipStreamCreate")
    held.answer()
    left = page.evaluate("() => __tl.view.left.reduce((a, b) => a + b, 0)")
    assert left == 4 and page.locator(".tl-message").inner_text().startswith("4 records left")


def _kept(sample: Capture) -> list[str]:
    return sorted(n["text"] for n in json.loads((sample.path / "views" / "notes.json").read_text()))


def _write_note(page: Any, text: str) -> None:
    page.keyboard.press("b")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_notes_are_kept_however_late_the_one_before_was_saved(page: Any, url: str, sample: Capture) -> None:
    base = url.split("?")[0] + "?capture=t1-streams"
    open_at(page, base)
    held = Held(page, "**/api/notes?*", "POST")
    _write_note(page, "one")
    held.wait()
    _write_note(page, "two")
    page.wait_for_timeout(300)  # what is asked meanwhile comes back meanwhile
    held.answer()
    _write_note(page, "three")
    wait_idle(page)
    assert _kept(sample) == ["one", "three", "two"]
    assert sorted(n["text"] for n in state_of(page)["notes"]) == ["one", "three", "two"]
    (sample.path / "views" / "notes.json").unlink()


def test_a_page_that_fails_after_it_was_left_leaves_the_next_one(browser: Any, url: str) -> None:
    page = browser.new_page()
    open_at(page, url)
    held = Held(page, "**/api/page?*")
    page.locator("#tl-tabs button[data-page='verdicts']").click()
    held.wait()
    page.locator("#tl-tabs button[data-page='queues']").click()
    page.locator("#tl-page h2", has_text="Queues").wait_for()
    held.answer("too late")
    assert page.locator("#tl-page h2").inner_text().startswith("Queues")
    assert "too late" not in page.locator("#tl-page").inner_text()
    page.close()


def test_an_address_is_whole_till_it_is_read(page: Any, url: str) -> None:
    """A page that is reloaded while it loads shows the same again."""
    page.goto("about:blank")
    held = Held(page, "**/api/notes?*")
    page.goto(url.split("?")[0] + "#t0=1000000&t1=3000000&sel=500&q=hip&mark=1200000,1500000&page=queues")
    held.wait()
    page.keyboard.press("w")
    page.wait_for_timeout(400)  # longer than an address waits for the hand to rest
    for part in ("sel=500", "q=hip", "mark=", "page=queues"):
        assert part in page.url
    held.answer()
    assert state_of(page)["selected"] == 500 and page.evaluate("() => TL.shownPage") == "queues"
    wait_for_address(page, "sel=500", "q=hip", "mark=", "page=queues")
