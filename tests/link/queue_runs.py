"""SYNTHETIC runs of one process that makes queues and launches into them, as a log of ROCm 7.2 and a kernel trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_PID, _TID = 100, 0x7F5190B006C0
_NONE = "low priority: 0, with normal priority: 0, with high priority: 0, maximum per priority is: 4"


@dataclass
class QueueRun:
    """Write the lines of a run; times in us."""

    now: float = 5_000_000_000.0
    log: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    streams: int = 0

    def __post_init__(self) -> None:
        self.record(f"sys_set_robust_list(head: {_TID + 0x2E0:#x}, len: 18)", "sys_set_robust_list -> 0x0")
        self.record(f"sys_set_robust_list(head: {_TID + 0x2E0:#x}, len: 24)", "sys_set_robust_list -> 0x0")
        opened = 'sys_openat(dfd: 4294967196, filename: 4689924 "/dev/kfd", flags: O_RDWR|O_CLOEXEC)'
        self.record(opened, "sys_openat -> 0x4")

    def say(self, text: str, level: int = 3) -> None:
        """Print a line of the log."""
        self.log.append(f":{level}:{'x.cpp':<25}:100 : {int(self.now):010d} us: [pid:{_PID} tid: {_TID:#x}] {text}")
        self.now += 5

    def record(self, *records: str) -> None:
        """Record lines of the trace, 20 us apart."""
        for text in records:
            self.trace.append(f"{'prog':>16}-{_PID:<7} ({_PID:>7}) [001] ..... {self.now / 1e6:12.6f}: {text}")
            self.now += 20

    def create(
        self, ring: int, made_ring: int | None, swq: int = 0x220000, *, cooperative: int = 0, size: int = 16384,
        priority: int = 1,
    ) -> int:  # fmt: skip
        """Create a stream with a queue; `made_ring` is that of the CREATE_QUEUE ioctl, None makes none."""
        self.say("\x1b[32m hipStreamCreateWithPriority ( 0x562522f9b1e0, 1, 0 ) \x1b[0m")
        self.say(f"Number of allocated hardware queues with {_NONE}")
        if made_ring is not None:
            fields = f"ring={made_ring:#x} size={size * 64} gpu=0xf7bc type=2 pct=100 prio=7"
            self.record(
                "sys_ioctl(fd: 0x4, cmd: 0xc0604b02, arg: 0x7ffd061c4300)",
                f"kfd_create_queue: (kfd_ioctl_create_queue+0x4/0x670 [amdgpu]) {fields}", "sys_ioctl -> 0x0",
            )  # fmt: skip
        made = f"Created SWq={swq:#x} to map on HWq={ring:#x} with size 16384 with priority {priority}"
        self.say(f"{made}, cooperative: {cooperative}")
        self.streams += 1
        handle = 0x562522F9B000 + 0x100 * self.streams
        self.say(f"hipStreamCreateWithPriority: Returned hipSuccess : {handle:#x}")
        return handle

    def launch(self, stream: int, ring: int, index: int, kind: int = -1) -> None:
        """Launch a kernel; the store goes to a doorbell (`kind` -1) or to a user signal (1)."""
        self.say(f"\x1b[32m hipLaunchKernel ( 0x55c3, {{16,16,1}}, {{16,16,1}}, 0x7ffc, 0, {stream:#x} ) \x1b[0m")
        self.say(f"Command (KernelExecution) enqueued: {0x55C431AF0000 + index * 64:#x} to queue: {stream:#x}", 5)
        self.say("ShaderName : vadd(float*)")
        packet = f"SWq=0x220000, HWq={ring:#x}, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2"
        packet += ", release=2), setup=1, grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0"
        packet += ", kernel_obj=0x100018a580, kernarg_address=0x1401400100, completion_signal=0x0, correlation_id=0"
        self.say(f"{packet}, rptr={index}, wptr={index}", 5)
        fields = f"sig=0x7ffb80 val={index:#x} kind={kind} hw=0x7f56 ring={ring:#x} qid=1"
        self.record(f"doorbell: (0x7f91946c11c0) {fields}")
        self.say("hipLaunchKernel: Returned hipSuccess : : duration: 30 us")

    def delete(self, ring: int) -> None:
        """Give a queue back."""
        self.say(f"Deleting hardware queue {ring:#x} with refCount 0", 5)

    def correlate(self, folder: Path, clock: str = "mono") -> Capture:
        """Return the capture of log and trace."""
        files = folder / "amd.log", folder / "ftrace.txt"
        for file, head, lines in ((files[0], "", self.log), (files[1], "# tracer: nop\n#\n", self.trace)):
            file.write_text(head + "\n".join(lines) + "\n")
        out = folder / "run.tracecorr"
        import_files(out, [files[0]], [files[1]], clock=clock, force=True)
        correlate(out)
        return Capture.open(out)
