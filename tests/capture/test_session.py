"""Whole captures of small commands: statuses, signals, limits, and what is left after each."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from machine_state import need_tracefs, read_state

from tracecorr.capture.session import Session
from tracecorr.capture.tracefs import Tracefs
from tracecorr.cli import main
from tracecorr.store.recording import seen_time_offsets

REPO = Path(__file__).resolve().parents[2]
_HANGS = 600  # seconds: only what hangs takes that long
QUICK = ("--event-set", "minimal", "--no-correlate", "--quiet")


@pytest.fixture(autouse=True)
def _machine() -> None:
    if os.geteuid() != 0:
        pytest.skip("a capture needs root")
    need_tracefs()


class Capture:
    """A capture that runs in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.shown = folder / "x.tracecorr"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tracecorr", "capture", "-o", "x", *words], cwd=folder, text=True,
            env={**os.environ, "PYTHONPATH": str(REPO)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str, str]:
        """Return status, stdout and stderr."""
        out, err = self.process.communicate(timeout=_HANGS)
        return self.process.returncode, out, err

    def wait_for(self, name: str) -> None:
        """Wait until the workload has made a file."""
        self.wait_until((self.folder / name).exists)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, while the capture runs."""
        for _ in range(_HANGS * 100):
            if holds():
                return
            assert self.process.poll() is None, self.end()
            time.sleep(0.01)
        pytest.fail("it did not come true")

    def has_ended_recording(self) -> bool:
        """Tell whether its instances are gone."""
        names = os.listdir("/sys/kernel/tracing/instances")  # noqa: PTH208
        return not any(name.startswith(f"tracecorr_{self.process.pid}_") for name in names)

    @property
    def info(self) -> dict[str, Any]:
        """Return capture.json."""
        found: dict[str, Any] = json.loads((self.shown / "capture.json").read_text())
        return found


@contextlib.contextmanager
def unchanged(tracefs: Tracefs) -> Iterator[None]:
    """Check that the machine is afterwards as it was before."""
    before = read_state(tracefs)
    yield
    assert read_state(tracefs) == before


def test_status_and_streams_pass_through(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        status, out, err = capture.end()
    assert (status, out) == (7, "out\n")
    assert "err\n" in err
    assert capture.info["exit_status"] == 7
    assert capture.info["state"] == "complete"


def test_the_program_that_is_told_is_the_workloads_even_if_it_ends_at_once(tmp_path: Path) -> None:
    true, link = Path("/usr/bin/true").resolve(), tmp_path / "python"
    link.symlink_to(true)
    capture = Capture(tmp_path, *QUICK, "--", str(link))
    assert capture.end()[0] == 0
    first = capture.info["processes"][0]
    assert (first["comm"], first["how"]) == ("python", "started")
    assert first["exe"] in (str(true), "")


def test_a_program_whose_path_is_no_text_has_tables_and_a_capture_named_after_it(tmp_path: Path) -> None:
    program = tmp_path / os.fsdecode(b"sh\xe9")
    shutil.copy(Path("/bin/sh").resolve(), program)
    words = [sys.executable, "-m", "tracecorr", "capture", "-q", "--", str(program), "-c", "sleep 0.3; :"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert b"not built" not in done.stderr
    path = next(tmp_path.glob("sh_-*.tracecorr"))
    assert json.loads((path / "capture.json").read_text())["processes"][0]["exe"] == str(program)
    told = pl.read_parquet(path / "tables/processes.parquet")["exe"].drop_nulls().to_list()
    assert f"{tmp_path}/sh\N{REPLACEMENT CHARACTER}" in told


@pytest.mark.parametrize("name", ["two words", "-x", "it's"])
def test_the_next_step_can_be_pasted_into_a_shell(tmp_path: Path, name: str) -> None:
    _, _, err = Capture(tmp_path, *QUICK, "-o", name, "--", "true").end()
    step = err.splitlines()[-1].removeprefix("next step: ")
    assert shlex.split(step) == ["tracecorr", "correlate", str(tmp_path / f"{name}.tracecorr")]


def test_a_reader_of_the_messages_who_goes_away_changes_nothing(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "--event-set", "minimal", "--", "sh", "-c", "touch started; sleep 0.5; exit 4")
    capture.wait_for("started")
    assert capture.process.stderr is not None
    capture.process.stderr.close()
    assert capture.process.wait(timeout=_HANGS) == 4
    assert (capture.shown / "tables/events.parquet").exists()


def test_closed_streams_are_no_files_of_the_capture(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tracecorr", "capture", "-o", "x", *QUICK, "--", "sh", "-c", "echo out; exit 4"]
    script = 'exec "$@" <&- >&- 2>&-'
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(["sh", "-c", script, "", *words], cwd=tmp_path, env=environment, check=False)
    info = json.loads((tmp_path / "x.tracecorr/capture.json").read_text())
    assert (done.returncode, info["state"], info["exit_status"]) == (4, "complete", 4)


def test_the_workload_has_the_environment_of_the_caller(tmp_path: Path) -> None:
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "MINE": "1"}
    words = [sys.executable, "-m", "tracecorr", "capture", "-o", "x", *QUICK, "--log-level", "0", "--", "env"]
    done = subprocess.run(words, cwd=tmp_path, env=given, capture_output=True, text=True, check=True)
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == given
    assert "HIP log: none was asked for (--log-level 0)\n" in done.stderr
    assert "warning: no HIP log" not in done.stderr


def test_own_settings_of_the_log_that_are_not_used_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMD_LOG_LEVEL", "3")
    monkeypatch.setenv("AMD_LOG_MASK", "2147483647")
    status, _, err = Capture(tmp_path, *QUICK, "--", "true").end()
    assert status == 0, err
    assert "your AMD_LOG_LEVEL=3 is not used: the log of everything goes into the capture" in err
    monkeypatch.setenv("AMD_LOG_LEVEL", "5")
    assert "not used" not in Capture(tmp_path, "--force", *QUICK, "--", "true").end()[2]


def test_the_cost_of_an_event_is_measured_and_not_recorded(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, "--", "sh", "-c", "exit 0")
        status, _, err = capture.end()
    assert status == 0, err
    cost = capture.info["event_cost"]
    assert cost["recorded_ns"] > cost["alone_ns"] > 0
    assert cost["added_ns"] in (cost["recorded_ns"] - cost["alone_ns"] + off for off in (-1, 0, 1))
    assert f"recording added {cost['added_ns']:,} ns" in err
    events = pl.read_parquet(capture.shown / "tables" / "events.parquet", columns=["layer", "pid"])
    of_ours = events.filter(pl.col("pid") == capture.process.pid)["layer"].cast(pl.String)
    assert not {"syscall", "ioctl"} & set(of_ours)


def test_without_system_calls_no_cost_of_one_is_said(tmp_path: Path) -> None:
    capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "exit 0")
    _, _, err = capture.end()
    assert "event_cost" not in capture.info
    assert "recording added" not in err


def test_the_time_namespace_of_the_workload_reaches_correlate(tmp_path: Path) -> None:
    in_namespace = ("unshare", "-T", "--monotonic", "100", "--boottime", "200", "--")
    if subprocess.run([*in_namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine makes no time namespaces")
    capture = Capture(tmp_path, *QUICK, "--", *in_namespace, "sleep", "1")
    assert capture.end()[0] == 0
    assert capture.info["timens_offsets"] == {"monotonic": 100 * 10**9, "boottime": 200 * 10**9}
    assert capture.info["timens_offsets"] in [p["timens_offsets"] for p in capture.info["processes"]]
    assert seen_time_offsets(capture.info) == {"monotonic_ns": 100 * 10**9, "boottime_ns": 200 * 10**9}


def test_a_killed_workload_gives_its_signal(tmp_path: Path) -> None:
    assert Capture(tmp_path, *QUICK, "--", "sh", "-c", "kill -KILL $$").end()[0] == 137


@pytest.mark.parametrize(("command", "status"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_commands_that_cannot_run_leave_nothing(tmp_path: Path, tracefs: Tracefs, command: str, status: int) -> None:
    with unchanged(tracefs):
        found, out, err = Capture(tmp_path, *QUICK, "--", command).end()
    assert (found, out) == (status, "")
    assert "next step: " in err
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_the_kernel_refuses_leaves_nothing(tmp_path: Path, tracefs: Tracefs) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with unchanged(tracefs):
        status, _, err = Capture(tmp_path, *QUICK, "--", "./script").end()
    assert status == 127, err
    assert not (tmp_path / "x.tracecorr").exists()


@pytest.mark.parametrize("words", [("--", "true"), ("--dry-run",)])
def test_without_root_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert main(["capture", *words]) == 3


def test_contradictions_are_refused() -> None:
    assert main(["capture"]) == 2
    assert main(["capture", "--pid", "1", "--", "true"]) == 2
    assert main(["capture", "--pid", "1", "--image", "x"]) == 2
    assert main(["capture", "--event-set", "some", "--", "true"]) == 2
    assert main(["capture", "--duration", "0", "--", "true"]) == 2


def test_too_few_open_files_are_told_and_nothing_runs(tmp_path: Path, tracefs: Tracefs) -> None:
    words = [sys.executable, "-m", "tracecorr", "capture", "-o", "x", *QUICK, "--", "touch", "ran"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    with unchanged(tracefs):
        done = subprocess.run(
            ["sh", "-c", 'ulimit -n 20; exec "$@"', "", *words], cwd=tmp_path, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "next step: raise the limit of open files (ulimit -n) and capture again"
    assert [path.name for path in tmp_path.iterdir() if path.name in ("ran", "x.tracecorr")] == []


def test_an_existing_capture_is_kept(tmp_path: Path) -> None:
    assert Capture(tmp_path, *QUICK, "--", "true").end()[0] == 0
    status, _, err = Capture(tmp_path, *QUICK, "--", "true").end()
    assert status == 2
    assert "--force" in err
    assert Capture(tmp_path, "--force", *QUICK, "--", "true").end()[0] == 0


@pytest.mark.usefixtures("tracefs")
def test_captures_that_start_within_a_second_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And two that find the same name free at the same time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda _: "20260102-030405")
    for _ in range(2):
        assert main(["capture", *QUICK, "--", "true"]) == 0
    names = ["true-20260102-030405", "true-20260102-030405-2"]
    assert sorted(path.stem for path in tmp_path.glob("*.tracecorr")) == names
    lexists, missed = os.path.lexists, [tmp_path / f"{name}.tracecorr" for name in names]
    monkeypatch.setattr(os.path, "lexists", lambda path: path not in missed[:2] and lexists(path))

    def make(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path in missed:
            missed.remove(path)
        mkdir(path, mode, parents, exist_ok)

    mkdir = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", make)
    assert main(["capture", *QUICK, "--", "true"]) == 0
    assert (tmp_path / f"{names[0]}-3.tracecorr/capture.json").exists()


def test_a_folder_that_root_cannot_write_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/proc/sys")
    words = ("--force", "-o", "out/x", *QUICK, "--", "touch", str(tmp_path / "ran"))
    status, _, err = Capture(tmp_path, *words).end()
    assert status == 3, err
    assert not (tmp_path / "ran").exists()


def test_termination_ends_both_and_closes_the_folder(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "touch started; exec sleep 60")
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGTERM)
        assert capture.end()[0] == 128 + signal.SIGTERM
    assert capture.info["state"] == "complete"
    assert "SIGTERM" in capture.info["end_reason"]


def test_the_first_interrupt_is_the_workloads_the_second_ends_the_capture(tmp_path: Path, tracefs: Tracefs) -> None:
    script = "trap 'touch interrupted' INT; touch started; while :; do sleep 0.1; done"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGINT)
        capture.wait_for("interrupted")
        time.sleep(0.3)
        assert capture.process.poll() is None
        capture.process.send_signal(signal.SIGINT)
        status = capture.process.wait(timeout=_HANGS)
    (workload,) = [p["pid"] for p in capture.info["processes"] if p["how"] == "started"]
    os.kill(workload, signal.SIGKILL)
    _, _, err = capture.end()
    assert status == 128 + signal.SIGINT, err
    assert capture.info["end_reason"] == "interrupted"


def test_a_workload_that_outlives_its_capture_takes_no_space(tmp_path: Path, tracefs: Tracefs) -> None:
    """SYNTHETIC log."""
    script = """
