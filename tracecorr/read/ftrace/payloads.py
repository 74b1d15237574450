"""From binary payloads to the wide frames and halves that the text reader makes too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.read.byte_text import Ints, Words
from tracecorr.read.ftrace import events as ev
from tracecorr.read.ftrace.events import add_marker_texts, add_printk
from tracecorr.read.ftrace.formats import INSIDE, Field, Format, Symbols
from tracecorr.read.ftrace.ring import Bytes, word_view
from tracecorr.read.ftrace.tracepoints import PRINTED_NAMES, UNSET_FIELDS

# Id of records that are too short to hold one.
SHORT = 0xFFFF
_DRIVER_GROUPS = ("kfd", "amdgpu")
_KERNEL = 1 << 63
_NAMED = {"function": pl.String, "module": pl.String}
_MASKS = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: (1 << 64) - 1}


class Skipped:
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


class Payloads:
    """Add the records of a window to a `Batch`, event by event.

    Args:
        formats: by event id.
        probed: function behind each probe event.
        symbols: functions by address.
    """

    def __init__(self, formats: Mapping[int, Format], probed: Mapping[str, str], symbols: Symbols) -> None:
        self._formats, self._probed, self._symbols = formats, probed, symbols

    def add(self, batch: ev.Batch, flat: Bytes, kinds: Ints, base: pl.DataFrame, data: Ints, length: Ints) -> Skipped:
        """Add all records, given in the order of their event ids; return what cannot be used."""
        skipped = Skipped()
        edges = np.flatnonzero(np.diff(kinds)) + 1
        for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(kinds)], strict=True):
            rows = _Rows(flat, base[start:end], data[start:end], length[start:end])
            if start < end:
                self._add_event(batch, rows, int(kinds[start]), skipped)
        return skipped

    def _add_event(self, batch: ev.Batch, rows: _Rows, kind: int, skipped: Skipped) -> None:
        event = self._formats.get(kind)
        if event is None:
            skipped.add("short_record" if kind == SHORT else "unknown_event_id", rows.base)
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
