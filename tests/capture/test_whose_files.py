"""Attacks by a workload on its log folder: root reads, changes and gives away nothing that is not the workload's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracecorr.capture.facts import mask_secrets
from tracecorr.capture.folder import RecordingFolder, return_folder, return_killed
from tracecorr.capture.hiplog.keeper import ClosedLogs, LogKeeper, close_logs
from tracecorr.capture.plan import machine
from tracecorr.capture.plan.plan import PARTLY, YES
from tracecorr.capture.tracefs.journal import Journal, new_token, read_journal
from tracecorr.capture.tracefs.undo import restore_leftovers
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.model.errors import InputError
from tracecorr.store import Capture
from tracecorr.store.followed import complete_frames, list_growing
from tracecorr.store.ownership import LOG_FOLDER
from tracecorr.store.zstd_frames import FRAME_BYTES

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

USER = 47110
CALLER = Invoker(USER, USER, (), "user", {})
SECRET = b"TOP SECRET\n"


@pytest.fixture
def folder(tmp_path: Path) -> RecordingFolder:
    """Return a recording of a user whose workload has a log and has moved files of others into the log folder."""
    made = RecordingFolder.create(tmp_path / "x.tracecorr", CALLER)
    logs = made.path / LOG_FOLDER
    os.chown(logs, USER, USER)
    plant(logs / "hip_1", b"line\n" * FRAME_BYTES, USER)
    plant(logs / "hip_root", SECRET, 0)
    plant(logs / "hip_colleague", SECRET, USER + 1)
    plant(tmp_path / "outside", SECRET, USER)
    os.link(tmp_path / "outside", logs / "hip_link")
    (logs / "hip_symlink").symlink_to(tmp_path / "outside")
    os.mkfifo(logs / "hip_pipe")
    (logs / "hip_folder").mkdir()
    plant(logs / "hip_folder/in it", SECRET, 0)
    made.write_info({"state": "recording", "caller": {"uid": USER, "gid": USER, "share": False}, "files": []})
    return made


def plant(path: Path, data: bytes, user: int) -> None:
    path.write_bytes(data)
    path.chmod(0o600)
    os.chown(path, user, user)


def close(keeper: LogKeeper, folder: RecordingFolder) -> ClosedLogs:
    launched = SimpleNamespace(logs=folder.path / LOG_FOLDER, collect=lambda _: None)
    return close_logs(keeper, launched, folder, (), 1.0)  # type: ignore[arg-type]


def check_foreign(shown: Path) -> None:
    """Check that the files of others lie unread and unchanged where root alone can see them."""
    foreign = shown / "foreign"
    names = ["hip_colleague", "hip_folder", "hip_link", "hip_pipe", "hip_root", "hip_symlink"]
    assert sorted(path.name for path in foreign.iterdir()) == names
    assert (foreign.stat().st_uid, foreign.stat().st_mode & 0o7777) == (0, 0o700)
    assert (foreign / "hip_root").read_bytes() == (foreign / "hip_folder/in it").read_bytes() == SECRET
    assert [(foreign / name).lstat().st_uid for name in ("hip_root", "hip_colleague")] == [0, USER + 1]
    assert {path.name.removesuffix(".zst") for path in (shown / LOG_FOLDER).iterdir()} == {"hip_1"}


def check_given(shown: Path) -> None:
    """Check that nothing but the files of others is root's, and that nobody else may look into it."""
    paths = [shown, *(path for path in shown.rglob("*") if "foreign" not in path.parts)]
    assert [path for path in paths if path.lstat().st_uid != USER] == []
    assert shown.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("compressed", [True, False])
def test_files_of_others_are_put_aside_and_named(folder: RecordingFolder, compressed: bool) -> None:
    keeper = LogKeeper(folder.path / LOG_FOLDER, folder.frames if compressed else None)
    keeper.refresh()
    assert keeper.names == ["hip_1"]
    keeper.cut()
    closed = close(keeper, folder)
    folder.hand_over(CALLER)
    check_foreign(folder.shown)
    check_given(folder.shown)
    assert [text.split()[0] for text in closed.problems] == sorted(
        ["hip_colleague", "hip_folder", "hip_link", "hip_pipe", "hip_root", "hip_symlink"]
    )
    with pytest.raises(InputError, match="files of other users"):
        RecordingFolder.create(folder.shown, CALLER, force=True)


def test_a_running_recording_shows_the_workloads_logs_alone(folder: RecordingFolder) -> None:
    assert list(list_growing(folder.path)) == ["hip_1"]
    assert complete_frames(folder.path) == []


def test_files_of_a_containers_other_users_are_its_logs(folder: RecordingFolder) -> None:
    keeper = LogKeeper(folder.path / LOG_FOLDER, None, lambda: frozenset({USER + 1}))
    keeper.refresh()
    assert keeper.names == ["hip_1", "hip_colleague"]


def test_no_set_uid_program_comes_out_of_the_log_folder(folder: RecordingFolder) -> None:
    folder.close_raw()
    assert (folder.path / "raw").stat().st_mode & 0o7777 == 0o700
    program = folder.path / LOG_FOLDER / "hip_1"
    program.chmod(0o6755)
    folder.seal_logs({USER})
    assert program.stat().st_mode & 0o7777 == 0o644


