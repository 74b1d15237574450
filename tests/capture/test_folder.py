"""The folder of a recording: root writes nowhere else, whatever the user does in it."""

from __future__ import annotations

import errno
import json
import os
import resource
from dataclasses import asdict
from pathlib import Path

import pytest

from tracecorr.analyze.run_facts import describe_run
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.tracefs.journal import this_process
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.model.errors import CaptureError, InputError, TracecorrError
from tracecorr.store import Capture
from tracecorr.store.recording import describe_state, list_raw_files

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})


def test_it_opens_as_a_capture(tmp_path: Path) -> None:
    folder = RecordingFolder.create(tmp_path / "a.tracecorr", ME)
    folder.write_info({"state": "recording", "files": []})
    assert Capture.open(tmp_path / "a.tracecorr").info["state"] == "recording"


def test_only_a_capture_is_replaced(tmp_path: Path) -> None:
    shown = tmp_path / "a.tracecorr"
    RecordingFolder.create(shown, ME).write_info({"files": []})
    with pytest.raises(CaptureError, match="already exists"):
        RecordingFolder.create(shown, ME)
    RecordingFolder.create(shown, ME, force=True)
    foreign = tmp_path / "b.tracecorr"
    foreign.mkdir()
    with pytest.raises(CaptureError, match="is no capture"):
        RecordingFolder.create(foreign, ME, force=True)
    (tmp_path / "c.tracecorr").symlink_to(shown)
    with pytest.raises(CaptureError):
        RecordingFolder.create(tmp_path / "c.tracecorr", ME, force=True)


def test_what_is_left_of_a_capture_that_recorded_nothing_is_replaced(tmp_path: Path) -> None:
    shown = tmp_path / "a.tracecorr"
    RecordingFolder.create(shown, ME).write_text("raw/topology/nodes/1/gpu_id", "7\n")
    with pytest.raises(CaptureError, match="already exists"):
        RecordingFolder.create(shown, ME)
    RecordingFolder.create(shown, ME, force=True)
    assert not (shown / "raw/topology").exists()


@pytest.mark.parametrize("name", ["notes.txt", "raw/notes.txt", "raw/amd_log/hip_7", "raw/ftrace/gpu/cpu0.bin"])
def test_a_folder_with_anything_else_in_it_is_kept(tmp_path: Path, name: str) -> None:
    shown = tmp_path / "a.tracecorr"
    RecordingFolder.create(shown, ME).write_text(name, "precious\n")
    with pytest.raises(CaptureError, match="is no capture"):
        RecordingFolder.create(shown, ME, force=True)
    assert (shown / name).read_text() == "precious\n"


def test_one_that_is_recorded_now_is_kept_and_one_that_was_killed_is_not(tmp_path: Path) -> None:
    shown = tmp_path / "a.tracecorr"
    folder = RecordingFolder.create(shown, ME)
    folder.write_info({"state": "recording", "recorder": asdict(this_process())})
    with pytest.raises(CaptureError, match="is being recorded now"):
        RecordingFolder.create(shown, ME, force=True)
    folder.write_info({"state": "recording", "recorder": {**asdict(this_process()), "started": 1}})
    RecordingFolder.create(shown, ME, force=True)
    assert not (shown / "capture.json").exists()


def test_a_recording_that_was_killed_is_not_told_as_one_that_goes_on() -> None:
    def told(**more: int) -> list[str]:
        info = {"state": "recording", "recorder": {**asdict(this_process()), **more}}
        return [line for line in describe_run(info, describe_state(info)) if line.startswith("state: ")]

    assert told() == ["state: recording"]
    killed = "state: recording, but by no process of this machine: if it was killed, tracecorr correlate completes it"
    assert told(started=1) == [killed]


@pytest.mark.parametrize(("number", "status"), [(errno.EROFS, 2), (errno.EACCES, 2), (errno.ENOSPC, 1)])
def test_a_place_that_takes_no_folder_has_the_status_that_it_has_for_other_verbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tracecorr.capture.folder._make", refuse)
    with pytest.raises(TracecorrError, match="cannot write") as caught:
        RecordingFolder.create(tmp_path / "a.tracecorr", ME)
    assert caught.value.exit_code == status


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="there is no folder"):
        RecordingFolder.create(tmp_path / "no" / "a.tracecorr", ME)


def test_a_path_that_is_no_text_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """No table could be written there: it was told only after the recording."""
    place = tmp_path / os.fsdecode(b"caf\xe9")
    place.mkdir()
    for shown in (place / "a.tracecorr", tmp_path / os.fsdecode(b"\xe9.tracecorr")):
        with pytest.raises(InputError, match="is no path in UTF-8"):
            RecordingFolder.create(shown, ME)
    assert [list(place.iterdir()), list(tmp_path.iterdir())] == [[], [place]]


def test_writes_stay_in_the_folder_when_it_is_replaced(tmp_path: Path) -> None:
    shown, trap = tmp_path / "a.tracecorr", tmp_path / "trap"
    folder = RecordingFolder.create(shown, ME)
    trap.mkdir()
    shown.rename(tmp_path / "moved")
    shown.symlink_to(trap)
    folder.write_text("raw/clock.json", "{}")
    folder.open_new("raw/ftrace/gpu/cpu0.bin").close()
    assert list(trap.iterdir()) == []
    assert (tmp_path / "moved/raw/clock.json").read_text() == "{}"


def test_a_folder_of_logs_that_the_workload_took_away_is_made_again(tmp_path: Path) -> None:
    folder = RecordingFolder.create(tmp_path / "a.tracecorr", ME)
    logs = tmp_path / "a.tracecorr/raw/amd_log"
    logs.rmdir()
    assert folder.seal_logs({os.geteuid()}) == []
    assert logs.is_dir()


def test_raw_files_are_found_by_their_places(tmp_path: Path) -> None:
    folder = RecordingFolder.create(tmp_path / "a.tracecorr", ME)
    for name in ("raw/amd_log/hip_7", "raw/ftrace/gpu/cpu0.bin", "raw/ftrace/gpu/events/sched/x/format",
                 "raw/clock.json", "raw/hqd/0-mqds.txt", "raw/ftrace/gpu/.half"):  # fmt: skip
        folder.write_text(name, json.dumps(name))
    found = {(e["path"], e["source"], e["form"]) for e in list_raw_files(tmp_path / "a.tracecorr")}
    assert found == {
        ("raw/amd_log/hip_7", "amd_log", "log"),
        ("raw/ftrace/gpu/cpu0.bin", "ftrace", "pages"),
        ("raw/ftrace/gpu/events/sched/x/format", "ftrace", "description"),
        ("raw/clock.json", "tracecorr", "clock_samples"),
        ("raw/hqd/0-mqds.txt", "hqd", "dump"),
    }


@pytest.mark.parametrize("write", ["write_text", "write_once", "write_bytes"])
def test_a_file_that_the_disk_does_not_take_whole_is_not_there(tmp_path: Path, write: str) -> None:
    folder, before = RecordingFolder.create(tmp_path / "a.tracecorr", ME), resource.getrlimit(resource.RLIMIT_FSIZE)
    content = b"x" * 9000 if write == "write_bytes" else "x" * 9000
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            getattr(folder, write)("raw/ftrace/gpu/header_page", content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list_raw_files(folder.path) == []
    getattr(folder, write)("raw/ftrace/gpu/header_page", content)
    assert [entry["size"] for entry in list_raw_files(folder.path)] == [9000]
