"""The modelled machine: threads that take turns, queues that run packets, and what each of them leaves behind."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from simulator import forms
from simulator.record import Recorder
from simulator.scene import Scene

START_NS = 5_000_000_000_000
Steps = Iterator[float]
# The share of records before which a thread came to another CPU.
_MIGRATING = 0.1


@dataclass
class Packet:
    """Hold one packet of a queue that the GPU has not run yet."""

    line: int
    index: int
    duration_ns: float
    signal: Signal | None = None
    waits: list[Signal] = field(default_factory=list)


@dataclass
class Signal:
    """Hold a completion signal and when it was (or will be) completed."""

    handle: int
    line: int = -1
    start_ns: float = 0.0
    end_ns: float = 0.0
    known: bool = False


@dataclass
class Queue:
    """Hold one hardware queue, and how many streams use it (-1: it is being deleted); `made` is its Created line."""

    ring: int
    swq: int
    log_id: int
    doorbell: int
    index: int
    gpu: int = 0
    place: int = 0
    users: int = 1
    made: int = -1
    free_ns: float = 0.0
    waiting: list[Packet] = field(default_factory=list)
    stores: list[tuple[float, int, int]] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)

    def ring_up_to(self, value: int, at_ns: float, record: Recorder) -> None:
        """Run the packets that a store announces."""
        ready = [p for p in self.waiting if p.index <= value]
        self.waiting = [p for p in self.waiting if p.index > value]
        for packet in sorted(ready, key=lambda p: p.index):
            begin = max([at_ns + 1_500, self.free_ns, *(w.end_ns for w in packet.waits if w.known)])
            self.free_ns = begin + packet.duration_ns
            record.truth.gpu.append((packet.line, begin, self.free_ns))
            if packet.signal:
                packet.signal.start_ns, packet.signal.end_ns, packet.signal.known = begin, self.free_ns, True


@dataclass
class Stream:
    """Hold a HIP stream, its queue, and the copy that its next kernel waits for."""

    handle: int
    queue: Queue
    pending: Signal | None = None


class Machine:
    """Run generators in the order of their times."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.random = Random(scene.seed)
        self.record = Recorder()
        self._ready: list[tuple[float, int, Steps]] = []
        self._count = 0

    def start(self, at_ns: float, steps: Steps) -> None:
        """Let a generator run from a time on; it yields the times at which it goes on."""
        self._count += 1
        heapq.heappush(self._ready, (at_ns, self._count, steps))

    def run(self) -> None:
        """Run all generators to their ends."""
        while self._ready:
            _, _, steps = heapq.heappop(self._ready)
            again = next(steps, None)
            if again is not None:
                self.start(again, steps)


