"""Read kernel trace text: every record of a block by the form of its body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.part_tables import LATEST_NS
from tracecorr.model.parts import Block
from tracecorr.model.schema import CAT
from tracecorr.read.byte_text import Codes, Ints, Mask, Text
from tracecorr.read.ftrace import events as ev
from tracecorr.read.ftrace import tracepoints
from tracecorr.read.ftrace.events import (
    CLOCK_NAMES,
    CLOCK_TEXT,
    DRIVER_TEXT,
    GRAPH,
    INSTANT,
    MARKER,
    Batch,
    add_durations,
    add_graph,
    add_marker_texts,
    add_printk,
)
from tracecorr.read.ftrace.lines import (
    BLOCK_BYTES,
    Lines,
    Losses,
    Prefixes,
    count_lines,
    count_losses,
    cut_blocks,
    own_lines,
    read_spans,
    sort_lines,
)
from tracecorr.read.ftrace.pairing import Pairer
from tracecorr.read.ftrace.tracepoints import split_fields, to_numbers, typed_fields
from tracecorr.read.kfd.ioctls import layer_of

PRINTS = "trace_printk"
# Clocks that the text prints without a dot; the stamps of the last one are nanoseconds (trace-cmd report 3.1.6).
_WHOLE_CLOCKS = ("counter", "x86-tsc", "boot")
# The name of an event ends with one of these.
_ENDS, _NAME_BYTES = b":( +<", 64
_ENTER, _EXIT, _FUNCTION, _COLON = 1, 2, 3, 4
# What the options sym-offset and sym-addr print behind the name of a function.
_PLACE = r"(?s)^(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?: \[(?P<module>[\w-]+)\])?(?: <[0-9a-f]{8,16}>)?(?P<tail>(?:: | <-).*)$"
# What the text of a probe begins with: `(kfd_ioctl+0x4/0x570 [amdgpu])`, `(0x7f7bd24c11c0)`, `(caller <- kfd_ioctl)`.
_PROBE = r"(?s)^\((?P<site>[^()]*)\)(?:\s+(?P<fields>.*))?$"
_SITE = re.compile(
    r"(?:(?P<caller>[^()]*) <- (?P<left>[^\s()]+)|(?P<at>0x[0-9a-f]+|[0-9a-f]{6,16}|[^\s()]+\+0x[^\s()]*))"
    r"(?: \[(?P<module>[\w-]+)\])?"
)
_SITE_TYPES = {"site": pl.String, "function": pl.String, "module": pl.String, "back": pl.Boolean,
               "is_address": pl.Boolean}  # fmt: skip
# trace-cmd report prints addresses alone, and a function before what it returns to.
_BARE, _OF_KERNEL = re.compile(r"[0-9a-f]{6,16}"), re.compile(r"[89a-f][0-9a-f]{15}")
# trace-cmd report prints the event before the function: `print: tracing_mark_write: text`.
_PRINTS = ("print", "bprint", "bputs")
_INNER = r"(?s)^(?P<event>[^ :]+): (?P<rest>.*)$"
_ADDRESS = re.compile(r"0x[0-9a-f]{8,16}")
# `raw_syscalls` prints the same on all kernels: hexadecimal arguments, a signed decimal result.
_RAW_ENTER = r"^NR (-?\d+) \((\w+), (\w+), (\w+), (\w+), (\w+), (\w+)\)"
_RAW_EXIT = r"^NR (-?\d+) = (-?\d+)"
_PATH = r'(?s)^(\S+) "(.*)"$'
# From Linux 6.19 on a write may print the bytes that it writes, as numbers and as text, which may hold anything.
_CONTENTS = r'^(.*\bbuf: 0x[0-9a-f]+) \(.*", (.*)$'


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
        # The last number of a line without its end may be cut.
        size = block.rfind(b"\n") + 1
        if size:
            yield reader.read(block[:size], first_byte + offset)
        if torn := len(block) - size:
            row = {"file": file, "source": "ftrace", "outcome": "skipped", "reason": "torn_line", "records": 1}
            yield Block(ledger=schema.LEDGER.conform(pl.DataFrame([{**row, "bytes": torn}])))
    yield reader.finish(torn=torn > 0)


def read_prints(chunks: Iterable[bytes], file: int, clock: str) -> Iterator[Block]:
    """Yield the blocks of `raw/trace_printk/CLOCK.txt`, prints that a capture copied from the top tracing buffer.

    They are a source of their own (`PRINTS`), on the clock of that buffer.

    Args:
        chunks: its decompressed bytes: lines of a kernel trace text without its heading.
        file: key of its file.
        clock: clock of the top buffer.
    """
    source = pl.lit(PRINTS).cast(schema.CAT).alias("source")
    for block in read_ftrace_text(chunks, file, clock):
        yield replace(block, ledger=block.ledger.with_columns(source), losses=block.losses.with_columns(source))


class _Reader:
    """Keep what one block tells about the next: open calls, known tasks, the number form of system calls."""

    def __init__(self, file: int, clock: str) -> None:
        self._file = file
        self._prefixes = Prefixes()
        self._events = Codes(lambda name: name.decode("utf-8", "replace"))
        self._losses = Losses()
        self._pairer = Pairer(clock, is_rounded=True)
        # Kernels after 6.12 print 0x in system calls: then bare digits are decimal.
        self._has_0x = False

    def read(self, block: bytes, offset: int) -> Block:
        text = Text(block)
        start, end = text.lines()
        lines = Lines(text, start, end, offset)
        heads = self._prefixes.read(text, start, end)
        others = sort_lines(lines, heads)
        stop = own_lines(lines, heads, others)
        shift = offset - text.start
        records = pl.DataFrame(
            {"seq": heads.line, "offset": heads.start + shift, "length": (stop - heads.start).astype("u4")}
        ).with_columns(pl.lit(self._file, pl.UInt16).alias("file"), *heads.base.get_columns())
        if heads.is_whole.any() and self._pairer.clock not in _WHOLE_CLOCKS:
            # What the caller takes for the clock is wrong.
            self._pairer.clock = "ticks"
        batch, stamped = ev.Batch(), records
        self._add_bodies(batch, text, records, heads.body, stop)
        graph = others.filter(pl.col("kind") == "graph")
        if graph.height:
            at = graph["seq"].to_numpy()
            places = {"offset": start[at] + shift, "length": (end[at] - start[at]).astype("u4")}
            graph = graph.select("seq", "line", **{k: pl.Series(v) for k, v in places.items()})
            comments = _add_graph_lines(batch, graph.with_columns(file=pl.lit(self._file, pl.UInt16)))
            begin = comments["offset"].to_numpy() - shift + comments["at"].to_numpy()
            self._add_bodies(batch, text, comments.drop("at", "size"), begin, begin + comments["size"].to_numpy())
            stamped = pl.concat([records, comments.select(records.columns)]).sort("seq")
        events, args = self._pairer.feed(batch)
        losses = self._losses.find(others, stamped)
        ledger = pl.concat([count_lines(others, lines, len(heads.line), self._file), count_losses(losses, self._file)])
        return Block(events=events, args=args, ledger=ledger, losses=losses)

    def finish(self, *, torn: bool) -> Block:
        """Return what is left at the end of the file; `torn` if it ends within a line."""
        losses = self._losses.finish(torn=torn)
        # Records that the file does not hold were in the buffer: the kernel did not lose them.
        overwritten = losses.filter(pl.col("to_ns").is_not_null())
        return Block(events=self._pairer.finish(), ledger=count_losses(overwritten, self._file), losses=losses)

    def _add_bodies(self, batch: ev.Batch, text: Text, base: pl.DataFrame, start: Ints, stop: Ints) -> None:
        """Add the records `base`, whose bodies lie between `start` and `stop`."""
        if base.is_empty():
            return
        end, code = text.token(start, _ENDS, _NAME_BYTES)
        end = np.minimum(end, stop)
        event = self._events.encode(text, start, end, code)
        frame = base.with_columns(read_spans(text, end, stop).alias("tail"))
        form, group = self._form(text, end, event)
        if not self._has_0x:
            calls = frame["tail"].filter(pl.Series((form == _ENTER) | self._mark(_is_enter)[event]))
            self._has_0x = bool(calls.str.contains(r'[:=] ?0x| "').any())
        key = form * len(self._events.values) + group
        order = np.argsort(key.astype(np.uint16) if key.max() < 1 << 16 else key, kind="stable")
        edges = np.flatnonzero(np.diff(key[order])) + 1
        for rows in np.split(order, edges):
            name = str(self._events.values[group[rows[0]]])
            part = frame[rows]
            if group[rows[0]] == self._events.code_of(""):
                part = part.with_columns(self._names(event[rows]))
            else:
                part = part.with_columns(pl.lit(name).alias("event"))
            self._add_form(batch, int(form[rows[0]]), name, part)

    def _form(self, text: Text, end: Ints, event: Ints) -> tuple[Ints, Ints]:
        """Return the form of each body by its event and what follows that, and the event with which it is read.

        Bodies of events without a reader of their own are read together, under the empty name.
        """
        sign, unknown = text.word(end), self._events.code_of("")
        system = self._mark(_is_system)[event]
        first = sign & np.uint64(0xFF)
        form = np.where(first == ord(":"), _COLON, 0)
        form[system & (first == ord("("))] = _ENTER
        form[system & (sign & np.uint64(0xFFFFFFFF) == int.from_bytes(b" -> ", "little"))] = _EXIT
        form[sign & np.uint64(0xFFFFFF) == int.from_bytes(b" <-", "little")] = _FUNCTION
        own = (form == _ENTER) | (form == _EXIT) | (form == _COLON) & self._mark(_has_reader)[event]
        return form, np.where(own, event, unknown)

    def _mark(self, tell: Callable[[str], bool]) -> Mask:
        """Return for which of the events so far `tell` is true."""
        return np.array([tell(str(name)) for name in self._events.values], np.bool_)

    def _names(self, event: Ints) -> pl.Series:
        return pl.Series("event", self._events.values, dtype=pl.String).gather(pl.Series(event, dtype=pl.UInt32))

    def _add_form(self, batch: ev.Batch, form: int, event: str, frame: pl.DataFrame) -> None:
        """Add records of one form; `event` is in column `event` and, if it has a reader of its own, the name."""
        rest = pl.col("tail")
        if form == _ENTER:
            rest = rest.str.slice(1).str.strip_chars_end().str.strip_suffix(")")
            self._add_enters(batch, event.removeprefix("sys_"), frame.with_columns(rest.alias("rest")))
        elif form == _EXIT:
            _add_exits(batch, event.removeprefix("sys_"), frame.with_columns(rest.str.slice(4).alias("rest")))
        elif form == _FUNCTION:
            module = [] if "module" in frame.columns else [pl.lit(None, pl.String).alias("module")]
            ev.add_function(batch, frame.with_columns(pl.col("event").alias("function"), *module))
        elif form == _COLON:
            rest = rest.str.slice(1).str.strip_chars_start(" ")
            self._add_named(batch, event, frame.with_columns(rest.alias("rest")))
        else:
            self._add_odd(batch, frame)

    def _add_odd(self, batch: ev.Batch, frame: pl.DataFrame) -> None:
        """Add what prints something between the name and its sign: the place of a function, raw markers, stacks."""
        parts = frame["tail"].str.extract_groups(_PLACE).struct.unnest()
        placed = parts["tail"].is_not_null()
        functions = pl.concat([frame.drop("tail"), parts], how="horizontal").filter(placed)
        functions = functions.with_columns(sign=pl.col("tail").str.head(1))
        for (event, sign), rows in functions.partition_by("event", "sign", as_dict=True).items():
            self._add_form(batch, _COLON if sign == ":" else _FUNCTION, str(event), rows)
        frame = frame.filter(~placed)
        is_raw = (pl.col("event") == "#") & pl.col("tail").str.contains("^ [0-9a-f]+ buf:")
        add_marker_texts(batch, frame.filter(is_raw).with_columns(pl.format("#{}", "tail").alias("rest")))
        # function_graph prints of a marker the text alone.
        is_clock = pl.col("event").is_in(CLOCK_NAMES) & ~is_raw
        add_marker_texts(batch, frame.filter(is_clock).with_columns((pl.col("event") + pl.col("tail")).alias("rest")))
        is_stack = pl.col("tail").str.starts_with("<stack trace>")
        name = pl.when(is_stack).then(pl.lit("stack_trace")).otherwise("event")
        ev.add_others(
            batch, frame.filter(~is_raw & ~is_clock).with_columns(name.alias("event"), pl.col("tail").alias("rest"))
        )

    def _add_enters(self, batch: ev.Batch, name: str, frame: pl.DataFrame) -> None:
        if name in ("write", "pwrite64"):
            frame = frame.with_columns(pl.col("rest").str.replace(_CONTENTS, "$1, $2"))
        for keys, rows in split_fields(frame, "syscall"):
            names = list(keys)
            quoted = keys if rows["rest"].str.contains('"', literal=True).any() else []
            for key in (k for k in quoted if rows[f"f_{k}"].str.contains('"', literal=True).any()):
                value = pl.col(f"f_{key}")
                rows = rows.with_columns(
                    value.str.extract(_PATH, 2).alias("t_path"),
                    pl.coalesce(value.str.extract(_PATH, 1), value).alias(f"f_{key}"),
                )
                names.append("path")
            rows = typed_fields(rows, keys, base=10 if self._has_0x else 16)
            ev.add_syscall_enter(batch, rows, name, names)
            if not keys:
                batch.add_text(rows, "body", pl.col("rest"))

    def _add_named(self, batch: ev.Batch, event: str, frame: pl.DataFrame) -> None:
        """Add records that print `event: rest`."""
        if event.startswith("sys_enter_"):
            self._add_enters(batch, event.removeprefix("sys_enter_"), frame)
        elif event.startswith("sys_exit_"):
            _add_exits(batch, event.removeprefix("sys_exit_"), frame)
        elif event == "sys_enter":
            _add_raw_enters(batch, frame)
        elif event == "sys_exit":
            _add_raw_exits(batch, frame)
        elif event == "function":
            # As trace-cmd report prints it.
            columns = (
                pl.col("rest").str.extract(r"^([^\s:]+)").alias("function"),
                pl.lit(None, pl.String).alias("module"),
            )
            ev.add_function(batch, frame.with_columns(columns))
        elif event == MARKER:
            add_marker_texts(batch, frame)
        elif event in _PRINTS:
            _add_prints(batch, frame)
        elif event == "console":
            ev.add_console(batch, frame)
        elif _ADDRESS.fullmatch(event):
            # The function that writes markers, without a table of symbols.
            is_clock = frame["rest"].str.contains(CLOCK_TEXT)
            add_marker_texts(batch, frame.filter(is_clock))
            _add_others(batch, event, frame.filter(~is_clock))
        else:
            _add_others(batch, event, frame)


def _is_system(event: str) -> bool:
    return event.startswith("sys_")


def _is_enter(event: str) -> bool:
    return event.startswith("sys_enter_")


def _has_reader(event: str) -> bool:
    known = (MARKER, *_PRINTS, "console", "function", "sys_enter", "sys_exit")
    if event in known or _ADDRESS.fullmatch(event):
        return True
    return event.startswith(("sys_enter_", "sys_exit_")) or bool(tracepoints.KNOWN.match(event))


def _add_prints(batch: ev.Batch, frame: pl.DataFrame) -> None:
    """Add texts that trace-cmd report prints behind the function that wrote them."""
    inner = pl.col("rest").str.extract_groups(_INNER)
    name, text = inner.struct.field("event"), inner.struct.field("rest")
    frame = frame.with_columns(
        pl.when(~name.str.contains(f"^{_ADDRESS.pattern}$"))
        .then(name)
        .otherwise(pl.lit(MARKER))
        .fill_null(MARKER)
        .alias("event"),
        pl.coalesce(text, "rest").alias("rest"),
    )
    is_marker = pl.col("event") == MARKER
    add_marker_texts(batch, frame.filter(is_marker))
    add_printk(batch, frame.filter(~is_marker))


def _add_raw_enters(batch: ev.Batch, frame: pl.DataFrame) -> None:
    frame = frame.with_columns(pl.col("rest").str.extract_groups(_RAW_ENTER).alias("m")).unnest("m")
    for (called,), rows in frame.partition_by("1", as_dict=True).items():
        if called is None:
            ev.add_others(batch, rows)
            continue
        name, keys = ev.syscall_of(int(str(called)))
        columns = [to_numbers(rows[str(i + 2)], base=16).alias(f"u_{key}") for i, key in enumerate(keys)]
        ev.add_syscall_enter(batch, rows.with_columns(columns), name, keys, is_raw=True)


def _add_raw_exits(batch: ev.Batch, frame: pl.DataFrame) -> None:
    frame = frame.with_columns(pl.col("rest").str.extract_groups(_RAW_EXIT).alias("m")).unnest("m")
    for (called,), rows in frame.partition_by("1", as_dict=True).items():
        if called is None:
            ev.add_others(batch, rows)
            continue
        name, _ = ev.syscall_of(int(str(called)))
        ev.add_syscall_exit(batch, rows.with_columns(to_numbers(rows["2"]).alias("u_ret")), name, is_raw=True)


def _add_exits(batch: ev.Batch, name: str, frame: pl.DataFrame) -> None:
    value = to_numbers(frame["rest"].str.strip_chars_end(), base=16)
    ev.add_syscall_exit(batch, frame.with_columns(value.alias("u_ret")), name)


def _add_others(batch: ev.Batch, event: str, frame: pl.DataFrame) -> None:
    """Add texts of drivers, probes, known events, and others."""
    ours = frame["rest"].str.contains(DRIVER_TEXT)
    if ours.any():
        add_printk(batch, frame.filter(ours))
        frame = frame.filter(~ours)
    frame = frame.drop("module", strict=False)
    is_probe = frame["rest"].str.starts_with("(")
    if is_probe.any():
        parts = frame.filter(is_probe).partition_by("event", as_dict=True, maintain_order=True).items()
        others = [_add_probes(batch, str(name), rows) for (name,), rows in parts]
        frame = pl.concat([frame.filter(~is_probe), *others])
    if frame.is_empty():
        return
    if tracepoints.KNOWN.match(event):
        for keys, rows in tracepoints.read_body(event, frame):
            ev.add_event(batch, rows, event, keys)
    else:
        ev.add_others(batch, frame)


def _add_probes(batch: ev.Batch, event: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the hits of probes among records of one event; return the others."""
    parts = frame["rest"].str.extract_groups(_PROBE).struct.unnest()
    sites = [(site, *_read_site(site)) for site in parts["site"].unique().drop_nulls()]
    known = pl.DataFrame(sites, schema=_SITE_TYPES, orient="row")
    found = parts.join(known, on="site", how="left", maintain_order="left")
    # An address of the kernel names no function: the best name is that of the probe.
    name = pl.when("is_address").then(pl.lit(ev.base_name(event))).otherwise("function").alias("function")
    columns = found.select(name, "module", "back", pl.col("fields").fill_null("")).get_columns()
    frame = frame.with_columns(columns)
    for (back,), part in frame.drop_nulls("back").partition_by("back", as_dict=True).items():
        for keys, rows in split_fields(part, "equals", "fields"):
            ev.add_hits(batch, typed_fields(rows, keys), event, keys, is_return=bool(back))
            if not keys:
                batch.add_text(rows, "body", pl.col("fields"))
    return frame.filter(pl.col("back").is_null()).drop("fields", "back", "function", "module")


