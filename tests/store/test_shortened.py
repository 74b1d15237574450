"""A capture folder that was not copied whole: what its raw files lack is told."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import polars as pl

from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.recording import list_missing_bytes


def test_a_file_that_lost_its_end_lacks_bytes(tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(b"12345678")
    (tmp_path / "cut").write_bytes(b"1234")
    (tmp_path / "packed").write_bytes(gzip.compress(b"12345678" * 100))
    names = ("whole", "cut", "packed", "gone")
    entries = [
        {"file": number, "source": "amd_log", "path": name, "size": 800 if name == "packed" else 8}
        for number, name in enumerate(names)
    ]
    found = list_missing_bytes(tmp_path, entries)
    assert found.select("file", "outcome", "reason", "records", "bytes").rows() == [(1, "lost", "missing_bytes", 0, 4)]


def test_an_end_that_is_missing_is_a_loss_also_where_it_begins_with_a_line(repo: Path, tmp_path: Path) -> None:
    """Nothing in the file tells it: each of its lines is whole."""
    path = tmp_path / "t1.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    assert not any("missing_bytes" in warning for warning in correlate(path))
    entry = next(e for e in Capture.open(path).info["files"] if e["source"] == "amd_log")
    log = path / entry["path"]
    lines = log.read_bytes().splitlines(keepends=True)
    log.chmod(0o644)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    lost = entry["size"] - log.stat().st_size
    assert any(f"{lost:,} bytes could not be read (missing_bytes)" in warning for warning in correlate(path))
    losses = Capture.open(path).table("losses").collect()
    assert losses.filter(pl.col("source").cast(pl.String) == "amd_log").height == 1
