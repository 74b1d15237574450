"""Two looks at a process, each in a child with a time limit: what does not answer is a finding, and blocks nobody."""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracecorr.live.kernels import name_kernels
from tracecorr.live.memory import Memory
from tracecorr.live.processes import Process, read_process
from tracecorr.live.rings import (
    KINDS,
    Packet,
    Queue,
    Signal,
    find_queues,
    read_queue,
    read_signals,
)
from tracecorr.live.threads import Thread, add_waits, read_threads

SCAN_BYTES, SCAN_SECONDS = 4 << 30, 4.0
# Kernels of CLR that wait for a value, and that write one: their arguments are the pointer (as 4 or 8 bytes), the value
# and, of a wait, flags and mask (clr, rocclr/device/rocm/rocblit.cpp).
_WAIT_KERNEL, _WRITE_KERNEL = "__amd_rocclr_streamOpsWait", "__amd_rocclr_streamOpsWrite"
# hipStreamWaitValueGte, Eq, And, Nor.
_FLAGS = (">=", "==", "and", "nor")
_MOST_READ = 512


@dataclass(frozen=True)
class ValueUse:
    """Hold what a packet of CLR waits for, or writes: address, bytes, and of a wait condition and value now."""

    address: int
    is_write: bool
    told: str = ""
    is_met: bool | None = None


@dataclass(frozen=True)
class Look:
    """Hold a process at one time.

    Args:
        process: what is known without its memory.
        threads: its threads.
        queues: its AQL queues; None = its memory was not read.
        signals: signals by handle.
        at_ns: time (monotonic).
    """

    process: Process | None
    threads: list[Thread] = field(default_factory=list)
    queues: list[Queue] | None = None
    signals: dict[int, Signal] = field(default_factory=dict)
    at_ns: int = 0


@dataclass
class Sight:
    """Hold two looks at a process.

    Args:
        pid: its number.
        looks: one or two.
        names: kernels by the address of their descriptor.
        values: what packets wait for and write, by ring and index.
        gaps: what could not be seen, in words, and what would help.
    """

    pid: int
    looks: list[Look] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    values: dict[tuple[int, int], ValueUse] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)

    def add(self, piece: tuple[str, Any]) -> None:
        """Add what the child sent: `look`, `names`, `values` or `gap`; a look replaces one that saw less."""
        kind, value = piece
        if kind == "look" and self.looks and self.looks[-1].at_ns == value.at_ns:
            self.looks[-1] = value
        elif kind == "look":
            self.looks.append(value)
        elif kind == "gap":
            self.gaps.append(value)
        else:
            getattr(self, kind).update(value)


def look_twice(pids: Sequence[int], wait_s: float, limit_s: float) -> list[Sight]:
    """Return what two looks at each process saw; all processes are looked at beside each other.

    Args:
        pids: the processes.
        wait_s: time between the looks.
        limit_s: time that all reads of one process may take besides.
    """
    children = {pid: _start(lambda pid=pid: _look(pid, wait_s)) for pid in pids}  # type: ignore[misc]
    until = time.monotonic() + wait_s + limit_s
    sights = [_collect(pid, *children[pid], until) for pid in pids]
    for sight in sights:
        if not sight.looks:
            sight.looks.append(Look(read_process(sight.pid), at_ns=time.monotonic_ns()))
    return sights


def _start(work: Callable[[], Iterator[tuple[str, Any]]]) -> tuple[int, int]:
    """Start a child that sends what `work` yields; return its pid and the end of the pipe to read from."""
    end, begin = os.pipe()
    child = os.fork()
    if child:
        os.close(begin)
        return child, end
    status = 1
    try:
        os.close(end)
        with os.fdopen(begin, "wb") as pipe:
            try:
                for piece in work():
                    pickle.dump(piece, pipe)
                    pipe.flush()
            except (OSError, ValueError, ArithmeticError, LookupError, TypeError) as error:
                pickle.dump(("gap", f"a look failed: {type(error).__name__}: {error}"), pipe)
        status = 0
    finally:
        os._exit(status)


