"""A kernel trace that leaves as `trace.dat` is read by trace-cmd itself, with as many events."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tracecorr.cli import app
from tracecorr.export.trace_dat import write_kernel_trace
from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.read.ftrace.trace_dat import read_trace_dat
from tracecorr.store import Capture

FORMS = Path(__file__).parents[1] / "read" / "ftrace" / "forms"
# Records of the recordings: as many as lines of their text that start a record.
COUNTS = {"syscalls": 37, "raw_syscalls": 107}


@pytest.fixture(scope="session")
def trace_cmd() -> str:
    """Return trace-cmd; without it skip, or fail where nothing may be skipped."""
    found = shutil.which("trace-cmd")
    if found:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail("trace-cmd is not installed")
    pytest.skip("trace-cmd is not installed: apt install trace-cmd")


def _report(trace_cmd: str, path: Path) -> list[str]:
    run = subprocess.run([trace_cmd, "report", "-i", path], capture_output=True, text=True, check=True, timeout=60)
    return [line for line in run.stdout.splitlines() if "[0" in line]


@pytest.mark.parametrize("name", COUNTS)
def test_trace_cmd_reads_as_many_events(tmp_path: Path, trace_cmd: str, name: str) -> None:
    capture = import_files(tmp_path / "x.tracecorr", [], [FORMS / name / "raw"], clock="mono")
    correlate(capture.path)
    path = tmp_path / "x.dat"
    run = CliRunner().invoke(app, ["export", str(capture.path), "--to", "trace.dat", "-o", str(path)])
    assert run.exit_code == 0, run.output
    lines = _report(trace_cmd, path)
    assert len(lines) == COUNTS[name]
    assert "a-b c(d) [1] x" in lines[0]


def test_trace_cmd_reads_several_buffers(tmp_path: Path, trace_cmd: str) -> None:
    folders = [FORMS / "syscalls" / "raw", FORMS / "raw_syscalls" / "raw"]
    capture = import_files(tmp_path / "x.tracecorr", [], folders, clock="mono")
    path = tmp_path / "x.dat"
    with path.open("wb") as out:
        assert write_kernel_trace(capture, out) == ["0", "1"]
    assert len(_report(trace_cmd, path)) == sum(COUNTS.values())
    text = subprocess.run([trace_cmd, "dump", "--summary", path], capture_output=True, text=True, check=True).stdout
    assert '[buffer "1", "mono" clock, 4096 page size, 2 cpus' in text


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    capture = import_files(tmp_path / "x.tracecorr", [], [FORMS / "syscalls" / "raw"], clock="mono")
    out = io.BytesIO()
    write_kernel_trace(capture, out)
    data = out.getvalue()
    blocks = list(read_trace_dat(lambda at, size: data[at : at + size], len(data), 3))
    assert sum(b.ledger["bytes"].sum() for b in blocks) == len(data)
    assert sum(b.ledger["records"].sum() for b in blocks) == COUNTS["syscalls"]
    (tmp_path / "y.dat").write_bytes(data)
    again = import_files(tmp_path / "y.tracecorr", [], [tmp_path / "y.dat"])
    copy = io.BytesIO()
    assert write_kernel_trace(again, copy) == ["0-y.dat"] and copy.getvalue() == data


def test_pages_behind_links_are_imported(tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    shutil.copytree(FORMS / "syscalls" / "raw", folder)
    for path in folder.glob("cpu*.bin"):
        path.unlink()
        path.symlink_to(FORMS / "syscalls" / "raw" / path.name)
    capture = import_files(tmp_path / "x.tracecorr", [], [folder], clock="mono")
    pages = [entry for entry in capture.info["files"] if entry["form"] == "pages"]
    assert [Path(entry["path"]).name for entry in pages] == ["cpu0.bin", "cpu1.bin"]
    assert not any((capture.path / entry["path"]).is_symlink() for entry in pages)


def test_a_text_cannot_become_a_trace_dat(tmp_path: Path) -> None:
    text = import_files(tmp_path / "x.tracecorr", [], [FORMS / "syscalls" / "standard.txt"])
    with pytest.raises(InputError, match="a text cannot become"):
        write_kernel_trace(text, io.BytesIO())
    run = CliRunner().invoke(app, ["export", str(text.path), "--to", "trace.dat", "--start", "1s"])
    assert run.exit_code != 0 and Capture.open(text.path).info["files"]
