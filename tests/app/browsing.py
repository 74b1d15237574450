"""What the browser tests share: Debian's Chromium, waiting, reading the state of the page."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tracecorr.app
from tracecorr.app.server import serve

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed (apt install chromium)"),
]

_ASSETS = Path(tracecorr.app.__file__).parent / "assets"
# The page has no global but `__tl`: for the tests, `TL` looks a name up in the exports of its modules.
_LOOK_UP = """async (names) => {
  if (window.TL) return;
  const modules = await Promise.all(names.map((name) => import("/assets/" + name)));
  window.TL = new Proxy({}, { get: (_, name) => modules.find((module) => name in module)[name] });
}"""


def start_server(captures: Mapping[str, Any]) -> str:
    """Serve captures until the tests end; return the address, token included."""
    ready, urls = threading.Event(), []

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    threading.Thread(target=serve, args=(captures, "127.0.0.1", 0, on_ready), daemon=True).start()
    assert ready.wait(300)
    return str(urls[0])


def wait_idle(page: Any) -> None:
    """Wait in Python: the page's policy forbids the eval behind `wait_for_function`."""
    until = time.monotonic() + 300  # only what hangs takes that long
    while time.monotonic() < until:
        page.wait_for_timeout(20)
        if _is_idle(page):
            page.evaluate(_LOOK_UP, sorted(file.name for file in _ASSETS.glob("*.js")))
            return
    raise AssertionError("the page did not become idle")


def _is_idle(page: Any) -> bool:
    try:
        return bool(page.evaluate("() => window.__perf && __perf.idle && window.__tl && Boolean(__tl.view.meta)"))
    except Exception as problem:
        if "navigation" not in str(problem):  # the next page comes while this one is asked
            raise
        return False


def wait_for(page: Any, what: str) -> None:
    """Wait until a condition of the page, in JavaScript, holds."""
    until = time.monotonic() + 300
    while not page.evaluate(f"() => Boolean({what})"):
        assert time.monotonic() < until, what
        page.wait_for_timeout(20)


def wait_for_address(page: Any, *parts: str) -> None:
    """Wait until the address of the page, which is written a moment after a change, holds some texts."""
    until = time.monotonic() + 300  # only what hangs takes that long
    while not all(part in page.url for part in parts):
        assert time.monotonic() < until, page.url
        page.wait_for_timeout(60)


def open_at(page: Any, address: str) -> None:
    """Load an address anew, also when only its hash differs; one that names no view shows the whole capture."""
    page.goto("about:blank")
    page.goto(address)
    wait_idle(page)
    if not any(f"{key}=" in address for key in ("t0", "sel", "record", "q", "y")):
        show_whole(page)


def show_whole(page: Any) -> None:
    """Leave the first view: the whole capture, nothing selected."""
    page.evaluate("() => { TL.clear(); TL.showWhole(); __tl.changed(); }")
    wait_idle(page)


def state_of(page: Any) -> dict[str, Any]:
    """Return what the page shows."""
    state: dict[str, Any] = page.evaluate("() => __tl.state()")
    return state


def press(page: Any, *keys: str) -> None:
    """Press keys one after the other; wait after each."""
    for key in keys:
        page.keyboard.press(key)
        wait_idle(page)


def click_event(page: Any, what: str | int) -> int:
    """Click on an event, or on the first visible one of a layer; return its number."""
    spot = page.evaluate("what => typeof what === 'string' ? __tl.locate(what) : __tl.spot(what)", what)
    assert spot is not None, f"{what} is not in view as a single event"
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    page.mouse.click(box["x"] + spot["x"], box["y"] + spot["y"])
    wait_idle(page)
    return int(spot["event"])


class Held:
    """The answer to the first request of a page that matches: given at once, but it comes when it is let go."""

    def __init__(self, page: Any, pattern: str, method: str = "GET") -> None:
        self._page, self._method, self._routes = page, method, list[Any]()
        page.route(pattern, lambda route: self._hold(route))

    def _hold(self, route: Any) -> None:
        if self._routes or route.request.method != self._method:
            route.continue_()
        else:
            self._given = route.fetch()
            self._routes.append(route)

    def wait(self) -> None:
        """Wait until the page has asked."""
        until = time.monotonic() + 300
        while not self._routes:
            assert time.monotonic() < until
            self._page.wait_for_timeout(20)

    def answer(self, failure: str | None = None, idle: bool = True) -> None:
        """Let the answer come, or a refusal with a text; wait until the page has done what it does then."""
        self.wait()
        if failure is None:
            self._routes[0].fulfill(response=self._given)
        else:
            self._routes[0].fulfill(status=500, body=failure)
        if idle:
            wait_idle(self._page)
        else:
            self._page.wait_for_timeout(200)