trap 'touch interrupted' INT; exec 3>>"$AMD_LOG_LEVEL_FILE"_$$; touch started
while :; do printf '%65535s\\n' line >&3; sleep 0.01; done
"""
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "bash", "-c", script)
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGINT)
        capture.wait_for("interrupted")
        capture.process.send_signal(signal.SIGINT)
        status = capture.process.wait(timeout=_HANGS)
    (workload,) = [p["pid"] for p in capture.info["processes"] if p["how"] == "started"]
    try:
        (file,) = [file for file in capture.info["files"] if file["source"] == "amd_log"]
        stored = capture.shown / file["path"]
        kept, log = stored.stat().st_size, Path(f"/proc/{workload}/fd/3")
        assert log.stat().st_nlink == 0
        sizes = [log.stat().st_blocks]
        while sizes[-1] >= max(sizes) and len(sizes) < 6000:
            time.sleep(0.01)
            sizes.append(log.stat().st_blocks)
        assert sizes[-1] < max(sizes)
        assert stored.stat().st_size == kept == file["size"]
    finally:
        os.kill(workload, signal.SIGKILL)
    _, _, err = capture.end()
    assert status == 128 + signal.SIGINT, err
    assert f"runs on (pid {workload}" in err  # its `sleep` has the log open, too
    (loss,) = capture.info["losses"] or [None]
    assert loss is None or loss["reason"] == "the recording had ended"


def test_a_process_that_left_its_parents_is_named_and_cannot_change_the_capture(
    tmp_path: Path, tracefs: Tracefs
) -> None:
    """SYNTHETIC log, of a daemon: the processes between it and the command ended before they were seen."""
    daemon = "echo $$ > daemon; exec 3>>${AMD_LOG_LEVEL_FILE}_7; touch started; while sleep 0.01; do echo x; done >&3"
    script = f"(setsid sh -c '{daemon}' </dev/null >/dev/null 2>&1 &) & wait; until [ -e started ]; do sleep 0.01; done"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        status, _, err = capture.end()
    pid = int((tmp_path / "daemon").read_text())
    try:
        assert (status, capture.info["state"]) == (0, "complete"), err
        assert f"the command has ended, but it left processes that go on: {pid} (sh)" in err
        (file,) = [file for file in capture.info["files"] if file["source"] == "amd_log"]
        time.sleep(0.5)
        assert (capture.shown / file["path"]).stat().st_size == file["size"]
    finally:
        os.kill(pid, signal.SIGKILL)
    assert pid in {seen["pid"] for seen in capture.info["processes"]}


def test_a_workload_that_removes_its_logs_gets_a_complete_capture(tmp_path: Path, tracefs: Tracefs) -> None:
    script = """
