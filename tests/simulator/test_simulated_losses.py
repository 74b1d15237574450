"""Synthetic runs that lost lines or moved them: links may be missing, and no recorded one is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from benchmarks.truth import score_scene
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from simulated_scenes import BASE, CLOCKS, STRUCTURES, totals
from simulator import ClockModel

from tracecorr.store import Capture


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize(
    "name", [
        "eight threads on two queues", "calls in calls", "copies behind copies", "Direct Dispatch off",
        "queues made again", "HIP 6.4", "HIP 6.2",
    ],
)  # fmt: skip
def test_lost_lines_make_links_missing_but_not_wrong(name: str, share: float, tmp_path: Path) -> None:
    options = STRUCTURES[name]
    scene = replace(BASE, seed=3, lost_log=share, lost_trace=share, **options)  # type: ignore[arg-type]
    score = score_scene(name, scene, tmp_path)
    found, right, true, _ = totals(score)
    assert found == right
    launches = Capture.open(tmp_path / "run.tracecorr").table("launches").collect()
    reasons = launches.filter(pl.col("command_event").is_null())["unlinked_reason"].cast(pl.String)
    assert len(reasons) and reasons.str.starts_with("the log lost lines").all()
    # Releases that print fewer indexes prove less.
    assert right >= (0.35 if options.get("era") else 0.7 if share < 0.2 else 0.45) * true
    for what, (right, found, _) in score.identities.items():
        assert right == found, what


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_creation_whose_call_lost_lines_has_the_ioctl_that_made_its_ring(share: float, tmp_path: Path) -> None:
    scene = replace(BASE, seed=2, queue_probe=True, recreate=True, lost_log=share, lost_trace=share)
    found, right, true, wrong = score_scene("rings", scene, tmp_path).links["ioctl_creates_queue"]
    assert (found, wrong) == (right, 0)
    assert right >= 0.5 * true > 0


@pytest.mark.parametrize(
    ("share", "seed", "options"),
    [(0.1, 12, {}), (0.3, 11, {}), (0.3, 13, {"threads": 2}), (0.1, 11, {"queue_probe": True})],
)
def test_lost_lines_of_queues_made_again_are_no_other_clock(
    share: float, seed: int, options: dict[str, object], tmp_path: Path
) -> None:
    """Halves of what is there twice look alike, and ioctls are missing: but what there is fits CLOCK_MONOTONIC."""
    lossy = replace(BASE, span_s=1.0, threads=1, recreate=True, lost_log=share, lost_trace=share, seed=seed)
    score = score_scene("again", replace(lossy, **options), tmp_path)  # type: ignore[arg-type]
    assert (score.method, score.width_ns) == ("same_clock", (1000, 1000))


def test_lost_lines_do_not_hide_that_a_clock_is_another_one(tmp_path: Path) -> None:
    """It is said to be mono, but 0.3 ms beside it."""
    clock = ClockModel("mono", 300_000, 12.0)
    score = score_scene("beside", replace(BASE, recreate=True, lost_log=0.3, lost_trace=0.3, clock=clock), tmp_path)
    assert score.method == "causal_pairs"
    assert score.covered[0] == score.covered[1]


@pytest.mark.parametrize(("offset_ns", "method"), [(0, "same_clock"), (300_000, "unaligned"), (-300_000, "unaligned")])
def test_where_no_pair_is_left_system_calls_tell_that_a_clock_is_another_one(
    offset_ns: int, method: str, tmp_path: Path
) -> None:
    """It is said to be mono, half of the log is lost, and no probe saw a doorbell."""
    clock = ClockModel("mono", offset_ns, 0.0)
    scene = replace(BASE, seed=2, doorbell="none", lost_log=0.5, clock=clock)
    score = score_scene("silences", scene, tmp_path)
    assert score.method == method
    assert score.covered[0] == score.covered[1]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(1, 10**6),
    lost_log=st.sampled_from([0.0, 0.02, 0.3]), lost_trace=st.sampled_from([0.0, 0.02, 0.3]),
    shuffled_log=st.sampled_from([0, 3, 50]), shuffled_trace=st.sampled_from([0, 3, 50]),
    doorbell=st.sampled_from(["plain", "rich"]), queue_probe=st.booleans(), clock=st.sampled_from(["mono", "local"]),
)  # fmt: skip
@example(
    seed=2092, lost_log=0.02, lost_trace=0.02, shuffled_log=50, shuffled_trace=50, doorbell="plain", queue_probe=True,
    clock="mono",
)  # fmt: skip
@example(
    seed=5502, lost_log=0.3, lost_trace=0.3, shuffled_log=0, shuffled_trace=0, doorbell="rich", queue_probe=True,
    clock="mono",
)  # fmt: skip
def test_damage_never_makes_a_wrong_recorded_link(
    tmp_path_factory: pytest.TempPathFactory, seed: int, clock: str, **damage: object
) -> None:
    """Lines removed or moved on either side: links may be missing, but none is wrong that is called recorded."""
    scene = replace(BASE, seed=seed, span_s=0.06, clock=CLOCKS[clock], recreate=seed % 3 == 0, **damage)  # type: ignore[arg-type]
    score = score_scene("damaged", scene, tmp_path_factory.mktemp("damaged"))
    assert totals(score)[3] == 0, score.links
