"""Who is held when, from events alone; and how: by a word, by SIGSTOP or the freezer, by a command of the user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracecorr.control.controller import BUSY, ENDED, HOLD, IDLE, RELEASE, TICK, Action, Controller, Event, HoldError
from tracecorr.control.steering import Channel, CommandDecider, SharedWord, Steering
from tracecorr.control.stopping import Freezer, Guard, StopSignals, Workload
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


@pytest.fixture
def guard(channel: Channel) -> Iterator[Guard]:
    with Guard(channel.descriptor) as made:
        yield made


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


def test_the_word_is_set_while_the_high_one_is_busy_and_never_after(
    channel: Channel, guard: Guard, tmp_path: Path
) -> None:
    controller, path = Controller(), tmp_path / "channel"
    controller.register("high", 1)
    controller.register("low")
    with Steering(controller, SharedWord(channel, guard), channel) as steering:
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


def test_a_high_one_that_ended_amid_a_launch_holds_nobody(channel: Channel, guard: Guard, tmp_path: Path) -> None:
    controller, path, shell = Controller(), tmp_path / "channel", tmp_path / "high.pid"
    controller.register("high", 1)
    controller.register("low")
    with subprocess.Popen(["sleep", "600"]) as high:
        workload = Workload(shell, os.getuid())
        assert workload.is_running(), "its shell has not begun"
        shell.write_text(str(high.pid))
        with Steering(controller, SharedWord(channel, guard), channel, workload.is_running) as steering:
            _word(path, 1, 1)
            _wait(lambda: _word(path, 0) == 1)
            high.kill()
            high.wait()
            _wait(lambda: _word(path, 0) == 0)
    steering.check()


def test_a_link_in_the_place_of_the_channel_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "channel").symlink_to(tmp_path / "secret")
    Channel(tmp_path / "channel").close()
    assert (tmp_path / "secret").read_text() == "kept" and not (tmp_path / "channel").is_symlink()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def run_low(tmp_path: Path, environment: Mapping[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """Run a low workload below a shell, as an experiment does; yield the pids of the shell and of what it runs."""
    script = f"sh -c 'echo $PPID' > {tmp_path}/pid; sleep 600 & wait"
    with subprocess.Popen(
        ["sh", "-c", script], start_new_session=True, env={**os.environ, **(environment or {})}
    ) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            _wait(lambda: (tmp_path / "pid").exists() and _is_asleep(children))
            yield process.pid, int(children.read_text())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _group(pid: int) -> Path | None:
    """Return the folder of the group of cgroup v2 that a process is in."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if " cgroup2 " in line]
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    inside = [line[3:].lstrip("/") for line in lines if line.startswith("0::")]
    return Path(points[0]) / inside[0] if points and inside else None


def _is_frozen(pid: int) -> bool:
    group = _group(pid)
    events = group / "cgroup.events" if group else None
    return events is not None and events.exists() and "frozen 1" in events.read_text()


def _can_freeze() -> bool:
    group = _group(os.getpid())
    return group is not None and os.access(group / "cgroup.procs", os.W_OK)


FORMS = [
    StopSignals,
    pytest.param(Freezer, marks=pytest.mark.skipif(not _can_freeze(), reason="cgroup v2 may not be written")),
]


@pytest.mark.parametrize("form", FORMS)
def test_all_processes_of_the_low_one_are_held_and_go_on(
    tmp_path: Path, guard: Guard, form: type[StopSignals | Freezer]
) -> None:
    is_held = (lambda pid: _state(pid) == "T") if form is StopSignals else _is_frozen
    with run_low(tmp_path) as (shell, inside):
        before = _group(inside)
        form(Workload(tmp_path / "pid", os.getuid() + 1), guard).apply(Action(HOLD, "low"))
        assert not is_held(inside), "a process of somebody else's is left alone"
        stop = form(Workload(tmp_path / "pid", os.getuid()), guard)
        stop.apply(Action(HOLD, "low"))
        _wait(lambda: is_held(inside))
        assert not is_held(shell), "the shell itself only waits"
        stop.apply(Action(RELEASE, "low"))
        _wait(lambda: not is_held(inside))
        stop.close()
        assert _group(inside) == before
    assert before is None or not list(before.glob("tracecorr-*"))


