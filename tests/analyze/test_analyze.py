"""Each question of a capture: empty tables give empty answers, small ones give known numbers."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from analyze_tables import table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.calls import summarize_hip_calls
from tracecorr.analyze.examples import find_example
from tracecorr.analyze.ioctls import summarize_ioctls
from tracecorr.analyze.latency import summarize_latency
from tracecorr.analyze.owners import summarize_nodes
from tracecorr.analyze.queues import names_streams, summarize_queues, summarize_streams
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown, render_table
from tracecorr.analyze.report.sections import GLOSSARY
from tracecorr.analyze.sql import run_sql
from tracecorr.analyze.values import addresses_as_text, plain_rows, render_ns, render_value
from tracecorr.model import schema


def call(name: str, dur_ns: int | None, result: str | None = "hipSuccess", layer: str = "hip") -> dict[str, Any]:
    """Return a row of `events`."""
    return {"layer": layer, "name": name, "dur_ns": dur_ns, "result": result}


def test_report_of_empty_tables() -> None:
    report = summarize_capture("nothing", lambda name: schema.TABLES[name].empty().lazy())
    assert report.summary["dispatches"] == 0
    text = render_markdown(report)
    assert "no ftrace: ioctls unknown; import with --ftrace" in text
    assert "no AMD log: HIP calls unknown; import with --amd-log" in text
    assert "no event has a time" in render_markdown(report)
    assert json.loads(json.dumps(report.as_dict()))["sections"]["queues"]["rows"] == []


def test_words_of_evidence_are_explained_whole() -> None:
    text = render_markdown(summarize_capture("nothing", lambda name: schema.TABLES[name].empty().lazy()))
    assert {"recorded", "derived", "inferred", "UNKNOWN", "UNALIGNED"} < set(GLOSSARY)
    assert all(f"| {word} | {meaning} |" in text for word, meaning in GLOSSARY.items())


def test_a_poll_of_what_is_not_done_yet_is_no_error() -> None:
    events = table(
        "events",
        *(call("hipStreamQuery", 5, result) for result in ("hipErrorNotReady", "hipErrorNotReady", "hipSuccess")),
        call("hipStreamQuery", 5, "hipErrorContextIsDestroyed"),
        *(call("AMDKFD_IOC_WAIT_EVENTS", 9, result, "ioctl") for result in ("EINTR", "ERESTART_RESTARTBLOCK")),
    )
    counts = ("calls", "errors", "not_yet")
    assert summarize_hip_calls(events).select(counts).rows() == [(4, 1, 2)]
    assert summarize_ioctls(events).select(counts).rows() == [(2, 0, 2)]
    tables = tables_of({"events": events.drop("event").with_row_index("event").collect().to_dicts()})
    nodes = [{"node": "a", "used": {"events": 0, "queues": 0}}]
    assert summarize_nodes(tables, nodes)["failed_calls"].to_list() == [1]
    rows = run_sql(tables, find_example("failed"))
    assert rows["result"].to_list() == ["hipErrorContextIsDestroyed"]


def test_calls_without_a_time_have_no_total() -> None:
    """`hipGetLastError` prints no return: 0 ns would be a time."""
    events = table("events", call("hipGetLastError", None, None), call("hipFree", 7))
    rows = summarize_hip_calls(events).select("name", "calls", "half_seen", "total_ns", "share").rows()
    assert rows == [("hipFree", 1, 0, 7, 100.0), ("hipGetLastError", 1, 1, None, None)]
    opened = table("events", call("A", None, None, "ioctl"), call("B", 5, "0", "ioctl"))
    assert summarize_ioctls(opened).select("name", "total_ns").rows() == [("B", 5), ("A", None)]


def test_latency_keeps_evidence_apart_and_negative_times() -> None:
    times = {"call_ns": 0, "packet_ns": 100, "return_ns": 300}
    launches = table(
        "launches",
        {"kind": "dispatch", **times, "doorbell_ns": 107, "doorbell_evidence": "recorded"},
        {"kind": "dispatch", **times, "doorbell_ns": 110, "doorbell_evidence": "inferred"},
        {"kind": "dispatch", **times, "doorbell_ns": 130, "doorbell_evidence": "derived"},
        {"kind": "barrier_and", **times, "doorbell_ns": 60, "doorbell_evidence": "recorded"},
    )
    found = summarize_latency(launches, table("events"))
    rows = {(r["stage"], r["kind"], r["evidence"]): r for r in found.to_dicts()}
    assert rows["packet to doorbell", "dispatch", "recorded"]["p50_ns"] == 7
    assert rows["packet to doorbell", "dispatch", "inferred"]["p50_ns"] == 10
    assert rows["packet to doorbell", "dispatch", "derived"]["p50_ns"] == 30  # the store of its graph launch was seen
    assert rows["packet to doorbell", "barrier_and", "recorded"]["min_ns"] == -40
    assert rows["call to return", "dispatch", "recorded"]["packets"] == 3
    assert not any(stage == "GPU start to GPU end" for stage, _, _ in rows)


@pytest.mark.parametrize("first", [0, 7])  # row numbers of a dataset's node begin later
def test_a_stage_tells_how_well_its_times_are_known(first: int) -> None:
    """The log cuts to 1 us, the trace's clock is known to -3..+5 us, that of the GPU to -600..0 us."""
    bounds = [(0, 1_000), (0, 1_000), (3_000, 5_000), (600_000, 0)]
    events = table("events", *({"event": first + i, "err_lo_ns": a, "err_hi_ns": b} for i, (a, b) in enumerate(bounds)))
    moments = {"call_ns": 0, "packet_ns": 2_000, "doorbell_ns": 9_000, "gpu_start_ns": 30_000, "gpu_end_ns": 31_000}
    known = {"call_event": first, "event": first + 1, "doorbell_event": first + 2, "gpu_event": first + 3}
    launch = {"kind": "dispatch", **moments, **known, "doorbell_evidence": "recorded"}
    rows = {r["stage"]: r for r in summarize_latency(table("launches", launch), events).to_dicts()}
    assert rows["call to packet"]["error_ns"] == 1_000
    assert rows["packet to doorbell"]["error_ns"] == 5_000  # 3 us and the step of the log below, 5 us above
    assert rows["doorbell to GPU start"]["error_ns"] == 605_000
    assert rows["GPU start to GPU end"]["error_ns"] == 0  # of one clock
    without = table("launches", launch, {**launch, "doorbell_event": None})
    unknown = {r["stage"]: r for r in summarize_latency(without, events).to_dicts()}
    assert unknown["packet to doorbell"]["error_ns"] is None


