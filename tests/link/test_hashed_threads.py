"""Logs that print a hash in the place of a thread's address, as ROCm's development branch of 2026 does (SYNTHETIC)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_ADDRESS, _RING = 0x7FB85B569880, 0x3C00000
_MADE = f"Created SWq=0x220000 to map on HWq={_RING:#x} with size 16384 with priority 1, cooperative: 0"
_LINES = (
    (10, 3, "\x1b[32m hipStreamCreate ( 0x7ffc ) \x1b[0m"),
    (20, 3, "Number of allocated hardware queues with low priority: 0, with normal priority: 0, "
            "with high priority: 0, maximum per priority is: 4"),
    (90, 3, _MADE),
    (99, 3, "hipStreamCreate: Returned hipSuccess : 0x55c431a2a210"),
)  # fmt: skip
_RECORDS = (
    (1, f"sys_set_robust_list(head: {_ADDRESS + 0x2E0:#x}, len: 0x18)"),
    (2, "sys_set_robust_list -> 0x0"),
    (30, "sys_ioctl(fd: 4, cmd: 0xc0604b02, arg: 0x7ffc)"),
    (31, f"kcq: (kfd_ioctl_create_queue+0x4/0x570 [amdgpu]) ring={_RING:#x} size=1048576 gpu=0xf7bc qtype=2 prio=7"),
    (40, "sys_ioctl -> 0x0"),
)


def _processes(folder: Path, tid: int) -> list[tuple[int | None, int | None]]:
    """Return pid and log_pid of the processes of a log whose lines print a thread, and of the trace of a pid alike."""
    prefix = ":{}:rocdevice.cpp            :2952: {:010d} us: [pid:10 tid: 0x{:05x}] {}\n"
    (folder / "amd.log").write_text("".join(prefix.format(n, 5_000_000_000 + at, tid, text) for at, n, text in _LINES))
    record = "  python-11   (     10) [000] .....  5000.{:06d}: {}\n"
    text = "".join(record.format(at, body) for at, body in _RECORDS)
    (folder / "trace.txt").write_text(f"# tracer: nop\n#\n{text}")
    import_files(folder / "x.tracecorr", [folder / "amd.log"], [folder / "trace.txt"], clock="mono")
    correlate(folder / "x.tracecorr")
    rows = Capture.open(folder / "x.tracecorr").table("processes").select("pid", "log_pid").collect().rows()
    return [(pid, log_pid) for pid, log_pid in rows]


@pytest.mark.parametrize(
    ("tid", "found"),
    [
        (_ADDRESS, [(10, 10)]),
        (0x0A1B2, [(10, 10)]),
        # The thread that made the queue has another address than all of the log: that is of another run.
        (_ADDRESS + 0x100000, [(None, 10), (10, None)]),
    ],
    ids=["address", "hash", "address of another run"],
)
def test_a_hash_tells_not_that_a_trace_is_of_another_run(
    tmp_path: Path, tid: int, found: list[tuple[int | None, int | None]]
) -> None:
    assert _processes(tmp_path, tid) == found
