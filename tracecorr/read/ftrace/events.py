"""Events by name: which row, columns and args a record becomes, before enter and exit are paired.

Both readers (text and ring buffer pages) make the same wide frames: the columns of `_BASE`, and for
each field `x` of the event `u_x` (u64) and `t_x` (text). The functions here turn them into halves: one side of a call,
or a whole moment. Texts that programs and drivers write into the trace are markers, clock samples and ranges of roctx.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.model.schema import CAT
from tracecorr.read.byte_text import MIX, Words
from tracecorr.read.ftrace.tracepoints import event_layer, split_fields, typed_fields
from tracecorr.read.kernel_log.printk import list_fields, name_messages
from tracecorr.read.kfd.ioctls import ioctl_name, layer_of, result_text

_BASE = ("seq", "file", "offset", "length", "stamp_ns", "cpu", "tid", "pid", "comm")
INSTANT, ENTER, EXIT = 0, 1, 2
# FUNCTION: a probe, or a print of the driver; GRAPH and MOMENT: the function_graph and the function tracer.
SYSCALL, FUNCTION, GRAPH, _MOMENT = 1, 2, 3, 4
# Numbers below this (all thread numbers are) index a table of their own.
_SMALL = 1 << 22
_MOST_ERROR = np.uint64(4095)

_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "seq": pl.Int64, "file": pl.UInt16, "offset": pl.Int64, "length": pl.UInt32, "stamp_ns": pl.Int64,
    "cpu": pl.UInt16, "tid": pl.UInt64, "pid": pl.UInt32, "comm": CAT, "layer": CAT,
    "name": CAT, "phase": pl.Int8, "call": pl.Int8, "key": CAT, "result": CAT,
    "ring": pl.UInt64, "packet_index": pl.Int64, "arg": pl.UInt64, "fd": pl.Int32, "cmd": pl.UInt32,
    "size_bytes": pl.Int64, "depth": pl.UInt16, "parent_offset": pl.Int64, "dur_ns": pl.Int64,
    "is_raw": pl.Boolean,  # of `raw_syscalls`
}  # fmt: skip
HALF = pl.Schema(_TYPES)

# Per system call: which field fills which column, and which fields become rows of args.
_COLUMNS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "ioctl": ({"fd": "fd", "cmd": "cmd", "arg": "arg"}, ()),
    "mmap": ({"fd": "fd", "arg": "off", "size_bytes": "len"}, ("addr", "prot", "flags")),
    "munmap": ({"arg": "addr", "size_bytes": "len"}, ()),
    "openat": ({"arg": "filename"}, ("path", "flags")),
    "open": ({"arg": "filename"}, ("path", "flags")),
    "close": ({"fd": "fd"}, ()),
    # One per line of a HIP log: without rows of args.
    "write": ({"fd": "fd", "arg": "buf", "size_bytes": "count"}, ()),
    "pwrite64": ({"fd": "fd", "arg": "buf", "size_bytes": "count"}, ("pos",)),
    "writev": ({"fd": "fd", "arg": "vec"}, ("vlen",)),
    "lseek": ({"fd": "fd", "arg": "offset"}, ("whence",)),
    "ftruncate": ({"fd": "fd", "size_bytes": "length"}, ()),
    "dup": ({"fd": "fildes"}, ()),
    "dup2": ({"fd": "oldfd"}, ("newfd",)),
    "dup3": ({"fd": "oldfd"}, ("newfd", "flags")),
    "fcntl": ({"fd": "fd", "arg": "arg"}, ("cmd",)),
    "set_robust_list": ({"arg": "head"}, ()),
    "arch_prctl": ({"arg": "arg2"}, ("option",)),
    "execve": ({"arg": "filename"}, ("path",)),
}
# roctx_push, roctx_pop, roctx_mark, ...; of a second library roctx_push__2.
_COPY = re.compile(r"__\d+$")
_ROCTX = re.compile(r"roctx_(push|pop|mark)(?:__\d+)?$")
_ADDRESS_CALLS = ("mmap", "mremap", "brk", "shmat")
_RETURN_KEYS = ("ret", "retval", "status")
# The tracers tell the entry of a function: its start, or what follows its ENDBR. A probe further behind is none of it.
ENTRY = 16


@dataclass
class Batch:
    """Collect the halves and args of one block; args of exits wait until pairing names their enter.

    Args:
        halves: frames with some of the columns of `HALF`; a column that is absent is null.
        args: rows of `PART_ARGS`.
        exit_args: rows of `PART_ARGS` that name the record of an exit.
    """

    halves: list[pl.DataFrame] = field(default_factory=list)
    args: list[pl.DataFrame] = field(default_factory=list)
    exit_args: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, *, phase: int, call: int, **columns: pl.Expr | str | None) -> None:
        """Add the rows of `frame` as halves, with `columns` on top of `_BASE`."""
        if frame.is_empty():
            return
        values = {k: v if isinstance(v, pl.Expr) else pl.lit(v, pl.String) for k, v in columns.items()}
        values |= {"phase": pl.lit(phase), "call": pl.lit(call)}
        values |= {c: pl.col(c) for c in _BASE if c in frame.columns and c not in values}
        # A column that has its type already needs no cast: there are many small frames.
        self.halves.append(
            frame.select(
                value if frame.schema.get(c) == HALF[c] and c in _BASE else value.cast(HALF[c]).alias(c)
                for c, value in values.items()
            )
        )

    def add_args(self, frame: pl.DataFrame, keys: list[str] | tuple[str, ...], *, of_exit: bool = False) -> None:
        """Add rows of args for the fields `keys` of `frame`."""
        target = self.exit_args if of_exit else self.args
        for key in keys:
            given = [c for c in (f"u_{key}", f"t_{key}") if c in frame.columns]
            if not given:
                continue
            rows = frame.select(
                "file",
                "offset",
                pl.lit(key, CAT).alias("key"),
                value_of(frame, key).alias("u64"),
                _text_of(frame, key).alias("text"),
            )
            if any(frame[c].null_count() for c in given):
                rows = rows.filter(pl.col("u64").is_not_null() | pl.col("text").is_not_null())
            target.append(rows)

    def add_text(self, frame: pl.DataFrame, key: str, text: pl.Expr) -> None:
        """Add one row of args with `text` per row of `frame`."""
        rows = frame.select(
            "file", "offset", pl.lit(key, CAT).alias("key"), pl.lit(None, pl.UInt64).alias("u64"), text.alias("text")
        )
        self.args.append(rows.filter(pl.col("text").is_not_null() & (pl.col("text") != "")))


def value_of(frame: pl.DataFrame, key: str) -> pl.Expr:
    """Return the numbers of field `key`, null if the frame has none."""
    return pl.col(f"u_{key}") if f"u_{key}" in frame.columns else pl.lit(None, pl.UInt64)


def _values(frame: pl.DataFrame, key: str) -> pl.Series:
    """Return the numbers of field `key`, one for each row."""
    return frame.select(pl.col("seq"), value=value_of(frame, key))["value"]


def _text_of(frame: pl.DataFrame, key: str) -> pl.Expr:
    """Return the texts of field `key`, null if the frame has none."""
    return pl.col(f"t_{key}") if f"t_{key}" in frame.columns else pl.lit(None, pl.String)


def used_fields(name: str, keys: list[str]) -> set[str]:
    """Return which of the fields `keys` of system call `name` become columns or args."""
    chosen, args = _COLUMNS.get(name, ({}, tuple(keys)))
    return {*chosen.values(), *args}


def _wrap(value: pl.Expr, bits: int) -> pl.Expr:
    """Return u64 values as signed integers of `bits` bits."""
    if bits == 64:
        return value.reinterpret(signed=True)
    low = (value & ((1 << bits) - 1)).cast(pl.Int64)
    return pl.when(low >= 1 << (bits - 1)).then(low - (1 << bits)).otherwise(low)


def add_syscall_enter(batch: Batch, frame: pl.DataFrame, name: str, keys: list[str], *, is_raw: bool = False) -> None:
    """Add the entries into system call `name`; `keys` are its fields; those of `raw_syscalls` are said to be so."""
    chosen, args = _COLUMNS.get(name, ({}, tuple(keys)))
    columns: dict[str, pl.Expr | str | None] = {}
    for column, key in chosen.items():
        if key in keys:
            value = value_of(frame, key)
            size = value.cast(pl.Int64, strict=False)
            columns[column] = {"fd": _wrap(value, 32), "cmd": value & 0xFFFFFFFF, "size_bytes": size}.get(column, value)
    columns |= {"layer": "syscall", "name": name}
    if "cmd" in columns:
        columns |= _ioctl_columns(_values(frame, "cmd"), name)
    columns |= {"is_raw": pl.lit(value=True)} if is_raw else {}
    batch.add(frame, phase=ENTER, call=SYSCALL, key=name, **columns)
    batch.add_args(frame, args)


def _ioctl_columns(cmd: pl.Series, name: str) -> dict[str, pl.Expr | str | None]:
    """Return `name` and `layer` of calls with the requests `cmd`; those of other drivers keep `name`."""
    distinct, codes = number_values((cmd.fill_null(0) & 0xFFFFFFFF).to_numpy())
    found = [ioctl_name(number) for number in distinct.tolist()]
    names = pl.Series([text or name for text in found], dtype=CAT)
    layers = pl.Series(["ioctl" if text else "syscall" for text in found], dtype=CAT)
    return {"name": pl.lit(names.gather(pl.Series(codes))), "layer": pl.lit(layers.gather(pl.Series(codes)))}


def _results(frame: pl.DataFrame, key: str, *, as_hex: bool = False) -> pl.Series:
    """Return the texts of the return values in field `key`: `0`, an errno name, or the number."""
    values = _values(frame, key)
    # Error numbers are small negative ones: shifted they are small positive ones.
    distinct, codes = number_values(values.fill_null(0).to_numpy() + _MOST_ERROR)
    numbers = pl.DataFrame({"value": (distinct - _MOST_ERROR).view(np.int64)})
    texts = numbers.select(result_text(pl.col("value"), pl.lit(value=as_hex)).cast(CAT)).to_series()
    found = texts.gather(pl.Series(codes))
    return found if not values.null_count() else pl.select(pl.when(values.is_not_null()).then(found)).to_series()


def number_values(values: Words) -> tuple[Words, npt.NDArray[np.uint32]]:
    """Return the distinct numbers, and for each number its place among them.

    Small numbers are slots themselves, and few numbers fall into slots of their own by their hash: that
    is seen in one pass, without sorting.
    """
    if len(values) and int(values.max()) < _SMALL:
        return _number_small(values.view(np.int64))
    bits = 16 if len(values) < 1 << 17 else 20
    slot = (values * MIX) >> np.uint64(64 - bits)
    table = np.zeros(1 << bits, np.uint64)
    table[slot] = values
    if not (table[slot] == values).all():
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct, codes.astype(np.uint32)
    present = np.zeros(1 << bits, np.bool_)
    present[slot] = True
    taken = np.flatnonzero(present)
    code = np.zeros(1 << bits, np.uint32)
    code[taken] = np.arange(len(taken), dtype=np.uint32)
    return table[taken], code[slot]


def _number_small(values: npt.NDArray[np.int64]) -> tuple[Words, npt.NDArray[np.uint32]]:
    present = np.zeros(int(values.max()) + 1, np.bool_)
    present[values] = True
    distinct = np.flatnonzero(present)
    code = np.empty(len(present), np.uint32)
    code[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return distinct.astype(np.uint64), code[values]


def add_syscall_exit(batch: Batch, frame: pl.DataFrame, name: str, *, is_raw: bool = False) -> None:
    """Add the exits of system call `name`; the value is the field `ret`; those of `raw_syscalls` are said to be so."""
    columns: dict[str, pl.Expr | str | None] = {"is_raw": pl.lit(value=True)} if is_raw else {}
    columns["result"] = pl.lit(_results(frame, "ret", as_hex=name in _ADDRESS_CALLS))
    batch.add(frame, phase=EXIT, call=SYSCALL, key=name, layer="syscall", name=name, **columns)


_INDEXES, _READ_INDEX_AT = ("written", "finished", "check"), 128


def _add_doorbell(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str]) -> None:
    """Add hits of a probe on a doorbell store: fields `sig`, `val`, perhaps `ring` and others."""
    batch.add(
        frame, phase=INSTANT, call=0, layer="doorbell", name="doorbell", arg=value_of(frame, "sig"),
        packet_index=_wrap(value_of(frame, "val"), 64), ring=value_of(frame, "ring"),
    )  # fmt: skip
    batch.add_args(frame, [k for k in keys if k not in ("sig", "val", "ring", *_INDEXES)])
    if set(_INDEXES) <= set(keys):
        # The queue tells itself where its read index lies: only then are these its indexes.
        batch.add_args(frame.filter(value_of(frame, "check") == _READ_INDEX_AT), ["written", "finished"])
    if event != "doorbell":
        batch.add_text(frame, "probe", pl.lit(event))


def _add_stores(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str]) -> None:
    """Add stores to signals: only kinds below 0 are doorbells of the hardware (amd_hsa_signal.h, ROCm 4.5 to 7.2)."""
    if "kind" in keys:
        to_user = (value_of(frame, "kind").reinterpret(signed=True) >= 0).fill_null(value=False)
        stores, frame = frame.filter(to_user), frame.filter(~to_user)
        # Without a queue behind the signal the fields of one mean nothing.
        batch.add(stores, phase=INSTANT, call=0, layer="signal", name="signal_store", arg=value_of(frame, "sig"))
        batch.add_args(stores, ["val", "kind"])
    _add_doorbell(batch, frame, event, keys)


def _add_range(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str]) -> None:
    """Add roctx calls: a push and the pop that ends it are one range, everything else a moment."""
    word = event.split("_")[1]
    phase = {"push": ENTER, "pop": EXIT}.get(word, INSTANT)
    name = "roctx_range" if phase else f"roctx_{word}"
    batch.add(frame, phase=phase, call=FUNCTION if phase else 0, layer="marker", name=name, key=name)
    batch.add_args(frame, keys, of_exit=phase == EXIT)


def add_hits(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str], *, is_return: bool) -> None:
    """Add hits of a probe: on a doorbell store, on a range or mark of roctx, or on another function."""
    if event.startswith("doorbell") and not is_return and {"sig", "val"} <= set(keys):
        _add_stores(batch, frame, event, keys)
    elif _ROCTX.match(event) and not is_return:
        _add_range(batch, frame, event, keys)
    else:
        _add_probe(batch, frame, event, keys, is_return=is_return)


def base_name(event: str) -> str:
    """Return the name of a probe, without what says that it is one of a return."""
    return event.removesuffix("_ret")


def name_site(function: str, offset: int) -> str:
    """Return the name of what a probe tells at an offset of a function: the function at its entry, else the place.

    >>> name_site("kfd_ioctl", 4), name_site("kfd_ioctl", 0x120)
    ('kfd_ioctl', 'kfd_ioctl+0x120')
    """
    return function if offset <= ENTRY else f"{function}+{offset:#x}"


def _add_probe(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str], *, is_return: bool) -> None:
    """Add hits of a kernel or user probe; columns `function` (null = user space; else of `name_site`) and `module`."""
    place = pl.col("function").str.contains("+", literal=True).fill_null(value=False)
    _add_places(batch, frame.filter(place), keys)
    frame = frame.filter(~place)
    user = pl.col("function").is_null()
    base = _COPY.sub("", base_name(event) if is_return else event)
    name = pl.when(user).then(pl.lit(base)).otherwise(pl.col("function"))
    layer = pl.when(user).then(pl.lit("hsa")).otherwise(layer_of(pl.col("function"), pl.col("module")))
    columns: dict[str, pl.Expr | str | None] = {"layer": layer, "name": name, "key": name}
    if not is_return and {"cmd", "arg"} <= set(keys):
        # Of kfd_ioctl(file, cmd, arg): the request, as of the system call around it.
        of_driver = pl.col("function") == "kfd_ioctl"
        columns |= {
            "cmd": pl.when(of_driver).then(value_of(frame, "cmd") & 0xFFFFFFFF),
            "arg": pl.when(of_driver).then(value_of(frame, "arg")),
        }
    value = next((k for k in keys if k in _RETURN_KEYS), None) if is_return else None
    if value:
        columns["result"] = pl.coalesce(pl.lit(_results(frame, value)), _text_of(frame, value).cast(CAT))
    batch.add(frame, phase=EXIT if is_return else ENTER, call=FUNCTION, **columns)
    batch.add_args(frame, [k for k in keys if k != value], of_exit=is_return)


def _add_places(batch: Batch, frame: pl.DataFrame, keys: list[str]) -> None:
    """Add hits of a probe within a function: moments in its call, and no call of it."""
    batch.add(frame, phase=INSTANT, call=FUNCTION, layer="other", name=pl.col("function"))
    batch.add_args(frame, keys)


def add_function(batch: Batch, frame: pl.DataFrame) -> None:
    """Add function tracer records; columns `function` and `module`."""
    layer = layer_of(pl.col("function"), pl.col("module"))
    batch.add(frame, phase=INSTANT, call=_MOMENT, layer=layer, name=pl.col("function"))


def add_graph(batch: Batch, frame: pl.DataFrame, depth: pl.Expr, dur_ns: pl.Expr, *, is_exit: bool) -> None:
    """Add one side of function_graph calls; columns `function`, `module`, and the depth counted from 0."""
    # Without the thread (text without funcgraph-proc) the CPU nests them, which is right between switches.
    lane = pl.col("tid").cast(pl.String).fill_null(pl.format("cpu{}", "cpu"))
    layer = layer_of(pl.col("function"), pl.col("module"))
    batch.add(
        frame, phase=EXIT if is_exit else ENTER, call=GRAPH, layer=layer, name=pl.col("function"),
        key=pl.format("graph {} {}", lane, depth), depth=depth.clip(0, 60000), dur_ns=dur_ns,
    )  # fmt: skip


def add_durations(batch: Batch, frame: pl.DataFrame, *, of_exit: bool) -> None:
    """Add what function_graph measured itself, column `dur_ns`, as args.

    It is of the local clock of the CPU, begins before the entry is written, and leaves sleep out with the option
    nosleep-time: the span of a call is that of its two stamps, if both are printed.
    """
    told = frame.filter(pl.col("dur_ns") >= 0).with_columns(u_duration_ns=pl.col("dur_ns").cast(pl.UInt64))
    batch.add_args(told, ["duration_ns"], of_exit=of_exit)


def add_event(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str]) -> None:
    """Add tracepoint records with the fields `keys`; without any, the column `rest` is their `body`."""
    batch.add(frame, phase=INSTANT, call=0, layer=event_layer(event), name=event or "unknown")
    batch.add_args(frame, keys)
    if not keys and "rest" in frame.columns:
        batch.add_text(frame, "body", pl.col("rest"))


def add_others(batch: Batch, frame: pl.DataFrame) -> None:
    """Add records of events that are not known, named by column `event`, with the `body` in `rest`."""
    name = pl.when(pl.col("event") == "").then(pl.lit("unknown")).otherwise(pl.col("event"))
    batch.add(frame, phase=INSTANT, call=0, layer="other", name=name)
    batch.add_text(frame, "body", pl.col("rest"))


def add_console(batch: Batch, frame: pl.DataFrame) -> None:
    """Add records of `printk:console` with their text in `rest`: messages of the GPU's driver get their names."""
    named = name_messages(frame.select(text=pl.col("rest").str.strip_chars_end("\n")))
    is_message = named["name"].is_not_null()
    add_others(batch, frame.filter(~is_message).with_columns(event=pl.lit("console")))
    lines, named = frame.filter(is_message), named.filter(is_message)
    batch.add(lines, phase=INSTANT, call=0, layer="kernel", name=pl.lit(named["name"]))
    for key, numbers, texts in list_fields(named):
        told = lines.select("file", "offset", numbers.alias(f"u_{key}"), texts.alias(f"t_{key}"))
        batch.add_args(told, [key])