def _read_site(site: str) -> tuple[str | None, str | None, bool | None, bool]:
    """Return function, module, whether it returns, whether there is an address of the kernel alone.

    The function is None for an address, all are None for the text of no probe.
    """
    found = _SITE.fullmatch(site)
    if found is None:
        return None, None, None, False
    at, caller, back = found["left"] or found["at"], found["caller"], found["caller"] is not None
    if _BARE.fullmatch(at) and (caller is None or _BARE.fullmatch(caller)):
        return None, found["module"], back, _OF_KERNEL.fullmatch(caller or at) is not None
    function, _, offset = at.partition("/")[0].partition("+0x")
    if re.fullmatch("0x[0-9a-f]+", at):
        return None, found["module"], back, False
    place = int(offset, 16) if re.fullmatch("[0-9a-f]+", offset) else 0
    return ev.name_site(function, place), found["module"], back, False


_GRAPH_LINE = (
    r"^ *(?:(?P<sec>\d+)\.(?P<frac>\d{6}) +\| +)?(?P<cpu>\d+)\) +(?:(?P<comm>[^|]{1,32}?)-(?P<tid>\d{1,7}) +\| +)?"
    r"(?:[+!#*@$] *)?(?:(?P<us>\d+(?:\.\d+)?) us +)?\|(?P<indent> *)(?P<code>.*)$"
)
_GRAPH_FUNCTION = r"^(?P<function>[\w.]+)(?: \[(?P<module>[\w-]+)\])?\(.*?\)(?P<open> \{|;)"
_GRAPH_CLOSE = r"^\}(?: /\* (?P<function>[\w.]+))?"
_GRAPH_COMMENT = r"^/\* (.*?)(?: \*/)?$"


