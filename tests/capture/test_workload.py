"""The workload: found as a shell finds it, started behind its gate, its status passed through."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tracecorr.capture.workload.host import GatedProcess, resolve_command
from tracecorr.capture.workload.invoker import Invoker, find_invoker
from tracecorr.model.errors import CommandError, MachineError


@pytest.fixture
def invoker() -> Invoker:
    return find_invoker({"PATH": os.environ["PATH"]})


def start(invoker: Invoker, *command: str) -> GatedProcess:
    return GatedProcess(resolve_command(command[0], invoker.environment), command, invoker.environment, invoker)


def test_nothing_runs_before_the_gate_opens(invoker: Invoker, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    process = start(invoker, "sh", "-c", f"touch {mark}; exit 7")
    time.sleep(0.05)
    assert not mark.exists()
    process.release()
    assert process.poll(block=True) == 7
    assert mark.exists()


def test_a_signal_is_128_plus_its_number(invoker: Invoker) -> None:
    process = start(invoker, "sh", "-c", "kill -KILL $$")
    process.release()
    assert process.poll(block=True) == 128 + signal.SIGKILL


def test_discarded_at_the_gate(invoker: Invoker, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    process = start(invoker, "touch", str(mark))
    process.discard()
    assert process.status == 128 + signal.SIGKILL
    assert not mark.exists()


def test_ended_by_others_at_the_gate(invoker: Invoker) -> None:
    process = start(invoker, "true")
    os.kill(process.pid, signal.SIGKILL)
    assert process.poll(block=True) == 128 + signal.SIGKILL
    with pytest.raises(MachineError, match="before it ran, with status 137"):
        process.release()


def test_a_user_that_cannot_be_become_is_a_refusal(invoker: Invoker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Invoker) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Invoker, "become", refuse)
    process = start(invoker, "true")
    process.poll(block=True)
    with pytest.raises(CommandError, match="Operation not permitted") as error:
        process.release()
    assert error.value.exit_code == 126


def test_signals_that_python_ignores_are_back(invoker: Invoker) -> None:
    process = start(invoker, "sh", "-c", "kill -PIPE $$; exit 0")
    process.release()
    assert process.poll(block=True) == 128 + signal.SIGPIPE


def test_a_script_without_interpreter_line_runs_in_the_shell(invoker: Invoker, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    process = start(invoker, str(script))
    process.release()
    assert process.poll(block=True) == 9


def test_a_missing_interpreter_is_not_found(invoker: Invoker, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    process = start(invoker, str(script))
    with pytest.raises(CommandError) as error:
        process.release()
    assert error.value.exit_code == 127


@pytest.mark.parametrize(("name", "status"), [("no-such-command", 127), ("./nothing", 127), ("/etc", 126)])
def test_commands_that_cannot_run(name: str, status: int) -> None:
    with pytest.raises(CommandError) as error:
        resolve_command(name, os.environ)
    assert error.value.exit_code == status


def test_a_file_without_its_mode_is_not_runnable(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("exit 0\n")
    with pytest.raises(CommandError) as error:
        resolve_command(str(tmp_path / "plain"), {})
    assert error.value.exit_code == 126


def test_ctrl_c_at_the_gate_is_no_command_that_cannot_run(invoker: Invoker) -> None:
    """As a capture starts it: with the signal blocked until the workload would heed it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process = GatedProcess("/bin/true", ["true"], invoker.environment, invoker, [signal.SIGINT])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.kill(process.pid, signal.SIGINT)
    assert process.poll(block=True) == 128 + signal.SIGINT
    with pytest.raises(CommandError, match="interrupted before it ran") as error:
        process.release()
    assert error.value.exit_code == 128 + signal.SIGINT


def test_a_program_of_this_folder_is_not_searched_but_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gemm.py").write_text("pass\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError) as error:
        resolve_command("gemm.py", os.environ)
    assert error.value.next_step == "a file of this name is here: write ./gemm.py"
    with pytest.raises(CommandError) as error:
        resolve_command("./gemm.py", os.environ)
    assert "python3 FILE" in error.value.next_step


def test_the_path_of_the_caller_is_searched(tmp_path: Path) -> None:
    (tmp_path / "tool").symlink_to(sys.executable)
    assert resolve_command("tool", {"PATH": f"/nowhere:{tmp_path}"}) == str(tmp_path / "tool")


def _process(proc: Path, pid: int, status: str, environ: dict[str, str], cmdline: str = "") -> None:
    """Write what /proc shows of a process."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "status").write_text(status.replace("; ", "\n"))
    (folder / "environ").write_text("".join(f"{key}={value}\0" for key, value in environ.items()))
    (folder / "cmdline").write_text(cmdline.replace(" ", "\0"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_caller_of_sudo_is_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.capture.workload.invoker._PROC", tmp_path)
    own = {"SUDO_UID": "1234", "SUDO_GID": "1234", "SUDO_USER": "someone", "PATH": "/root", "MAIL": "x", "HIP": "9"}
    callers = {"SUDO_UID": "1234", "PATH": "/caller", "ROCR_VISIBLE_DEVICES": "3", "HIP": "1"}
    # SYNTHETIC, in the form of sudo 1.9.13: it keeps the real uid of its caller and has root's groups.
    sudo = "Name:\tsudo; PPid:\t77; Uid:\t1234\t0\t0\t0; Groups:\t0 "
    _process(tmp_path, os.getpid(), "", own)
    _process(tmp_path, os.getppid(), sudo, callers, "sudo HIP=9 tracecorr capture env PATH=/workload true")
    _process(tmp_path, 77, "Name:\tbash; PPid:\t1; Uid:\t1234\t1234\t1234\t1234; Groups:\t44 1234 ", callers)
    found = find_invoker(own)
    assert (found.uid, found.gid, found.groups, found.name) == (1234, 1234, (44, 1234), "someone")
    assert found.environment == {"PATH": "/caller", "ROCR_VISIBLE_DEVICES": "3", "HIP": "9"}
    assert find_invoker(own, as_root=True).uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_unreadable_environment_names_sudo_e(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.capture.workload.invoker._find_sudo", lambda: None)
    with pytest.raises(MachineError) as error:
        find_invoker({"SUDO_UID": "1234", "SUDO_GID": "1234", "SUDO_USER": "root", "HOME": "/root"})
    assert "sudo -E" in error.value.next_step


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_workload_runs_as_its_user() -> None:
    user = Invoker(1234, 1235, (1236,), "someone", {"PATH": os.environ["PATH"]})
    out, end = os.pipe()
    os.set_inheritable(end, True)
    process = start(user, "bash", "-c", f"(id -u; id -G) >&{end}")
    process.release()
    assert process.poll(block=True) == 0
    assert os.read(out, 100).decode().splitlines() == ["1234", "1235 1236"]
