"""Two looks at a process, each in a child with a time limit: no answer is a finding, too.

Kernels are named from ROCr's list of loaded code objects (`_amdgpu_r_debug`), as debuggers do. A code object is read
where its URI says: in the process's memory, or in a file as the process sees it.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tracecorr.live.process_memory import Memory
from tracecorr.live.processes import Process, Thread, add_waits, read_process, read_threads
from tracecorr.live.rings import KINDS, Packet, Queue, Signal, count_packets, find_queues, read_queue, read_signals
from tracecorr.model.kernel_names import demangle_name

_SYMBOL, _LIBRARY = "_amdgpu_r_debug", "libhsa-runtime64.so"
_MOST_OBJECTS, _MOST_BYTES, _MOST_URI = 10_000, 256 << 20, 4096
# `memory://PID#offset=0x563047c49880&size=32392`, `file:///path#offset=20480&size=7160`
_URI = re.compile(r"(?P<scheme>memory|file)://(?P<path>[^#]*)(?:#offset=(?P<offset>\w+)&size=(?P<size>\w+))?")
_DESCRIPTOR = ".kd"


def _name_kernels(memory: Memory, kernel_objects: Iterable[int]) -> dict[int, str]:
    """Return the names of kernels by the addresses of their descriptors; those that cannot be found are left out."""
    wanted = sorted(set(kernel_objects))
    found: dict[int, str] = {}
    loaded = sorted(_list_objects(memory)) if wanted else []
    for base, uri in loaded:
        later = min((other for other, _ in loaded if other > base), default=1 << 64)
        mine = [address for address in wanted if base <= address < later]
        if mine:
            names = _read_descriptors(memory, uri)
            found |= {address: names[address - base] for address in mine if address - base in names}
    return found


def _list_objects(memory: Memory) -> Iterator[tuple[int, str]]:
    """Yield load address and URI of each code object that is loaded."""
    address = _find_list(memory)
    head = memory.words(address + 8, "<Q") if address else None
    at, count = head[0] if head else 0, 0
    while at and count < _MOST_OBJECTS:
        link = memory.words(at, "<QQQQ")
        if link is None:
            return
        base, name, _, at = link
        count += 1
        uri = _read_text(memory, name)
        if uri:
            yield base, uri


def _find_list(memory: Memory) -> int:
    """Return the address of r_debug in the process's ROCr; 0 = not found."""
    for mapping in memory.mappings:
        if _LIBRARY in mapping.path and mapping.offset == 0:
            # The first name is right in every mount namespace, and needs CAP_SYS_ADMIN.
            names = (f"map_files/{mapping.start:x}-{mapping.end:x}", f"root/{mapping.path.lstrip('/')}")
            for path in (Path(f"/proc/{memory.pid}") / name for name in names):
                if value := _find_symbol(path):
                    return mapping.start + value
    return 0


def _find_symbol(library: Path) -> int:
    try:
        with library.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".dynsym")
            symbols = table.get_symbol_by_name(_SYMBOL) if isinstance(table, SymbolTableSection) else None
            return int(symbols[0]["st_value"]) if symbols else 0
    except (OSError, ELFError):
        return 0


def _read_text(memory: Memory, address: int) -> str:
    for size in (_MOST_URI, 512, 64):
        data = memory.read(address, size)
        if b"\0" in data:
            return data.partition(b"\0")[0].decode(errors="replace")
    return ""


def _read_descriptors(memory: Memory, uri: str) -> dict[int, str]:
    """Return the names of the kernels of a code object by the offset of their descriptor."""
    found = _URI.fullmatch(uri)
    if not found:
        return {}
    offset, size = (int(found[name] or "0", 0) for name in ("offset", "size"))
    if size > _MOST_BYTES:
        return {}
    try:
        if found["scheme"] == "memory":
            data = memory.read(offset, size)
        else:
            path = Path(f"/proc/{memory.pid}/root") / found["path"].lstrip("/")
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(size or _MOST_BYTES)
        tables = [s for s in ELFFile(io.BytesIO(data)).iter_sections() if isinstance(s, SymbolTableSection)]
        return {
            int(symbol["st_value"]): demangle_name(symbol.name.removesuffix(_DESCRIPTOR))
            for table in tables for symbol in table.iter_symbols() if symbol.name.endswith(_DESCRIPTOR)
        }  # fmt: skip
    except (OSError, ELFError, ValueError, OverflowError):
        return {}


