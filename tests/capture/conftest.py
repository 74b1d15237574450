"""Shared by the tests of captures: a folder for journals, the tracing folder."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
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
def machine_lock() -> Iterator[None]:
    """Have the machine's tracing to ourselves: two test runs would find each other's leftovers."""
    with (Path(tempfile.gettempdir()) / "tracecorr-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def tracefs(machine_lock: None) -> Tracefs:
    """Return the tracing folder of this machine, or skip."""
    del machine_lock
    return need_tracefs()
