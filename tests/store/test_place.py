"""A new capture replaces only what was given up: another capture, and none that is being recorded."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tracecorr.model.errors import CaptureError
from tracecorr.pipeline import import_files, make_dataset
from tracecorr.store.fleet import begin_fleet, finish_fleet
from tracecorr.store.new_folder import check_place

LOG = ":3:hip_api.cpp :1 : 5 us: [pid:7 tid:0x7f0000000000] hipInit ( 0 )\n"


def _describe(folder: Path, **info: object) -> Path:
    folder.mkdir()
    (folder / "capture.json").write_text(json.dumps({"format": 1, "files": [], **info}))
    return folder


def _record(folder: Path, *, lives: bool = True) -> Path:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    recorder = {"pid": os.getpid(), "started": started if lives else started + 1}
    return _describe(folder, state="recording", recorder=recorder)


def test_only_a_capture_is_replaced_and_only_when_it_is_asked_for(tmp_path: Path) -> None:
    made, other = _describe(tmp_path / "a.tracecorr"), tmp_path / "b"
    other.mkdir()
    check_place(tmp_path / "new.tracecorr", force=False)
    check_place(made, force=True)
    for path, force, why in ((made, False, "already exists"), (other, False, "already exists"), (other, True, "is no")):
        with pytest.raises(CaptureError, match=why):
            check_place(path, force=force)
    with pytest.raises(CaptureError, match="there is no folder"):
        check_place(tmp_path / "no" / "a.tracecorr", force=True)


def test_a_link_is_followed_only_where_that_is_said(tmp_path: Path) -> None:
    made, link, nowhere = _describe(tmp_path / "a.tracecorr"), tmp_path / "link.tracecorr", tmp_path / "nowhere"
    link.symlink_to(made)
    nowhere.symlink_to(tmp_path / "gone")
    for path in (link, nowhere):
        check_place(path, force=True)
        with pytest.raises(CaptureError, match="is no capture"):
            check_place(path, force=True, follow_links=False)


def test_a_capture_that_is_being_recorded_is_replaced_by_no_import_and_no_dataset(tmp_path: Path) -> None:
    recorded, member = _record(tmp_path / "a.tracecorr"), _describe(tmp_path / "b.tracecorr")
    log = tmp_path / "amd.log"
    log.write_text(LOG)
    with pytest.raises(CaptureError, match="is being recorded now"):
        import_files(recorded, [log], [], force=True)
    with pytest.raises(CaptureError, match="is being recorded now"):
        make_dataset([member], recorded, force=True)
    assert json.loads((recorded / "capture.json").read_text())["state"] == "recording"


def test_a_dataset_takes_the_place_where_a_link_leads_and_loses_nothing_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, link = _describe(tmp_path / "a.tracecorr", nodes=["an old one"]), tmp_path / "link.tracecorr"
    link.symlink_to(made)
    stage = begin_fleet([], link, force=True)
    replace = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if path == stage:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return replace(path, target)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output"):
        patch.setattr(Path, "replace", refuse)
        finish_fleet(stage, link, [])
    assert json.loads((made / "capture.json").read_text())["nodes"] == ["an old one"]
    assert finish_fleet(stage, link, []).info["nodes"] == []
    assert link.is_symlink() and sorted(path.name for path in tmp_path.iterdir()) == [made.name, link.name]


def test_what_a_killed_recording_left_and_what_is_damaged_may_be_replaced(tmp_path: Path) -> None:
    check_place(_record(tmp_path / "a.tracecorr", lives=False), force=True)
    damaged = _describe(tmp_path / "b.tracecorr")
    (damaged / "capture.json").write_text("{")
    check_place(damaged, force=True)
