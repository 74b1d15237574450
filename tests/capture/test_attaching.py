"""Captures of processes that run already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from own_captures import QUICK, Capture, unchanged

from tracecorr.capture.session import Session
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.cli import main

pytestmark = pytest.mark.usefixtures("capturing")


def test_attaching_to_a_running_process(tmp_path: Path, tracefs: Tracefs) -> None:
    workload = subprocess.Popen(["sh", "-c", "while :; do sleep 0.05; done"])
    try:
        with unchanged(tracefs):
            capture = Capture(tmp_path, "--duration", "0.5", *QUICK, "--pid", str(workload.pid))
            status, _, err = capture.end()
        assert status == 0, err
        assert workload.poll() is None
        assert capture.info["where"] == f"process {workload.pid}"
        assert "cannot turn it on in a running process" in err
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
        info = json.loads((tmp_path / "x.tracecorr" / "capture.json").read_text())
        assert info["exit_status"] is None  # it runs on
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
    assert [status for status, _, _ in found.values()] == [2, 2]
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
        assert main(["capture", "-o", "x", *QUICK, "--pid", str(workload.pid)]) == 2
    assert f"there is no process {workload.pid}, or it has ended" in capfd.readouterr().err
    assert list(tmp_path.glob("*.tracecorr")) == []
