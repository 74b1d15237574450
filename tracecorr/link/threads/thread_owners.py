"""Whose each life of a thread is: what events tell, and the capture itself noted, goes before the kernel's tables.

The kernel keeps one process and one name for each number of a thread: those of the last thread that had it when the
table was read, which may be an older or a later one than that of the records. The surest comes first:

1. a program that it executed: it is then the first thread of its own process;
2. the flags of the call that made it, records that hold their process (those of perf), what the capture read in /proc,
   and a robust list that it registered after `clone3` (the C library does that for threads; children execute first);
3. where a fork tells who made it: the process of the table, if it is its own or its parent's;
4. the process of the table, where no event speaks of the number.

What contradicts itself is of no known process. Of names the last that an event shows comes first, then what the capture
read in /proc, the table that names the right process, the name at its birth, and tables that nothing supports; of those
that differ the one that is read last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tracecorr.link.threads.told_lives import Life, Lives, begin_of, read_lives

OWNER_COLUMNS = ("file", "offset", "stamp_ns", "end_stamp_ns", "tid", "pid", "comm", "name", "result", "clock")
# What the kernel prints where its table has no name.
NO_NAME = "<...>"
# The kernel's PID_MAX_LIMIT: perf gives threads that are ending another number.
_MOST_PID = 1 << 22
_OWNERS = {
    "tid": pl.UInt64, "life": pl.Int64, "from_ns": pl.Int64, "pid": pl.UInt32, "comm": pl.String,
    "is_changed": pl.Boolean,
}  # fmt: skip
_GROUP = ["tid", "pid", "comm", "is_exact"]


@dataclass(frozen=True)
class _Table:
    """Hold process and name of the records of a life, as a table has them, or (`is_exact`) each record itself."""

    pid: int | None
    comm: str | None
    is_exact: bool
    lives: Sequence[Life]


def find_owners(
    trace: pl.DataFrame, args: pl.DataFrame, noted: pl.DataFrame | None = None, exact: Collection[int] = ()
) -> pl.DataFrame:
    """Return the lives of the threads of a trace that have records.

    Args:
        trace: part events of the trace (`OWNER_COLUMNS`).
        args: part args of the trace.
        noted: what a capture read in /proc: pid, tid, comm, seen_ns (CLOCK_MONOTONIC).
        exact: files whose records hold their process themselves.

    Returns: tid, life (0, 1, ...), from_ns, pid (null = unknown), comm, and whether its records have another pid.
    """
    clocks = trace["clock"].unique().cast(pl.String).to_list()
    if len(clocks) != 1:
        return pl.DataFrame(schema=_OWNERS)  # stamps of two clocks have no order
    lives = read_lives(trace, args)
    tables = _read_tables(trace, exact, lives)
    if noted is not None:
        _take_noted(lives, noted, is_timed=clocks[0] == "mono")
    owners = _decide_all(lives, tables)
    rows = [
        (tid, life, begin_of(one) if life else -(1 << 62), *_describe(one, owners, tables[one]))
        for tid, several in lives.of_tid.items()
        for life, one in enumerate(one for one in several if one in tables)
    ]
    return pl.DataFrame(rows, schema=_OWNERS, orient="row").sort("tid", "life")


def set_owners(rows: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """Return part events with the process of each record of a trace where it is another than the record's `pid`."""
    wrong = owners.filter("is_changed")["tid"].unique()
    if wrong.is_empty():
        return rows
    is_wrong = (pl.col("source") == "ftrace") & pl.col("tid").is_in(wrong.implode())
    mine = rows.select("source", "tid", "stamp_ns").with_row_index("_row").filter(is_wrong)
    mine = mine.with_columns(pl.col("stamp_ns").fill_null(1 << 62)).sort("stamp_ns")
    told = owners.select("tid", "from_ns", "is_changed", owner="pid").sort("from_ns")
    found = mine.join_asof(told, left_on="stamp_ns", right_on="from_ns", by="tid", check_sortedness=False)
    found = found.select("_row", "owner", "is_changed")
    joined = rows.with_row_index("_row").join(found, on="_row", how="left", maintain_order="left")
    owned = joined.with_columns(pid=pl.when("is_changed").then("owner").otherwise("pid"))
    return owned.drop("_row", "owner", "is_changed")


def list_births(owners: pl.DataFrame) -> pl.DataFrame:
    """Return where a number begins to name another thread: tid, stamp_ns, life (1, 2, ...)."""
    later = owners.filter(pl.col("life") > 0)
    return later.select(pl.col("tid").cast(pl.Int64), "life", stamp_ns="from_ns")


