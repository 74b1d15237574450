"""Who is held when, from events alone; and how: by a word, by SIGSTOP, by a command of the user's."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tracecorr.control import BUSY, ENDED, HOLD, IDLE, RELEASE, TICK, Action, Controller, Event
from tracecorr.control.steering import Channel, CommandDecider, SharedWord, Steering, StopSignals
from tracecorr.model.errors import InputError

# Priorities, share of the low one, events (kind, name, time in ms) -> who is held after each.
CASES = {
    "held while the high one is busy": (
        {"a": 1, "b": 0}, 0, [(BUSY, "b", 0, ""), (BUSY, "a", 1, "b"), (TICK, "", 9, "b"), (IDLE, "a", 10, "")],
    ),
    "not held by one of its own priority": ({"a": 0, "b": 0}, 0, [(BUSY, "a", 0, ""), (TICK, "", 5, "")]),
    "by any that is higher": (
        {"a": 2, "b": 0, "c": 1}, 0,
        [(BUSY, "c", 0, "b"), (BUSY, "a", 1, "bc"), (IDLE, "c", 2, "bc"), (IDLE, "a", 3, "")],
    ),
    "released when the high one ends": ({"a": 1, "b": 0}, 0, [(BUSY, "a", 0, "b"), (ENDED, "a", 4, "")]),
    "the last fifth of each period of 10 ms is its own": (
        {"a": 1, "b": 0}, 0.2,
        [(BUSY, "a", 3, "b"), (TICK, "", 10, "b"), (TICK, "", 11, ""), (TICK, "", 13, "b"), (TICK, "", 21.5, ""),
         (IDLE, "a", 24, ""), (BUSY, "a", 30, "b"), (TICK, "", 37, "b"), (TICK, "", 38, "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_is_held(case: str) -> None:
    priorities, share, steps = CASES[case]
    controller, held = Controller(), set[str]()
    for name, priority in priorities.items():
        controller.register(name, priority)
    if share:
        controller.slice("b", share, 10_000_000)
    for kind, name, ms, expected in steps:
        for action in controller.handle(Event(kind, name, int(ms * 1e6))):
            assert (action.name in held) == (action.kind == RELEASE), "what is so already is not done again"
            held ^= {action.name}
        assert held == set(expected), (kind, name, ms)


@pytest.mark.parametrize(("share", "period"), [(1.1, 10), (-0.1, 10), (0.5, 0)])
def test_a_share_that_none_can_have(share: float, period: int) -> None:
    controller = Controller()
    controller.register("b")
    with pytest.raises(ValueError, match="share"):
        controller.slice("b", share, period)


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    made = Channel(tmp_path / "channel")
    yield made
    made.close()


def _wait(true: Callable[[], bool]) -> None:
    while not true():  # the test's time limit ends it
        time.sleep(0.001)


def _word(path: Path, number: int, value: int | None = None) -> int:
    """Read, or write, a word of the channel as a workload does: through the file."""
    with path.open("r+b") as file:
        file.seek(8 * number)
        if value is not None:
            file.write(value.to_bytes(8, "little"))
            return value
        return int.from_bytes(file.read(8), "little")


def test_the_word_is_set_while_the_high_one_is_busy_and_never_after(channel: Channel, tmp_path: Path) -> None:
    controller, path = Controller(), tmp_path / "channel"
    controller.register("high", 1)
    controller.register("low")
    with Steering(controller, SharedWord(channel), channel) as steering:
        _word(path, 1, 1)
        _wait(lambda: _word(path, 0) == 1)
        _word(path, 1, 0)
        _wait(lambda: _word(path, 0) == 0)
        _word(path, 1, 1)
        _wait(lambda: _word(path, 0) == 1)
    steering.check()
    assert _word(path, 0) == 0
    kinds = [applied.action.kind for applied in steering.applied]
    assert kinds == [HOLD, RELEASE, HOLD, RELEASE]
    assert [a.ts_ns for a in steering.applied] == sorted(a.ts_ns for a in steering.applied)


def test_a_link_in_the_place_of_the_channel_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "channel").symlink_to(tmp_path / "secret")
    Channel(tmp_path / "channel").close()
    assert (tmp_path / "secret").read_text() == "kept" and not (tmp_path / "channel").is_symlink()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_all_processes_of_the_low_one_are_stopped_and_go_on(tmp_path: Path) -> None:
    inner = f"echo $$ > {tmp_path}/inner; sleep 600"
    script = f"sh -c 'echo $PPID' > {tmp_path}/pid; sh -c '{inner}' & wait"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
        try:
            _wait(lambda: (tmp_path / "inner").exists() and (tmp_path / "inner").read_text() != "")
            inside = int((tmp_path / "inner").read_text())
            StopSignals(tmp_path / "pid", os.getuid() + 1).apply(Action(HOLD, "low"))
            assert _state(inside) != "T", "a process of somebody else's is left alone"
            stop = StopSignals(tmp_path / "pid", os.getuid())
            stop.apply(Action(HOLD, "low"))
            _wait(lambda: _state(inside) == "T")
            assert _state(process.pid) != "T", "the shell itself only waits"
            stop.apply(Action(RELEASE, "low"))
            _wait(lambda: _state(inside) != "T")
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _is_asleep(children: Path) -> bool:
    """Tell whether the one child is `sleep`; the shell before it may end at any moment."""
    try:
        (child,) = children.read_text().split()
        return Path(f"/proc/{child}/comm").read_text() == "sleep\n"
    except (ValueError, OSError):
        return False


@pytest.mark.parametrize("force", [False, True])
def test_a_member_of_a_distributed_job_is_not_stopped(tmp_path: Path, force: bool) -> None:
    script = f"sh -c 'echo $PPID' > {tmp_path}/pid; sleep 600 & wait"
    environment = {**os.environ, "WORLD_SIZE": "8"}
    with subprocess.Popen(["sh", "-c", script], env=environment, start_new_session=True) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            _wait(lambda: (tmp_path / "pid").exists() and _is_asleep(children))
            stop = StopSignals(tmp_path / "pid", os.getuid(), force=force)
            if force:
                stop.apply(Action(HOLD, "low"))
                _wait(lambda: _state(int(children.read_text())) == "T")
            else:
                with pytest.raises(InputError, match="WORLD_SIZE=8"):
                    stop.apply(Action(HOLD, "low"))
                assert _state(int(children.read_text())) != "T"
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_command_is_told_events_and_obeyed(channel: Channel, tmp_path: Path) -> None:
    command = (
        f"while read kind name ts; do echo $kind $name >> {tmp_path}/told; [ $kind = busy ] && echo hold low; done"
    )
    decider = CommandDecider(command)
    with Steering(decider, SharedWord(channel), channel) as steering:
        _word(tmp_path / "channel", 1, 1)
        _wait(lambda: _word(tmp_path / "channel", 0) == 1)
    decider.close()
    steering.check()
    assert (tmp_path / "told").read_text() == "busy high\n"


@pytest.mark.parametrize(("command", "told"), [("echo stop low; cat", "'stop low'"), ("true", "it has ended")])
def test_a_command_that_does_otherwise_is_refused(channel: Channel, command: str, told: str) -> None:
    decider = CommandDecider(command)
    with Steering(decider, SharedWord(channel), channel) as steering:
        _wait(lambda: steering._failure is not None)
    decider.close()
    with pytest.raises(InputError, match=told) as raised:
        steering.check()
    assert "hold low" in raised.value.next_step
