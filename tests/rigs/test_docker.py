"""Captures in containers of a real Docker Engine: own pid namespace, tables equal what the model retired."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from docker_rig import IMAGE, DockerRig
from rig import Run, check_packets, check_threads, read_truth, run_verb

from tracecorr.store import Capture

pytestmark = pytest.mark.docker


def capture(docker: DockerRig, work: Path, *words: str) -> Run:
    """Capture with this engine; the truth lies in `work/truth`."""
    ended = run_verb("capture", "-o", "x", *words, cwd=work, env=docker.environment)
    assert (work / "x.tracecorr").is_dir(), ended.err
    return Run(ended, Capture.open(work / "x.tracecorr"), read_truth(work / "truth/truth.csv"))


def check_namespace(run: Run, log_pid: int | None = None) -> None:
    """The log's pid is the container's, the trace's the host's, and both are one process."""
    (process,) = run.table("processes").filter(pl.col("log_pid").is_not_null()).to_dicts()
    assert process["pid"] != process["log_pid"]
    assert log_pid is None or process["log_pid"] == log_pid
    pairs = {(seen["pid"], seen["namespace_pid"]) for seen in run.info["processes"]}
    assert (process["pid"], process["log_pid"]) in pairs


def test_docker_run(docker: DockerRig, tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    truth.mkdir()
    options = [f"--run-option={option}" for option in docker.options(truth)]
    run = capture(docker, tmp_path, "--image", IMAGE, *options, "--", "/rig/programs/t1", "20", "3")
    assert run.ended.status == 0, run.ended.err
    check_packets(run)
    check_threads(run)
    check_namespace(run, log_pid=1)
    assert run.info["where"] == f"image {IMAGE}"
    assert docker.call("ps", "--all", "--quiet") == ""


def test_docker_exec(docker: DockerRig, tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    truth.mkdir()
    docker.start("exec", truth, "sleep", "3600")
    run = capture(docker, tmp_path, "--container", "exec", "--", "/rig/programs/mt", "20")
    assert run.ended.status == 0, run.ended.err
    check_packets(run)
    check_threads(run)
    check_namespace(run)
    assert docker.call("exec", "exec", "ls", "-A", "/tmp") == ""


def test_a_status_comes_out_of_the_container(docker: DockerRig, tmp_path: Path) -> None:
    docker.start("status", tmp_path, "sleep", "3600")
    ended = run_verb("capture", "--container", "status", "--no-correlate", "--", "sh", "-c", "echo hi; exit 9",
                     cwd=tmp_path, env=docker.environment)  # fmt: skip
    assert (ended.status, ended.out) == (9, "hi\n")


def test_a_daemon_that_was_there_before_is_captured(docker: DockerRig, tmp_path: Path) -> None:
    """The worker descends from the container's first process and not from ours; it opens /dev/kfd."""
    truth = tmp_path / "truth"
    truth.mkdir()
    worker = "until [ -e /truth/go ]; do sleep 0.1; done; exec 3<>/dev/kfd; sleep 600 3>&-"
    docker.start("daemon", truth, "bash", "-c", f"({worker}) & wait")
    ended = run_verb("capture", "-o", "x", "--container", "daemon", "--no-correlate", "--",
                     "bash", "-c", "touch /truth/go; sleep 3", cwd=tmp_path, env=docker.environment)  # fmt: skip
    assert ended.status == 0, ended.err
    seen = Capture.open(tmp_path / "x.tracecorr").info["processes"]
    assert [p["comm"] for p in seen if p["how"].startswith("opened /dev/kfd")] == ["bash"]


def test_an_unknown_container_changes_nothing(docker: DockerRig, tmp_path: Path) -> None:
    ended = run_verb("capture", "--container", "nobody", "--", "true", cwd=tmp_path, env=docker.environment)
    assert ended.status in (2, 3)
    assert "nobody" in ended.err
    assert "next step: " in ended.err
    assert list(tmp_path.iterdir()) == []
