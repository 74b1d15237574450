"""Read a binary recording: pages of every CPU, merged by time, then paired like text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.byte_text import Ints, Words
from tracecorr.read.ftrace import events as ev
from tracecorr.read.ftrace.cpu_streams import Account, CpuPages, Window, next_window
from tracecorr.read.ftrace.events import number_values
from tracecorr.read.ftrace.formats import (
    PageTrace,
    Symbols,
    page_layout,
    parse_formats,
    probed_functions,
    saved_names,
)
from tracecorr.read.ftrace.pairing import Pairer
from tracecorr.read.ftrace.payloads import SHORT, Payloads, Skipped
from tracecorr.read.ftrace.ring import word_view

# Pages decoded at a time (best of 256 to 8192 measured): steps of the walk are wide, arrays fit the cache.
PAGES_AT_A_TIME = 2048
_FEWEST_PAGES = 16
_CPU = re.compile(r"cpu(\d{1,5})", re.ASCII)
_TGID = re.compile(r"\d{1,7}", re.ASCII)
# The kernel's PID_MAX_LIMIT: damaged records name other threads.
_MOST_TID = 1 << 22


def read_ftrace_pages(
    trace: PageTrace, files: Mapping[int, int], clock: str = "unknown", *, pages_at_a_time: int = PAGES_AT_A_TIME
) -> Iterator[Block]:
    """Yield the blocks of a binary recording: the rows of the text reader with exact nanoseconds.

    A call that entered on one CPU and left on another has its `end_stamp_ns` but no `end_offset`:
    the exit record lies in another file.

    Args:
        trace: pages, formats and names.
        files: key of the file of each CPU in `trace.pages`.
        clock: name of the trace clock, for the column `clock`.
        pages_at_a_time: pages of all CPUs decoded at a time; bounds the memory.
    """
    layout = page_layout(trace.header_page, trace.page_size)
    cpus = [
        CpuPages(cpu, files[cpu], pages, layout, trace.starts.get(cpu, 0)) for cpu, pages in sorted(trace.pages.items())
    ]
    reader = RecordReader(trace, clock, cpus)
    pages_per_cpu = max(pages_at_a_time // max(len(cpus), 1), min(pages_at_a_time, _FEWEST_PAGES))
    while (window := next_window(cpus, pages_per_cpu, pages_at_a_time)) is not None:
        yield reader.read(window)
    yield Block(
        events=reader.pairer.finish(),
        ledger=torn_ends(cpus, "torn_page"),
        losses=_stats_losses(trace, cpus, reader),
    )


def _without_false(tid: Words) -> pl.Series:
    """Return the numbers of threads, null if no thread can have it."""
    found, is_false = pl.Series(tid), tid > _MOST_TID
    return found.set(pl.Series(is_false), None) if is_false.any() else found


class _CpuFile(Protocol):
    """The file of one CPU, whatever lies in it."""

    cpu: int
    file: int
    page_size: int

    def torn(self) -> int:
        """Return the bytes at its end that are no whole page or record."""


class RecordReader:
    """Keep what one window tells about the next: open calls, numbers of records, names of threads."""

    def __init__(self, trace: PageTrace, clock: str, cpus: Sequence[_CpuFile]) -> None:
        symbols = Symbols(trace.kallsyms)
        self._payloads = Payloads(parse_formats(trace.formats), probed_functions(trace.probes), symbols)
        self._comms = {0: "<idle>", **saved_names(trace.cmdlines)}
        self._tgids = {
            tid: int(tgid) for tid, tgid in saved_names(trace.tgids).items() if _TGID.fullmatch(tgid.strip())
        }
        self._cpus = cpus
        self.pairer = Pairer(clock)
        self.gaps: set[int] = set()
        self.counts = np.zeros(len(cpus), np.int64)
        self._seq = 0

    def learn_processes(self, owners: Mapping[int, int]) -> None:
        """Take the process of each thread, for records that come with it."""
        self._tgids.update(owners)

    def read(self, window: Window) -> Block:
        """Return the rows of one window."""
        kinds, base, data, length = self._base(window)
        batch = ev.Batch()
        skipped = self._payloads.add(batch, window.flat, kinds, base, data, length)
        self.gaps.update(gap.place for gap in window.gaps)
        losses = _losses(
            (self._cpus[gap.place].cpu, gap.before, gap.after, gap.lost if gap.lost >= 0 else None)
            for gap in window.gaps
        )
        events, args = self.pairer.feed(batch)
        return Block(events=events, args=args, ledger=self._ledger(window, skipped), losses=losses)

    def _base(self, window: Window) -> tuple[Ints, pl.DataFrame, Ints, Ints]:
        """Return event ids, base columns, start and length of the payloads; by event, then by time."""
        records, words = window.records, word_view(window.flat)
        data, length = records.payloads(window.flat)
        head = words[data]
        # A record without room for type and pid cannot be told from the next one.
        kinds = np.where(length >= 8, (head & np.uint64(0xFFFF)).astype(np.int64), SHORT)
        by_time = np.argsort(records.stamp, kind="stable")
        order = by_time[np.argsort(kinds[by_time].astype(np.uint16), kind="stable")]
        seq = np.empty(len(order), np.int64)
        seq[by_time] = np.arange(self._seq, self._seq + len(order))
        self._seq += len(order)
        source = window.source[order]
        tid = head[order] >> np.uint64(32)
        names = self._names(tid)
        base = pl.DataFrame(
            {
                "seq": seq[order],
                "file": np.array([c.file for c in self._cpus], np.uint16)[source],
                "offset": records.at[order] + window.shift[source],
                "length": records.size[order].astype(np.uint32),
                "stamp_ns": records.stamp[order],
                "cpu": np.array([c.cpu for c in self._cpus], np.uint16)[source],
                "tid": _without_false(tid),
                **names,
            }
        )
        return kinds[order], base, data[order], length[order]

    def _names(self, tid: Words) -> dict[str, pl.Series]:
        """Return `pid` and `comm` of every record, as far as the recorder saved them."""
        values, codes = number_values(tid)
        comms = pl.Series([self._comms.get(t, "<...>") for t in values.tolist()], dtype=schema.CAT)
        pids = pl.Series([self._tgids.get(t) for t in values.tolist()], dtype=pl.UInt32)
        index = pl.Series(codes)
        return {"pid": pids.gather(index), "comm": comms.gather(index)}

    def _ledger(self, window: Window, skipped: Skipped) -> pl.DataFrame:
        rows: list[tuple[int, str, str, int, int]] = []
        counts = np.bincount(window.source, minlength=len(self._cpus))
        self.counts += counts
        lost = np.zeros(len(self._cpus), np.int64)
        for gap in window.gaps:
            lost[gap.place] += max(gap.lost, 1)
        for index, cpu in enumerate(self._cpus):
            left_out = skipped.of_file(cpu.file)
            rows += _accounts(cpu, window.accounts[index], int(counts[index]), left_out)
            if lost[index]:
                rows.append((cpu.file, "lost", "ring_buffer_overrun", int(lost[index]), 0))
        return _ledger_rows(rows)


def _accounts(
    cpu: _CpuFile, pages: Account, records: int, left_out: list[tuple[str, int, int]]
) -> list[tuple[int, str, str, int, int]]:
    bad = pages.bad_heads * cpu.page_size
    skipped = [("bad_page_head", pages.bad_heads, bad), ("broken_page_data", pages.broken_pages, pages.broken)]
    skipped += [("duplicate_sample", pages.duplicates, pages.duplicate_bytes), *left_out]
    used = pages.size - sum(size for _, _, size in skipped)
    rows = [(cpu.file, "used", "", records - sum(count for _, count, _ in left_out), used)]
    return rows + [(cpu.file, "skipped", reason, count, size) for reason, count, size in skipped if count]


def _ledger_rows(rows: list[tuple[int, str, str, int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["file", "outcome", "reason", "records", "bytes"], orient="row")
    return schema.LEDGER.conform(frame.with_columns(pl.lit("ftrace").alias("source")))


def torn_ends(cpus: Sequence[_CpuFile], reason: str) -> pl.DataFrame:
    """Return ledger rows for the ends of files that are cut inside a page or a record."""
    return _ledger_rows([(cpu.file, "skipped", reason, 1, cpu.torn()) for cpu in cpus if cpu.torn()])


def _losses(rows: Iterable[tuple[int, int | None, int | None, int | None]]) -> pl.DataFrame:
    columns = {"cpu": pl.UInt16, "from_ns": pl.Int64, "to_ns": pl.Int64, "count": pl.Int64}
    frame = pl.DataFrame(list(rows), schema=columns, orient="row")
    return schema.LOSSES.conform(frame.with_columns(pl.lit("ftrace").alias("source")))


def _stats_losses(trace: PageTrace, cpus: list[CpuPages], reader: RecordReader) -> pl.DataFrame:
    """Return what the counters tell and no page did: overwritten ones came first, dropped ones last.

    Nothing tells where the other missing records were: the file was cut, or is missing.
    """
    rows: list[tuple[int, int | None, int | None, int | None]] = []
    until = max((cpu.last_stamp for cpu in cpus if cpu.last_stamp is not None), default=None)
    places = {f"cpu{cpu.cpu}": index for index, cpu in enumerate(cpus)}
    for name, stats in trace.stats.items():
        index, number = places.get(name), _CPU.fullmatch(name)
        if not number:
            continue
        cpu = cpus[index] if index is not None else None
        first, last = (cpu.first_stamp, cpu.last_stamp) if cpu else (None, None)
        overrun, dropped = (
            0 if index in reader.gaps else _count(stats.get(k, "")) for k in ("overrun", "dropped events")
        )
        read = int(reader.counts[index]) if index is not None else 0
        missing = _count_told(stats, until) - read if trace.is_told else 0
        found = ((None, first, overrun), (last, None, dropped), (None, None, missing))
        rows += [(int(number[1]), *row) for row in found if row[2] > 0]
    return _losses(rows)


def _count_told(stats: Mapping[str, str], until: int | None) -> int:
    """Return how many records the counters of a CPU tell that belong into its file.

    What left the buffer (`read events`) was put there; what lay in it (`entries`) was to follow, if it is not all of
    the time behind the last record of the recording (`until`): then the counters are of later, and the trace went on.
    """
    read, entries = (_count(stats.get(key, "")) for key in ("read events", "entries"))
    whole, _, micros = stats.get("oldest event ts", "").strip().partition(".")
    if until is None or not whole.isdecimal() or (micros and not micros.isdecimal()):
        return read
    oldest = int(whole) * 10**9 + int(micros) * 1000 if micros else int(whole)
    # It is rounded to a microsecond.
    return read + (entries if oldest - 1000 <= until else 0)


def _count(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0