def _add_marker(batch: Batch, frame: pl.DataFrame, keys: list[str]) -> None:
    """Add trace markers: with the fields `keys` a clock sample, without them free text in `rest`."""
    batch.add(frame, phase=INSTANT, call=0, layer="marker", name="clock_sync" if keys else "marker")
    batch.add_args(frame, keys)
    if not keys:
        batch.add_text(frame, "text", pl.col("rest"))


def syscall_of(number: int) -> tuple[str, list[str]]:
    """Return name and arguments of a system call of x86-64 (Linux up to 6.18), as `events/syscalls` has them."""
    return _syscalls().get(number, (f"syscall_{number}", [f"arg{i}" for i in range(6)]))


@cache
def _syscalls() -> dict[int, tuple[str, list[str]]]:
    text = files("tracecorr.read.ftrace").joinpath("syscalls_x86_64.csv").read_text()
    rows = (line.split(",") for line in text.splitlines()[1:])
    return {int(number): (name, arguments.split()) for number, name, arguments in rows}


def all_args(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the frames as rows of `PART_ARGS`."""
    return schema.PART_ARGS.conform(pl.concat(frames, how="vertical_relaxed")) if frames else schema.PART_ARGS.empty()


# What the kernel prints in front of a marker.
MARKER = "tracing_mark_write"
CLOCK_NAMES = ("clock_sync", "TRACECORR_SYNC", "tracecorr_clock")
CLOCK_TEXT = rf"^(?:{'|'.join(CLOCK_NAMES)}) "
# What instrumented amdgpu drivers print with trace_printk: `[KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=.. queue_id=..`,
# `KFD_MQD_CREATE: pid= gpu= qid= type= active=`, `KFD_MQD_DESTROY: qid=`, `[CU_MASK] ...` (DKMS trees of 2026).
DRIVER_TEXT = r"^(?:\[KFD-TRACE\] *|\[CU_MASK\]|KFD_MQD_\w+:)"
_DRIVER_NAME = r"^(?:\[KFD-TRACE\] *)?\[?(\w+)"
_NOT_CHOSEN = "range_not_chosen"
_PLACE = ["file", "offset"]


def add_marker_texts(batch: Batch, frame: pl.DataFrame) -> None:
    """Add trace markers with their text in the column `rest`; clock samples get their fields."""
    is_clock = frame["rest"].str.contains(CLOCK_TEXT)
    _add_marker(batch, frame.filter(~is_clock), [])
    samples = frame.filter(is_clock).with_columns(pl.col("rest").str.replace(r" monotonic=", " mono="))
    for keys, rows in split_fields(samples, "equals"):
        _add_marker(batch, typed_fields(rows, keys), keys)


def add_printk(batch: Batch, frame: pl.DataFrame) -> None:
    """Add texts of trace_printk (`rest`) of the function in `event`; those of KFD become its events."""
    ours = frame["rest"].str.contains(DRIVER_TEXT)
    add_others(batch, frame.filter(~ours))
    frame = frame.filter(ours).with_columns(
        pl.col("rest").str.extract(_DRIVER_NAME).fill_null("KFD_TRACE").alias("name"),
        pl.col("event").alias("function"),
        pl.col("rest").alias("text"),
    )
    mqd = pl.col("name").str.contains("MQD|CU_MASK")
    layer = pl.when(mqd).then(pl.lit("mqd")).otherwise(pl.lit("kfd"))
    for keys, rows in split_fields(frame, "equals"):
        # It lies in what its thread has open, as a record of the function tracer does.
        batch.add(rows, phase=INSTANT, call=FUNCTION, layer=layer, name=pl.col("name"))
        batch.add_args(typed_fields(rows, keys), keys)
        batch.add_text(rows, "function", pl.col("function"))
        batch.add_text(rows, "body", pl.col("text"))


def keep_ranges(blocks: Iterable[Block], names: Iterable[str]) -> Iterator[Block]:
    """Yield the blocks of a kernel trace without the roctx ranges and marks that have another text.

    The ledger calls their records skipped. A pop is dropped with its push, so that it ends no other range; one whose
    push was not seen has no text and is dropped, too.

    Args:
        blocks: of one recording, in order; the text of a range comes with or before its row.
        names: texts of the ranges to keep.
    """
    chosen = pl.Series(list(names), dtype=pl.String)
    places = schema.PART_ARGS.empty().select(_PLACE)
    for block in blocks:
        told = block.args.filter((pl.col("key").cast(pl.String) == "text") & pl.col("text").is_in(chosen.implode()))
        places = pl.concat([places, told.select(_PLACE)])
        is_range = (pl.col("layer") == "marker") & pl.col("name").cast(pl.String).is_in(["roctx_range", "roctx_mark"])
        others = block.events.filter(is_range).join(places, on=_PLACE, how="anti")
        if others.is_empty():
            yield block
            continue
        events = block.events.join(others, on=_PLACE, how="anti", maintain_order="left")
        yield replace(block, events=events, ledger=pl.concat([block.ledger, _count_skipped(others)]))


def _count_skipped(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ledger rows that take the records of `rows` from the used ones and call them skipped."""
    ended = pl.col("end_length").is_not_null()
    counts = rows.group_by("file", maintain_order=True).agg(
        (1 + ended).cast(pl.Int64).sum().alias("records"),
        (pl.col("length").cast(pl.Int64) + pl.col("end_length").fill_null(0)).sum().alias("bytes"),
    )
    texts = {"source": pl.lit("ftrace"), "outcome": pl.lit("skipped"), "reason": pl.lit(_NOT_CHOSEN)}
    taken = counts.with_columns(-pl.col("records"), -pl.col("bytes"), source=pl.lit("ftrace"), outcome=pl.lit("used"),
                                reason=pl.lit(""))  # fmt: skip
    return schema.LEDGER.conform(pl.concat([taken, counts.with_columns(**texts)]))
