"""What a capture knows by itself reaches the tables: losses, processes, threads, a recording that was killed."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.run_facts import describe_run
from tracecorr.api import open_capture
from tracecorr.capture.tracefs.journal import start_time
from tracecorr.cli.console import open_capture as open_named
from tracecorr.link.threads.thread_map import ROBUST_LIST_OFFSET, SeenIdentities, map_threads
from tracecorr.model import schema
from tracecorr.model.errors import CaptureError
from tracecorr.pipeline import correlate
from tracecorr.store import Capture, write_info
from tracecorr.store.recording import describe_state, list_raw_files

LINE = ":3:hip_module.cpp           :825 : 2496504193 us: [pid:{pid} tid: {tid:#x}]  hipInit ( 0 ) \n"
TID = 0x7FB85B569880


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "x.tracecorr"
    (path / "raw/amd_log").mkdir(parents=True)
    (path / "raw/amd_log/hip_7").write_text(LINE.format(pid=7, tid=TID))
    return path


def test_a_killed_recording_is_completed(folder: Path) -> None:
    write_info(folder, {"state": "recording", "recorder": {"pid": os.getpid(), "started": 1}, "files": []})
    correlate(folder)
    capture = Capture.open(folder)
    assert capture.info["state"] == "killed"
    assert "killed" in capture.info["problems"][0]
    assert [entry["path"] for entry in capture.info["files"]] == ["raw/amd_log/hip_7"]
    assert capture.table("events").collect().height == 1


def test_a_recorder_whose_parent_does_not_look_is_dead(folder: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as recorder:
        info = {"state": "recording", "recorder": {"pid": recorder.pid, "started": start_time(recorder.pid)}}
        write_info(folder, {**info, "files": []})
        with pytest.raises(CaptureError, match="is being recorded now"):
            correlate(folder)
        recorder.kill()
        os.waitid(os.P_PID, recorder.pid, os.WEXITED | os.WNOWAIT)
        correlate(folder)
    assert Capture.open(folder).info["state"] == "killed"


@pytest.mark.parametrize("state", ["recording", "killed", "complete"])
def test_what_a_killed_recorder_was_about_to_write_goes(folder: Path, state: str) -> None:
    write_info(
        folder, {"state": state, "recorder": {"pid": os.getpid(), "started": 1}, "files": list_raw_files(folder)}
    )
    left = [folder / ".capture.json.new", folder / "raw/.clock.json.new"]
    for path in left:
        path.write_bytes(bytes(9))
    (folder / "raw/amd_log/.hip_8.new").symlink_to(folder / "capture.json")
    correlate(folder)
    assert [path for path in left if path.exists()] == []
    assert (folder / "raw/amd_log/.hip_8.new").is_symlink()


def test_what_a_recorder_keeps_for_its_end_stays_while_it_lives(folder: Path) -> None:
    recorder = {"pid": os.getpid(), "started": start_time(os.getpid())}
    write_info(folder, {"state": "complete", "recorder": recorder, "files": list_raw_files(folder)})
    (folder / ".capture.json.new").write_bytes(bytes(9))
    correlate(folder)
    assert (folder / ".capture.json.new").exists()


def test_a_capture_that_failed_says_why(folder: Path) -> None:
    failed = {"state": "failed", "failure": "No space left on device", "files": list_raw_files(folder)}
    write_info(folder, failed)
    correlate(folder)
    capture = Capture.open(folder)
    assert capture.info["state"] == "failed"
    said = "the capture failed: No space left on device"
    assert f"state: {said}" in [*describe_run(capture.info)]
    assert describe_state(capture.info) == said


def test_a_log_that_grows_after_its_recorder_was_killed_is_read_as_far_as_it_is_listed(folder: Path) -> None:
    log = folder / "raw/amd_log/hip_7"
    write_info(folder, {"state": "complete", "files": list_raw_files(folder)})
    with log.open("a") as more:
        more.write(LINE.format(pid=7, tid=TID) * 2)
    correlate(folder)
    assert _count(folder) == (1, len(LINE.format(pid=7, tid=TID)))
    # What a program wrote on belongs to the capture where nobody was left to end it.
    write_info(folder, {**Capture.open(folder).info, "state": "killed"})
    correlate(folder)
    assert _count(folder) == (3, log.stat().st_size)
    capture = Capture.open(folder)
    assert capture.table("files").collect()["size"].to_list() == [log.stat().st_size]


def _count(folder: Path) -> tuple[int, int]:
    """Return how many events a capture has, and the bytes that its ledger accounts for."""
    capture = Capture.open(folder)
    return capture.table("events").collect().height, capture.table("ledger").collect()["bytes"].sum()


def test_a_running_recording_is_left_alone(folder: Path) -> None:
    recorder = {"pid": os.getpid(), "started": start_time(os.getpid())}
    write_info(folder, {"state": "recording", "recorder": recorder, "files": []})
    with pytest.raises(CaptureError, match="is being recorded"):
        correlate(folder)


def test_a_capture_without_tables_says_what_to_wait_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To build them while it is recorded is refused, so it is no advice."""
    monkeypatch.chdir(folder.parent)
    running, gone = ({"pid": os.getpid(), "started": start_time(os.getpid()) + n} for n in (0, 1))
    cases = (
        ("recording", running, "wait for the end of its capture; the page shows it meanwhile: tracecorr serve x"),
        ("complete", running, "wait for the end of its capture"),
        ("complete", gone, "build them: tracecorr correlate x"),
    )
    for state, recorder, hint in cases:
        write_info(folder, {"state": state, "recorder": recorder, "files": []})
        for read in (open_capture, partial(open_named, Path("x"))):
            with pytest.raises(CaptureError, match="has no tables yet") as error:
                read("x") if read is open_capture else read()
            assert error.value.next_step.removesuffix(".tracecorr") == hint


