"""The node of what is exported: rows of a dataset of many nodes have it, those of a capture do not."""

from __future__ import annotations

import polars as pl

# PID_MAX_LIMIT of Linux: no process or thread has this number, or a larger one.
_FREE_PIDS = 1 << 22


def add_node(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows with the column `node`, which is null where they are of no dataset."""
    return rows if "node" in rows.collect_schema() else rows.with_columns(node=pl.lit(None, pl.String))


def name_on_node(name: str, node: str | None) -> str:
    """Return a name with its node behind it.

    >>> name_on_node("gemm 100", "node3"), name_on_node("gemm 100", None)
    ('gemm 100 (node3)', 'gemm 100')
    """
    return name if node is None else f"{name} ({node})"


def separate_pids(processes: pl.DataFrame) -> dict[int, int | None]:
    """Return the number that stands for each process where all nodes share one space of pids.

    It is the pid, but where an earlier node has a process with this pid, too: then it is a number that no process has.

    Args:
        processes: rows of `processes` with `node`.
    """
    pids = processes.select("process", "node", pid=pl.coalesce("pid", "log_pid"))
    owner: dict[int, str | None] = {}
    given: dict[tuple[int, str | None], int] = {}
    numbers: dict[int, int | None] = {}
    for process, node, pid in pids.iter_rows():
        if pid is None or owner.setdefault(pid, node) == node:
            numbers[process] = pid
        else:
            numbers[process] = given.setdefault((pid, node), _FREE_PIDS + len(given))
    return numbers
