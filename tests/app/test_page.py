"""The page in a real browser: zoom, click, chain, no error, no foreign request."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import click_event as _click
from browsing import needs_browser, wait_for, wait_for_address
from browsing import state_of as _state
from browsing import wait_idle as _idle

from tracecorr.store import Capture

pytestmark = needs_browser


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
    page.mouse.wheel(0, -800)  # told to the page at some time: it is not waited for
    wait_for(page, f"__tl.view.span() < {0.5 * (nearer['t1'] - nearer['t0'])}")
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
    for text in ("hipLaunchKernel", "KernelExecution", "doorbell", "raw/amd_log/synthetic.log:"):
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


def test_names_of_the_chain_stand_alone(page: Any) -> None:
    """No name of another event is painted under that of a stage; the panel names the event in a narrow window, too."""
    page.set_viewport_size({"width": 1100, "height": 700})
    _click(page, "aql")
    # The event with its causes, then the whole chain.
    page.keyboard.press("f")
    _idle(page)
    page.keyboard.press("f")
    _idle(page)
    overlaps = page.evaluate(_OVERLAPS)
    assert overlaps["stages"] > 0 < overlaps["written"] and overlaps["over"] == []
    page.set_viewport_size({"width": 700, "height": 700})
    name = page.locator(".tl-title b").bounding_box()
    assert name is not None and name["width"] > 20


# Notes which text the lanes paint in one frame, and where the names beside stages stand.
_OVERLAPS = """() => {
  const ctx = document.querySelector('#tl-canvas-host canvas').getContext('2d'), written = [];
  ctx.fillText = (text, x, y) => { written.push([text, x, y, ctx.measureText(text).width]); };
  try { TL.drawLanes(ctx, TL.loadedSpans()); } finally { delete ctx.fillText; }
  const places = TL.chainLabels(ctx);
  TL.redraw();
  const over = written.filter(([, x, y, w]) => x >= TL.GUTTER
    && places.some((r) => x < r[0] + r[2] && x + w > r[0] && y > r[1] && y < r[1] + r[3]));
  return { written: written.length, stages: places.length, over: over.map((t) => t[0]) };
}"""


def test_view_comes_back_from_its_address(page: Any) -> None:
    page.keyboard.press("t")
    page.evaluate("() => __tl.select(500)")
    page.mouse.move(800, 300)
    page.keyboard.press("w")
    _idle(page)
    before = _state(page)
    wait_for_address(page, "sel=500", f"t0={round(before['t0'])}&t1={round(before['t1'])}")
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


def test_sample_shows_the_way_from_call_to_doorbell(page: Any, url: str, sample: Capture) -> None:
    """On the bundled capture of the real HIP runtime: zoom in, click a dispatch, read its chain."""
    page.goto(url.split("?")[0] + "?capture=t1-streams")
    _idle(page)
    kernels = sample.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect()
    event = int(kernels["event"][8])
    page.evaluate("event => __tl.select(event)", event)
    _idle(page)
    page.keyboard.press("f")
    _idle(page)
    page.keyboard.press("Escape")
    _idle(page)
    assert _state(page)["selected"] is None
    _click(page, event)
    layers = [stage["layer"] for stage in _state(page)["detail"]["stages"]]
    assert {"hip", "command", "aql", "doorbell"} <= set(layers)
    shown = page.locator("#tl-detail").inner_text()
    for text in (
        "hipLaunchKernel",
        "KernelExecution",
        "doorbell",
        "raw/amd_log/0-amd.log:",
        "raw/ftrace/0-ftrace.txt:",
    ):
        assert text in shown or text.split("/", 1)[-1] in shown, text


def test_a_name_that_is_cut_fits_its_room(page: Any) -> None:
    """Letters at its beginning may be wide: an average would let it reach over the next bar."""
    too_wide = page.evaluate("""() => {
        const ctx = document.createElement("canvas").getContext("2d");
        ctx.font = TL.FONT;
        const rooms = Array.from({ length: 120 }, (_, i) => 20 + i);
        const names = ["dummy_kernel (bounds)", "mmmmmmmmiiiiiiiiiiiiiiii", "hipStreamCreateWithPriority"];
        return names.flatMap((name) => rooms.filter((room) => ctx.measureText(TL.cut(ctx, name, room)).width > room));
    }""")
    assert too_wide == []
