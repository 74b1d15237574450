"""From bytes to records: blocks of whole lines, what each line is, losses that notes and headers tell, the ledger.

The prefix of a line, `comm-pid (tgid) [cpu] flags stamp: `, is learned from one line and checked on all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa

from tracecorr.model import schema
from tracecorr.model.columns import take_column
from tracecorr.model.part_tables import LATEST_NS
from tracecorr.model.reasons import BROKEN_RECORD
from tracecorr.model.schema import CAT
from tracecorr.read.byte_text import Codes, Ints, Mask, Text, decimal

# What trace-cmd report prints in front of the records of an instance: its name, then comm in 16 columns of which the
# first is blank.
_INSTANCE = r"(?:[^\s:]+: {2,})?"
# The kernel prints `%16s-%-7d `, perhaps a tgid, `[%03d] `, four or five flags, `%5lu.%06lu: ` (a whole number where
# the clock counts no time). trace-cmd report leaves the flags out, may print nine digits, and leaves no blank before
# a stamp of 12 digits. comm may hold spaces, dashes, brackets: what counts is the last `-pid ... [cpu]`. The kernel has
# 15 bytes for comm; other tools print up to 31.
_RECORD = (
    rf"^ *{_INSTANCE}.{{1,32}}-\d{{1,7}} +(?:\( *(?:\d{{1,7}}|-+)\) +)?\[(?P<cpu>\d{{3,8}})\]"
    r"(?: +(?:[a-zA-Z0-9.#]{4,5} +)??| *)(?P<sec>\d{1,16})(?:\.(?P<frac>\d{6}|\d{9}))?: +(?=\S)"
)
_LINE = re.compile(_RECORD.encode(), re.DOTALL)
_TASK = re.compile(
    rf"^ *{_INSTANCE}(?P<comm>.{{1,32}})-(?P<tid>\d{{1,7}}) +(?:\( *(?P<pid>\d{{1,7}}|-+)\) +)?$".encode(), re.DOTALL
)
_BASE: dict[str, pl.DataType | type[pl.DataType]] = {
    "stamp_ns": pl.Int64,
    "cpu": pl.UInt16,
    "tid": pl.UInt64,
    "pid": pl.UInt32,
    "comm": CAT,
}
# A prefix is no longer than this, and a block has no more forms of it: widths of numbers, with and without flags.
_PREFIX_BYTES, _MOST_LAYOUTS = 256, 64


@dataclass(frozen=True)
class _Layout:
    """Hold the columns of one form of prefix, counted from the first byte of a line.

    Args:
        bracket: the `[` before the CPU.
        cpu_digits: digits of the CPU.
        seconds: first column of the time.
        dot: the column behind its whole number.
        digits: digits behind the `.`; 0 if there is none.
        body: first byte after the time.
    """

    bracket: int
    cpu_digits: int
    seconds: int
    dot: int
    digits: int
    body: int

    @classmethod
    def of(cls, line: bytes) -> _Layout | None:
        """Return the columns of `line`, or None if it does not start a record."""
        found = _LINE.match(line)
        if found is None:
            return None
        cpu, digits = found.start("cpu"), len(found["frac"] or b"")
        return cls(cpu - 1, found.end("cpu") - cpu, found.start("sec"), found.end("sec"), digits, found.end())

    def fits(self, text: Text, start: Ints, end: Ints) -> Mask:
        """Return which lines have their signs in these columns."""
        close = self.bracket + 1 + self.cpu_digits
        after = self.dot + (1 + self.digits if self.digits else 0)
        signs = [(self.bracket, "["), (close, "]"), (after, ":"), (after + 1, " ")]
        signs += [(self.dot, ".")] if self.digits else []
        signs += [(close + 1, " "), (self.seconds - 1, " ")] if self.seconds > close + 1 else []
        good: Mask = start + self.body < end
        at = np.where(good, start, text.start)
        for column, sign in signs:
            good &= text.bytes[at + column] == ord(sign)
        # A body may begin with spaces of its own: a line with fewer of them has its body further left.
        for column in range(after + 2, self.body):
            good &= text.bytes[at + column] == ord(" ")
        good &= text.bytes[at + self.body] != ord(" ")
        return good


@dataclass
class _LineHeads:
    """Hold the lines of a block that start a record.

    Args:
        line: number of the line in the block.
        start: its first byte.
        body: first byte after the time.
        is_whole: lines without a `.` in the time.
        base: `stamp_ns`, `cpu`, `tid`, `pid`, `comm`; null if a number is out of range.
    """

    line: Ints
    start: Ints
    body: Ints
    is_whole: Mask
    base: pl.DataFrame


class Prefixes:
    """Read the prefixes of lines; a form and a task that were seen before cost one look-up."""

    def __init__(self) -> None:
        self._codes = Codes(_read_task)
        self._layouts: list[_Layout] = []

    def read(self, text: Text, start: Ints, end: Ints) -> _LineHeads:
        """Return the prefixes of all lines that start a record, in order."""
        parts: list[_LineHeads] = []
        left, known = np.arange(len(start)), list(self._layouts)
        while len(left) and len(parts) < _MOST_LAYOUTS:
            taught = -1
            if known:
                layout = known.pop(0)
            else:
                left, new = _learn(text, left, start, end)
                if new is None:
                    break
                layout, taught = new, int(left[0])
                self._layouts = [layout, *self._layouts][:_MOST_LAYOUTS]
            fits = layout.fits(text, start[left], end[left])
            part, good = self._read(text, layout, left[fits], start)
            parts.append(part)
            fits[fits] = good
            left = left[~fits & (left != taught)]
        return _merge(parts)

    def _read(self, text: Text, layout: _Layout, line: Ints, start: Ints) -> tuple[_LineHeads, Mask]:
        at = start[line]
        whole, good = decimal(text, at + layout.dot, np.full(len(at), layout.dot - layout.seconds))
        fraction, fine = decimal(text, at + layout.dot + 1 + layout.digits, np.full(len(at), layout.digits))
        cpu, known = decimal(text, at + layout.bracket + 1 + layout.cpu_digits, np.full(len(at), layout.cpu_digits))
        good &= fine & known
        task = self._codes.encode(text, at, at + layout.bracket)
        tasks = pl.DataFrame(
            self._codes.values, schema={"tid": pl.UInt64, "pid": pl.UInt32, "comm": pl.String}, orient="row"
        ).with_columns(pl.col("comm").cast(CAT))
        unit = 10**9 if layout.digits else 1
        stamps = pl.Series("stamp_ns", (whole * np.uint64(unit)).view(np.int64), dtype=pl.Int64)
        stamps = stamps + pl.Series((fraction * np.uint64(10 ** (9 - layout.digits))).view(np.int64))
        late, odd = whole >= LATEST_NS // unit, cpu >= 1 << 16
        base = tasks[task].insert_column(0, stamps.set(pl.Series(late), None) if late.any() else stamps)
        cpus = pl.Series("cpu", cpu.astype(np.uint16))
        base = base.insert_column(1, cpus.set(pl.Series(odd), None) if odd.any() else cpus)
        good &= base["tid"].is_not_null().to_numpy()
        whole_stamp = np.full(len(at), layout.digits == 0)
        return _select(_LineHeads(line, at, at + layout.body, whole_stamp, base), good), good


def _select(heads: _LineHeads, rows: Mask | Ints) -> _LineHeads:
    if rows.dtype == np.bool_ and rows.all():
        return heads
    base = heads.base.filter(pl.Series(rows)) if rows.dtype == np.bool_ else heads.base[rows]
    return _LineHeads(heads.line[rows], heads.start[rows], heads.body[rows], heads.is_whole[rows], base)


def _merge(parts: list[_LineHeads]) -> _LineHeads:
    """Return the lines of all layouts in order."""
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros(0, np.int64)
    if not parts:
        return _LineHeads(empty, empty, empty, np.zeros(0, np.bool_), pl.DataFrame(schema=_BASE))
    line, start, body, is_whole = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("line", "start", "body", "is_whole")
    )
    heads = _LineHeads(line, start, body, is_whole, pl.concat([p.base for p in parts]))
    return _select(heads, np.argsort(heads.line))


def _learn(text: Text, left: Ints, start: Ints, end: Ints) -> tuple[Ints, _Layout | None]:
    """Return the lines from the first one that starts a record on, and its layout; None if none does."""
    for place, (at, stop) in enumerate(zip(start[left].tolist(), end[left].tolist(), strict=True)):
        layout = _Layout.of(text.slice(at, min(stop, at + _PREFIX_BYTES)))
        if layout:
            return left[place:], layout
    return left[:0], None


def _read_task(head: bytes) -> tuple[int | None, int | None, str]:
    found = _TASK.match(head)
    if found is None:
        return None, None, ""
    pid = found["pid"]
    return int(found["tid"]), int(pid) if pid and pid.isdigit() else None, found["comm"].decode("utf-8", "replace")


# Larger blocks cost memory, smaller ones time: each event of a block is read by calls of its own.
BLOCK_BYTES = 12 << 20
# Lines looked at from the end of a block for one that starts a record.
_LOOK_BACK = 4096
_MOST_LOST = 1 << 48

_GRAPH = r"^ *(?:\d+\.\d{6} +\| +)?\d+\) .*[|=]"
_START = re.compile(_RECORD.encode() + b"|" + _GRAPH.encode(), re.MULTILINE)
# The kernel's own note, and that of trace-cmd report.
_LOST = rf"^ *{_INSTANCE.replace('{2,}', '+')}CPU:(?P<cpu>\d+) \[(?:LOST )?(?:(?P<count>\d+) )?EVENTS(?: DROPPED)?\]"
_LOST_LINE = re.compile(_LOST.removeprefix("^").encode())
_HEADER = r"^#|^cpus=\d+\s*$|^ ?-{20,}\s*$|^\s*$"
_WRITTEN = r"^# entries-in-buffer/entries-written: (\d+)/(\d+)(?: +#P:(\d+))?"
# Perfetto's converter prints this one in front of every trace: it counts nothing.
_MADE_UP = "entries-in-buffer/entries-written: 30624/30624   #P:4"
# A line with a task and a time whose prefix is no whole one.
_BROKEN = r"^.{1,40}-\d{1,7} .*\d\.\d{6}(?:\d{3})?: \w"
# Events that print several lines: texts of programs; two lines; one line for each function of a stack.
_FREE_TEXT = r"^(?:tracing_mark_write|print|bprint|bputs|0x[0-9a-f]{8,16})\b"
_TWO_LINES, _STACK = "amdgpu_vm_update_ptes: ", "<stack trace>"
_REASONS = {"rest": "no_record_prefix", "broken": BROKEN_RECORD}


@dataclass
class Lines:
    """Hold the lines of one block.

    Args:
        text: the block.
        start: first byte of each line, as a position in `text`.
        end: the byte after its last one.
        offset: byte of the file that the block starts with.
    """

    text: Text
    start: Ints
    end: Ints
    offset: int

    def sizes(self) -> Ints:
        """Return the bytes of each line with its line end."""
        return np.minimum(self.end + 1, self.text.stop) - self.start

    def strings(self, rows: Ints) -> pl.Series:
        """Return some lines as text."""
        return read_spans(self.text, self.start[rows], self.end[rows])


def read_spans(text: Text, start: Ints, end: Ints) -> pl.Series:
    """Return the text of ascending spans of a block; bytes that are no UTF-8 become U+FFFD."""
    if not len(start):
        return pl.Series(dtype=pl.String)
    edges = np.column_stack([start, end]).ravel().astype(np.int64)
    spans = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(text.raw)]
    )
    raw = take_column(spans).gather_every(2)
    try:
        strings = raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        strings = pl.Series([span.decode("utf-8", "replace") for span in raw], dtype=pl.String)
    return strings.str.strip_chars_end("\r")


def looks_like_ftrace_text(head: bytes) -> bool:
    """Tell whether the first bytes of a file are kernel trace text."""
    return head.startswith(b"# tracer: ") or (b"\0" not in head and _START.search(head) is not None)


def cut_blocks(chunks: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) blocks that depend on the stream only, not on how `chunks` cut it.

    A block ends before a line that starts a record, so that continuation lines stay with theirs.
    """
    parts: list[bytes] = []
    held = offset = 0
    for chunk in chunks:
        parts.append(chunk)
        held += len(chunk)
        if held < size:
            continue
        buffer, at = b"".join(parts), 0
        while len(buffer) - at >= size:
            end = _cut(buffer, at, size)
            yield offset + at, buffer[at:end]
            at = end
        parts, held, offset = [buffer[at:]], len(buffer) - at, offset + at
    rest = b"".join(parts)
    if rest:
        yield offset, rest


