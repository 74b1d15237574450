"""Read a binary recording: pages of every CPU, merged by time, then paired like text.

Binary payloads become the wide frames and halves that the text reader makes, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.byte_text import Ints, Words
from tracecorr.read.ftrace import events as ev
from tracecorr.read.ftrace.events import add_marker_texts, add_printk, number_values
from tracecorr.read.ftrace.formats import (
    INSIDE,
    Field,
    Format,
    PageTrace,
    Symbols,
    page_layout,
    parse_formats,
    probed_functions,
    saved_names,
)
from tracecorr.read.ftrace.pairing import Pairer
from tracecorr.read.ftrace.ring import Account, Bytes, CpuPages, Window, next_window, word_view
from tracecorr.read.ftrace.tracepoints import PRINTED_NAMES, UNSET_FIELDS

# Id of records that are too short to hold one.
_SHORT = 0xFFFF
_DRIVER_GROUPS = ("kfd", "amdgpu")
_KERNEL = 1 << 63
_NAMED = {"function": pl.String, "module": pl.String}
_MASKS = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: (1 << 64) - 1}


class _Skipped:
    """Count the records of each file that cannot be used, by reason."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)

    def add(self, reason: str, base: pl.DataFrame) -> None:
        """Count the records of `base`."""
        for file, count, size in base.group_by("file").agg(pl.len(), pl.col("length").sum()).iter_rows():
            known = self._counts[file].get(reason, (0, 0))
            self._counts[file][reason] = (known[0] + count, known[1] + size)

    def of_file(self, file: int) -> list[tuple[str, int, int]]:
        """Return (reason, records, bytes) of one file."""
        return [(reason, *counts) for reason, counts in self._counts[file].items()]


class _Rows:
    """Hold the records of one event: their base columns and where their payloads are."""

    def __init__(self, flat: Bytes, base: pl.DataFrame, data: Ints, length: Ints) -> None:
        self.flat, self.base, self.data, self.length = flat, base, data, length

    def ints(self, field: Field) -> npt.NDArray[np.uint64]:
        """Return the values of a field as u64 (two's complement)."""
        values = word_view(self.flat)[self.data + field.offset]
        if field.size == 8:
            return values
        if not field.signed:
            return values & np.uint64(_MASKS[field.size])
        shift = 64 - 8 * field.size
        return ((values << np.uint64(shift)).view(np.int64) >> shift).view(np.uint64)

    def select(self, rows: npt.NDArray[np.bool_]) -> _Rows:
        """Return some of the records."""
        return _Rows(self.flat, self.base.filter(pl.Series(rows)), self.data[rows], self.length[rows])

    def numbers(self, event: Format, name: str) -> npt.NDArray[np.uint64]:
        """Return the values of the field `name`, zeros if the event has none."""
        field = next((f for f in event.fields if f.name == name), None)
        return self.ints(field) if field and self._is_number(field) else np.zeros(len(self.data), np.uint64)

    def _is_number(self, field: Field) -> bool:
        """Tell whether each record holds a number in the place of a field; a damaged format names any place."""
        return field.size in _MASKS and bool((field.offset + field.size <= self.length).all())

    def texts(self, field: Field) -> pl.Series:
        """Return the texts of a field, in place or where its `__data_loc` points to."""
        if field.is_dynamic:
            where = self.ints(Field(field.name, "", field.offset, 4, signed=False)).astype(np.int64)
            start = (where & 0xFFFF) + (field.offset + 4 if "__rel_loc" in field.type else 0)
            return self.texts_at(start, where >> 16)
        count = len(self.data)
        return self.texts_at(np.full(count, field.offset), np.full(count, field.size or 1 << 20))

    def texts_at(self, start: Ints, size: Ints) -> pl.Series:
        """Return the texts at `start` (in the payload) with at most `size` bytes, up to their NUL."""
        room = np.clip(self.length - start, 0, size)
        blob = self.flat
        texts = [
            blob[b : b + n].tobytes().partition(b"\0")[0].decode("utf-8", "replace")
            for b, n in zip((self.data + start).tolist(), room.tolist(), strict=True)
        ]
        return pl.Series(texts, dtype=pl.String)

    def frame(self, event: Format, wanted: Iterable[str] | None = None) -> tuple[pl.DataFrame, list[str]]:
        """Return the wide frame of an event (`u_X`, `t_X` per field) and its keys; `wanted` = only these."""
        renamed = PRINTED_NAMES.get(event.name, {})
        columns, keys = [], []
        for field in event.fields:
            key = renamed.get(field.name, field.name)
            if (wanted is not None and key not in wanted) or key in keys:
                continue
            if field.is_text:
                columns.append(self.texts(field).alias(f"t_{key}"))
            elif field.name in event.choices and self._is_number(field):
                words = pl.Series(event.choices[field.name][::-1], dtype=pl.String)
                columns.append(words.gather(pl.Series((self.ints(field) > 0).astype(np.uint8))).alias(f"t_{key}"))
            elif self._is_number(field) and not field.is_dynamic:
                columns.append(pl.Series(f"u_{key}", self.ints(field)))
            else:
                continue
            keys.append(key)
        return self.base.with_columns(columns), keys


