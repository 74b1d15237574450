"""The report of recorded runs against what their recorder counted (meta.json)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracecorr.analyze.report import Report, summarize_capture
from tracecorr.store import Capture

CAPTURES = ("caseA-1stream", "caseB-4streams", "gemm-rocblas-300", "mt-threads", "streams-priority", "t1-local-clock")


@pytest.fixture(scope="module", params=CAPTURES)
def told(
    request: pytest.FixtureRequest, data_folder: Path, recorded: Callable[..., Capture]
) -> tuple[Report, dict[str, Any]]:
    """Return the report of a recorded run, and the counts of its recorder."""
    capture, folder = recorded(f"captures/{request.param}"), data_folder / "captures" / request.param
    counts = json.loads((folder / "meta.json").read_text())["counts"]
    return summarize_capture(capture.name, capture.table), counts


def rows_by(report: Report, section: str, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a section by the value of one column."""
    (frame,) = (s.frame for s in report.sections if s.key == section)
    return {row[key]: row for row in frame.iter_rows(named=True)}


def test_packets_are_those_of_the_log(told: tuple[Report, dict[str, Any]]) -> None:
    report, counts = told
    log, kinds = counts["amd_log"], rows_by(report, "launches", "kind")
    assert kinds["dispatch"]["packets"] == log["dispatch_packets"]
    assert kinds["barrier_and"]["packets"] == log["BarrierAND_packets"]
    assert kinds.get("barrier_value", {"packets": 0})["packets"] == log["BarrierValue_packets"]
    assert sum(row["dispatches"] for row in rows_by(report, "kernels", "name").values()) == log["dispatch_packets"]


def test_every_packet_has_a_recorded_doorbell(told: tuple[Report, dict[str, Any]]) -> None:
    report, _ = told
    rows = rows_by(report, "launches", "kind")
    assert {"dispatch", "barrier_and"} <= rows.keys()
    for kind in rows.keys() - {"copy"}:
        row = rows[kind]
        assert (row["doorbell_recorded"], row["doorbell_inferred"]) == (row["packets"], 0)
        assert row["with_call"] == row["packets"]


def test_ioctls_are_those_of_the_trace(told: tuple[Report, dict[str, Any]]) -> None:
    report, counts = told
    ours = {
        name.removeprefix("AMDKFD_IOC_"): row["calls"]
        for name, row in rows_by(report, "ioctls", "name").items()
        if name.startswith("AMDKFD_IOC_")
    }
    assert ours == counts["kfd_ioctls"]


def test_hip_calls_and_queues_are_those_of_the_log(told: tuple[Report, dict[str, Any]]) -> None:
    report, counts = told
    calls = rows_by(report, "hip_calls", "name")
    # The recorder counted names that start with hip; __hipPushCallConfiguration is one of ours, too.
    assert sum(row["calls"] for name, row in calls.items() if name.startswith("hip")) == counts["amd_log"]["hip_calls"]
    logged = [row for row in rows_by(report, "queues", "queue").values() if row["hwq"] is not None]
    assert len(logged) == counts["amd_log"]["Created_SWq_lines"]
    assert sum(row["dispatches"] for row in logged) == counts["amd_log"]["dispatch_packets"]


def test_nothing_is_lost_or_unaccounted_and_clocks_agree(told: tuple[Report, dict[str, Any]]) -> None:
    report, _ = told
    assert report.summary["records_lost"] == 0
    assert report.summary["unaligned"] == []
    assert rows_by(report, "unaccounted", "path") == {}
