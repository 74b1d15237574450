"""A way to run the command line, and small inputs for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_inputs import Result, write_log, write_trace

from tracecorr.cli import main
from tracecorr.pipeline import correlate, import_files


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs `tracecorr WORDS...` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_words(*words: object) -> Result:
        capfd.readouterr()
        status = main([str(w) for w in words])
        out, err = capfd.readouterr()
        return Result(status, out, err)

    return run_words


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Return a HIP log of level 5."""
    return write_log(tmp_path / "amd.log")


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    """Return the kernel trace of the same run."""
    return write_trace(tmp_path / "ftrace.txt")


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of a log, its trace, and both imported as `a`: tests work in a copy."""
    folder = tmp_path_factory.mktemp("imported")
    log, trace = write_log(folder / "amd.log"), write_trace(folder / "ftrace.txt")
    correlate(import_files(folder / "a.tracecorr", [log], [trace]).path)
    return folder
