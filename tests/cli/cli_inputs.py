"""Small HIP logs and kernel traces in the formats of ROCm 7.2 and Linux 6.18."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RING = 0x3C00000


@dataclass(frozen=True)
class Result:
    """Hold what a run of the command line gave."""

    status: int
    out: str
    err: str


def write_log(path: Path, start_us: int = 5_000_000_000, pid: int = 4100, *, level: int = 5) -> Path:
    """Write a log of one kernel launch on a new stream; below level 4 its lines name no pid and tid."""
    where = f"[pid:{pid} tid: 0x7fa8c5c4f880]" if level >= 4 else ""
    steps = [
        (3, 0, "HIP Version: 7.2.53211., Direct Dispatch: 1"),
        (3, 100, "\x1b[32m hipStreamCreateWithFlags ( 0x7fffc586d450, 1 ) \x1b[0m"),
        (3, 120, "Number of allocated hardware queues with low priority: 0, with normal priority: 0, "
                 "with high priority: 0, maximum per priority is: 4"),
        (3, 900, f"Created SWq=0x220000 to map on HWq={RING:#x} with size 16384 with priority 1, cooperative: 0"),
        (3, 910, f"acquireQueue refCount: {RING:#x} (1)"),
        (3, 950, "hipStreamCreateWithFlags: Returned hipSuccess : 0x562522f9b200"),
        (3, 1000, "\x1b[32m hipLaunchKernel ( 0x55c3f7739d98, {16,1,1}, {256,1,1}, 0x7ffc7339bf50, 0, "
                  "0x562522f9b200 ) \x1b[0m"),
        (5, 1004, "Command (KernelExecution) enqueued: 0x55c431af0470 to queue: 0x562522f9b200"),
        (3, 1008, "ShaderName : vadd(float const*, float*, int)"),
        (5, 1010, f"SWq=0x220000, HWq={RING:#x}, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, "
                  "release=2), setup=1, grid=[4096, 1, 1], workgroup=[256, 1, 1], private_seg_size=0, "
                  "group_seg_size=0, kernel_obj=0x100018a580, kernarg_address=0x1401400100, completion_signal=0x0, "
                  "correlation_id=0, rptr=0, wptr=0"),
        (3, 1030, "hipLaunchKernel: Returned hipSuccess : : duration: 30 us"),
    ]  # fmt: skip
    lines = [
        f":{rank}:{'rocvirtual.cpp':<25}:{100 + rank:<4}: {start_us + us:010d} us: {where} {text}\n"
        for rank, us, text in steps
        if rank <= level
    ]
    path.write_text("".join(lines))
    return path


def write_trace(path: Path, start_us: int = 5_000_000_000, pid: int = 4100, comm: str = "vadd") -> Path:
    """Write a text trace in which the log's thread opens /dev/kfd and makes a queue."""
    steps = [
        (-50, "sys_set_robust_list(head: 0x7fa8c5c4fb60, len: 0x18)"),
        (-49, "sys_set_robust_list -> 0x0"),
        (0, "sys_openat(dfd: 0xffffff9c, filename: 0x7f394704f0b1, flags: 0x80002, mode: 0)"),
        (4, "sys_openat -> 0x3"),
        (300, "sys_ioctl(fd: 3, cmd: 0xc0584b02, arg: 0x7ffc7339b000)"),
        (700, "sys_ioctl -> 0x0"),
        (1020, "sys_ioctl(fd: 3, cmd: 0xc0184b0c, arg: 0x7ffc7339b100)"),
        (1025, "sys_ioctl -> 0x0"),
    ]
    head = f"# tracer: nop\n#\n# entries-in-buffer/entries-written: {len(steps)}/{len(steps)}   #P:2\n#\n"
    lines = [f"{comm:>16}-{pid:<7d} ({pid:7d}) [000] ..... {(start_us + us) / 1e6:12.6f}: {b}\n" for us, b in steps]
    path.write_text(head + "".join(lines))
    return path
