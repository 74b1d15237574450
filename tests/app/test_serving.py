"""The verb `serve`: which captures, which machines, and the address on a line of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracecorr.cli import serve
from tracecorr.model.errors import CaptureError, InputError


@pytest.fixture
def folder(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a capture, one in ruins, and a link to one outside; it is the current one."""
    inside, outside = tmp_path / "inside", tmp_path / "outside.tracecorr"
    for path in (inside / "one.tracecorr", outside):
        shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    (inside / "ruin.tracecorr").mkdir()
    (inside / "ruin.tracecorr" / "capture.json").write_text("{")
    (inside / "link.tracecorr").symlink_to(outside)
    monkeypatch.chdir(inside)
    return inside


@pytest.mark.usefixtures("folder")
def test_captures_of_the_folder_without_links_out_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert [c.name for c in serve._captures_here()] == ["one"]
    assert "ruin.tracecorr" in capsys.readouterr().err


def test_no_capture_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError):
        serve._captures_here()


@pytest.mark.parametrize(
    ("root", "options", "refused"),
    [
        (False, {"allow_remote": False, "allow_root": False}, "ssh -L 8050"),
        (False, {"allow_remote": True, "allow_root": False}, ""),
        (True, {"allow_remote": True, "allow_root": False}, "--allow-root"),
        (True, {"allow_remote": True, "allow_root": True}, ""),
    ],
)
def test_other_machines_only_on_request(
    monkeypatch: pytest.MonkeyPatch, root: bool, options: dict[str, bool], refused: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    if not refused:
        serve._check_remote("0.0.0.0", None, **options)
        return
    with pytest.raises(InputError) as problem:
        serve._check_remote("0.0.0.0", None, **options)
    assert refused in f"{problem.value} {problem.value.next_step}"


def test_the_address_stands_on_a_line_of_its_own(folder: Path) -> None:
    command = [sys.executable, "-m", "tracecorr", "serve", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        server.terminate()
    assert line.startswith("http://127.0.0.1:") and "?token=" in line and " " not in line.strip()
