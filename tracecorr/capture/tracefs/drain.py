"""Drain: move the binary pages of every CPU from the kernel to files while the workload runs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

# The command of fcntl that sets a pipe's size (fcntl.h), and what an unprivileged process may ask for.
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20
# The kernel wakes a reader when its buffer is filled to `buffer_percent`; this sweep bounds how long
# quiet buffers stay in the kernel, so that a killed capture loses little.
_SWEEP_SECONDS = 0.25
_CPUS_PER_READER = 64
# Older kernels (5.15.0 as Ubuntu 22.04 began with it) call a buffer ready from its first record on, whatever
# `buffer_percent` says, and still give out whole pages only: asked again at once they would keep a CPU busy.
_PAUSE_SECONDS = 0.01
# A sweep takes at most this much from one buffer before it looks at the next.
_TURN_BYTES = 16 << 20


@dataclass
class _Buffer:
    """One CPU of one instance: where its pages come from and go to."""

    source: int
    output: IO[bytes]
    page_bytes: int
    discarded: int = 0

    def drop_torn_page(self) -> None:
        """Cut off what the file took of a page only in part: readers find the next one behind whole pages alone."""
        end = self.output.tell()
        torn = end % self.page_bytes
        self.output.truncate(self.output.seek(end - torn))
        self.discarded += torn


class Drain:
    """Read the pages of all CPUs of some instances into files, with a few threads.

    Args:
        instances: tracefs folders by name.
        open_output: gives the file for an instance and a CPU.
    """

    def __init__(self, instances: Mapping[str, Path], open_output: Callable[[str, int], IO[bytes]]) -> None:
        self._buffers: list[_Buffer] = []
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failure: OSError | None = None
        try:
            for name, root in instances.items():
                for cpu in list_cpus(root):
                    output = open_output(name, cpu)
                    source = os.open(root / f"per_cpu/cpu{cpu}/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
                    self._buffers.append(_Buffer(source, output, _page_bytes(root)))
        except BaseException:
            self.close()
            raise

    @property
    def discarded_bytes(self) -> int:
        """Return the bytes of pages that no file could take."""
        return sum(buffer.discarded for buffer in self._buffers)

    def start(self) -> None:
        """Start the readers."""
        count = -(-len(self._buffers) // _CPUS_PER_READER)
        for number in range(count):
            share = self._buffers[number::count]
            thread = threading.Thread(target=self._read, args=(share,), name=f"drain-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Take what is left, partly filled pages too."""
        self._end_readers()
        for buffer in self._buffers:
            self._guard(_take_rest, buffer)

    def close(self) -> None:
        """Let go of the kernel's buffers and the files; may be called again."""
        self._end_readers()
        for buffer in self._buffers:
            if buffer.source >= 0:
                os.close(buffer.source)
                buffer.source = -1
        for buffer in self._buffers:
            try:
                buffer.output.close()
            except OSError as error:  # a disk beyond a network tells only now that it is full
                self.failure = self.failure or error

    def _end_readers(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _read(self, share: Sequence[_Buffer]) -> None:
        pipe = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe[0], _F_SETPIPE_SZ, _PIPE_BYTES)
        ready = select.epoll()
        by_descriptor = {buffer.source: buffer for buffer in share}
        for descriptor in by_descriptor:
            ready.register(descriptor, select.EPOLLIN)
        next_sweep = time.monotonic()
        while not self._stopping.is_set():
            found = ready.poll(max(next_sweep - time.monotonic(), 0))
            full = [by_descriptor[descriptor] for descriptor, _ in found]
            for descriptor, events in found:
                if events & select.EPOLLERR:  # a CPU that is not online has no buffer yet: sweeps look for one
                    ready.unregister(descriptor)
            if time.monotonic() >= next_sweep:
                full, next_sweep = list(share), time.monotonic() + _SWEEP_SECONDS
            moved = sum(self._guard(partial(_take_pages, pipe=pipe), buffer) for buffer in full)
            if found and not moved:
                self._stopping.wait(_PAUSE_SECONDS)
        ready.close()
        os.close(pipe[0])
        os.close(pipe[1])

    def _guard(self, take: Callable[[_Buffer], int], buffer: _Buffer) -> int:
        """Keep draining when a file takes no more: what it does not take is counted; return the bytes moved."""
        try:
            return take(buffer)
        except OSError as error:
            self.failure = self.failure or error
            with contextlib.suppress(OSError):
                buffer.drop_torn_page()
            return 0


def _take_pages(buffer: _Buffer, pipe: tuple[int, int]) -> int:
    """Move the full pages of a buffer to its file; return their bytes."""
    moved = 0
    while moved < _TURN_BYTES:
        try:
            count = os.splice(buffer.source, pipe[1], _PIPE_BYTES, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
        except BlockingIOError:
            return moved
        if not count:
            return moved
        moved += count
        _write_from_pipe(buffer, pipe[0], count)
    return moved


def _write_from_pipe(buffer: _Buffer, source: int, count: int) -> None:
    left = count
    try:
        while left:
            done = os.splice(source, buffer.output.fileno(), left)
            left -= done
    except OSError as error:
        if error.errno != errno.EINVAL:
            buffer.discarded += _empty(source, left)
            raise
        # A file system that cannot splice.
        while left:
            left -= _write(buffer, os.read(source, left))


def _empty(source: int, count: int) -> int:
    left = count
    while left:
        left -= len(os.read(source, left))
    return count


def _take_rest(buffer: _Buffer) -> int:
    """Move what is left, page by page: only a plain read gives pages that are not full; return the bytes."""
    moved = 0
    while True:
        try:
            page = os.read(buffer.source, buffer.page_bytes)
        except BlockingIOError:
            return moved
        if not page:
            return moved
        moved += _write(buffer, page)


def _write(buffer: _Buffer, data: bytes) -> int:
    view = memoryview(data)
    while view:
        try:
            done = buffer.output.write(view) or 0
        except OSError:
            buffer.discarded += len(view)
            raise
        view = view[done:]
    return len(data)


def list_cpus(instance: Path) -> list[int]:
    """Return the CPUs that an instance has buffers for."""
    return sorted(int(path.name.removeprefix("cpu")) for path in (instance / "per_cpu").glob("cpu[0-9]*"))


def _page_bytes(instance: Path) -> int:
    """Return the size of a page of an instance's buffers (buffer_subbuf_size_kb, Linux 6.8)."""
    try:
        return int((instance / "buffer_subbuf_size_kb").read_text()) * 1024
    except (OSError, ValueError):
        return resource.getpagesize()


def read_stats(instance: Path) -> dict[str, dict[str, str]]:
    """Return the counters of every CPU of an instance: entries, overrun, dropped events, ..."""
    stats = {}
    for cpu in list_cpus(instance):
        lines = (instance / f"per_cpu/cpu{cpu}/stats").read_text().splitlines()
        pairs = (line.partition(":") for line in lines)
        stats[f"cpu{cpu}"] = {key.strip(): value.strip() for key, _, value in pairs if value}
    return stats


@dataclass(frozen=True)
class Counts:
    """Events of an instance: those that reached its buffers, and those lost."""

    events: int = 0
    lost: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.events + other.events, self.lost + other.lost)


def count_events(stats: Mapping[str, Mapping[str, str]]) -> Counts:
    """Return how many events the counters of an instance tell."""
    total = Counts()
    for counters in stats.values():
        number = {key: int(value) for key, value in counters.items() if value.isdigit()}
        lost = number.get("overrun", 0) + number.get("dropped events", 0) + number.get("commit overrun", 0)
        total += Counts(number.get("entries", 0) + number.get("read events", 0), lost)
    return total
