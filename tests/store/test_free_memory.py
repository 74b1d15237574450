"""Memory that a machine tells it has, in SYNTHETIC files of the kernel's forms, and rows that do not fit into it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tracecorr.cli import main
from tracecorr.model.errors import MachineError
from tracecorr.pipeline import correlate
from tracecorr.store import free_memory
from tracecorr.store.free_memory import available_memory_bytes, free_memory_bytes, refuse_hopeless

SAMPLE = Path(__file__).parents[2] / "samples" / "t1-streams.tracecorr"
MEMINFO = "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\nSwapFree: {swap} kB\n"
GB4 = 4_000_000 * 1024


def _tell(monkeypatch: pytest.MonkeyPatch, folder: Path, meminfo: str, limit: str = "max") -> None:
    (folder / "meminfo").write_text(meminfo)
    (folder / "own").write_text("0::/a\n")
    (folder / "groups" / "a").mkdir(parents=True, exist_ok=True)
    (folder / "groups" / "a" / "memory.max").write_text(limit + "\n")
    monkeypatch.setattr(free_memory, "_MEMINFO", folder / "meminfo")
    monkeypatch.setattr(free_memory, "_OWN_CGROUP", folder / "own")
    monkeypatch.setattr(free_memory, "_CGROUPS", folder / "groups")


@pytest.mark.parametrize(
    ("meminfo", "limit", "free"),
    [
        (MEMINFO.format(swap=0), "max", GB4),
        (MEMINFO.format(swap=1000), "max", GB4 + 1000 * 1024),
        (MEMINFO.format(swap=0), str(2**30), 2**30),
        (MEMINFO.format(swap=0), str(2**40), GB4),
        ("", "max", None),
    ],
)
def test_free_is_what_the_machine_and_the_cgroup_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meminfo: str, limit: str, free: int | None
) -> None:
    _tell(monkeypatch, tmp_path, meminfo, limit)
    assert free_memory_bytes() == free


def test_what_the_kernel_does_not_tell_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tell(monkeypatch, tmp_path, "")
    assert available_memory_bytes() == 0
    refuse_hopeless(10**12)


def test_the_last_row_that_fits_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tell(monkeypatch, tmp_path, MEMINFO.format(swap=0))
    refuse_hopeless(GB4 // 200)
    with pytest.raises(MachineError, match=r"linking 20,480,001 rows takes at least 4\.1 GB of memory"):
        refuse_hopeless(GB4 // 200 + 1)


def test_a_capture_without_room_keeps_its_files_and_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "sample.tracecorr"
    shutil.copytree(SAMPLE, capture)
    correlate(capture)
    before = {path: path.read_bytes() for path in sorted(capture.rglob("*")) if path.is_file()}
    _tell(monkeypatch, tmp_path, MEMINFO.format(swap=0), limit="1000")
    assert main(["correlate", str(capture)]) == MachineError.exit_code
    told = capsys.readouterr().err
    assert "GB of memory" in told
    assert "next step: correlate it on a machine with more memory" in told
    assert {path: path.read_bytes() for path in sorted(capture.rglob("*")) if path.is_file()} == before
