"""Captures in containers of real engines: own pid namespace, tables equal what the model retired."""

from __future__ import annotations

import json
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from container_rig import ContainerRig, two_engines
from rig import Ended, Run, check_packets, check_threads, read_truth, run_in_terminal, run_verb

from tracecorr.capture.workload.processes import has_open
from tracecorr.store import Capture


def capture(engine: ContainerRig, place: Path, *words: str) -> Run:
    """Capture with this engine; the truth lies in `place/truth`."""
    ended = run_verb("capture", "-o", "x", *words, cwd=place, env=engine.environment)
    assert (place / "x.tracecorr").is_dir(), ended.err
    return Run(ended, Capture.open(place / "x.tracecorr"), read_truth(place / "truth/truth.csv"))


def make_truth(place: Path) -> Path:
    """Return the folder of the truth, which the container's user can write to."""
    truth = place / "truth"
    truth.mkdir()
    truth.chmod(0o777)
    return truth


def log_pid(run: Run) -> int:
    """Return the number of the only process that has a log, as its log prints it."""
    (found,) = run.table("processes")["log_pid"].drop_nulls()
    return int(found)


def tell_when_followed(sign: Path, pid: int | None = None) -> bool:
    """Make the file `sign` once a process is recorded: `pid`, or one that opened /dev/kfd; return whether that came.

    It is when the kernel follows it and tracecorr waits for what comes next.
    """
    for _ in range(1200):
        for instance in Path("/sys/kernel/tracing/instances").glob("tracecorr_*"):
            with suppress(OSError):  # its instance may be on its way out
                followed = [int(word) for word in (instance / "set_event_pid").read_text().split() if word.isdigit()]
                if any(has_open(found, "/dev/kfd") if pid is None else found == pid for found in followed) and waits(
                    int(instance.name.split("_")[1])
                ):
                    sign.touch()
                    return True
        time.sleep(0.1)
    return False


def waits(pid: int) -> bool:
    """Tell whether the main thread of a capture waits for events (poll, ppoll): all it was at is done."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("7", "271")


def process_of_truth(run: Run) -> dict[str, Any]:
    """Return the process that used the model, whose number in its namespace the model wrote down."""
    (inside,) = run.truth["pid"].unique()
    (found,) = [p for p in run.info["processes"] if p["namespace_pid"] == inside]
    return dict(found)


def check_namespace(run: Run, log_pid: int | None = None) -> None:
    """The log's pid is the container's, the trace's the host's, and both are one process."""
    (process,) = run.table("processes").filter(pl.col("log_pid").is_not_null()).to_dicts()
    assert process["pid"] != process["log_pid"]
    assert log_pid is None or process["log_pid"] == log_pid
    pairs = {(seen["pid"], seen["namespace_pid"]) for seen in run.info["processes"]}
    assert (process["pid"], process["log_pid"]) in pairs


def test_a_new_container_is_captured_from_its_first_call_and_removed(engine: ContainerRig, place: Path) -> None:
    options = [f"--run-option={option}" for option in engine.options(make_truth(place))]
    run = capture(engine, place, "--image", engine.image, *options, "--", "/rig/programs/t1", "20", "3")
    assert run.ended.status == 0, run.ended.err
    # Its libraries are known before its gate opens.
    assert {entry["kind"] for entry in run.info["plan"]["late"] if entry["before_start"]} >= {"hsa"}
    check_packets(run)
    check_threads(run)
    check_namespace(run, log_pid=1)
    assert run.info["where"] == f"image {engine.image}"
    assert engine.has_removed_all()
    owner = engine.user.uid if engine.user else 0
    assert {path.stat().st_uid for path in (place / "x.tracecorr").rglob("*")} == {owner}


def test_in_a_running_container_a_command_is_captured_with_its_log(engine: ContainerRig, place: Path) -> None:
    engine.start("exec", make_truth(place), "sleep", "3600")
    run = capture(engine, place, "--container", "exec", "--", "/rig/programs/mt", "150")
    assert run.ended.status == 0, run.ended.err
    # The log was compressed where it landed, inside the container, and its end came along.
    assert [path.name for path in (place / "x.tracecorr/raw/amd_log").glob("*")] == [f"hip_{log_pid(run)}.zst"]
    assert (run.info["losses"], run.info["problems"]) == ([], [])
    check_packets(run)
    check_threads(run)
    check_namespace(run)
    assert engine.call("exec", "exec", "ls", "-A", "/tmp") == ""


@two_engines
def test_a_status_comes_out_of_the_container(engine: ContainerRig, place: Path) -> None:
    engine.start("status", place, "sleep", "3600")
    ended = run_verb("capture", "--container", "status", "--no-correlate", "--", "sh", "-c", "echo hi; exit 9",
                     cwd=place, env=engine.environment)  # fmt: skip
    assert (ended.status, ended.out) == (9, "hi\n")


@two_engines
def test_kill_ends_a_container_whose_first_process_has_no_handler(engine: ContainerRig, place: Path) -> None:
    ended = run_verb(
        "capture", "--quiet", "--no-correlate", "--image", engine.image, "--duration", "0.5", "--kill", "--",
        "sleep", "infinity", cwd=place, env=engine.environment,
    )  # fmt: skip
    assert ended.status == 128 + signal.SIGKILL, ended.err
    assert "; the workload gets SIGTERM (--kill)" in ended.err and "it gets SIGKILL" in ended.err
    assert engine.has_removed_all()


@two_engines
@pytest.mark.parametrize("kind", ["exec", "run"])
def test_a_terminal_reaches_the_container(engine: ContainerRig, place: Path, kind: str) -> None:
    truth = make_truth(place)
    words = ["--image", engine.image, *(f"--run-option={option}" for option in engine.options(truth))]
    if kind == "exec":
        engine.start("tty", truth, "sleep", "3600")
        words = ["--container", "tty"]
    command = ["capture", "-o", "x", "--quiet", *words, "--", "bash", "-c", "tty; /rig/programs/t1 5 1; exit 7"]
    status, out = run_in_terminal(command, place, engine.environment)
    assert status == 7, out
    assert "/dev/pts/0" in out
    run = Run(Ended(status, out, ""), Capture.open(place / "x.tracecorr"), read_truth(truth / "truth.csv"))
    check_packets(run)


def test_a_daemon_that_was_there_before_is_captured(engine: ContainerRig, place: Path) -> None:
    """The worker descends from the container's first process and not from ours; it opens /dev/kfd and uses the GPU."""
    truth = make_truth(place)
    # The last `:` keeps bash from becoming `touch`, whose name the capture would then read.
    worker = (
        "until [ -e /truth/go ]; do sleep 0.1; done; exec 3<>/dev/kfd; "
        "until [ -e /truth/followed ]; do sleep 0.1 3>&-; done; /rig/programs/t1 20 3"
    )
    engine.start("daemon", truth, "bash", "-c", f"({worker}; touch /truth/done; :) & wait; sleep 600")
    wait = "touch /truth/go; until [ -e /truth/done ]; do sleep 0.2; done"
    with ThreadPoolExecutor() as pool:
        followed = pool.submit(tell_when_followed, truth / "followed")
        run = capture(engine, place, "--container", "daemon", "--", "bash", "-c", wait)
    assert followed.result()
    assert run.ended.status == 0, run.ended.err
    processes, plan = run.info["processes"], run.info["plan"]
    opened = [p for p in processes if p["how"].startswith("opened /dev/kfd")]
    assert [p["comm"] for p in opened] == ["bash"], processes
    child = process_of_truth(run)
    # It started without the log; what the kernel saw of it is there.
    stores = run.table("events").filter(pl.col("layer").cast(pl.String) == "doorbell", pl.col("pid") == child["pid"])
    packets = run.truth.filter(pl.col("type").is_in(["dispatch", "barrier"]))
    assert stores.height >= packets.height > 0, (plan["late"], run.info["losses"], run.info["problems"])


