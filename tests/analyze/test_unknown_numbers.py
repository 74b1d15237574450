"""SYNTHETIC tables of which no source tells a number: a report then says unknown or at least, never 0 or a sum."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from analyze_tables import Rows, table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare import Side, compare_captures
from tracecorr.analyze.compare.statistics import read_steady
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.frames import describe_ns, total
from tracecorr.analyze.ioctls import summarize_drm_jobs
from tracecorr.analyze.latency import trace_paths
from tracecorr.analyze.memory import summarize_memory
from tracecorr.analyze.queue_creation import summarize_queue_creation
from tracecorr.analyze.queues import count_doubled, summarize_queues, summarize_streams
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown, render_summary
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
    assert "no HIP log tells which copies were made" in _report(trace)
    store = {"event": 0, "layer": "doorbell", "name": "doorbell", "source": "ftrace"}
    assert "doorbells: 1 store recorded; whose is unknown: there is no HIP log\n" in _report(
        {**trace, "events": [store]}
    )
    both = {"files": [{"file": 0, "source": "amd_log"}], "streams": [{"stream": 0, "process": 0}]}
    assert "no queue known, 1 stream\n" in _report(both)


def test_what_went_through_a_queue_that_only_the_trace_shows_is_unknown() -> None:
    """ROCr's own queue takes packets, too, that HIP does not log."""
    own = _queue(1, "ftrace", dispatches=0, barriers=0)
    logged = _queue(0, "amd_log ftrace", hwq=0x3C00000, dispatches=2, barriers=1)
    spans = table("stream_queues", {"stream": 0, "queue": 0, "from_ns": 0, "to_ns": 1})
    found = summarize_queues(table("queues", logged, own), spans)
    assert found.select("dispatches", "barriers", "streams").rows() == [(2, 1, 1), (None, None, None)]
    text = _report({"queues": [logged, own], "files": [{"file": 0, "source": "amd_log"}]})
    assert "- 1 of them had dispatches; of 1 more it is unknown: the log does not show" in text
    copying = _queue(2, "ftrace", type="sdma")
    assert "- 1 of them had dispatches\n" in _report({"queues": [logged, copying]})


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


def test_a_queue_of_another_ring_or_of_sdma_is_none_of_the_logs() -> None:
    log = _queue(0, "amd_log", hwq=0x3C00000)
    others = [_queue(1, "ftrace", ring_base=0x20A000), _queue(2, "ftrace", type="sdma")]
    assert count_doubled(table("queues", log, *others).collect()) == 0


def test_an_ioctl_that_is_left_over_may_be_the_queues_own() -> None:
    run = make_run()
    run["queues"][0]["create_ioctl_event"] = None
    text = _report(run)
    assert "; which CREATE_QUEUE ioctl made it is not known\n" in text
    assert "its CREATE_QUEUE ioctl is not recorded" not in text


def test_missing_lines_of_the_log_are_counted_as_a_lower_bound() -> None:
    run = make_run()
    run["losses"] = [{"source": "amd_log", "from_ns": 1, "to_ns": 2, "count": 7}]
    assert "- records lost: at least 7\n" in _report(run)
    assert _reason(run, "nothing_lost") == "at least 7 records were lost, 0 files are not accounted for"
    run["losses"] = [{"source": "ftrace", "cpu": 0, "from_ns": 1, "to_ns": 2, "count": 1}]
    assert "- records lost: 1\n" in _report(run)
    assert _reason(run, "nothing_lost") == "1 record was lost, 0 files are not accounted for"
    run["losses"] = [{"source": "amd_log", "from_ns": 1, "to_ns": 2, "count": None}]
    told = "records were lost in 1 span, and nobody knows how many, 0 files are not accounted for"
    assert _reason(run, "nothing_lost") == told


def test_packets_without_an_index_are_not_all_called_barriers() -> None:
    run = make_run()
    run["launches"] = [{**row, "wptr": None, "doorbell_evidence": "inferred"} for row in run["launches"]]
    reason = _reason(run, "packet_sequence_complete")
    assert reason.startswith("2 of 2 packets were printed without an index (dispatches up to ROCm 6.1, barriers")


def test_the_system_calls_of_an_unknown_call_are_unknown() -> None:
    launches = table("launches", {"event": 2, "kind": "dispatch", "call_event": 1}, {"event": 3, "kind": "dispatch"})
    events = table("events", {"event": 0, "layer": "syscall", "name": "read", "chain": 9, "dur_ns": 5})
    assert trace_paths(launches, events).collect()["kernel_mode_ns"].to_list() == [0, None]


