"""The system calls of perf that a recording needs: open an event, share its ring, read the ring (perf_event.h)."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct

# perf_event_attr as of Linux 4.1 (PERF_ATTR_SIZE_VER5): later fields stay 0.
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIiQIHH")
_TYPE_SOFTWARE, _TYPE_TRACEPOINT = 1, 2
_SOFTWARE_DUMMY = 9
_SAMPLE_TID, _SAMPLE_TIME, _SAMPLE_ID, _SAMPLE_CPU, _SAMPLE_RAW = 1 << 1, 1 << 2, 1 << 6, 1 << 7, 1 << 10
# What each sample holds: u32 pid, u32 tid, u64 time, u64 id, u32 cpu, u32 0, u32 size, the trace record. The id is
# that of the event as it was opened: it tells two events that saw the same hit from two hits.
SAMPLE_TYPE = _SAMPLE_TID | _SAMPLE_TIME | _SAMPLE_ID | _SAMPLE_CPU | _SAMPLE_RAW
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


def open_tracepoint(event_id: int, tid: int, cpu: int) -> int:
    """Return the descriptor of a trace event of one thread and its children to come, on one CPU, still off.

    Raises:
        OSError: the kernel refused it.
    """
    return _open(_TYPE_TRACEPOINT, event_id, tid, cpu, _DISABLED | _INHERIT | _USE_CLOCKID)


def open_place(event_id: int, tid: int) -> int:
    """Return the descriptor of an event that never fires and keeps a probe placed in the process of a thread.

    Raises:
        OSError: the kernel refused it.
    """
    return _open(_TYPE_TRACEPOINT, event_id, tid, -1, _DISABLED | _USE_CLOCKID)


def open_mappings(tid: int, cpu: int) -> int:
    """Return the descriptor of an event that tells what a thread and its children to come map as code, on one CPU.

    Raises:
        OSError: the kernel refused it.
    """
    return _open(_TYPE_SOFTWARE, _SOFTWARE_DUMMY, tid, cpu, _DISABLED | _INHERIT | _MMAP | _MMAP2 | _USE_CLOCKID)


def open_keeper(tid: int) -> int:
    """Return the descriptor of an event that lets a thread and its children to come keep their own events.

    Where one thread follows another on a CPU and both inherited the same events, the kernel lets them exchange their
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


def disable(descriptor: int) -> None:
    """Stop an event and those of the children."""
    fcntl.ioctl(descriptor, _DISABLE, 0)


def set_filter(descriptor: int, text: str) -> None:
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
    kind: int, config: int, tid: int, cpu: int, flags: int, watermark: int = 0, sample_type: int = SAMPLE_TYPE
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
