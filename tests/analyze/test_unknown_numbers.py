"""SYNTHETIC tables of which no source tells a number: a report then says unknown or at least, never 0 or a sum."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from analyze_tables import Rows, table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare import Side, compare_captures
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.memory import summarize_memory
from tracecorr.analyze.queues import count_doubled
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.analyze.values import describe_ns, total
from tracecorr.analyze.verdicts import judge_capture


def _report(rows: Rows) -> str:
    return render_markdown(summarize_capture("x", tables_of(rows)))


def _reason(rows: Rows, name: str) -> str:
    (verdict,) = judge_capture(Evidence(tables_of(rows)), names=[name])
    return verdict.finding.reason


def _queue(queue: int, known_from: str, process: int | None = 0, **more: Any) -> dict[str, Any]:
    return {"queue": queue, "process": process, "known_from": known_from, **more}


def test_streams_and_queues_are_not_counted_where_no_source_tells_them() -> None:
    trace = {"files": [{"file": 0, "source": "ftrace"}]}
    assert "ioctl in the trace, no queue known, streams not recorded\n" in _report(trace)
    assert "there is no HIP log of the copies" in _report(trace)
    store = {"event": 0, "layer": "doorbell", "name": "doorbell", "source": "ftrace"}
    assert "doorbells: 1 store recorded, of unknown packets: there is no HIP log\n" in _report(
        {**trace, "events": [store]}
    )
    both = {"files": [{"file": 0, "source": "amd_log"}], "streams": [{"stream": 0, "process": 0}]}
    assert "no queue known, 1 stream\n" in _report(both)


@pytest.mark.parametrize(
    ("log", "trace", "doubled"),
    [
        ([0, 0, 0], [0], 1),
        ([0], [0, 0, 0], 1),
        ([None, None], [4, 4, 4], 2),
        ([0], [], 0),
        ([0, 0], [0, 1], 1),
        ([], [0, 1], 0),
    ],
)
def test_queues_that_nothing_joins_may_be_counted_twice(log: list[int | None], trace: list[int], doubled: int) -> None:
    """An unaligned trace, or lost lines: what the log made and what the trace saw being made may be the same."""
    rows = [_queue(n, "amd_log", process, hwq=0x3C00000 + n) for n, process in enumerate(log)]
    rows += [_queue(10 + n, "ftrace", process) for n, process in enumerate(trace)]
    assert count_doubled(table("queues", *rows).collect()) == doubled if rows else True
    text = _report({"queues": rows})
    assert (f"{len(rows) - doubled} to {len(rows)} queues" in text) is (doubled > 0)
    assert ("may be the same" in text) is (doubled > 0)


def test_missing_lines_of_the_log_are_counted_as_a_lower_bound() -> None:
    run = make_run()
    run["losses"] = [{"source": "amd_log", "from_ns": 1, "to_ns": 2, "count": 7}]
    assert "- records lost: at least 7\n" in _report(run)
    assert _reason(run, "nothing_lost") == "at least 7 records were lost, 0 files are not accounted for"
    run["losses"] = [{"source": "ftrace", "cpu": 0, "from_ns": 1, "to_ns": 2, "count": 1}]
    assert "- records lost: 1\n" in _report(run)
    assert _reason(run, "nothing_lost") == "1 record was lost, 0 files are not accounted for"
    run["losses"] = [{"source": "amd_log", "from_ns": 1, "to_ns": 2, "count": None}]
    told = "records were lost in 1 span, their number is unknown, 0 files are not accounted for"
    assert _reason(run, "nothing_lost") == told


def test_a_priority_that_one_stage_alone_knows_agrees_with_nothing() -> None:
    run = make_run()
    run["queues"][0] |= {"priority_hip": None, "priority_ioctl": None}
    run["streams"], run["stream_queues"], run["args"] = [], [], []
    run["events"] = [row for row in run["events"] if row["event"] not in (6, 7)]
    run["hqd"] = []
    reason = _reason(run, "priority_reaches_hardware")
    assert reason == "the priority in the driver is unknown for 1 queue; only that in the log is known"


def test_a_comparison_calls_unknown_what_a_side_did_not_record() -> None:
    run = make_run()
    trace = {**run, "files": run["files"][1:], "launches": [], "streams": [], "stream_queues": []}
    trace["queues"] = [{"queue": 0, "process": 0, "create_ioctl_event": 3, "known_from": "ftrace"}]
    trace["events"] = [row for row in run["events"] if row["layer"] not in ("hip", "aql", "command", "signal", "copy")]
    sides = Side("a", tables_of(run)), Side("b", tables_of(trace))
    findings = compare_captures(*sides, rounds=10).findings
    assert "B has no HIP log: no calls, packets, queues and latencies are recorded there" in findings
    assert "queues with dispatches: 1 in A, unknown in B" in findings
    assert "queues made by HIP (Created lines): 1 in A, unknown in B" in findings
    assert "queues shared by streams: 0 in A, unknown in B" in findings
    silent = {**run, "launches": [], "stream_queues": []}
    found = compare_captures(Side("a", tables_of(run)), Side("b", tables_of(silent)), rounds=10)
    numbers = {what: b for what, _, b, _ in found.frame("queues").iter_rows()}
    assert numbers["streams"] == 1 and numbers["queues made by HIP (Created lines)"] == 1
    assert [numbers[what] for what in ("streams that submitted", "queues shared by streams")] == [None, None]
    assert any(f.startswith("dispatches: 2 in A") and f.endswith(", unknown in B") for f in findings)
    assert "names of kernels: 1 in A, unknown in B" in findings
    assert any(f.startswith("HIP functions: ") and f.endswith(" in A, unknown in B") for f in findings)
    assert any(f.startswith("kinds of ioctls: ") and "both" in f for f in findings)
    for one, other, side, lacks in ((*sides, "A", "B"), (*reversed(sides), "B", "A")):
        found = compare_captures(one, other, rounds=10)
        for key in ("kernels", "hip_calls", "paths", "copies"):
            assert set(found.frame(key)["only"]) <= {f"{side} ({lacks}: not recorded)"}, key
        assert found.frame("kernels").height and found.frame("hip_calls").height
        assert set(found.frame("ioctls")["only"]) == {"both"}


def test_a_sum_that_no_number_holds_is_unknown() -> None:
    """Sums wrap: two sizes of 2^62 bytes would be held for a negative one."""
    sizes = [1 << 62, 1 << 62, (1 << 63) - 1]
    frame = pl.DataFrame({"name": ["a", "a", "b"], "size": sizes, "dur_ns": sizes})
    summed = frame.group_by("name").agg(total(pl.col("size")), *describe_ns("dur_ns")).sort("name")
    assert summed["size"].to_list() == summed["total_ns"].to_list() == [None, None]
    assert summed["p50_ns"].to_list() == [1 << 62, None]
    rows = [
        {"event": n, "layer": "memory", "name": "allocate_host", "arg": n + 1, "size_bytes": 1 << 62} for n in (0, 1)
    ]
    (memory,) = summarize_memory(table("events", *rows), None).to_dicts()
    assert (memory["largest_bytes"], memory["bytes"], memory["peak_bytes"]) == (1 << 62, None, None)
