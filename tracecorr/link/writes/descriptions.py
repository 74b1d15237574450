"""What the writes of a trace went to: one open file description after the other, in runs without a hole.

Processes share a description that was open when one was forked from the other, and descriptors that were duplicated. A
description that was open before the trace began, or that came through a socket, is known by its number alone. If a
trace does not tell that a number was given to another file, two files are taken for one: the content of the log, which
is compared with what is found here, shows that.

A run ends where its next position is not known: records of the trace were lost, a write shows no result, the position
was moved, or the file was cut (`AMD_LOG_LEVEL_SIZE`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracecorr.clock.hull import Ints
from tracecorr.model.kinds import Flag

WRITES = ("write", "writev", "pwrite64")
_OPENS, _DUPS, _FORK = ("open", "openat", "openat2", "creat"), ("dup", "dup2", "dup3"), "sched_process_fork"
_MOVES = ("lseek", "ftruncate")
_CALLS = (*_OPENS, *_DUPS, "fcntl", "close", _FORK, *_MOVES)
# A flag of open and the commands of fcntl that duplicate (fcntl.h of x86-64).
_O_APPEND, _F_DUPFD, _F_DUPFD_CLOEXEC = 0x400, 0, 1030
_KEYS = ("child_pid", "flags", "cmd")
_ENTER = int(Flag.ENTER_ONLY)


@dataclass
class _Description:
    """Hold an open file description.

    Args:
        fd: the number by which it was known first.
        start: its first position; None = not known.
        since_ns: when it was opened; None = before the trace began, or unseen.
        moves: when its position was moved or its file was cut, and where to (None = not known).
    """

    fd: int
    start: int | None = None
    since_ns: int | None = None
    moves: list[tuple[int, int | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Written:
    """Hold the writes of a trace that put bytes into files, in the order of time.

    Args:
        calls: trace_file, trace_offset, tid, pid, owner, stamp_ns, end_ns, length, description, run.
        starts: the first position of each run; None = not known.
        descriptions: the descriptions, by their number.
    """

    calls: pl.DataFrame
    starts: list[int | None]
    descriptions: list[_Description]


def follow_writes(trace: pl.DataFrame, args: pl.DataFrame, losses: pl.DataFrame) -> Written:
    """Return the writes of a trace by the description that they went to.

    Args:
        trace: part events of the trace: file, offset, stamp_ns, end_stamp_ns, pid, tid, layer, name, result, fd, arg,
            size_bytes, flags.
        args: part args of the trace.
        losses: rows of `losses` of the trace, on its own clock.
    """
    calls = _list_writes(trace)
    owners = trace.select(_owner()).to_series().drop_nulls().unique()
    table = _Descriptors(set(owners.to_list()))
    for row in _list_changes(trace, args):
        table.take(*row)
    calls = _attach(calls, table)
    return Written(*_cut(calls, args, losses, table.descriptions), table.descriptions)


def _owner() -> pl.Expr:
    # Threads of a process share its descriptors.
    return pl.coalesce(pl.col("pid").cast(pl.Int64), pl.col("tid").cast(pl.Int64)).alias("owner")


def _list_writes(trace: pl.DataFrame) -> pl.DataFrame:
    rows = trace.filter((pl.col("layer") == "syscall") & pl.col("name").is_in(WRITES))
    rows = rows.drop_nulls(["fd", "stamp_ns"])
    ended = (pl.col("flags").fill_null(0) & _ENTER) == 0
    # If no exit was traced, what a write was given stands for what it wrote.
    told = bool(rows.select(ended.any()).item())
    done = pl.col("result").cast(pl.String).str.to_integer(strict=False)
    return rows.select(
        "tid", "pid", _owner(), "stamp_ns", "fd",
        name=pl.col("name").cast(pl.String),
        trace_file="file", trace_offset="offset",
        end_ns=pl.coalesce("end_stamp_ns", "stamp_ns"),
        length=done if told else pl.col("size_bytes"),
        is_open=~ended if told else pl.lit(value=False),
    ).filter((pl.col("length") > 0) | pl.col("is_open")).sort("stamp_ns", "trace_file", "trace_offset")  # fmt: skip


def _list_changes(trace: pl.DataFrame, args: pl.DataFrame) -> Iterator[tuple[int, int, str, int | None, int, int, int]]:
    """Yield what changes descriptors, in the order of time: at, owner, name, fd, number, value, child."""
    rows = trace.filter(pl.col("name").is_in(_CALLS) & pl.col("stamp_ns").is_not_null())
    number = pl.col("result").cast(pl.String).str.to_integer(strict=False)
    rows = rows.select("file", "offset", "fd", _owner(), "stamp_ns", "end_stamp_ns", "size_bytes",
                       name=pl.col("name").cast(pl.String), number=number)  # fmt: skip
    wanted = args.filter(pl.col("key").cast(pl.String).is_in(_KEYS))
    for key in _KEYS:
        value = pl.col("u64").reinterpret(signed=True).alias(key)
        column = wanted.filter(pl.col("key").cast(pl.String) == key).select("file", "offset", value)
        rows = rows.join(column.unique(["file", "offset"]), on=["file", "offset"], how="left", maintain_order="left")
    # What a call returns is there once it returned; a number is free from when its close began.
    early = pl.col("name").is_in(["close", _FORK])
    at = pl.when(early).then("stamp_ns").otherwise(pl.coalesce("end_stamp_ns", "stamp_ns"))
    value = pl.when(pl.col("name") == "fcntl").then("cmd").when(pl.col("name") == "ftruncate").then("size_bytes")
    ordered = rows.select(
        "owner", "name", "fd", at=at, number=pl.col("number").fill_null(-1),
        value=value.otherwise(pl.col("flags")).fill_null(0), child=pl.col("child_pid").fill_null(-1),
    )  # fmt: skip
    yield from (
        ordered.sort("at", maintain_order=True)
        .select("at", "owner", "name", "fd", "number", "value", "child")
        .iter_rows()
    )


class _Descriptors:
    """Follow the numbers of descriptors of all processes; closed ones have no description (-1).

    Args:
        owners: the processes that write, call or fork.
    """

    def __init__(self, owners: Container[int]) -> None:
        self.descriptions: list[_Description] = []
        self.defined: list[tuple[int, int, int, int]] = []  # owner, fd, at, description
        self._owners = owners
        self._of: dict[int, dict[int, int]] = {}
        self._roots: dict[tuple[int, int], int] = {}
        self._parents: dict[int, int] = {}

    def take(self, at: int, owner: int, name: str, fd: int | None, number: int, value: int, child: int) -> None:
        """Learn from one call or fork."""
        if name == _FORK:
            self._fork(at, owner, child)
        elif name in _OPENS and number >= 0:
            start = None if value & _O_APPEND else 0
            self._set(at, owner, number, self._add(_Description(number, start, since_ns=at)))
        elif fd is None:
            return
        elif name == "close":
            self._set(at, owner, fd, -1)
        elif name in _DUPS or (name == "fcntl" and value in (_F_DUPFD, _F_DUPFD_CLOEXEC)):
            if number >= 0:
                self._set(at, owner, number, self._find(owner, fd))
        elif name in _MOVES and number >= 0 and (found := self._find(owner, fd)) >= 0:
            self.descriptions[found].moves.append((at, number if name == "lseek" else None))

    def find_first(self, owner: int, fd: int) -> int:
        """Return the description that a number had before the trace named it: that of the parent process."""
        while owner in self._parents:
            owner = self._parents[owner]
        if (owner, fd) not in self._roots:
            self._roots[owner, fd] = self._add(_Description(fd))
        return self._roots[owner, fd]

    def _find(self, owner: int, fd: int) -> int:
        known = self._of.get(owner, {})
        return known[fd] if fd in known else self.find_first(owner, fd)

    def _add(self, description: _Description) -> int:
        self.descriptions.append(description)
        return len(self.descriptions) - 1

    def _set(self, at: int, owner: int, fd: int, description: int) -> None:
        self._of.setdefault(owner, {})[fd] = description
        self.defined.append((owner, fd, at, description))

    def _fork(self, at: int, owner: int, child: int) -> None:
        # A thread shares the table of its process; the number of another process was given out again.
        if child == owner or child not in self._owners or child in self._of or child in self._parents:
            return
        self._parents[child] = owner
        for fd, description in self._of.get(owner, {}).items():
            self._set(at, child, fd, description)


def _attach(calls: pl.DataFrame, table: _Descriptors) -> pl.DataFrame:
    """Return the writes with the description that each went to; those to a closed number are left out."""
    shape = {"owner": pl.Int64, "fd": pl.Int32, "at": pl.Int64, "description": pl.Int64}
    defined = pl.DataFrame(table.defined, schema=shape, orient="row").sort("at", maintain_order=True)
    found = calls.join_asof(
        defined, left_on="stamp_ns", right_on="at", by=["owner", "fd"], check_sortedness=False, coalesce=False
    ).drop("at")
    unknown = found.filter(pl.col("description").is_null()).select("owner", "fd").unique(maintain_order=True)
    first = [table.find_first(owner, fd) for owner, fd in unknown.iter_rows()]
    roots = unknown.with_columns(pl.Series("root", first, dtype=pl.Int64))
    found = found.join(roots, on=["owner", "fd"], how="left", maintain_order="left")
    return found.with_columns(description=pl.coalesce("description", "root")).drop("root").filter(
        pl.col("description") >= 0
    )  # fmt: skip


def _cut(
    calls: pl.DataFrame, args: pl.DataFrame, losses: pl.DataFrame, descriptions: Sequence[_Description]
) -> tuple[pl.DataFrame, list[int | None]]:
    """Return the writes, by description and time, with their run, and where each run starts."""
    calls = calls.sort("description", maintain_order=True)
    stamp, description = calls["stamp_ns"].to_numpy(), calls["description"].to_numpy()
    begins, ends = (np.sort(side) for side in _list_holes(losses))
    # How many holes and moves lie before a write, and whether it lies in a hole.
    begun, ended = (np.searchsorted(side, stamp, side="right") for side in (begins, ends))
    moved = np.zeros(len(stamp), dtype=np.int64)
    for number in np.unique(description).tolist():
        moves = np.array([when for when, _ in descriptions[number].moves], dtype=np.int64)
        mine = slice(*np.searchsorted(description, [number, number + 1]).tolist())
        moved[mine] = np.searchsorted(moves, stamp[mine], side="right")
    is_open, apart = calls["is_open"].to_numpy(), (calls["name"] == "pwrite64").to_numpy()
    cut_off = np.cumsum(is_open | apart | np.append(False, apart)[:-1])
    keys = np.stack([description, begun + ended, moved, cut_off])
    new = (np.diff(keys, prepend=-1, axis=1) != 0).any(axis=0)
    places = _list_places(calls.select("trace_file", "trace_offset")[np.flatnonzero(new)], args)
    starts: list[int | None] = []
    for at, place in zip(np.flatnonzero(new).tolist(), places, strict=True):
        of, is_first = descriptions[int(description[at])], not at or description[at - 1] != description[at]
        if apart[at]:
            starts.append(place)
        elif moved[at] and (is_first or moved[at] != moved[at - 1]):
            starts.append(of.moves[int(moved[at]) - 1][1])
        elif is_first and of.since_ns is not None and not is_open[at]:
            # Nothing may be missing between the open and the first write.
            whole = np.searchsorted(begins, of.since_ns, side="right") == begun[at]
            starts.append(of.start if whole else None)
        else:
            starts.append(None)
    calls = calls.with_columns(run=pl.Series(np.cumsum(new) - 1))
    return calls.filter(pl.Series((begun == ended) & ~is_open)).drop("is_open", "name"), starts


def _list_holes(losses: pl.DataFrame) -> tuple[Ints, Ints]:
    """Return from when to when records of the trace are missing; those that nothing places the content must show."""
    spans = losses.filter(pl.col("from_ns").is_not_null() | pl.col("to_ns").is_not_null())
    begin, end = pl.col("from_ns").fill_null(-(1 << 62)), pl.col("to_ns").fill_null(1 << 62)
    return spans.select(begin).to_series().to_numpy(), spans.select(end).to_series().to_numpy()


def _list_places(calls: pl.DataFrame, args: pl.DataFrame) -> list[int | None]:
    """Return the position that each call names (`pwrite64`); None for other calls."""
    named = args.filter(pl.col("key").cast(pl.String) == "pos").select(
        trace_file="file", trace_offset="offset", place=pl.col("u64").cast(pl.Int64, strict=False)
    )
    return calls.join(named, on=["trace_file", "trace_offset"], how="left", maintain_order="left")["place"].to_list()
