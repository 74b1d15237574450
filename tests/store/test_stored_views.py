"""Stored views are those of the tables beside them, whatever happened while they were written."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tracecorr.model.errors import CaptureError
from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.timeline.build import build_views
from tracecorr.timeline.pyramid import read_views, write_views

_SAMPLE = Path(__file__).parents[2] / "samples" / "streams-graph.tracecorr"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "a.tracecorr"
    folder.mkdir()
    shutil.copytree(_SAMPLE / "raw", folder / "raw")
    shutil.copy(_SAMPLE / "capture.json", folder)
    correlate(folder)
    return folder


def test_views_from_before_are_gone_when_the_new_ones_have_no_room(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables have the same sizes as before, by which views are known to be theirs."""
    assert read_views(capture) is not None

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.save", fail)
    correlate(capture)
    assert read_views(capture) is None


def test_views_drawn_from_tables_in_memory_are_those_of_the_tables_on_disk(capture: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.tracecorr"
    shutil.copytree(capture, other)
    write_views(other, build_views(Capture.open(other).table))
    stored, again = (
        {path.name: path.read_bytes() for path in (folder / "views" / "pyramid").iterdir()}
        for folder in (capture, other)
    )
    assert len(stored) > 20
    assert stored == again


@pytest.mark.parametrize("name", ["samples", "hqd", "drm_jobs"])
def test_a_table_that_cannot_be_read_is_named_rather_than_left_out_of_the_picture(capture: Path, name: str) -> None:
    stored = capture / "tables" / f"{name}.parquet"
    stored.write_bytes(stored.read_bytes()[:40])
    with pytest.raises(CaptureError, match=name):
        build_views(Capture.open(capture).table)
