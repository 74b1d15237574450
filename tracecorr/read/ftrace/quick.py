"""Rows of the frequent forms of trace lines straight from their bytes: system calls, functions, probes.

A line takes this way only when every byte of it is understood; all others go the way of regular
expressions (`lines.py`, `fields.py`), which gives the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.read.digits import Ints, Mask, Words
from tracecorr.read.ftrace import halves as hv
from tracecorr.read.ftrace.fields import KEYS
from tracecorr.read.ftrace.layout import LineHeads
from tracecorr.read.text import Codes, Text, decimal, hexadecimal

# Where a probe is: `(kfd_ioctl+0x4/0x570 [amdgpu])`, `(0x7f7bd24c11c0)`, `(__x64_sys_ioctl+0x8d/0xd0 <- kfd_ioctl)`.
PROBE = r"^\((?:(?P<caller>[^()]*) <- )?(?P<at>[^\s()]+)(?: \[(?P<module>[\w-]+)\])?\)"
IS_PROBE = r"^\((?:[^()]* <- [^\s()]+|0x[0-9a-f]+|[0-9a-f]{6,16}|[^\s()]+\+0x[^\s()]*)(?: \[[\w-]+\])?\)(?:\s|$)"
# trace-cmd report prints addresses alone, and a function before what it returns to.
BARE = r"^[0-9a-f]{6,16}$"
_PROBE, _IS_PROBE = re.compile(PROBE), re.compile(IS_PROBE)
_EVENT_BYTES, _VALUE_BYTES, _SITE_BYTES = 64, 24, 160
# A literal is never longer than this: that much is between the end of a block and of its padding.
_LITERAL_BYTES = 128
_ENTER, _EXIT, _FUNCTION, _PROBED = 1, 2, 3, 4
# Events whose text may begin as that of a probe does.
_NO_PROBES = ("tracing_mark_write", "print", "sys_enter", "sys_exit", "funcgraph_")
# What stands between the start of an entry into a system call and the value of one of its arguments.
_CALL = re.compile(rb" sys_(?:\w+\(|enter_\w+: )[^)\n]*$")
# Other lines with a 0x that are looked at in a block before it is taken to have none.
_MOST_PLACES = 1000
_BYTE, _THREE, _FOUR = np.uint64(0xFF), np.uint64(0xFFFFFF), np.uint64(0xFFFFFFFF)


@dataclass
class _Values:
    """Hold where the values of the fields of a group of lines are, and which of the lines have them all."""

    keys: list[str]
    spans: list[tuple[Ints, Ints]]
    good: Mask


class Quick:
    """Make the halves of the frequent forms of lines."""

    def __init__(self) -> None:
        self._events = Codes(lambda name: name.decode("utf-8", "replace"))
        self._sites = Codes(_read_site)
        self.has_0x = False

    def learn(self, block: bytes) -> None:
        """See whether system calls print 0x: kernels after 6.12 do, and their bare digits are decimal.

        A path behind its pointer (kernel 7.2) says the same: that line may be the first of its block, and alone in it.
        """
        if not self.has_0x:
            signs = (b": 0x", b"=0x", b' "')
            self.has_0x = any(_is_in_call(block, at) for sign in signs for at in _places(block, sign))

    def add(self, batch: hv.Batch, text: Text, heads: LineHeads, base: pl.DataFrame) -> Mask:
        """Add the rows of the lines `heads`, whose base columns are `base`; return which lines they were."""
        taken = np.zeros(len(heads.line), np.bool_)
        if not len(taken):
            return taken
        stop, code = text.token(heads.body, b":( +<", _EVENT_BYTES)
        event = self._events.encode(text, heads.body, stop, code)
        form = self._forms(text, stop, event)
        for name, rows in self._groups(form, event, _ENTER):
            values = _syscall_values(text, heads, stop, rows)
            taken[self._add_enters(batch, text, base, name, rows, values)] = True
        for name, rows in self._groups(form, event, _EXIT):
            taken[_add_exits(batch, text, heads, stop, base, name, rows)] = True
        for name, rows in self._groups(form, event, _FUNCTION):
            frame = base[rows].with_columns(pl.lit(name).alias("function"), pl.lit(None, pl.String).alias("module"))
            hv.add_function(batch, frame)
            taken[rows] = True
        for name, rows in self._groups(form, event, _PROBED):
            for part in self._add_probes(batch, text, heads, stop, base, name, rows):
                taken[part] = True
        return taken

    def _forms(self, text: Text, stop: Ints, event: Ints) -> Ints:
        sign = text.word(stop)
        system = np.array([_is_syscall(name) for name in self._events.values])[event]
        form = np.where(system & (sign & _BYTE == ord("(")), _ENTER, 0)
        form[system & (sign & _FOUR == int.from_bytes(b" -> ", "little"))] = _EXIT
        form[sign & _THREE == int.from_bytes(b" <-", "little")] = _FUNCTION
        other = np.array([name.startswith(_NO_PROBES) for name in self._events.values], np.bool_)[event]
        form[~other & (sign & _THREE == int.from_bytes(b": (", "little"))] = _PROBED
        return form

    def _groups(self, form: Ints, event: Ints, wanted: int) -> Iterator[tuple[str, Ints]]:
        for code, rows in _by_code(np.flatnonzero(form == wanted), event):
            yield str(self._events.values[code]), rows

    def _add_enters(
        self, batch: hv.Batch, text: Text, base: pl.DataFrame, name: str, rows: Ints, values: _Values
    ) -> Ints:
        columns, good = _numbers(text, values, bare_hex=not self.has_0x)
        frame = base[rows].with_columns(columns)
        frame = frame if good.all() else frame.filter(pl.Series(good))
        hv.add_syscall_enter(batch, frame, name.removeprefix("sys_"), values.keys)
        return rows[good]

    def _add_probes(
        self, batch: hv.Batch, text: Text, heads: LineHeads, stop: Ints, base: pl.DataFrame, event: str, rows: Ints
    ) -> Iterator[Ints]:
        close, code = text.token(stop[rows] + 2, b")", _SITE_BYTES)
        sites = self._sites.encode(text, stop[rows] + 2, close, code)
        for site, part in _by_code(np.arange(len(rows)), sites):
            function, module, back = self._sites.values[site] or (None, None, None)
            if back is None:
                continue
            chosen = rows[part]
            values = _fields(text, close[part] + 1, heads.end[chosen], "equals", b" ")
            values.good &= text.bytes[close[part] + 1] == ord(" ")
            columns, good = _numbers(text, values, bare_hex=False)
            if not values.keys or not good.any():
                continue
            frame = base[chosen].with_columns(
                *columns, pl.lit(function, pl.String).alias("function"), pl.lit(module, pl.String).alias("module")
            )
            hv.add_hits(batch, frame.filter(pl.Series(good)), event, values.keys, is_return=bool(back))
            yield chosen[good]


def _places(block: bytes, sign: bytes) -> Iterator[int]:
    at = block.find(sign)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        yield at
        at = block.find(sign, at + 1)


def _is_in_call(block: bytes, at: int) -> bool:
    return _CALL.search(block, block.rfind(b"\n", 0, at) + 1, at) is not None


def _is_syscall(name: str) -> bool:
    return name.startswith("sys_") and not name.startswith(("sys_enter_", "sys_exit_"))


def _by_code(rows: Ints, code: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each code with its rows."""
    codes = code[rows]
    order = np.argsort(codes.astype(np.uint16) if codes.max(initial=0) < 1 << 16 else codes, kind="stable")
    rows, codes = rows[order], codes[order]
    edges = np.flatnonzero(np.diff(codes)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(rows)], strict=True):
        if start < end:
            yield int(codes[start]), rows[start:end]


