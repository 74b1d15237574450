"""The columns of a trace line: found once, then checked on all lines of a block at once."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.model.part_tables import LATEST_NS
from tracecorr.model.schema import CAT
from tracecorr.read.digits import Ints, Mask
from tracecorr.read.ftrace.prefixes import INSTANCE, TWO_NAMES
from tracecorr.read.text import Codes, Text, decimal

# The kernel prints `%16s-%-7d `, perhaps a tgid, `[%03d] `, four or five flags, `%5lu.%06lu: `; `trace-cmd
# report` leaves the flags out and may print nine digits.
_OF = INSTANCE.encode()
_HEAD = rb"^(?P<head> *" + _OF + rb".{1,32}-\d+ +(?:\( *(?:\d+|-+)\) +)?)\[(?P<cpu>\d{3,8})\] +"
_LINE = re.compile(_HEAD + rb"(?:[a-zA-Z0-9.#]{4,5} +)??(?P<sec>\d{1,12})\.(?P<frac>\d{6}|\d{9}): +(?=\S)", re.DOTALL)
_TASK = re.compile(rb"^ *" + _OF + rb"(?P<comm>.{1,32})-(?P<tid>\d{1,7}) +(?:\( *(?P<pid>\d{1,7}|-+)\) +)?$", re.DOTALL)
_BASE: dict[str, pl.DataType | type[pl.DataType]] = {
    "stamp_ns": pl.Int64,
    "cpu": pl.UInt16,
    "tid": pl.UInt64,
    "pid": pl.UInt32,
    "comm": CAT,
}
_TWO_NAMES = re.compile(TWO_NAMES.encode())
# Lines looked at for one that has columns, and different columns in one block.
_LOOK_AT, _MOST_LAYOUTS = 200, 16


@dataclass(frozen=True)
class Layout:
    """Hold the columns of one form of line, counted from its first byte.

    Args:
        bracket: the `[` before the CPU.
        cpu_digits: digits of the CPU.
        seconds: first column of the seconds.
        dot: the `.` of the time.
        digits: digits after it.
        body: first byte after the time.
    """

    bracket: int
    cpu_digits: int
    seconds: int
    dot: int
    digits: int
    body: int

    @classmethod
    def of(cls, line: bytes) -> Layout | None:
        """Return the columns of `line`, or None when it does not start a record."""
        found = _LINE.match(line)
        if found is None:
            return None
        cpu = found.start("cpu")
        return cls(
            cpu - 1, found.end("cpu") - cpu, found.start("sec"), found.end("sec"), len(found["frac"]), found.end()
        )

    def fits(self, text: Text, start: Ints, end: Ints) -> Mask:
        """Return which lines have their signs in these columns."""
        close = self.bracket + 1 + self.cpu_digits
        after = self.dot + 1 + self.digits
        good: Mask = start + self.body < end
        at = np.where(good, start, text.start)
        for column, sign in ((self.bracket, "["), (close, "]"), (close + 1, " "), (self.seconds - 1, " "),
                             (self.dot, "."), (after, ":"), (after + 1, " ")):  # fmt: skip
            good &= text.bytes[at + column] == ord(sign)
        # A body may begin with spaces of its own: a line with fewer of them has its body further left.
        for column in range(after + 2, self.body):
            good &= text.bytes[at + column] == ord(" ")
        good &= text.bytes[at + self.body] != ord(" ")
        return good


@dataclass
class LineHeads:
    """Hold the lines of a block whose columns are known.

    Args:
        line: number of the line in the block.
        start: its first byte.
        end: the byte after its last one.
        body: first byte after the time.
        base: `stamp_ns`, `cpu`, `tid`, `pid`, `comm`.
    """

    line: Ints
    start: Ints
    end: Ints
    body: Ints
    base: pl.DataFrame

    def select(self, rows: Mask | Ints) -> LineHeads:
        """Return some of the lines."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        base = self.base.filter(pl.Series(rows)) if rows.dtype == np.bool_ else self.base[rows]
        return LineHeads(self.line[rows], self.start[rows], self.end[rows], self.body[rows], base)

    def frame(self, file: int, shift: int) -> pl.DataFrame:
        """Return the base columns of halves; `shift` makes offsets in the file of positions."""
        return pl.DataFrame(
            {"seq": self.line, "offset": self.start + shift, "length": (self.end - self.start).astype(np.uint32)}
        ).with_columns(pl.lit(file, pl.UInt16).alias("file"), *self.base.get_columns())


