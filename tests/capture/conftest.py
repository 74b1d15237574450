"""Shared by the tests of captures: a folder for journals, the tracing folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine_state import need_tracefs

from tracecorr.capture.tracefs.control import Tracefs


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


@pytest.fixture
def capturing() -> None:
    """Skip where this machine allows no captures."""
    if os.geteuid() != 0:
        pytest.skip("a capture needs root")
    need_tracefs()


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 48 MiB, or of the size that is given as a parameter."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    size = f"size={getattr(request, 'param', '48m')}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", place], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"tmpfs cannot be mounted: {done.stderr.decode()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


# Exports what a HSA runtime exports; its signals have the layout of amd_hsa_signal.h.
_HSA_LIBRARY = """
#include <stdint.h>
int hsa_queue_create(void *a, uint32_t s, int t) { return 0; }
static volatile int64_t sink;
void hsa_signal_store_relaxed(void *signal, int64_t value) { sink = value + 1; }
void hsa_signal_store_screlease(void *signal, int64_t value) { sink = value; }
"""


@pytest.fixture(scope="module")
def hsa_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that is a HSA runtime by what it exports, not by its name."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "x.c").write_text(_HSA_LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", "libunusual.so", "x.c"], cwd=folder, check=True)
    return folder / "libunusual.so"
