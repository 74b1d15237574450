"""Pictures of the page for people to look at: TRACECORR_SCREENSHOTS names their folder, else pytest's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, wait_idle

from tracecorr.store import Capture

pytestmark = needs_browser


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = os.environ.get("TRACECORR_SCREENSHOTS")
    folder = Path(asked) if asked else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"screenshots are in {folder}")
    return folder


def _shoot(page: Any, path: Path) -> bytes:
    picture: bytes = page.screenshot(path=path)
    return picture


def test_three_zoom_levels_chain_and_dark(page: Any, url: str, sample: Capture, pictures: Path) -> None:
    open_at(page, url.split("?")[0] + "?capture=t1-streams#theme=light")
    seen = [_shoot(page, pictures / "zoom-1.png")]
    launches = sample.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect()
    page.evaluate("event => __tl.select(event)", int(launches["event"][8]))
    wait_idle(page)
    press(page, "f")
    seen.append(_shoot(page, pictures / "zoom-2.png"))
    press(page, "p")
    seen.append(_shoot(page, pictures / "chain.png"))
    press(page, "t")
    seen.append(_shoot(page, pictures / "dark.png"))
    press(page, "p", "w", "w", "w", "w", "w", "w")
    seen.append(_shoot(page, pictures / "zoom-3.png"))
    assert len(set(seen)) == len(seen)


def test_comparison_and_driver_lanes(page: Any, url: str, pictures: Path) -> None:
    page.evaluate("() => { __tl.view.scrollBy(1e6); __tl.changed(); }")
    wait_idle(page)
    seen = [_shoot(page, pictures / "driver-lanes-synthetic.png")]
    page.evaluate("() => TL.openPage('compare')")
    wait_idle(page)
    seen.append(_shoot(page, pictures / "comparison.png"))
    open_at(page, url.split("?")[0] + "?capture=t1-streams&other=synthetic&at=packet")
    seen.append(_shoot(page, pictures / "pair.png"))
    assert len(set(seen)) == len(seen)
