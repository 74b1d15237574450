"""Ranges of time on the page: measured from edge to edge of events, and gone back to."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, press, state_of, wait_idle
from synthetic import SyntheticCapture

pytestmark = needs_browser


def _range(page: Any) -> tuple[float, float]:
    state = state_of(page)
    return state["t0"], state["t1"]


def test_a_range_is_gone_back_to_and_forth(page: Any) -> None:
    whole = _range(page)
    press(page, "w")
    near = _range(page)
    press(page, "d", "w")
    nearest = _range(page)
    press(page, "Backspace", "Backspace")
    assert _range(page) == pytest.approx(near)
    press(page, "Backspace")
    assert _range(page) == pytest.approx(whole)
    press(page, "Backspace")
    assert "no earlier range" in page.locator("#tl-status .tl-message").inner_text()
    press(page, "Shift+Backspace", "Shift+Backspace", "Shift+Backspace")
    assert _range(page) == pytest.approx(nearest)
    press(page, "Backspace", "0", "Shift+Backspace")
    assert "no later range" in page.locator("#tl-status .tl-message").inner_text()
    assert _range(page) == pytest.approx(whole)


def test_a_drag_is_one_step(page: Any) -> None:
    press(page, "w", "w")
    before = _range(page)
    page.mouse.move(900, 400)
    page.mouse.down()
    page.mouse.move(700, 400, steps=8)
    page.mouse.up()
    wait_idle(page)
    assert _range(page) != before
    press(page, "Backspace")
    assert _range(page) == pytest.approx(before)


def test_keys_of_a_search_do_not_change_the_range(page: Any) -> None:
    press(page, "w", "/")
    near = _range(page)
    page.keyboard.type("ab")
    press(page, "Backspace")
    assert _range(page) == near
    assert page.locator("#tl-toolbar input[type=search]").input_value() == "a"


def test_a_gap_between_two_events_is_measured_exactly(page: Any, synthetic_capture: SyntheticCapture) -> None:
    """Pressed and let go some pixels beside the events, the range ends at them; every text of it says the same."""
    rows = synthetic_capture.table("events").filter(pl.col("layer").cast(pl.String) == "hip").collect()
    calls = rows.filter(pl.col("thread") == rows["thread"][0], pl.col("dur_ns") > 2000).sort("ts_ns")
    one, two = calls.row(5, named=True), calls.row(6, named=True)
    start = page.evaluate("event => __tl.select(event).then(() => Number(__tl.view.meta.t0_abs))", one["event"])
    begin, end = one["ts_ns"] + one["dur_ns"] - start, two["ts_ns"] - start
    margin = 3 * (end - begin) + 2000
    page.evaluate("([a, b]) => { __tl.view.setRange(a, b); __tl.changed(); }", [begin - margin, end + margin])
    wait_idle(page)
    lane = page.evaluate("event => __tl.view.detail.stages.find((n) => n.event === event).lane", one["event"])
    y = page.evaluate("lane => __tl.view.rowTop(lane, 0) + 5", lane)
    xs = page.evaluate("([a, b]) => [__tl.view.x(a), __tl.view.x(b)]", [begin, end])
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + xs[0] + 2, box["y"] + y)
    page.mouse.down()
    page.mouse.move(box["x"] + xs[1] - 2, box["y"] + y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    wait_idle(page)
    assert state_of(page)["mark"] == {"a": begin, "b": end}
    assert page.locator("#tl-card b").inner_text() == f"{end - begin:,} ns"
