"""The gate of a container's workload: whatever is put in its place, nothing else is written, killed or waited for.

The gate's own shell runs here on the host, in the place of the container engine's command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from machine_state import read_state

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.options import CaptureOptions
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token, pid_namespace
from tracecorr.capture.tracefs.undo import restore_leftovers
from tracecorr.capture.workload import container as container_workload
from tracecorr.capture.workload import launch
from tracecorr.capture.workload.container import ContainerProcess, GatePipe
from tracecorr.capture.workload.engines import LOG_MOUNT, MARK, Engine, exec_command, run_command
from tracecorr.capture.workload.host import GatedProcess, resolve_command
from tracecorr.capture.workload.invoker import Invoker, find_invoker, read_status
from tracecorr.cli import main
from tracecorr.model.errors import CommandError, MachineError


@pytest.fixture
def invoker() -> Invoker:
    return find_invoker({"PATH": os.environ["PATH"]})


def start_shell(words: list[str], variables: dict[str, str], invoker: Invoker) -> GatedProcess:
    environment = {**invoker.environment, **variables}
    process = GatedProcess(resolve_command("sh", environment), words, environment, invoker)
    process.release()
    return process


def start_stop_gate(invoker: Invoker, token: str, logs: Path, *command: str, seconds: float = 60) -> GatedProcess:
    until = time.time() + seconds
    words = exec_command(Engine("docker", invoker), "name", command, {}, token, until, tty=False)
    variables = {"TRACECORR_GATE": token, "TRACECORR_LOGS": str(logs), "TRACECORR_UNTIL": f"{until:.0f}"}
    return start_shell(words[words.index("sh") :], variables, invoker)


def start_pipe_gate(invoker: Invoker, token: str, logs: Path, *command: str) -> GatedProcess:
    words = run_command(Engine("docker", invoker), "image", {}, command, {}, token, logs, (), tty=False)
    script = [word.replace(LOG_MOUNT, str(logs)) for word in words[words.index("-c") :]]
    return start_shell(["sh", *script], {"TRACECORR_GATE": token}, invoker)


def test_a_gate_that_stops_itself_goes_on(invoker: Invoker, tmp_path: Path) -> None:
    token, mark = new_token(), tmp_path / "ran"
    gate = ContainerProcess(start_stop_gate(invoker, token, tmp_path / "logs", "touch", str(mark)), token, None)
    assert not mark.exists()
    gate.release()
    assert gate.poll(block=True) == 0
    assert mark.exists()


def test_a_gate_without_its_folder_ends(invoker: Invoker, tmp_path: Path) -> None:
    token, mark = new_token(), tmp_path / "ran"
    (tmp_path / "plain").touch()
    engine = start_stop_gate(invoker, token, tmp_path / "plain", "touch", str(mark))
    with pytest.raises(MachineError, match="status 125"):
        ContainerProcess(engine, token, None)
    assert not mark.exists()


def test_a_gate_that_reads_a_pipe_goes_on(invoker: Invoker, tmp_path: Path) -> None:
    token, mark, pipe = new_token(), tmp_path / "ran", GatePipe(tmp_path)
    gate = ContainerProcess(start_pipe_gate(invoker, token, tmp_path, "touch", str(mark)), token, pipe)
    assert not mark.exists()
    gate.release()
    assert gate.poll(block=True) == 0
    assert mark.exists()
    pipe.close()
    assert not (tmp_path / "gate").exists()


@pytest.mark.parametrize("kind", ["stop", "pipe"])
@pytest.mark.parametrize(
    ("name", "status"), [("no-such-program", 127), ("./missing", 127), ("./plain", 126), ("./folder", 126)]
)
def test_a_command_that_cannot_run_ends_at_the_gate(
    invoker: Invoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    token, pipe = new_token(), GatePipe(tmp_path) if kind == "pipe" else None
    with pytest.raises(CommandError, match=f"{name}: command not|{name} cannot be run in the container") as found:
        if pipe is None:
            ContainerProcess(start_stop_gate(invoker, token, tmp_path / "logs", name), token, None, name)
        else:
            ContainerProcess(start_pipe_gate(invoker, token, tmp_path, name), token, pipe, name)
    assert found.value.exit_code == status
    assert not (tmp_path / "logs").exists()


def test_a_command_that_is_missing_in_a_container_leaves_no_folder(
    tmp_path: Path, tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The engine here runs its command on the host."""
    before = read_state(tracefs)
    engine = tmp_path / "docker"
    engine.write_text(
        '#!/bin/sh\n[ $1 = inspect ] && { echo "[{}]"; exit; }\n'
        'while [ "$1" != c ]; do case "$1" in --env=*) export "${1#--env=}";; esac; shift; done\nshift; exec "$@"\n'
    )
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("tracecorr.capture.run.container_pid", lambda *_: os.getpid())
    monkeypatch.chdir(tmp_path)
    assert main(["capture", "-q", "-o", "x", "--container", "c", "--", "no-such-program"]) == 127
    assert "error: no-such-program: command not found in the container" in capfd.readouterr().err
    assert not (tmp_path / "x.tracecorr").exists()
    assert read_state(tracefs) == before


