"""Queues under a profiler: the log's ring is the profiler's buffer, that of the ioctl the hardware's (SYNTHETIC)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from queue_runs import QueueRun

from tracecorr.analyze.verdicts import judge_capture
from tracecorr.store import Capture

BUFFER, HARDWARE, OWN = 0x3C00000, 0x7F4910800000, 0x7F4900000000


def _joined(capture: Capture) -> list[tuple[object, ...]]:
    columns = ("hwq", "ring_base", "intercepted", pl.col("create_evidence").cast(pl.String))
    return capture.table("queues").filter(pl.col("hwq").is_not_null()).select(columns).collect().rows()


def _run(*rings: tuple[int, int], kind: int = 1) -> QueueRun:
    run = QueueRun()
    for place, (ring, made) in enumerate(rings):
        run.launch(run.create(ring, made, 0x220000 + place * 0x9000), ring, 0, kind)
    return run


def test_creations_are_joined_by_interval_where_no_ring_of_the_log_is_that_of_an_ioctl(tmp_path: Path) -> None:
    capture = _run((BUFFER, HARDWARE), (2 * BUFFER, 2 * HARDWARE)).correlate(tmp_path)
    assert _joined(capture) == [
        (BUFFER, HARDWARE, True, "derived"), (2 * BUFFER, 2 * HARDWARE, True, "derived"),
    ]  # fmt: skip
    assert capture.table("queues").collect().height == 2
    found = {v.name: v for v in judge_capture(capture.table)}
    assert "profiler" in found["compute_uses_doorbell"].finding.reason
    assert "profiler" in found["doorbell_per_packet"].finding.reason
    assert "no ioctl" not in found["queue_creation_complete"].finding.reason
    reasons = capture.table("launches").select(pl.col("unlinked_reason").cast(pl.String)).collect().to_series()
    assert reasons.str.starts_with("a profiler intercepts the queue").to_list() == [True, True]


def test_a_process_with_one_ring_in_common_is_not_intercepted(tmp_path: Path) -> None:
    capture = _run((BUFFER, BUFFER), (2 * BUFFER, HARDWARE), kind=-1).correlate(tmp_path)
    assert _joined(capture) == [(BUFFER, BUFFER, False, "recorded"), (2 * BUFFER, None, None, None)]


def test_the_queue_of_rocr_is_told_by_its_size(tmp_path: Path) -> None:
    run = QueueRun()
    run.create(BUFFER, OWN, size=64)
    assert _joined(run.correlate(tmp_path)) == [(BUFFER, None, None, None)]


def test_without_the_ring_of_the_ioctl_it_is_unknown(tmp_path: Path) -> None:
    run = _run((BUFFER, HARDWARE))
    run.trace = [line for line in run.trace if "kfd_create_queue" not in line]
    assert _joined(run.correlate(tmp_path)) == [(BUFFER, None, None, "derived")]
