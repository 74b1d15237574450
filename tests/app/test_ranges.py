"""Ranges of time on the page: measured from edge to edge of events, and gone back to."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import needs_browser, press, state_of, wait_idle

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
