"""Tables that are built again from the same SYNTHETIC damaged run are the same, also where queues lack their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_links import draw_damages, draw_scene
from simulator import simulate

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_TABLES = ("queues", "stream_queues", "launches", "events")


@pytest.mark.parametrize(("seed", "damage"), [(1_000_000_101, 2), (1_000_000_104, 3)])
def test_queues_without_lines_have_one_order(seed: int, damage: int, tmp_path: Path) -> None:
    scene = list(draw_damages(draw_scene(seed)))[damage]
    (tmp_path / "run").mkdir()
    made = simulate(scene, tmp_path / "run")
    path = tmp_path / "one.tracecorr"
    import_files(path, made.logs, [made.trace], clock=scene.clock.name, clock_samples=made.samples)
    seen = []
    for _ in range(5):
        correlate(path)
        seen.append({name: Capture.open(path).table(name).collect() for name in _TABLES})
    assert all(again[name].equals(seen[0][name]) for again in seen for name in _TABLES)
