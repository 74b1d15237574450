"""SYNTHETIC runs with real kinds of damage: links may be missing, and those that are wrong are inferred."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.truth import score_scene
from simulated_scenes import BASE, totals
from simulator.damage import LOG_DAMAGES, TRACE_DAMAGES

_SCENES = ({}, {"era": "6.4"}, {"threads": 6, "queues": 2})
_DAMAGES = [*((log, "") for log in LOG_DAMAGES), *(("", trace) for trace in TRACE_DAMAGES), ("a hole", "overrun")]


# Each damage in one scene, and each log damage in a second one.
@pytest.mark.parametrize(
    ("log", "trace", "options"),
    [
        (*damage, _SCENES[(number + turn) % 3])
        for turn in range(2) for number, damage in enumerate(_DAMAGES) if damage[0] or not turn
    ],
)  # fmt: skip
def test_damage_makes_no_wrong_link_recorded(log: str, trace: str, options: dict[str, object], tmp_path: Path) -> None:
    scene = replace(BASE, seed=3, span_s=0.1, log_damage=log, trace_damage=trace, **options)  # type: ignore[arg-type]
    found, right, true, wrong = totals(score_scene("damaged", scene, tmp_path))
    assert wrong == 0
    assert found - right <= 0.02 * true
    assert right > 0.2 * true