def test_no_stream_has_a_number_of_barriers_where_some_are_of_an_unknown_one() -> None:
    """Up to ROCm 6.4 only the barriers of a command that a call gave its stream are known; a lost line is no such."""
    streams = table("streams", {"stream": 0, "process": 0}, {"stream": 1, "process": 1})
    named = {"process": 0, "kind": "barrier_and", "stream": 0, "command_event": 1}
    launches = table(
        "launches", named, {**named, "stream": None}, {**named, "kind": "dispatch"},
        {**named, "process": 1, "stream": 1}, {"process": 1, "kind": "barrier_and"},
    )  # fmt: skip
    found = summarize_streams(streams, table("stream_queues"), launches)
    assert found.select("dispatches", "barriers").rows() == [(1, None), (0, 1)]


def test_memory_counts_lines_of_one_stamp_in_their_order_and_a_log_without_process() -> None:
    def line(event: int, ts_ns: int, name: str, arg: int, size: int | None = None) -> dict[str, Any]:
        return {"event": event, "ts_ns": ts_ns, "layer": "memory", "name": name, "arg": arg, "size_bytes": size}

    events = table(
        "events",
        line(0, 1_000, "allocate_device", 0x100, 10),
        line(1, 2_000, "free", 0x100),
        line(2, 2_000, "allocate_device", 0x100, 10),
        line(3, 3_000, "free", 0x100),
        line(4, 3_000, "allocate_device", 0x200, 7),
    )
    (row,) = summarize_memory(events).to_dicts()
    assert row["process"] is None
    assert (row["allocations"], row["freed"], row["bytes"], row["peak_bytes"]) == (3, 2, 27, 10)
    assert row["peak_at_ns"] == 1_000


def test_the_fullest_ring_is_the_one_that_is_nearest_to_its_size() -> None:
    run = make_run()
    run["queues"][1] |= {"size": 64, "hwq": 0x20A000}
    run["launches"][0] |= {"rptr": 0, "wptr": 99}
    run["launches"][1] |= {"queue": 1, "rptr": 0, "wptr": 62}
    assert _reason(run, "queue_backlog") == "the fullest queue held at most 63 of 64 packets"


def test_who_submitted_jobs_is_unknown_where_no_event_tells() -> None:
    jobs = table("drm_jobs", {"job": 0, "ring": "gfx"}, {"job": 1, "ring": "sdma0", "process": 3})
    found = summarize_drm_jobs(jobs).sort("ring")
    assert found["processes"].to_list() == [None, 1]


def test_a_creation_whose_first_line_is_lost_takes_not_that_of_another() -> None:
    run = make_run()
    run["events"].append({"event": 50, "ts_ns": 2_500, "layer": "aql", "name": "queue_created", "thread": 0})
    run["queues"].append({"queue": 2, "process": 0, "created_ns": 2_500, "created_line_event": 50})
    for row in run["events"]:
        row["thread"] = 0
    found = summarize_queue_creation(tables_of(run))
    told = dict(found.drop_nulls("created_line_event").select("queue", "rocr_ns").iter_rows())
    assert told == {0: 850, 2: None}


def test_every_event_is_not_said_of_one_with_an_unknown_error() -> None:
    events = [{"event": 0, "source": "amd_log", "err_lo_ns": 0, "err_hi_ns": 1_000}, {"event": 1, "source": "hqd"}]
    report = summarize_capture("x", tables_of({"events": events}))
    assert "the start of every other event is known to 1.00 us; the error of 1 event is unknown" in render_summary(
        report
    )


def test_bytes_of_allocations_are_unknown_where_a_line_tells_no_size() -> None:
    line = {"layer": "memory", "name": "allocate_device", "process": 0}
    sized = [{**line, "event": n, "ts_ns": n, "arg": n, "size_bytes": 10} for n in range(2)]
    (row,) = summarize_memory(table("events", *sized, {**line, "event": 2, "ts_ns": 2, "arg": 2})).to_dicts()
    assert (row["allocations"], row["unsized"]) == (3, 1)
    assert [row[name] for name in ("bytes", "largest_bytes", "peak_bytes", "peak_at_ns")] == [None] * 4