_SCAN_BYTES, _SCAN_SECONDS, _COUNT_SECONDS = 4 << 30, 4.0, 2.0
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
        counts: written and finished packets by the address of the read index, where only they were asked for.
        dumps: dumps of the driver by their name, where only they were asked for.
        gaps: what could not be seen, in words, and what would help.
    """

    pid: int
    looks: list[Look] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    values: dict[tuple[int, int], ValueUse] = field(default_factory=dict)
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    dumps: dict[str, bytes] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)

    def add(self, piece: tuple[str, Any]) -> None:
        """Add what the child sent: `look`, `gap`, or what a field is named after; a look replaces one that saw less."""
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
    until = time.monotonic() + wait_s + limit_s
    looking = [Looking(pid, lambda pid=pid: _look(pid, wait_s), until) for pid in pids]  # type: ignore[misc]
    return [one.wait() for one in looking]


def begin_looking(pid: int, wait_s: float, limit_s: float) -> Looking:
    """Begin two looks at a process, and return at once; `Looking.poll` tells when they are done."""
    return Looking(pid, lambda: _look(pid, wait_s), time.monotonic() + wait_s + limit_s)


def count_packets_of(places: Mapping[int, Sequence[tuple[int, int, int]]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return written and finished packets of queues by pid and address of the read index, of those that answer.

    Args:
        places: of each process (pid) addresses of read index, write index and ring.
    """

    def count(pid: int) -> Iterator[tuple[str, Any]]:
        yield "counts", count_packets(Memory(pid), places[pid])

    until = time.monotonic() + _COUNT_SECONDS
    looking = [Looking(pid, lambda pid=pid: count(pid), until) for pid in places]  # type: ignore[misc]
    return {(one.pid, at): counts for one in looking for at, counts in one.wait().counts.items()}


class Looking:
    """Let a child look at a process, and take what it sends up to a time.

    A child that does not answer is left alone after SIGKILL, not waited for: one that waits in the driver cannot end.

    Args:
        pid: the process that is looked at.
        work: yields what it sees.
        until: time (monotonic) after which it is not waited for.
    """

    def __init__(self, pid: int, work: Callable[[], Iterator[tuple[str, Any]]], until: float) -> None:
        self.pid = pid
        self._until, self._data = until, bytearray()
        self._pipe, begin = os.pipe()
        parent = os.getpid()
        self._child = os.fork()
        if self._child:
            os.close(begin)
            return
        status = 1
        try:
            os.close(self._pipe)
            _end_with(parent)
            with os.fdopen(begin, "wb") as pipe:
                _send(work, pipe)
            status = 0
        finally:
            os._exit(status)

    def wait(self) -> Sight:
        """Return what was seen, once it was, or its time is over."""
        while (sight := self.poll(1.0)) is None:
            pass
        return sight

    def poll(self, seconds: float = 0.0) -> Sight | None:
        """Return what was seen; None if it may still come. Waits for so long at most."""
        left = self._until - time.monotonic()
        is_ready = bool(select.select([self._pipe], [], [], max(0.0, min(seconds, left)))[0])
        piece = os.read(self._pipe, 1 << 20) if is_ready else b""
        self._data += piece
        if piece or (not is_ready and left > 0):
            return None
        return self._finish(is_done=is_ready)

    def stop(self) -> None:
        """Let it be."""
        self._finish(is_done=False)

    def _finish(self, *, is_done: bool) -> Sight:
        os.close(self._pipe)
        if not is_done:
            os.kill(self._child, signal.SIGKILL)
        # One that was killed is gone in a moment, or waits in the driver.
        for _ in range(20):
            if is_done or os.waitpid(self._child, os.WNOHANG)[0]:
                break
            time.sleep(0.005)
        if is_done:
            os.waitpid(self._child, 0)
        sight = Sight(self.pid)
        for piece in _unpickle(bytes(self._data)):
            sight.add(piece)
        if not is_done:
            sight.gaps.append("its memory was not read in time: the machine is busy, or a thread of it or the driver "
                              "holds its memory lock")  # fmt: skip
        if not sight.looks:
            sight.looks.append(Look(read_process(self.pid), at_ns=time.monotonic_ns()))
        return sight


def _send(work: Callable[[], Iterator[tuple[str, Any]]], pipe: IO[bytes]) -> None:
    try:
        for piece in work():
            pickle.dump(piece, pipe)
            pipe.flush()
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        pickle.dump(("gap", f"a look failed: {type(error).__name__}: {error}"), pipe)


def _end_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends (PR_SET_PDEATHSIG), and let no signal handler of it run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _unpickle(data: bytes) -> Iterator[tuple[str, Any]]:
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
    handles, is_whole, looked = memory.find_signals(_SCAN_BYTES, _SCAN_SECONDS)
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
    names = _name_kernels(memory, wanted)
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