class Tasks:
    """Read the heads of lines; a task that was seen before costs one look-up."""

    def __init__(self) -> None:
        self._codes = Codes(_read_task)
        self._layouts: list[Layout] = []

    def read(self, text: Text, start: Ints, end: Ints) -> LineHeads:
        """Return the heads of all lines with known columns, in order."""
        left, parts = np.arange(len(start)), []
        tried: list[Layout] = []
        while len(left) and len(tried) < _MOST_LAYOUTS:
            layout = next((known for known in self._layouts if known not in tried), None)
            layout = layout or _learn(text, start[left], end[left])
            if layout is None or layout in tried:
                break
            tried.append(layout)
            fits = layout.fits(text, start[left], end[left])
            part, good = self._read(text, layout, left[fits], start, end)
            fits[fits] = good
            if good.any():
                parts.append(part)
                self._layouts = [layout, *(known for known in self._layouts if known != layout)][:_MOST_LAYOUTS]
            left = left[~fits]
        return _merge(parts)

    def _read(self, text: Text, layout: Layout, line: Ints, start: Ints, end: Ints) -> tuple[LineHeads, Mask]:
        at = start[line]
        seconds, good = decimal(text, at + layout.dot, np.full(len(at), layout.dot - layout.seconds))
        fraction, fine = decimal(text, at + layout.dot + 1 + layout.digits, np.full(len(at), layout.digits))
        cpu, known = decimal(text, at + layout.bracket + 1 + layout.cpu_digits, np.full(len(at), layout.cpu_digits))
        # What the columns do not hold is read by the patterns, and null then.
        good &= fine & known & (seconds < LATEST_NS // 10**9) & (cpu < 1 << 16)
        task = self._codes.encode(text, at, at + layout.bracket)
        tasks = pl.DataFrame(
            self._codes.values, schema={"tid": pl.UInt64, "pid": pl.UInt32, "comm": pl.String}, orient="row"
        ).with_columns(pl.col("comm").cast(CAT))
        nanoseconds = seconds * np.uint64(10**9) + fraction * np.uint64(10 ** (9 - layout.digits))
        base = tasks[task].insert_column(0, pl.Series("stamp_ns", nanoseconds.view(np.int64)))
        base = base.insert_column(1, pl.Series("cpu", cpu.astype(np.uint16)))
        good &= base["tid"].is_not_null().to_numpy()
        return LineHeads(line, at, end[line], at + layout.body, base).select(good), good


def _merge(parts: list[LineHeads]) -> LineHeads:
    """Return the lines of all layouts in order."""
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros(0, np.int64)
    if not parts:
        return LineHeads(empty, empty, empty, empty, pl.DataFrame(schema=_BASE))
    line, start, end, body = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("line", "start", "end", "body")
    )
    heads = LineHeads(line, start, end, body, pl.concat([p.base for p in parts]))
    return heads.select(np.argsort(heads.line))


def _learn(text: Text, start: Ints, end: Ints) -> Layout | None:
    for at, stop in zip(start[:_LOOK_AT].tolist(), end[:_LOOK_AT].tolist(), strict=True):
        layout = Layout.of(text.slice(at, min(stop, at + 256)))
        if layout:
            return layout
    return None


def _read_task(head: bytes) -> tuple[int | None, int | None, str]:
    found = _TASK.match(head)
    if found is None or _TWO_NAMES.search(found["comm"]):
        return None, None, ""
    pid = found["pid"]
    return int(found["tid"]), int(pid) if pid and pid.isdigit() else None, found["comm"].decode("utf-8", "replace")
