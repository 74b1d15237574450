"""Tables that root builds in a user's capture folder: the user's, who can build them again."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.capture import make_parts_folder, write_info

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can work in another user's folder")
USER, GROUP = 47110, 47111


@pytest.fixture
def capture(repo: Path) -> Iterator[Path]:
    """Return a sample in a folder of a user, who can reach it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "t1-streams.tracecorr"
        copytree(repo / "samples" / path.name, path)
        give(path, USER, GROUP)
        yield path


def give(path: Path, uid: int, gid: int) -> None:
    """Give a folder and all in it to a user."""
    for each in (path, *path.rglob("*")):
        os.chown(each, uid, gid)


def correlate_as_user(repo: Path, capture: Path) -> None:
    """Build the tables as the user, who may read (the interpreter may lie in root's home) but not write everything."""
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    become = ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups", *reads]
    words = [sys.executable, "-m", "tracecorr", "correlate", str(capture)]
    environment = {**os.environ, "PYTHONPATH": str(repo), "HOME": str(capture.parent)}
    done = subprocess.run([*become, *words], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr


def test_all_that_root_writes_is_the_users(capture: Path) -> None:
    before = os.umask(0o077)
    try:
        correlate(capture)
    finally:
        os.umask(before)
    owners = {(each.stat().st_uid, each.stat().st_gid) for each in capture.rglob("*")}
    assert owners == {(USER, GROUP)}
    assert (capture / "views" / "pyramid" / "index.json").is_file()


def test_a_link_to_a_file_of_another_is_not_given_away(capture: Path) -> None:
    victim = capture.parent / "victim"
    victim.write_text("root's")
    parts = capture / f".tables.{os.getpid()}" / "parts"
    parts.mkdir(parents=True)
    (parts / "soft").symlink_to(victim)
    (parts / "hard").hardlink_to(victim)
    correlate(capture)
    assert victim.stat().st_uid == 0


def test_the_user_replaces_tables_that_root_had_made(repo: Path, capture: Path) -> None:
    correlate(capture)
    give(capture / "tables", 0, 0)
    give(capture / "views" / "pyramid", 0, 0)
    correlate_as_user(repo, capture)
    assert {each.stat().st_uid for each in (capture / "tables").rglob("*")} == {USER}
    assert Capture.open(capture).table("events").collect().height > 0


def test_root_follows_no_link_that_the_user_left_in_place_of_what_it_writes(capture: Path) -> None:
    """Names of what takes the place of older files hold the number of the process, which can be guessed."""
    theirs = capture.parent / "of root"
    theirs.mkdir()
    (theirs / "file").write_text("precious")
    (capture / f".capture.json.{os.getpid()}").symlink_to(theirs / "file")
    write_info(capture, Capture.open(capture).info)
    (capture / f".tables.{os.getpid()}").symlink_to(theirs)
    with pytest.raises(FileExistsError):
        make_parts_folder(capture)
    assert [path.name for path in theirs.iterdir()] == ["file"]
    assert (theirs / "file").read_text() == "precious"


def test_a_description_for_which_there_is_no_room_leaves_nothing(capture: Path) -> None:
    before, names = resource.getrlimit(resource.RLIMIT_FSIZE), {path.name for path in capture.iterdir()}
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_info(capture, {"files": []} | {"command": ["x"] * 100})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in capture.iterdir()} == names