def _add_graph_lines(batch: Batch, lines: pl.DataFrame) -> pl.DataFrame:
    """Add the functions of `lines` to `batch`; return the records that are printed as comments.

    Args:
        batch: takes the functions.
        lines: `seq`, `file`, `offset`, `length`, `line`.

    Returns:
        seq, file, offset, length, stamp_ns, cpu, tid, pid, comm, and `at`, `size`: the bytes of the text in its line.
    """
    frame = lines.with_columns(pl.col("line").str.extract_groups(_GRAPH_LINE).alias("m")).unnest("m")
    seconds = pl.col("sec").str.to_integer(strict=False)
    stamp = pl.when(seconds < LATEST_NS // 10**9).then(seconds * 10**9 + pl.col("frac").str.to_integer() * 1000)
    frame = frame.filter(pl.col("code").is_not_null()).select(
        "seq", "file", "offset", "length", stamp.alias("stamp_ns"),
        pl.col("cpu").str.to_integer(strict=False).cast(pl.UInt16, strict=False),
        pl.col("tid").str.to_integer(strict=False).cast(pl.UInt64, strict=False), pl.lit(None, pl.UInt32).alias("pid"),
        pl.col("comm").cast(CAT), "code", (pl.col("indent").str.len_bytes() // 2).alias("level"),
        (pl.col("us").cast(pl.Float64, strict=False) * 1000).round().cast(pl.Int64, strict=False).alias("dur_ns"),
    )  # fmt: skip
    _add_functions(batch, frame)
    return _read_comments(frame)


def _add_functions(batch: Batch, frame: pl.DataFrame) -> None:
    opens = frame.with_columns(pl.col("code").str.extract_groups(_GRAPH_FUNCTION).alias("f")).unnest("f")
    opens = opens.filter(pl.col("function").is_not_null())
    depth = pl.col("level").cast(pl.Int64).clip(1) - 1
    leaf = pl.col("open") == ";"
    batch.add(
        opens.filter(leaf), phase=INSTANT, call=GRAPH, layer=layer_of(pl.col("function"), pl.col("module")),
        name=pl.col("function"), depth=depth.clip(0, 60000), dur_ns=pl.col("dur_ns"),
    )  # fmt: skip
    add_graph(batch, opens.filter(~leaf), depth, pl.lit(None, pl.Int64), is_exit=False)
    closes = frame.filter(pl.col("code").str.starts_with("}")).with_columns(
        pl.col("code").str.extract(_GRAPH_CLOSE, 1).fill_null("unknown").alias("function"),
        pl.lit(None, pl.String).alias("module"),
    )
    add_graph(batch, closes, depth, pl.col("dur_ns"), is_exit=True)
    # Without a stamp there is no end either: the duration is all that the line of a leaf tells.
    add_durations(batch, opens.filter(leaf & pl.col("stamp_ns").is_null()), of_exit=False)
    add_durations(batch, closes, of_exit=True)


def _read_comments(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the records in comments, `at` which byte of the line their text begins, and its bytes."""
    comments = frame.filter(pl.col("code").str.starts_with("/* "))
    body = pl.col("code").str.extract(_GRAPH_COMMENT)
    at = pl.col("length").cast(pl.Int64) - pl.col("code").str.len_bytes() + len("/* ")
    return comments.with_columns(at.alias("at"), body.str.len_bytes().cast(pl.Int64).alias("size")).drop(
        "code", "level", "dur_ns"
    )