def _read_tables(trace: pl.DataFrame, exact: Collection[int], lives: Lives) -> dict[Life, list[_Table]]:
    """Return the lives that have records, and what these, or tables, say of them."""
    own = pl.col("file").is_in(list(exact))
    # The idle threads of all CPUs have the number 0.
    groups = trace.filter(pl.col("tid") > 0).group_by("tid", "pid", "comm", is_exact=own, maintain_order=True)
    spans = groups.agg(first=pl.col("stamp_ns").min(), last=pl.col("stamp_ns").max())
    found: dict[Life, list[_Table]] = {}
    for tid, pid, comm, is_exact, first, last in spans.select(*_GROUP, "first", "last").iter_rows():
        lives.last(tid)
        before = begin_of(lives.of_tid[tid][0])
        if first is not None and first < before:
            lives.of_tid[tid].insert(0, Life(tid))
        spanned = _between(lives.of_tid[tid], first, last)
        table = _Table(pid, None if comm == NO_NAME else comm, is_exact, spanned)
        for life in spanned:
            found.setdefault(life, []).append(table)
            if is_exact and pid and pid <= _MOST_PID and not life.ran_program:
                life.told.add(pid)
    return found


def _between(lives: list[Life], first: int | None, last: int | None) -> list[Life]:
    """Return the lives of a number in a span of time."""
    ends = [*(begin_of(life) for life in lives[1:]), 1 << 62]
    if first is None or last is None:
        return lives[-1:]
    return [life for life, end in zip(lives, ends, strict=True) if begin_of(life) <= last and first < end]


def _take_noted(lives: Lives, noted: pl.DataFrame, *, is_timed: bool) -> None:
    for pid, tid, comm, seen_ns in noted.select("pid", "tid", "comm", "seen_ns").iter_rows():
        life = lives.at(tid, seen_ns if is_timed else None)
        if life is not None:
            life.told |= set() if life.ran_program else {pid}
            life.noted_as = comm or life.noted_as


def _decide_all(lives: Lives, tables: dict[Life, list[_Table]]) -> dict[Life, int | None]:
    """Return the process of each life."""
    owners: dict[Life, int | None] = {}
    every = list(lives.each)
    for life in every:
        owners[life] = _decide(life, owners, tables.get(life, []))
    # A table that names a later thread shows nothing about the one before it.
    for life in every:
        others = {owners[other] for other in lives.of_tid[life.tid] if other is not life}
        if life.parent is None and not life.told and owners[life] in others - {life.tid}:
            owners[life] = None
    for life in every:
        if life.parent is not None:
            owners[life] = _decide(life, owners, _select_own(life, tables.get(life, []), owners))
    return owners


def _select_own(life: Life, tables: list[_Table], owners: Mapping[Life, int | None]) -> list[_Table]:
    """Return the tables without those that are of a later thread: they hold one for each number, when they are read."""

    def is_later(table: _Table) -> bool:
        behind = table.lives[table.lives.index(life) + 1 :]
        return not table.is_exact and any(owners[one] == table.pid for one in behind)

    return [table for table in tables if table.pid is None or not is_later(table)]


def _decide(life: Life, owners: dict[Life, int | None], tables: list[_Table]) -> int | None:
    parent = owners.get(life.parent) if life.parent is not None else None
    saved = {table.pid for table in tables if table.pid is not None and not table.is_exact}
    possible = {life.tid} | ({parent} if parent is not None else set())
    told = set(life.told)
    if life.ran_program:
        return life.tid
    if life.is_thread is False:
        told.add(life.tid)
    elif life.is_thread or (life.by_clone3 and life.has_list):
        possible.discard(life.tid)
        told |= {parent} if parent is not None else set()
    told |= life.hints & possible if life.parent is not None else set()
    if told:
        return told.pop() if len(told) == 1 else None
    if life.parent is not None:
        # Of a parent that no table names any other process may be.
        saved = {pid for pid in saved if pid in possible or (parent is None and pid != life.tid)}
    return saved.pop() if len(saved) == 1 else None


def _describe(
    life: Life, owners: Mapping[Life, int | None], tables: list[_Table]
) -> tuple[int | None, str | None, bool]:
    """Return process and name of a life, and whether its records name another process, as far as that is known."""
    owner = owners[life]
    saved = [table for table in _select_own(life, tables, owners) if not table.is_exact]
    fitting = [table.comm for table in saved if table.comm and owner is not None and table.pid == owner]
    others = [table.comm for table in (*(t for t in tables if t.is_exact), *saved) if table.comm]
    names = (life.named, life.noted_as, *fitting[-1:], life.born_as, *others[-1:])
    pids = {table.pid for table in tables}
    is_told = bool(life.told) or life.parent is not None or owner is not None or len(pids) == 1
    # A thread may have no name, and then none of those that it had before.
    return owner, next((name for name in names if name is not None), None) or None, is_told and pids != {owner}
