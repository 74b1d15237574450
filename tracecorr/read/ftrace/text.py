"""Read kernel trace text: every record of a block by the form of its body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.ftrace import halves as hv
from tracecorr.read.ftrace.fields import bare_hex, number, split_fields, typed_fields
from tracecorr.read.ftrace.graph import add_graph_reports, graph_records
from tracecorr.read.ftrace.layout import Tasks
from tracecorr.read.ftrace.lines import (
    BLOCK_BYTES,
    BlockLines,
    BlockText,
    book_lost,
    cut_blocks,
    read_lines,
    stamps_of,
)
from tracecorr.read.ftrace.markers import CLOCK_TEXT, DRIVER_TEXT, MARKERS, add_marker_texts, add_printk
from tracecorr.read.ftrace.pairing import Pairer
from tracecorr.read.ftrace.prefixes import COUNTING_CLOCKS, USUAL, WHOLE_CLOCK, Prefix, find_prefix, in_ns
from tracecorr.read.ftrace.quick import BARE, IS_PROBE, PROBE, Quick, name_place
from tracecorr.read.ftrace.syscalls import syscall_of
from tracecorr.read.ftrace.task_bodies import read_task_bodies
from tracecorr.read.ftrace.written import Written
from tracecorr.read.kfd.tracepoints import hex_fields, plain_body
from tracecorr.read.text import Text

_PROBE = "(?s)" + PROBE + r"(?:\s+(?P<fields>.*))?$"
# What the options sym-offset and sym-addr print behind the name of a function, and a function without a name.
_WHERE = r"^(?:\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[[\w-]+\])?)?(?: <[0-9a-f]{8,16}>)?: "
_ADDRESS = r"^0x[0-9a-f]{8,16}$"
_GRAPH_EVENTS = ("funcgraph_entry", "funcgraph_exit")
_FIELDED = r"(?:^|[ ,])\w+=(?:0x[0-9a-f]+ \(-?\d+\)|\((?:0x[0-9a-f]+|\d+)\))(?:[ ,]|$)"
# `raw_syscalls` prints the same on all kernels: hexadecimal arguments, a signed decimal result.
_RAW_ENTER = r"^NR (-?\d+) \((\w+), (\w+), (\w+), (\w+), (\w+), (\w+)\)"
_RAW_EXIT = r"^NR (-?\d+) = (-?\d+)"
_HEAD_BYTES = 1 << 16
_OF_KERNEL = "^[89a-f][0-9a-f]{15}$"
_PATH = r'(?s)^(\S+) "(.*)"$'


def read_ftrace_text(
    chunks: Iterable[bytes], file: int, clock: str = "unknown", *, block_bytes: int = BLOCK_BYTES, first_byte: int = 0
) -> Iterator[Block]:
    """Yield the blocks of one kernel trace text (`trace`, `trace_pipe` or `trace-cmd report`).

    Args:
        chunks: the decompressed bytes, cut anywhere.
        file: key of the file.
        clock: name of the trace clock, for the column `clock`.
        block_bytes: bytes parsed at a time; bounds the memory.
        first_byte: byte of the file that `chunks` begin with.
    """
    reader, torn = _Reader(file, clock), 0
    for offset, block in cut_blocks(chunks, block_bytes):
        # The last number of a line without its end may lack digits.
        size = block.rfind(b"\n") + 1
        if size:
            yield reader.read(block[:size], first_byte + offset)
        if torn := len(block) - size:
            yield Block(ledger=_ledger_of_torn(file, torn))
    yield reader.finish(torn=torn > 0)


def _ledger_of_torn(file: int, size: int) -> pl.DataFrame:
    row = {"file": [file], "source": ["ftrace"], "outcome": ["skipped"], "reason": ["torn_line"], "records": [1]}
    return schema.LEDGER.conform(pl.DataFrame({**row, "bytes": [size]}))


class _Reader:
    """Keep what one block tells about the next: open calls, known tasks, the number form of system calls."""

    def __init__(self, file: int, clock: str) -> None:
        self._file = file
        self._tasks = Tasks()
        self._quick = Quick()
        self._prefix: Prefix | None = None
        self._written = Written()
        self._last = pl.DataFrame(schema={"cpu": pl.UInt16, "before": pl.Int64})
        self.pairer = Pairer(clock)

    def read(self, block: bytes, offset: int) -> Block:
        text = Text(block)
        start, end = text.lines()
        self._quick.learn(block)
        batch = hv.Batch()
        heads = self._tasks.read(text, start, end)
        found = BlockText(text, start, end, offset)
        # A line without a head may continue the record before it, which then is more than its line.
        alone = np.isin(heads.line + 1, np.append(heads.line, len(start))) & ~np.isin(heads.line, found.hollow())
        heads = heads.select(alone)
        base = heads.frame(self._file, offset - text.start)
        taken = self._quick.add(batch, text, heads, base)
        rest = np.ones(len(start), np.bool_)
        rest[heads.line[taken]] = False
        self._learn_prefix(block, bool(taken.any()))
        others, prefix = base.filter(pl.Series(taken)), self._prefix or USUAL
        lines = read_lines(found, rest, self._file, others, prefix)
        self._add_records(batch, lines)
        losses = self._date_losses(lines, others)
        ended, begun = self._written.read(lines.lines, stamps_of([lines.records, others]))
        # What damage took is booked as such, but no call is whole over it either, nor over what was overwritten.
        events, args = self.pairer.feed(batch, pl.concat([losses, lines.damages, begun]))
        lost = self._tell_losses(ended)
        losses = pl.concat([self._in_ns(losses), lost.losses])
        return Block(events=events, args=args, ledger=pl.concat([lines.ledger, lost.ledger]), losses=losses)

    def finish(self, *, torn: bool) -> Block:
        """Return what is left at the end of the file, which may be `torn`: within a line."""
        return replace(self._tell_losses(self._written.finish(torn=torn)), events=self.pairer.finish())

    def _tell_losses(self, rows: list[dict[str, object]]) -> Block:
        """Return the losses that headers tell; those that the file lacks were in the buffer, and are in no ledger."""
        losses = pl.DataFrame(rows, schema=schema.LOSSES.schema)
        overwritten = losses.filter(pl.col("to_ns").is_not_null())
        return Block(ledger=book_lost(overwritten, self._file), losses=self._in_ns(losses))

    def _in_ns(self, losses: pl.DataFrame) -> pl.DataFrame:
        return losses.with_columns(in_ns(pl.col("from_ns", "to_ns"), self.pairer.unit_ns))

    def _date_losses(self, lines: BlockLines, others: pl.DataFrame) -> pl.DataFrame:
        """Return the losses of a block; one may have begun behind a record of an earlier one."""
        found = lines.losses.join(self._last, on="cpu", how="left", maintain_order="left")
        seen = pl.concat([self._last, *(f.select("cpu", before="stamp_ns") for f in (others, lines.records))])
        self._last = seen.drop_nulls().group_by("cpu").agg(pl.col("before").max())
        return found.with_columns(pl.coalesce("from_ns", "before").alias("from_ns")).drop("before")

    def _learn_prefix(self, block: bytes, usual: bool) -> None:
        """A file has one form of prefix: that of its first records."""
        if self._prefix is None:
            self._prefix = USUAL if usual else find_prefix(block[:_HEAD_BYTES])
            if self._prefix and self._prefix.clock:
                self.pairer.clock = self._prefix.clock

    def _learn_clock(self, records: pl.DataFrame) -> None:
        """Stamps without a dot count something, and what the caller takes for the clock may be wrong."""
        prefix = self._prefix or USUAL
        may_be_whole = self.pairer.clock in (*COUNTING_CLOCKS, WHOLE_CLOCK)
        if prefix.unit_ns is None and records["whole"].any() and not may_be_whole:
            self.pairer.clock = "ticks"

    def _add_records(self, batch: hv.Batch, lines: BlockLines) -> None:
        self._learn_clock(lines.records)
        records = _plain_forms(lines.records.drop("whole"))
        if lines.graph.height:
            comments = graph_records(lines.graph, batch, self._file)
            records = pl.concat([records, comments]).sort("offset") if comments.height else records
        if records.is_empty():
            return
        records = records.with_columns(pl.lit(self._file, pl.UInt16).alias("file"), _form().alias("form"))
        records = records.with_columns(_group().alias("group"))
        for (form, event), frame in records.partition_by("form", "group", as_dict=True, maintain_order=True).items():
            self._add(batch, str(form), str(event), frame)

    def _add(self, batch: hv.Batch, form: str, event: str, frame: pl.DataFrame) -> None:
        if form == "enter":
            self._add_enters(batch, event.removeprefix("sys_").removeprefix("enter_"), frame)
        elif form == "exit":
            _add_exits(batch, event.removeprefix("sys_").removeprefix("exit_"), frame)
        elif form == "probe":
            _add_probes(batch, event, frame)
        elif form == "function":
            module = pl.col("sep").str.extract(r"\[([\w-]+)\] <-").alias("module")
            hv.add_function(batch, frame.with_columns(pl.col("event").alias("function"), module))
        elif form == "marker":
            raw = pl.when(pl.col("event") == "#").then("#" + pl.col("rest")).otherwise("rest").alias("rest")
            add_marker_texts(batch, frame.with_columns(raw))
        elif form == "printk":
            add_printk(batch, frame)
        elif form == "graph":
            add_graph_reports(batch, frame)
        elif form == "raw_enter":
            _add_raw_enters(batch, frame)
        elif form == "raw_exit":
            _add_raw_exits(batch, frame)
        else:
            _add_events(batch, event, frame)

    def _add_enters(self, batch: hv.Batch, name: str, frame: pl.DataFrame) -> None:
        frame = frame.with_columns(pl.col("rest").str.strip_chars_end().str.strip_suffix(")"))
        for keys, rows in split_fields(frame, "syscall"):
            names = [k[2:] for k in keys]
            for key in (k for k in keys if rows[k].str.contains('"').any()):
                path = pl.col(key).str.extract(_PATH, 2).alias("f_path")
                rows = rows.with_columns(path, pl.coalesce(pl.col(key).str.extract(_PATH, 1), key).alias(key))
                names.append("path")
            rows = rows.with_columns(typed_fields(keys, plain_hex=not self._quick.has_0x))
            if "path" in names:
                rows = rows.with_columns(pl.lit(None, pl.UInt64).alias("u_path"), pl.col("f_path").alias("t_path"))
            hv.add_syscall_enter(batch, rows, name, names)
            if not keys:
                batch.add_text(rows, "body", pl.col("rest"))


def _plain_forms(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records with the bodies of the option `fields` and of trace-cmd as the kernel prints them.

    The option prints `key=0x3 (3)`, `key=(1)` for booleans, and for pointers to text an address that is not theirs;
    of a system call it tells the number first, as `trace-cmd report -R` does. trace-cmd prints the event before the
    function: `print: tracing_mark_write: text`, `function: kfd_open`; the option `raw` prints its address:
    `# ffffffff8149ab1a text`.
    """
    event, rest = pl.col("event"), pl.col("rest")
    records = _without_places(records)
    fielded = rest.str.contains(_FIELDED)
    plain = rest.str.replace_all(r"=(0x[0-9a-f]+) \(-?\d+\)", "=${1}").str.replace_all(r"=\((\d+)\)", "=${1}")
    plain = plain.str.replace_all(r" ?\b\w+=\(0x[0-9a-f]+\)", "").str.replace(r"^__syscall_nr=\w+ ?", "")
    call = plain.str.replace_all(r" (\w+)=", ", ${1}=")
    plain = pl.when(event.str.starts_with("sys_enter_")).then(call).otherwise(plain)
    numbered = event.str.starts_with("sys_enter_") & rest.str.starts_with("__syscall_nr=")
    fielded = numbered | fielded & ~rest.str.starts_with("(")
    records = records.with_columns(pl.when(fielded).then(plain).otherwise(rest).alias("rest"))
    inner = rest.str.extract_groups(r"^(?:(?P<event>[^ :]+):| [0-9a-f]{16}) (?P<rest>(?s:.*))$")
    told = event.is_in(["print", "bprint", "bputs", "#"]) & inner.struct[1].is_not_null()
    nameless = pl.field("event").is_null() | (event == "print") & pl.field("event").str.contains(_ADDRESS)
    named = pl.when(~nameless).then(pl.field("event")).otherwise(pl.lit(MARKERS[0]))
    inner = inner.struct.with_fields(named.alias("event"))
    records = records.with_columns(pl.when(told).then(inner).alias("inner"))
    records = records.with_columns(
        pl.coalesce(pl.col("inner").struct.field(name), name).alias(name) for name in ("event", "rest")
    ).drop("inner")
    is_function = (event == "function") & pl.col("sep").str.starts_with(":")
    function = pl.when(is_function).then(rest.str.extract(r"^ *([^\s:]+)(?: <-.*)?$"))
    stack = pl.when((event == "") & rest.str.starts_with("<stack trace>")).then(pl.lit("stack_trace"))
    return records.with_columns(
        pl.coalesce(function, stack, event).alias("event"),
        pl.when(function.is_not_null()).then(pl.lit(" <-")).otherwise("sep").alias("sep"),
    )