def test_what_streams_submitted_is_unknown_where_the_log_names_no_stream() -> None:
    """Up to ROCm 6.4 a command line has no `to queue`; the other process is of a later one."""
    streams = table("streams", {"stream": 0, "process": 0}, {"stream": 1, "process": 1})
    of_process = [{"process": 0, "kind": "dispatch"}, {"process": 1, "kind": "dispatch", "stream": 1}]
    launches = table("launches", *of_process, {"process": 1, "kind": "dispatch"}, {"process": 1, "kind": "barrier_and"})
    found = summarize_streams(streams, table("stream_queues"), launches)
    assert found.select("dispatches", "barriers", "copies").rows() == [(None, 0, 0), (1, None, 0)]
    assert names_streams(launches) and names_streams(table("launches"))
    assert not names_streams(table("launches", of_process[0]))


def test_a_log_that_shows_no_packet_is_no_run_without_packets() -> None:
    """HIP 7.2.4 prints copies at level 4, packets and commands at level 5."""
    run = make_run()
    run["launches"] = [row for row in run["launches"] if row["kind"] == "copy"]
    run["queues"] = [{**row, "dispatches": 0, "barriers": 0} for row in run["queues"]]
    run["stream_queues"] = []
    report = summarize_capture("x", tables_of(run))
    text = render_markdown(report)
    assert "- doorbells: 2 stores recorded, of unknown packets: no packet is in the log\n" in text
    assert "which of them had dispatches is unknown" in text and "0 of them had dispatches" not in text
    sections = {s.key: s for s in report.sections}
    assert sections["queues"].frame.select("dispatches", "barriers", "streams").rows() == [(None,) * 3] * 2
    assert all(sections[key].missing.startswith("no packet is in the log") for key in ("launches", "queues"))
    assert all("is in the log: the program submitted none, or" in sections[key].nothing for key in ("kernels", "paths"))
    (stream,) = sections["streams"].frame.to_dicts()
    assert (stream["dispatches"], stream["barriers"], stream["copies"]) == (None, None, 1)
    run["launches"], run["events"] = [], [row for row in run["events"] if row["layer"] != "copy"]
    level_3 = summarize_capture("x", tables_of(run))
    (verdict,) = (v for v in level_3.verdicts if v.name == "copies_use_user_sdma")
    assert verdict.finding.reason.startswith("the log shows no copy to a copy engine: the program submitted none, or")
    assert "no copy is in the log: the program made none, or" in render_markdown(level_3)
    nothing = {s.key: s for s in summarize_capture("x", tables_of(run)).sections}["streams"].frame
    assert nothing.select("dispatches", "barriers", "copies").rows() == [(None, None, None)]


