"""The page in a real browser: filters, colours, measuring, notes, steps, exports, keyboard, bad addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, state_of, wait_for_address, wait_idle
from synthetic import KERNELS, SyntheticCapture

from tracecorr.store import Capture

pytestmark = needs_browser


def _type(page: Any, selector: str, text: str) -> None:
    page.fill(selector, text)
    wait_idle(page)


def _download(page: Any, action: Any) -> bytes:
    with page.expect_download() as info:
        action()
    return Path(info.value.path()).read_bytes()


def test_filter_by_name_leaves_matching_lanes(page: Any, synthetic_capture: SyntheticCapture) -> None:
    lanes = state_of(page)["lanes"]
    press(page, "g")
    _type(page, "[data-filter=name]", "hipStreamCreate")
    events = synthetic_capture.tables["events"]
    wanted = events.filter(pl.col("name").cast(pl.String).str.contains("hipStreamCreate")).height
    assert f"{wanted} records left" in page.locator("#tl-status").inner_text()
    assert state_of(page)["lanes"] == 4 < lanes
    _type(page, "[data-filter=name]", "")
    assert state_of(page)["lanes"] == lanes


def test_kernel_filter_keeps_the_launches_around_it(page: Any, synthetic_capture: SyntheticCapture) -> None:
    press(page, "g")
    _type(page, "[data-filter=kernel]", "vectoradd")
    launches = synthetic_capture.tables["launches"].filter(pl.col("kernel") == 1)
    left = page.evaluate("() => __tl.view.left.reduce((a, b) => a + b, 0)")
    hollow = launches.filter(pl.col("doorbell_event").is_null()).height
    assert left == launches.height * 4 + launches["doorbell_event"].drop_nulls().len() + hollow
    assert page.locator("#tl-filter-button").inner_text() == "Filters (1)"


def test_errors_only_and_durations(page: Any) -> None:
    press(page, "g")
    page.check("[data-filter=errors]")
    wait_idle(page)
    layers = page.evaluate("() => __tl.view.meta.lanes.filter(n => __tl.view.laneY.has(n.id)).map(n => n.layer)")
    assert set(layers) == {"ioctl"}
    page.uncheck("[data-filter=errors]")
    _type(page, "[data-filter=shortest]", "700")
    layers = page.evaluate("() => __tl.view.meta.lanes.filter(n => __tl.view.laneY.has(n.id)).map(n => n.layer)")
    assert {"hip", "marker"} <= set(layers) and "gpu" not in layers


def test_hiding_a_process_hides_its_lanes(page: Any) -> None:
    press(page, "g")
    page.locator(".tl-facet", has_text="Processes").locator("input").nth(1).uncheck()
    wait_idle(page)
    shown = page.evaluate("() => __tl.view.meta.lanes.filter(n => __tl.view.laneY.has(n.id)).map(n => n.process)")
    assert 0 in shown and 1 not in shown
    page.get_by_text("Clear", exact=True).click()
    wait_idle(page)
    assert page.locator("#tl-filter-button").inner_text() == "Filters"


def test_measuring_counts_what_starts_inside(page: Any, synthetic_capture: SyntheticCapture) -> None:
    box = page.locator("#tl-canvas-host").bounding_box()
    assert box is not None
    ruler = box["y"] + 58  # below the overview
    page.mouse.move(700, ruler)
    page.mouse.down()
    page.mouse.move(1100, ruler, steps=4)
    page.mouse.up()
    wait_idle(page)
    mark = state_of(page)["mark"]
    t0, t1 = sorted((round(mark["a"]), round(mark["b"])))
    first = int(synthetic_capture.tables["events"]["ts_ns"].min())
    starts = synthetic_capture.tables["events"]["ts_ns"] - first
    inside = ((starts >= t0) & (starts <= t1)).sum()
    counted = page.evaluate("([a, b]) => TL.api.count(a, b, __tl.view.meta.lanes.map(n => n.id))", [t0, t1])
    own = sum(n["count"] for n in counted["layers"] if n["layer"] not in ("scheduler", "drm_wait", "drm_run", "hqd"))
    hollow = synthetic_capture.tables["launches"].select(lo=pl.col("doorbell_lo_ns") - first).drop_nulls()["lo"]
    assert own == inside + ((hollow >= t0) & (hollow <= t1)).sum()
    card = page.locator("#tl-card")
    assert card.locator("b").get_attribute("data-ns") == str(t1 - t0) and "hipLaunchKernel" in card.inner_text()
    press(page, "z")
    assert state_of(page)["t0"] == pytest.approx(t0, abs=1)
    press(page, "Escape")
    assert state_of(page)["mark"] is None


def test_steps_follow_one_thing(page: Any, synthetic_capture: SyntheticCapture) -> None:
    launches = synthetic_capture.tables["launches"].filter(pl.col("queue") == 0, pl.col("kernel") == 1)
    first, second = launches["event"][0], launches["event"][1]
    page.evaluate("event => __tl.select(event)", int(first))
    wait_idle(page)
    press(page, "k")
    assert state_of(page)["selected"] >= second - 40  # the next one of the kernel, on this queue or another
    press(page, "Shift+K")
    assert state_of(page)["selected"] == first
    press(page, "u")
    parent = state_of(page)["selected"]
    assert synthetic_capture.tables["events"]["layer"].cast(pl.String)[parent] == "hip"
    press(page, "e")
    failed = state_of(page)["selected"]
    assert synthetic_capture.tables["events"]["result"].cast(pl.String)[failed] == "EINVAL"


def test_keyboard_alone_reaches_an_event_and_its_chain(page: Any) -> None:
    press(page, "w", "w", "w", ".")
    first = state_of(page)["selected"]
    assert first is not None
    press(page, ".")
    assert state_of(page)["selected"] > first
    press(page, "f", "p", "m")
    assert page.locator("#tl-card").is_visible()
    press(page, "Escape", "Escape")
    assert state_of(page)["selected"] is None
    names = page.evaluate(
        "() => [...document.querySelectorAll('button, input, select, canvas')]"
        ".filter(n => !(n.getAttribute('aria-label') || n.textContent.trim() || n.labels?.length)).length"
    )
    assert names == 0  # every control has a name


def test_notes_stay_in_the_capture_and_in_the_address(page: Any, url: str, sample: Capture) -> None:
    base = url.split("?")[0] + "?capture=t1-streams"
    open_at(page, base)
    press(page, ".", "b")
    page.keyboard.type("why so <b>slow</b>?")
    page.keyboard.press("Enter")
    wait_idle(page)
    wait_for_address(page, "notes=")
    address = page.url
    stored = json.loads((sample.path / "views" / "notes.json").read_text())
    assert stored[0]["text"] == "why so <b>slow</b>?" and {"file", "offset", "delta_ns"} <= set(stored[0])
    open_at(page, base)
    assert [n["text"] for n in state_of(page)["notes"]] == ["why so <b>slow</b>?"]
    (sample.path / "views" / "notes.json").unlink()
    open_at(page, base)
    assert state_of(page)["notes"] == []
    open_at(page, address)
    assert [n["text"] for n in state_of(page)["notes"]] == ["why so <b>slow</b>?"]


def test_notes_of_two_tabs_come_together(page: Any, browser: Any, url: str, sample: Capture) -> None:
    base, second = url.split("?")[0] + "?capture=t1-streams", browser.new_page()
    for tab in (page, second):
        open_at(tab, base)

    def told() -> list[str]:
        return [n["text"] for n in json.loads((sample.path / "views" / "notes.json").read_text())]

    for tab, text in ((page, "one"), (second, "two"), (page, "three")):
        press(tab, "b")
        tab.keyboard.type(text)
        press(tab, "Enter")
    assert sorted(told()) == ["one", "three", "two"]
    # What one tab deletes is not brought back by the other.
    page.evaluate("() => TL.editNote(__tl.view.notes.find(n => n.text === 'one'))")
    page.locator("#tl-card button", has_text="Delete").click()
    wait_idle(page)
    press(second, "b")
    second.keyboard.type("four")
    press(second, "Enter")
    assert sorted(told()) == ["four", "three", "two"]
    assert sorted(n["text"] for n in state_of(second)["notes"]) == ["four", "three", "two"]
    second.close()
    (sample.path / "views" / "notes.json").unlink()


def test_a_view_is_its_address(page: Any) -> None:
    press(page, "g")
    _type(page, "[data-filter=shortest]", "20")
    page.select_option("#tl-colour-by", "queue")
    press(page, "Escape", "w", "t")
    page.evaluate("() => { __tl.view.mark = { a: 1000, b: 900000 }; __tl.changed(); }")
    wait_idle(page)
    before = state_of(page)
    wait_for_address(page, "mark=1000%2C900000", f"t0={round(before['t0'])}&t1={round(before['t1'])}")
    open_at(page, page.url)
    after = state_of(page)
    for key in ("only", "colourBy", "mark", "theme", "lanes"):
        assert after[key] == before[key], key
    assert after["t0"] == pytest.approx(before["t0"], abs=1)


def test_names_with_markup_stay_text(page: Any, synthetic_capture: SyntheticCapture) -> None:
    launches = synthetic_capture.tables["launches"].filter(pl.col("kernel") == KERNELS.index(KERNELS[-1]))
    page.evaluate("event => __tl.select(event)", int(launches["event"][3]))
    wait_idle(page)
    assert "<script>" in page.locator("#tl-detail").inner_text()
    for name in ("kernels", "queues", "verdicts"):
        page.evaluate("name => TL.openPage(name)", name)
        wait_idle(page)
    page.wait_for_timeout(200)
    assert page.evaluate("() => window.__executed") is None


def test_what_is_in_view_is_exported_in_every_form(page: Any) -> None:
    press(page, *"wwwwww")
    png = _download(page, lambda: page.select_option("#tl-export", "png"))
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    svg = _download(page, lambda: page.select_option("#tl-export", "svg")).decode()
    assert svg.startswith("<svg") and "HIP calls" in svg and svg.count("<rect") > 200 and "<script" not in svg
    table = _download(page, lambda: page.select_option("#tl-export", "csv"))
    rows = pl.read_csv(table)
    state = state_of(page)
    assert rows["start_ns"].is_sorted() and rows.height > 10
    assert rows["start_ns"].max() <= state["t1"]
    trace = _download(page, lambda: page.select_option("#tl-export", "perfetto"))
    assert len(trace) > 1000


def test_small_screens_show_every_control(page: Any) -> None:
    for width, height in ((1280, 720), (1024, 700), (700, 600)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(200)
        wait_idle(page)
        outside = page.evaluate(
            "() => [...document.querySelectorAll('#tl-toolbar button, #tl-toolbar select, #tl-tabs button')]"
            ".filter(n => n.getBoundingClientRect().right > innerWidth || n.getBoundingClientRect().width === 0)"
            ".map(n => n.textContent)"
        )
        assert outside == [], width
        assert page.locator("canvas").bounding_box()["height"] > 300, width


def test_canvas_paints_every_event_and_nothing_else(page: Any) -> None:
    """At each zoom level the pixels of the canvas are those of the events, to one pixel."""
    page.mouse.move(800, 300)
    for _ in range(6):
        seen = page.evaluate(_PAINTED)
        assert (seen["missing"], seen["far"]) == (0, 0)
        assert seen["occupied"] > 0
        press(page, "w", "w")


# Draws the lanes twice, with and without their records and both without texts: where the two differ is painted.
# Occupied is what the records say that are asked for at a sixteenth of a pixel and less.
_PAINTED = """async () => {
  const view = __tl.view, width = Math.ceil(view.plotWidth()), left = view.width - width;
  const solid = ['hip', 'command', 'aql', 'syscall', 'ioctl'];
  const items = view.visibleItems(0).filter(i => i.kind === 'lane' && solid.includes(i.lane.layer) && !i.lane.counter);
  const lanes = items.map(i => i.lane.id);
  const t0 = Math.floor(view.t0), t1 = Math.ceil(view.t1);
  const spans = await TL.api.spans(t0, t1, width, lanes);
  const picture = (what) => {
    const canvas = document.createElement('canvas');
    canvas.width = view.width; canvas.height = view.height;
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.fillText = () => {};
    TL.drawLanes(context, what);
    return context.getImageData(0, 0, view.width, view.height).data;
  };
  const empty = Object.create(spans, { tracks: { value: new Map() } });
  const full = picture(spans), bare = picture(empty);
  const painted = (item) => {
    const out = new Uint8Array(view.width + 2), top = Math.max(TL.TOP, Math.floor(TL.TOP + item.y - view.scroll));
    const bottom = Math.min(view.height, Math.ceil(top + item.h));
    for (let y = top; y < bottom; y += 1) for (let x = left; x < view.width; x += 1) {
      const k = 4 * (y * view.width + x);
      if (full[k] !== bare[k] || full[k + 1] !== bare[k + 1] || full[k + 2] !== bare[k + 2]) out[x] = 1;
    }
    return out;
  };
  const occupied = new Map(lanes.map(id => [id, new Uint8Array(view.width + 2)]));
  const parts = 16, step = Math.ceil((t1 - t0) / parts);
  for (let n = 0; n < parts; n += 1) {
    const fine = await TL.api.spans(t0 + n * step, t0 + (n + 1) * step, width, lanes);
    for (const [lane, tracks] of fine.tracks) for (const [, first, end] of tracks) {
      for (let i = first; i < end; i += 1) {
        const a = view.x(fine.at(i)), b = view.x(fine.at(i) + fine.dur[i] * fine.unit);
        const last = Math.min(view.width - 1, Math.floor(b));
        for (let p = Math.max(left, Math.floor(a)); p <= last; p += 1) occupied.get(lane)[p] = 1;
      }
    }
  }
  const near = (set, p) => set[p - 1] || set[p] || set[p + 1];
  const seen = { missing: 0, far: 0, occupied: 0 };
  for (const item of items) {
    const drawn = painted(item), said = occupied.get(item.lane.id);
    if (item.y - view.scroll + item.h > view.height - TL.TOP) continue;
    for (let p = left + 2; p < view.width - 2; p += 1) {
      seen.occupied += said[p];
      if (said[p] && !near(drawn, p)) seen.missing += 1;
      if (drawn[p] && !near(said, p)) seen.far += 1;
    }
  }
  return seen;
}"""