folder=$(dirname "$AMD_LOG_LEVEL_FILE"); echo line > "$folder/hip_1"; sleep 3; rm "$folder/hip_1"
mkdir "$folder/strange"; ln -s /etc/passwd "$folder/link"
"""
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        status, _, err = capture.end()
    assert (status, capture.info["state"]) == (0, "complete"), err
    assert [(loss["path"], loss["bytes"]) for loss in capture.info["losses"]] == [("raw/amd_log/hip_1", 5)]
    assert sum("was no plain file" in problem for problem in capture.info["problems"]) == 2


def test_a_quit_is_the_workloads(tmp_path: Path, tracefs: Tracefs) -> None:
    script = "trap 'exit 9' QUIT; touch started; while :; do sleep 0.1; done"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGQUIT)
        status, _, err = capture.end()
    assert (status, capture.info["state"]) == (9, "complete"), err


def test_a_duration_ends_the_recording_and_not_the_workload(tmp_path: Path) -> None:
    script = "touch started; until [ -e seen ]; do sleep 0.05; done; exit 5"
    capture = Capture(tmp_path, "--duration", "0.3", *QUICK, "--", "sh", "-c", script)
    capture.wait_for("started")
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    status, _, err = capture.end()
    assert status == 5
    assert "--duration 0.3 s is over" in err
    start, stop = (capture.info[key]["monotonic"] for key in ("start", "stop"))
    assert stop - start >= 300_000_000


def test_kill_ends_the_workload_with_the_recording(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "--duration", "0.2", "--kill", *QUICK, "--", "sleep", "60")
    assert capture.end()[0] == 128 + signal.SIGTERM


def test_too_little_space_ends_the_recording(tmp_path: Path) -> None:
    script = "touch started; until [ -e seen ]; do sleep 0.05; done"
    capture = Capture(tmp_path, "--min-free-gb", "1000000", *QUICK, "--", "sh", "-c", script)
    capture.wait_for("started")
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    status, _, err = capture.end()
    assert status == 0
    assert "GB are free where the capture lands (--min-free-gb 1e+06)" in err
    assert capture.info["state"] == "complete"


def test_a_delay_starts_the_trace_later(tmp_path: Path) -> None:
    script = "touch started; until [ -e seen ]; do sleep 0.05; done"
    capture = Capture(tmp_path, "--delay", "0.5", "--duration", "0.5", *QUICK, "--", "sh", "-c", script)
    capture.wait_for("started")
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    assert capture.end()[0] == 0
    assert capture.info["end_reason"] == "--duration 0.5 s is over"
    started = next(p["seen_ns"] for p in capture.info["processes"] if p["how"] == "started")
    assert capture.info["start"]["monotonic"] - started >= 450_000_000


def test_a_signal_starts_the_trace(tmp_path: Path) -> None:
    script = "touch started; until [ -e go ]; do sleep 0.05; done"
    capture = Capture(tmp_path, "--start-on-signal", *QUICK, "--", "sh", "-c", script)
    capture.wait_for("started")
    assert "start" not in capture.info
    capture.process.send_signal(signal.SIGUSR1)
    capture.wait_until(lambda: "start" in capture.info)
    (tmp_path / "go").touch()
    assert capture.end()[0] == 0
    assert capture.info["start"]["monotonic"] > 0


def test_a_trace_that_never_started_is_said(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "--start-on-signal", *QUICK, "--", "true")
    status, _, err = capture.end()
    assert status == 0
    assert "the kernel trace was never started" in err


def test_a_log_beyond_its_limit_is_cut_and_counted(tmp_path: Path) -> None:
    line = ":3:x.cpp :1 : 100 us: [pid:7 tid: 0x7f00] hipInit ( 0 )"
    script = (
        f"import os, time\nf = open(os.environ['AMD_LOG_LEVEL_FILE'] + '_7', 'a')\n"
        f"n = 0\nwhile n < 30 or not os.path.exists('seen'):\n    n += 1\n    f.write(({line!r} + '\\n') * 2000)\n"
        "    f.flush()\n    time.sleep(0.05)\nopen('count', 'w').write(str(2000 * n))\n"
    )
    capture = Capture(tmp_path, "--max-log-gb", "0.0005", *QUICK, "--", sys.executable, "-c", script)
    capture.wait_until(lambda: (capture.shown / "raw/amd_log/hip_7").exists())
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    status, _, err = capture.end()
    assert status == 0, err
    assert "--max-log-gb" in err
    count = int((tmp_path / "count").read_text())
    (loss,) = capture.info["losses"]
    kept = (capture.shown / "raw/amd_log/hip_7").read_bytes()
    assert len(kept) >= 500_000
    assert kept.endswith(b"\n")
    assert kept.count(b"\n") + loss["records"] == count
    assert len(kept) + loss["bytes"] == count * (len(line) + 1)


def test_attaching_to_a_running_process(tmp_path: Path, tracefs: Tracefs) -> None:
    workload = subprocess.Popen(["sh", "-c", "while :; do sleep 0.05; done"])
    try:
        with unchanged(tracefs):
            capture = Capture(tmp_path, "--duration", "0.5", *QUICK, "--pid", str(workload.pid))
            status, _, err = capture.end()
        assert status == 0, err
        assert workload.poll() is None
        assert capture.info["where"] == f"process {workload.pid}"
        assert "a running one cannot be told to log" in err
        assert workload.pid in {thread["tid"] for thread in capture.info["threads"]}
        assert capture.info["events"] > 0
    finally:
        workload.kill()
        workload.wait()


def test_the_log_that_a_running_process_writes_is_copied(tmp_path: Path, tracefs: Tracefs) -> None:
    """SYNTHETIC log, of a child, without its last line that is not whole yet; it may have no name any more."""
    place = tmp_path / "log"
    place.mkdir()
    script = """
