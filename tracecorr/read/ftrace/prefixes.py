"""The forms of the prefix of a record: the usual one, and those of the options latency-format, raw and hex."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tracecorr.model.part_tables import LATEST_NS

# Clocks whose stamps are no nanoseconds: text prints them without a dot.
COUNTING_CLOCKS = ("counter", "uptime", "x86-tsc")
# trace-cmd report prints the nanoseconds of this one without a dot (3.1.6).
WHOLE_CLOCK = "boot"
# What trace-cmd report prints in front of the records of an instance: its name, then comm in 16 columns of which the
# first is blank.
INSTANCE = r"(?:[^\s:]+: {2,})?"
# The beginning of a line that ended early, blanks, and a name: that of the next line, which is set in 16 columns.
TWO_NAMES = r"\S {6,}\S"
# comm may hold spaces, dashes, brackets: the anchor is `-pid ... [cpu] ... stamp:`. The kernel has 15
# bytes for comm; other tools print up to 31. trace-cmd report leaves no blank before a stamp of 12 digits.
_USUAL = (
    rf"^ *{INSTANCE}(?P<comm>.{{1,32}})-(?P<tid>\d{{1,7}}) +(?:\( *(?P<pid>\d{{1,7}}|-+)\) +)?\[(?P<cpu>\d{{3,}})\]"
    r"(?: +(?:[a-zA-Z0-9.#]{4,5} +)?)?(?P<sec>\d+)(?:\.(?P<frac>\d{1,9}))?: +"
)
# `comm-pid cpu-and-flags 17104us+: `: microseconds after the first record; comm is cut to 8 characters.
_LATENCY = (
    r"^ *(?P<comm>.{1,16}?)-(?P<tid>\d{1,7})(?P<pid>-)? +(?P<cpu>\d+)[a-zA-Z0-9.#]{4,5} +"
    r"(?P<sec>\d+)(?P<frac>-)?us[^:]{0,2}: +"
)
# With the option verbose: `comm pid cpu flags preempt index [microseconds in hex] 143.010ms (+0.006ms): `.
_VERBOSE = (
    r"^ *(?P<comm>.{1,16}?) +(?P<tid>\d{1,7})(?P<pid>-)? +(?P<cpu>\d+) \d+ [0-9a-f]{8} [0-9a-f]{8} "
    r"\[(?P<sec>[0-9a-f]+)\](?P<frac>-)? +[\d.]+ms \([+-][\d.]+ms\): +"
)
# `trace-cmd report -l`: `comm-pid cpu-and-flags seconds.fraction: `, comm cut to 8 characters.
_REPORT = (
    r"^ *(?:[^\s:]+: +)?(?P<comm>.{1,16}?)-(?P<tid>\d{1,7})(?P<pid>-)? +(?P<cpu>\d+)[a-zA-Z0-9.#]{5} +"
    r"(?P<sec>\d+)\.(?P<frac>\d{6,9}): +"
)
_RAW = r"^(?P<comm>-)?(?P<tid>\d{1,7})(?P<pid>-)? (?P<cpu>\d+) (?P<sec>\d{3,})(?P<frac>-)? "
_HEX = r"^(?P<comm>-)?(?P<tid>[0-9a-f]{8})(?P<pid>-)? (?P<cpu>[0-9a-f]{8}) (?P<sec>[0-9a-f]{16})(?P<frac>-)? "
# Lines without a `#` looked at to tell the form of a file.
_LOOK_AT = 20


@dataclass(frozen=True)
class Prefix:
    """Describe one form.

    Args:
        pattern: finds `comm`, `tid`, `pid`, `cpu`, `sec`, `frac`; ends before the body.
        hexadecimal: groups that are hexadecimal.
        unit_ns: nanoseconds of one step of `sec` where there is no `frac`; None = the clock does not count time.
        clock: name of the clock where it is not that of the recording.
    """

    pattern: str
    hexadecimal: tuple[str, ...] = ()
    unit_ns: int | None = None
    clock: str | None = None

    def whole(self, name: str) -> pl.Expr:
        """Return the group `name` as an integer, null where it is missing or too large."""
        return pl.col(name).str.to_integer(base=16 if name in self.hexadecimal else 10, dtype=pl.UInt64, strict=False)

    def stamp_ns(self) -> pl.Expr:
        """Return the stamp: nanoseconds, or the count of a clock that does not count time."""
        return stamp_ns(self.whole("sec").cast(pl.Int64, strict=False), pl.col("frac"), self.unit_ns or 1)


USUAL = Prefix(_USUAL)
_OTHERS = (
    Prefix(_LATENCY, unit_ns=1000, clock="since_first_record"),
    Prefix(_VERBOSE, ("sec",), unit_ns=1000),
    Prefix(_REPORT),
    Prefix(_RAW, unit_ns=1),
    Prefix(_HEX, ("tid", "cpu", "sec"), unit_ns=1),
)


def stamp_ns(whole: pl.Expr, frac: pl.Expr, unit_ns: int = 1) -> pl.Expr:
    """Return nanoseconds of seconds with a fraction; without a fraction `whole` times `unit_ns`.

    It is null from `LATEST_NS` on.
    """
    part = frac.str.pad_end(9, "0").str.to_integer(strict=False)
    return pl.when(frac.is_null()).then(in_ns(whole, unit_ns)).otherwise(in_ns(whole, 1_000_000_000) + part)


def in_ns(count: pl.Expr, unit_ns: int) -> pl.Expr:
    """Return `count` steps of a clock in nanoseconds; null from `LATEST_NS` on."""
    return pl.when(count < LATEST_NS // unit_ns).then(count * unit_ns)


def find_prefix(head: bytes) -> Prefix | None:
    """Return the form of the records of a file that begins with `head`; None when no line of it is a record."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip() and line[:1] != "#"]
    for prefix in (USUAL, *_OTHERS):
        if any(re.match(prefix.pattern, line) for line in lines[:_LOOK_AT]):
            return prefix
    return None
