"""The reader on recorded logs: known counts, closed ledgers, every byte accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from amdlog_cases import Read, read, summarize

from tracecorr.model.kernel_names import demangle_name
from tracecorr.read.amdlog.reader import looks_like_amd_log

CAPTURES = (
    "caseA-1stream", "caseB-4streams", "gemm-rocblas-300", "hip-5.7.1", "hip-6.4.3", "hip-7.2.4",
    "kfd-6.12-t1", "mt-threads", "streams-priority", "t1-local-clock",
)  # fmt: skip


@pytest.mark.parametrize("name", CAPTURES)
def test_counts_of_a_capture_are_those_of_its_recorder(data_folder: Path, name: str) -> None:
    folder = data_folder / "captures" / name
    data = (folder / "amd.log").read_bytes()
    known = json.loads((folder / "meta.json").read_text())["counts"]["amd_log"]
    log = read(data)
    assert log.ledger["bytes"].sum() == len(data)
    assert len(log.rows(name="dispatch")) == known["dispatch_packets"]
    assert len(log.rows(name="barrier_and")) == known["BarrierAND_packets"]
    assert len(log.rows(name="barrier_value")) == known["BarrierValue_packets"]
    named = log.events.filter(pl.col("kernel").is_not_null() & pl.col("name").is_in(["dispatch", "shader_name"]))
    assert len(named) == known["ShaderName"]
    calls = log.events.filter(layer="hip")
    assert len(calls.filter(~pl.col("name").str.starts_with("__"))) == known["hip_calls"]
    with_ring = [r for r in log.rows(name="queue_created") if r["ring"] is not None]
    assert len(with_ring) == known["Created_SWq_lines"]


# Up to ROCm 6.4 the line of a barrier prints no index.
WITH_ALL_INDEXES = [name for name in CAPTURES if name not in ("hip-5.7.1", "hip-6.4.3")]


@pytest.mark.parametrize("name", WITH_ALL_INDEXES)
def test_packets_of_a_ring_have_no_gaps(data_folder: Path, name: str) -> None:
    log = read((data_folder / "captures" / name / "amd.log").read_bytes())
    packets = log.events.filter(pl.col("packet_index").is_not_null()).sort("ring", "packet_index")
    assert len(packets)
    for _, ring in packets.group_by("ring"):
        assert ring["packet_index"].to_list() == list(range(len(ring)))


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


def test_one_program_on_three_releases(data_folder: Path) -> None:
    logs = {
        v: read((data_folder / "captures" / f"hip-{v}" / "amd.log").read_bytes()) for v in ("5.7.1", "6.4.3", "7.2.4")
    }
    barriers = {v: len(log.rows(name="barrier_and")) + len(log.rows(name="barrier_value")) for v, log in logs.items()}
    assert barriers == {"5.7.1": 4, "6.4.3": 4, "7.2.4": 2}
    calls = [_count_calls(log) for log in logs.values()]
    assert calls[0] == calls[1] == calls[2]
    shares = []
    for log in logs.values():
        dispatches = log.events.filter(name="dispatch")
        kernels = [demangle_name(str(k)) for k in dispatches["kernel"]]
        per_ring = dispatches.group_by("ring", maintain_order=True).len()["len"].to_list()
        shares.append((kernels, per_ring))
        assert len(log.rows(name="queue_created")) == 3
        assert len(dispatches) == 20
    assert shares[0] == shares[1] == shares[2]


def _count_calls(log: Read) -> dict[str, int]:
    names = log.events.filter(layer="hip")["name"]
    return dict(names.value_counts().sort("name").iter_rows())


def test_priority_log_of_mi308x(data_folder: Path) -> None:
    log = read((data_folder / "real" / "amdlog-rocm7.0.2-mi308x-stream-priority-l5.txt").read_bytes())
    assert len(log.rows(name="dispatch")) == 24
    assert len(log.rows(name="barrier_and")) == 24
    assert set(log.events.filter(name="dispatch").group_by("ring").len()["len"]) == {6}
    assert len(log.rows(name="queue_created")) == 4
