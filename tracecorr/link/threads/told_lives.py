"""What the events of a trace say about each life of a thread: its start, its process, its name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

# Records of a CPU whose clock is behind may seem older than their thread; no number is given out again so soon.
_SLACK_NS = 5_000_000
# CLONE_THREAD (sched.h of the kernel).
_THREAD = 0x10000
_FORK, _NEW, _EXEC, _EXIT = "sched_process_fork", "task_newtask", "sched_process_exec", "sched_process_exit"
_SWITCH, _RENAME = "sched_switch", "task_rename"
_CLONES = ("clone", "clone3", "fork", "vfork")
_READ = (_FORK, _NEW, _EXEC, _EXIT, _RENAME, *_CLONES, "set_robust_list", "getpid")
_NUMBERS = ("child_pid", "clone_flags", "pid")
_TEXTS = ("child_comm", "filename", "comm", "newcomm", "prev_comm", "body")
# TASK_COMM_LEN of the kernel, without the end.
_COMM_LENGTH = 15


@dataclass(eq=False)
class Life:
    """Hold what is known of one thread while it has its number.

    Args:
        tid: its number.
        from_ns: when it was made; None = it was there before the trace tells of its number.
        parent: what made it.
        is_thread: whether it is one more thread of its parent's process; None = not told.
        told: the processes that it is said to be of.
        hints: processes that it belongs to, if they are possible.
        named: its name, as the last event that shows it tells.
        born_as: its name when it was made, its parent's.
        noted_as: its name, as the capture itself read it.
    """

    tid: int
    from_ns: int | None = None
    parent: Life | None = None
    is_thread: bool | None = None
    told: set[int] = field(default_factory=set)
    hints: set[int] = field(default_factory=set)
    named: str | None = None
    born_as: str | None = None
    noted_as: str | None = None
    ended_ns: int | None = None
    ran_program: bool = False
    by_clone3: bool = False
    has_list: bool = False


class Lives:
    """Follow the numbers of threads through the events of a trace, in the order of time."""

    def __init__(self) -> None:
        self.of_tid: dict[int, list[Life]] = {}
        self._calls: dict[int, Mapping[str, Any]] = {}

    @property
    def each(self) -> Iterator[Life]:
        """Yield all lives: what was there before comes first, then each after what made it."""
        every = [life for lives in self.of_tid.values() for life in lives]
        yield from sorted(every, key=lambda life: -1 if life.from_ns is None else life.from_ns)

    def last(self, tid: int) -> Life:
        """Return the life that a number has by now."""
        return self.of_tid.setdefault(tid, [Life(tid)])[-1]

    def at(self, tid: int, stamp: int | None) -> Life | None:
        """Return the life that a number had at a time; None if that is not known."""
        lives = self.of_tid.setdefault(tid, [Life(tid)])
        if stamp is None:
            return lives[0] if len(lives) == 1 else None
        place = bisect_right(lives, stamp, key=begin_of) - 1
        return lives[place] if place >= 0 else None

    def take(self, row: Mapping[str, Any]) -> None:
        """Learn from one record; they come in the order of time."""
        name, tid = row["name"], row["tid"]
        if name in _CLONES:
            if row["result"] != "0":
                self._calls[tid] = row
        elif name in (_FORK, _NEW):
            self._take_birth(row)
        elif name == _EXEC:
            self._take_exec(self.last(tid), row["filename"])
        elif name == "set_robust_list":
            life = self.last(tid)
            life.has_list |= not life.ran_program
        elif name == "getpid":
            self.last(tid).hints.update(_numbers(row["result"]))
        elif name == _RENAME:
            # A thread may name another one, and kernels 6.14 to 7.0 do not tell which.
            if row["pid"] is not None:
                self._take_name(self.last(int(row["pid"])), row)
        else:
            self._take_name(self.last(tid), row)

    def _take_birth(self, row: Mapping[str, Any]) -> None:
        child = row["child_pid"] if row["name"] == _FORK else row["pid"]
        if child is None:
            return
        parent, stamp = self.last(row["tid"]), row["stamp_ns"]
        parent.named = row["comm"] or parent.named
        life = self._begin(int(child), parent, stamp)
        life.born_as = row["child_comm"] or row["comm"] or life.born_as
        call = self._calls.get(row["tid"])
        inside = call is not None and (call["end_stamp_ns"] or stamp) >= stamp
        kind, by_clone3 = _kind_of(row if row["name"] == _NEW else call if inside else None)
        life.is_thread = life.is_thread if kind is None else kind
        life.by_clone3 |= by_clone3

    def _begin(self, tid: int, parent: Life, stamp: int) -> Life:
        lives = self.of_tid.setdefault(tid, [])
        before = lives[-1] if lives else None
        # Two events tell of one birth.
        if (
            before
            and before.parent is parent
            and before.ended_ns is None
            and stamp <= (before.from_ns or 0) + _SLACK_NS
        ):
            return before
        ended_ns = before.ended_ns if before is not None else None
        # What comes before the end of the thread that had the number is that one's.
        lives.append(Life(tid, stamp if ended_ns is None else max(stamp, ended_ns + 1 + _SLACK_NS), parent))
        return lives[-1]

    def _take_exec(self, life: Life, path: str | None) -> None:
        # Whoever executes a program is, or becomes, the first thread of its process.
        life.ran_program, life.told = True, {life.tid}
        if path:
            life.named = path.rpartition("/")[2].encode()[:_COMM_LENGTH].decode(errors="ignore") or life.named

    def _take_name(self, life: Life, row: Mapping[str, Any]) -> None:
        told = (row["newcomm"], row["prev_comm"], row["comm"], life.named)
        life.named = next((name for name in told if name is not None), None)
        if row["name"] == _EXIT:
            life.ended_ns = row["stamp_ns"]


def begin_of(life: Life) -> int:
    """Return from when on records with the number of a life are its own."""
    return -(1 << 62) if life.from_ns is None else life.from_ns - _SLACK_NS


def read_lives(trace: pl.DataFrame, args: pl.DataFrame) -> Lives:
    """Return the lives that the events of a trace tell.

    Args:
        trace: part events: file, offset, stamp_ns, end_stamp_ns, tid, name, result.
        args: part args of the trace.
    """
    rows = trace.filter(pl.col("name").is_in([*_READ, _SWITCH]) & pl.col("stamp_ns").is_not_null())
    # What a record tells itself is in its fields; `pid` and `comm` beside them are those of a table.
    rows = (
        rows.select("file", "offset", "stamp_ns", "end_stamp_ns", "tid", "name", "result")
        .with_columns(pl.col("name", "result").cast(pl.String))
        .drop_nulls("tid")
    )
    is_switch = pl.col("name") == _SWITCH
    # Of millions of them the last one of each thread tells its name.
    last = rows.filter(is_switch).sort("stamp_ns", maintain_order=True).unique("tid", keep="last", maintain_order=True)
    rows = pl.concat([rows.filter(~is_switch), last]).sort("stamp_ns", "file", "offset")
    lives = Lives()
    for row in _with_fields(rows, args).iter_rows(named=True):
        lives.take(row)
    return lives


def _with_fields(rows: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    wanted = args.filter(pl.col("key").is_in([*_NUMBERS, *_TEXTS]))
    wanted = wanted.join(rows.select("file", "offset"), on=["file", "offset"], how="semi")
    # Kernel 6.1 prints hexadecimal numbers without `0x`.
    flags = pl.col("text").str.strip_prefix("0x").str.to_integer(base=16, strict=False, dtype=pl.UInt64)
    number = pl.when(pl.col("key") == "clone_flags").then(pl.coalesce("u64", flags)).otherwise("u64")
    told = rows
    for keys, value in ((_NUMBERS, number), (_TEXTS, pl.col("text"))):
        for key in keys:
            column = wanted.filter(pl.col("key") == key).select("file", "offset", value.alias(key))
            told = told.join(column, on=["file", "offset"], how="left", maintain_order="left")
    # Of a text a switch has its fields in one piece.
    return told.with_columns(
        prev_comm=pl.coalesce("prev_comm", pl.col("body").str.extract("^prev_comm=(.*) prev_pid="))
    )


def _kind_of(call: Mapping[str, Any] | None) -> tuple[bool | None, bool]:
    """Return whether a call makes a thread, not a process (None = not told), and whether it is `clone3`."""
    if call is None or call["name"] == "clone3":
        return None, call is not None
    if call["name"] in ("fork", "vfork"):
        return False, False
    flags = call["clone_flags"]
    return (None if flags is None else bool(flags & _THREAD)), False


def _numbers(text: str | None) -> list[int]:
    return [int(text)] if text and text.isdecimal() else []
