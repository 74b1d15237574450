"""The log folder inside a container: all of it is brought out or named, and nothing of it stays.

A process with a root of its own (chroot, mount namespace) stands for the container.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracecorr.capture.hiplog.container_logs import ContainerLogs, clear_leftovers
from tracecorr.capture.tracefs.journal import new_token
from tracecorr.capture.tracefs.undo import ACTIONS
from tracecorr.capture.workload.engines import exec_log_folders

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")


# What in it is no log: none of it is read or taken away.
_STRANGE = ["a folder", "a link", "a pipe", "s"]


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Return /tmp of a mount namespace as it is seen here, and a process in it."""
    place = tmp_path / "inside"
    place.mkdir()
    script = f"mount --bind {place} /tmp && echo go && exec sleep 600"
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"go\n"
    yield place, process
    process.kill()
    process.wait()
    process.stdout.close()


def make_logs(place: Path, token: str) -> Path:
    logs = place / f"tracecorr-{token}"
    logs.mkdir()
    (logs / "hip_1").write_bytes(b"one\n")
    (logs / "a folder/in it").mkdir(parents=True)
    os.mkfifo(logs / "a pipe")
    (logs / "a link").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(logs, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/s")
        os.close(folder)
    with (logs / "sparse").open("wb") as stream:
        stream.seek(64 << 20)
        stream.write(b"the end\n")
    return logs


def begin(inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path) -> tuple[Path, Path, ContainerLogs]:
    """Return a folder of logs in the namespace, an empty one here, and what moves the one to the other."""
    place, process = inside
    token, target = new_token(), tmp_path / "target"
    target.mkdir()
    made = make_logs(place, token)
    return made, target, ContainerLogs(process.pid, exec_log_folders(token))


def test_strange_entries_do_not_keep_the_logs_from_coming(
    inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    made, target, logs = begin(inside, tmp_path)
    (said,) = logs.move_to(target)
    logs.close()
    assert said.endswith("stays what is no log of the workload: a folder, a link, a pipe, s")
    assert sorted(path.name for path in made.iterdir()) == _STRANGE
    assert sorted(path.name for path in target.iterdir()) == ["hip_1", "sparse"]
    assert (target / "sparse").stat().st_size == (64 << 20) + 8
    assert (target / "sparse").stat().st_blocks * 512 < 1 << 20


def test_one_that_cannot_be_moved_does_not_keep_the_others(
    inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    made, target, logs = begin(inside, tmp_path)
    (target / "hip_1").write_text("in the way\n")
    with pytest.raises(FileExistsError, match=f"stays in {logs.inside} of the container"):
        logs.move_to(target)
    logs.close()
    assert sorted(path.name for path in made.iterdir()) == [*_STRANGE[:3], "hip_1", "s"]
    assert (target / "hip_1").read_text() == "in the way\n" and (target / "sparse").exists()


def test_a_full_disk_takes_no_log_from_the_container(
    inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    made, target, logs = begin(inside, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OSError, match="File too large; what could not be moved stays in"):
            logs.move_to(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(path.name for path in made.iterdir()) == [*_STRANGE, "sparse"]
    assert [path.name for path in target.iterdir()] == ["hip_1"]
    logs.move_to(target)
    logs.close()
    assert (target / "sparse").read_bytes().endswith(b"\0the end\n")


def test_what_a_killed_capture_left_is_brought_out(
    inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    place, _ = inside
    token, shown = new_token(), tmp_path / "x.tracecorr"
    (shown / "raw/amd_log").mkdir(parents=True)
    made = make_logs(place, token)
    assert clear_leftovers(token, shown) == ""
    assert sorted(path.name for path in made.iterdir()) == _STRANGE
    assert (shown / "raw/amd_log/hip_1").read_bytes() == b"one\n"
    assert clear_leftovers(token, shown) == ""


def test_without_its_capture_it_is_removed(inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path) -> None:
    place, _ = inside
    token = new_token()
    made = make_logs(place, token)
    (tmp_path / "x.tracecorr").symlink_to(tmp_path)
    assert clear_leftovers(token, tmp_path / "x.tracecorr") == ""
    assert sorted(path.name for path in made.iterdir()) == _STRANGE and not (tmp_path / "raw").exists()


def test_a_workload_that_still_logs_is_left_alone(inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path) -> None:
    place, _ = inside
    token = new_token()
    made = make_logs(place, token)
    workload = subprocess.Popen(["sleep", "600"], env={**os.environ, "TRACECORR_GATE": token})
    while b"sleep" not in Path(f"/proc/{workload.pid}/cmdline").read_bytes():
        time.sleep(0.01)
    problem = clear_leftovers(token, tmp_path / "x.tracecorr")
    assert str(workload.pid) in problem and f"/tmp/tracecorr-{token}" in problem
    assert made.exists()
    workload.kill()
    workload.wait()


def test_a_capture_that_lives_takes_its_logs_out_itself(
    inside: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Its journal is undone when the recording ends; the logs are needed until the workload has ended."""
    place, _ = inside
    token = new_token()
    made = make_logs(place, token)
    assert ACTIONS["gate"]({"kind": "gate", "token": token, "folder": str(tmp_path / "x.tracecorr")}) == ""
    assert (made / "hip_1").exists()
