"""HIP logs that fall back to the working folder of their process. SYNTHETIC: processes that write such a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.elsewhere import LogSight, StrayLog, StrayLogs
from tracecorr.capture.options import log_environment
from tracecorr.capture.workload.processes import ProcessTable, SeenProcess

Start = Callable[..., SeenProcess]
# Its number is what the file is called by: that of its own pid namespace, as the process sees it.
_WRITER = (
    "import os, sys, time; {before}; f = open(f'clr_logs_{{os.getpid()}}.txt', 'w'); f.write('log'); f.flush(); "
    "{after}; print('go', flush=True); time.sleep(600)"
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a writer in a folder and waits until its log is there."""
    started: list[subprocess.Popen[bytes]] = []

    def run(folder: Path, before: str = "0", after: str = "0", *through: str) -> SeenProcess:
        code = _WRITER.format(before=before, after=after)
        process = subprocess.Popen([*through, sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"go\n"
        table = ProcessTable()
        assert table.add(process.pid, "started")
        return table.seen[process.pid]

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def find(strays: StrayLogs, seen: SeenProcess) -> list[StrayLog]:
    strays.follow(seen.pid)
    return list(strays.list_found([seen]))


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another root needs root")


def test_the_log_is_found_that_a_process_holds_open_wherever_it_went(tmp_path: Path, start: Start) -> None:
    work = tmp_path / "work"
    work.mkdir()
    strays = StrayLogs(tmp_path)
    seen = start(work, after="os.chdir('/')")
    path = work / f"clr_logs_{seen.pid}.txt"
    assert find(strays, seen) == [StrayLog(seen.pid, path, str(path), 3)]
    assert path.read_text() == "log"  # It stays what and where it is.


def test_a_log_that_is_closed_is_found_in_the_working_folder(tmp_path: Path, start: Start) -> None:
    """Also where the process was gone before anybody looked: there it is the folder of the capture."""
    strays = StrayLogs(tmp_path)
    seen = start(tmp_path, after="f.close()")
    path = tmp_path / f"clr_logs_{seen.pid}.txt"
    assert [log.path for log in strays.list_found([seen])] == [path]
    assert find(strays, seen) == [StrayLog(seen.pid, path, str(path), 3)]


def test_files_of_former_runs_and_empty_ones_are_none(tmp_path: Path, start: Start) -> None:
    strays = StrayLogs(tmp_path)
    seen = start(tmp_path, after="f.close()")
    path = tmp_path / f"clr_logs_{seen.pid}.txt"
    os.utime(path, (1, 1))
    assert find(strays, seen) == []
    path.write_text("")
    assert find(strays, seen) == []
    path.unlink()
    path.symlink_to(__file__)
    assert find(strays, seen) == []


@needs_root
def test_the_log_of_another_root_is_named_by_its_path_here(tmp_path: Path, start: Start) -> None:
    jail = tmp_path / "jail"
    (jail / "deep").mkdir(parents=True)
    strays = StrayLogs(tmp_path)
    seen = start(tmp_path, before=f"os.chroot({str(jail)!r}); os.chdir('/deep')")
    name = f"clr_logs_{seen.pid}.txt"
    assert find(strays, seen) == [StrayLog(seen.pid, jail / "deep" / name, f"/deep/{name}", 3)]


@needs_root
@pytest.mark.parametrize("closed", [True, False])
def test_the_log_behind_a_mount_of_its_own_is_named_by_its_path_here(
    tmp_path: Path, start: Start, closed: bool
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare command: apt-get install util-linux")
    work, jail = tmp_path / "a folder", tmp_path / "jail"
    for folder in (work / "sub", jail / "w"):
        folder.mkdir(parents=True)
    strays = StrayLogs(tmp_path)
    script = f"mount --bind '{work}' '{jail}/w' && exec \"$@\""
    before = f"os.chroot({str(jail)!r}); os.chdir('/w/sub')"
    seen = start(tmp_path, before, "f.close()" if closed else "0", "unshare", "-m", "sh", "-c", script, "")
    name = f"clr_logs_{seen.pid}.txt"
    assert find(strays, seen) == [StrayLog(seen.pid, work / "sub" / name, f"/w/sub/{name}", 3)]


@needs_root
def test_a_log_that_no_path_of_this_machine_leads_to_is_named_as_its_process_saw_it(
    tmp_path: Path, start: Start
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare command: apt-get install util-linux")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = f'mount -t tmpfs none {hidden} && cd {hidden} && exec "$@"'
    strays = StrayLogs(tmp_path)
    seen = start(tmp_path, "0", "0", "unshare", "-m", "sh", "-c", script, "")
    assert find(strays, seen) == [StrayLog(seen.pid, None, f"{hidden}/clr_logs_{seen.pid}.txt", 0)]


def test_the_sentence_tells_how_to_import_it(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = tmp_path / "my run.tracecorr"
    pages = capture / "raw" / "ftrace" / "gpu"
    pages.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    sight = LogSight(capture, capture, log_environment(5, capture / "hip"))
    folder = cast(RecordingFolder, SimpleNamespace(path=capture, shown=capture))
    assert sight.describe_strays([], folder) == []
    seen = start(tmp_path)
    begin = f"process {seen.pid} wrote its HIP log to {tmp_path}/clr_logs_{seen.pid}.txt (3 bytes), it is not in the "
    words = f"tracecorr import --amd-log {tmp_path}/clr_logs_{seen.pid}.txt"
    (told,) = sight.describe_strays([seen], folder)
    assert told.startswith(begin) and told.endswith(words)
    (pages / "cpu0.bin").touch()
    (capture / "raw" / "clock.json").touch()
    (told,) = sight.describe_strays([seen], folder)
    assert told.endswith(f"{words} --ftrace '{capture}/raw'/ftrace/* --clock-samples '{capture}/raw/clock.json'")
