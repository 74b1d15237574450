"""Calls of kernel functions that two tracers recorded count once (SYNTHETIC: orders and losses that no recording has).

What real kernels record of two tracers is in test_vm_functions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.analyze.chain import list_chain
from tracecorr.analyze.ioctls import summarize_driver_events
from tracecorr.analyze.report import summarize_capture
from tracecorr.experiment.experiment_report import count_moves
from tracecorr.link.functions import nest_calls
from tracecorr.model import schema
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import Flag
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Correlator = Callable[..., Capture]
INNER = "kfd_is_locked <-kfd_open"


def _entry(name: str, fields: str = "") -> str:
    return f"{name}: ({name}+0x4/0x90 [amdgpu]) {fields}".rstrip()


def _return(name: str, result: int = 0) -> str:
    return f"{name}_ret: (caller+0x8/0x90 [amdgpu] <- {name}) ret={result}"


def _probe(name: str, *inner: str, fields: str = "") -> list[str]:
    """Return the records of a probe and its return probe, with what ran between."""
    return [_entry(name, fields), *inner, _return(name)]


def _graph(name: str, *inner: str) -> list[str]:
    """Return the lines of function_graph, with what ran between."""
    return [f"{name}() {{", *inner, f"}} /* {name} */"]


def _moment(name: str) -> str:
    """Return the record of the function tracer."""
    return f"{name} <-caller"


def _correlate_graph(folder: Path, *records: str) -> Capture:
    """Return the capture of a text of function_graph, whose other records are comments, one microsecond apart."""
    lines, opened = ["# tracer: function_graph", "#"], list[int]()
    for now, record in enumerate(records):
        is_open, is_close = record.endswith("{"), record.startswith("}")
        took = f"{now - opened.pop():.3f} us" if is_close else ""
        text = record if is_open or is_close else f"/* {record} */"
        lines.append(f"  100.{now:06d} |   0)  a-10  | {took:>11}   |  {'  ' * len(opened)}{text}")
        if is_open:
            opened.append(now)
    trace = folder / "trace.txt"
    trace.write_text("\n".join(lines) + "\n")
    import_files(folder / "x.tracecorr", [], [trace], clock="mono", force=True)
    correlate(folder / "x.tracecorr")
    return Capture.open(folder / "x.tracecorr")


@pytest.fixture
def correlate_records(correlate_trace: Callable[[str], Capture], tmp_path: Path) -> Correlator:
    """Return a function that makes a capture of records: a text of function_graph if its lines are among them."""

    def make(*records: str) -> Capture:
        if any(record.endswith("{") for record in records):
            return _correlate_graph(tmp_path, *records)
        return correlate_trace("\n".join(f"a-10 10 {record}" for record in records))

    return make


def _calls(capture: Capture, name: str) -> list[tuple[Any, ...]]:
    """Return duration in us, result and flags of the rows of a function that count."""
    rows = capture.table("events").filter((pl.col("name").cast(pl.String) == name) & is_counted()).sort("event")
    return rows.select(pl.col("dur_ns") // 1000, pl.col("result").cast(pl.String), "flags").collect().rows()


# Records of one call of kfd_open, how long it took in them (us), and its result.
_SIGHTS = {
    "probe in graph": (_graph("kfd_open", *_probe("kfd_open", INNER)), 4, "0"),
    "graph in probe": (_probe("kfd_open", *_graph("kfd_open", INNER)), 4, "0"),
    "entry in graph": (_graph("kfd_open", _entry("kfd_open", "file=1"), INNER), 3, None),
    "entry before graph": ([_entry("kfd_open", "file=1"), *_graph("kfd_open", INNER)], 2, None),
    "return in graph": (_graph("kfd_open", INNER, _return("kfd_open", -1)), 3, "EPERM"),
    "return behind graph": ([*_graph("kfd_open", INNER), _return("kfd_open", -1)], 2, "EPERM"),
    "moment before probe": ([_moment("kfd_open"), *_probe("kfd_open", INNER)], 2, "0"),
    "moment in probe": (_probe("kfd_open", _moment("kfd_open"), INNER), 3, "0"),
    "moment before entry": ([_moment("kfd_open"), _entry("kfd_open", "file=1"), INNER], None, None),
    "entry before moment": ([_entry("kfd_open", "file=1"), _moment("kfd_open"), INNER], None, None),
    "moment before return": ([_moment("kfd_open"), INNER, _return("kfd_open", -1)], None, "EPERM"),
    "moment in graph": (_graph("kfd_open", _moment("kfd_open"), INNER), 3, None),
    "three": ([_moment("kfd_open"), *_probe("kfd_open", *_graph("kfd_open", INNER))], 4, "0"),
    "three, graph outside": (_graph("kfd_open", _moment("kfd_open"), *_probe("kfd_open", INNER)), 5, "0"),
}


@pytest.mark.parametrize("sights", _SIGHTS)
def test_a_call_counts_once_whatever_saw_it(correlate_records: Correlator, sights: str) -> None:
    records, took, result = _SIGHTS[sights]
    capture = correlate_records(*records, *records)
    assert [row[:2] for row in _calls(capture, "kfd_open")] == [(took, result)] * 2
    assert len(_calls(capture, "kfd_is_locked")) == 2
    events = capture.table("events").sort("event").collect()
    assert events.height == sum(not r.startswith("}") for r in (*records, *records)) - 2 * _ends(records)
    twins = events.filter(~is_counted())
    above = events[twins["parent"]]
    assert (
        above["name"].cast(pl.String).to_list() == ["kfd_open"] * twins.height
        and above.select(is_counted()).to_series().all()
    )
    rows = summarize_driver_events(events.lazy()).select("name", "rows").rows()
    assert sorted(rows) == [("kfd_is_locked", 2), ("kfd_open", 2)]


def _ends(records: list[str]) -> int:
    """Return how many records of return probes are the end of a row that their entry began."""
    return sum(r.startswith("kfd_open_ret") for r in records) * any(r.startswith("kfd_open:") for r in records)


@pytest.mark.parametrize(
    "records",
    [
        _graph("svm_f", *_graph("svm_f")), _probe("svm_f", *_probe("svm_f")), [_moment("svm_f"), _moment("svm_f")],
        _graph("svm_f", *_probe("svm_f", *_graph("svm_f", *_probe("svm_f")))),
        [_moment("svm_f"), *_probe("svm_f", _moment("svm_f"), *_probe("svm_f"))],
        _graph("svm_f", _moment("svm_f"), *_graph("svm_f", _moment("svm_f"))),
    ],
)  # fmt: skip
def test_a_function_that_calls_itself_counts_each_time(correlate_records: Correlator, records: list[str]) -> None:
    assert len(_calls(correlate_records(*records), "svm_f")) == 2


def test_calls_of_one_tracer_count_whatever_the_trace_shows_of_them(tmp_path: Path) -> None:
    """Times are an option of function_graph: a leaf, a call with an end, and one without are three calls."""
    lines = ["  1.000 us    |  kfd_open();", "              |  kfd_open() {", "  1.000 us    |    kfd_is_locked();",
             "  2.000 us    |  }", "              |  kfd_open() {"]  # fmt: skip
    trace = tmp_path / "trace.txt"
    trace.write_text("".join(f"{line}\n" for line in ["# tracer: function_graph", "#", *(f" 0) {x}" for x in lines)]))
    import_files(tmp_path / "x.tracecorr", [], [trace])
    correlate(tmp_path / "x.tracecorr")
    assert len(_calls(Capture.open(tmp_path / "x.tracecorr"), "kfd_open")) == 3


def test_calls_that_one_of_two_tracers_missed_count(correlate_records: Correlator) -> None:
    """The nearer records are of one call: the first probe has none of the function tracer."""
    records = [_entry("kfd_open", "file=1"), *[INNER] * 9, _moment("kfd_open"), _entry("kfd_open", "file=2")]
    capture = correlate_records(*records)
    assert len(_calls(capture, "kfd_open")) == 2
    twin = capture.table("events").filter(~is_counted()).collect()
    assert twin["flags"].to_list() == [Flag.TWIN | Flag.TRACED] and twin["parent"].to_list() == [11]


def test_an_ioctl_that_only_the_driver_shows_is_one(correlate_records: Correlator) -> None:
    """No system call is traced: the outer sight of kfd_ioctl stands for it, with the request that the probe read."""
    create = _graph("kfd_ioctl_create_queue", *_probe("kfd_ioctl_create_queue", fields="ring=0x7f0000000000"))
    capture = correlate_records(*_graph("kfd_ioctl", *_probe("kfd_ioctl", *create, fields="cmd=0xc0604b02 arg=0x7ffc")))
    rows = capture.table("events").sort("event").collect()
    assert rows.select(pl.col("layer", "name").cast(pl.String), "parent").rows() == [
        ("ioctl", "AMDKFD_IOC_CREATE_QUEUE", None), ("kfd", "kfd_ioctl", 0), ("kfd", "kfd_ioctl_create_queue", 0),
        ("kfd", "kfd_ioctl_create_queue", 2),
    ]  # fmt: skip
    assert capture.table("queues").select("ring_base").collect().rows() == [(0x7F0000000000,)]
    links = capture.table("links").select("from_event", "to_event").collect()
    assert links.rows() == [(0, 2)]


def test_the_row_that_counts_has_the_arguments_and_a_chain_shows_it_alone(correlate_records: Correlator) -> None:
    opened = _graph("kfd_open", *_probe("kfd_open", INNER, fields="file=0x77"))
    capture = correlate_records("sys_openat(dfd: 4, filename: 5, flags: 2)", *opened, "sys_openat -> 0x3")
    args = capture.table("args").filter(pl.col("key").cast(pl.String) == "file").sort("event").collect()
    assert args.select("event", "u64").rows() == [(1, 0x77), (2, 0x77)]
    assert list_chain(capture.table, 1)["name"].to_list() == ["openat", "kfd_open", "kfd_is_locked"]
    assert list_chain(capture.table, 2)["name"].to_list() == ["kfd_open", "kfd_open"]


_TREES = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=9)
_ROWS = {
    "event": pl.Int64, "ts_ns": pl.Int64, "dur_ns": pl.Int64, "offset": pl.Int64, "end_offset": pl.Int64,
    "file": pl.UInt16, "step_hi_ns": pl.Int64, "thread": pl.UInt32, "cpu": pl.UInt16, "layer": pl.String,
    "name": pl.String, "source": pl.String, "parent": pl.Int64, "depth": pl.UInt16, "cmd": pl.UInt32, "arg": pl.UInt64,
    "result": pl.String, "flags": pl.UInt16, "call": pl.Int64,
}  # fmt: skip


class _Tracers:
    """Make the rows of calls that several tracers see, one record each ns."""

    def __init__(self, order: list[str], step: int) -> None:
        """`order` names who sees a call, the first of them first: `probe`, `graph` and `moment`."""
        self.order, self.step = order, step
        self.rows: list[dict[str, Any]] = []
        self.calls = self.tick = 0

    def call(self, name: str, tree: list[Any]) -> None:
        """Add a call and what it calls: every other one is of the same function."""
        number, self.calls, opened = self.calls, self.calls + 1, []
        for who in self.order:
            row = self._row(name, number, 0 if who == "probe" else int(Flag.TRACED))
            opened += [row] if who != "moment" else []
        for place, inner in enumerate(tree):
            self.call(name if place % 2 == 0 else f"{name}x", inner)
        for row in reversed(opened):
            self.tick += 1
            row |= {"dur_ns": self.tick - row["ts_ns"], "end_offset": self.tick}

    def _row(self, name: str, call: int, flags: int) -> dict[str, Any]:
        self.tick += 1
        row: dict[str, Any] = {
            "event": len(self.rows), "ts_ns": self.tick, "offset": self.tick, "file": 0, "step_hi_ns": self.step,
            "thread": 0, "cpu": 0, "layer": "kfd", "name": name, "source": "ftrace", "depth": 0, "flags": flags,
            "call": call,
        }  # fmt: skip
        self.rows.append(row)
        return row

    def nest(self) -> pl.DataFrame:
        """Return the rows as they are linked."""
        frame = pl.DataFrame([dict.fromkeys(_ROWS) | row for row in self.rows], schema=_ROWS)
        return nest_calls(frame.with_columns(pl.col("layer", "name", "source", "result").cast(schema.CAT)))


_ORDERS = [
    ["probe", "graph"], ["graph", "probe"], ["moment", "probe"], ["probe", "moment"], ["moment", "graph"],
    ["graph", "moment"], ["graph", "moment", "probe"], ["moment", "graph", "probe"], ["probe", "graph", "moment"],
    ["probe"], ["graph"], ["moment"],
]  # fmt: skip


@given(trees=st.lists(_TREES, min_size=1, max_size=3), order=st.sampled_from(_ORDERS), step=st.sampled_from([0, 500]))
def test_trees_of_calls_count_each_call_once(trees: list[list[Any]], order: list[str], step: int) -> None:
    """Of a text (by the order of lines) and of pages (by their times); functions call themselves."""
    tracers = _Tracers(order, step)
    for tree in trees:
        tracers.call("f", tree)
    rows = tracers.nest()
    assert rows.filter(is_counted())["call"].to_list() == list(range(tracers.calls))
    twins = rows.filter(~is_counted())
    assert twins.height == tracers.calls * (len(order) - 1)
    assert rows["call"].gather(twins["parent"]).to_list() == twins["call"].to_list()


@pytest.mark.parametrize("seen", [[_moment("evict_process_queues_cpsch")], []])
def test_what_stops_queues_counts_once(correlate_records: Correlator, seen: list[str]) -> None:
    capture = correlate_records(*seen, *_probe("evict_process_queues_cpsch"))
    moves = count_moves(capture).select("what", "n").rows()
    assert moves[0] == ("evictions", 1)
    report = summarize_capture("x", capture.table)
    told = [line for answer in report.answers for line in answer.lines if "of queues recorded" in line]
    assert told == ["1 eviction, suspend or restore of queues recorded"]
