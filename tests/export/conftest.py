"""A recorded capture that all tests of exports share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


@pytest.fixture(scope="session")
def capture(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a recorded run of several threads with graph launches; no test changes it."""
    folder = data_folder / "captures" / "mt-threads"
    out = tmp_path_factory.mktemp("export") / "x.tracecorr"
    made = import_files(out, [folder / "amd.log"], [folder / "ftrace.txt"], clock_samples=folder / "clock.json")
    correlate(made.path)
    return made
