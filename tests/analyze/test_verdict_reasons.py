"""What a verdict says, and where evidence decides nothing: a process without a trace, a second node, losses, refusals.

The runs are SYNTHETIC (`synthetic_run.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from analyze_tables import Rows, tables_of
from judging import (
    Change,
    add,
    drop_events,
    drop_layer,
    empty,
    join_runs,
    judge,
    put,
    put_event,
)
from synthetic_run import make_run

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.analyze.verdicts import judge_capture
from tracecorr.pipeline import correlate, import_files


def test_reasons_name_stages_and_what_is_missing_in_words() -> None:
    """Not the names of columns; and without a trace it is the trace that is missing."""
    run = make_run()
    run["files"] = [row for row in run["files"] if row["source"] != "ftrace"]
    run["hqd"] = []
    run["queues"] = [{**row, "priority_ioctl": None, "create_ioctl_event": None} for row in run["queues"]]
    run["events"] = [row for row in run["events"] if row["layer"] in ("hip", "aql", "copy")]
    said = {v.name: v.finding.reason for v in judge_capture(tables_of(run))}
    assert said["copies_use_user_sdma"] == "1 engine copy, but there is no kernel trace of the queue creations"
    told = "the priority in the driver is unknown for 1 queue; it agrees as far as the log"
    assert said["priority_reaches_hardware"] == told


def test_what_no_duration_shows_of_a_queue_creation_is_told() -> None:
    rows = make_run()
    for event in (3, 10):
        put_event(event, dur_ns=None)(rows)
    told = "the trace does not show the duration of the 2 successful ones"
    assert judge(rows, "kfd_create_under_1ms")[1] == told
    rows["clock_map"][1].update(source="ftrace:counter", method="unaligned")
    assert judge(rows, "kfd_create_under_1ms")[1] == f"{told}: ftrace:counter does not count nanoseconds"


def _with_a_process_of_a_log_alone() -> Rows:
    """Return the run and, beside it, a copy and a queue of a process that no kernel trace shows."""
    rows = make_run()
    rows["processes"].append({"process": 2, "pid": None, "log_pid": 7})
    rows["events"].append({"event": 60, "ts_ns": 9_000, "layer": "copy", "name": "copy", "process": 2})
    rows["launches"].append({"event": 60, "kind": "copy", "process": 2, "engine": 1})
    rows["events"].append({"event": 61, "ts_ns": 9_100, "layer": "aql", "name": "queue_created", "process": 2})
    rows["queues"].append({"queue": 2, "process": 2, "type": "compute_aql", "created_line_event": 61})
    return rows


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("copies_use_user_sdma", "1 engine copy of processes without a kernel trace"),
        ("queue_creation_complete", "no kernel trace shows the other processes"),
    ],
)
def test_what_no_trace_shows_of_a_process_is_unknown(name: str, told: str) -> None:
    """As on a node of a dataset that has a HIP log alone."""
    rows = _with_a_process_of_a_log_alone()
    assert judge(rows, name)[:2] == ("UNKNOWN", told)
    rows["processes"][-1]["pid"] = 200
    assert judge(rows, name)[0] == "FAIL"


def _forget_processes(rows: Rows) -> None:
    """Let the log name no process, as at level 3: its queues and copies are no process's."""
    for row in (*rows["queues"][:1], *rows["launches"], *(r for r in rows["events"] if r["source"] == "amd_log")):
        row["process"] = None
    rows["queues"][0]["create_ioctl_event"] = None
    rows["queues"][1]["type"] = "compute_aql"


def _begin_late(rows: Rows) -> None:
    """Let the trace begin when the first queues are made, the SDMA queue among them; another one is made later."""
    rows["events"] = [r for r in rows["events"] if r["source"] != "ftrace" or r["ts_ns"] > 4_000]
    create = {"event": 13, "ts_ns": 4_500, "dur_ns": 300, "layer": "ioctl", "name": "AMDKFD_IOC_CREATE_QUEUE"}
    rows["events"].append({**create, "result": "0", "process": 0, "source": "ftrace"})
    rows["queues"][0]["create_ioctl_event"] = None
    rows["queues"][1].update(type="compute_aql", create_ioctl_event=13)


