"""Shared by the tests of captures: a folder for journals, the tracing folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine_state import need_tracefs

from tracecorr.capture.tracefs import Tracefs


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the journals of tests apart from those of real captures."""
    folder = tmp_path / "run"
    monkeypatch.setenv("TRACECORR_RUN", str(folder))
    return folder


@pytest.fixture
def tracefs() -> Tracefs:
    """Return the tracing folder of this machine, or skip."""
    return need_tracefs()
