"""SYNTHETIC runs with damage at queue creations and requests of the KFD: nothing is wrong by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.damaged import list_faults, make_reference
from fuzz_links import draw_damages, draw_scene


@pytest.mark.parametrize(
    ("seed", "run"), [
        # What each of them found wrong before it was mended, in one of its damaged runs.
        pytest.param(8840061, 2, id="a clock shifted by creations, of which one's ioctl lacks its exit"),
    ],
)  # fmt: skip
def test_damaged_requests_make_nothing_wrong(seed: int, run: int, tmp_path: Path) -> None:
    scene = draw_scene(seed)
    damaged = list(draw_damages(scene))[run]
    assert list_faults(make_reference(scene, tmp_path / "whole"), damaged, tmp_path / "damaged") == []
