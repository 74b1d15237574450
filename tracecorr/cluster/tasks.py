"""What a worker does: it gets paths and places, and gives back where it wrote the rows."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracecorr.parse.amdlog.blocks import find_borders
from tracecorr.parse.amdlog.ranges import LogRange, agrees, look_back, plan_ranges, read_range
from tracecorr.parse.amdlog.reader import Reader, State
from tracecorr.pipeline import correlate
from tracecorr.store.fleet import Member, write_member
from tracecorr.store.parts import StoredPart, write_part


@dataclass(frozen=True)
class LogFile:
    """Name a log that is read in ranges.

    Args:
        capture: the capture folder.
        path: the log.
        file: its key in `files`.
        parts: folder for what the workers read.
    """

    capture: Path
    path: Path
    file: int
    parts: Path


@dataclass(frozen=True)
class RangeRows:
    """Hold where the rows of a range are, and what its reader knew at both borders."""

    part: StoredPart
    start: State
    end: State


def plan_log(log: LogFile, count: int, block_bytes: int) -> list[LogRange]:
    """Return the ranges of a log."""
    with _mapped(log.path) as data:
        return plan_ranges(find_borders(data, block_bytes), count)


def read_log_range(log: LogFile, number: int, part: LogRange) -> RangeRows:
    """Read one range of a log and write its rows."""
    with _mapped(log.path) as data:
        reader = Reader(log.file, part.borders[0])
        look_back(reader, data, part)
        start = reader.state()
        stored = write_part(log.parts, f"{log.file}-{number}", read_range(reader, data, part))
        return RangeRows(stored, start, reader.state())


def read_again(log: LogFile, ranges: list[LogRange], known: int, first: int, alone: list[RangeRows]) -> list[RangeRows]:
    """Read the ranges from `first` on in one pass, until one is reached whose own reader knew enough.

    Args:
        log: the log.
        ranges: all of it.
        known: a range at whose start a reader with its lookback carries what one pass carries.
        first: the first range that is read again.
        alone: what the reader of each range gave.

    Returns: rows of range `first` and of those behind it that were read again.
    """
    with _mapped(log.path) as data:
        reader = Reader(log.file, ranges[known].borders[0])
        look_back(reader, data, ranges[known])
        for number in range(known, first):
            for _ in read_range(reader, data, ranges[number]):
                pass
        # Which addresses were seen does not depend on what a reader knew before.
        for earlier in alone[:first]:
            reader.learn(earlier.end)
        out: list[RangeRows] = []
        for number in range(first, len(ranges)):
            start = reader.state()
            if out and agrees(start, alone[number].start, alone[number].end):
                break
            name = f"{log.file}-{number}-again"
            stored = write_part(log.parts, name, read_range(reader, data, ranges[number]))
            out.append(RangeRows(stored, start, reader.state()))
        return out


def build_capture(capture: Path, ready: dict[int, list[StoredPart]]) -> list[str]:
    """Build the tables of a capture from what was read of its logs, and return the warnings."""
    return correlate(capture, ready=ready)


def write_node(stage: Path, member: Member) -> str:
    """Write the tables of a node into a dataset, and return its name."""
    write_member(stage, member)
    return member.node


def find_missing(paths: list[Path]) -> list[str]:
    """Return the paths that this process does not see."""
    return [str(path) for path in paths if not (path / "capture.json").is_file()]


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as stream:
        # Closed when nothing refers to it any more: views of it may outlive this block.
        yield mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
