"""Getting about on the page: from page to page and capture to capture, by link, by time, by number."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import click_event, needs_browser, open_at, press, start_server, state_of, wait_for_address, wait_idle
from synthetic import SyntheticCapture

from tracecorr.app import index
from tracecorr.app.captures import CaptureLike
from tracecorr.store import Capture

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


@pytest.mark.parametrize("button", ["Filters", "Fit", "Chain", "Whole", "Note"])
def test_what_acts_on_the_timeline_shows_it(page: Any, button: str) -> None:
    page.evaluate("() => TL.openPage('queues')")
    wait_idle(page)
    page.locator("#tl-toolbar button", has_text=button).first.click()
    wait_idle(page)
    assert _page_of(page) == "" and page.locator("#tl-canvas-host canvas").is_visible()


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


def test_a_link_pasted_over_its_own_capture_is_followed(page: Any) -> None:
    with page.expect_event("load"):
        page.evaluate("() => { location.hash = 't0=1000000&t1=3000000&sel=500'; }")
    wait_idle(page)
    state = state_of(page)
    assert (state["t0"], state["t1"], state["selected"]) == (1_000_000, 3_000_000, 500)


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


def test_charts_follow_the_theme(page: Any) -> None:
    page.evaluate("() => TL.openPage('queues')")
    wait_idle(page)
    page.evaluate("() => document.activeElement.blur()")
    ground = "() => [...document.querySelectorAll('.tl-chart .main-svg')].map(s => s.style.background)"
    before = page.evaluate(ground)
    press(page, "t")
    assert before and not set(before) & set(page.evaluate(ground)) - {""}
    press(page, "t")
    assert page.evaluate(ground) == before


def test_many_differences_leave_the_charts_in_sight(lone_page: Any, three: str) -> None:
    open_at(lone_page, three + "#page=compare")
    lone_page.evaluate(
        """count => {
          const found = [...Array(count).keys()].map(n => 'finding ' + n);
          TL.api.page = async () => ({ title: 't', findings: found, charts: [], sections: [] });
          TL.openPage('compare');
        }""",
        40,
    )
    wait_idle(lone_page)
    rest = lone_page.locator("#tl-page details")
    assert not lone_page.get_by_text("finding 39", exact=True).is_visible()
    rest.locator("summary").click()
    assert lone_page.get_by_text("finding 39", exact=True).is_visible()
    assert lone_page.locator("#tl-page .tl-finding").count() == 40


def test_what_is_searched_for_stays_when_the_hand_leaves_the_box(page: Any) -> None:
    press(page, "/")
    page.keyboard.type("hipStreamCreate")
    press(page, "Enter", "Escape")
    box = page.locator("#tl-toolbar input")
    assert box.input_value() == "hipStreamCreate" and page.locator(".tl-count").inner_text() == "1 of 4"
    assert page.evaluate("() => document.activeElement.tagName") == "CANVAS"
    press(page, "Escape")
    assert box.input_value() == "" and page.locator(".tl-count").inner_text() == ""


def test_no_count_is_told_of_a_search_that_was_cleared_while_it_waited(page: Any) -> None:
    press(page, "/")
    page.keyboard.type("hipStreamCreate")
    for key in ("Enter", "Escape", "Escape"):
        page.keyboard.press(key)
    page.wait_for_timeout(600)  # longer than hits wait for the hand to rest
    wait_idle(page)
    assert page.locator("#tl-toolbar input").input_value() == "" and page.locator(".tl-count").inner_text() == ""


def test_the_tip_goes_when_the_picture_moves_under_the_pointer(page: Any) -> None:
    spot = page.evaluate(_MERGED, "doorbell")
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    for move in (lambda: press(page, "w"), lambda: page.mouse.wheel(0, 200)):
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.mouse.move(box["x"] + spot["x"], box["y"] + spot["y"])
        page.locator(".tl-tip.open").wait_for()
        move()
        page.locator(".tl-tip.open").wait_for(state="detached")
        press(page, "0")


def test_a_stage_says_by_which_rule_it_follows(page: Any, url: str, sample: Capture) -> None:
    open_at(page, url.split("?")[0] + "?capture=t1-streams")
    dispatch = sample.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect()["event"][3]
    page.evaluate("event => __tl.select(event)", dispatch)
    wait_idle(page)
    table = page.locator("#tl-detail .tl-stages").inner_text()
    assert "command in call (derived)" in table and "doorbell of packet (recorded)" in table


def test_the_colours_of_streams_are_told_where_they_are_listed(page: Any, url: str) -> None:
    open_at(page, url.split("?")[0] + "?capture=t1-streams")
    press(page, "g")
    colour = "() => [...document.querySelectorAll('#tl-side option[data-owner]')].map(o => o.style.borderLeftColor)"
    assert set(page.evaluate(colour)) == {""}
    page.locator("#tl-colour-by").select_option("stream")
    wait_idle(page)
    told = page.evaluate(colour)
    assert len(told) > 1 and "" not in told and len(set(told)) == len(told)


def test_another_capture_is_shown_in_the_same_look(lone_page: Any, three: str) -> None:
    page = lone_page
    open_at(page, three + "#theme=dark&page=queues")
    assert state_of(page)["theme"] == "dark" and page.title() == "synthetic · tracecorr"
    page.locator("#tl-toolbar select").first.select_option("two")
    page.wait_for_url("**capture=two**")
    wait_idle(page)
    assert (state_of(page)["theme"], _page_of(page)) == ("dark", "queues")


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
        assert counter.inner_text() == "no such time: write @1.5ms" and before["mark"] == state["mark"]


def test_fitting_once_more_shows_the_event_alone(page: Any) -> None:
    page.evaluate("() => __tl.select(500)")
    wait_idle(page)
    press(page, "f")
    chain = state_of(page)
    press(page, "f")
    alone = state_of(page)
    own = next(s for s in chain["detail"]["stages"] if s["event"] == 500)
    assert alone["t1"] - alone["t0"] < chain["t1"] - chain["t0"]
    assert alone["t0"] < own["start"] and own["start"] + own["dur"] < alone["t1"]
    press(page, "f")
    assert state_of(page)["t0"] == chain["t0"]


def test_number_and_address_are_copied(page: Any, browser: Any) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("() => __tl.select(500)")
    wait_idle(page)
    page.get_by_role("button", name="copy the number").click()
    wait_idle(page)
    assert page.evaluate("() => navigator.clipboard.readText()") == "500"
    page.get_by_role("button", name="copy the address").click()
    wait_idle(page)
    assert "sel=500" in page.evaluate("() => navigator.clipboard.readText()")
    assert "copied" in page.locator(".tl-message").inner_text()


def test_the_panel_is_named_after_the_event(page: Any) -> None:
    page.evaluate("() => __tl.select(500)")
    wait_idle(page)
    press(page, "p")
    assert ", event 500, start " in page.locator("#tl-detail").get_attribute("aria-label")


def test_the_selected_stage_of_a_long_chain_is_in_view(page: Any, url: str, sample: Capture) -> None:
    """The table of a call with many stages shows the selected one, and its name stays above it."""
    open_at(page, url.split("?")[0] + "?capture=t1-streams")
    calls = sample.table("events").filter(pl.col("layer") == "ioctl").group_by("chain").agg("event").collect()
    longest = calls.drop_nulls("chain").sort(pl.col("event").list.len())["event"][-1]
    page.evaluate("event => __tl.select(event)", int(longest[-1]))
    wait_idle(page)
    assert len(state_of(page)["detail"]["stages"]) > 60
    row = page.locator(".tl-stages tr.chosen").bounding_box()
    panel, title = page.locator(".tl-left").bounding_box(), page.locator(".tl-title").bounding_box()
    assert panel["y"] <= title["y"] < title["y"] + title["height"] < row["y"]
    assert row["y"] + row["height"] <= panel["y"] + panel["height"]


def test_a_failed_stage_is_drawn_as_failed(page: Any) -> None:
    """The box of a stage covers the lane: it must carry the red top that is under it."""
    painted = page.evaluate(_RED_TOPS)
    assert painted == {"failed": 1, "well": 0}


_RED_TOPS = """async () => {
  const view = __tl.view, red = {};
  const stage = { event: 1, name: "x", layer: "ioctl", lane: view.visibleItems(0).find(i => i.lane).lane.id, row: 0,
    start: (view.t0 + view.t1) / 2, dur: view.span() / 10, err_lo: 0, err_hi: 0, evidence: "recorded" };
  for (const [name, failed] of [["failed", true], ["well", false]]) {
    view.detail = { stages: [{ ...stage, failed: failed }], edges: [] };
    const picture = TL.drawSvg();
    red[name] = picture.split('fill="#C00000"').length - 1;
    view.detail = null;
    red[name] -= TL.drawSvg().split('fill="#C00000"').length - 1;
  }
  return red;
}"""


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


def test_what_goes_on_is_told_in_the_theme(lone_page: Any, three: str) -> None:
    """Also before a large capture is read, or when it cannot be."""
    open_at(lone_page, three)
    lone_page.goto("about:blank")
    lone_page.route("**/api/meta?*", lambda route: route.fulfill(status=202, body="building the tables"))
    lone_page.goto(three.split("?")[0] + "?capture=two#theme=dark")
    lone_page.locator(".tl-instead", has_text="building the tables").wait_for()
    assert lone_page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    lone_page.unroute("**/api/meta?*")
    wait_idle(lone_page)


def test_the_tip_says_what_a_length_is(page: Any) -> None:
    """Of merged instants it is the way from first to last, no duration; an instant is called nothing else."""
    spot = page.evaluate(_MERGED, "doorbell")
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    page.mouse.move(box["x"] + spot["x"], box["y"] + spot["y"])
    tip = page.locator(".tl-tip.open")
    tip.wait_for()
    assert "merged" in tip.inner_text() and "first start to last end" in tip.inner_text()
    assert "together" not in tip.inner_text()
    page.mouse.move(box["x"] + 700, box["y"] + 300)
    press(page, *"wwwwwwwwwwwwww")
    spot = page.evaluate("() => __tl.locate('aql')")
    page.mouse.move(box["x"] + spot["x"], box["y"] + spot["y"])
    page.locator(".tl-tip.open", has_text="an instant").wait_for()
    assert "one end" not in tip.inner_text()


# Where a merged record of a layer is on the screen.
_MERGED = """layer => {
  const view = __tl.view, item = view.items.find(i => i.lane && i.lane.layer === layer);
  view.reveal(item.lane.id);
  const y = view.rowTop(item.lane.id, 0) + 5;
  for (let x = TL.GUTTER; x < view.width; x += 1) {
    const hit = TL.recordAt(x, y);
    if (hit && hit.count > 1) return { x: x, y: y };
  }
  return null;
}"""


def test_a_path_from_the_root_is_not_turned_round(page: Any) -> None:
    """A place that is too long is cut on its left; its slash stays at its start, its line number at its end."""
    page.evaluate("() => __tl.select(500)")
    wait_idle(page)
    places = page.evaluate("""() => {
      const detail = __tl.view.detail;
      detail.raw[0] = { ...detail.raw[0], file: "/a/folder/of/captures/with/a/name/raw/amd_log/0-amd.log", line: 144 };
      TL.showDetail(detail);
      const node = [...document.querySelectorAll(".tl-where")].find((n) => n.textContent.startsWith("/a/"));
      const text = document.createTreeWalker(node, NodeFilter.SHOW_TEXT).nextNode();
      const at = (i) => {
        const range = document.createRange();
        range.setStart(text, i);
        range.setEnd(text, i + 1);
        return range.getBoundingClientRect().x;
      };
      return [at(0), at(1), at(text.length - 1)];
    }""")
    assert places == sorted(places)


def test_a_page_that_cannot_be_shown_has_its_next_step_on_a_line_of_its_own(browser: Any, url: str) -> None:
    page = browser.new_page()
    open_at(page, url)
    page.route("**/api/page?*", lambda route: route.fulfill(status=409, body="it is gone\nrecord it again\n"))
    page.evaluate("() => TL.openPage('queues')")
    wait_idle(page)
    assert page.locator("#tl-page p").all_inner_texts() == ["it is gone", "record it again"]
    page.close()
