"""Processes that use HIP and do not write their log into the capture: in another root, as another user, told else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracecorr.capture.hiplog.elsewhere import LogSight
from tracecorr.capture.options import log_environment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another root needs root")

# Maps a file of the runtime's name, as a program that uses HIP does.
_USER = (
    "import mmap, sys, time; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); print('go', flush=1); "
)
_STAY = "time.sleep(600)"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    made = tmp_path / "x.tracecorr"
    made.mkdir()
    return made


@pytest.fixture
def library(tmp_path: Path) -> Path:
    made = tmp_path / "libamdhip64.so.7"
    made.write_bytes(b"not a library (synthetic)")
    made.chmod(0o644)
    return made


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def told(logs: Path) -> dict[str, str]:
    return log_environment(5, logs / "hip")


def start(started: list[subprocess.Popen[bytes]], library: Path, first: str = "", before: tuple[str, ...] = ()) -> int:
    command = [*before, sys.executable, "-c", _USER + first + _STAY, str(library)]
    environment = {**os.environ, **told(library.parent / "x.tracecorr")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    started.append(process)
    assert process.stdout is not None and process.stdout.readline() == b"go\n"
    return process.pid


def test_one_that_sees_the_folder_is_fine(logs: Path, library: Path, started: list[subprocess.Popen[bytes]]) -> None:
    assert LogSight(logs, logs, told(logs)).look([start(started, library)]) == []


def test_one_in_another_root_is_named_once(logs: Path, library: Path, started: list[subprocess.Popen[bytes]]) -> None:
    jail = logs.parent / "jail"
    jail.mkdir()
    pid = start(started, library, f"import os; os.chroot({str(jail)!r}); print('in', flush=True); ")
    assert started[0].stdout is not None and started[0].stdout.readline() == b"in\n"
    sight = LogSight(logs, logs, told(logs))
    (problem,) = sight.look([pid])
    assert f"in its root {jail} there is no {logs}" in problem
    assert sight.look([pid]) == []


def test_one_whose_mount_hides_the_folder_is_named(
    logs: Path, library: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare command: apt-get install util-linux")
    other = logs.parent / "other"
    other.mkdir()
    script = f'mount --bind {other} {logs} && exec "$@"'
    pid = start(started, library, before=("unshare", "-m", "sh", "-c", script, ""))
    (problem,) = LogSight(logs, logs, told(logs)).look([pid])
    assert f"there is no {logs}" in problem


def test_one_of_another_user_is_named(logs: Path, library: Path, started: list[subprocess.Popen[bytes]]) -> None:
    pid = start(started, library, "import os; os.setuid(65534); print('in', flush=True); ")
    assert started[0].stdout is not None and started[0].stdout.readline() == b"in\n"
    (problem,) = LogSight(logs, logs, told(logs)).look([pid])
    assert "user 65534" in problem


def test_one_that_uses_no_hip_is_not_named(logs: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    (tmp_path / "other.so").write_bytes(b"x")
    pid = start(started, tmp_path / "other.so", "import os; os.setuid(65534); print('in', flush=True); ")
    assert started[0].stdout is not None and started[0].stdout.readline() == b"in\n"
    assert LogSight(logs, logs, told(logs)).look([pid]) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("AMD_LOG_LEVEL_FILE=/tmp/own",), "with AMD_LOG_LEVEL_FILE=/tmp/own"),
        (("AMD_LOG_LEVEL=1", "AMD_LOG_MASK=0x2"), "with AMD_LOG_LEVEL=1, with AMD_LOG_MASK=0x2"),
        (("-u", "AMD_LOG_LEVEL_FILE"), "without AMD_LOG_LEVEL_FILE"),
    ],
)
def test_one_that_was_told_else_about_its_log_is_named(
    logs: Path, library: Path, started: list[subprocess.Popen[bytes]], change: tuple[str, ...], named: str
) -> None:
    pid = start(started, library, before=("env", *change))
    sight = LogSight(logs, logs, told(logs))
    (problem,) = sight.look([pid])
    assert f"process {pid} (" in problem
    assert f"was started {named}: its HIP log is missing in the capture, or incomplete" in problem
    assert sight.look([pid]) == []


def test_one_whose_environment_is_written_over_is_not_named(
    logs: Path, library: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """As by a program that gives itself a title; or its log is there, whatever its environment shows."""
    sight = LogSight(logs, logs, told(logs))
    assert sight.look([start(started, library, before=("env", "-i", "TITLE=of a program"))]) == []
    pid = start(started, library, before=("env", "-i", "PATH=/bin"))
    (logs / f"hip_{pid}").touch()
    assert sight.look([pid]) == []


@pytest.mark.parametrize(
    ("words", "named"), [(("/usr/bin/docker", "run"), True), (("podman", "exec"), True), (("docker", "ps"), False)]
)
def test_an_engine_that_starts_a_container_is_named_once(
    logs: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]], words: tuple[str, str], named: bool
) -> None:
    """SYNTHETIC: a process with the words of the engine's client, that waits for a pipe."""
    os.mkfifo(tmp_path / words[1])
    for _ in range(2):
        client = subprocess.Popen(words, executable="/bin/cat", cwd=tmp_path, stdout=subprocess.PIPE)
        started.append(client)
        # Popen returns as the kernel closes what the new program may not keep, before it shows the program's words.
        while words[1].encode() not in Path(f"/proc/{client.pid}/cmdline").read_bytes():
            assert client.poll() is None
    sight = LogSight(logs, logs, told(logs))
    said = sight.look([client.pid for client in started])
    assert [f"starts a container by {Path(words[0]).name}" in problem for problem in said] == [True] * named
    assert sight.look([client.pid for client in started]) == []
