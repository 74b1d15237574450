"""The prefix of a trace line, `comm-pid (tgid) [cpu] flags stamp: `: learned from one line, checked on all at once."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.model.part_tables import LATEST_NS
from tracecorr.model.schema import CAT
from tracecorr.read.text import Codes, Ints, Mask, Text, decimal

# What trace-cmd report prints in front of the records of an instance: its name, then comm in 16 columns of which the
# first is blank.
INSTANCE = r"(?:[^\s:]+: {2,})?"
# The kernel prints `%16s-%-7d `, perhaps a tgid, `[%03d] `, four or five flags, `%5lu.%06lu: ` (a whole number where
# the clock counts no time). trace-cmd report leaves the flags out, may print nine digits, and leaves no blank before
# a stamp of 12 digits. comm may hold spaces, dashes, brackets: what counts is the last `-pid ... [cpu]`. The kernel has
# 15 bytes for comm; other tools print up to 31.
RECORD = (
    rf"^ *{INSTANCE}.{{1,32}}-\d{{1,7}} +(?:\( *(?:\d{{1,7}}|-+)\) +)?\[(?P<cpu>\d{{3,8}})\]"
    r"(?: +(?:[a-zA-Z0-9.#]{4,5} +)??| *)(?P<sec>\d{1,16})(?:\.(?P<frac>\d{6}|\d{9}))?: +(?=\S)"
)
_LINE = re.compile(RECORD.encode(), re.DOTALL)
_TASK = re.compile(
    rf"^ *{INSTANCE}(?P<comm>.{{1,32}})-(?P<tid>\d{{1,7}}) +(?:\( *(?P<pid>\d{{1,7}}|-+)\) +)?$".encode(), re.DOTALL
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
        digits: digits behind the `.`; 0 where there is none.
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
class LineHeads:
    """Hold the lines of a block that start a record.

    Args:
        line: number of the line in the block.
        start: its first byte.
        body: first byte after the time.
        is_whole: lines without a `.` in the time.
        base: `stamp_ns`, `cpu`, `tid`, `pid`, `comm`; null where a number is out of range.
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

    def read(self, text: Text, start: Ints, end: Ints) -> LineHeads:
        """Return the prefixes of all lines that start a record, in order."""
        parts: list[LineHeads] = []
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

    def _read(self, text: Text, layout: _Layout, line: Ints, start: Ints) -> tuple[LineHeads, Mask]:
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
        return _select(LineHeads(line, at, at + layout.body, whole_stamp, base), good), good


def _select(heads: LineHeads, rows: Mask | Ints) -> LineHeads:
    if rows.dtype == np.bool_ and rows.all():
        return heads
    base = heads.base.filter(pl.Series(rows)) if rows.dtype == np.bool_ else heads.base[rows]
    return LineHeads(heads.line[rows], heads.start[rows], heads.body[rows], heads.is_whole[rows], base)


def _merge(parts: list[LineHeads]) -> LineHeads:
    """Return the lines of all layouts in order."""
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros(0, np.int64)
    if not parts:
        return LineHeads(empty, empty, empty, np.zeros(0, np.bool_), pl.DataFrame(schema=_BASE))
    line, start, body, is_whole = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("line", "start", "body", "is_whole")
    )
    heads = LineHeads(line, start, body, is_whole, pl.concat([p.base for p in parts]))
    return _select(heads, np.argsort(heads.line))


def _learn(text: Text, left: Ints, start: Ints, end: Ints) -> tuple[Ints, _Layout | None]:
    """Return the lines from the first one that starts a record on, and its layout; None where none does."""
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