def _cut(buffer: bytes, begin: int, size: int) -> int:
    """Return where the block that begins at `begin` ends: before the last line that starts a record."""
    end = last = buffer.rfind(b"\n", begin, begin + size) + 1
    if not end:
        return begin + size
    for _ in range(_LOOK_BACK):
        start = buffer.rfind(b"\n", begin, end - 1) + 1
        if start <= begin:
            break
        if _START.match(buffer[start : min(end, start + 200)]):
            return _before_lost(buffer, begin, start)
        end = start
    return _before_lost(buffer, begin, last)


def _before_lost(buffer: bytes, begin: int, at: int) -> int:
    """Return where the notes of losses in front of the record at `at` begin: it tells when the losses ended."""
    while (start := buffer.rfind(b"\n", begin, at - 1) + 1) > begin and _LOST_LINE.match(buffer, start):
        at = start
    return at


def sort_lines(lines: Lines, heads: _LineHeads) -> pl.DataFrame:
    """Return what the lines that start no record are: `seq`, `line`, `kind`, and `owner` of those that go on with one.

    Kinds: `header`, `lost` (a note of the kernel), `graph` (of function_graph), `more` (of the record in line `owner`),
    `broken` and `rest` (no records).
    """
    others = np.delete(np.arange(len(lines.start)), heads.line)
    line = pl.col("line")
    frame = pl.DataFrame({"seq": others, "line": lines.strings(others)}).with_columns(
        kind=pl.when(line.str.contains(_HEADER))
        .then(pl.lit("header"))
        .when(line.str.contains(_LOST))
        .then(pl.lit("lost"))
        .when(line.str.contains(_GRAPH))
        .then(pl.lit("graph"))
        .otherwise(pl.lit("rest"))
    )
    if (frame["kind"] == "rest").any():
        frame = _attach_more(frame, lines, heads)
    return frame


