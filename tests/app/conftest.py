"""Fixtures of the page's tests."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from browsing import CHROMIUM, FLAGS, show_whole, start_server, wait_idle
from synthetic import SyntheticCapture, make_capture

from tracecorr.app import index
from tracecorr.pipeline import correlate
from tracecorr.store import Capture


@pytest.fixture(scope="session")
def synthetic_capture() -> SyntheticCapture:
    return make_capture()


@pytest.fixture(scope="session")
def synthetic_index(synthetic_capture: SyntheticCapture) -> index.CaptureIndex:
    return index.build(synthetic_capture)


@pytest.fixture(scope="session")
def sample(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a copy of the bundled capture of the real HIP runtime, with tables."""
    path = tmp_path_factory.mktemp("sample") / "t1-streams.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    correlate(path)
    return Capture.open(path)


@pytest.fixture(scope="session")
def url(synthetic_capture: SyntheticCapture, sample: Capture) -> str:
    """Return the address, token included, of a server of both captures."""
    return start_server({"synthetic": synthetic_capture, "t1-streams": sample})


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=str(CHROMIUM), args=FLAGS,
            viewport={"width": 1500, "height": 900}, accept_downloads=True,
        )  # fmt: skip
        yield context
        context.close()


def _list_troubles(page: Any) -> list[str]:
    """Return a list that grows with each error and warning in a page's console."""
    troubles: list[str] = []
    page.on("console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: troubles.append(str(e)))
    return troubles


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """Return a page on the synthetic capture; a console error or a foreign request fails the test."""
    own = url.split("/?")[0]
    page = browser.new_page()
    troubles = _list_troubles(page)
    page.on(
        "request", lambda r: None if r.url.startswith((own, "data:", "blob:", "about:")) else troubles.append(r.url)
    )
    page.goto(url)
    wait_idle(page)
    show_whole(page)
    yield page
    page.close()
    assert troubles == []


@pytest.fixture
def lone_page(browser: Any) -> Iterator[Any]:
    """Return an empty page; an error in its console fails the test."""
    page = browser.new_page()
    troubles = _list_troubles(page)
    yield page
    page.close()
    assert troubles == []
