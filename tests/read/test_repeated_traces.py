"""Two kernel traces of one buffer are refused; pieces that follow each other are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


def _correlate(folder: Path, traces: Sequence[Path]) -> Capture:
    capture = import_files(folder / "x.tracecorr", [], traces, clock="mono")
    correlate(capture.path)
    return capture


@pytest.fixture
def recorded(data_folder: Path) -> Path:
    return data_folder / "captures" / "caseA-1stream"


def _pieces(trace: Path, folder: Path, *spans: tuple[float, float]) -> list[Path]:
    """Write the lines of a trace between two shares of them, each time below its head."""
    lines = trace.read_text().splitlines(keepends=True)
    head = [line for line in lines if line.startswith("#") and "entries" not in line]
    body = [line for line in lines if not line.startswith("#")]
    for number, (low, high) in enumerate(spans):
        part = body[int(low * len(body)) : int(high * len(body))]
        (folder / f"{number}.txt").write_text("".join(head + part))
    return [folder / f"{number}.txt" for number in range(len(spans))]


def test_a_recording_in_two_forms_is_refused(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"raw/ftrace/0-ftrace.txt and raw/ftrace/1 hold the same records") as raised:
        _correlate(tmp_path, [recorded / "ftrace.txt", recorded / "raw"])
    assert raised.value.next_step.startswith("import one of them")
    assert not (tmp_path / "x.tracecorr" / "tables").exists()


def test_pieces_that_overlap_are_refused(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hold the same records"):
        _correlate(tmp_path, _pieces(recorded / "ftrace.txt", tmp_path, (0, 0.55), (0.5, 1)))


def test_pieces_that_follow_each_other_are_read(recorded: Path, tmp_path: Path) -> None:
    capture = _correlate(tmp_path, _pieces(recorded / "ftrace.txt", tmp_path, (0, 0.5), (0.5, 1)))
    ledger = capture.table("ledger").collect()
    assert ledger["file"].n_unique() == 2
    assert ledger["bytes"].sum() == sum(entry["size"] for entry in capture.info["files"])