(exec 3>>"$AMD_LOG_LEVEL_FILE"_7; printf 'one\\ntwo\\nthr' >&3; rm "$AMD_LOG_LEVEL_FILE"_7; touch ready; sleep 600)
sleep 600
"""
    environment = {**os.environ, "AMD_LOG_LEVEL_FILE": str(place / "mine"), "AMD_LOG_LEVEL": "5"}
    workload = subprocess.Popen(["sh", "-c", script], cwd=place, env=environment, start_new_session=True)
    try:
        while not (place / "ready").exists():
            time.sleep(0.01)
        with unchanged(tracefs):
            capture = Capture(tmp_path, "--duration", "0.3", *QUICK, "--pid", str(workload.pid))
            status, _, err = capture.end()
            (tmp_path / "x.tracecorr").rename(tmp_path / "first.tracecorr")
            capture = Capture(tmp_path, "--duration", "0.3", "--max-log-gb", "0.000000001", *QUICK,
                              "--pid", str(workload.pid))  # fmt: skip
            _, _, refused = capture.end()
    finally:
        os.killpg(workload.pid, signal.SIGKILL)
        workload.wait()
    assert status == 0, err
    assert (tmp_path / "first.tracecorr/raw/amd_log/mine_7").read_bytes() == b"one\ntwo\n"
    assert "HIP log: 1 file(s)" in err
    assert "the log mine_7 of the process is not copied: it has 8 bytes" in refused
    assert list((tmp_path / "x.tracecorr/raw/amd_log").iterdir()) == []


def test_a_process_whose_program_cannot_be_told_is_attached_to(
    tmp_path: Path, tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a security module protects it."""

    def refuse(path: Path) -> Path:
        if path == exe:
            raise PermissionError(13, "Permission denied", str(path))
        return readlink(path)

    workload = subprocess.Popen(["sleep", "600"])
    exe, readlink, stat = Path(f"/proc/{workload.pid}/exe"), Path.readlink, os.stat
    monkeypatch.setattr(Path, "readlink", refuse)
    monkeypatch.setattr(os, "stat", lambda path, **named: refuse(Path(path)) if path == exe else stat(path, **named))
    monkeypatch.chdir(tmp_path)
    try:
        with unchanged(tracefs):
            status = main(["capture", "-o", "x", "--duration", "0.2", *QUICK, "--pid", str(workload.pid)])
        assert status == 0
    finally:
        workload.kill()
        workload.wait()


