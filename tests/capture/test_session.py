"""Whole captures of small commands: statuses, streams, when they start, and what is left after each."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from own_captures import HANGS, QUICK, REPO, Capture, unchanged

from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.cli import main
from tracecorr.store.recording import seen_time_offsets

pytestmark = pytest.mark.usefixtures("capturing")


def test_status_and_streams_pass_through(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        status, out, err = capture.end()
    assert (status, out) == (7, "out\n")
    assert "err\n" in err
    assert capture.info["exit_status"] == 7
    assert capture.info["state"] == "complete"


def test_a_workload_that_a_signal_ended_is_told(tmp_path: Path) -> None:
    """No shell tells it: tracecorr ends with its status, and not by the signal."""
    words = [word for word in QUICK if word != "--quiet"]
    status, _, err = Capture(tmp_path, *words, "--", "sh", "-c", "kill -SEGV $$").end()
    assert status == 128 + signal.SIGSEGV
    assert "the workload ended with status 139, as after SIGSEGV (Segmentation fault)\n" in err


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
    assert capture.process.wait(timeout=HANGS) == 4
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


def test_a_capture_may_have_more_files_open_than_select_takes(tmp_path: Path) -> None:
    """One on 384 CPUs opens two for each of them and each instance before it waits for anything."""
    many = (
        "import os, resource, sys; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard));"
        "[os.set_inheritable(os.open('/dev/null', os.O_RDONLY), True) for _ in range(1100)];"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    words = ["-m", "tracecorr", "capture", "-o", "x", *QUICK, "--", "sh", "-c", "sleep 0.5; exit 4"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run([sys.executable, "-c", many, *words], cwd=tmp_path, env=environment, check=False)
    info = json.loads((tmp_path / "x.tracecorr/capture.json").read_text())
    assert (done.returncode, info["state"]) == (4, "complete")


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
    events = pl.read_parquet(capture.shown / "tables" / "events.parquet", columns=["layer", "pid"])
    of_ours = events.filter(pl.col("pid") == capture.process.pid)["layer"].cast(pl.String)
    assert not {"syscall", "ioctl"} & set(of_ours)


def test_among_process_numbers_of_its_own_nothing_is_captured(tmp_path: Path, tracefs: Tracefs) -> None:
    """The kernel would trace strangers by the numbers of the workload, as seen from a container."""
    inside = ("unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine makes no pid namespaces")
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    for words in (
        ["capture", "-o", "x", *QUICK, "--", "touch", "ran"],
        ["capture", "--dry-run", "--", "true"],
        ["doctor"],
    ):
        call = [*inside, sys.executable, "-m", "tracecorr", *words]
        with unchanged(tracefs):
            done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done
        assert "its own PID namespace" in done.stdout + done.stderr
        assert "--pid=host" in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] in ([], ["run"])


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
    assert status == 2, err
    assert not (tmp_path / "ran").exists()


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
    assert sum("is no log of the workload" in problem for problem in capture.info["problems"]) == 2


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


def test_without_a_process_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.chdir(tmp_path)
    assert main(["capture", "-o", "x", *QUICK, "--", "true"]) == 3
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_two_captures_at_once(tmp_path: Path, tracefs: Tracefs) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with unchanged(tracefs):
        captures = [Capture(folder, *QUICK, "--", "sh", "-c", "sleep 1; exit 4") for folder in folders]
        assert [capture.end()[0] for capture in captures] == [4, 4]
    assert all(capture.info["events"] > 0 for capture in captures)
