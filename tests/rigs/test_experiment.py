"""The experiment in a container of a real Docker Engine: real HIP on a GPU that does not exist."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from container_rig import ContainerRig
from rig import REPO, run_verb

from tracecorr.store import Capture

pytestmark = pytest.mark.docker


def test_preempt_in_a_container(docker: ContainerRig, tmp_path: Path) -> None:
    truth, programs = tmp_path / "truth", tmp_path / "workloads"
    truth.mkdir()
    programs.mkdir()
    for name in ("hip_fill.py", "stamps.py"):
        (truth / name).write_text((REPO / "samples" / "workloads" / name).read_text())
    docker.start("preempt", truth, "sleep", "3600")
    # The model makes a file for the memory of its GPU: of two that begin at once one would find that of the other.
    high, low = (
        f"HSA_MODEL_MEMFILE=/dev/shm/{role} python3 /truth/hip_fill.py --iterations 30 --size 64 --priority {priority}"
        for role, priority in (("high", -1), ("low", 1))
    )
    ended = run_verb(
        "experiment", "preempt", "--container", "preempt", "--high", high, "--low", low,
        "--rounds", "1", "--json", "-o", "x.experiment", cwd=tmp_path, env=docker.environment,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    report = json.loads(ended.out)
    sections = report["sections"]
    told = Counter[tuple[str, str]]()
    for row in sections["phases"]:
        told[_started(row["phase"]), row["role"]] += row["launches"]
    assert told["together", "high"] == told["together", "low"] == told["sequential", "low"] == 30
    asked = {(_started(r["phase"]), r["priority_hip"]) for r in sections["priorities"]}
    assert {("high_alone", -1), ("low_alone", 1), ("together", -1), ("together", 1)} <= asked
    overhead = {(_started(r["phase"]), r["role"]) for r in sections["overhead"]}
    assert overhead >= {("together", "high"), ("together", "low")}
    assert all(r["ratio"] > 0 for r in sections["overhead"] if "alone" in r["phase"])
    assert {r["what"] for r in sections["moves"]} == {"evictions", "suspends", "resumes and restores"}
    load = [r for r in sections["utilisation"] if any(_started(p) == "together" for p in r["phase"].split(", "))]
    # A model has no sysfs of a card: its load is not known, and that is said.
    assert {r["figure"] for r in load if r["known"].startswith("UNKNOWN")} >= {"GPU busy", "memory busy"}
    assert any(r["figure"] == "ring filled" and r["known"] == "recorded" and r["max"] > 0 for r in load)
    info = Capture.open(tmp_path / "x.experiment" / "high_alone.tracecorr").info
    assert info["overhead_ratio"] == max(info["overhead_ratios"].values()) > 0
    assert docker.call("exec", "preempt", "ls", "-A", "/tmp") == ""


def _started(phase: str) -> str:
    """Return the phase without what became of it: whether both are at work at once is up to the machine."""
    return "together" if phase == "apart" else phase


@pytest.mark.parametrize("heeds", [True, False])
def test_ctrl_c_ends_the_workloads_inside_the_container(docker: ContainerRig, tmp_path: Path, heeds: bool) -> None:
    """The engine's client goes at once, and tells nobody in the container."""
    (tmp_path / "truth").mkdir()
    docker.start(name := f"interrupted-{heeds}", tmp_path / "truth", "sleep", "3600")
    command = f"{'' if heeds else 'trap : INT; '}touch /truth/up; sleep 777; sleep 777"
    words = [sys.executable, "-m", "tracecorr", "experiment", "preempt", "--no-capture", "--container", name]
    words += ["--high", command, "--low", "true", "-o", str(tmp_path / "x.experiment")]
    environment = {**os.environ, **docker.environment, "PYTHONPATH": str(REPO)}
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None and not (tmp_path / "truth/up").exists():
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    assert "sleep 777" not in docker.call("top", name)
    assert docker.call("exec", name, "ls", "-A", "/tmp") == ""
