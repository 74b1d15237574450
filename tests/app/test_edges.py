"""The page at its edges: zoomed out, filtered to nothing, half seen, not answered, in a small window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, start_server, state_of, wait_for, wait_idle
from synthetic import T0, SyntheticCapture

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


@pytest.mark.parametrize("x", [300, 1400])
def test_zoomed_out_the_whole_capture_is_in_view(page: Any, x: int) -> None:
    page.mouse.move(x, 300)
    press(page, *["w"] * 12, *["s"] * 40)
    shown, length = state_of(page), page.evaluate("() => __tl.view.meta.length")
    assert shown["t0"] <= 0 and shown["t1"] >= length
    press(page, *["a"] * 10, *["d"] * 20)
    shown = state_of(page)
    assert shown["t0"] <= 0 and shown["t1"] >= length


def test_an_address_far_outside_shows_the_whole_capture(page: Any, url: str) -> None:
    open_at(page, _of(url, "t1-streams") + "#t0=-99999999999999&t1=99999999999999999999")
    shown = state_of(page)
    assert shown["t0"] <= 0 and shown["t1"] >= page.evaluate("() => __tl.view.meta.length")


@pytest.mark.parametrize(("flag", "words"), [(Flag.ENTER_ONLY, "end not seen"), (Flag.EXIT_ONLY, "begin not seen")])
def test_what_was_seen_by_half_is_not_called_an_instant(
    page: Any, url: str, sample: Capture, flag: Flag, words: str
) -> None:
    half = sample.table("events").filter(pl.col("flags") & int(flag) > 0).select("event").collect()
    open_at(page, _of(url, "t1-streams") + f"#sel={half['event'][0]}")
    chosen = page.locator("#tl-detail .tl-stages tr.chosen").inner_text()
    assert words in chosen and "instant" not in chosen


def test_the_tip_of_a_job_tells_the_length_of_the_job(lone_page: Any, synthetic_capture: SyntheticCapture) -> None:
    job = synthetic_capture.tables["drm_jobs"].filter(pl.col("done_ns") > pl.col("run_ns")).head(1)
    begun = job.with_columns(run_event=pl.lit(5, pl.Int64))  # SYNTHETIC: an instant of another name
    events = synthetic_capture.tables["events"].with_columns(
        dur_ns=pl.when(pl.col("event") != 5).then("dur_ns"), name=pl.col("name").cast(pl.String)
    )
    tables = {**synthetic_capture.tables, "drm_jobs": begun, "events": events.cast({"name": pl.Categorical})}
    open_at(lone_page, start_server({"jobs": replace(synthetic_capture, tables=tables)}))
    begin, length = job["run_ns"][0] - T0, job["done_ns"][0] - job["run_ns"][0]
    lone_page.evaluate(
        """([t, d]) => {
          __tl.view.setRange(t - d, t + 2 * d);
          __tl.view.scroll = __tl.view.laneY.get(__tl.view.meta.lanes.find((n) => n.layer === "drm_run").id).y;
          __tl.view.scrollBy(0);
          __tl.changed();
        }""",
        [begin, length],
    )
    wait_idle(lone_page)
    spot = lone_page.evaluate("() => __tl.locate('drm_run')")
    box = lone_page.locator("#tl-canvas-host canvas").bounding_box()
    lone_page.mouse.move(box["x"] + spot["x"] + 5, box["y"] + spot["y"])
    wait_for(lone_page, "document.querySelector('.tl-tip').textContent.includes('recorded')")
    tip = lone_page.locator(".tl-tip").inner_text()
    assert "begins with" in tip and f"duration {length:,} ns" in tip and "an instant" not in tip


def test_a_filter_that_leaves_nothing_says_so_in_the_picture(page: Any) -> None:
    assert not _on_the_canvas(page, "The filters leave nothing")
    press(page, "g")
    page.fill("[data-filter=name]", "no such name")
    wait_idle(page)
    assert _on_the_canvas(page, "The filters leave nothing")
    page.locator("#tl-side button", has_text="Clear").click()
    wait_idle(page)
    assert not _on_the_canvas(page, "The filters leave nothing")


@pytest.mark.parametrize("text", ["-5", "1e30", "0"])
def test_a_duration_that_makes_no_sense_filters_nothing(page: Any, text: str) -> None:
    press(page, "g")
    field = page.locator("[data-filter=shortest]")
    field.fill(text)
    wait_idle(page)
    assert field.get_attribute("aria-invalid") == "true" and state_of(page)["only"] == {}
    field.fill("2.5")
    wait_idle(page)
    assert field.get_attribute("aria-invalid") == "false" and state_of(page)["only"] == {"shortest": 2500}


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


def test_the_details_are_as_high_as_they_are_made(page: Any, url: str) -> None:
    open_at(page, _of(url, "t1-streams") + "#sel=100")
    grip, panel = page.locator("#tl-detail .tl-grip"), page.locator("#tl-detail")
    before, at = panel.bounding_box()["height"], grip.bounding_box()
    page.mouse.move(at["x"] + 400, at["y"] + 3)
    page.mouse.down()
    page.mouse.move(at["x"] + 400, at["y"] + 103, steps=4)
    page.mouse.up()
    wait_idle(page)
    assert panel.bounding_box()["height"] == pytest.approx(before - 100, abs=4)
    canvas = page.locator("#tl-canvas-host canvas").bounding_box()
    assert canvas["height"] == pytest.approx(page.evaluate("() => __tl.view.height"), abs=1)
    grip.focus()
    press(page, *["ArrowUp"] * 40)  # the lanes keep their place
    assert panel.bounding_box()["height"] > before
    assert page.locator("#tl-canvas-host").bounding_box()["height"] >= 100 and state_of(page)["scroll"] == 0
    press(page, ".")
    assert panel.bounding_box()["height"] > before
    grip.dblclick()
    wait_idle(page)
    assert panel.bounding_box()["height"] == pytest.approx(before, abs=1)


def test_a_narrow_window_is_for_the_picture(window: Any, url: str) -> None:
    open_at(window, url)
    window.set_viewport_size({"width": 480, "height": 800})
    open_at(window, _of(url, "t1-streams") + "#sel=100")
    assert window.evaluate("() => __tl.view.plotWidth() / __tl.view.width") > 0.65
    left, right = (window.locator(f"#tl-detail .tl-{side}").bounding_box() for side in ("left", "right"))
    assert right["y"] >= left["y"] + left["height"] - 1 and left["width"] > 450
    window.evaluate("() => TL.openPage('queues')")
    wait_idle(window)
    chart = window.locator("#tl-page .tl-chart").first.bounding_box()
    assert chart["x"] + chart["width"] <= 480


def test_in_a_low_window_lanes_and_measure_are_in_sight(window: Any, url: str) -> None:
    open_at(window, url)
    window.set_viewport_size({"width": 750, "height": 450})
    open_at(window, _of(url, "t1-streams") + "#sel=100&lanes=chain")
    press(window, "m")
    card = window.locator("#tl-card")
    zoom, box = card.locator("button", has_text="Zoom").bounding_box(), card.bounding_box()
    assert zoom["y"] + zoom["height"] <= box["y"] + box["height"]
    assert window.locator("#tl-canvas-host").bounding_box()["height"] > 130


def test_samples_of_one_burst_are_one_line(page: Any) -> None:
    drawn = page.evaluate("""() => {
      const length = __tl.view.meta.length, bursts = [0.2, 0.5, 0.8].map((part) => Math.round(part * length));
      const sample = (t) => ({ kind: "clock", from: t, to: t + 3, text: "clock sample" });
      __tl.view.meta.ranges = bursts.flatMap((t) => [...Array(8)].map((_, i) => sample(t + 10 * i)));
      return TL.drawSvg();
    }""")
    assert drawn.count("#7A5CC0") == 2 * 3  # a line over the lanes, and its mark on the ruler


def test_of_two_that_touch_the_one_under_the_pointer_is_hit(
    page: Any, url: str, synthetic_capture: SyntheticCapture
) -> None:
    layer, apart = pl.col("layer").cast(pl.String), pl.col("ts_ns").diff()
    commands = synthetic_capture.tables["events"].filter(layer == "command", pl.col("thread") == 0).sort("ts_ns")
    # Two with nothing else near them, so that each is drawn for itself.
    alone = (apart > 0) & (apart.shift(1) > 4 * apart) & (apart.shift(-1) > 4 * apart)
    event, at, gap = commands.select("event", "ts_ns", gap=apart, alone=alone).filter("alone").row(0)[:3]
    open_at(page, _of(url, "synthetic"))
    page.evaluate(
        """([t, apart]) => {
          const view = __tl.view, pixel = apart / 1.3, begin = t - 450 * pixel;
          view.setRange(begin, begin + pixel * view.plotWidth());
          __tl.changed();
        }""",
        [at - T0, gap],
    )
    wait_idle(page)
    spot = page.evaluate("event => __tl.spot(event)", event)
    assert page.evaluate("([x, y]) => TL.recordAt(x - 0.8, y).event", [spot["x"], spot["y"]]) == event
