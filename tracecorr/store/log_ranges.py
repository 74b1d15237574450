"""Read long logs in several processes at once: each reads a range of bytes and writes its rows as a part.

Who runs the work (processes of this machine, workers of a cluster) hands in how a call is sent there. The rows are
exactly those of one pass: see `read.amdlog.reader`.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Protocol

from tracecorr.model.errors import WorkerError
from tracecorr.read.amdlog.blocks import LogBytes, find_borders
from tracecorr.read.amdlog.reader import (
    LogRange,
    Reader,
    State,
    agrees,
    join_states,
    look_back,
    plan_ranges,
    read_range,
)
from tracecorr.store.parts import StoredPart, write_part
from tracecorr.store.raw import find_compression, has_holes
from tracecorr.store.space import open_regular
from tracecorr.store.zstd_frames import FrameReader
from tracecorr.threads import limited_threads

# So many decompressed bytes are searched at once; where a block ends, a line end is near.
_WINDOW = 64 << 10


class Answer(Protocol):
    """Hold what a call that was sent away will give."""

    def result(self) -> Any:
        """Wait for it; raise what it raised."""


# Sends a function with its arguments to a worker.
Submit = Callable[..., Answer]


@dataclass(frozen=True)
class LogFile:
    """Name a log that is read in ranges.

    Args:
        path: the log.
        file: its key in `files`.
        size: its bytes, decompressed.
        parts: folder for what the workers read.
    """

    path: Path
    file: int
    size: int
    parts: Path


@dataclass(frozen=True)
class _RangeRows:
    """Hold where the rows of a range are, and what its reader knew at both borders."""

    part: StoredPart
    start: State
    end: State


@dataclass(frozen=True)
class StartedLog:
    """Follow one log: its ranges, and what their readers will give."""

    log: LogFile
    ranges: list[LogRange]
    answers: list[Answer]


def list_long_logs(capture: Path, entries: Sequence[Mapping[str, Any]], parts: Path, least_bytes: int) -> list[LogFile]:
    """Return the logs of a capture that have more than `least_bytes`, and can be read at any place.

    Args:
        capture: the folder.
        entries: its `files`.
        parts: folder for what the workers read.
        least_bytes: of shorter logs nothing is gained.
    """
    found = []
    for entry in entries:
        path = capture / entry["path"]
        if entry["form"] == "log" and entry["size"] > least_bytes and _is_open_anywhere(path):
            found.append(LogFile(path, entry["file"], entry["size"], parts))
    return found


def start_log(submit: Submit, log: LogFile, count: int, block_bytes: int) -> StartedLog:
    """Hand out the ranges of a log.

    Args:
        submit: sends a call to a worker.
        log: the log.
        count: how many ranges are wanted.
        block_bytes: about how many bytes a reader takes at once.
    """
    with _open_bytes(log.path) as data:
        ranges = plan_ranges(find_borders(data, block_bytes), count)
    return StartedLog(log, ranges, [submit(_read_log_range, log, number, part) for number, part in enumerate(ranges)])


def finish_log(submit: Submit, started: StartedLog) -> tuple[list[StoredPart], int]:
    """Return the parts of a log, each with exactly the rows of one pass, and how many ranges were read again."""
    log, ranges = started.log, started.ranges
    alone: list[_RangeRows] = [answer.result() for answer in started.answers]
    rows, known, again = [alone[0]], 0, 0
    true_end = alone[0].end
    while len(rows) < len(alone):
        number = len(rows)
        if agrees(true_end, alone[number].start, alone[number].end):
            rows.append(alone[number])
            true_end, known = join_states(true_end, alone[number].end), number
            continue
        # If only addresses were missing the lookback of the range itself is enough.
        from_here = true_end.carried == alone[number].start.carried
        fresh = submit(_read_again, log, ranges, number if from_here else known, number, alone).result()
        rows += fresh
        true_end, again = fresh[-1].end, again + len(fresh)
    return [r.part for r in rows], again


def _read_log_range(log: LogFile, number: int, part: LogRange) -> _RangeRows:
    """Read one range of a log and write its rows."""
    with _open_bytes(log.path) as data:
        reader = Reader(log.file, part.borders[0])
        look_back(reader, data, part)
        start = reader.state()
        stored = write_part(log.parts, f"amd_log-{log.file}-{number}", read_range(reader, data, part))
        return _RangeRows(stored, start, reader.state())


def _read_again(
    log: LogFile, ranges: list[LogRange], known: int, first: int, alone: list[_RangeRows]
) -> list[_RangeRows]:
    """Read the ranges from `first` on in one pass, until one is reached whose own reader knew enough.

    Args:
        log: the log.
        ranges: all of it.
        known: a range at whose start a reader with its lookback carries what one pass carries.
        first: the first range that is read again.
        alone: what the reader of each range gave.

    Returns: rows of range `first` and of those behind it that were read again.
    """
    with _open_bytes(log.path) as data:
        reader = Reader(log.file, ranges[known].borders[0])
        look_back(reader, data, ranges[known])
        for number in range(known, first):
            for _ in read_range(reader, data, ranges[number]):
                pass
        # Which addresses were seen does not depend on what a reader knew before.
        for earlier in alone[:first]:
            reader.learn(earlier.end)
        out: list[_RangeRows] = []
        for number in range(first, len(ranges)):
            start = reader.state()
            if out and agrees(start, alone[number].start, alone[number].end):
                break
            # Over what the reader of the range alone had written.
            name = f"amd_log-{log.file}-{number}"
            stored = write_part(log.parts, name, read_range(reader, data, ranges[number]))
            out.append(_RangeRows(stored, start, reader.state()))
        return out


def _is_open_anywhere(path: Path) -> bool:
    return path.is_file() and not has_holes(path) and find_compression(path) in (None, "frames")


class _FrameBytes:
    """Give the bytes of a compressed log at any place."""

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader

    def __len__(self) -> int:
        return self._reader.size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        return self._reader.read(start, max(stop - start, 0))

    def find(self, text: bytes, start: int, end: int) -> int:
        end = min(end, len(self))
        for first in range(start, end, _WINDOW):
            at = self[first : min(first + _WINDOW + len(text) - 1, end)].find(text)
            if at >= 0:
                return first + at
        return -1

    def rfind(self, text: bytes, start: int, end: int) -> int:
        end = min(end, len(self))
        for last in range(end, start, -_WINDOW):
            first = max(last - _WINDOW, start)
            at = self[first : min(last + len(text) - 1, end)].rfind(text)
            if at >= 0:
                return first + at
        return -1


@contextmanager
def _open_bytes(path: Path) -> Iterator[LogBytes]:
    """Open a log, plain or in frames, for its decompressed bytes at any place."""
    if find_compression(path) == "frames":
        yield _FrameBytes(FrameReader(path))
        return
    with os.fdopen(open_regular(path), "rb") as stream:
        # Closed when nothing refers to it any more: views of it may outlive this block.
        yield mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


# Each takes some 300 MiB to read a log; more of them hardly make an import shorter, most of it is one process' work.
_MOST = 8
# One encodes what it read while it reads on. Two of them on two CPUs are no sooner done, and each takes its start.
_CPUS_EACH = 2
_LOOK_SECONDS = 0.1


def count_processes() -> int:
    """Return how many processes this one may use: one for two of its CPUs, 8 at most."""
    return min(max(len(os.sched_getaffinity(0)) // _CPUS_EACH, 1), _MOST)


@dataclass(frozen=True)
class _Answer:
    """Wait for what a process was asked, so that Ctrl-C ends it: the handler of polars restarts a wait without end."""

    future: Future[Any]

    def result(self) -> Any:
        while not self.future.done():
            wait([self.future], timeout=_LOOK_SECONDS)
        return self.future.result()


@contextmanager
def open_processes(count: int) -> Iterator[Callable[..., _Answer]]:
    """Give a function that sends a call to one of up to `count` processes, and returns what waits for its result.

    The processes are not forked: threads of this one may hold locks.

    Raises:
        WorkerError: one of them was killed.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_leave_interrupts)
    try:
        # Each has a thread that encodes besides.
        with limited_threads(1):
            yield lambda *call: _Answer(pool.submit(*call))
    except BaseException as error:
        # What they still read is not needed.
        for process in set(active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise WorkerError(
                "a process that read a part of a log was killed, perhaps because memory ran out",
                "read it in one process: --jobs 1",
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