def test_a_container_does_not_see_the_sealed_folder(folder: RecordingFolder) -> None:
    mounted = os.open(folder.path / LOG_FOLDER, os.O_RDONLY | os.O_DIRECTORY)
    folder.seal_logs({USER})
    try:
        assert os.fstat(mounted).st_ino != (folder.path / LOG_FOLDER).stat().st_ino
        assert os.listdir(mounted) == []  # noqa: PTH208
    finally:
        os.close(mounted)


def test_the_folder_of_a_killed_capture_is_given_back(
    folder: RecordingFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracecorr.capture.tracefs.undo.mounted_tracefs", lambda: None)
    found = folder.shown.stat()
    dead = new_token().replace(f"{os.getpid()}_", f"{2**22 + 1}_", 1)
    journal = Journal.create(dead, tmp_path)
    facts = {"path": str(folder.shown), "device": found.st_dev, "uid": USER, "gid": USER, "share": False}
    journal.note("folder", token=dead, inode=found.st_ino, **facts)
    first, _, rest = journal.path.read_text().partition("\n")
    journal.path.write_text(first.replace(f'"pid": {os.getpid()}', f'"pid": {2**22 + 1}') + "\n" + rest)
    done, left = restore_leftovers(tmp_path)
    assert (len(done), left) == (1, [])
    check_foreign(folder.shown)
    check_given(folder.shown)


def test_another_folder_in_its_place_is_not_given_away(folder: RecordingFolder, tmp_path: Path) -> None:
    found = folder.shown.stat()
    folder.shown.rename(tmp_path / "away")
    folder.shown.mkdir()
    return_folder(folder.shown, USER, USER, share=False, inode=(found.st_dev, found.st_ino))
    assert folder.shown.stat().st_uid == 0
    (tmp_path / "link.tracecorr").symlink_to(tmp_path / "away")
    return_folder(tmp_path / "link.tracecorr", USER, USER, share=False)
    assert (tmp_path / "away").stat().st_uid == 0


def test_correlate_by_root_gives_a_killed_capture_back(folder: RecordingFolder) -> None:
    return_killed(folder.shown)
    check_foreign(folder.shown)
    check_given(folder.shown)
    assert Capture.open(folder.shown).info["state"] == "recording"


@pytest.mark.parametrize(("share", "mode"), [(True, 0o755), (False, 0o700)])
def test_only_a_shared_capture_is_open_to_others(share: bool, mode: int) -> None:
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        check_open_to(RecordingFolder.create(Path(place) / "x.tracecorr", CALLER, share=share), share, mode)


def check_open_to(folder: RecordingFolder, share: bool, mode: int) -> None:
    assert bool(folder.shown.stat().st_mode & 0o007) == share
    child = os.fork()
    if not child:  # the caller sees what is recorded now
        os.setresgid(USER, USER, USER)
        os.setgroups([])
        os.setresuid(USER, USER, USER)
        os._exit(0 if os.access(folder.shown / LOG_FOLDER, os.X_OK) else 1)
    assert os.waitpid(child, 0)[1] == 0
    folder.hand_over(CALLER)
    assert folder.shown.stat().st_mode & 0o7777 == mode


def test_secrets_in_commands_are_masked() -> None:
    words = ["env", "HF_TOKEN=abc", "SECRET=", "run", "--api-key", "k", "--password=p", "--max-tokens", "5", "tokens=3"]
    masked = ["env", "HF_TOKEN=***", "SECRET=", "run", "--api-key", "***", "--password=***", *words[-3:]]
    assert mask_secrets(words) == masked
    assert mask_secrets(["sh", "-c", "A_KEY=x curl --token t"]) == ["sh", "-c", "A_KEY=*** curl --token ***"]


def test_code_that_others_can_change_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "__file__", "/usr/lib/machine.py")
    monkeypatch.setattr(machine.sys, "executable", "/usr/bin/env")
    monkeypatch.setattr(machine.sys, "path", ["/usr/lib"])
    assert machine.look_at_code().state == YES
    place = tmp_path / "lib"
    place.mkdir()
    os.chown(place, USER, USER)
    monkeypatch.setattr(machine.sys, "path", ["/usr/lib", str(place)])
    found = machine.look_at_code()
    assert found.state == PARTLY
    assert f"user {USER} may write {place}" in found.why


def test_a_capture_killed_after_its_trace_was_undone_is_still_given_back(tmp_path: Path) -> None:
    """The journal keeps the folder while logs are closed and tables are built."""
    done: list[str] = []
    actions = {kind: lambda note: done.append(note["kind"]) or "" for kind in ("instance", "folder")}
    journal = Journal.create(new_token(), tmp_path)
    journal.note("folder", path="x.tracecorr")
    journal.note("instance", path="y")
    assert journal.undo(actions, but=("folder",)) == []
    assert (done, [note["kind"] for note in read_journal(journal.path)[1].notes]) == (
        ["instance"],
        ["folder", "instance"],
    )
    assert journal.undo(actions) == []
    assert (done, journal.path.exists()) == (["instance", "folder"], False)