def test_attaching_to_what_is_no_process_leaves_nothing(tmp_path: Path, tracefs: Tracefs) -> None:
    ended = subprocess.Popen(["true"])
    while Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with unchanged(tracefs):
            found = {pid: Capture(tmp_path, *QUICK, "--pid", str(pid)).end() for pid in (ended.pid, thread.native_id)}
    finally:
        over.set()
        thread.join()
        ended.wait()
    assert [status for status, _, _ in found.values()] == [3, 3]
    assert f"there is no process {ended.pid}, or it has ended" in found[ended.pid][2]
    assert f"next step: tracecorr capture --pid {os.getpid()}" in found[thread.native_id][2]
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ends_before_it_is_recorded_is_no_capture(
    tmp_path: Path, tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    workload = subprocess.Popen(["sleep", "600"])

    def end_it(session: Session) -> None:
        workload.kill()
        workload.wait()
        release(session)

    release = Session._release
    monkeypatch.setattr(Session, "_release", end_it)
    monkeypatch.chdir(tmp_path)
    with unchanged(tracefs):
        assert main(["capture", "-o", "x", *QUICK, "--pid", str(workload.pid)]) == 3
    assert f"there is no process {workload.pid}, or it has ended" in capfd.readouterr().err
    assert list(tmp_path.glob("*.tracecorr")) == []


def test_without_a_process_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.chdir(tmp_path)
    assert main(["capture", "-o", "x", *QUICK, "--", "true"]) == 3
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_the_end_of_a_recording_is_told_before_its_buffers_are_emptied(tmp_path: Path) -> None:
    """Reading them takes longer than many a workload; the marks at its end are the last that it records."""
    capture = Capture(tmp_path, *QUICK, "--", "sleep", "0.2")
    assert capture.end()[0] == 0
    samples = json.loads((capture.shown / "raw/clock.json").read_text())["samples"]
    last = max(sample["mono1"] for sample in samples if sample["label"] == "end")
    assert capture.info["start"]["monotonic"] + 200_000_000 < capture.info["stop"]["monotonic"] < last


def test_after_sigkill_the_folder_opens_and_clean_restores(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "touch started; exec sleep 60")
        capture.wait_for("started")
        time.sleep(0.3)
        (workload,) = _children(capture.process.pid)
        capture.process.kill()
        # It has the capture's output open, too.
        os.kill(workload, signal.SIGKILL)
        capture.end()
        assert capture.info["state"] == "recording"
        verb = [sys.executable, "-m", "tracecorr"]
        environment = {**os.environ, "PYTHONPATH": str(REPO)}
        subprocess.run([*verb, "clean"], check=True, env=environment, capture_output=True)
    done = subprocess.run([*verb, "correlate", capture.shown], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert capture.info["state"] == "killed"
    assert any(entry["form"] == "pages" for entry in capture.info["files"])


def test_tables_that_cannot_be_built_change_no_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("not foreseen")

    monkeypatch.setattr("tracecorr.pipeline.correlate", fail)
    monkeypatch.chdir(tmp_path)
    assert main(["capture", "-o", "x", "--event-set", "minimal", "--quiet", "--", "sh", "-c", "exit 7"]) == 7
    said = capfd.readouterr().err
    assert "the tables were not built: ValueError: not foreseen" in said
    assert "next step: tracecorr correlate" in said


def test_two_captures_at_once(tmp_path: Path, tracefs: Tracefs) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with unchanged(tracefs):
        captures = [Capture(folder, *QUICK, "--", "sh", "-c", "sleep 1; exit 4") for folder in folders]
        assert [capture.end()[0] for capture in captures] == [4, 4]
    assert all(capture.info["events"] > 0 for capture in captures)


def test_a_full_disk_ends_the_recording_and_the_folder_opens(tmp_path: Path, tracefs: Tracefs) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", disk], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        script = "touch started; dd if=/dev/zero of=fill bs=64k 2>/dev/null; sleep 1; rm -f fill; exit 6"
        with unchanged(tracefs):
            capture = Capture(disk, "--min-free-gb", "0", *QUICK, "--", "sh", "-c", script)
            status, _, err = capture.end()
        assert status in (6, 125), err
        assert capture.info["state"] == "complete"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_disk_that_stays_full_has_room_for_the_end_of_the_capture(tmp_path: Path, tracefs: Tracefs) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        script = "touch started; dd if=/dev/zero of=fill bs=4k 2>/dev/null; sleep 1; ls -R / >/dev/null 2>&1; exit 6"
        with unchanged(tracefs):
            capture = Capture(disk, "--min-free-gb", "0", "--no-correlate", "-q", "--", "sh", "-c", script)
            status, _, err = capture.end()
        info = capture.info
        assert (status, info["state"], info["exit_status"]) == (125, "complete", 6), err
        assert any("the trace could not be written" in problem for problem in info["problems"])
        assert "the disk is full: what the HIP runtime could not write is missing" in err
        assert err.splitlines()[-1].startswith("next step: make room on its disk; ")
        assert not (capture.shown / ".capture.json.new").exists()
    finally:
        subprocess.run(["umount", disk], check=True)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
