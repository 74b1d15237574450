"""What the beginning and the end of a HIP log show: enough to tell whether another file goes on with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

import polars as pl

from tracecorr.model.kinds import BEGINNINGS, PACKET_KINDS
from tracecorr.read.amdlog import read_amd_log
from tracecorr.store.raw import open_read_at

# So many bytes of each end are read: some six thousand lines.
END_BYTES = 1 << 20
_RECORD = re.compile(rb":\d:")
_COLUMNS = ("stamp_ns", "end_stamp_ns", "layer", "name", "pid", "tid", "ring", "packet_index", "offset")

Thread = tuple[int, int]


@dataclass(frozen=True)
class LogEnd:
    """Hold what the lines of one end of a log show.

    Args:
        events: part events of the log's own clock, in the order of the lines, with the `log_id` of packets.
    """

    events: pl.DataFrame

    @cached_property
    def spans(self) -> dict[Thread, tuple[int, int]]:
        """Return first and last stamp (ns) of each thread (pid, tid)."""
        spans = (
            self.events.drop_nulls(["pid", "tid"])
            .group_by("pid", "tid")
            .agg(low=pl.col("stamp_ns").min(), high=pl.max_horizontal("stamp_ns", "end_stamp_ns").max())
        )
        return {(pid, tid): (low, high) for pid, tid, low, high in spans.iter_rows()}

    @cached_property
    def begun(self) -> dict[tuple[int | None, str], int]:
        """Return the processes whose runtime begins here: pid (None = not told) and the line that says so.

        The value is how many events of the pid are before that line: the number may have been another process's.
        """
        counted = self.events.select("pid", pl.col("name").cast(pl.String), place=pl.int_range(pl.len()).over("pid"))
        first = counted.filter(pl.col("name").is_in(BEGINNINGS))
        return {(pid, name): place for pid, name, place in first.reverse().iter_rows()}

    @cached_property
    def stamps(self) -> pl.Series:
        """Return all stamps in ns, sorted."""
        return pl.concat([self.events["stamp_ns"], self.events["end_stamp_ns"].drop_nulls()]).sort()

    @property
    def longest_silence_ns(self) -> int:
        """Return the longest time between two lines."""
        return int(self.stamps.diff().max() or 0)  # type: ignore[arg-type]

    @cached_property
    def rings(self) -> dict[tuple[int, int, int | None], list[int | None]]:
        """Return the printed packet indexes of each queue (pid, ring, id), in the order of lines; None = not told."""
        is_packet = (pl.col("layer") == "aql") & pl.col("name").cast(pl.String).is_in(PACKET_KINDS)
        packets = self.events.filter(is_packet & pl.col("ring").is_not_null()).group_by(
            "pid", "ring", "log_id"
        ).agg("packet_index")  # fmt: skip
        return {(pid, ring, number): indexes for pid, ring, number, indexes in packets.iter_rows()}


@dataclass(frozen=True)
class LogEnds:
    """Hold both ends of a log.

    Args:
        name: the log as the user named it.
        path: where its bytes are.
        size: how many there are, decompressed.
        first_bytes: the first of them, at most `END_BYTES`, in whole lines.
        head, tail: what the lines at both ends show; there may be none.
        rest: the last line, where it has no end.
    """

    name: str
    path: Path
    size: int
    first_bytes: bytes
    head: LogEnd
    tail: LogEnd
    rest: bytes

    @property
    def threads(self) -> set[Thread]:
        """Return the threads (pid, tid) that are seen."""
        return self.head.spans.keys() | self.tail.spans.keys()

    @property
    def pids(self) -> set[int]:
        """Return the processes of its threads."""
        return {pid for pid, _ in self.threads}

    @property
    def is_timed(self) -> bool:
        """Tell whether lines with times begin it."""
        return len(self.head.stamps) > 0

    @property
    def span(self) -> tuple[int, int]:
        """Return first and last stamp in ns; there must be some."""
        stamps = pl.concat([self.head.stamps, self.tail.stamps])
        return int(stamps.min()), int(stamps.max())  # type: ignore[arg-type]

    def spans_of(self, thread: Thread) -> list[tuple[int, int]]:
        """Return first and last stamp of a thread at each end that shows it."""
        return [end.spans[thread] for end in (self.head, self.tail) if thread in end.spans]

    @property
    def begins_record(self) -> bool:
        """Tell whether its first line is the beginning of a record."""
        return bool(_RECORD.match(self.first_bytes))

    def head_behind(self, before: LogEnds) -> LogEnd:
        """Return what the beginning shows behind another log, whose last line may go on here."""
        end = b"\n" if self.begins_record else b""
        return read_end(before.rest + end + self.first_bytes) if before.rest else self.head


def read_ends(path: Path, name: str) -> LogEnds:
    """Read both ends of a log.

    Args:
        path: the log, plain or in frames.
        name: what the user calls it.

    Raises:
        InputError: the log cannot be read.
    """
    with open_read_at(path) as (read_at, size):
        first = read_at(0, min(END_BYTES, size))
        start = max(0, size - END_BYTES)
        last = read_at(start, size - start)
    first, (last, rest) = _cut_lines(first)[0] or first, _cut_lines(last)
    head = read_end(first)
    if not start:
        return LogEnds(name, path, size, first, head, head, rest)
    # The first line of the tail of a longer log is a part of one.
    return LogEnds(name, path, size, first, head, read_end(last[last.find(b"\n") + 1 :]), rest)


def _cut_lines(data: bytes) -> tuple[bytes, bytes]:
    """Return the whole lines, and what is behind them."""
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def read_end(data: bytes) -> LogEnd:
    """Return what some lines of a log show."""
    blocks = list(read_amd_log(BytesIO(data), 0, END_BYTES))
    ids = pl.concat([block.packets.select("offset", "log_id") for block in blocks])
    own = (pl.col("clock") == "mono") & pl.col("stamp_ns").is_not_null()
    events = pl.concat([block.events.select("clock", *_COLUMNS) for block in blocks]).filter(own)
    return LogEnd(events.drop("clock").join(ids, on="offset", how="left").sort("offset"))
