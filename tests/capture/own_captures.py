"""Captures of small commands that run in processes of their own, for the tests of whole captures."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from machine_state import read_state

from tracecorr.capture.tracefs.control import Tracefs

REPO = Path(__file__).resolve().parents[2]
HANGS = 600  # seconds: only what hangs takes that long
QUICK = ("--event-set", "minimal", "--no-correlate", "--quiet")


class Capture:
    """A capture that runs in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.shown = folder / "x.tracecorr"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tracecorr", "capture", "-o", "x", *words], cwd=folder, text=True,
            env={**os.environ, "PYTHONPATH": str(REPO)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str, str]:
        """Return status, stdout and stderr."""
        out, err = self.process.communicate(timeout=HANGS)
        return self.process.returncode, out, err

    def wait_for(self, name: str) -> None:
        """Wait until the workload has made a file."""
        self.wait_until((self.folder / name).exists)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, while the capture runs."""
        for _ in range(HANGS * 100):
            if holds():
                return
            assert self.process.poll() is None, self.end()
            time.sleep(0.01)
        pytest.fail("it did not come true")

    def has_ended_recording(self) -> bool:
        """Tell whether its instances are gone."""
        names = os.listdir("/sys/kernel/tracing/instances")  # noqa: PTH208
        return not any(name.startswith(f"tracecorr_{self.process.pid}_") for name in names)

    @property
    def info(self) -> dict[str, Any]:
        """Return capture.json."""
        found: dict[str, Any] = json.loads((self.shown / "capture.json").read_text())
        return found


@contextlib.contextmanager
def unchanged(tracefs: Tracefs) -> Iterator[None]:
    """Check that the machine is afterwards as it was before."""
    before = read_state(tracefs)
    yield
    assert read_state(tracefs) == before
