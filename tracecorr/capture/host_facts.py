"""Facts about the machine that a capture keeps: kernel, CPUs, driver, GPUs."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from tracecorr.capture.folder import RecordingFolder

_TOPOLOGY = Path("/sys/class/kfd/kfd/topology")
_DRIVER = Path("/sys/module/amdgpu")
_ROCM_VERSION = Path("/opt/rocm/.info/version")
_CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "monotonic_raw": time.CLOCK_MONOTONIC_RAW,
           "boottime": time.CLOCK_BOOTTIME, "realtime": time.CLOCK_REALTIME}  # fmt: skip


def read_host() -> dict[str, Any]:
    """Return name, kernel, machine, CPUs and driver version."""
    system = platform.uname()
    return {
        "name": system.node, "kernel": system.release, "machine": system.machine, "cpus": os.cpu_count(),
        "driver": _text(_DRIVER / "version") or _text(_DRIVER / "srcversion"), "rocm": _text(_ROCM_VERSION),
    }  # fmt: skip


def read_all_clocks() -> dict[str, int]:
    """Return all clocks of the kernel at this moment, in ns."""
    return {name: time.clock_gettime_ns(clock) for name, clock in _CLOCKS.items()}


def copy_topology(folder: RecordingFolder) -> None:
    """Copy the KFD's topology into `raw/topology`."""
    nodes = sorted((_TOPOLOGY / "nodes").glob("[0-9]*"))
    for path in (*_TOPOLOGY.glob("*"), *(file for node in nodes for file in node.rglob("*"))):
        if path.is_file():
            folder.write_text(f"raw/topology/{path.relative_to(_TOPOLOGY)}", _text(path, strip=False))


def _text(path: Path, *, strip: bool = True) -> str:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return text.strip() if strip else text