class _Payloads:
    """Add the records of a window to a `Batch`, event by event.

    Args:
        formats: by event id.
        probed: function behind each probe event.
        symbols: functions by address.
    """

    def __init__(self, formats: Mapping[int, Format], probed: Mapping[str, str], symbols: Symbols) -> None:
        self._formats, self._probed, self._symbols = formats, probed, symbols

    def add(self, batch: ev.Batch, flat: Bytes, kinds: Ints, base: pl.DataFrame, data: Ints, length: Ints) -> _Skipped:
        """Add all records, given in the order of their event ids; return what cannot be used."""
        skipped = _Skipped()
        edges = np.flatnonzero(np.diff(kinds)) + 1
        for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(kinds)], strict=True):
            rows = _Rows(flat, base[start:end], data[start:end], length[start:end])
            if start < end:
                self._add_event(batch, rows, int(kinds[start]), skipped)
        return skipped

    def _add_event(self, batch: ev.Batch, rows: _Rows, kind: int, skipped: _Skipped) -> None:
        event = self._formats.get(kind)
        if event is None:
            skipped.add("short_record" if kind == _SHORT else "unknown_event_id", rows.base)
            return
        fits = event.fits(rows.length)
        if not fits.all():
            skipped.add("record_unlike_its_format", rows.base.filter(~fits))
            rows = rows.select(fits)
        if len(rows.data):
            self._choose(event)(batch, rows, event)

    def _choose(self, event: Format) -> Callable[[ev.Batch, _Rows, Format], None]:
        names = {f.name for f in event.fields}
        if event.system == "syscalls" and event.name.startswith("sys_enter_"):
            return _enter
        if event.system == "syscalls" and event.name.startswith("sys_exit_"):
            return _exit
        if event.system == "raw_syscalls" and "id" in names:
            return _raw_enter if event.name == "sys_enter" else _raw_exit
        if {"__probe_ip", "__probe_func"} & names:
            return self._probe
        if event.system == "ftrace":
            return self._own.get(event.name, _event)
        return _console if event.system == "printk" and event.name == "console" else _event

    @property
    def _own(self) -> dict[str, Callable[[ev.Batch, _Rows, Format], None]]:
        """Return what reads the kernel's own events."""
        return {
            "function": self._function, "funcgraph_entry": self._graph, "funcgraph_exit": self._graph,
            "print": self._print, "raw_data": _raw_marker,
        }  # fmt: skip

    def _probe(self, batch: ev.Batch, rows: _Rows, event: Format) -> None:
        frame, keys = rows.frame(event)
        back = "__probe_func" in keys
        keys = [k for k in keys if not k.startswith("__probe")]
        site = "__probe_func" if back else "__probe_ip"
        frame = frame.with_columns(self._name_probed(event, rows.numbers(event, site)))
        frame = frame.with_columns(pl.when(ev.value_of(frame, site) >= _KERNEL).then("function").alias("function"))
        ev.add_hits(batch, frame, event.name, keys, is_return=back)

    def _name_probed(self, event: Format, site: Words) -> pl.DataFrame:
        """Return `function` and `module` of the sites of a probe: by definition, else by the kernel's symbols."""
        defined = self._probed.get(event.name)
        if defined:
            one = pl.DataFrame({"function": [defined], "module": [None]}, schema=_NAMED)
            return one[np.zeros(len(site), np.uint32)]
        # Its own name is the next best, and whoever defined it may have put it into a group that is called like the
        # driver.
        name = ev.base_name(event.name)
        group = pl.lit(event.system if event.system in _DRIVER_GROUPS else None, pl.String)
        known = ~pl.col("function").str.starts_with("0x")
        return self._symbols.names(site).select(
            pl.when(known).then("function").otherwise(pl.lit(name)).alias("function"),
            pl.when(known).then(pl.coalesce("module", group)).otherwise(group).alias("module"),
        )

    def _function(self, batch: ev.Batch, rows: _Rows, event: Format) -> None:
        address = rows.numbers(event, "ip")
        ev.add_function(batch, rows.base.with_columns(self._symbols.names(address)))

    def _graph(self, batch: ev.Batch, rows: _Rows, event: Format) -> None:
        frame, _ = rows.frame(event, ("depth", "calltime", "rettime"))
        if "u_depth" not in frame.columns:
            return _event(batch, rows, event)
        frame = frame.with_columns(self._symbols.names(rows.numbers(event, "func")))
        # Both times come from another clock than the record: their difference is right, they are not.
        dur_ns = (ev.value_of(frame, "rettime") - ev.value_of(frame, "calltime")).reinterpret(signed=True)
        frame = frame.with_columns(dur_ns=dur_ns)
        is_exit = event.name == "funcgraph_exit"
        ev.add_graph(batch, frame, pl.col("u_depth"), pl.col("dur_ns"), is_exit=is_exit)
        return ev.add_durations(batch, frame, of_exit=True) if is_exit else None

    def _print(self, batch: ev.Batch, rows: _Rows, event: Format) -> None:
        frame, _ = rows.frame(event, ("buf",))
        if "t_buf" not in frame.columns:
            return _event(batch, rows, event)
        frame = frame.with_columns(self._symbols.names(rows.numbers(event, "ip"), INSIDE))
        # Texts of a driver stand under the function that wrote them, all others are markers.
        text = pl.col("t_buf").str.strip_chars_end("\n").alias("rest")
        frame = frame.with_columns(text, pl.col("function").alias("event"))
        ours = pl.col("function").str.contains("^(?:0x|tracing_mark_write)")
        add_marker_texts(batch, frame.filter(ours))
        return add_printk(batch, frame.filter(~ours))


