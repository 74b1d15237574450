"""What the headers of a trace text count, compared with the records behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.read.digits import Ints

_WRITTEN = r"^# entries-in-buffer/entries-written: (\d+)/(\d+)(?: +#P:(\d+))?"
# Converters that write such a header do not count: Perfetto's prints this one in front of every trace.
_MADE_UP = "entries-in-buffer/entries-written: 30624/30624   #P:4"
_OF_STACK = " => "
_MOST_LOST = 1 << 48
_BEHIND_ALL = 1 << 62
# Buffers of all CPUs are of one size, and no records that much larger than others: a CPU that has so many times fewer
# records than another one did not fill its own.
_FULL = 32


@dataclass
class _Segment:
    """Hold what one header tells, and what came behind it.

    Args:
        present, written: records that lie in the buffers, and that were written into them, of all CPUs.
        online: how many CPUs there are; 0 = not told.
        entries: lines that may be records.
        is_noted: whether notes between the records tell of losses: the buffers were written while they were read.
        firsts, counts: of each CPU, the stamp of the first record, and how many it has.
    """

    present: int
    written: int
    online: int
    entries: int = 0
    is_noted: bool = False
    firsts: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, stamps: pl.DataFrame) -> list[int]:
        """Take records in their order; return the CPUs that had none before."""
        found = (
            stamps.select("cpu", "stamp_ns")
            .drop_nulls()
            .group_by("cpu", maintain_order=True)
            .agg(pl.col("stamp_ns").min(), n=pl.len())
        )
        new = []
        for cpu, stamp, count in found.iter_rows():
            if cpu not in self.firsts:
                self.firsts[cpu] = stamp
                new.append(cpu)
            self.counts[cpu] = self.counts.get(cpu, 0) + count
        return new

    def list_losses(self) -> list[dict[str, object]]:
        """Return what was overwritten before the records, and how many the text lacks, wherever they were."""
        rows: list[dict[str, object]] = []
        if self.present < self.written:
            most = max(self.counts.values(), default=0)
            until = max((self.firsts[cpu] for cpu, n in self.counts.items() if n * _FULL >= most), default=None)
            rows.append({"source": "ftrace", "to_ns": until, "count": count_lost(self.written - self.present)})
        # The file of one CPU has a header of all of them.
        is_whole = len(self.firsts) > 1 or self.online == 1
        if is_whole and not self.is_noted and self.present > self.entries:
            rows.append({"source": "ftrace", "count": count_lost(self.present - self.entries)})
        return rows


class Written:
    """Compare block by block; a text may hold several traces, each with its header."""

    def __init__(self) -> None:
        self._segment: _Segment | None = None

    def read(self, lines: pl.DataFrame, stamps: pl.DataFrame) -> tuple[list[dict[str, object]], pl.DataFrame]:
        """Return the losses of the headers that end in a block, and before which records of a CPU some are lost.

        Args:
            lines: offset, kind, line of the lines of a block, those of frequent records perhaps not among them.
            stamps: offset, cpu, stamp_ns of all its records, in order.
        """
        losses: list[dict[str, object]] = []
        begun: list[dict[str, object]] = []
        entries = np.append(stamps["offset"].to_numpy(), _list_entries(lines))
        noted = lines.filter(pl.col("kind") == "lost")["offset"].to_numpy()
        for start, stop, segment in self._cut(lines, losses):
            segment.entries += _count(entries, start, stop)
            segment.is_noted |= _count(noted, start, stop) > 0
            new = segment.add(stamps.filter(pl.col("offset").is_between(start, stop)))
            if segment.present < segment.written:
                begun += [{"source": "ftrace", "cpu": cpu, "to_ns": segment.firsts[cpu]} for cpu in new]
        return losses, pl.DataFrame(begun, schema=schema.LOSSES.schema)

    def _cut(self, lines: pl.DataFrame, losses: list[dict[str, object]]) -> Iterator[tuple[int, int, _Segment]]:
        """Yield where the part of a block behind each header begins and ends; add the losses of those that end."""
        heads = lines.filter((pl.col("kind") == "header") & pl.col("line").str.contains(_WRITTEN))
        start = -1
        for offset, line in heads.select("offset", "line").iter_rows():
            if self._segment:
                yield start, offset, self._segment
            losses += self.finish()
            start = offset
            self._segment = None if _MADE_UP in line else _read_head(line)
        if self._segment:
            yield start, _BEHIND_ALL, self._segment

    def finish(self, *, torn: bool = False) -> list[dict[str, object]]:
        """Return the losses of the last header; one more record is there where the text ends within a line."""
        segment, self._segment = self._segment, None
        if segment is None:
            return []
        segment.entries += torn
        return segment.list_losses()


def count_lost(lost: int) -> int | None:
    """Return how many records are said to be lost; None where no trace can have lost so many."""
    return lost if lost < _MOST_LOST else None


def _read_head(line: str) -> _Segment | None:
    found = re.match(_WRITTEN, line)
    if not found:
        return None
    present, written, online = (int(number or 0) for number in found.groups())
    return _Segment(present, written, online)


def _list_entries(lines: pl.DataFrame) -> Ints:
    """Return the offsets of the lines that may be records which are not told: twice those that may be two."""
    # A text of several lines goes on without a prefix, and with the option printk-msg-only begins without one, too.
    may_be = pl.col("kind").is_in(["rest", "broken", "nul"]) | (pl.col("kind") == "more") & ~pl.col(
        "line"
    ).str.starts_with(_OF_STACK)
    graph = lines.filter(pl.col("kind") == "graph")["offset"]
    return pl.concat([lines.filter(may_be)["offset"], graph, graph]).to_numpy()


def _count(offsets: Ints, start: int, stop: int) -> int:
    return int(np.count_nonzero((offsets > start) & (offsets < stop)))