def test_a_launch_of_an_unknown_call_is_not_called_steady() -> None:
    launches = table("launches", {"event": 2, "kind": "dispatch", "call_event": 1}, {"event": 3, "kind": "dispatch"})
    assert trace_paths(launches, table("events")).collect()["phase"].to_list() == ["steady", "unknown"]
    tables = tables_of({"launches": launches.collect().to_dicts()})
    assert read_steady(tables).height == 1


def test_the_clock_of_a_trace_alone_has_nothing_to_be_aligned_with() -> None:
    run = make_run()
    run["clock_map"] = [{**run["clock_map"][1], "source": "ftrace:local", "method": "unaligned"}]
    assert _reason(run, "clock_aligned") == "there is only one clock: nothing to align"


def test_a_clock_of_two_pieces_is_one_clock() -> None:
    run = make_run()
    run["clock_map"].append({**run["clock_map"][1], "from_ns": 9})
    assert _reason(run, "clock_aligned").startswith("2 clocks, ")
    run["clock_map"] = run["clock_map"][1:]
    assert _reason(run, "clock_aligned") == "there is only one clock: nothing to align"


def test_a_priority_that_one_stage_alone_knows_agrees_with_nothing() -> None:
    run = make_run()
    run["queues"][0] |= {"priority_hip": None, "priority_ioctl": None}
    run["streams"], run["stream_queues"], run["args"] = [], [], []
    run["events"] = [row for row in run["events"] if row["event"] not in (6, 7)]
    run["hqd"] = []
    reason = _reason(run, "priority_reaches_hardware")
    assert reason == "the priority in the driver is not known of 1 queue; only that in the log is"


def test_bytes_of_copies_are_compared_only_where_all_are_known() -> None:
    def copies(event: int, engine: int, size: int | None) -> dict[str, Any]:
        return {"event": event, "kind": "copy", "engine": engine, "size_bytes": size}

    tables = tables_of({"launches": [copies(0, 1, 64), copies(1, 2, None)]})
    frame = compare_captures(Side("a", tables), Side("b", tables), rounds=10).frame("copies")
    assert frame.select("a_copies", "a_bytes").rows() == [(2, None)]


def test_intervals_of_stages_of_the_log_say_that_their_times_are_whole_microseconds() -> None:
    def side(ns: int) -> Side:
        rows = [
            {"kind": "dispatch", "call_event": n, "call_ns": n * 10_000, "packet_ns": n * 10_000 + ns}
            for n in range(60)
        ]
        return Side("x", tables_of({"launches": rows}))

    findings = compare_captures(side(20_000), side(30_000), rounds=200).findings
    (told,) = (f for f in findings if f.startswith("SIGNIFICANT call to packet of dispatch, p50"))
    assert told.endswith("(difference between 10.00 us and 10.00 us, each time a whole us)")


def test_samples_of_an_unknown_gpu_or_process_are_not_those_of_number_0() -> None:
    from tracecorr.export.selection import Selection
    from tracecorr.export.trace import build_trace

    def sample(**of: int) -> dict[str, Any]:
        return {"ts_ns": 1, "name": "vram", "value": 5.0, **of}

    samples = [sample(gpu=0, process=0), sample(gpu=0), sample(process=0), sample()]
    trace = build_trace(tables_of({"samples": samples}), Selection())
    names = sorted(track.name for track in trace.counters)
    assert names == ["vram", "vram (gpu 0)", "vram (gpu 0, process 0)", "vram (process 0)"]
    assert isinstance(trace.counts, pl.DataFrame) and trace.counts.height == 4


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


def test_a_profile_alone_has_no_hip_log_without_packets() -> None:
    calls = [{"event": 0, "layer": "hip", "source": "rocprof", "name": "hipMalloc", "dur_ns": 5}]
    profile = tables_of({"events": calls, "files": [{"file": 0, "source": "rocprof"}]})
    findings = compare_captures(Side("a", profile), Side("b", tables_of(make_run())), rounds=10).findings
    assert not [f for f in findings if f.startswith("the HIP log of A")]
    assert any(f.startswith("kinds of ioctls: unknown in A, ") and f.endswith(" in B") for f in findings)


def test_a_function_whose_returns_no_line_shows_has_no_bar() -> None:
    from tracecorr.app.charts import _with_unit

    assert _with_unit(pl.Series([2_000_000, None])) == ([2.0, None], "ms")


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