def test_a_log_may_have_any_name(folder: Path) -> None:
    """The workload names it; tables and terminals take text in UTF-8 only."""
    log = folder / "raw/amd_log/hip_7"
    log.rename(log.with_name(os.fsdecode(b"hip\xff_7")))
    write_info(folder, {"state": "recording", "recorder": {"pid": os.getpid(), "started": 1}, "files": []})
    correlate(folder)
    capture = Capture.open(folder)
    assert capture.table("files").collect()["path"].to_list() == [capture.file_path(0)] == [r"raw/amd_log/hip\xff_7"]
    assert capture.table("events").collect().height == 1
    assert capture.raw(0, 0, 3) == b":3:"


def test_what_a_capture_dropped_is_in_ledger_and_losses(folder: Path) -> None:
    loss = {"source": "amd_log", "path": "raw/amd_log/hip_7", "reason": "the recording had ended", "bytes": 99,
            "records": 3, "from_ns": 5, "to_ns": 9}  # fmt: skip
    size = (folder / "raw/amd_log/hip_7").stat().st_size
    entry = {"file": 0, "path": "raw/amd_log/hip_7", "source": "amd_log", "form": "log", "size": size, "checksum": ""}
    write_info(folder, {"state": "complete", "files": [entry], "losses": [loss]})
    correlate(folder)
    capture = Capture.open(folder)
    lost = capture.table("ledger").filter(pl.col("outcome").cast(pl.String) == "lost").collect()
    assert lost.select("file", "records", "bytes").rows() == [(0, 3, 0)]
    assert capture.table("losses").select("from_ns", "to_ns", "count").collect().rows() == [(5, 9, 3)]


def test_numbers_of_a_pid_namespace_are_translated() -> None:
    """Synthetic: process 7 of a container is 4000 on the host; its thread was read from the kernel."""
    log = schema.PART_EVENTS.conform(pl.DataFrame({"file": [0, 0], "pid": [7, 7], "tid": [TID, TID + 64]}))
    rows = {"tid": [4000, 4001], "pid": [4000, 4000], "layer": ["ioctl", "syscall"], "name": ["x", "y"]}
    trace = schema.PART_EVENTS.conform(pl.DataFrame(rows))
    seen = SeenIdentities(
        pl.DataFrame({"pid": [4000], "log_pid": [7]}),
        pl.DataFrame({"tid": [4001], "robust_list": pl.Series([TID + 64 + ROBUST_LIST_OFFSET], dtype=pl.UInt64)}),
    )
    found = map_threads(log, trace, seen)
    assert found.processes.select("pid", "log_pid").rows() == [(4000, 7)]
    assert found.threads.drop_nulls("log_tid").select("tid", "log_tid", "how").rows() == [
        (None, TID, None), (4001, TID + 64, "get_robust_list"),
    ]  # fmt: skip
