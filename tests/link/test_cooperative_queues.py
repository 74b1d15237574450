"""Cooperative queues: ROCr gives out the one that it has, so a further Created line makes no queue (SYNTHETIC)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from queue_runs import QueueRun

from tracecorr.analyze.verdicts import judge_capture
from tracecorr.store import Capture

RING = 0x3C00000


def _queues(capture: Capture) -> list[tuple[object, ...]]:
    found = capture.table("queues").select(
        "hwq", "dispatches", pl.col("create_ioctl_event").is_not_null(), pl.col("destroyed_ns").is_not_null()
    )
    return found.collect().rows()


def _outcome(capture: Capture, name: str) -> tuple[str, str]:
    (verdict,) = judge_capture(capture.table, names=[name])
    return str(verdict.outcome), verdict.finding.reason


def _share(run: QueueRun) -> None:
    """Make a cooperative queue, use it, ask for it a second time, use it from both streams."""
    first = run.create(RING, RING, cooperative=1)
    for index in range(3):
        run.launch(first, RING, index)
    second = run.create(RING, None, cooperative=1)
    for index in range(3, 8):
        run.launch((first, second)[index % 2], RING, index)


def test_a_shared_cooperative_queue_is_one_queue(tmp_path: Path) -> None:
    run = QueueRun()
    _share(run)
    run.delete(RING)
    capture = run.correlate(tmp_path)
    assert _queues(capture) == [(RING, 8, True, False)]
    assert capture.table("stream_queues").collect().height == 2
    assert _outcome(capture, "packet_sequence_complete")[0] == "PASS"
    assert "no ioctl" not in _outcome(capture, "queue_creation_complete")[1]


def test_it_ends_when_its_last_user_gives_it_back(tmp_path: Path) -> None:
    run = QueueRun()
    _share(run)
    run.delete(RING)
    given_back = int(run.now) * 1000
    run.delete(RING)
    again = run.create(RING, RING, cooperative=1)
    run.launch(again, RING, 0)
    capture = run.correlate(tmp_path)
    assert _queues(capture) == [(RING, 8, True, True), (RING, 1, True, False)]
    assert capture.table("queues").collect()["destroyed_ns"][0] == given_back
    assert _outcome(capture, "packet_sequence_complete")[0] == "PASS"


def test_other_queues_are_made_anew_at_each_line(tmp_path: Path) -> None:
    run = QueueRun()
    run.launch(run.create(RING, RING), RING, 0)
    run.launch(run.create(RING, RING), RING, 0)
    assert len(_queues(run.correlate(tmp_path))) == 2


def test_a_cooperative_queue_with_an_ioctl_of_its_own_is_another(tmp_path: Path) -> None:
    """The line that tells the end of the first may be lost."""
    run = QueueRun()
    run.launch(run.create(RING, RING, cooperative=1), RING, 0)
    run.launch(run.create(RING, RING, cooperative=1), RING, 0)
    assert len(_queues(run.correlate(tmp_path))) == 2


def test_creations_that_made_no_queue_do_not_hide_the_one_that_did_from_the_clock(tmp_path: Path) -> None:
    run = QueueRun()
    run.create(RING, RING, cooperative=1)
    run.create(RING, None, cooperative=1)
    clocks = run.correlate(tmp_path, "local").table("clock_map").select(pl.col("source", "method").cast(pl.String))
    assert ("ftrace:local", "causal_pairs") in clocks.collect().rows()