def test_a_gate_whose_pipe_ends_runs_nothing(invoker: Invoker, tmp_path: Path) -> None:
    token, mark, pipe = new_token(), tmp_path / "ran", GatePipe(tmp_path)
    gate = ContainerProcess(start_pipe_gate(invoker, token, tmp_path, "touch", str(mark)), token, pipe)
    pipe.close()
    assert gate.poll(block=True) == 125
    assert not mark.exists()


def test_a_link_in_place_of_the_pipe_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    pipe = GatePipe(tmp_path)
    (tmp_path / "gate").unlink()
    (tmp_path / "gate").symlink_to(victim)
    pipe.release()
    pipe.close()
    assert victim.read_text() == "mine\n"


def test_a_pipe_without_a_reader_does_not_wait(tmp_path: Path) -> None:
    pipe = GatePipe(tmp_path)
    pipe.release()
    (tmp_path / "gate").unlink()
    pipe.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_the_pipe_is_left_to_the_sealing(tmp_path: Path) -> None:
    pipe = GatePipe(tmp_path)
    (tmp_path / "gate").unlink()
    (tmp_path / "gate").mkdir()
    pipe.close()
    assert (tmp_path / "gate").is_dir()


def test_a_pipe_that_another_filled_is_an_error(tmp_path: Path) -> None:
    pipe = GatePipe(tmp_path)
    writer = os.open(tmp_path / "gate", os.O_WRONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    with pytest.raises(MachineError, match="full"):
        pipe.release()
    os.close(writer)
    pipe.close()


def test_what_stands_in_the_place_of_a_new_pipe_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gate").symlink_to(tmp_path / "victim")
    with pytest.raises(MachineError):
        GatePipe(tmp_path)
    assert not (tmp_path / "victim").exists()


def test_a_signal_reaches_the_process_that_was_found(invoker: Invoker, tmp_path: Path) -> None:
    """Its number may be another's by now: here it is changed to this test's own."""
    token = new_token()
    gate = ContainerProcess(start_stop_gate(invoker, token, tmp_path / "logs", "sleep", "600"), token, None)
    gate.pid = os.getpid()
    gate.release()
    gate.send(signal.SIGTERM)
    assert gate.poll(block=True) == 128 + signal.SIGTERM


def test_a_number_that_is_no_gate_any_more_is_not_taken(
    invoker: Invoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, own = new_token(), os.getpid()
    true_find = container_workload.find_gates
    monkeypatch.setattr(container_workload, "find_gates", lambda token: [own, *true_find(token)])
    pipe = GatePipe(tmp_path)
    engine = start_pipe_gate(invoker, token, tmp_path, "true")
    gate = ContainerProcess(engine, token, pipe)
    assert gate.pid == engine.pid
    gate.discard()
    pipe.close()
    assert gate.status == 128 + signal.SIGKILL


def test_a_gate_that_does_not_show_is_ended(invoker: Invoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = new_token()
    engine = start_stop_gate(invoker, token, tmp_path / "logs", "true")
    monkeypatch.setattr(container_workload, "FIND_SECONDS", 0.0)
    monkeypatch.setattr(container_workload, "_GRACE_SECONDS", 0.0)
    with pytest.raises(MachineError, match="no process started"):
        ContainerProcess(engine, token, None)
    assert engine.status == 128 + signal.SIGKILL


@pytest.mark.parametrize("kind", ["stop", "pipe"])
def test_clean_ends_the_gate_of_a_killed_capture(invoker: Invoker, tmp_path: Path, kind: str) -> None:
    token, mark = new_token(), tmp_path / "ran"
    journal = Journal.create(token)
    journal.note("gate", token=token, folder=str(tmp_path / "x.tracecorr"))
    owner, *notes = journal.path.read_text().splitlines(keepends=True)
    journal.path.write_text("".join([owner.replace(str(os.getpid()), str(_dead_pid())), *notes]))
    if kind == "stop":
        engine = start_stop_gate(invoker, token, tmp_path / "logs", "touch", str(mark))
    else:
        os.mkfifo(tmp_path / "gate")
        engine = start_pipe_gate(invoker, token, tmp_path, "touch", str(mark))
    while not list(container_workload.find_gates(token)):
        assert engine.poll() is None
    restore_leftovers()
    assert engine.poll(block=True) == 128 + signal.SIGKILL
    assert not mark.exists()
    assert not journal.path.exists()


def test_a_workload_behind_an_open_gate_is_no_gate(invoker: Invoker, tmp_path: Path) -> None:
    """It has the gate's environment and may be a `sh -c` itself."""
    token, mark, go = new_token(), tmp_path / "ran", tmp_path / "go"
    script = f"touch {mark}; until [ -e {go} ]; do sleep 0.01; done; exit 5"
    gate = ContainerProcess(start_stop_gate(invoker, token, tmp_path / "logs", "sh", "-c", script), token, None)
    gate.release()
    while not mark.exists():
        assert gate.poll() is None
    container_workload.end_gates(token)
    go.touch()
    assert gate.poll(block=True) == 5


def _dead_pid() -> int:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_the_workload_of_another_capture_in_the_container_is_left_to_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons that an ended capture started, and those of nobody, may work for ours."""
    token, other, ended = new_token(), new_token(), f"{_dead_pid()}_1_0_{pid_namespace()}"
    marks = {"ours": {MARK: token}, "other": {MARK: other}, "ended": {MARK: ended}, "none": {"A": "b"}}
    running = {
        name: subprocess.Popen(["/bin/sh", "-c", "echo ready; read line"], env=mark, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
        for name, mark in marks.items()
    }  # fmt: skip
    for process in running.values():
        assert process.stdout is not None
        process.stdout.readline()
    monkeypatch.setattr(container_workload, "find_cgroup", lambda _: "/container")
    monkeypatch.setattr(container_workload, "cgroup_pids", lambda _: [process.pid for process in running.values()])
    monkeypatch.setattr(container_workload, "has_open", lambda *_: True)
    try:
        found = container_workload.ContainerMembers(os.getpid(), token).find_openers()
    finally:
        for process in running.values():
            process.communicate()
    assert found == [running[name].pid for name in ("ours", "ended", "none")]


def test_a_failure_behind_the_gate_ends_it(invoker: Invoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs inside the container cannot be opened: neither the gate nor the engine's command stays."""
    token, started = new_token(), []

    def start(_command: list[str], user: Invoker) -> GatedProcess:
        started.append(start_stop_gate(user, token, tmp_path / "elsewhere", "true"))
        return started[0]

    monkeypatch.setattr(launch, "find_engine", lambda *_: (Engine("docker", invoker), {}))
    monkeypatch.setattr(launch, "_start_engine", start)
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", invoker, force=False)
    options = CaptureOptions(command=("true",), container="name")
    with pytest.raises(MachineError, match="logs of the container"):
        launch.launch(options, invoker, "", folder, token)
    folder.close()
    assert started[0].status == 128 + signal.SIGKILL
    assert read_status(started[0].pid) is None


def test_a_gate_that_comes_too_late_ends_itself(invoker: Invoker, tmp_path: Path) -> None:
    """Nobody looks for it any more: it would stay stopped for ever."""
    mark = tmp_path / "ran"
    gate = start_stop_gate(invoker, new_token(), tmp_path / "logs", "touch", str(mark), seconds=-1)
    assert gate.poll(block=True) == 125
    assert not mark.exists() and not (tmp_path / "logs").exists()


def test_a_gate_takes_the_first_folder_that_it_can_make(invoker: Invoker, tmp_path: Path) -> None:
    command = ("sh", "-c", "echo $AMD_LOG_LEVEL_FILE > $0", str(tmp_path / "out"))
    words = exec_command(Engine("docker", invoker), "name", command, {}, new_token(), time.time() + 60, tty=False)
    (tmp_path / "plain").touch()
    token, places = new_token(), (tmp_path / "plain/a", tmp_path / "tracecorr-b", tmp_path / "c")
    variables = {
        "TRACECORR_GATE": token, "TRACECORR_LOGS": " ".join(map(str, places)),
        "AMD_LOG_LEVEL_FILE": "/tmp/tracecorr-x/hip", "TRACECORR_UNTIL": f"{time.time() + 60:.0f}",
    }  # fmt: skip
    gate = ContainerProcess(start_shell(words[words.index("sh") :], variables, invoker), token, None)
    gate.release()
    assert gate.poll(block=True) == 0
    assert (tmp_path / "out").read_text() == f"{places[1]}/hip\n"
    assert places[1].is_dir() and not places[2].exists()