def _attach_more(frame: pl.DataFrame, lines: Lines, heads: _LineHeads) -> pl.DataFrame:
    """Find the record that each further line belongs to: the one before it, if its event prints several lines."""
    seq, is_rest = frame["seq"].to_numpy(), (frame["kind"] == "rest").to_numpy()
    # A blank line may lie in the middle of a text of several lines.
    ends = np.zeros(len(lines.start), np.bool_)
    ends[seq[~is_rest & (frame["line"].str.strip_chars() != "").to_numpy()]] = True
    place = np.arange(len(lines.start))
    is_head = np.zeros(len(lines.start), np.bool_)
    is_head[heads.line] = True
    last = np.maximum.accumulate(np.where(is_head | ends, place, -1))[seq]
    owned = is_rest & (last >= 0) & is_head[np.maximum(last, 0)]
    at = np.searchsorted(heads.line, last[owned])
    bodies = frame.filter(pl.Series(owned)).select(
        "seq", "line", owner=pl.Series(last[owned], dtype=pl.Int64),
        body=pl.Series(_read_bodies(lines, heads)).gather(pl.Series(at, dtype=pl.UInt32)),
    )  # fmt: skip
    body = pl.col("body")
    more = bodies.filter(
        body.str.contains(_FREE_TEXT)
        | body.str.starts_with(_TWO_LINES) & (pl.col("seq") == pl.col("owner") + 1)
        | body.str.starts_with(_STACK) & pl.col("line").str.starts_with(" => ")
    ).select("seq", "owner")
    frame = frame.join(more, on="seq", how="left", maintain_order="left")
    rest, broken = pl.col("kind") == "rest", pl.col("line").str.contains(_BROKEN)
    return frame.with_columns(
        kind=pl.when(rest & pl.col("owner").is_not_null())
        .then(pl.lit("more"))
        .when(rest & broken)
        .then(pl.lit("broken"))
        .otherwise("kind")
    )


