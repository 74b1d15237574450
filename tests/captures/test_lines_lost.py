"""Recorded logs and traces that lose few lines: the making of queues, and the longest calls, are still known."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest
from benchmarks.lost_lines import CAPTURES, find_wrong, list_links

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


@pytest.mark.parametrize(
    ("name", "calls", "queues"),
    [("caseA-1stream", 1, 2), ("caseB-4streams", 4, 5), ("mt-threads", 4, 5), ("streams-priority", 3, 4)],
)
def test_queues_keep_their_call_and_their_ioctl(
    name: str, calls: int, queues: int, data_folder: Path, tmp_path: Path
) -> None:
    """ROCr makes queues of its own in the same calls, for which the log has no line."""
    recorded, random = data_folder / "captures" / name, Random(name)
    lines = (recorded / "amd.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "amd.log").write_bytes(b"".join(line for line in lines if random.random() > 0.01))
    import_files(tmp_path / "x.tracecorr", [tmp_path / "amd.log"], [recorded / "ftrace.txt"], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    capture = Capture.open(tmp_path / "x.tracecorr")
    assert not capture.table("losses").collect().is_empty()
    creates = pl.col("name").cast(pl.String).str.starts_with("hipStreamCreate")
    assert capture.table("events").filter(creates).collect()["dur_ns"].count() == calls
    made = capture.table("queues").filter(pl.col("hwq").is_not_null()).collect()
    assert made["create_ioctl_event"].count() == made.height == queues


@pytest.mark.parametrize("name", ["caseA-1stream", "caseB-4streams", "mt-threads", "streams-priority"])
def test_the_longest_calls_keep_their_durations(name: str, data_folder: Path, tmp_path: Path) -> None:
    """One line in five hundred is missing: hardly two of one thread beside each other, which alone makes one of two."""
    recorded, random = data_folder / "captures" / name, Random(name)
    lines = (recorded / "ftrace.txt").read_bytes().splitlines(keepends=True)
    left = [line for line in lines if line.startswith(b"#") or random.random() > 0.002]
    (tmp_path / "ftrace.txt").write_bytes(b"".join(left))
    durations = []
    for trace in (recorded / "ftrace.txt", tmp_path / "ftrace.txt"):
        import_files(tmp_path / "x.tracecorr", [recorded / "amd.log"], [trace], clock="mono", force=True)
        correlate(tmp_path / "x.tracecorr")
        calls = (
            Capture.open(tmp_path / "x.tracecorr").table("events").filter(pl.col("layer").is_in(["ioctl", "syscall"]))
        )
        durations.append(calls.select(pl.col("dur_ns").sum()).collect().item())
    assert durations[1] > 0.98 * durations[0]


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize(("share", "in_pieces"), [(0.001, False), (0.02, True), (0.1, False)])
def test_no_link_is_derived_that_the_whole_capture_has_not(
    name: str, share: float, in_pieces: bool, data_folder: Path, tmp_path: Path
) -> None:
    """What lines in between were lost may make wrong is inferred, or missing."""
    recorded = data_folder / "captures" / name
    (tmp_path / "whole").mkdir()
    (tmp_path / "lossy").mkdir()
    whole = list_links(recorded, tmp_path / "whole")
    lossy = list_links(recorded, tmp_path / "lossy", share, in_pieces=in_pieces)
    wrong = find_wrong(lossy, whole)
    assert len(lossy) > len(whole) / 5
    assert wrong.filter(pl.col("evidence") != "inferred").is_empty()
    assert len(wrong) <= len(whole) / 200
