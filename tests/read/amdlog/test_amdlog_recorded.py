"""The reader on recorded logs: known counts, closed ledgers, every byte accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amdlog_cases import read, summarize

from tracecorr.read.amdlog.reader import looks_like_amd_log

CAPTURES = (
    "caseA-1stream", "caseB-4streams", "gemm-rocblas-300", "hip-5.7.1", "hip-6.4.3", "hip-7.2.4",
    "kfd-6.12-t1", "mt-threads", "streams-priority", "t1-local-clock",
)  # fmt: skip


@pytest.mark.parametrize("name", CAPTURES)
def test_every_dispatch_has_its_call_kernel_and_packet(data_folder: Path, name: str) -> None:
    log = read((data_folder / "captures" / name / "amd.log").read_bytes())
    dispatches = log.events.filter(name="dispatch")
    assert dispatches["kernel"].null_count() == 0
    assert dispatches["parent_offset"].null_count() == 0
    calls = log.events.filter(layer="hip").select(parent_offset="offset", from_ns="stamp_ns", to_ns="end_stamp_ns")
    inside = dispatches.join(calls, on="parent_offset")
    assert len(inside) == len(dispatches)
    assert (inside["stamp_ns"] >= inside["from_ns"]).all()
    assert (inside["stamp_ns"] <= inside["to_ns"]).all()
    assert dispatches.join(log.packets, on="offset")["grid_x"].null_count() == 0


EXPECTED = json.loads((Path(__file__).parent / "expected_recorded.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_log_holds_what_was_counted_in_it(data_folder: Path, name: str) -> None:
    data = (data_folder / "real" / name).read_bytes()
    log = read(data)
    assert summarize(log) == EXPECTED[name]
    assert log.ledger["bytes"].sum() == len(data)
    assert looks_like_amd_log(data)


def test_every_real_log_has_expected_counts(data_folder: Path) -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in (data_folder / "real").glob("amdlog-*.txt"))


def test_priority_log_of_mi308x(data_folder: Path) -> None:
    log = read((data_folder / "real" / "amdlog-rocm7.0.2-mi308x-stream-priority-l5.txt").read_bytes())
    assert len(log.rows(name="dispatch")) == 24
    assert len(log.rows(name="barrier_and")) == 24
    assert set(log.events.filter(name="dispatch").group_by("ring").len()["len"]) == {6}
    assert len(log.rows(name="queue_created")) == 4
