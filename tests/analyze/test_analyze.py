"""Each question of a capture: empty tables give empty answers, small ones give known numbers."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from analyze_tables import table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.calls import summarize_hip_calls, summarize_internal_calls
from tracecorr.analyze.clocks import (
    summarize_clocks,
)
from tracecorr.analyze.ioctls import summarize_ioctls
from tracecorr.analyze.kernels import summarize_kernels
from tracecorr.analyze.latency import summarize_latency
from tracecorr.analyze.launches import summarize_launches, summarize_unlinked
from tracecorr.analyze.losses import summarize_ledger, summarize_losses, summarize_unaccounted
from tracecorr.analyze.owners import summarize_nodes
from tracecorr.analyze.queues import names_streams, summarize_queues, summarize_streams
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown, render_summary, render_table
from tracecorr.analyze.report.sections import GLOSSARY
from tracecorr.analyze.sql import find_example, run_sql
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
    assert "no event has a time" in render_summary(report)
    assert json.loads(json.dumps(report.as_dict()))["sections"]["queues"]["rows"] == []


def test_words_of_evidence_are_explained_whole() -> None:
    text = render_markdown(summarize_capture("nothing", lambda name: schema.TABLES[name].empty().lazy()))
    assert {"recorded", "derived", "inferred", "UNKNOWN", "UNALIGNED"} < set(GLOSSARY)
    assert all(f"| {word} | {meaning} |" in text for word, meaning in GLOSSARY.items())


def test_hip_calls_are_summed_by_function_and_half_seen_ones_in_no_time() -> None:
    events = table(
        "events",
        *(call("hipMalloc", ns) for ns in range(1, 101)),
        call("hipMalloc", None, None),
        call("hipFree", 7, "hipErrorInvalidValue"),
        call("AMDKFD_IOC_CREATE_QUEUE", 9, "0", "ioctl"),
    )
    rows = summarize_hip_calls(events).to_dicts()
    assert rows[0] == {
        "name": "hipMalloc", "calls": 101, "errors": 0, "not_yet": 0, "half_seen": 1, "total_ns": 5050, "mean_ns": 50,
        "p50_ns": 50, "p95_ns": 95, "p99_ns": 99, "max_ns": 100, "share": 99.9,
    }  # fmt: skip
    assert (rows[1]["name"], rows[1]["errors"]) == ("hipFree", 1)
    assert len(rows) == 2


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


def test_ioctls_are_summed_by_request_and_failed_ones_counted() -> None:
    events = table(
        "events",
        call("A", 10, "0", "ioctl"),
        call("A", 30, "EINVAL", "ioctl"),
        call("A", 20, "3", "ioctl"),
        call("A", None, None, "ioctl"),
        call("B", 5, None, "ioctl"),
        call("hipFree", 7),
    )
    rows = summarize_ioctls(events).to_dicts()
    columns = ("name", "calls", "errors", "not_yet", "result_unknown", "total_ns")
    assert [tuple(r[c] for c in columns) for r in rows] == [("A", 4, 1, 0, 1, 60), ("B", 1, None, None, 1, 5)]


def test_kernels_do_not_guess_gpu_times() -> None:
    launches = table(
        "launches",
        {"kind": "dispatch", "kernel": 0, "stream": 1, "queue": 0, "gpu_start_ns": 10, "gpu_end_ns": 40},
        {"kind": "dispatch", "kernel": 0, "stream": 2, "queue": 0, "packet_ns": 1, "complete_ns": 900},
        {"kind": "dispatch", "kernel": None, "packet_ns": 1, "complete_ns": 900},
        {"kind": "barrier_and", "kernel": None},
    )
    names = table("kernels", {"kernel": 0, "name": "void vadd<float>(float*)", "display": "vadd"})
    rows = {r["name"]: r for r in summarize_kernels(launches, names).to_dicts()}
    assert (rows["vadd"]["dispatches"], rows["vadd"]["streams"], rows["vadd"]["gpu_mean_ns"]) == (2, 2, 30)
    assert rows["(unknown)"]["gpu_mean_ns"] is None


def test_launches_are_counted_by_kind_and_by_the_link_that_they_lack() -> None:
    launches = table(
        "launches",
        {"event": 5, "kind": "dispatch", "call_event": 1, "doorbell_evidence": "recorded"},
        {"event": 6, "kind": "dispatch", "doorbell_evidence": "inferred", "unlinked_reason": "no call"},
        {"event": 7, "kind": "copy", "unlinked_reason": "no call"},
        {"event": 8, "kind": "dispatch", "unlinked_reason": "no call"},
    )
    dispatch = summarize_launches(launches).filter(kind="dispatch").row(0, named=True)
    assert (dispatch["packets"], dispatch["with_call"], dispatch["complete"]) == (3, 1, 1)
    assert (dispatch["doorbell_recorded"], dispatch["doorbell_inferred"]) == (1, 1)
    assert summarize_unlinked(launches).rows() == [("dispatch", "no call", 2, 6), ("copy", "no call", 1, 7)]


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


def test_queues_tell_their_streams_and_streams_their_queues_in_order_of_use() -> None:
    spans = table(
        "stream_queues",
        {"stream": 0, "queue": 1, "from_ns": 20, "to_ns": 30, "evidence": "recorded"},
        {"stream": 0, "queue": 0, "from_ns": 0, "to_ns": 9, "evidence": "recorded"},
        {"stream": 1, "queue": 0, "from_ns": 1, "to_ns": 3, "evidence": "derived"},
    )
    queues = summarize_queues(table("queues", {"queue": 0, "hwq": 0x3C00000}, {"queue": 1}, {"queue": 2}), spans)
    assert queues["streams"].to_list() == [2, 1, 0]
    launches = table("launches", {"kind": "dispatch", "stream": 0}, {"kind": "copy", "stream": 0})
    streams = summarize_streams(table("streams", {"stream": 0}, {"stream": 1}), spans, launches)
    assert streams["queues"].to_list() == ["0 1", "0"]
    assert streams.select("dispatches", "barriers", "copies").rows() == [(1, 0, 1), (0, 0, 0)]


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
    assert "- doorbells: 2 stores recorded; whose is unknown: no packet is in the log\n" in text
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


def test_how_many_streams_is_unknown_where_the_log_names_no_stream() -> None:
    """0 streams of a kernel that was dispatched, or of a queue with packets, cannot be."""
    launches = table("launches", {"kind": "dispatch", "kernel": 0, "queue": 0}, {"kind": "dispatch", "kernel": 0})
    (kernel,) = summarize_kernels(launches, table("kernels", {"kernel": 0, "name": "vadd"})).to_dicts()
    assert (kernel["dispatches"], kernel["queues"], kernel["streams"]) == (2, 1, None)
    used, idle = {"dispatches": 1, "barriers": 1}, {"dispatches": 0, "barriers": 0}
    queues = table("queues", {"queue": 0, **used}, {"queue": 1, **idle}, {"queue": 2, **used})
    spans = table("stream_queues", {"stream": 0, "queue": 2, "from_ns": 0, "to_ns": 1})
    assert summarize_queues(queues, spans)["streams"].to_list() == [None, 0, 1]


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


def test_losses_ledger_and_clocks() -> None:
    losses = table(
        "losses",
        {"source": "ftrace", "cpu": 0, "from_ns": 1, "to_ns": 5, "count": 10},
        {"source": "ftrace", "cpu": 0, "from_ns": 7, "to_ns": 9, "count": None},
    )
    assert summarize_losses(losses).rows() == [("ftrace", 0, 2, 10, 1, 1, 9)]
    files = table("files", {"file": 0, "path": "raw/a", "size": 100}, {"file": 1, "path": "raw/b", "size": 10})
    ledger = table(
        "ledger",
        {"file": 0, "source": "amd_log", "outcome": "used", "records": 3, "bytes": 60},
        {"file": 0, "source": "amd_log", "outcome": "used", "records": 1, "bytes": 30},
        {"file": 1, "source": "ftrace", "outcome": "skipped", "reason": "header", "records": 1, "bytes": 10},
    )
    assert summarize_ledger(ledger, files)["percent"].to_list() == [90.0, 100.0]
    empty = table("ledger", {"file": 0, "source": "ftrace", "outcome": "used", "records": 0, "bytes": 0})
    shown = summarize_ledger(empty, table("files", {"file": 0, "path": "raw/cpu0.bin", "size": 0}))
    assert shown["percent"].to_list() == [None]
    assert summarize_unaccounted(ledger, files).rows() == [("raw/a", 100, 90, 10)]
    clocks = table("clock_map", {"source": "ftrace:local", "from_ns": 5, "to_ns": 9, "lo_ns": 3, "hi_ns": 4})
    assert summarize_clocks(clocks).select("span_ns", "error_ns").rows() == [(4, 7)]
    # On the clock of all other times: a trace of the `local` clock may begin days before its own first event.
    moved = summarize_clocks(clocks.with_columns(offset_ns=pl.lit(-2, pl.Int64)))
    assert moved.select("from_ns", "span_ns").rows() == [(3, 4)]


def test_a_profile_alone_is_summed_up() -> None:
    tables = {
        "files": table("files", {"file": 0, "source": "rocprof"}),
        "kernels": table("kernels", {"kernel": 0, "name": "vadd"}),
        "events": table(
            "events",
            {"event": 0, "source": "rocprof", "layer": "gpu", "name": "vadd", "kernel": 0, "dur_ns": 5},
            {"event": 1, "source": "rocprof", "layer": "hip", "name": "hipMalloc", "dur_ns": 5},
            {"event": 2, "source": "rocprof", "layer": "hip", "name": "hipFree", "dur_ns": 5},
        ),
    }
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    text = render_markdown(report)
    assert "- rocprof: 1 kernel dispatch, 2 HIP calls\n" in text
    assert "What rocprof timed has the kernels" in text

    tables["events"] = schema.TABLES["events"].empty().lazy()
    sums = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    assert "rocprof: no row with times" in render_summary(sums)
    assert "no output of rocprof was imported" not in render_markdown(sums)


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
    ("kernels", "told"),
    [
        ([0, 0], "2 dispatches of 1 kernel;"),
        ([0, 1], "2 dispatches of 1 kernel;"),
        ([0, 2], "2 dispatches of 2 kernels;"),
        ([0, None], "2 dispatches of 1 kernel;"),
        ([None, None], "2 dispatches of unknown kernels;"),
    ],
)
def test_a_kernel_counts_once_and_an_unknown_one_not_at_all(kernels: list[int | None], told: str) -> None:
    """Nodes of a dataset have a row each for the kernel of one name; names may be alike when they are shortened."""
    names = ["void f<int>()", "void f<int>()", "void f<float>()"]
    tables = {
        "files": table("files", {"file": 0, "source": "amd_log"}),
        "kernels": table("kernels", *({"kernel": n, "name": name, "display": "f"} for n, name in enumerate(names))),
        "launches": table("launches", *({"event": n, "kind": "dispatch", "kernel": k} for n, k in enumerate(kernels))),
    }
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    assert told in render_markdown(report)


def test_functions_inside_hip_are_no_calls_of_the_program() -> None:
    events = table("events", call("hipMalloc", 5), call("ihipLaunchKernel", None), call("__hipPopCallConfiguration", 2))
    assert summarize_hip_calls(events)["name"].to_list() == ["hipMalloc"]
    assert summarize_internal_calls(events)["name"].to_list() == ["__hipPopCallConfiguration", "ihipLaunchKernel"]


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
