"""Text of both themes can be read: contrast by WCAG 2.1 (AA: 4.5 for text, 3 for marks)."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_browser, open_at

from tracecorr import app
from tracecorr.timeline.lanes import COLOURS

CSS = (Path(app.__file__).parent / "assets" / "style.css").read_text()
THEMES = dict(re.findall(r'^:root(\[data-theme="dark"\])? \{([^}]*)\}', CSS, re.MULTILINE))


def _colours(theme: str) -> dict[str, str]:
    found = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{3,6});", THEMES[theme]))
    return {k: v if len(v) == 7 else "#" + "".join(2 * c for c in v[1:]) for k, v in found.items()}


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ink", ["text", "dim", "accent", "good", "bad", "warn"])
@pytest.mark.parametrize("ground", ["bg", "bg2", "head", "card"])
def test_text_is_readable(theme: str, ink: str, ground: str) -> None:
    colours = _colours(theme)
    assert _contrast(colours[ink], colours[ground]) >= 4.5


def _as_seen(colour: str) -> tuple[float, ...]:
    """Return a colour as a deuteranope sees it (Machado et al. 2009, severity 1; linear RGB)."""
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return (
        0.367322 * r + 0.860646 * g - 0.227968 * b,
        0.280085 * r + 0.672501 * g + 0.047413 * b,
        -0.011820 * r + 0.042940 * g + 0.968881 * b,
    )


def test_layers_of_the_path_differ_for_colour_blind_readers() -> None:
    path = ("hip", "ioctl", "mqd", "doorbell", "aql")
    for a, b in combinations(path, 2):
        apart = sum((x - y) ** 2 for x, y in zip(_as_seen(COLOURS[a]), _as_seen(COLOURS[b]), strict=True)) ** 0.5
        assert apart > 0.12, (a, b)


class TestInTheBrowser:
    """Bars in the browser."""

    pytestmark = needs_browser

    def test_bars_stand_out_from_the_dark_ground(self, page: Any, url: str) -> None:
        """Each layer in the shades of all its names: the darkest one was hard to see."""
        open_at(page, f"{url.split('?')[0]}#theme=dark")
        layers = [layer for layer in COLOURS if layer != "other"]
        fills = "layers => layers.flatMap(n => TL.view.meta.names.map((_, i) => [n, TL.fill(n, i)]))"
        ground = _colours(' [data-theme="dark"]'.strip())["bg"]
        dark = {layer for layer, fill in page.evaluate(fills, layers) if _contrast(fill, ground) < 3}
        assert dark == set()

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_names_on_bars_can_be_read(self, page: Any, url: str, theme: str) -> None:
        open_at(page, f"{url.split('?')[0]}#theme={theme}")
        fills = "layers => layers.flatMap(n => TL.view.meta.names.map((_, i) => TL.fill(n, i)))"
        inks = {
            fill: page.evaluate("fill => TL.inkOn(fill)", fill) for fill in set(page.evaluate(fills, list(COLOURS)))
        }
        assert not [fill for fill, ink in inks.items() if _contrast(fill, "#" + "".join(2 * c for c in ink[1:])) < 3]
