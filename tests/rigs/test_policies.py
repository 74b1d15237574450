"""Policies on the null GPU (model: time slices, no CUs, free switch): tracecorr's GPU times hold its slices."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rig import REPO, NullGpu, read_truth, run_verb

from tracecorr.store import Capture

# Some thirty runs of two programs, some of them captured, for all tests together.
pytestmark = pytest.mark.timeout(1200)

_MODEL = "model: time slices, no CUs, free switch"
_COLUMNS = ["pid", "gpu", "ring", "index", "priority", "start", "end", "last"]
# The GPU's clock of the model ticks each 10 ns, and its offset is known to about a microsecond.
_ERROR_NS = 5_000


@dataclass(frozen=True)
class Tried:
    """What an experiment left: its folder, what the model's GPU did with each packet, and its report as JSON."""

    folder: Path
    packets: pl.DataFrame
    told: Any


def _read_slices(path: Path) -> pl.DataFrame:
    """Return one row per packet that the model ran: from its first slice to the end of its last."""
    rows = pl.read_csv(path, has_header=False, new_columns=_COLUMNS, schema_overrides={"ring": pl.String})
    ring = pl.col("ring").str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64)
    return rows.with_columns(ring).group_by("pid", "ring", "index").agg(
        first_slice=pl.col("start").min(), last_slice=pl.col("end").max(), priority=pl.col("priority").first(),
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
    """Each packet's time on the GPU is the model's: it holds all slices of the packet, and nothing of another one.

    The model reads the GPU's clock just before it writes `true_start` and `true_end` down, and after the last slice.
    """
    columns = ("gpu_start_ns", "gpu_end_ns", "true_start", "true_end", "first_slice", "last_slice")
    assert sum(found.select(columns).null_count().row(0)) == 0
    rows = found.sort("pid", "ring", "index").with_columns(before=pl.col("true_end").shift(1).over("pid", "ring"))
    start, end, error = pl.col("gpu_start_ns"), pl.col("gpu_end_ns"), _ERROR_NS
    wrong = rows.filter(
        (start > pl.col("true_start") + error) | (start < pl.col("before") - error)
        | (start > pl.col("first_slice") + error)
        | (end > pl.col("true_end") + error) | (end < pl.col("last_slice") - error)
    )  # fmt: skip
    assert wrong.is_empty(), wrong.rows()


@pytest.fixture(scope="module")
def tried(nullgpu: NullGpu, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """Try the policies once, for all tests: kernels of 5 ms, slices of 1 ms."""
    work = tmp_path_factory.mktemp("policies")
    (programs := work / "programs").mkdir()
    for program in ("tests/rigs/timed_kernels.py", "samples/workloads/stamps.py"):
        shutil.copy(REPO / program, programs)
    environment = nullgpu.environment(work) | {
        "NULLGPU_BIND": f"{programs}:/workloads {work}:{work}",
        "NULLGPU_KERNEL_NS": "5000000", "NULLGPU_SHARE": str(work / "share"), "NULLGPU_QUANTUM_NS": "1000000",
        "NULLGPU_SLICES": str(work / "slices.csv"),
        "HSA_MODEL_TOPOLOGY": str(nullgpu.cache / "topo-gfx942-1"),
    }  # fmt: skip
    kernels = " ".join(nullgpu.command("python3", "/workloads/timed_kernels.py", "--iterations"))
    ended = run_verb(
        "experiment", "preempt", "--policy", "priority,cumask,slice,event,suspend", "--rounds", "1", "--json",
        "-o", "x.experiment",
        "--high", f"{kernels} 6 --pause-ms 20", "--low", f"{kernels} 24", cwd=work, env=environment,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    truth = read_truth(work / "truth.csv").select("pid", "ring", "index", true_start="start_ns", true_end="end_ns")
    packets = _read_slices(work / "slices.csv").join(truth, on=["pid", "ring", "index"], how="left")
    return Tried(work / "x.experiment", packets, json.loads(ended.out))


@pytest.mark.parametrize("policy", ["none", "priority", "slice", "event"])
def test_gpu_times_are_those_of_the_slices(tried: Tried, policy: str) -> None:
    packets = _read_packets(tried.folder / f"{'together' if policy == 'none' else f'{policy}-together'}.tracecorr")
    found = packets.join(tried.packets, on=["pid", "ring", "index"], how="left")
    assert found.height == 30
    check_intervals(found)
    assert found["slices"].sum() > 2 * found.height  # 5 ms in slices of 1 ms
    # HIP's priorities -1 and 1 reach the queues as 11 and 0 (libhsakmt); without them both are 7.
    counts = dict(found.group_by("priority").len().rows())
    assert counts == ({11: 6, 0: 24} if policy == "priority" else {7: 30})


def test_each_policy_is_told_with_what_it_did(tried: Tried) -> None:
    sections = tried.told["sections"]
    assert [(row["phase"], row["stamps"], row["with_launch"]) for row in sections["stamps"]] == [
        ("high_alone", 6, 6), ("low_alone", 24, 24),
    ]  # fmt: skip
    policies = ["none", "priority", "cumask", "slice", "event"]
    assert [row["policy"] for row in sections["policies"]] == policies
    holds = {row["policy"]: row["holds"] for row in sections["control"]}
    assert all((holds[policy] >= 6) == (policy in ("slice", "event")) for policy in policies)
    told = {row["policy"]: row["verdict"] for row in sections["verdicts"]}
    # Every number of the model says that it is one's; what may kill other processes is not tried unasked.
    assert all(told[policy].endswith(f"; {_MODEL}") for policy in policies)
    assert tried.told["verdict"]["reason"].endswith(f"; {_MODEL}")
    assert "--allow-gpu-reset" in told["suspend"]
    # The rig's null device refuses every request: that the runtime heeds the mask is shown, and no more.
    assert re.search(r"the mask of queues (\d+) times \(SET_CU_MASK\), the driver refused \1;", told["cumask"])


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
    assert {(row["reached"], row["measured_on"]) for row in rows} == {("an argument of the program", _MODEL)}
    compared = tell("ab", "--json", "-o", "ab", "--a", " ".join(plain), "--b", " ".join(plain))
    assert compared["findings"][0] == _MODEL and compared["sections"]
    steps = {row["step"]: row for row in tell("stage1", "--json", "-o", "stage1", "--", *plain)}
    ticks = {step: row["tick"] for step, row in steps.items()}
    # The model answers in place of a driver: doorbells and logs are real, queues are refused, HQDs do not exist.
    assert ticks["log and trace are recorded"] == ticks["doorbells are seen, one for each packet"] == "[x]"
    assert ticks["creation of each queue is complete on both sides"] == "[!]"
    assert ticks["it is a GPU"] == "[!]" and steps["it is a GPU"]["evidence"] == _MODEL
    assert ticks["HQD state is seen"] == "[ ]" and "--hqd-interval" in steps["HQD state is seen"]["to_close"]
