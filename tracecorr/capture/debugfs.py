"""Read the queue dumps of the KFD from debugfs. Reading disturbs: each dump takes locks of the driver."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tracecorr.model.errors import MachineError

KFD_DEBUGFS = Path("/sys/kernel/debug/kfd")
# The kernel makes the dump again for every read that does not take all of it.
_READ_BYTES = 64 << 20


@dataclass(frozen=True)
class DumpRead:
    """One dump as it was read.

    Args:
        data: its bytes.
        start_ns, end_ns: CLOCK_MONOTONIC before and after the read.
    """

    data: bytes
    start_ns: int
    end_ns: int


def read_kfd_dump(name: str, folder: Path) -> DumpRead:
    """Read one dump with one large read.

    Args:
        name: `hqds`, `mqds` or `rls`.
        folder: where debugfs shows the KFD.

    Raises:
        MachineError: this machine has no such dump, or this user may not read it.
    """
    path = folder / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise MachineError(
            f"there is no {path}: the amdgpu driver is not loaded, debugfs is not mounted, or it was built without it",
            "load amdgpu and mount debugfs (mount -t debugfs none /sys/kernel/debug), or name a saved dump",
        ) from error
    except OSError as error:
        raise MachineError(
            f"cannot open {path}: {error.strerror}", "run it as root (sudo), or name a saved dump"
        ) from error
    try:
        return _read_all(handle, path)
    finally:
        os.close(handle)


def _read_all(handle: int, path: Path) -> DumpRead:
    parts = []
    start = time.monotonic_ns()
    try:
        while part := os.read(handle, _READ_BYTES):
            parts.append(part)
    except OSError as error:
        raise MachineError(f"cannot read {path}: {error.strerror}", "see the kernel log (dmesg)") from error
    return DumpRead(b"".join(parts), start, time.monotonic_ns())
