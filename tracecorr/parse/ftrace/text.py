"""Read kernel trace text: every record of a block by the form of its body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from tracecorr.model.parts import Block
from tracecorr.parse.ftrace import halves as hv
from tracecorr.parse.ftrace.fields import bare_hex, number, split_fields, typed_fields
from tracecorr.parse.ftrace.graph import graph_records
from tracecorr.parse.ftrace.lines import BLOCK_BYTES, cut_blocks, read_block
from tracecorr.parse.ftrace.markers import add_marker_texts
from tracecorr.parse.ftrace.pairing import Pairer

_PROBE = r"(?s)^\((?:(?P<caller>[^()]*) <- )?(?P<at>[^\s()]+)(?: \[(?P<module>[\w-]+)\])?\)(?:\s+(?P<fields>.*))?$"
_IS_PROBE = r"^\((?:[^()]* <- [^\s()]+|0x[0-9a-f]+|[^\s()]+\+0x[^\s()]*)(?: \[[\w-]+\])?\)"
_MARKERS = ("tracing_mark_write", "print")
_PATH = r'(?s)^(\S+) "(.*)"$'


def read_ftrace_text(
    chunks: Iterable[bytes], file: int, clock: str = "unknown", *, block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Yield the blocks of one kernel trace text (`trace`, `trace_pipe` or `trace-cmd report`).

    Args:
        chunks: the decompressed bytes, cut anywhere.
        file: key of the file.
        clock: name of the trace clock, for the column `clock`.
        block_bytes: bytes parsed at a time; bounds the memory.
    """
    reader = _Reader(file, clock)
    for offset, block in cut_blocks(chunks, block_bytes):
        yield reader.read(block, offset)
    yield Block(events=reader.pairer.finish())


class _Reader:
    """Keep what one block tells about the next: open calls and the number form of system calls."""

    def __init__(self, file: int, clock: str) -> None:
        self._file = file
        self._has_0x = False
        self.pairer = Pairer(clock)

    def read(self, block: bytes, offset: int) -> Block:
        lines = read_block(block, offset, self._file)
        batch = hv.Batch()
        records = lines.records
        if lines.graph.height:
            comments = graph_records(lines.graph, batch, self._file)
            records = pl.concat([records, comments]).sort("offset") if comments.height else records
        records = records.with_columns(pl.lit(self._file, pl.UInt16).alias("file"), _form().alias("form")).with_columns(
            _group().alias("group")
        )
        self._learn(records)
        for (form, event), frame in records.partition_by("form", "group", as_dict=True, maintain_order=True).items():
            self._add(batch, str(form), str(event), frame)
        events, args = self.pairer.feed(batch)
        return Block(events=events, args=args, ledger=lines.ledger, losses=lines.losses)

    def _learn(self, records: pl.DataFrame) -> None:
        """Kernels after 6.12 write 0x in the arguments: then bare digits are decimal, before hexadecimal."""
        if not self._has_0x:
            calls = records.filter(pl.col("form") == "enter")["rest"]
            self._has_0x = bool(calls.str.contains(r"[:=] ?0x").any())

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
            add_marker_texts(batch, frame)
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
            rows = rows.with_columns(typed_fields(keys, plain_hex=not self._has_0x))
            if "path" in names:
                rows = rows.with_columns(pl.lit(None, pl.UInt64).alias("u_path"), pl.col("f_path").alias("t_path"))
            hv.add_syscall_enter(batch, rows, name, names)
            if not keys:
                batch.add_text(rows, "body", pl.col("rest"))


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
        .when(colon & event.is_in(_MARKERS))
        .then(pl.lit("marker"))
        .when(colon & rest.str.contains(_IS_PROBE))
        .then(pl.lit("probe"))
        .otherwise(pl.lit("event"))
    )


def _group() -> pl.Expr:
    """Return the event name where its fields are split; forms with any number of names are one group."""
    split = pl.col("form").is_in(["enter", "exit", "probe"])
    known = (pl.col("form") == "event") & pl.col("event").str.contains(hv.KNOWN_EVENTS)
    return pl.when(split | known).then(pl.col("event")).otherwise(pl.lit(""))


def _add_exits(batch: hv.Batch, name: str, frame: pl.DataFrame) -> None:
    text = pl.col("rest").str.extract(r"^(?:ret=|__syscall_nr=.* ret=)?(-?\w+)", 1)
    value = pl.when(text.str.starts_with("-")).then(number(text)).otherwise(bare_hex(text))
    hv.add_syscall_exit(batch, frame.with_columns(value.alias("u_ret")), name)


def _add_probes(batch: hv.Batch, event: str, frame: pl.DataFrame) -> None:
    frame = frame.with_columns(pl.col("rest").str.extract_groups(_PROBE).alias("p")).unnest("p")
    at = pl.col("at").str.replace(r"\+0x.*$", "")
    is_address = pl.col("at").str.contains("^0x[0-9a-f]+$")
    frame = frame.with_columns(
        pl.when(~is_address).then(at).alias("function"),
        pl.col("fields").fill_null(""),
        pl.col("caller").is_not_null().alias("back"),
    )
    for (back,), part in frame.partition_by("back", as_dict=True).items():
        for keys, rows in split_fields(part, "equals", "fields"):
            names = [k[2:] for k in keys]
            rows = rows.with_columns(typed_fields(keys))
            if event.startswith("doorbell") and not back and {"sig", "val"} <= set(names):
                hv.add_doorbell(batch, rows, event, names)
            else:
                hv.add_probe(batch, rows, event, names, is_return=bool(back))
                if not keys:
                    batch.add_text(rows, "body", pl.col("fields"))


def _add_events(batch: hv.Batch, event: str, frame: pl.DataFrame) -> None:
    layer = hv.event_layer(event)
    if not event:
        hv.add_others(batch, frame)
        return
    if layer == "drm_sched":
        frame = frame.with_columns(_plain_sched(pl.col("rest")))
    for keys, rows in split_fields(frame, "sched" if layer == "drm_sched" else "equals"):
        hv.add_event(batch, rows.with_columns(typed_fields(keys)), event, [k[2:] for k in keys])


def _plain_sched(rest: pl.Expr) -> pl.Expr:
    """Return scheduler bodies as a list of fields: their words between the fields are left out."""
    plain = rest.str.replace(r" signaled\s*$", "").str.replace(r"^job ring=", "ring=")
    plain = plain.str.replace(r" depends on (?:unsignalled )?fence=", ", depends_fence=")
    return plain.str.replace(r"depends fence=", "depends_fence=").alias("rest")
