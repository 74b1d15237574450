"""The headers of groups of lanes: folded by the keyboard as by the mouse; and how the page writes times."""

from __future__ import annotations

from typing import Any

from browsing import needs_browser, press

pytestmark = needs_browser

_HEADERS = "() => __tl.view.items.filter((i) => i.kind === 'group').map((i) => i.id)"
_LANES = "() => __tl.view.items.filter((i) => i.kind === 'lane').length"


def _chosen(page: Any) -> Any:
    return page.evaluate("() => __tl.view.header")


def _message(page: Any) -> str:
    return str(page.locator("#tl-status .tl-message").inner_text())


def test_headers_are_chosen_and_folded_by_the_keyboard(page: Any) -> None:
    page.evaluate("() => { __tl.view.collapsed.clear(); __tl.view.layout(); __tl.view.scroll = 0; }")
    headers, lanes = page.evaluate(_HEADERS), page.evaluate(_LANES)
    assert len(headers) > 2
    press(page, "h")
    assert _chosen(page) == headers[0]
    assert _message(page).endswith(": Enter folds it")
    press(page, "Enter")
    assert page.evaluate(_LANES) < lanes
    assert _message(page).endswith(": folded, Enter unfolds it")
    press(page, "Enter")
    assert page.evaluate(_LANES) == lanes
    press(page, "h", "h", "Shift+H")
    assert _chosen(page) == headers[1]
    press(page, "Shift+H", "Shift+H")
    assert _chosen(page) == headers[-1]
    # It is brought into view.
    assert page.evaluate("() => __tl.view.visibleItems(0).some((i) => i.id === __tl.view.header)")
    press(page, "Escape", "Enter")
    assert (_chosen(page), page.evaluate(_LANES)) == (None, lanes)


_SHORT = (
    (0, "0 ns"), (999, "999 ns"), (1000, "1.00 us"), (99_994, "99.99 us"), (99_995, "100.0 us"),
    (999_949, "999.9 us"), (999_960, "1.00 ms"), (-999_999, "-1.00 ms"), (999_999_999, "1.000 s"),
    (1_500_000_000, "1.500 s"),
)  # fmt: skip


def test_a_time_has_at_most_three_digits_before_its_point(page: Any) -> None:
    assert [page.evaluate("(ns) => TL.short(ns)", ns) for ns, _ in _SHORT] == [text for _, text in _SHORT]