@pytest.mark.parametrize("form", FORMS)
def test_a_controller_that_is_killed_leaves_nobody_held(tmp_path: Path, form: type[StopSignals | Freezer]) -> None:
    is_held = (lambda pid: _state(pid) == "T") if form is StopSignals else _is_frozen
    program = f"""
import os, pathlib, signal
from tracecorr.control.controller import HOLD, Action
from tracecorr.control.stopping import Freezer, Guard, StopSignals
from tracecorr.control.stopping import Workload
{form.__name__}(Workload(pathlib.Path({str(tmp_path / "pid")!r}), os.getuid()), Guard()).apply(Action(HOLD, "low"))
print("held", flush=True)
signal.pause()
"""
    with run_low(tmp_path) as (_, inside):
        before = _group(inside)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as controller:
            assert controller.stdout is not None and controller.stdout.readline() == b"held\n"
            _wait(lambda: is_held(inside))
            controller.kill()
        _wait(lambda: not is_held(inside))
        _wait(lambda: _group(inside) == before)


def test_a_word_is_free_again_when_its_controller_is_killed(tmp_path: Path) -> None:
    """The file of the channel is freed, not one that its path names by then: the folder is the workload's."""
    path, moved, other = tmp_path / "channel", tmp_path / "moved", tmp_path / "other"
    other.write_bytes(b"of somebody else")
    program = f"""
import pathlib, signal
from tracecorr.control.controller import HOLD, Action
from tracecorr.control.steering import Channel, SharedWord
from tracecorr.control.stopping import Guard
channel = Channel(pathlib.Path({str(path)!r}))
SharedWord(channel, Guard(channel.descriptor)).apply(Action(HOLD, "low"))
print("held", flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as controller:
        assert controller.stdout is not None and controller.stdout.readline() == b"held\n"
        assert _word(path, 0) == 1
        path.rename(moved)
        path.symlink_to(other)
        controller.kill()
    _wait(lambda: _word(moved, 0) == 0)
    assert other.read_bytes() == b"of somebody else"


def _is_asleep(children: Path) -> bool:
    """Tell whether the one child is `sleep`; the shell before it may end at any moment."""
    try:
        (child,) = children.read_text().split()
        return Path(f"/proc/{child}/comm").read_text() == "sleep\n"
    except (ValueError, OSError):
        return False


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_member_of_a_distributed_job_is_not_held(
    tmp_path: Path, guard: Guard, form: type[StopSignals | Freezer], force: bool
) -> None:
    is_held = (lambda pid: _state(pid) == "T") if form is StopSignals else _is_frozen
    with run_low(tmp_path, {"WORLD_SIZE": "8"}) as (_, inside):
        stop = form(Workload(tmp_path / "pid", os.getuid()), guard, force=force)
        if force:
            stop.apply(Action(HOLD, "low"))
            _wait(lambda: is_held(inside))
        else:
            with pytest.raises(HoldError, match="WORLD_SIZE=8"):
                stop.apply(Action(HOLD, "low"))
            assert not is_held(inside)
        stop.apply(Action(RELEASE, "low"))
        stop.close()


def test_a_command_is_told_events_and_obeyed(channel: Channel, guard: Guard, tmp_path: Path) -> None:
    command = (
        f"while read kind name ts; do echo $kind $name >> {tmp_path}/told; [ $kind = busy ] && echo hold low; done"
    )
    decider = CommandDecider(command)
    with Steering(decider, SharedWord(channel, guard), channel) as steering:
        _word(tmp_path / "channel", 1, 1)
        _wait(lambda: _word(tmp_path / "channel", 0) == 1)
    decider.close()
    steering.check()
    assert (tmp_path / "told").read_text() == "busy high\n"


@pytest.mark.parametrize(("command", "told"), [("echo stop low; cat", "'stop low'"), ("true", "it has ended")])
def test_a_command_that_does_otherwise_is_refused(channel: Channel, guard: Guard, command: str, told: str) -> None:
    decider = CommandDecider(command)
    with Steering(decider, SharedWord(channel, guard), channel) as steering:
        _wait(lambda: steering._failure is not None)
    decider.close()
    with pytest.raises(InputError, match=told) as raised:
        steering.check()
    assert "hold low" in raised.value.next_step
