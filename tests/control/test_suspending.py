"""Queues are suspended as a debugger does it: real ptrace, SYNTHETIC answers of the driver; `tests/vm` has drivers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from held_program import PROGRESS
from suspending_steps import (
    DISABLE,
    ENABLE,
    RESUME,
    SNAPSHOT,
    STATES,
    SUSPEND,
    Fake,
    Low,
    control,
    in_own_process,
    run_low,
    wait_until,
)

from tracecorr.control.controller import HOLD, RELEASE, Action, HoldError
from tracecorr.control.suspending import SuspendedQueues, User, list_users
from tracecorr.experiment.policies import PolicyOptions, find_refusal

HOLDING, RELEASING = Action(HOLD, "low"), Action(RELEASE, "low")


def test_the_whole_sequence() -> None:
    """Killed in each state, with signals on the way, and with a low one that ends."""
    script = Path(__file__).with_name("suspending_steps.py")
    paths = {"PYTHONPATH": str(script.parents[2])}
    done = subprocess.run(
        [sys.executable, script, "fake"], env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    told = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert done.returncode == 0 and told[-1] == "done", done.stdout + done.stderr
    assert len(told) == len(STATES) + 2 + 3 + 1 and all(line.startswith("ok ") for line in told[:-1])


def show(processes: Path, pid: int, queues: tuple[int, ...] = (), gpu: int = 7, vram: int = 0) -> None:
    """Write what sysfs shows of a process."""
    (processes / str(pid)).mkdir(parents=True, exist_ok=True)
    (processes / f"{pid}/vram_{gpu}").write_text(f"{vram}\n")
    for queue in queues:
        (folder := processes / f"{pid}/queues/{queue}").mkdir(parents=True)
        (folder / "gpuid").write_text(f"{gpu}\n")


def test_who_uses_which_gpu(tmp_path: Path) -> None:
    show(tmp_path, 10, (0, 3), gpu=7)
    show(tmp_path, 10, (), gpu=8, vram=4096)
    show(tmp_path, 11)
    assert list_users(tmp_path) == {10: User(frozenset({0, 3}), frozenset({7, 8})), 11: User(frozenset(), frozenset())}


@pytest.fixture
def low(tmp_path: Path) -> Iterator[Low]:
    with run_low(tmp_path, "plain") as one:
        yield one


def ask(low: Low, processes: Path, fake: Fake) -> SuspendedQueues:
    return control(low, lambda: fake, processes)


def test_one_without_queues_is_left_alone_until_it_has_some(low: Low, tmp_path: Path) -> None:
    """A runtime that starts under a debugger waits for it; new queues are suspended, too."""

    def work() -> None:
        show(tmp_path / "proc", low.pid)
        one = ask(low, tmp_path / "proc", fake := Fake())
        one.apply(HOLDING)
        assert fake.asked == []
        show(tmp_path / "proc", low.pid, (0,))
        wait_until(lambda: one.tend() or fake.asked, "it is seen")
        assert fake.asked == [ENABLE, SNAPSHOT, SUSPEND]
        show(tmp_path / "proc", low.pid, (1,))
        wait_until(lambda: one.tend() or len(fake.asked) > 3, "the second queue is seen")
        one.apply(RELEASING)
        one.close()
        assert fake.asked == [ENABLE, SNAPSHOT, SUSPEND, SNAPSHOT, SUSPEND, RESUME, RESUME, DISABLE]
        assert one.reached == 4  # two at each time, by the driver that plays

    in_own_process(work)
    low.check_goes_on()


# What a third process has on the GPU (queues, bytes), state of the runtime, errno of ENABLE; words of the refusal, and
# what the driver was asked until then.
REFUSALS: dict[str, tuple[tuple[tuple[int, ...], int] | None, int, int, str, list[int]]] = {
    "a third process has queues on the GPU": (((0,), 0), 1, 0, "process 1 uses the GPU", []),
    "a third process has memory there": (((), 1), 1, 0, "process 1 uses the GPU", []),
    "its runtime is not enabled": (None, 0, 0, "RUNTIME_ENABLE", [ENABLE, RESUME, DISABLE]),
    "the GPU has another debugger": (None, 2, 0, "another process has the debugger", [ENABLE, RESUME, DISABLE]),
    "the driver knows no debuggers": (None, 1, errno.ENOTTY, "older than 1.13", [ENABLE]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_in_words(low: Low, tmp_path: Path, case: str) -> None:
    third, state, refused, words, asked = REFUSALS[case]

    def work() -> None:
        show(tmp_path / "proc", low.pid, (0,))
        if third is not None:
            show(tmp_path / "proc", 1, third[0], vram=third[1])
        fake = Fake()
        fake.state, fake.refused = state, refused
        one = ask(low, tmp_path / "proc", fake)
        with pytest.raises(HoldError, match=words):
            one.apply(HOLDING)
        one.apply(RELEASING)
        one.close()
        assert fake.asked == asked

    in_own_process(work)
    before = low.words[PROGRESS]
    wait_until(lambda: low.words[PROGRESS] > before, "it goes on")


def test_a_third_process_on_another_gpu_does_not_matter(low: Low, tmp_path: Path) -> None:
    def work() -> None:
        show(tmp_path / "proc", low.pid, (0,))
        show(tmp_path / "proc", 1, (0,), gpu=8)
        one = ask(low, tmp_path / "proc", fake := Fake())
        one.apply(HOLDING)
        one.close()
        assert fake.asked == [ENABLE, SNAPSHOT, SUSPEND, RESUME, DISABLE]

    in_own_process(work)


def test_the_experiment_asks_for_the_risk_and_tries_the_driver() -> None:
    assert "--allow-gpu-reset" in find_refusal("suspend", PolicyOptions(), "python b.py", None)
    allowed = PolicyOptions(allow_reset=True)
    assert "distributed" in find_refusal("suspend", allowed, "torchrun b.py", None)
    if not Path("/dev/kfd").exists():
        assert "there is no /dev/kfd here" in find_refusal("suspend", allowed, "python b.py", None)