class Thread:
    """A thread of a process: its clock, its lines and its records."""

    def __init__(self, machine: Machine, process: Process, tid: int, address: int, comm: str) -> None:
        self.machine, self.process, self.scene = machine, process, machine.scene
        self.tid, self.address, self.comm = tid, address, comm
        self.cpu = tid % 2
        self.now = 0.0
        self.calls: list[int] = []
        self._entered_us: list[int] = []
        process.threads.append(self)

    def spend(self, low_us: float, high_us: float) -> None:
        """Let time pass."""
        self.now += self.machine.random.uniform(low_us, high_us) * 1000

    def say(self, site: str, text: str) -> Iterator[float]:
        """Print a line of the log; return its id (-1 when the level leaves it out)."""
        level = forms.level_of(self.scene.era, site)
        line = -1
        if level <= self.process.level:
            head = forms.prefix(
                self.scene.era,
                level,
                site,
                self._shown_us(),
                self.process.log_pid,
                self.address,
                self.process.level,
            )
            line = self._print(head + text)
            yield self.now
        return line

    def _print(self, text: str) -> int:
        """Write a line of the log; return its id."""
        if self.scene.writes:
            line = self._write(text)
        else:
            line = self.machine.record.add(self.now, self.process.log_name, text)
            self.spend(1.5, 4.5)
        self.machine.record.truth.enclosing += [(line, call) for call in self.calls]
        return line

    def _write(self, text: str) -> int:
        """Write a line of the log by system calls that the trace shows; return its id.

        One thread of a process after the other writes, as the lock of a FILE lets them. Records of several processes on
        one log are cut into each other where they are written in pieces.
        """
        record, random = self.machine.record, self.machine.random
        whole, line, first, printed_ns = f"{text}\n", -1, -1, self.now
        self.spend(0.8, 2.5)
        self.now = max(self.now, self.process.written_ns)
        while whole:
            most = {"file": len(whole), "stderr": 128}.get(self.scene.writes) or random.choice((64, 128, 1000))
            piece, whole = whole[:most], whole[most:]
            entered, began_ns = self._try_write(piece)
            # Few writers overtake another one on the way to the file.
            landed_ns = self.now - 100 if random.random() < 0.02 else began_ns + 1
            number = record.add(landed_ns, self.process.log_name, piece, self.cpu)
            record.lines[number].end, record.lines[number].true_ns = "", printed_ns
            record.lines[number].bare = line >= 0
            line, first = (number, entered) if line < 0 else (line, first)
            self.spend(0.3, 1.2)
        self.process.written_ns = self.now
        record.truth.writes.append((line, first))
        return line

    def _try_write(self, piece: str) -> tuple[int, float]:
        """Write some bytes, if need be again; return the record of the call that wrote them, and its time."""
        size, random = len(piece), self.machine.random
        while self.scene.writes == "odd" and random.random() < 0.03:
            self.trace(f"sys_write(fd: 0x2, buf: 0x7f10, count: {size:#x})")
            self.spend(0.3, 0.9)
            # -ENOSPC, and -ERESTARTSYS, which is no end of the call.
            self.trace(f"sys_write -> {random.choice((-28, -512)) % (1 << 64):#x}")
        entered = self.trace(f"sys_write(fd: 0x2, buf: 0x7f10, count: {size + 5 * (self.scene.writes == 'odd'):#x})")
        began_ns = self.now
        self.spend(0.4, 1.5)
        self.trace(f"sys_write -> {size:#x}")
        return entered, began_ns

    def say_raw(self, site: str, text: str) -> None:
        """Print a line of ROCr, which shows CLOCK_MONOTONIC_RAW."""
        shown = self.scene.raw.show(self.now, START_NS) // 1000
        head = forms.raw_prefix(site, shown, self.process.log_pid, self.address)
        self._print(head + text)

    def trace(self, text: str, flags: str = ".....") -> int:
        """Leave a record in the trace; return its id."""
        if self.scene.migrate and self.machine.random.random() < _MIGRATING:
            self.cpu = 1 - self.cpu
        head = f"{self.comm:>16}-{self.tid:<7} ({self.process.pid:>7}) [{self.cpu:03d}] {flags} "
        return self.machine.record.add(self.now, "trace", text, self.cpu, head)

    def syscall(self, name: str, arguments: str, low_us: float, high_us: float, result: str = "0x0") -> Iterator[float]:
        """Make a system call; return the id of its enter record."""
        self.spend(0.5, 2)
        line = self.trace(f"sys_{name}({arguments})")
        if self.calls:
            self._note_syscall(line)
        self.spend(low_us, high_us)
        yield self.now
        left = self.trace(f"sys_{name} -> {result}")
        self.machine.record.truth.exits.append((left, line))
        if self.calls:
            self._note_syscall(left)
        self.spend(0.5, 2)
        return line

    def _note_syscall(self, record: int) -> None:
        """Note the call that a record of a system call lies in, and the calls around that one."""
        self.machine.record.truth.syscalls.append((record, self.calls[-1]))
        self.machine.record.truth.around += [(record, call) for call in self.calls[:-1]]

    def register(self) -> Iterator[float]:
        """Tell the kernel the thread's address, as the C library does."""
        if "robust" in self.scene.thread_events:
            yield from self.syscall("set_robust_list", f"head: {self.address + 0x2E0:#x}, len: 0x18", 0.5, 1)

    def ioctl(self, cmd: int, low_us: float, high_us: float) -> Iterator[float]:
        """Make an ioctl on /dev/kfd."""
        return (yield from self.syscall("ioctl", f"fd: 4, cmd: {cmd:#x}, arg: 0x7ffd061c4300", low_us, high_us))

    def _shown_us(self) -> int:
        """Return what a line of the log shows now."""
        return (int(self.now) + self.scene.namespace_ns) // 1000

    def enter(self, site: str, name: str, arguments: str) -> Iterator[float]:
        """Enter a HIP call; return the id of its line."""
        self._entered_us.append(self._shown_us())
        line = yield from self.say(site, f"{forms.GREEN} {name} ( {arguments} ) {forms.RESET}")
        if self.calls:
            self.machine.record.truth.calls.append((line, self.calls[-1]))
        self.calls.append(line)
        return line

    def leave(self, site: str, name: str, value: str = "", *, timed: bool = False) -> Iterator[float]:
        """Return from a HIP call; some functions tell how long it took, as the difference of the stamps."""
        call = self.calls.pop()
        entered = self._entered_us.pop()
        duration = forms.told(self.scene.era, self._shown_us() - entered) if timed else ""
        line = yield from self.say(site, f"{name}: Returned hipSuccess : {value}{duration}")
        self.machine.record.truth.exits.append((line, call))
        if self.calls:
            self.machine.record.truth.calls.append((line, self.calls[-1]))


class Process:
    """A process: its queues, threads and names of signals and commands."""

    def __init__(self, machine: Machine, number: int, pid: int, log_pid: int, address: int) -> None:
        self.machine, self.scene = machine, machine.scene
        self.number, self.pid, self.log_pid = number, pid, log_pid
        self.log_name = f"amd-{0 if self.scene.one_log else number}"
        self.level = self.scene.levels[number % len(self.scene.levels)] if self.scene.levels else self.scene.level
        self.address = address
        self.threads: list[Thread] = []
        # Until then a thread holds the lock of its log.
        self.written_ns = 0.0
        self.queues: list[Queue] = []
        self.mapped: set[int] = set()
        # Handles of signals that a stream's next kernel will wait for.
        self.awaited: set[int] = set()
        self._signals = 0
        self._commands = 0
        self.made = 0

    def next_signal(self) -> Signal:
        """Return a signal of the pool; its handles come again and again, but not while a stream waits for them."""
        while True:
            self._signals += 1
            handle = 0x7F0000 + self._signals % (64 * self.scene.threads) * 0x80
            if handle not in self.awaited:
                return Signal(handle)

    def next_command(self) -> int:
        """Return a command pointer of the pool; they are reused soon after their command is complete."""
        self._commands += 1
        return 0x55C431AF0000 + self._commands % (48 * self.scene.threads) * 0x2A0
