"""Record user-space probes through perf: bound to the workload, so that no other process pays for them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import select
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tracecorr.capture.plan.plan import Absent
from tracecorr.capture.probes.user import MOST_OPEN
from tracecorr.capture.tracefs.arm import PerfProbe
from tracecorr.capture.tracefs.journal import start_time
from tracecorr.capture.workload.processes import find_threads, list_family, list_threads

# perf_event_attr as of Linux 4.1 (PERF_ATTR_SIZE_VER5): later fields stay 0.
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIiQIHH")
_TYPE_SOFTWARE, _TYPE_TRACEPOINT = 1, 2
_SOFTWARE_DUMMY = 9
_SAMPLE_TID, _SAMPLE_TIME, _SAMPLE_ID, _SAMPLE_CPU, _SAMPLE_RAW = 1 << 1, 1 << 2, 1 << 6, 1 << 7, 1 << 10
# What each sample holds: u32 pid, u32 tid, u64 time, u64 id, u32 cpu, u32 0, u32 size, the trace record. The id is
# that of the event as it was opened: it tells two events that saw the same hit from two hits.
_SAMPLE_TYPE = _SAMPLE_TID | _SAMPLE_TIME | _SAMPLE_ID | _SAMPLE_CPU | _SAMPLE_RAW
_SAMPLE_READ = 1 << 4
_DISABLED, _INHERIT, _WATERMARK, _USE_CLOCKID = 1 << 0, 1 << 1, 1 << 14, 1 << 25
_MMAP, _MMAP2 = 1 << 8, 1 << 23
_CLOCK_MONOTONIC = 1
_CLOSE_ON_EXEC = 8
_SYSCALL_NUMBER = 298  # perf_event_open on x86-64
_ENABLE, _DISABLE, _SET_OUTPUT, _SET_FILTER = 0x2400, 0x2401, 0x2405, 0x40082406
# In the first page of a ring: where the kernel has written to, and what was read (both count on for ever).
_HEAD_AT, _TAIL_AT = 1024, 1032

_libc = ctypes.CDLL(None, use_errno=True)


def _open_tracepoint(event_id: int, tid: int, cpu: int) -> int:
    """Return the descriptor of a trace event of one thread and its later children, on one CPU, still off.

    Raises:
        OSError: the kernel refused it.
    """
    return _open(_TYPE_TRACEPOINT, event_id, tid, cpu, _DISABLED | _INHERIT | _USE_CLOCKID)


def _open_place(event_id: int, tid: int) -> int:
    """Return the descriptor of an event that never fires and keeps a probe placed in the process of a thread.

    Raises:
        OSError: the kernel refused it.
    """
    return _open(_TYPE_TRACEPOINT, event_id, tid, -1, _DISABLED | _USE_CLOCKID)


def open_mappings(tid: int, cpu: int) -> int:
    """Return the descriptor of an event that reports what a thread and its later children map as code, on one CPU.

    Raises:
        OSError: the kernel refused it.
    """
    return _open(_TYPE_SOFTWARE, _SOFTWARE_DUMMY, tid, cpu, _DISABLED | _INHERIT | _MMAP | _MMAP2 | _USE_CLOCKID)


def open_keeper(tid: int) -> int:
    """Return the descriptor of an event that lets a thread and its later children keep their own events.

    If one thread follows another on a CPU and both inherited the same events, the kernel lets them exchange their
    events instead of taking them off. But a probe of user space lies in the processes that its events were made for:
    when one of the two ends, the other loses its probes. An inherited event that samples its count forbids the
    exchange (nr_no_switch_fast of kernel/events/core.c).

    Raises:
        OSError: Linux before 6.13 refuses such an event.
    """
    sample_type = _SAMPLE_TID | _SAMPLE_READ
    return _open(_TYPE_SOFTWARE, _SOFTWARE_DUMMY, tid, -1, _DISABLED | _INHERIT, sample_type=sample_type)


def try_perf(event_id: int) -> str:
    """Return why the kernel does not let a trace event be bound to a process, or ""."""
    try:
        os.close(_open(_TYPE_TRACEPOINT, event_id, 0, -1, _DISABLED | _INHERIT | _USE_CLOCKID))
    except OSError as error:
        return str(error.strerror)
    return ""


def enable(descriptor: int) -> None:
    """Let an event and those of the children count."""
    fcntl.ioctl(descriptor, _ENABLE, 0)


def _disable(descriptor: int) -> None:
    """Stop an event and those of the children."""
    fcntl.ioctl(descriptor, _DISABLE, 0)


def _set_filter(descriptor: int, text: str) -> None:
    """Keep only the hits of a trace event that `text` names."""
    fcntl.ioctl(descriptor, _SET_FILTER, text.encode() + b"\0")


class Ring:
    """The ring buffer of one CPU; any number of events write into it.

    Args:
        cpu: number of the CPU.
        size_kb: KiB, a power of two of pages.
        wake_at: bytes that wake who polls; a quarter of the ring without.

    Raises:
        OSError: the CPU is offline, or there is no memory.
    """

    def __init__(self, cpu: int, size_kb: int, wake_at: int = 0) -> None:
        self.cpu = cpu
        self.size = size_kb * 1024
        # An event that never fires owns the ring: those of the workload come and go.
        self.descriptor = _open(
            _TYPE_SOFTWARE, _SOFTWARE_DUMMY, -1, cpu, _USE_CLOCKID | _WATERMARK, watermark=wake_at or self.size // 4
        )
        try:
            self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE + self.size)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._head = ctypes.c_uint64.from_buffer(self._memory, _HEAD_AT)
        self._tail = ctypes.c_uint64.from_buffer(self._memory, _TAIL_AT)

    def share(self, descriptor: int) -> None:
        """Let the event `descriptor` of the same CPU write into this ring."""
        fcntl.ioctl(descriptor, _SET_OUTPUT, self.descriptor)

    def take(self) -> bytes:
        """Return the whole records that are there, and free their place."""
        # x86-64 keeps the order of loads, so what lies before head is complete.
        head, tail = self._head.value, self._tail.value
        if head == tail:
            return b""
        begin, end = tail % self.size, head % self.size
        at = mmap.PAGESIZE
        if begin < end:
            data = self._memory[at + begin : at + end]
        else:
            data = self._memory[at + begin : at + self.size] + self._memory[at : at + end]
        self._tail.value = head
        return data

    def close(self) -> None:
        """Free the ring."""
        del self._head, self._tail
        self._memory.close()
        os.close(self.descriptor)


def _open(
    kind: int, config: int, tid: int, cpu: int, flags: int, watermark: int = 0, sample_type: int = _SAMPLE_TYPE
) -> int:
    attributes = _ATTRIBUTES.pack(
        kind, _ATTRIBUTES.size, config, 1, sample_type, 0, flags, watermark, 0, 0, 0, 0, 0, 0, _CLOCK_MONOTONIC,
        0, 0, 0, 0,
    )  # fmt: skip
    descriptor = int(_libc.syscall(_SYSCALL_NUMBER, attributes, tid, cpu, -1, _CLOSE_ON_EXEC))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


_WAIT_MS = 100
_RECORD_LOST = 2  # of perf_event.h; every other record is a sample
# Where a sample has its thread, its time and the id of its event (`_SAMPLE_TYPE`).
_THREAD, _ID, _REST = slice(8, 16), slice(24, 32), 32
_LEAST_RING_KB = 64
# An event per probe, thread and CPU: more of them are not worth their memory.
_MOST_EVENTS = MOST_OPEN
_MOST_LOOKS = 4


@dataclass(frozen=True)
class _PerfCounts:
    """What went through the rings so far."""

    bytes: int = 0
    samples: int = 0
    lost: int = 0  # samples that the kernel or the disk had no room for
    discarded_bytes: int = 0  # records that the disk had no room for
    unwritten: int = 0  # those of `lost` that these were

    def __add__(self, other: _PerfCounts) -> _PerfCounts:
        """Return both together."""
        return _PerfCounts(
            self.bytes + other.bytes, self.samples + other.samples, self.lost + other.lost,
            self.discarded_bytes + other.discarded_bytes, self.unwritten + other.unwritten,
        )  # fmt: skip


class HitCounter:
    """Count the hits of the records of one CPU: two events that saw one hit wrote two samples, side by side."""

    def __init__(self) -> None:
        self._last: tuple[bytes, bytes] = (b"", b"")
        self._id = b""

    def count(self, data: bytes) -> _PerfCounts:
        """Return the samples that a stretch of whole records holds, and how many the kernel says it lost."""
        halves = memoryview(data).cast("H")
        samples = lost = at = 0
        while at < len(halves):
            size = halves[at + 3] or len(data)
            if halves[at] == _RECORD_LOST:
                lost += int.from_bytes(data[2 * at + 16 : 2 * at + 24], "little")
            else:
                samples += self._is_hit(data[2 * at : 2 * at + size])
            at += size >> 1
        return _PerfCounts(len(data), samples, lost)

    def _is_hit(self, sample: bytes) -> bool:
        content = sample[_THREAD], sample[_REST:]
        if content != self._last:
            self._last, self._id = content, sample[_ID]
        return sample[_ID] == self._id


class PerfRecorder:
    """Write what probes record to one file per CPU, `perf-cpuN.bin`: perf's records, whole and in order.

    Args:
        probes: what `Armed.perf_probes` offers.
        buffer_kb_per_cpu: size of each ring, a power of two of pages (`Plan.perf_buffer_kb_per_cpu`).
        open_new: makes a file of the capture by its name inside `raw/ftrace/...`.
        cpus: where the workload may run; empty = everywhere. `cover` adds more.
    """

    def __init__(
        self,
        probes: Iterable[PerfProbe],
        buffer_kb_per_cpu: int,
        open_new: Callable[[str], IO[bytes]],
        cpus: Iterable[int] = (),
    ) -> None:
        self.absent: list[Absent] = []
        self.failure: OSError | None = None
        self._open_new = open_new
        self._size_kb = buffer_kb_per_cpu
        self._probes: list[PerfProbe] = list(probes)
        self._pids: dict[int, int | None] = {}  # with their start, because numbers come again
        self._exchanges = False  # whether children lose probes when others end (`open_keeper`)
        self._placed: dict[tuple[int, int], int] = {}  # probes by process and its start
        self._rings: dict[int, Ring] = {}
        self._files: dict[int, IO[bytes]] = {}
        self._counters: dict[int, HitCounter] = {}
        self._events: list[int] = []
        self._running = False
        self.counts = _PerfCounts()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._reader: threading.Thread | None = None
        self._online = frozenset(_online_cpus())
        self._make_rings(self._online & frozenset(cpus) or self._online)

    def admit(self, pid: int) -> None:
        """Record the process `pid` (host number): all its threads, and what they start later."""
        self._pids[pid] = start_time(pid)
        for fresh in find_threads(pid):
            self._keep(fresh)
            self._bind(self._probes, fresh)

    def place(self, pid: int) -> None:
        """See to it that a process that maps a probed library by now has its probes, and keeps them."""
        started = start_time(pid)
        if not self._exchanges or started is None:
            return
        known = self._placed.get((pid, started), 0)
        self._placed[pid, started] = len(self._probes)
        for probe in self._probes[known:]:
            with contextlib.suppress(OSError):  # the process has ended
                self._events.append(_open_place(probe.event_id, pid))

    def add_probes(self, probes: Iterable[PerfProbe], pids: Iterable[int] = ()) -> None:
        """Record more probes, of a library that appeared late.

        Args:
            probes: the new ones.
            pids: processes that live now besides those admitted: children inherited the earlier probes only. Their
                own children count, too.
        """
        fresh = list(probes)
        self._probes += fresh
        # Only what lives: the number of a process that ended may be that of a stranger by now.
        admitted = {pid for pid, started in self._pids.items() if started is not None and start_time(pid) == started}
        known, bound = admitted | set(pids), set[int]()
        # What a thread starts before it is bound inherits nothing, so it is looked for again.
        for _ in range(_MOST_LOOKS):
            living = sorted({tid for pid in list_family(known) for tid in list_threads(pid)} - bound)
            if not living:
                break
            bound.update(living)
            self._bind(fresh, living)

    @property
    def cpus(self) -> frozenset[int]:
        """Return the CPUs whose hits are recorded."""
        return frozenset(self._rings)

    def cover(self, pids: Iterable[int]) -> frozenset[int]:
        """Record the CPUs, too, that threads of the processes `pids` may use by now; return those that are new."""
        if len(self._rings) == len(self._online):
            return frozenset()
        living = {tid for pid in list_family(list(pids)) for tid in list_threads(pid)}
        fresh = frozenset().union(*(_allowed_cpus(tid) for tid in living)) & self._online - self._rings.keys()
        if fresh:
            with self._lock:
                added = self._make_rings(fresh)
            self._bind(self._probes, sorted(living), added)
        return fresh

    def start(self) -> None:
        """Record from now on, and write in the background."""
        self._running = True
        for descriptor in self._events:
            enable(descriptor)
        self._reader = threading.Thread(target=self._read, name="tracecorr-perf", daemon=True)
        self._reader.start()

    def drain(self) -> _PerfCounts:
        """Write out what the rings hold now; return the counts so far. What no file takes counts as lost."""
        with self._lock:
            for cpu, ring in self._rings.items():
                data = ring.take()
                if data:
                    self._write(cpu, data)
            return self.counts

    def stop(self) -> _PerfCounts:
        """End the recording and free everything; what was recorded is in the files. May be called again."""
        self._running = False
        for descriptor in self._events:
            with contextlib.suppress(OSError):
                _disable(descriptor)
        self._over.set()
        if self._reader is not None:
            self._reader.join()
            self._reader = None
        try:
            return self.drain()
        finally:
            self._close()

    def describe(self) -> str:
        """Return as JSON how to read the files: order of the fields of a sample, clock, events by number."""
        described: dict[str, Any] = {
            "sample_type": _SAMPLE_TYPE, "clock": "mono",
            "events": {str(p.event_id): p.name for p in self._probes},
        }  # fmt: skip
        return json.dumps(described, indent=1)

    def _close(self) -> None:
        for descriptor in self._events:
            os.close(descriptor)
        for ring in self._rings.values():
            ring.close()
        for file in self._files.values():
            try:
                file.close()
            except OSError as error:
                self.failure = self.failure or error
        self._events, self._rings, self._files = [], {}, {}

    def _make_rings(self, cpus: Iterable[int]) -> list[Ring]:
        wanted, made = self._size_kb, []
        for cpu in sorted(cpus):
            try:
                self._rings[cpu] = self._make_ring(cpu)
                made.append(self._rings[cpu])
            except OSError as error:
                if error.errno != errno.ENODEV:
                    self.absent.append(Absent(f"probes of user space on CPU {cpu}", str(error.strerror)))
        if self._rings and self._size_kb < wanted:
            why = f"the kernel had no memory for more than {self._size_kb} KiB"
            self.absent.append(Absent(f"perf rings of {wanted} KiB", why))
        return made

    def _make_ring(self, cpu: int) -> Ring:
        """Make a ring, or a smaller one where the kernel has no memory; those of the next CPUs are as small."""
        while True:
            try:
                return Ring(cpu, self._size_kb)
            except OSError as error:
                if error.errno not in (errno.ENOMEM, errno.EPERM) or self._size_kb // 2 < _LEAST_RING_KB:
                    raise
                self._size_kb //= 2

    def _keep(self, tids: list[int]) -> None:
        """Let threads and their children keep their own events, where the kernel can."""
        for tid in tids:
            try:
                self._events.append(open_keeper(tid))
            except ProcessLookupError:  # the thread has ended
                continue
            except OSError:
                self._exchanges = True

    def _bind(self, probes: list[PerfProbe], tids: list[int], rings: Iterable[Ring] = ()) -> None:
        rings = list(rings) or list(self._rings.values())
        count = len(probes) * len(tids) * len(rings)
        if len(self._events) + count > _MOST_EVENTS:
            why = f"{len(tids)} threads on {len(rings)} CPUs would need {count} perf events"
            self.absent.append(Absent(f"probes {', '.join(p.name for p in probes)}", why, "--probe-shared"))
            return
        for probe in probes:
            refused = {reason for tid in tids for reason in self._bind_thread(probe, tid, rings) if reason}
            self.absent += [Absent(f"probe {probe.name} on some threads", reason) for reason in sorted(refused)]

    def _bind_thread(self, probe: PerfProbe, tid: int, rings: list[Ring]) -> set[str]:
        refused = set()
        for ring in rings:
            try:
                descriptor = _open_tracepoint(probe.event_id, tid, ring.cpu)
            except OSError as error:
                if error.errno == errno.ESRCH:  # the thread has ended
                    return set()
                refused.add(str(error.strerror))
                continue
            self._events.append(descriptor)
            ring.share(descriptor)
            if probe.filter:
                _set_filter(descriptor, probe.filter)
            if self._running:
                enable(descriptor)
        return refused

    def _read(self) -> None:
        """Write in the background until it is over."""
        poller = select.poll()
        for ring in self._rings.values():
            poller.register(ring.descriptor, select.POLLIN)
        while not self._over.is_set():
            poller.poll(_WAIT_MS)
            self.drain()

    def _write(self, cpu: int, data: bytes) -> None:
        """Append whole records to the file of a CPU; after a failure the rest is counted as lost, not kept."""
        kept = 0
        if self.failure is None:
            try:
                if cpu not in self._files:
                    self._files[cpu] = self._open_new(f"perf-cpu{cpu}.bin")
                kept = self._append(self._files[cpu], data)
            except OSError as error:
                self.failure = error
        counter = self._counters.setdefault(cpu, HitCounter())
        self.counts += counter.count(data[:kept])
        if kept < len(data):
            gone = counter.count(data[kept:])
            lost = gone.samples + gone.lost
            self.counts += _PerfCounts(0, 0, lost, gone.bytes, lost)

    def _append(self, file: IO[bytes], data: bytes) -> int:
        """Write records; return the bytes of those that are whole in the file, a torn one is cut off again."""
        done = 0
        try:
            while done < len(data):
                done += file.write(memoryview(data)[done:])
        except OSError as error:
            self.failure = error
            whole = _whole_records(data, done)
            if whole < done:
                end = file.seek(0, os.SEEK_CUR) - (done - whole)
                with contextlib.suppress(OSError):
                    file.truncate(end)
            return whole
        return done


def _whole_records(data: bytes, end: int) -> int:
    """Return the bytes of the records of `data` that end before `end`."""
    at = 0
    while at < end:
        size = int.from_bytes(data[at + 6 : at + 8], "little") or len(data)
        if at + size > end:
            break
        at += size
    return at


def _online_cpus() -> list[int]:
    cpus: list[int] = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _allowed_cpus(tid: int) -> set[int]:
    try:
        return os.sched_getaffinity(tid)
    except OSError:  # it has ended
        return set()
