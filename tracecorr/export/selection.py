"""Which rows are exported: a span of time, some layers, some processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import polars as pl

from tracecorr.analyze.values import Tables, collect
from tracecorr.model.errors import InputError
from tracecorr.model.kinds import LAYERS

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "": 1_000_000_000}
_MOST_NAMED = 20
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|)")


@dataclass(frozen=True)
class Selection:
    """Say what to export; times are ns after the first event of the capture.

    Args:
        start_ns, end_ns: events that begin in [start, end); None = open.
        layers: layers wanted; all when empty.
        processes: keys of `processes`; all when empty.
    """

    start_ns: int | None = None
    end_ns: int | None = None
    layers: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        wrong = [layer for layer in self.layers if layer not in LAYERS]
        if wrong:
            raise InputError(f"there is no layer {wrong[0]!r}", f"layers are: {', '.join(LAYERS)}")
        for time in (self.start_ns, self.end_ns):
            if time is not None and not (isinstance(time, Real) and time % 1 == 0):
                raise InputError(
                    f"{time!r} is not a time in ns", "give whole ns after the first event: 1 ms is 1_000_000"
                )
        if self.start_ns is not None and self.end_ns is not None and self.end_ns <= self.start_ns:
            raise InputError("the end is before the start", "give times after the first event, such as 1.5s or 20ms")

    def filter_events(self, tables: Tables) -> pl.LazyFrame:
        """Return the selected rows of `events`, in time order."""
        rows = tables("events")
        if self.start_ns is not None or self.end_ns is not None:
            first = first_ns(tables)
            if self.start_ns is not None:
                rows = rows.filter(pl.col("ts_ns") >= first + self.start_ns)
            if self.end_ns is not None:
                rows = rows.filter(pl.col("ts_ns") < first + self.end_ns)
        if self.layers:
            rows = rows.filter(pl.col("layer").is_in(list(self.layers)))
        if self.processes:
            _check_processes(tables, self.processes)
            rows = rows.filter(pl.col("process").is_in(list(self.processes)))
        return rows

    @property
    def everything(self) -> bool:
        """Tell whether nothing is left out."""
        return self == Selection()


def _check_processes(tables: Tables, wanted: Sequence[int]) -> None:
    rows = collect(tables("processes").select("process", "pid", "log_pid", "comm"))
    missing = next((p for p in wanted if p not in rows["process"]), None)
    if missing is None:
        return
    meant = rows.filter(pl.any_horizontal(pl.col("pid", "log_pid") == missing))
    hint = "that pid is of" if meant.height else "processes are"
    raise InputError(
        f"there is no process {missing} in the capture: give the row of the table `processes`, not a pid",
        f"{hint}: {_list(meant if meant.height else rows)}",
    )


def _list(processes: pl.DataFrame) -> str:
    """Return the numbers of processes, each with its name and pid where they are known."""
    told = [
        f"{row['process']} ({' '.join(str(t) for t in (row['comm'], pid) if t is not None) or 'unknown'})"
        for row in processes.head(_MOST_NAMED).iter_rows(named=True)
        for pid in (row["pid"] if row["pid"] is not None else row["log_pid"],)
    ]
    return ", ".join(told) + (", ..." if processes.height > _MOST_NAMED else "") if told else "none"


def first_ns(tables: Tables) -> int:
    """Return the time of the first event, 0 in an empty capture."""
    return int(collect(tables("events").select(pl.col("ts_ns").min())).item() or 0)


def parse_time(text: str) -> int:
    """Return a time in ns: a number with `s`, `ms`, `us` or `ns`, seconds without.

    >>> parse_time("1.5s"), parse_time("20ms"), parse_time("3")
    (1500000000, 20000000, 3000000000)

    Raises:
        InputError: the text is no time.
    """
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise InputError(f"{text!r} is not a time", "write a number with a unit, such as 1.5s, 20ms or 300us")
    whole, _, fraction = found[1].partition(".")
    unit = _UNITS[found[2]]
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def split_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of options that take lists: `hip,aql` and repeated ones.

    >>> split_words(["hip,aql", "doorbell"])
    ('hip', 'aql', 'doorbell')
    """
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())
