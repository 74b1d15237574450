"""Answers about several processes and GPUs, on SYNTHETIC tables: which is meant is said, and none is guessed."""

from __future__ import annotations

from typing import Any

from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.queue_creation import summarize_queue_creation
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.answers import Answer
from tracecorr.analyze.report.questions import answer_questions
from tracecorr.analyze.verdicts import judge_capture


def _answer(rows: Rows) -> tuple[Answer, ...]:
    run = Evidence(tables_of(rows))
    return answer_questions(run, judge_capture(run))


def test_who_made_a_queue_is_named_where_it_may_be_another() -> None:
    run = make_run()
    run["streams"][0]["create_event"] = 1
    run["processes"].append({"process": 5, "pid": 300, "log_pid": 7})
    run["threads"].append({"thread": 9, "process": 5, "tid": 301})
    run["gpus"].append({"gpu": 1, "gpu_id": 0xF05B})
    run["queues"].append({
        "queue": 2, "process": 5, "gpu": 1, "hwq": 0x99, "created_ns": 9_000, "created_line_event": 60,
        "known_from": "amd_log",
    })  # fmt: skip
    line = {"event": 60, "ts_ns": 9_000, "layer": "aql", "name": "queue_created", "process": 5, "thread": 9}
    run["events"].append(line)
    lines = _answer(run)[0].lines
    assert lines[0].startswith(
        "queue 0 (process 100, thread 100, GPU f7bc): requested by hipStreamCreateWithPriority (event 1) for stream "
        "0x5500; "
    )
    assert lines[1].startswith("queue 2 (process 300, thread 301, GPU f05b): its HIP call is unknown; ")


def test_nodes_are_named_where_there_are_several() -> None:
    run = make_run()
    run["processes"].append({"process": 5, "pid": 100, "log_pid": 1})
    queue = {"queue": 2, "process": 5, "gpu": 1, "hwq": 0x99, "created_ns": 9_000, "created_line_event": 60}
    run["queues"].append(queue | {"priority_log": 0})
    run["gpus"].append({"gpu": 1, "gpu_id": 0xF7BC})
    run["events"].append({"event": 60, "ts_ns": 9_000, "layer": "aql", "name": "queue_created", "process": 5})
    timed = {"kind": "dispatch", "doorbell_evidence": "recorded", "doorbell_ns": 100, "gpu_start_ns": 150}
    run["launches"] = [{**timed, "event": 20, "queue": 0}, {**timed, "event": 60, "queue": 2}]
    told_of = {"placed_by": "", "shift_ns": 0, "capture": "x"}
    nodes = [
        {"node": "a", "used": {"queues": 0, "processes": 0, "gpus": 0, "events": 0}, **told_of},
        {"node": "b", "used": {"queues": 2, "processes": 5, "gpus": 1, "events": 60}, **told_of},
    ]

    def told(nodes: list[dict[str, Any]]) -> tuple[list[str], str, list[str]]:
        evidence = Evidence(tables_of(run), info={"nodes": nodes})
        answers = answer_questions(evidence, judge_capture(evidence))
        waits = [line.partition(": ")[0] for line in answers[4].lines if "doorbell to GPU start" in line]
        heads = [line.partition(":")[0] for line in answers[0].lines[:2]]
        return heads, answers[1].lines[0].partition(": ")[0], waits

    assert told(nodes) == (
        ["queue 0 (node a, process 100, GPU f7bc)", "queue 2 (node b, process 100, GPU f7bc)"],
        "queue 0 (node a, process 100, GPU f7bc)",
        ["queue 0 (log priority 2, node a, GPU f7bc)", "queue 2 (log priority 0, node b, GPU f7bc)"],
    )
    assert told(nodes[:1])[0] == ["queue 0 (process 100, GPU f7bc)", "queue 2 (process 100, GPU f7bc)"]
    sections = {s.key: s.frame for s in summarize_capture("x", tables_of(run), {"nodes": nodes}).sections}
    assert [sections[key]["node"].to_list() for key in ("processes", "gpus")] == [["a", "b"]] * 2
    assert "node" not in {s.key: s.frame for s in summarize_capture("x", tables_of(run)).sections}["gpus"].columns


def test_pages_of_doorbells_are_counted_as_they_were_mapped() -> None:
    run = make_run()
    again = dict(next(e for e in run["events"] if e["event"] == 8))
    failed = {**again, "event": 62, "ts_ns": 1_650, "result": "ENOMEM"}
    run["events"] += [{**again, "event": 61, "ts_ns": 1_800}, failed]
    assert "doorbell pages were mapped 2 times (it is mapped once per process and GPU)" in _answer(run)[2].lines
    assert summarize_queue_creation(tables_of(run))["doorbell_map_event"].to_list() == [8, 8]


def test_of_pages_of_several_gpus_none_is_that_of_a_queue_whose_gpu_is_unknown() -> None:
    run = make_run()
    page = dict(next(e for e in run["events"] if e["event"] == 8))
    run["events"].append({**page, "event": 61, "ts_ns": 1_800, "arg": (3 << 62) | (0xF05B << 46)})
    run["queues"][0]["gpu"] = None
    made = summarize_queue_creation(tables_of(run))
    assert made.select("doorbell_map_event", "gpu_unknown").rows() == [(None, True), (8, False)]
    (verdict,) = judge_capture(tables_of(run), names=["queue_creation_complete"])
    assert (str(verdict.outcome), "the GPU of the other queues" in verdict.finding.reason) == ("UNKNOWN", True)
    assert "doorbell pages were mapped 2 times, for 2 pairs of process and GPU" in _answer(run)[2].lines[-1]