def _syscall_values(text: Text, heads: LineHeads, stop: Ints, rows: Ints) -> _Values:
    values = _fields(text, stop[rows] + 1, heads.end[rows] - 1, "syscall", b",)")
    values.good &= text.bytes[heads.end[rows] - 1] == ord(")")
    return values


def _fields(text: Text, at: Ints, end: Ints, style: str, stops: bytes) -> _Values:
    """Return the values between `at` and `end` of lines that have the fields of the first of them."""
    sample = text.read(int(at[0]), int(end[0]))
    keys, places = [], [m.span() for m in KEYS[style].finditer(sample)]
    if any(stop - begin > _LITERAL_BYTES for begin, stop in places):
        return _Values([], [], np.zeros(len(at), np.bool_))
    good, spans, cursor = np.ones(len(at), np.bool_), [], at
    for begin, stop in places:
        literal = sample[begin:stop]
        keys.append(literal.strip(" ,:="))
        good &= text.starts_with(cursor, literal.encode())
        # Past the end only where the literal is missing; the padding of the block takes that.
        start = cursor + len(literal.encode())
        cursor = np.minimum(text.find(start, stops, _VALUE_BYTES), end)
        spans.append((start, cursor))
    plain = len(set(keys)) == len(keys) and all(re.fullmatch(r"\w+", key) for key in keys)
    return _Values(keys, spans, good & (cursor == end) & plain)


