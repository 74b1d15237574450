"""Nesting and descriptors agree with plain simulations, whatever the threads do (synthetic events)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.link.descriptors import find_devices
from tracecorr.link.functions import nest_functions
from tracecorr.model import schema

KFD, TTY = "/dev/kfd", "/dev/tty1"
_TREES = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=12)
_EVENTS = {
    "event": pl.Int64, "ts_ns": pl.Int64, "dur_ns": pl.Int64, "offset": pl.Int64, "end_offset": pl.Int64,
    "file": pl.UInt16, "step_hi_ns": pl.Int64, "thread": pl.UInt32, "process": pl.UInt32, "layer": pl.String,
    "name": pl.String, "source": pl.String, "parent": pl.Int64, "depth": pl.UInt16, "fd": pl.Int32, "cmd": pl.UInt32,
    "arg": pl.UInt64, "result": pl.String, "flags": pl.UInt16,
}  # fmt: skip


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    blank = dict.fromkeys(_EVENTS) | {"source": "ftrace", "file": 0, "step_hi_ns": 500, "process": 0, "thread": 0}
    frame = pl.DataFrame([blank | row for row in rows], schema=_EVENTS)
    return frame.with_columns(pl.col("layer", "name", "source", "result").cast(schema.CAT))


def _walk(tree: list[Any], rows: list[dict[str, Any]], tick: list[int], above: list[int], instant: bool) -> None:
    """Add a call and its children; a leaf may be an instant. Levels and parents are those of a plain stack."""
    row: dict[str, Any] = {
        "event": len(rows), "layer": "ioctl" if not above else "kfd", "name": "f", "depth": None if not above else 9,
        "offset": tick[0], "ts_ns": tick[0], "true_parent": above[-1] if above else None, "true_depth": len(above),
    }  # fmt: skip
    rows.append(row)
    tick[0] += 1
    for child in tree:
        _walk(child, rows, tick, [*above, row["event"]], instant)
    if tree or not (instant and above):
        row |= {"end_offset": tick[0], "dur_ns": tick[0] - row["ts_ns"]}
        tick[0] += 1


@pytest.mark.parametrize("step", [0, 500])
@given(trees=st.lists(st.lists(_TREES, max_size=4), min_size=1, max_size=3), instant=st.booleans())
def test_functions_nest_like_a_stack(step: int, trees: list[list[Any]], instant: bool) -> None:
    """Stamps of a text say nothing (all equal but for the lines' order), those of pages all."""
    rows: list[dict[str, Any]] = []
    for thread, calls in enumerate(trees):
        tick = [1000 * thread]
        for call in calls:
            before = len(rows)
            _walk(call, rows, tick, [], instant)
            for row in rows[before:]:
                row |= {"thread": thread, "step_hi_ns": step}
                if step:
                    row["ts_ns"] = 7
    truth = {row["event"]: (row.pop("true_parent"), row.pop("true_depth"), row["layer"]) for row in rows}
    nested = nest_functions(_frame(rows))
    roots: dict[int, int] = {}
    for event, parent, depth, call in nested.select("event", "parent", "depth", "enclosing_call").iter_rows():
        above, level, layer = truth[event]
        roots[event] = event if above is None else roots[above]
        if layer == "kfd":
            assert (parent, depth, call) == (above, level, roots[event])
        else:
            assert (parent, call) == (None, None)


def test_a_function_whose_time_lies_behind_its_parent_has_none() -> None:
    """The exit of a call and the enter of the next one of its thread changed places in the text."""
    rows: list[dict[str, Any]] = [
        {"event": 0, "layer": "ioctl", "ts_ns": 1000, "dur_ns": 5000, "offset": 10, "end_offset": 30},
        {"event": 1, "layer": "ioctl", "ts_ns": 20_000, "dur_ns": 9000, "offset": 20, "end_offset": 50},
        {"event": 2, "layer": "kfd", "ts_ns": 22_000, "offset": 40, "depth": 9},
    ]
    assert nest_functions(_frame(rows))["parent"].to_list() == [None] * 3
    in_order = [rows[0] | {"end_offset": 20}, rows[1] | {"offset": 30}, rows[2]]
    assert nest_functions(_frame(in_order))["parent"].to_list() == [None, None, 1]


_OPERATIONS = st.one_of(
    st.tuples(st.just("open"), st.sampled_from([KFD, TTY, None]), st.integers(3, 5), st.booleans()),
    st.tuples(st.just("dup"), st.integers(3, 5), st.integers(3, 6), st.booleans()),
    st.tuples(st.just("close"), st.integers(3, 6), st.just(0), st.just(value=False)),
    st.tuples(st.just("ioctl"), st.integers(3, 6), st.just(0), st.just(value=False)),
    st.tuples(st.just("fork"), st.just(0), st.just(0), st.just(value=False)),
    st.tuples(st.just("exec"), st.just(0), st.just(0), st.just(value=False)),
)


class _Machine:
    """Simulate the descriptor tables of processes, and write the events that a trace would hold."""

    def __init__(self) -> None:
        self.tables: list[dict[int, tuple[str | None, bool]]] = [{}]
        self.rows: list[dict[str, Any]] = []
        self.args: list[tuple[int, str, int | None, str | None]] = []
        self.truth: dict[int, str | None] = {}

    def do(self, process: int, operation: tuple[Any, Any, int, bool]) -> None:
        kind, first, second, cloexec = operation
        table = self.tables[process]
        event = len(self.rows)
        flags = 0x80000 if cloexec else 0
        if kind == "open":
            table[second] = (first, cloexec)
            self._add(process, "openat", result=str(second))
            self.args.append((event, "flags", flags, None))
            if first:
                self.args.append((event, "path", None, first))
        elif kind == "dup" and first != second:
            known = first in table
            self._add(process, "dup3", fd=first, result=str(second) if known else "EBADF")
            self.args.append((event, "flags", flags, None))
            if known:
                table[second] = (table[first][0], cloexec)
        elif kind == "close":
            table.pop(first, None)
            self._add(process, "close", fd=first, result="0")
        elif kind == "ioctl":
            self.truth[event] = table[first][0] if first in table else None
            self._add(process, "ioctl", fd=first, cmd=0x80084B01, result="0")
        elif kind == "fork" and len(self.tables) < 4:
            self.tables.append(dict(table))
            self._add(process, "sched_process_fork", layer="sched")
            self.args.append((event, "child_pid", 100 + len(self.tables) - 1, None))
        elif kind == "exec":
            self.tables[process] = {fd: entry for fd, entry in table.items() if not entry[1]}
            self._add(process, "sched_process_exec", layer="sched")

    def _add(self, process: int, name: str, layer: str = "syscall", **columns: Any) -> None:
        at = 10 * len(self.rows)
        self.rows.append({
            "event": len(self.rows), "process": process, "thread": process, "layer": layer, "name": name, "ts_ns": 5,
            "offset": at, "dur_ns": 0 if layer == "syscall" else None, "end_offset": at + 5, **columns,
        })  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3), _OPERATIONS), min_size=8, max_size=30))
