"""Policies on the null GPU (model: time slices, no CUs, free switch): tracecorr's GPU times hold its slices."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rig import REPO, NullGpu, run_verb

from tracecorr.store import Capture

_COLUMNS = ["pid", "gpu", "ring", "index", "priority", "start", "end", "last"]
# The GPU's clock of the model ticks each 10 ns, and its offset is known to about a microsecond.
_ERROR_NS = 5_000


def _read_slices(path: Path) -> pl.DataFrame:
    """Return one row per packet that the model ran: from its first slice to the end of its last."""
    rows = pl.read_csv(path, has_header=False, new_columns=_COLUMNS, schema_overrides={"ring": pl.String})
    ring = pl.col("ring").str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64)
    return rows.with_columns(ring).group_by("pid", "ring", "index").agg(
        true_start=pl.col("start").min(), true_end=pl.col("end").max(), priority=pl.col("priority").first(),
        slices=pl.len(),
    )  # fmt: skip


def _read_packets(path: Path) -> pl.DataFrame:
    capture = Capture.open(path)
    queues = capture.table("queues").select("queue", ring="hwq")
    processes = capture.table("processes").select("process", pid=pl.col("log_pid").cast(pl.Int64))
    launches = capture.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch")
    found = launches.join(queues, on="queue", how="left").join(processes, on="process", how="left")
    return found.select("pid", "ring", "gpu_start_ns", "gpu_end_ns", index="packet_index").collect()


def check_intervals(found: pl.DataFrame) -> None:
    """Each packet's time on the GPU holds all its slices, and none of another packet of its ring.

    It begins when the model takes the packet, which then waits for the GPU, and ends with its last slice.
    """
    assert found["gpu_start_ns"].null_count() == found["gpu_end_ns"].null_count() == 0
    rows = found.sort("pid", "ring", "index").with_columns(
        before=pl.col("true_end").shift(1).over("pid", "ring"), after=pl.col("true_start").shift(-1).over("pid", "ring")
    )  # fmt: skip
    start, end, error = pl.col("gpu_start_ns"), pl.col("gpu_end_ns"), _ERROR_NS
    wrong = rows.filter(
        (start > pl.col("true_start") + error) | (end < pl.col("true_end") - error)
        | (start < pl.col("before") - error) | (end > pl.col("after") + error)
    )  # fmt: skip
    assert wrong.is_empty(), wrong.rows()


@pytest.mark.parametrize("policy", ["none", "priority", "slice", "event"])
def test_gpu_times_are_those_of_the_slices(nullgpu: NullGpu, tmp_path: Path, policy: str) -> None:
    share, slices, programs = tmp_path / "share", tmp_path / "slices.csv", tmp_path / "programs"
    programs.mkdir()
    for program in ("tests/rigs/timed_kernels.py", "samples/workloads/stamps.py"):
        shutil.copy(REPO / program, programs)
    environment = nullgpu.environment(tmp_path) | {
        "NULLGPU_BIND": f"{programs}:/workloads {tmp_path}:{tmp_path}",
        "NULLGPU_KERNEL_NS": "5000000", "NULLGPU_SHARE": str(share), "NULLGPU_QUANTUM_NS": "1000000",
        "NULLGPU_SLICES": str(slices), "NULLGPU_TRUTH": "",
    }  # fmt: skip
    kernels = " ".join(nullgpu.command("python3", "/workloads/timed_kernels.py", "--iterations"))
    ended = run_verb(
        "experiment", "preempt", "--policy", policy, "--rounds", "1", "--json", "-o", "x.experiment",
        "--high", f"{kernels} 6 --pause-ms 20", "--low", f"{kernels} 24", cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    true, name = _read_slices(slices), "together" if policy == "none" else f"{policy}-together"
    packets = _read_packets(tmp_path / "x.experiment" / f"{name}.tracecorr")
    found = packets.join(true, on=["pid", "ring", "index"], how="left")
    assert found.height == 30 and found["true_start"].null_count() == 0
    check_intervals(found)
    assert found["slices"].sum() > 2 * found.height  # 5 ms in slices of 1 ms
    # HIP's priorities -1 and 1 reach the queues as 11 and 0 (libhsakmt); without them both are 7.
    counts = dict(found.group_by("priority").len().rows())
    assert counts == ({11: 6, 0: 24} if policy == "priority" else {7: 30})
    told = json.loads(ended.out)["sections"]["stamps"]
    assert [(row["phase"], row["stamps"], row["with_launch"]) for row in told] == [
        ("high_alone", 6, 6), ("low_alone", 24, 24),
    ]  # fmt: skip
    if policy != "none":
        sections = json.loads(ended.out)["sections"]
        assert [row["policy"] for row in sections["policies"]] == ["none", policy]
        (control,) = [row for row in sections["control"] if row["policy"] == policy]
        assert (control["holds"] >= 6) == (policy != "priority")


def test_settings_two_programs_and_the_checklist(nullgpu: NullGpu, tmp_path: Path) -> None:
    environment, run = nullgpu.environment(tmp_path), nullgpu.command("/rig/programs/t1", "{STREAMS}", "3")
    del environment["NULLGPU_TRUTH"]

    def tell(*words: str) -> Any:
        ended = run_verb("experiment", *words, cwd=tmp_path, env=environment)
        assert ended.status == 0, ended.err
        return json.loads(ended.out)

    plain = nullgpu.command("/rig/programs/t1", "20", "3")
    rows = tell("sweep", "--json", "-o", "queues", "--set", "GPU_MAX_HW_QUEUES=1,4", "--", *plain)
    queues = {row["value"]: row["queues"] for row in rows}
    assert queues["1"] < queues["4"] and {row["reached"] for row in rows} == {"set for the process"}
    (stage,) = [row for row in rows if row["value"] == "4" and row["stage"] == "call to packet"]
    assert stage["p50_least_ns"] <= stage["p50_ns"] <= stage["p50_most_ns"] and stage["launches"] >= 40
    rows = tell("sweep", "--json", "-o", "counts", "--set", "STREAMS=5,9", "--", *run)
    assert {row["reached"] for row in rows} == {"an argument of the program"}
    sections = tell("ab", "--json", "-o", "ab", "--a", " ".join(plain), "--b", " ".join(plain))
    assert sections
    steps = {row["step"]: row for row in tell("stage1", "--json", "-o", "stage1", "--", *plain)}
    ticks = {step: row["tick"] for step, row in steps.items()}
    # The model answers in place of a driver: doorbells and logs are real, queues are refused, HQDs do not exist.
    assert ticks["log and trace are recorded"] == ticks["doorbells are seen, one for each packet"] == "[x]"
    assert ticks["creation of each queue is complete on both sides"] == "[!]"
    assert ticks["HQD state is seen"] == "[ ]" and "--hqd-interval" in steps["HQD state is seen"]["to_close"]
