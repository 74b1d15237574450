"""SYNTHETIC logs and traces with a number that cannot be in each place of each line: all are read, none goes wrong."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import polars as pl
import pytest

from tracecorr import open_capture
from tracecorr.pipeline import correlate, import_files

_LOG = """\
\x1b[32m hipMalloc ( 0x7f5100, 4096 ) \x1b[0m
Allocate hsa device memory 0x1428400000, size 4096
hipMalloc: Returned hipSuccess : 0x1401e80000: duration: 1 us
Created SWq=0x22000 to map on HWq=0x3c00000 with size 16384 with priority 1, cooperative: 0
Command (KernelExecution) enqueued: 0x51 to queue: 0x66
SWq=0x22000, HWq=0x3c00000, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), setup=1, \
grid=[64, 2, 1], workgroup=[64, 1, 1], private_seg_size=8, group_seg_size=64, kernel_obj=0x1000, \
kernarg_address=0x1400, completion_signal=0x80, correlation_id=0, rptr=0, wptr=0
HSA Copy copy_engine=0x1, dst=0x302d, src=0x302a, size=64, forceSDMA=1, engineType=4, wait_event=0x0, \
completion_signal=0x90
Signal = (0x80), Translated start/end = 5000003000 / 5000004000, Elapsed = 1000 ns, ticks start/end = 3 / 4, \
Ticks elapsed = 1, Engine = 0
Command 0x51 complete (Wall: 5000009, CPU: 0, GPU: 3 us)
""".splitlines()
_TRACE = """\
sys_ioctl(fd: 0x4, cmd: 0xc0604b02, arg: 0x7ffd)
create_queue: (kfd_ioctl_create_queue+0x0/0x10 [amdgpu]) ring=0x3c00000 size=1048576 type=2 prio=7
sys_ioctl -> 0x0
sys_mmap(addr: 0x0, len: 0x2000, prot: 0x3, flags: 0x22, fd: 0x4, off: 0x1000)
sys_mmap -> 0x7f0000
sys_clone(clone_flags: 0x3d0f00, newsp: 0x7f51, parent_tidptr: 0x7f52, child_tidptr: 0x7f53, tls: 0x7f54)
sys_clone -> 0x2bd
sched_process_fork: comm=a pid=700 child_comm=a child_pid=701
doorbell: (0x7f91946c11c0) sig=0x7ffb80 val=0
tracing_mark_write: clock_sync id=0 mono=5000009000
CPU:0 [LOST 3 EVENTS]
""".splitlines()
_NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-f]+|\d+)\b")
_ABSURD = (
    "18446744073709551615",
    "9223372036854775808",
    "4294967296",
    "9" * 30,
    "0xffffffffffffffff",
    "0x1" + "0" * 16,
)


def _spoil(lines: list[str], turn: int) -> list[str]:
    """Return the lines, and each of them again with a number in each place: with the next one in the next place."""
    numbers = itertools.islice(itertools.cycle(_ABSURD), turn, None)
    places = ((line, at) for line in lines for at in _NUMBER.finditer(line))
    spoiled = [line[: at.start()] + next(numbers) + line[at.end() :] for line, at in places]
    return [*lines, *spoiled, *lines]


@pytest.mark.parametrize("number", [0, 3])
def test_a_number_that_cannot_be_spoils_nothing_else(number: int, tmp_path: Path) -> None:
    log = [f":5:rocvirtual.cpp :1165: {5_000_000 + n:010d} us: [pid:700 tid: 0x7f0a] {line}"
           for n, line in enumerate(_spoil(_LOG, number))]  # fmt: skip
    trace = [
        f"  app-700   (    700) [000] .....     5.{n:06d}: {line}" for n, line in enumerate(_spoil(_TRACE, number))
    ]
    # In what stands before the message, too.
    log = [*log, *(line.split("] ")[0] + "] " + _LOG[0] for line in _spoil(log[:1], number))]
    trace = [*trace, *_spoil(trace[:3], number)]
    (tmp_path / "amd.log").write_text("\n".join(log) + "\n")
    (tmp_path / "trace.txt").write_text("# tracer: nop\n#\n" + "\n".join(trace) + "\n")
    import_files(tmp_path / "x.tracecorr", [tmp_path / "amd.log"], [tmp_path / "trace.txt"], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    capture = open_capture(tmp_path / "x.tracecorr")
    events = capture.events.collect()
    assert {"hipMalloc", "dispatch", "AMDKFD_IOC_CREATE_QUEUE", "mmap"} <= set(events["name"].cast(pl.String))
    assert events.filter((pl.col("dur_ns") < 0) | (pl.col("size_bytes") < 0)).is_empty()
    assert set(events["size_bytes"].drop_nulls()) <= {64, 4096, 8192, 4294967296, 0x4294967296, 9223372036854775807}
    assert str(capture.report())
    capture.export_perfetto(tmp_path / "x.pftrace")