def test_a_running_process_of_a_container_is_attached_to(engine: ContainerRig, place: Path) -> None:
    """By its number on the host: its library is found through its root, its children are followed."""
    truth = make_truth(place)
    script = "until [ -e /truth/followed ]; do sleep 0.1; done; /rig/programs/t1 20 3; :"
    engine.start("attach", truth, "bash", "-c", script)
    pid = engine.call("inspect", "--format", "{{.State.Pid}}", "attach")
    with ThreadPoolExecutor() as pool:
        followed = pool.submit(tell_when_followed, truth / "followed", int(pid))
        run = capture(engine, place, "--pid", pid)
    assert followed.result()
    assert (run.ended.status, run.info["end_reason"]) == (0, "the workload ended"), run.ended.err
    (first,) = [p for p in run.info["processes"] if p["how"] == "attached"]
    assert (first["pid"], first["namespace_pid"]) == (int(pid), 1)
    child = process_of_truth(run)
    # Its library was known before, through the root of the container.
    places = [p["definition"].split(":")[0] for p in run.info["plan"]["probes"] if p["name"] == "doorbell"]
    assert [path.startswith(f"/proc/{pid}/root/") for path in places] == [True]
    stores = run.table("events").filter(pl.col("layer").cast(pl.String) == "doorbell", pl.col("pid") == child["pid"])
    packets = run.truth.filter(pl.col("type").is_in(["dispatch", "barrier"]))
    assert stores.height >= packets.height > 0, (run.info["losses"], run.info["problems"])
    ended = run_verb("capture", "-o", "y", "--pid", pid, cwd=place, env=engine.environment)
    assert (ended.status, f"there is no process {pid}, or it has ended" in ended.err) == (2, True)


@two_engines
def test_what_stands_in_a_container_is_told(engine: ContainerRig, place: Path) -> None:
    """Of its two processes the one that uses the GPU is looked at, by its number on the host."""
    truth = make_truth(place)
    shutil.copy(Path(__file__).with_name("standing.py"), truth)
    script = "NULLGPU_STALL=2 python3 /truth/standing.py kernel 5 & wait"
    engine.start("stands", truth, "bash", "-c", script)
    until = time.monotonic() + 180
    while "ready" not in engine.call("logs", "stands") and time.monotonic() < until:
        time.sleep(0.5)
    ended = run_verb("hang", "--container", "stands", "--json", cwd=place, env=engine.environment)
    (process,) = json.loads(ended.out)["processes"]
    assert (ended.status, process["name"]) == (5, "python3"), ended.err
    assert process["pid"] != int(engine.call("inspect", "--format", "{{.State.Pid}}", "stands"))
    assert [judgment["cause"] for judgment in process["judgments"]] == ["kernel"]
    assert "vadd(" in process["judgments"][0]["means"]


@two_engines
def test_an_unknown_container_changes_nothing(engine: ContainerRig, place: Path) -> None:
    ended = run_verb("capture", "--container", "nobody-knows", "--", "true", cwd=place, env=engine.environment)
    assert ended.status == 2
    assert "nobody-knows" in ended.err
    assert "next step: " in ended.err
    assert list(place.iterdir()) == []
