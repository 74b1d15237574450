"""Cost of an import where one number grows and the lines stay the same: of logs, of threads, of queues on one ring.

The runs are SYNTHETIC: each thread makes a queue, launches, deletes the queue and goes on with the next one; the trace
has the ioctl of each creation and the store of each packet. Only the number that is named differs between two runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Cost

_HEAD = ("number of", "N", "CPU s at N", "CPU s at 2 N", "ratio", "peak MiB at N", "peak MiB at 2 N")
_START_US, _STEP_US = 5_000_000_000, 40
_CREATED = "of allocated hardware queues with low priority: 0, with normal priority: 0, with high priority: 0"


@dataclass(frozen=True)
class Counts:
    """Name how many of what a run has; its queues and launches are shared out among its threads."""

    logs: int = 1
    threads: int = 2
    queues: int = 2
    launches: int = 60_000


class _Thread:
    """One thread: its lines and its records, each with its time."""

    def __init__(self, pid: int, number: int, comm: str, start_us: int) -> None:
        self.now, self.lines, self.records = start_us, list[tuple[int, str]](), list[tuple[int, str]]()
        tid, address = pid + number, 0x7F5190000000 + number * 0x801000
        self._tail = f"us: [pid:{pid} tid: {address:#x}]"
        self._head = f"{comm:>16}-{tid:<7} ({pid:>7}) [{number % 384:03d}] .....  "
        self.record(f"sys_set_robust_list(head: {address + 0x2E0:#x}, len: 0x18)")
        self.record("sys_set_robust_list -> 0x0")
        self._ring, self._stream = 0x3C00000 + number * 0x400000, 0x55C431A2A210 + number * 0x1000
        self._command = 0x55C431AF0000 + number * 0x8000
        self._made = 0

    def say(self, level: int, site: str, text: str) -> None:
        self.now += 3
        self.lines.append((self.now, f":{level}:{site:<30}: {self.now:010d} {self._tail} {text}\n"))

    def record(self, text: str) -> None:
        self.now += 1
        self.records.append((self.now, f"{self._head}{self.now // 10**6}.{self.now % 10**6:06d}: {text}\n"))

    def use_queue(self, launches: int) -> None:
        """Make the thread's queue, launch, and delete it."""
        self._made += 1
        queue = f"SWq={self._ring + 64:#x}, HWq={self._ring:#x}, id={self._made},"
        self.say(3, "hip_stream.cpp:298", "\x1b[32m hipStreamCreateWithPriority ( 0x7f519107ec68, 1, 0 ) \x1b[0m")
        self.say(3, "rocdevice.cpp:2871", f"Number {_CREATED}, maximum per priority is: 4")
        self.record("sys_ioctl(fd: 4, cmd: 0xc0604b02, arg: 0x7ffd061c4300)")
        place = "(kfd_ioctl_create_queue+0x4/0x670 [amdgpu])"
        self.record(f"kfd_create_queue: {place} ring={self._ring:#x} size=1048576 gpu=0x2 type=2 pct=100 prio=7")
        self.now += 300
        self.record("sys_ioctl -> 0x0")
        made = f"Created SWq={self._ring + 64:#x} to map on HWq={self._ring:#x} with size 16384 with priority 1"
        self.say(3, "rocdevice.cpp:2952", f"{made}, cooperative: 0")
        self.say(3, "hip_stream.cpp:313", f"hipStreamCreateWithPriority: Returned hipSuccess : {self._stream:#x}")
        for index in range(launches):
            self._launch(queue, index)
        self.say(3, "hip_stream.cpp:298", f"\x1b[32m hipStreamDestroy ( {self._stream:#x} ) \x1b[0m")
        self.say(3, "rocdevice.cpp:3090", f"Deleting hardware queue {self._ring:#x} with refCount 0")
        self.say(3, "hip_stream.cpp:313", "hipStreamDestroy: Returned hipSuccess : ")

    def _launch(self, queue: str, index: int) -> None:
        call = f"0x55f911829d50, {{1,1,1}}, {{256,1,1}}, 0x7f519107ece0, 0, {self._stream:#x}"
        self.say(3, "hip_module.cpp:825", f"\x1b[32m hipLaunchKernel ( {call} ) \x1b[0m")
        command = f"{self._command + index % 32 * 0x2A0:#x}"
        self.say(5, "command.cpp:364", f"Command (KernelExecution) enqueued: {command} to queue: {self._stream:#x}")
        self.say(3, "rocvirtual.cpp:3631", "ShaderName : vadd(float const*, float const*, float*, int)")
        text = f"{queue} Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=3, grid=[256, 1, 1]"
        text += ", workgroup=[256, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x1000197d80"
        text += ", kernarg_address=0x10001bf000, completion_signal=0x0, correlation_id=0"
        self.say(5, "rocvirtual.cpp:1165", f"{text}, rptr={max(index - 3, 0)}, wptr={index}")
        where = f"swq={self._ring + 64:#x} ring={self._ring:#x} qid={self._made}"
        self.record(f"doorbell: (0x7f91946c11c0) sig={self._ring:#x} val={index:#x} kind=-1 hw=0x7f5600000008 {where}")
        self.say(3, "hip_module.cpp:826", "hipLaunchKernel: Returned hipSuccess : ")
        self.now += _STEP_US