def test_descriptors_follow_their_tables(steps: list[tuple[int, tuple[Any, Any, int, bool]]]) -> None:
    """What is known of a path is the path of the table; all stamps are equal, so the lines' order decides."""
    machine = _Machine()
    machine.do(0, ("close", 9, 0, False))
    for process, operation in steps:
        machine.do(process % len(machine.tables), operation)
    for process in range(len(machine.tables)):
        for fd in range(3, 7):
            machine.do(process, ("ioctl", fd, 0, False))
    events = nest_functions(_frame(machine.rows))
    args = pl.DataFrame(
        machine.args, schema={"event": pl.Int64, "key": pl.String, "u64": pl.UInt64, "text": pl.String}, orient="row"
    ).with_columns(pl.col("key").cast(schema.CAT))
    tids = pl.DataFrame({"tid": [100, 101, 102, 103], "process": [0, 1, 2, 3], "thread": [0, 1, 2, 3]})
    found = find_devices(events, args, tids)
    assert dict(found.select("event", "path").iter_rows()) == machine.truth
    for device, by, path in found.select("device", "device_by", "path").iter_rows():
        assert (device, by) == {KFD: ("kfd", "path"), TTY: ("other", "path"), None: ("kfd", "number")}[path]


def test_a_pid_that_is_given_out_again_has_two_parents() -> None:
    """Both lives of pid 101 are children of different processes: each inherits from its own."""
    machine = _Machine()
    machine.do(0, ("close", 9, 0, False))
    machine.do(0, ("open", KFD, 3, False))
    machine.do(0, ("fork", 0, 0, False))
    machine.do(1, ("ioctl", 3, 0, False))
    machine.do(0, ("fork", 0, 0, False))
    machine.do(2, ("close", 3, 0, False))
    machine.do(2, ("fork", 0, 0, False))
    machine.do(3, ("ioctl", 3, 0, False))
    args = [(event, key, 101 if value == 103 else value, text) for event, key, value, text in machine.args]
    frame = pl.DataFrame(
        args, schema={"event": pl.Int64, "key": pl.String, "u64": pl.UInt64, "text": pl.String}, orient="row"
    ).with_columns(pl.col("key").cast(schema.CAT))
    tids = pl.DataFrame({"tid": [100, 101, 102, 101], "process": [0, 1, 2, 3], "thread": [0, 1, 2, 3]})
    found = find_devices(nest_functions(_frame(machine.rows)), frame, tids)
    assert found["path"].to_list() == [KFD, None]