def _without_places(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records without what the options sym-offset and sym-addr print between a function and its text."""
    placed = (pl.col("event") != "") & (pl.col("sep") == "") & pl.col("rest").str.contains(_WHERE)
    return records.with_columns(
        pl.when(placed).then(pl.col("rest").str.replace(_WHERE, "")).otherwise("rest").alias("rest"),
        pl.when(placed).then(pl.lit(": ")).otherwise("sep").alias("sep"),
    )


def _form() -> pl.Expr:
    """Return the form of each record, from its event name, what follows the name, and the rest."""
    event, sep, rest = pl.col("event"), pl.col("sep"), pl.col("rest")
    colon = sep.str.starts_with(":")
    system = event.str.starts_with("sys_")
    return (
        pl.when(system & (sep == "(") & ~rest.str.contains(r"\) <-\w"))
        .then(pl.lit("enter"))
        .when(system & (sep == " -> "))
        .then(pl.lit("exit"))
        .when(colon & event.str.starts_with("sys_enter_"))
        .then(pl.lit("enter"))
        .when(colon & event.str.starts_with("sys_exit_"))
        .then(pl.lit("exit"))
        .when(sep.str.ends_with("<-") | (sep == "(") & rest.str.contains(r"\) <-\w"))
        .then(pl.lit("function"))
        .when(colon & event.is_in(_GRAPH_EVENTS) & rest.str.contains(r"\|"))
        .then(pl.lit("graph"))
        .when(colon & (event == "sys_enter") & rest.str.contains(_RAW_ENTER))
        .then(pl.lit("raw_enter"))
        .when(colon & (event == "sys_exit") & rest.str.contains(_RAW_EXIT))
        .then(pl.lit("raw_exit"))
        .when(colon & rest.str.contains(DRIVER_TEXT))
        .then(pl.lit("printk"))
        .when(colon & event.str.contains(_ADDRESS) & rest.str.contains(CLOCK_TEXT))
        .then(pl.lit("marker"))
        .when(colon & event.is_in(MARKERS) | (event == "#") & rest.str.contains("^ [0-9a-f]+ buf:"))
        .then(pl.lit("marker"))
        .when(colon & rest.str.contains(IS_PROBE))
        .then(pl.lit("probe"))
        .otherwise(pl.lit("event"))
    )


def _group() -> pl.Expr:
    """Return the event name where its fields are split; forms with any number of names are one group."""
    split = pl.col("form").is_in(["enter", "exit", "probe"])
    known = (pl.col("form") == "event") & pl.col("event").str.contains(hv.KNOWN_EVENTS)
    return pl.when(split | known).then(pl.col("event")).otherwise(pl.lit(""))


def _add_raw_enters(batch: hv.Batch, frame: pl.DataFrame) -> None:
    frame = frame.with_columns(pl.col("rest").str.extract_groups(_RAW_ENTER).alias("m")).unnest("m")
    for (called,), rows in frame.partition_by("1", as_dict=True).items():
        name, keys = syscall_of(int(str(called)))
        columns = [bare_hex(pl.col(str(i + 2))).alias(f"u_{key}") for i, key in enumerate(keys)]
        hv.add_syscall_enter(batch, rows.with_columns(columns), name, keys, is_raw=True)


def _add_raw_exits(batch: hv.Batch, frame: pl.DataFrame) -> None:
    frame = frame.with_columns(pl.col("rest").str.extract_groups(_RAW_EXIT).alias("m")).unnest("m")
    for (called,), rows in frame.partition_by("1", as_dict=True).items():
        name, _ = syscall_of(int(str(called)))
        hv.add_syscall_exit(batch, rows.with_columns(number(pl.col("2")).alias("u_ret")), name, is_raw=True)


def _add_exits(batch: hv.Batch, name: str, frame: pl.DataFrame) -> None:
    text = pl.col("rest").str.extract(r"^(?:ret=|__syscall_nr=.* ret=)?(-?\w+)", 1)
    value = pl.when(text.str.starts_with("-")).then(number(text)).otherwise(bare_hex(text))
    hv.add_syscall_exit(batch, frame.with_columns(value.alias("u_ret")), name)


def _add_probes(batch: hv.Batch, event: str, frame: pl.DataFrame) -> None:
    frame = frame.with_columns(pl.col("rest").str.extract_groups(_PROBE).alias("p")).unnest("p")
    bare = pl.all_horizontal(pl.col(side).str.contains(BARE).fill_null(value=True) for side in ("at", "caller"))
    site = pl.coalesce("caller", "at")
    names = {at: name_place(at) for at in frame["at"].unique()}
    frame = frame.with_columns(
        # An address of the kernel names no function: the best name is that of the probe.
        pl.when(~bare)
        .then(pl.col("at").replace_strict(names, return_dtype=pl.String))
        .when(site.str.contains(_OF_KERNEL))
        .then(pl.lit(hv.base_name(event)))
        .alias("function"),
        pl.col("fields").fill_null(""),
        pl.col("caller").is_not_null().alias("back"),
    )
    for (back,), part in frame.partition_by("back", as_dict=True).items():
        for keys, rows in split_fields(part, "equals", "fields"):
            fields = [k[2:] for k in keys]
            rows = rows.with_columns(typed_fields(keys))
            hv.add_hits(batch, rows, event, fields, is_return=bool(back))
            if not keys:
                batch.add_text(rows, "body", pl.col("fields"))


def _add_events(batch: hv.Batch, event: str, frame: pl.DataFrame) -> None:
    layer = hv.event_layer(event)
    if not event:
        hv.add_others(batch, frame)
        return
    keys, rows, frame = read_task_bodies(event, frame)
    if rows.height:
        hv.add_event(batch, rows, event, keys)
    frame = frame.with_columns(plain_body(event, pl.col("rest")).alias("rest"))
    hexadecimal = hex_fields(event)
    for keys, rows in split_fields(frame, "sched" if layer == "drm_sched" else "equals"):
        names = [k[2:] for k in keys]
        hv.add_event(batch, rows.with_columns(typed_fields(keys, hexadecimal=hexadecimal)), event, names)