def _raw_marker(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    numbers = [format(number, "x") for number in rows.numbers(event, "id").tolist()]
    data = zip(numbers, (rows.data + 12).tolist(), (rows.data + rows.length).tolist(), strict=True)
    texts = [f"# {number} buf: {rows.flat[a:b].tobytes().hex(' ')}" for number, a, b in data]
    add_marker_texts(batch, rows.base.with_columns(pl.Series("rest", texts, dtype=pl.String)))


def _raw_enter(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    start = next((f.offset for f in event.fields if f.name == "args"), 16)
    for name, keys, part in _raw_calls(rows, event):
        fields = [Field(key, "", start + 8 * i, 8, signed=False) for i, key in enumerate(keys)]
        wanted = ev.used_fields(name, keys)
        columns = [pl.Series(f"u_{f.name}", part.ints(f)) for f in fields if f.name in wanted]
        ev.add_syscall_enter(batch, part.base.with_columns(columns), name, keys, is_raw=True)


def _raw_exit(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    for name, _, part in _raw_calls(rows, event):
        frame, keys = part.frame(event, ("ret",))
        if keys:
            ev.add_syscall_exit(batch, frame, name, is_raw=True)


def _raw_calls(rows: _Rows, event: Format) -> Iterator[tuple[str, list[str], _Rows]]:
    """Yield name, arguments and records of each system call among records that tell its number."""
    distinct, codes = ev.number_values(rows.numbers(event, "id"))
    for code, number in enumerate(distinct.view(np.int64).tolist()):
        name, keys = ev.syscall_of(number)
        yield name, keys, rows.select(codes == code)


def _enter(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    name = event.name.removeprefix("sys_enter_")
    names = [f.name for f in event.fields if f.name != "__syscall_nr"]
    # From 7.2 on the text behind a path pointer is a field `__NAME_val`.
    path = next((n for n in names if n.startswith("__") and n.endswith("_val")), None)
    keys = [n for n in names if not n.startswith("__")]
    wanted = ev.used_fields(name, keys)
    frame, keys = rows.frame(event, {*wanted, path} if path else wanted)
    if path and f"t_{path}" in frame.columns:
        frame = frame.rename({f"t_{path}": "t_path"})
        keys = [*(k for k in keys if k != path), "path"]
    ev.add_syscall_enter(batch, frame, name, keys)


def _exit(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    frame, keys = rows.frame(event, ("ret",))
    if keys:
        ev.add_syscall_exit(batch, frame, event.name.removeprefix("sys_exit_"))


def _console(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    frame, _ = rows.frame(event, ("msg",))
    if "t_msg" in frame.columns:
        ev.add_console(batch, frame.rename({"t_msg": "rest"}))
    else:
        _event(batch, rows, event)


def _event(batch: ev.Batch, rows: _Rows, event: Format) -> None:
    frame, keys = rows.frame(event)
    keys = [k for k in keys if "context" not in keys or k != UNSET_FIELDS.get(event.name)]
    for first, second, key in (("fence_context", "fence_seqno", "fence"), ("ctx", "seqno", "depends_fence")):
        if "fence_context" in keys and {f"u_{first}", f"u_{second}"} <= set(frame.columns):
            frame = frame.with_columns(pl.format("{}:{}", f"u_{first}", f"u_{second}").alias(f"t_{key}"))
            keys = [*(k for k in keys if k not in (first, second)), key]
    ev.add_event(batch, frame, event.name, keys)


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
        self._payloads = _Payloads(parse_formats(trace.formats), probed_functions(trace.probes), symbols)
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
        kinds = np.where(length >= 8, (head & np.uint64(0xFFFF)).astype(np.int64), _SHORT)
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

    def _ledger(self, window: Window, skipped: _Skipped) -> pl.DataFrame:
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
