"""Stored views are those of the tables beside them, whatever happened while they were written."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tracecorr.pipeline import correlate
from tracecorr.store.views import read_views

_SAMPLE = Path(__file__).parents[2] / "samples" / "streams-graph.tracecorr"


def test_views_from_before_are_gone_when_the_new_ones_have_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables have the same sizes as before, by which views are known to be theirs."""
    capture = tmp_path / "a.tracecorr"
    capture.mkdir()
    shutil.copytree(_SAMPLE / "raw", capture / "raw")
    shutil.copy(_SAMPLE / "capture.json", capture)
    correlate(capture)
    assert read_views(capture) is not None

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.save", fail)
    correlate(capture)
    assert read_views(capture) is None
