"""See at once which files the workload maps as code: perf reports each mmap of its threads and their children.

If the events of its threads would be too many, one event per CPU tells of the mappings of every process. Others pay
some 0.6 us then when they map code (measured on 6.18), and nothing else.
"""

from __future__ import annotations

import errno
import os
import select
import struct
from collections.abc import Iterable

from tracecorr.capture.plan.runtimes import MappedFile
from tracecorr.capture.probes.perf import Ring, enable, open_mappings
from tracecorr.capture.workload.processes import find_threads, list_threads

_RING_KB = 64
# A record is no longer than this: a ring that has less room may have lost some, and says so only with the next one.
_LONGEST_RECORD = 4096 + 128
_EVERYBODY = -1
_HEADER = struct.Struct("<IHH")
# PERF_RECORD_MMAP2: pid, tid, address, length, offset, device (2), inode, its generation, protection, flags, file name.
_MMAP2, _LOST = 10, 2
_MAPPING = struct.Struct("<IIQQQIIQQII")


class MapWatch:
    """Report the executable mappings of files of some processes as they are made.

    A wake-up takes some 0.1 ms, where a look at /proc every 10 ms would find a library too late on a busy machine.

    Args:
        cpus: where the workload may run.
        whole_machine: whether every process is heard of: others pay for their mappings of code, threads for nothing.

    `descriptor` is readable when there is something to `take`.

    Raises:
        OSError: the kernel does not tell of mappings.
    """

    def __init__(self, cpus: Iterable[int], *, whole_machine: bool = False) -> None:
        self._whole_machine = whole_machine
        self._rings: list[Ring] = []
        self._events: list[int] = []
        self.failed = ""
        self._poller = select.epoll()
        try:
            for cpu in sorted(cpus):
                self._add_ring(cpu)
        except BaseException:
            self.close()
            raise

    @property
    def descriptor(self) -> int:
        """Return what becomes readable."""
        return self._poller.fileno()

    def admit(self, pid: int) -> None:
        """Hear of the process `pid`: all its threads, and what they start later."""
        if self._whole_machine:
            return
        for fresh in find_threads(pid):
            for tid in fresh:
                self._bind(tid, self._rings)

    def cover(self, cpus: Iterable[int], pids: Iterable[int]) -> None:
        """Hear of more CPUs, too, for the processes `pids`."""
        known = len(self._rings)
        for cpu in sorted(cpus):
            self._add_ring(cpu)
        for tid in {tid for pid in pids for tid in list_threads(pid)} if not self._whole_machine else ():
            self._bind(tid, self._rings[known:])

    def take(self) -> tuple[list[tuple[int, MappedFile]], bool]:
        """Return (pid, mapping) of what was mapped since the last call, and whether some was lost."""
        found: list[tuple[int, MappedFile]] = []
        lost = False
        for ring in self._rings:
            data = ring.take()
            lost |= len(data) > ring.size - _LONGEST_RECORD
            at = 0
            while at + _HEADER.size <= len(data):
                kind, _, size = _HEADER.unpack_from(data, at)
                if kind == _MMAP2 and size >= _HEADER.size + _MAPPING.size:
                    found.append(_read_mapping(data[at + _HEADER.size : at + size]))
                lost |= kind == _LOST
                at += size or len(data)
        return [(pid, mapping) for pid, mapping in found if mapping.inode and mapping.path.startswith("/")], lost

    def close(self) -> None:
        """Let go of the kernel; may be called again."""
        for descriptor in self._events:
            os.close(descriptor)
        for ring in self._rings:
            ring.close()
        self._events, self._rings = [], []
        self._poller.close()

    def _add_ring(self, cpu: int) -> None:
        try:
            ring = Ring(cpu, _RING_KB, wake_at=1)
        except OSError as error:
            if error.errno == errno.ENODEV:  # the CPU is offline
                return
            raise
        self._rings.append(ring)
        self._poller.register(ring.descriptor, select.EPOLLIN)
        if self._whole_machine:
            self._bind(_EVERYBODY, [ring])

    def _bind(self, tid: int, rings: Iterable[Ring]) -> None:
        for ring in rings:
            try:
                self._events.append(open_mappings(tid, ring.cpu))
                ring.share(self._events[-1])
                enable(self._events[-1])
            except ProcessLookupError:  # the thread has ended
                return
            except OSError as error:
                self.failed = str(error.strerror)
                return


def _read_mapping(record: bytes) -> tuple[int, MappedFile]:
    pid, _, address, length, _, _, _, inode, *_ = _MAPPING.unpack_from(record)
    name = record[_MAPPING.size :].partition(b"\0")[0].decode(errors="replace")
    return pid, MappedFile(f"{address:x}-{address + length:x}", inode, name)
