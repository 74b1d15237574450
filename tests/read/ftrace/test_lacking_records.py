"""Pages that lack records of which their counters tell: REAL pages that are cut, or of which a CPU is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.api import open_capture
from tracecorr.pipeline import correlate, import_files

_PAGE = 4096


@pytest.fixture
def pages(data_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of recorded pages: 1542 records of CPU 0 and 1810 of CPU 1."""
    return Path(shutil.copytree(data_folder / "captures" / "streams-priority" / "raw", tmp_path / "raw"))


def _cut(folder: Path, cpu: int, pages: int) -> None:
    path = folder / f"cpu{cpu}.bin"
    path.write_bytes(path.read_bytes()[: pages * _PAGE])


def _count(folder: Path, change: Callable[[dict[str, dict[str, str]]], None]) -> None:
    path = folder / "stats.json"
    stats = json.loads(path.read_text())
    change(stats)
    path.write_text(json.dumps(stats))


def _load(tmp_path: Path, *traces: Path) -> tuple[int, list[tuple[int | None, int]]]:
    """Import traces; return the records that were used, and CPU and count of each loss."""
    capture = import_files(tmp_path / "x.tracecorr", [], list(traces), clock="mono", force=True)
    correlate(capture.path)
    used = capture.table("ledger").filter(pl.col("outcome").cast(pl.String) == "used")
    losses = capture.table("losses").select("cpu", "count").collect().rows()
    return used.select(pl.col("records").sum()).collect().item(), losses


def test_pages_that_lack_records_are_said_to(pages: Path, tmp_path: Path) -> None:
    assert _load(tmp_path, pages) == (3352, [])
    _cut(pages, 1, 5)
    used, losses = _load(tmp_path, pages)
    assert 1542 < used < 3352 and losses == [(1, 3352 - used)]
    outcomes = {v.name: v.outcome.value for v in open_capture(tmp_path / "x.tracecorr").verdicts()}
    assert outcomes["nothing_lost"] == "FAIL"


def test_the_file_of_a_cpu_that_is_missing_is_said_to_lack(pages: Path, tmp_path: Path) -> None:
    (pages / "cpu0.bin").unlink()
    _count(pages, lambda stats: stats["cpu0"].update({"overrun": "7", "dropped events": "5"}))
    assert _load(tmp_path, pages) == (1810, [(0, 7), (0, 5), (0, 1542)])


def test_counters_after_the_pages_were_read_tell_of_what_left_the_buffer(pages: Path, tmp_path: Path) -> None:
    _count(pages, lambda stats: stats["cpu0"].update({"entries": "0", "read events": "1542"}))
    assert _load(tmp_path, pages) == (3352, [])
    _cut(pages, 0, 5)
    used, losses = _load(tmp_path, pages)
    assert losses == [(0, 3352 - used)] and used < 3352


def test_what_came_behind_the_recording_lacks_in_no_file(pages: Path, tmp_path: Path) -> None:
    """The counters were read later, and the trace had gone on."""
    later = {"entries": "90", "read events": "1542", "oldest event ts": " 4975.900000"}
    _count(pages, lambda stats: stats["cpu0"].update(later))
    assert _load(tmp_path, pages) == (3352, [])
    _count(pages, lambda stats: stats["cpu0"].update({"oldest event ts": " 4975.100000"}))
    assert _load(tmp_path, pages) == (3352, [(0, 90)])
