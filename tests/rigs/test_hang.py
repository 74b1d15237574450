"""`tracecorr hang` on real HIP programs that stand still in a known way, and on those that only seem to."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rig import NullGpu, run_verb

from tracecorr.analyze.slow_calls import summarize_lock_waits
from tracecorr.store import Capture

pytestmark = [pytest.mark.machine, pytest.mark.nullgpu]
_FOLDER = Path(__file__).parent
_START_SECONDS = 180  # on a busy machine


@contextmanager
def run_scene(rig: NullGpu, words: tuple[str, ...], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run standing.py until it is ready; its number stays that of the rig's script."""
    program = subprocess.Popen(
        rig.command("python3", "standing.py", *words), cwd=_FOLDER, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "NULLGPU_CACHE": str(rig.cache), "NULLGPU_KERNEL_NS": "30000", **env},
    )  # fmt: skip
    try:
        assert program.stdout is not None
        # A program that does not come so far is looked at nevertheless, and its test fails.
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and program.poll() is None:
            if select.select([program.stdout], [], [], 1)[0] and program.stdout.readline() == "ready\n":
                break
        time.sleep(0.5)
        yield program
    finally:
        program.kill()
        program.wait()


def look(pid: int, *options: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    ended = run_verb("hang", "--pid", str(pid), "--json", *options, cwd=cwd)
    answer = json.loads(ended.out)
    assert ended.status == answer["status"], ended.err
    (process,) = answer["processes"]
    return ended.status, process


# Scene, variables, answers (cause and certainty; None = nothing hangs), what the chain names, exit status before
# --stall. The second answer is right where the machine was so slow that the scene was over when it was looked at.
_Answer = tuple[str, str] | None
SCENES: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[_Answer, ...], tuple[str, ...], int]] = {
    "stalled kernel": (("kernel", "5"), {"NULLGPU_STALL": "2"}, (("kernel", ""),), ("vadd(",), 5),
    "lost signal": (("kernel", "1"), {"NULLGPU_LOSE": "2"}, (("lost_completion", "one of"),), (" is 1",), 5),
    "wait behind its waiter": (
        ("behind",), {"NULLGPU_STALL": "0", "GPU_MAX_HW_QUEUES": "1"}, (("deadlock", "likely"),),
        ("waits for the value", "is behind", "a circular wait"), 5,
    ),
    "lock cycle": (("locks",), {}, (("deadlock", "proved"),), ("waits for the lock", "a circular wait"), 4),
    "stopped process": (("stopped",), {}, (("halted", "proved"),), ("SIGSTOP",), 4),
    # What only seems to stand.
    "long kernel": (("kernel", "2"), {"NULLGPU_KERNEL_NS": "60000000000"}, (("kernel", ""), None), ("vadd(",), 5),
    "persistent kernel": (("persistent",), {"NULLGPU_STALL": "0"}, (("kernel", ""),), ("vadd(",), 5),
    "graph of 4,096 packets": (("graph",), {"NULLGPU_KERNEL_NS": "20000000"}, (None,), (), 0),
    "value written by the host": (
        ("value",), {"NULLGPU_STALL": "0"}, (("value", "one of"), ("kernel", "")), ("no packet",), 5,
    ),
    "idle": (("idle",), {}, (None,), (), 0),
    "no interrupts": (
        ("kernel", "5"), {"NULLGPU_STALL": "2", "HSA_ENABLE_INTERRUPT": "0"}, (("kernel", ""),), ("vadd(",), 5,
    ),
}  # fmt: skip


def judge_scene_once(rig: NullGpu, name: str, folder: Path) -> str:
    """Return what is wrong with the answer about a scene; empty if nothing is."""
    words, env, answers, named, status = SCENES[name]
    with run_scene(rig, words, env) as program:
        found_status, process = look(program.pid, "--wait", "500ms", cwd=folder)
        is_there = program.poll() is None
    causes = [(j["cause"], j["certainty"]) for j in process["judgments"]]
    told = " ".join(line for j in process["judgments"] for line in j["seen"])
    expected = [[answer] if answer else [] for answer in answers]
    if causes == expected[0]:
        is_right = all(word in told for word in named) and found_status == status
    else:
        is_right = causes in expected and found_status == (5 if causes else 0)
    return "" if is_right and is_there else f"status {found_status}: {process}"


@pytest.mark.parametrize("name", SCENES)
def test_what_stands_gets_its_chain_and_what_moves_does_not(nullgpu: NullGpu, tmp_path: Path, name: str) -> None:
    assert judge_scene_once(nullgpu, name, tmp_path) == ""