def _collect(pid: int, child: int, pipe: int, until: float) -> Sight:
    """Return what a child sent up to a time; one that does not answer is left alone after SIGKILL, not waited for."""
    sight, data, is_done = Sight(pid), bytearray(), False
    while not is_done and select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(pipe, 1 << 20)
        data += piece
        is_done = not piece
    os.close(pipe)
    if not is_done:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0 if is_done else os.WNOHANG)
    stream = memoryview(bytes(data))
    for piece_of in _unpickle(stream):
        sight.add(piece_of)
    if not is_done:
        sight.gaps.append("its memory did not answer in time: a thread of it, or the driver, holds its memory lock; "
                          "threads and driver files above were read without it")  # fmt: skip
    return sight


def _unpickle(data: memoryview) -> Iterator[tuple[str, Any]]:
    stream = io.BytesIO(data)
    while True:
        try:
            yield pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            return


def _look(pid: int, wait_s: float) -> Iterator[tuple[str, Any]]:
    """Yield what is seen of a process, what needs no lock first."""
    at_ns = time.monotonic_ns()
    process, threads = read_process(pid), read_threads(pid)
    yield "look", Look(process, threads, at_ns=at_ns)
    try:
        memory = Memory(pid)
    except OSError as error:
        yield "gap", f"its memory is not readable ({error.strerror}): {_RIGHTS}"
        time.sleep(wait_s)
        yield "look", Look(read_process(pid), read_threads(pid), at_ns=time.monotonic_ns())
        return
    handles, is_whole, looked = memory.find_signals(SCAN_BYTES, time.monotonic() + SCAN_SECONDS)
    if not is_whole:
        yield "gap", f"only {looked >> 20} MiB of its memory were looked through: queues may be missing"
    signals = read_signals(memory, handles)
    addresses = find_queues(memory, signals.values())
    yield "look", _read_look(memory, process, threads, addresses, signals, at_ns)
    time.sleep(wait_s)
    at_ns = time.monotonic_ns()
    look = _read_look(memory, read_process(pid), read_threads(pid), addresses, read_signals(memory, handles), at_ns)
    yield "look", look
    queues = look.queues or []
    wanted = {p.kernel_object for q in queues for p in q.packets[:_MOST_READ] if p.kernel_object}
    names = name_kernels(memory, wanted)
    yield "names", names
    yield "values", {
        (queue.ring, packet.index): use
        for queue in queues for packet in queue.packets[:_MOST_READ]
        if (use := _read_value_use(memory, packet, names.get(packet.kernel_object, "")))
    }  # fmt: skip
    memory.close()


_RIGHTS = "look as root, or as its user with kernel.yama.ptrace_scope=0"


def _read_look(
    memory: Memory, process: Process | None, threads: list[Thread], addresses: list[int], signals: dict[int, Signal],
    at_ns: int,
) -> Look:  # fmt: skip
    queues = [queue for queue in (read_queue(memory, address) for address in addresses) if queue]
    return Look(process, add_waits(threads, memory), queues, signals, at_ns)


def _read_value_use(memory: Memory, packet: Packet, name: str) -> ValueUse | None:
    """Return what a dispatch of CLR's own kernels waits for or writes, from its arguments."""
    if packet.kind != KINDS[2] or name not in (_WAIT_KERNEL, _WRITE_KERNEL):
        return None
    words = memory.words(packet.kernarg, "<QQQ" if name == _WRITE_KERNEL else "<QQQQQ")
    if words is None:
        return None
    address, form = (words[0], "<I") if words[0] else (words[1], "<Q")
    if name == _WRITE_KERNEL:
        return ValueUse(address, is_write=True)
    wanted, flags, mask = words[2:]
    now = memory.words(address, form)
    operator = _FLAGS[flags & 3]
    told = f"(value & {mask:#x}) {operator} {wanted:#x}"
    return ValueUse(address, False, f"{told}, it is {now[0]:#x}" if now else told,
                    _is_met(now[0] & mask, operator, wanted) if now else None)  # fmt: skip


def _is_met(value: int, operator: str, wanted: int) -> bool:
    if operator == ">=":
        return value >= wanted
    return {"==": value == wanted, "and": bool(value & wanted), "nor": bool(~(value | wanted))}[operator]
