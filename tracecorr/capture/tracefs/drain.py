"""Drain: move the binary pages of every CPU from the kernel to files while the workload runs.

Prints in the top tracing buffer are copied, never consumed, and nothing of that buffer is changed. A driver's
trace_printk goes there, on the clock of that buffer, where a kernel has no `trace_printk_dest` (6.10).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import resource
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.model.errors import ControlFileError

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


# A record of the text that tracefs prints: comm, pid, tgid, CPU, flags, seconds; a print has a word and a colon.
_RECORD = re.compile(
    rb" *.{1,16}?-\d+ +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\] +(?:[a-zA-Z0-9.#]{4,5} +)?(\d+)\.(\d{6}): "
    rb"(?:([^ :(+<]+): )?"
)
_NO_TEXT = (b"#", b"CPU:")
_STAMP = re.compile(r"(\d+)\.(\d{6})")
_LOOK_SECONDS = 10.0
# Only a small buffer is read while the workload runs: each read formats all of it.
_SMALL_BYTES, _MOST_BYTES, _MOST_SECONDS, _LINES_A_LOOK = 16 << 20, 256 << 20, 20.0, 1000


@dataclass(frozen=True)
class _Moment:
    """What the buffer's counters said between two readings of CLOCK_MONOTONIC."""

    before_ns: int
    now_ns: int | None  # the buffer's clock, rounded to microseconds; None for a clock that counts something else
    gone: int  # records that were overwritten or read by others, so far
    held_bytes: int


class TopBuffer:
    """Copy what is printed into the top buffer from `start` on.

    Args:
        root: the tracing folder.
        output: an unbuffered file for the copied lines.
    """

    def __init__(self, root: Path, output: IO[bytes]) -> None:
        self._tracefs = Tracefs(root)
        self._clock = read_top_clock(root)
        self._output = output
        # The names of events: a record with such a name is not a print, but an event of another tracer.
        self._events = {event.rpartition("/")[2].encode() for event in self._tracefs.events()}
        self._from_ns: int | None = None
        self._first: _Moment | None = None
        self._next_look = 0.0
        self._kept = False
        self.samples: list[dict[str, Any]] = []
        self.losses: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def clock_content(self) -> dict[str, Any]:
        """Return what belongs into clock.json: readings of the buffer's clock, each between two of CLOCK_MONOTONIC."""
        return {"top_buffer": {"clock": self._clock, "samples": self.samples}}

    def start(self) -> None:
        """Copy what is printed from now on."""
        self._first = self._look()
        self._from_ns = self._first.now_ns
        self._next_look = time.monotonic() + _LOOK_SECONDS

    def tick(self) -> None:
        """Copy what is there, now and then, before the kernel overwrites it."""
        if self._first is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS
        moment = self._look()
        if moment.held_bytes <= _SMALL_BYTES:
            self._copy(moment.now_ns)

    def stop(self) -> None:
        """Copy the rest; may be called again."""
        if self._first is not None:
            self._copy(None)
            last = self._look()
            gone = last.gone - self._first.gone
            if gone > 0:
                self._lose(gone, "the top buffer lost records before they were copied: overwritten, or read by others")
            self._first = None
        self._output.close()

    def _look(self) -> _Moment:
        before = time.monotonic_ns()
        counters = read_stats(self._tracefs.root)
        after = time.monotonic_ns()
        stamps = [_nanoseconds(counter.get("now ts", "")) for counter in counters.values()]
        known = [stamp for stamp in stamps if stamp is not None]
        now = min(known) if len(known) == len(stamps) and known else None
        if now is not None:
            self.samples.append({"mono0": before, "now_ns": now, "last_ns": max(known), "mono1": after})
        number = {key: sum(int(c.get(key, "0")) for c in counters.values())
                  for key in ("overrun", "commit overrun", "read events", "bytes")}  # fmt: skip
        gone = number["overrun"] + number["commit overrun"] + number["read events"]
        return _Moment(before, now, gone, number["bytes"])

    def _copy(self, until_ns: int | None) -> None:
        """Write the prints since the last copy, up to a time of the buffer's clock."""
        if self._from_ns is None:
            self._problem(f"nothing of the top buffer is copied: its clock {self._clock} does not show the time")
            return
        end, taken = time.monotonic() + _MOST_SECONDS, 0
        try:
            with (self._tracefs.root / "trace").open("rb") as lines:
                for number, line in enumerate(lines):
                    taken += len(line)
                    if self._is_wanted(line, until_ns):
                        self._output.write(line)
                    if taken > _MOST_BYTES or (number % _LINES_A_LOOK == 0 and time.monotonic() > end):
                        self._lose(None, "the top buffer is too large to copy: others trace into it")
                        break
        except OSError as error:
            self._problem(f"the top buffer cannot be copied: {error.strerror}")
        if until_ns is not None:
            self._from_ns = until_ns

    def _is_wanted(self, line: bytes, until_ns: int | None) -> bool:
        found = _RECORD.match(line)
        if found is None:
            # What is no record continues the one before it; headers and notes of losses do not.
            return self._kept and not line.startswith(_NO_TEXT)
        stamp = int(found[1]) * 1_000_000_000 + int(found[2]) * 1000
        assert self._from_ns is not None
        in_time = self._from_ns <= stamp and (until_ns is None or stamp < until_ns)
        self._kept = in_time and found[3] is not None and found[3] not in self._events
        return self._kept

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def _lose(self, records: int | None, reason: str) -> None:
        assert self._first is not None
        self.losses.append({"source": "trace_printk", "bytes": 0, "records": records, "reason": reason,
                            "from_ns": self._first.before_ns, "to_ns": time.monotonic_ns()})  # fmt: skip


def read_top_clock(root: Path) -> str:
    """Return the clock of the top buffer, `unknown` where it cannot be read."""
    try:
        words = Tracefs(root).read("trace_clock").split()
    except ControlFileError:
        return "unknown"
    return next((word.strip("[]") for word in words if word.startswith("[")), "unknown")


def _nanoseconds(text: str) -> int | None:
    found = _STAMP.fullmatch(text)
    return int(found[1]) * 1_000_000_000 + int(found[2]) * 1000 if found else None