@pytest.mark.parametrize(
    ("claim", "change", "told"),
    [
        ("queue_creation_complete", _forget_processes,
         "the log names no process: its queues cannot be joined to the trace"),
        ("queue_creation_complete", _begin_late, "the other queues were created before the kernel trace began"),
        ("copies_use_user_sdma", _forget_processes, "1 engine copy of a process without a name in the log"),
        ("copies_use_user_sdma", _begin_late,
         "1 engine copy of processes with queues created before the kernel trace began"),
    ],
)  # fmt: skip
def test_what_the_trace_cannot_show_is_unknown(claim: str, change: Change, told: str) -> None:
    rows = make_run()
    change(rows)
    assert judge(rows, claim)[:2] == ("UNKNOWN", told)


def test_a_copy_whose_engine_is_not_named_may_be_a_kernel() -> None:
    """ROCr copies by a kernel of its own where it has no engine for a copy (HSA_ENABLE_SDMA=0)."""
    rows = make_run()
    put("queues", 1, type="compute_aql")(rows)
    rows["launches"][-1]["engine"] = None
    told = "the log names no engine for 1 copy: ROCr chose the path"
    assert judge(rows, "copies_use_user_sdma")[:2] == ("UNKNOWN", told)


def _with_a_second_node(other: Rows) -> Evidence:
    """Return a dataset of the run, none of whose jobs went to a compute ring, and another one on node b."""
    first = make_run()
    first["drm_jobs"] = [job for job in first["drm_jobs"] if job["ring_kind"] != "kcq"]
    return join_runs(a=first, b=other)


def _judge_of(evidence: Evidence, name: str) -> tuple[str, str]:
    (verdict,) = judge_capture(evidence, names=[name])
    return str(verdict.outcome), verdict.finding.reason


def test_a_node_that_did_not_look_proves_nothing_by_what_is_not_there() -> None:
    log_alone = make_run()
    log_alone["drm_jobs"] = []
    log_alone["events"] = [row for row in log_alone["events"] if row["source"] == "amd_log"]
    told = ("UNKNOWN", "b: no event of the gpu_scheduler is recorded")
    assert _judge_of(_with_a_second_node(log_alone), "no_kcq_use") == told
    no_probe = make_run()
    drop_layer("mqd")(no_probe)
    dataset = _with_a_second_node(no_probe)
    assert _judge_of(dataset, "mqd_ops_per_queue") == ("UNKNOWN", "b: no MQD operation is recorded")
    assert _judge_of(dataset, "queue_creation_complete") == ("UNKNOWN", "b: no MQD of a queue creation is recorded")
    broken = make_run()
    drop_events(5)(broken)
    outcome, reason = _judge_of(_with_a_second_node(broken), "mqd_ops_per_queue")
    assert outcome == "FAIL" and reason.startswith("b: 1 of 2 created queues")
    same = make_run()
    same["drm_jobs"] = []
    assert _judge_of(_with_a_second_node(same), "no_kcq_use")[0] == "PASS"


def test_what_was_refused_is_counted_among_what_was_seen() -> None:
    rows = _with_a_process_of_a_log_alone()
    put_event(3, result="EINVAL")(rows)
    put_event(10, result="EINVAL")(rows)
    assert judge(rows, "queue_creation_complete")[1] == "1 of 1 CREATE_QUEUE ioctls were refused (EINVAL)"
    copies = "1 engine copy of processes without an SDMA queue: the driver refused 1 that they requested (EINVAL)"
    assert judge(rows, "copies_use_user_sdma")[1] == copies


def test_a_priority_that_did_not_arrive_is_told_stage_by_stage() -> None:
    rows = make_run()
    put("hqd", 1, queue_priority=7)(rows)
    told = "the priority of 1 queue is not the requested one, queue 0: HIP -1, log 2, driver 11, HQD 7"
    assert judge(rows, "priority_reaches_hardware")[:2] == ("FAIL", told)


@pytest.mark.parametrize(("hip", "log", "special"), [(0, 1, 0), (None, 1, 0), (0, None, 0), (1, 0, 1), (None, 0, 1)])
def test_queues_of_the_normal_priority_are_not_followed(hip: int | None, log: int | None, special: int) -> None:
    rows = make_run()
    put("queues", 0, priority_hip=hip, priority_log=log)(rows)
    put("streams", 0, priority=hip)(rows)
    (verdict,) = judge_capture(tables_of(rows), names=["priority_reaches_hardware"])
    assert verdict.finding.counts["with_special_priority"] == special


