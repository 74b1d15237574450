"""Two traces of one buffer are refused: their events would count twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


def _cut(recorded: Path, out: Path, low: float, high: float) -> Path:
    lines = recorded.read_bytes().splitlines(keepends=True)
    head = [line for line in lines if line.startswith(b"#")]
    rest = lines[len(head) :]
    out.write_bytes(b"".join([*head, *rest[int(low * len(rest)) : int(high * len(rest))]]))
    return out


def test_two_pieces_that_overlap_are_refused(data_folder: Path, tmp_path: Path) -> None:
    trace = data_folder / "captures" / "streams-priority" / "ftrace.txt"
    pieces = [_cut(trace, tmp_path / "a.txt", 0.0, 0.6), _cut(trace, tmp_path / "b.txt", 0.5, 1.0)]
    import_files(tmp_path / "x.tracecorr", [], pieces, clock="mono")
    with pytest.raises(InputError, match=r"a\.txt and .*b\.txt hold the same records \(\d+\)") as told:
        correlate(tmp_path / "x.tracecorr")
    assert "import one of them" in str(told.value.next_step)


def test_a_text_of_recorded_pages_is_refused(data_folder: Path, tmp_path: Path) -> None:
    recorded = data_folder / "captures" / "streams-priority"
    import_files(tmp_path / "x.tracecorr", [], [recorded / "raw", recorded / "ftrace.txt"], clock="mono")
    with pytest.raises(InputError, match="two copies of one trace"):
        correlate(tmp_path / "x.tracecorr")


def test_pieces_that_follow_each_other_are_one_trace(data_folder: Path, tmp_path: Path) -> None:
    trace = data_folder / "captures" / "streams-priority" / "ftrace.txt"
    pieces = [_cut(trace, tmp_path / "a.txt", 0.0, 0.5), _cut(trace, tmp_path / "b.txt", 0.5, 1.0)]
    import_files(tmp_path / "x.tracecorr", [], pieces, clock="mono")
    correlate(tmp_path / "x.tracecorr")
    assert len(Capture.open(tmp_path / "x.tracecorr").table("events").collect()) > 100