def _read_bodies(lines: Lines, heads: _LineHeads) -> pl.Series:
    """Return the text behind the prefix of each record, on its first line."""
    return read_spans(lines.text, heads.body, lines.end[heads.line])


def count_lines(others: pl.DataFrame, lines: Lines, records: int, file: int) -> pl.DataFrame:
    """Return the ledger of a block.

    Args:
        others: the lines that start no record (`sort_lines`).
        lines: all lines.
        records: how many start one.
        file: key of the file.
    """
    sizes = lines.sizes()
    kinds = others.with_columns(size=pl.Series(sizes[others["seq"].to_numpy()], dtype=pl.Int64))
    account = kinds.group_by(pl.col("kind").replace_strict(_REASONS, default="").alias("reason")).agg(
        # Headers, notes of losses and what a record goes on with are bytes of the file, but no records.
        records=pl.col("kind").is_in(["graph", *_REASONS]).sum().cast(pl.Int64),
        bytes=pl.col("size").sum(),
    )
    own = pl.DataFrame({"reason": [""], "records": [records], "bytes": [int(sizes.sum()) - int(kinds["size"].sum())]})
    account = pl.concat([own, account]).group_by("reason", maintain_order=True).agg(pl.col("records", "bytes").sum())
    account = account.filter(pl.col("records") + pl.col("bytes") > 0).with_columns(
        outcome=pl.when(pl.col("reason") == "").then(pl.lit("used")).otherwise(pl.lit("skipped")),
        file=pl.lit(file), source=pl.lit("ftrace"),
    )  # fmt: skip
    return schema.LEDGER.conform(account)