@pytest.mark.parametrize(
    ("rule", "name", "gap_ns", "outcome"), [
        ("packet_of_command", "Task", -10, "PASS"),
        ("packet_of_command", "KernelExecution", -10, "FAIL"),
        ("command_in_call", "Task", -10, "FAIL"),
        ("rocprof_of_packet", "dispatch", -10, "PASS"),
        pytest.param("command_in_call", "Task", -5, "PASS", id="as far before its cause as the error"),
        pytest.param("command_in_call", "Task", -6, "FAIL", id="further"),
    ],
)  # fmt: skip
def test_lines_that_are_printed_behind_what_they_cause_break_no_causality(
    rule: str, name: str, gap_ns: int, outcome: str
) -> None:
    """The command of a graph launch is printed behind its packets; what rocprof timed is not judged."""
    rows = make_run()
    add("events", event=70, ts_ns=5_500, layer="command", name=name, process=0)(rows)
    put("links", 1, rule=rule, from_event=70, gap_ns=gap_ns, gap_err_ns=5)(rows)
    assert judge(rows, "causality")[0] == outcome


def test_slots_of_other_programs_are_not_blamed_on_this_one() -> None:
    """A dump shows the queues of all that use the GPU; without any known queue all slots are asked alike."""
    rows = make_run()
    add("hqd", snapshot=0, dump="hqds", type="cp", active=True, quantum=0x110)(rows)
    outcome, reason, _ = judge(rows, "hqd_quantum")
    assert (outcome, reason.split("; ")[1]) == (
        "UNKNOWN", "1 have none enabled, but may be queues of other programs",
    )  # fmt: skip
    add("queues", queue=2, process=1, gpu=0, type="compute_aql")(rows)
    put("hqd", 2, queue=2)(rows)
    assert judge(rows, "hqd_quantum")[0] == "UNKNOWN"
    put("hqd", 1, quantum=0x110)(rows)
    assert judge(rows, "hqd_quantum")[:2] == (
        "FAIL", "2 active compute slots, quantum 0x110; 1 have none enabled",
    )  # fmt: skip
    empty("queues")(rows)
    assert judge(rows, "hqd_quantum")[1].endswith("2 have none enabled")


def test_a_dump_without_any_queue_of_the_log_says_nothing_of_it() -> None:
    rows = make_run()
    put("hqd", 1, queue=None)(rows)
    outcome, reason, remedy = judge(rows, "hqd_quantum")
    assert (outcome, remedy.startswith("take HQD dumps while")) == ("UNKNOWN", True)
    assert reason.startswith("no queue of the dump is one of this log")
    assert reason.endswith("it shows 1 active compute slots, quantum 0x111")
    sections = {s.key: s for s in summarize_capture("x", tables_of(rows)).sections}
    assert sections["hqd"].missing.startswith("no queue of the dump is one of this log")
    # An MQD of the same dump is enough, and a log that names no ring can tell nothing.
    add("hqd", snapshot=0, dump="mqds", type="cp", queue=0)(rows)
    assert judge(rows, "hqd_quantum")[0] == "PASS"
    rows["hqd"].pop()
    put("queues", 0, hwq=None)(rows)
    assert judge(rows, "hqd_quantum")[0] == "PASS"


def test_copies_that_rocr_refused_are_told_where_it_made_no_other() -> None:
    rows = make_run()
    add("events", event=60, ts_ns=8_060, layer="copy", name="copy_refused", process=0)(rows)
    (verdict,) = judge_capture(tables_of(rows), names=["copies_use_user_sdma"])
    assert (verdict.outcome, verdict.finding.counts["refused_copies"]) == ("PASS", 1)
    rows["launches"] = [row for row in rows["launches"] if row["kind"] != "copy"]
    told = "ROCr refused 1 copy that HIP requested, and blit kernels did them; no other copy was requested"
    assert judge(rows, "copies_use_user_sdma")[:2] == ("UNKNOWN", told)


def _lose(from_ns: int, to_ns: int) -> Rows:
    """Return the run with seven records lost on one CPU, told as the readers tell it: as a span and in the ledger."""
    rows = make_run()
    add("losses", source="ftrace", cpu=0, from_ns=from_ns, to_ns=to_ns, count=7)(rows)
    booked = {"outcome": "lost", "reason": "ring_buffer_overrun", "records": 7, "bytes": 0}
    add("ledger", file=1, source="ftrace", **booked)(rows)
    return rows


def test_a_capture_that_was_killed_may_have_lost_what_it_had_not_stored() -> None:
    """Nobody counts what lay in the buffers of the kernel then."""
    for state, outcome in (("killed", "UNKNOWN"), ("complete", "PASS")):
        (verdict,) = judge_capture(tables_of(make_run()), info={"state": state}, names=["nothing_lost"])
        assert (verdict.outcome.value, "was killed" in verdict.finding.reason) == (outcome, state == "killed")


