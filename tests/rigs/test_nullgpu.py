"""Captures of the null GPU rig's programs on the host: their tables equal what the model retired."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from rig import NullGpu, capture_run, check_packets, check_threads, list_leftovers

pytestmark = pytest.mark.nullgpu


@pytest.mark.parametrize(
    ("program", "gpus", "processes"),
    [
        (("/rig/programs/t1", "50", "3"), 1, 1),
        (("/rig/programs/mt", "20"), 1, 1),
        (("python3", "/rig/programs/fork.py", "2", "/rig/programs/t1", "20", "2"), 1, 2),
        (("/rig/programs/t8", "10"), 8, 1),
    ],
    ids=["t1", "mt", "fork", "t8"],
)
def test_tables_equal_the_truth(
    nullgpu: NullGpu, tmp_path: Path, program: tuple[str, ...], gpus: int, processes: int
) -> None:
    run = capture_run(nullgpu, tmp_path, program, gpus=gpus)
    assert run.ended.status == 0, run.ended.err
    assert run.info["lost_events"] == 0
    check_packets(run)
    check_threads(run)
    logged = run.table("processes").filter(pl.col("log_pid").is_not_null())
    assert logged.height == processes
    assert (logged["pid"] == logged["log_pid"]).all()
    assert list_leftovers(run) == []


def test_a_runtime_unknown_before_is_probed_when_it_is_mapped(nullgpu: NullGpu, tmp_path: Path) -> None:
    run = capture_run(nullgpu, tmp_path, ("/rig/programs/t1", "2000", "2"), known=False)
    assert run.ended.status == 0, run.ended.err
    late = {entry["kind"]: entry for entry in run.info["plan"]["late"]}
    assert late["hsa"]["armed_ns"] > late["hsa"]["seen_ns"]
    assert any(name.startswith("doorbell") for name in late["hsa"]["probes"])
    assert not [absent for absent in run.info["plan"]["absent"] if absent["what"].startswith("doorbells")]
    # Packets before the probe was armed say so; those after it are recorded.
    launches = run.table("launches").filter(pl.col("packet_index").is_not_null())
    recorded = launches.filter(pl.col("doorbell_evidence").cast(pl.String) == "recorded")
    assert recorded.height > 0
    first = recorded["packet_ns"].min()
    missed = launches.filter(pl.col("doorbell_evidence").cast(pl.String) != "recorded")
    assert (missed["packet_ns"] <= first).all()


def test_tracecorr_in_a_root_of_its_own_records_the_same(nullgpu: NullGpu, tmp_path: Path) -> None:
    jail = tmp_path / "jail"
    jail.mkdir()
    run = capture_run(nullgpu, tmp_path, ("/rig/programs/t1", "20", "3"), jail=jail)
    assert run.ended.status == 0, run.ended.err
    assert (run.info["losses"], run.info["problems"]) == ([], [])
    check_packets(run)
    check_threads(run)
    assert list_leftovers(run) == []


def test_a_program_whose_root_has_no_place_for_its_log_is_named(nullgpu: NullGpu, tmp_path: Path) -> None:
    """Its doorbells are recorded all the same."""
    run = capture_run(nullgpu, tmp_path, ("/rig/programs/t1", "200", "3"), shown=False)
    assert run.ended.status == 0, run.ended.err
    assert any("cannot write its HIP log into the capture: in its root" in told for told in run.info["problems"])
    # HIP falls back to its working folder, here that of the rig's run; nothing is taken from there.
    assert any("/clr_logs_" in told for told in run.info["problems"])
    assert run.table("launches").is_empty()
    stores = run.table("events").filter(pl.col("layer").cast(pl.String) == "doorbell")
    packets = run.truth.filter(pl.col("type").is_in(["dispatch", "barrier"]))
    assert stores.height >= packets.height > 0


def test_stdout_and_status_are_the_workloads(nullgpu: NullGpu, tmp_path: Path) -> None:
    run = capture_run(nullgpu, tmp_path, ("bash", "-c", "echo to stdout; echo to stderr >&2; exit 7"))
    assert run.ended.status == 7
    assert run.ended.out == "to stdout\n"
    assert "to stderr\n" in run.ended.err
    assert "no HIP log appeared" in run.ended.err
    assert run.info["exit_status"] == 7