def _has_0x(text: Text, at: Ints) -> Mask:
    found: Mask = (text.word(at) & np.uint64(0xFFFF)) == np.uint64(0x7830)
    return found


def _numbers(text: Text, values: _Values, *, bare_hex: bool) -> tuple[list[pl.Series], Mask]:
    """Return `u_KEY` of every field, and which lines have nothing but numbers in them."""
    good, columns = values.good, []
    for key, (start, end) in zip(values.keys, values.spans, strict=True):
        number, fine = _number(text, start, end, bare_hex=bare_hex)
        good = good & fine
        columns.append(pl.Series(f"u_{key}", number))
    return columns, good


def _number(text: Text, start: Ints, end: Ints, *, bare_hex: bool) -> tuple[Words, Mask]:
    marked = _has_0x(text, start)
    # Signed fields of a probe; they become their two's complement, as elsewhere.
    minus = (text.bytes[start] == ord("-")) & (not bare_hex)
    size = end - start - np.where(marked, 2, minus)
    good = (size > 0) & (size <= 16)
    size = np.clip(size, 0, 16)
    if bare_hex or marked.all():
        value, fine = hexadecimal(text, end, size)
        return value, good & fine
    value, fine = decimal(text, end, size)
    rows = np.flatnonzero(marked)
    value[rows], fine[rows] = hexadecimal(text, end[rows], size[rows])
    # `(fault)` and a quoted text are read elsewhere.
    return np.where(minus, ~value + np.uint64(1), value), good & fine


def _add_exits(
    batch: hv.Batch, text: Text, heads: LineHeads, stop: Ints, base: pl.DataFrame, name: str, rows: Ints
) -> Ints:
    start, end = stop[rows] + 4, heads.end[rows]
    value, good = _number(text, start, end, bare_hex=True)
    frame = base[rows].with_columns(pl.Series("u_ret", value))
    hv.add_syscall_exit(batch, frame if good.all() else frame.filter(pl.Series(good)), name.removeprefix("sys_"))
    return rows[good]


def _read_site(text: bytes) -> tuple[str | None, str | None, bool] | None:
    """Return (function or None for an address, module, whether it returns); None for other texts in brackets."""
    site = text.decode("utf-8", "replace") + ")"
    found = _PROBE.match(site)
    if found is None or not _IS_PROBE.match(site) or re.match(BARE, found["at"]):
        return None
    return name_place(found["at"]), found["module"], found["caller"] is not None


def name_place(at: str) -> str | None:
    """Return what a probe at such a place tells, `kfd_ioctl+0x4/0x570`; None for an address."""
    function, _, offset = at.partition("/")[0].partition("+0x")
    if re.fullmatch("0x[0-9a-f]+", at):
        return None
    return hv.name_site(function, int(offset, 16) if re.fullmatch("[0-9a-f]+", offset) else 0)