def test_a_lost_record_counts_once() -> None:
    (verdict,) = judge_capture(tables_of(_lose(5_000, 5_100)), names=["nothing_lost"])
    assert verdict.finding.reason == "7 records were lost, 0 files are not accounted for"
    assert (verdict.finding.counts["records_read"], verdict.finding.counts["records_lost"]) == (18, 7)
    told = judge(_lose(5_000, 5_100), "no_kcq_use")
    assert told[0] == "UNKNOWN" and told[1].startswith("records were lost in 1 place while the program ran")


def test_what_was_lost_while_hip_did_nothing_changes_no_other_verdict() -> None:
    found = {v.name: str(v.outcome) for v in judge_capture(tables_of(_lose(900_000, 900_100)))}
    assert found.pop("nothing_lost") == "FAIL"
    assert set(found.values()) == {"PASS"}


def test_the_losses_of_a_trace_are_told_as_the_trace_tells_them(tmp_path: Path) -> None:
    stamp = "         t1-7       (      7) [000] .....     {}.000000: sched_process_exit: comm=t1 pid=7 prio=120\n"
    text = f"{stamp.format(1)}CPU:0 [LOST 40 EVENTS]\n{stamp.format(2)}CPU:0 [LOST EVENTS]\n{stamp.format(3)}"
    (tmp_path / "trace.txt").write_text(f"# tracer: nop\n{text}")
    made = import_files(tmp_path / "x.tracecorr", [], [tmp_path / "trace.txt"])
    correlate(made.path)
    report = summarize_capture("x", made.table, made.info)
    assert report.summary["records_lost"] == 40
    assert "records lost: 40, and those of 1 span of unknown number\n" in render_markdown(report)


def test_system_calls_of_launches_are_counted_apart_from_those_of_set_up() -> None:
    """The launch 19 waits, the launch 23 allocates memory; those of the copy 27 are of no launch."""
    rows = make_run()
    calls = [(19, "futex", "syscall"), (19, "futex", "syscall"), (19, "AMDKFD_IOC_WAIT_EVENTS", "ioctl"),
             (19, "madvise", "syscall"), (23, "mmap", "syscall"), (23, "futex", "syscall"),
             (27, "futex", "syscall")]  # fmt: skip
    for n, (chain, name, layer) in enumerate(calls):
        add("events", event=60 + n, ts_ns=8_000 + n, layer=layer, name=name, process=0, chain=chain)(rows)
    # Two packets of one call.
    rows["launches"].append(rows["launches"][0] | {"event": 90})
    (verdict,) = judge_capture(tables_of(rows), names=["compute_uses_doorbell"])
    counted = [(key, count) for key, count in verdict.finding.counts.items() if key.startswith(("steady", "syscalls"))]
    assert counted == [
        ("syscalls_in_setup_launches", 2), ("syscalls_in_steady_launches", 4), ("steady_futex", 2),
        ("steady_AMDKFD_IOC_WAIT_EVENTS", 1), ("steady_madvise", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "said", "unknown"),
    [
        ([("amd_log", 0), ("amd_log", None), ("ftrace", None)],
         "records were lost in 2 of 3 spans, their number is unknown", 2),
        ([("ftrace", None)], "records were lost in 1 span, their number is unknown", 1),
        ([("amd_log", 0)], "no whole record was lost, but parts of some in 1 span", None),
        ([("amd_log", 0), ("ftrace", 7)], "7 records were lost", None),
        ([("amd_log", 2), ("ftrace", 7)], "at least 9 records were lost", None),
        ([("ftrace", 7), ("ftrace", None)], "7 records were lost (and those of 1 span of unknown number)", 1),
    ],
)  # fmt: skip
def test_no_loss_is_told_as_at_least_zero(losses: list[tuple[str, int | None]], said: str, unknown: int | None) -> None:
    rows = make_run()
    rows["losses"] = [{"source": s, "cpu": None, "from_ns": 5_000, "to_ns": 5_100, "count": n} for s, n in losses]
    (verdict,) = judge_capture(tables_of(rows), names=["nothing_lost"])
    assert verdict.finding.reason == f"{said}, 0 files are not accounted for"
    assert verdict.finding.counts.get("spans_of_unknown_number") == unknown
    assert verdict.finding.counts["loss_spans"] == len(losses)