def test_dumps_of_the_driver_are_read_where_something_stands(nullgpu: NullGpu, tmp_path: Path) -> None:
    """The model writes the MQDs of its queues; it has no registers, so nothing is said of them."""
    env = {"NULLGPU_STALL": "2", "NULLGPU_MQDS": str(tmp_path / "mqds"), "NULLGPU_BIND": f"{tmp_path}:{tmp_path}"}
    with run_scene(nullgpu, ("kernel", "5"), env) as program:
        words = ("hang", "--pid", str(program.pid), "--deep", "--debugfs", str(tmp_path), "--json")
        answer = json.loads(run_verb(*words, cwd=tmp_path).out)
        assert program.poll() is None
    (judgment,) = answer["processes"][0]["judgments"]
    assert (judgment["cause"], judgment["certainty"]) == ("kernel", "")
    (gap,) = answer["not_read"]
    assert gap.startswith(f"hqds: there is no {tmp_path}")


def test_threads_that_wait_for_a_lock_of_the_runtime_are_one_fact(nullgpu: NullGpu, tmp_path: Path) -> None:
    """HIP 7.2 holds a lock of the stream while it waits for the GPU (rocm-systems#11678); the mutex names its owner."""
    with run_scene(nullgpu, ("contend",), {"NULLGPU_KERNEL_NS": "60000000000"}) as program:
        _, process = look(program.pid, cwd=tmp_path)
    assert [(j["cause"], j["certainty"]) for j in process["judgments"]] == [("lock", "likely"), ("kernel", "")]
    waits, more = process["judgments"][0]["seen"]
    assert waits.endswith(f", which thread {program.pid} holds")
    assert more == "2 more threads wait for that lock"


def test_a_capture_names_who_let_threads_go_on(nullgpu: NullGpu, tmp_path: Path) -> None:
    (tmp_path / "standing.py").write_text((_FOLDER / "standing.py").read_text())
    env = {**nullgpu.environment(tmp_path), "NULLGPU_KERNEL_NS": "2000000000"}
    words = ("capture", "-o", "x", "--locks", "--", *nullgpu.command("python3", "standing.py", "contend"))
    ended = run_verb(*words, cwd=tmp_path, env=env)
    assert ended.status == 0, ended.err
    waits = summarize_lock_waits(Capture.open(tmp_path / "x.tracecorr").table)
    found = waits.filter((pl.col("call") == "hipMemcpyAsync") & (pl.col("waker_call") == "hipStreamSynchronize"))
    assert found["waits"].sum() > 0
    assert found["woken_by"].n_unique() == 1


def test_what_stood_for_long_stands(nullgpu: NullGpu, tmp_path: Path) -> None:
    with run_scene(nullgpu, ("kernel", "5"), {"NULLGPU_STALL": "2"}) as program:
        status, process = look(program.pid, "--watch", "--wait", "300ms", "--stall", "1500ms", "--save", cwd=tmp_path)
        assert status == 4
        assert process["judgments"][0]["stands"]
        (saved,) = tmp_path.glob("hang-*.json")
        assert json.loads(saved.read_text())["processes"][0]["pid"] == program.pid


def test_a_written_value_lets_its_waiter_go(nullgpu: NullGpu, tmp_path: Path) -> None:
    """The model runs no kernel, so the wait stands on; but the value is there, and nothing is waited for any more."""
    with run_scene(nullgpu, ("value",), {"NULLGPU_STALL": "0"}) as program:
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "written\n"
        _, process = look(program.pid, "--wait", "200ms", cwd=tmp_path)
    assert [j["cause"] for j in process["judgments"]] == ["kernel"]


def test_a_capture_saves_what_stands_and_ends_it_where_that_is_wanted(nullgpu: NullGpu, tmp_path: Path) -> None:
    (tmp_path / "standing.py").write_text((_FOLDER / "standing.py").read_text())
    command = nullgpu.command("python3", "standing.py", "kernel", "5")
    words = ("capture", "-o", "x", "--stall", "1", "--stall-kill", "--no-correlate", "--", *command)
    ended = run_verb(*words, cwd=tmp_path, env={**nullgpu.environment(tmp_path), "NULLGPU_STALL": "2"})
    assert ended.status == 128 + signal.SIGTERM, ended.err
    assert "(--stall-kill)" in ended.err
    assert "GPU" in ended.err
    (stall,) = json.loads((tmp_path / "x.tracecorr" / "capture.json").read_text())["stalls"]
    saved = json.loads((tmp_path / "x.tracecorr" / stall["file"]).read_text())
    assert [(j["cause"], j["stands"]) for j in saved["judgments"]] == [("kernel", True)]
    assert "vadd(" in saved["judgments"][0]["means"]