def write_run(folder: Path, counts: Counts) -> tuple[list[Path], Path]:
    """Write a synthetic run; return its logs and its trace."""
    folder.mkdir()
    threads, queues = counts.threads // counts.logs, counts.queues // counts.threads
    records: list[tuple[int, str]] = []
    logs = []
    for log in range(counts.logs):
        own = list(_live(log, threads, queues, counts))
        logs.append(folder / f"amd-{log}.log")
        logs[-1].write_text("".join(text for _, text in sorted(line for thread in own for line in thread.lines)))
        records += [record for thread in own for record in thread.records]
    trace = folder / "ftrace.txt"
    head = f"# tracer: nop\n#\n# entries-in-buffer/entries-written: {len(records)}/{len(records)}   #P:384\n#\n"
    trace.write_text(head + "".join(text for _, text in sorted(records, key=lambda record: record[0])))
    return logs, trace


def _live(log: int, threads: int, queues: int, counts: Counts) -> Iterator[_Thread]:
    """Yield the threads of one process; each lives as long as the lines that it prints."""
    for number in range(threads):
        thread = _Thread(10_000 + log * (threads + 2), number, f"hip{log}", _START_US + 97 * number)
        for _ in range(queues):
            thread.use_queue(counts.launches // counts.queues)
        yield thread


def _import(folder: Path, counts: Counts, runs: int) -> Cost:
    logs, trace = write_run(folder, counts)
    words = [word for log in logs for word in ("--amd-log", str(log))]
    out = str(folder / "x.tracecorr")
    command = [sys.executable, "-m", "tracecorr", "import", *words, "--ftrace", str(trace), "-o", out, "--force"]
    return measure.median([measure.run(command) for _ in range(runs)])


def compare(folder: Path, runs: int, scale: float) -> str:
    """Return the table of costs at N and 2 N of each number."""
    rows = []
    for name, number in (("logs", 100), ("threads", 2500), ("queues", 4000)):
        count = max(2, int(number * scale) // 2 * 2)
        costs = []
        for n in (count, 2 * count):
            counts = replace(Counts(launches=int(60_000 * scale)), **{name: n})
            counts = replace(counts, threads=max(counts.threads, counts.logs))
            counts = replace(counts, queues=max(counts.queues, counts.threads))
            costs.append(_import(folder / f"{name}-{n}", counts, runs))
        one, two = costs
        rows.append((
            name, count, f"{one.cpu:.1f}", f"{two.cpu:.1f}", f"{two.cpu / one.cpu:.2f}",
            f"{one.peak_mib:.0f}", f"{two.peak_mib:.0f}",
        ))  # fmt: skip
    return measure.markdown(_HEAD, rows)


def main(arguments: list[str]) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench counts", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median is shown")
    parser.add_argument("--scale", type=float, default=1.0, help="share of N, and of the 60,000 launches")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        print(compare(Path(folder), given.runs, given.scale))