def test_queues_whose_creation_names_no_ring_may_be_counted_twice() -> None:
    """Up to ROCm 6.1 only the packets of a queue name its ring."""
    made = {"process": 0, "swq": 0x29031000, "created_ns": 5, "dispatches": 0, "barriers": 0, "known_from": "amd_log"}
    used = {"process": 0, "hwq": 0x2CA00000, "dispatches": 4, "barriers": 1, "known_from": "amd_log"}
    rows = [{"queue": n, **row} for n, row in enumerate([made, made, made, used, used, {**made, "process": 1}])]
    queues = summarize_queues(table("queues", *rows), table("stream_queues"))
    assert queues["dispatches"].to_list() == [None, None, None, 4, 4, 0]
    assert queues["streams"].to_list() == [None, None, None, None, None, 0]
    report = summarize_capture("x", tables_of({"queues": rows, "files": [{"file": 0, "source": "amd_log"}]}))
    text = render_markdown(report)
    assert ", 4 to 6 queues, " in text and "- 4 to 6 queues are known" in text and "may be the same" in text
    apart = summarize_capture("x", tables_of({"queues": [rows[0], rows[5]]}))
    assert (apart.summary["queues"], apart.summary["queues_doubled"]) == (2, 0)


def test_kernels_that_are_only_named_are_not_dispatched() -> None:
    tables = {
        "files": table("files", {"file": 0, "source": "amd_log"}),
        "kernels": table("kernels", {"kernel": 0, "name": "vadd"}),
    }
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    told = "no dispatch (1 kernel is named): none was submitted, or AMD_LOG_LEVEL was too low to print them"
    assert f"- {told}; 0 packets and copies" in render_markdown(report)


def test_lines_that_name_a_kernel_count_launches_where_no_packet_is_in_the_log() -> None:
    named = {"source": "amd_log", "layer": "aql", "name": "shader_name", "kernel": 0}
    tables = {
        "files": table("files", {"file": 0, "source": "amd_log"}),
        "kernels": table("kernels", {"kernel": 0, "name": "vadd"}, {"kernel": 1, "name": "fill"}),
        "events": table(
            "events",
            {"event": 0, "source": "amd_log", "layer": "hip", "name": "hipGraphExecKernelNodeSetParams"},
            {"event": 1, **named, "parent": 0, "kernel": 1},
            {"event": 2, **named},
            {"event": 3, "source": "amd_log", "layer": "hip", "name": "hipLaunchKernel"},
            {"event": 4, **named, "parent": 3},
        ),
    }
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    (section,) = (s for s in report.sections if s.key == "kernels")
    (kernel,) = section.frame.to_dicts()
    assert (kernel["name"], kernel["dispatches"], kernel["named"]) == ("vadd", 0, 2)
    text = render_markdown(report)
    assert "- no dispatch (2 kernels are named), but 2 lines of launches: AMD_LOG_LEVEL was too low" in text
    assert "only the names of what was launched" in text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.00 us"),
        (-61_000, "-61.00 us"),
        (2_500_000, "2.50 ms"),
        (10**9, "1.00 s"),
        (999_994, "999.99 us"),
        (999_999, "1.00 ms"),
        (-999_999_999, "-1.00 s"),
    ],
)
def test_durations_have_units(ns: int, text: str) -> None:
    assert render_ns(ns) == text


def test_rows_for_json_hold_no_number_that_json_lacks() -> None:
    frame = pl.DataFrame({"share": [1.5, float("nan"), float("inf"), None], "queue": [1, 2, 3, 4]})
    assert [row["share"] for row in plain_rows(frame)] == [1.5, None, None, None]
    assert plain_rows(frame.select("queue"))[0] == {"queue": 1}


def test_tables_show_addresses_in_hex_points_in_seconds_and_no_empty_column() -> None:
    frame = pl.DataFrame(
        {"a": [2**63 + 5, None], "l": [[1, None], None], "created_ns": [1_500_000_000, None], "gone": [None, None]},
        schema={"a": pl.UInt64, "l": pl.List(pl.UInt64), "created_ns": pl.Int64, "gone": pl.Int64},
    )
    assert addresses_as_text(frame).to_dict(as_series=False)["a"] == ["0x8000000000000005", None]
    assert addresses_as_text(frame).to_dict(as_series=False)["l"] == [["0x1", None], None]
    assert render_table(frame).splitlines()[0] == "| a | l | created (s) |"
    assert render_value("created_ns", 1_500_000_000) == "1.500000"
    assert "1 more" in render_table(frame, max_rows=1)
    assert "f(a\\|b)" in render_table(pl.DataFrame({"name": ["f(a|b)"]}))