def count_losses(losses: pl.DataFrame, file: int) -> pl.DataFrame:
    """Return the row of the ledger for records that the kernel lost."""
    count = int(losses["count"].fill_null(1).sum())
    row = {"file": file, "source": "ftrace", "outcome": "lost", "reason": "ring_buffer_overrun", "records": count}
    return schema.LEDGER.conform(pl.DataFrame([{**row, "bytes": 0}] if count else [], schema=schema.LEDGER.schema))


class Losses:
    """Find what notes between the records and the headers tell, block by block."""

    def __init__(self) -> None:
        self._last = pl.DataFrame(schema={"seq": pl.Int64, "cpu": pl.UInt16, "stamp_ns": pl.Int64})
        self._trace: _Header | None = None

    def find(self, others: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
        """Return the losses that a block tells, dated by the records of the same CPU before and behind each note.

        Args:
            others: the lines that start no record (`sort_lines`).
            records: all records of the block, in order: `seq`, `cpu`, `stamp_ns`.
        """
        known = pl.concat([self._last, records.select("seq", "cpu", "stamp_ns").drop_nulls()])
        rows = self._read_headers(others, known)
        self._last = known.group_by("cpu").last().select(pl.lit(-1, pl.Int64).alias("seq"), "cpu", "stamp_ns")
        return pl.concat([_read_notes(others, known), pl.DataFrame(rows, schema=schema.LOSSES.schema)])

    def finish(self, *, torn: bool) -> pl.DataFrame:
        """Return the losses of the last header; if the file is `torn`, a line without its end is one more record."""
        rows = self._trace.list_losses(torn) if self._trace else []
        self._trace = None
        return pl.DataFrame(rows, schema=schema.LOSSES.schema)

    def _read_headers(self, others: pl.DataFrame, records: pl.DataFrame) -> list[dict[str, object]]:
        """Count the records behind each header; a text may hold several traces, each with its own."""
        found = others.filter(pl.col("kind") == "header").select("seq", pl.col("line").str.extract_groups(_WRITTEN))
        found = found.unnest("line").filter(pl.col("1").is_not_null())
        lines = dict(others.select("seq", "line").filter(pl.col("seq").is_in(found["seq"].implode())).iter_rows())
        rows: list[dict[str, object]] = []
        start = -1
        for seq, present, written, online in [*found.iter_rows(), (1 << 62, None, None, None)]:
            if self._trace:
                self._trace.add(records.filter(pl.col("seq").is_between(start + 1, seq - 1)), others, start, seq)
            if present is not None:
                rows += self.finish(torn=False).to_dicts()
                is_made_up = _MADE_UP in lines[seq]
                self._trace = None if is_made_up else _Header(int(present), int(written), int(online or 0))
            start = seq
        return rows


@dataclass
class _Header:
    """Hold what one header tells, and what came behind it.

    Args:
        present, written: records that lie in the buffers, and that were written into them, of all CPUs.
        online: how many CPUs there are; 0 = not told.
        entries: lines that may be records.
        is_noted: whether notes between the records tell of losses: the buffers were written while they were read.
        firsts: stamp of the first record of each CPU.
    """

    present: int
    written: int
    online: int
    entries: int = 0
    is_noted: bool = False
    firsts: dict[int, int] = field(default_factory=dict)

    def add(self, records: pl.DataFrame, others: pl.DataFrame, start: int, stop: int) -> None:
        """Take the records and the other lines between two lines of a block."""
        firsts = records.group_by("cpu").agg(pl.col("stamp_ns").min())
        self.firsts = {**dict(firsts.iter_rows()), **self.firsts}
        kinds = others.filter(pl.col("seq").is_between(start + 1, stop - 1))["kind"]
        # A line of function_graph may be two records.
        self.entries += records.height + int(kinds.is_in(["rest", "broken", "more"]).sum())
        self.entries += 2 * int((kinds == "graph").sum())
        self.is_noted |= bool((kinds == "lost").any())

    def list_losses(self, torn: bool) -> list[dict[str, object]]:
        """Return what was overwritten before the records, and how many the text does not hold, wherever they were."""
        rows: list[dict[str, object]] = []
        if self.present < self.written:
            until = max(self.firsts.values(), default=None)
            rows.append({"source": "ftrace", "to_ns": until, "count": _count_lost(self.written - self.present)})
        # The file of one CPU has a header of all of them.
        is_whole = len(self.firsts) > 1 or self.online == 1
        if is_whole and not self.is_noted and self.present > self.entries + torn:
            rows.append({"source": "ftrace", "count": _count_lost(self.present - self.entries - torn)})
        return rows


def _read_notes(others: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    notes = others.filter(pl.col("kind") == "lost")
    if notes.is_empty():
        return schema.LOSSES.empty()
    found = notes.select("seq", pl.col("line").str.extract_groups(_LOST)).unnest("line").with_columns(
        pl.col("cpu").str.to_integer(strict=False).cast(pl.UInt16, strict=False),
        pl.col("count").str.to_integer(dtype=pl.Int64, strict=False),
        source=pl.lit("ftrace"),
    )  # fmt: skip
    sides: tuple[tuple[str, Literal["backward", "forward"]], ...] = (("from_ns", "backward"), ("to_ns", "forward"))
    for name, strategy in sides:
        side = records.select("seq", "cpu", pl.col("stamp_ns").alias(name)).sort("seq")
        found = found.join_asof(side, on="seq", by="cpu", strategy=strategy, check_sortedness=False)
    return schema.LOSSES.conform(
        found.drop("seq").with_columns(pl.when(pl.col("count") < _MOST_LOST).then("count").alias("count"))
    )


def _count_lost(lost: int) -> int | None:
    """Return how many records are said to be lost; None if no trace can have lost so many."""
    return lost if lost < _MOST_LOST else None


def own_lines(lines: Lines, heads: _LineHeads, others: pl.DataFrame) -> Ints:
    """Return where each record ends: with the last line that belongs to it."""
    end = lines.end[heads.line].copy()
    if "owner" in others.columns:
        more = others.filter(pl.col("kind") == "more").group_by("owner").agg(pl.col("seq").max())
        at = np.searchsorted(heads.line, more["owner"].to_numpy())
        end[at] = lines.end[more["seq"].to_numpy()]
    return end
