"""What somebody does while an answer is under way stays: answers that were overtaken change nothing on the page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsing import Held, needs_browser, open_at, press, state_of, wait_for, wait_for_address, wait_idle

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


@pytest.mark.parametrize("failure", [None, "too late"])
def test_a_step_that_was_cleared_selects_nothing(browser: Any, url: str, failure: str | None) -> None:
    page = browser.new_page()
    open_at(page, url)
    press(page, ".")
    held = Held(page, "**/api/step?*")
    _type_fast(page, "n", ".", "Escape")
    held.answer(failure)
    assert state_of(page)["selected"] is None and "too late" not in page.locator(".tl-message").inner_text()
    press(page, ".")  # what was cleared holds up nothing
    assert state_of(page)["selected"] is not None
    page.close()


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


def test_a_count_that_comes_late_leaves_the_note_that_is_being_written(page: Any) -> None:
    held = Held(page, "**/api/count?*")
    page.mouse.move(700, 130)
    page.mouse.down()
    page.mouse.move(1100, 130, steps=4)
    page.mouse.up()
    held.wait()
    page.keyboard.press("b")
    page.keyboard.type("half a thought")
    held.answer()
    assert page.locator("#tl-card textarea").input_value() == "half a thought"


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


def test_a_note_that_is_written_before_the_others_came_stays(page: Any, url: str, sample: Capture) -> None:
    base = url.split("?")[0] + "?capture=t1-streams"
    open_at(page, base)
    _write_note(page, "before")
    wait_idle(page)
    page.goto("about:blank")
    held = Held(page, "**/api/notes?*")
    page.goto(base)
    held.wait()
    _write_note(page, "early")
    page.wait_for_timeout(300)  # what is asked meanwhile comes back meanwhile
    held.answer()
    assert _kept(sample) == sorted(n["text"] for n in state_of(page)["notes"]) == ["before", "early"]
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


def test_a_link_to_an_event_leaves_the_hand_where_it_went_on_to_type(page: Any) -> None:
    page.evaluate("() => TL.openPage('queues')")
    wait_idle(page)
    before = state_of(page)["t0"]
    held = Held(page, "**/api/event?*")
    page.locator("#tl-page .tl-lead", has_text="#").first.click()
    held.wait()
    _type_fast(page, "Escape", "/")
    page.keyboard.type("hip")
    held.answer()
    page.keyboard.type("Memcpy")
    assert page.locator("#tl-toolbar input").input_value() == "hipMemcpy"
    assert (state_of(page)["selected"], state_of(page)["t0"]) == (None, pytest.approx(before))


def test_hits_on_the_ruler_are_those_of_the_view(page: Any) -> None:
    press(page, "/")
    page.keyboard.type("hipLaunchKernel")
    press(page, "Enter", "Escape")
    held = Held(page, "**/api/ticks?*")
    _type_fast(page, *"wwww")
    held.wait()
    with page.expect_response("**/api/spans?*"):
        page.keyboard.press("0")
    held.answer()
    told = page.evaluate("() => [__tl.view.search.t0, Math.floor(__tl.view.t0)]")
    assert told[0] == told[1]


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


def test_what_is_done_while_an_address_is_read_stays(page: Any, url: str) -> None:
    page.set_viewport_size({"width": 1200, "height": 400})
    page.goto("about:blank")
    held = Held(page, "**/api/notes?*")
    page.goto(url.split("?")[0] + "#t0=1000000&t1=3000000&sel=500&page=queues")
    held.wait()
    page.locator("#tl-tabs button[data-page='kernels']").click()
    page.locator("#tl-tabs button[data-page='']").click()
    page.evaluate("() => __tl.select(700)")
    page.locator("#tl-detail.open").wait_for()
    page.mouse.move(700, 200)
    page.mouse.wheel(0, 90)
    wait_for(page, "__tl.view.scroll > 0")
    scrolled = state_of(page)["scroll"]
    held.answer()
    state = state_of(page)
    assert (state["selected"], state["scroll"], page.evaluate("() => TL.shownPage")) == (700, scrolled, "")
