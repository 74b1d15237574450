"""Read what user-space probes recorded through perf: samples whose raw data is the trace record itself.

A sample (PERF_RECORD_SAMPLE of perf_event.h, Linux 4.1 to 7.2, sample_type TID|TIME|ID|CPU|RAW) holds after its header
of 8 bytes: u32 pid, u32 tid, u64 time, u64 id, u32 cpu, u32 0, u32 size, and the record in the layout of its `format`
file. Older captures have no id (sample_type TID|TIME|CPU|RAW).

A thread that inherited an event and was bound too has two events that see each hit. Both samples lie side by side,
because the kernel writes them with preemption off: same thread, same bytes, another id, each its own time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracecorr.model.parts import Block
from tracecorr.read.byte_text import Ints
from tracecorr.read.ftrace.formats import Format, PageTrace, parse_formats, render_event
from tracecorr.read.ftrace.pages import RecordReader, torn_ends
from tracecorr.read.ftrace.ring import SLACK, Account, Bytes, Gap, Records, Window, word_view

# Types of perf's records (perf_event.h).
_SAMPLE, _LOST = 9, 2
# Bytes before the pid, before the time, before the size of the record, before the record; the last two without id.
_PID_AT, _TIME_AT, _SIZE_AT, _RECORD_AT = 8, 16, 32, 36
_ID_AT, _ID_BYTES = 24, 8
_BYTES_AT_A_TIME, _FEWEST_BYTES = 16 << 20, 64 << 10


def read_perf_records(
    trace: PageTrace, files: Mapping[int, int], clock: str = "unknown", *, bytes_at_a_time: int = _BYTES_AT_A_TIME
) -> Iterator[Block]:
    """Yield the blocks of a recording through perf: the rows that the same probes give in a trace instance.

    Args:
        trace: `pages` are the perf records of each CPU; formats and names as for pages.
        files: key of the file of each CPU in `trace.pages`.
        clock: name of the clock of the samples, for the column `clock`.
        bytes_at_a_time: bytes of all CPUs decoded at a time; bounds the memory.
    """
    bytes_per_cpu = max(bytes_at_a_time // max(len(trace.pages), 1), min(bytes_at_a_time, _FEWEST_BYTES))
    cpus = [_CpuSamples(cpu, files[cpu], chunks, bytes_per_cpu) for cpu, chunks in sorted(trace.pages.items())]
    reader = RecordReader(trace, clock, cpus)
    sizes = _record_sizes(trace.formats)
    while any(not cpu.used_up for cpu in cpus):
        for cpu in cpus:
            cpu.fill()
        _read_on(cpus, bytes_at_a_time)
        window, owners = _next_window(cpus, sizes)
        reader.learn_processes(owners)
        yield reader.read(window)
    yield Block(events=reader.pairer.finish(), ledger=torn_ends(cpus, "torn_record"))


def render_sample(sample: bytes, formats: Mapping[int, Format]) -> str:
    """Return event, thread and fields of a sample; "" where the bytes are no whole sample of a known event.

    Args:
        sample: the bytes of one record of perf, its header included.
        formats: by event id (`formats.parse_formats`).
    """
    whole = len(sample) >= _RECORD_AT + 4 and int.from_bytes(sample[6:8], "little") == len(sample)
    if not whole or int.from_bytes(sample[:4], "little") != _SAMPLE:
        return ""
    flat = np.frombuffer(sample + bytes(SLACK), np.uint8)
    has_id = _has_id(word_view(flat), np.zeros(1, np.int64), np.array([len(sample)]))[0]
    begin = _RECORD_AT + _ID_BYTES * int(has_id)
    return render_event(sample[begin : begin + int.from_bytes(sample[begin - 4 : begin], "little")], formats)


@dataclass
class _Samples(Records):
    """Hold samples; `data` and `length` are first byte and length of the trace record in each."""

    data: Ints
    length: Ints

    def payloads(self, flat: Bytes) -> tuple[Ints, Ints]:
        """Return first byte and length of the trace record of each sample."""
        del flat
        return self.data, self.length


class _CpuSamples:
    """Hold the bytes of one CPU that are read but not used up."""

    page_size = 0  # perf has no pages

    def __init__(self, cpu: int, file: int, chunks: bytes | Iterable[bytes], at_a_time: int) -> None:
        self.cpu, self.file = cpu, file
        self._chunks = iter([chunks] if isinstance(chunks, bytes | bytearray | memoryview) else chunks)
        self._want = at_a_time
        self.buffer = bytearray()
        self.offset = 0
        self.ended = False
        self.broken = False
        self.last_stamp: int | None = None
        self.last_sample = b""  # of the records that are used up; with the id of the first of its kind
        self.starts: Ints = np.zeros(0, np.int64)
        self.sizes: Ints = np.zeros(0, np.int64)

    @property
    def used_up(self) -> bool:
        """Tell whether no whole record is left."""
        return self.ended and not len(self.starts)

    def fill(self) -> None:
        """Read more, and find the whole records in it."""
        self.read(self._want)

    def read(self, want: int) -> None:
        """Read until `want` bytes are here or the file ends, and find the whole records in them."""
        while len(self.buffer) < want and not self.ended:
            chunk = next(self._chunks, None)
            self.ended = chunk is None
            self.buffer += chunk or b""
        self._find_records()

    def reached(self) -> int:
        """Return the time of the last sample that is here, or was."""
        for start in reversed(self.starts.tolist()):
            if int.from_bytes(self.buffer[start : start + 4], "little") == _SAMPLE:
                return int.from_bytes(self.buffer[start + _TIME_AT : start + _TIME_AT + 8], "little")
        return self.last_stamp or 0

    def torn(self) -> int:
        """Return the bytes at the end of the file that are no whole record."""
        return len(self.buffer)

    def release(self, count: int) -> int:
        """Drop the first `count` records; return their bytes."""
        size = int(self.sizes[:count].sum())
        del self.buffer[:size]
        self.offset += size
        self.starts, self.sizes = self.starts[count:] - size, self.sizes[count:]
        return size

    def _find_records(self) -> None:
        """Walk on from record to record: only each one tells where the next one starts."""
        known = int(self.starts[-1] + self.sizes[-1]) if len(self.starts) else 0
        halves = memoryview(self.buffer)[known : len(self.buffer) // 8 * 8].cast("H")
        at, end = 0, len(halves)
        starts: list[int] = []
        while at + 4 <= end:
            size = halves[at + 3] >> 1
            if size < 4 or size & 3:
                self.broken = True
                break
            if at + size > end:
                break
            starts.append(at)
            at += size
        halves.release()
        edges = np.array([*starts, at], np.int64) * 2 + known
        self.starts, self.sizes = np.append(self.starts, edges[:-1]), np.append(self.sizes, np.diff(edges))
        if self.broken:
            # Nothing after it can be found: the rest counts as torn.
            self.ended = True


def _read_on(cpus: list[_CpuSamples], size: int) -> None:
    """Read on the CPUs that were busy while hundreds of others recorded little: a window ends where one of them does.

    Args:
        cpus: of each of them something is here, or it has ended.
        size: bytes that all of them may hold.
    """
    spare = size - sum(len(cpu.buffer) for cpu in cpus)
    while spare > 0 and (left := [cpu for cpu in cpus if not cpu.ended]):
        slowest = min(left, key=_CpuSamples.reached)
        before = len(slowest.buffer)
        slowest.read(before + min(max(before, 1), spare))
        spare -= len(slowest.buffer) - before


def _record_sizes(formats: Mapping[str, str]) -> Ints:
    """Return the bytes of a record by its event number: perf fills records up, so their length says too much."""
    sizes = np.full(1 << 16, 1 << 31, np.int64)
    for number, event in parse_formats(formats).items():
        if event.fields and not any(field.is_dynamic for field in event.fields):
            sizes[number] = max(field.offset + field.size for field in event.fields)
    return sizes


def _next_window(cpus: list[_CpuSamples], sizes: Ints) -> tuple[Window, dict[int, int]]:
    """Return the next records in time of all CPUs, and the process of each of their threads."""
    flat = np.frombuffer(b"".join([*(bytes(c.buffer) for c in cpus), bytes(SLACK)]), np.uint8)
    words = word_view(flat)
    edges = np.cumsum([0, *(len(c.buffer) for c in cpus)])
    parts = [_Part(cpu, int(edge), words) for cpu, edge in zip(cpus, edges, strict=False)]
    until = min((p.last for p in parts if not p.cpu.ended and p.last is not None), default=None)
    counts = [p.count_until(until) for p in parts]
    chosen = [p.samples(count, flat) for p, count in zip(parts, counts, strict=True)]
    at = np.concatenate([c.at for c in chosen])
    size = np.concatenate([c.size for c in chosen])
    source = np.repeat(np.arange(len(cpus)), [len(c.at) for c in chosen])
    owner, stamp = words[at + _PID_AT], words[at + _TIME_AT].view(np.int64)
    more = _ID_BYTES * _has_id(words, at, size)
    length = (words[at + more + _SIZE_AT] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    data = at + more + _RECORD_AT
    length = np.minimum(length, at + size - data)
    length = np.minimum(length, sizes[(words[data] & np.uint64(0xFFFF)).astype(np.int64)])
    records = _Samples(np.zeros(len(at), np.int64), at, size, stamp, None, data, length)
    shift = np.array([c.offset for c in cpus]) - edges[:-1]
    gaps = [gap for index, (p, count) in enumerate(zip(parts, counts, strict=True)) for gap in p.gaps(index, count)]
    accounts = [
        Account(cpu.release(count), duplicates=c.duplicates, duplicate_bytes=c.duplicate_bytes)
        for cpu, count, c in zip(cpus, counts, chosen, strict=True)
    ]
    pairs = np.unique(owner).tolist()
    owners = {pair >> 32: pair & 0xFFFFFFFF for pair in pairs}
    return Window(flat, records, source, shift, accounts, gaps), owners


def _has_id(words: npt.NDArray[np.uint64], at: Ints, size: Ints) -> npt.NDArray[np.bool_]:
    """Tell which samples have an id: there a 0 lies where the others have the type of the record, which is never 0."""
    none = (words[at + _RECORD_AT] & np.uint64(0xFFFFFFFF)) == 0
    return np.asarray(none & (size >= _ID_BYTES + _RECORD_AT + 4), np.bool_)


def _equal_before(words: npt.NDArray[np.uint64], at: Ints, size: Ints) -> npt.NDArray[np.bool_]:
    """Tell which samples have thread and record of the sample before them; the first one has none."""
    equal = np.zeros(len(at), np.bool_)
    if len(at) < 2:
        return equal
    rows = np.flatnonzero((size[1:] == size[:-1]) & (words[at[1:] + _PID_AT] == words[at[:-1] + _PID_AT])) + 1
    place = _ID_AT + _ID_BYTES
    done = [np.zeros(0, np.int64)]
    while len(rows):
        whole = size[rows] <= place
        done.append(rows[whole])
        rows = rows[~whole]
        rows = rows[words[at[rows] + place] == words[at[rows - 1] + place]]
        place += 8
    equal[np.concatenate(done)] = True
    return equal


def _thread_and_record(sample: bytes) -> tuple[bytes, bytes]:
    return sample[_PID_AT:_TIME_AT], sample[_ID_AT + _ID_BYTES :]


@dataclass
class _Chosen:
    """Place and size of the samples that count, and how many were doubles."""

    at: Ints
    size: Ints
    duplicates: int
    duplicate_bytes: int


class _Part:
    """The whole records of one CPU inside the bytes of all."""

    def __init__(self, cpu: _CpuSamples, edge: int, words: npt.NDArray[np.uint64]) -> None:
        self.cpu = cpu
        self.at, self._words = cpu.starts + edge, words
        self.kind = (words[self.at] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        self.is_sample = (self.kind == _SAMPLE) & (cpu.sizes >= _RECORD_AT + 4)
        stamps = np.where(self.is_sample, words[self.at + _TIME_AT].view(np.int64), 0)
        # A record that is no sample counts with the sample before it.
        self.reached = np.maximum.accumulate(stamps) if len(stamps) else stamps

    @property
    def last(self) -> int | None:
        """Return the time that this CPU has reached."""
        return int(self.reached[-1]) if len(self.reached) else self.cpu.last_stamp

    def count_until(self, until: int | None) -> int:
        """Return how many records are not later than `until`."""
        return len(self.at) if until is None else int(np.searchsorted(self.reached, until, "right"))

    def samples(self, count: int, flat: Bytes) -> _Chosen:
        """Return the samples among the first `count` records, one of each hit."""
        chosen = self.is_sample[:count]
        at, size = self.at[:count][chosen], self.cpu.sizes[:count][chosen]
        if not len(at):
            return _Chosen(at, size, 0, 0)
        numbers = np.where(_has_id(self._words, at, size), self._words[at + _ID_AT], np.uint64(0))
        equal = _equal_before(self._words, at, size)
        run = np.cumsum(~equal) - 1
        firsts = numbers[~equal]
        first = bytes(flat[at[0] : at[0] + size[0]])
        before = self.cpu.last_sample
        if numbers[0] and _thread_and_record(first) == _thread_and_record(before):
            firsts[0] = int.from_bytes(before[_ID_AT : _ID_AT + _ID_BYTES], "little")
        # Of the events that saw the same hits one is believed.
        double = numbers != firsts[run]
        last = bytes(flat[at[-1] : at[-1] + size[-1]])
        known = int(firsts[-1]).to_bytes(_ID_BYTES, "little")
        self.cpu.last_sample = last[:_ID_AT] + known + last[_ID_AT + _ID_BYTES :] if firsts[-1] else b""
        return _Chosen(at[~double], size[~double], int(double.sum()), int(size[double].sum()))

    def gaps(self, index: int, count: int) -> Iterator[Gap]:
        """Yield what the kernel says it lost among the first `count` records."""
        for row in np.flatnonzero(self.kind[:count] == _LOST).tolist():
            before = int(self.reached[row]) or self.cpu.last_stamp
            later = self.reached[row + 1 :]
            after = int(later[later > self.reached[row]][0]) if (later > self.reached[row]).any() else None
            lost = int(self._words[self.at[row] + 16])
            yield Gap(index, lost, before, after)
        if count:
            self.cpu.last_stamp = int(self.reached[count - 1]) or self.cpu.last_stamp
