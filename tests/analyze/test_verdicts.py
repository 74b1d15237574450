"""Each verdict on a run where the claim holds, where it does not, and where the capture cannot tell.

The runs are SYNTHETIC (`synthetic_run.py`), except where a test says that they are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.markdown import render_markdown
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.verdicts import CLAIMS, Evidence, Thresholds, judge_capture
from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store.keys import count_keys, move_table

NAMES = [claim.name for claim in CLAIMS]
Change = Callable[[Rows], None]


def judge(rows: Rows, name: str, **options: Any) -> tuple[str, str, str]:
    """Return outcome, reason and remedy of one verdict."""
    (verdict,) = judge_capture(tables_of(rows), names=[name], **options)
    return str(verdict.outcome), verdict.finding.reason, verdict.finding.remedy


def put(table: str, place: int, **values: Any) -> Change:
    """Return a change that sets columns of one row."""
    return lambda rows: rows[table][place].update(values)


def put_event(event: int, **values: Any) -> Change:
    """Return a change that sets columns of one event."""
    return lambda rows: next(r for r in rows["events"] if r["event"] == event).update(values)


def drop_events(*events: int) -> Change:
    """Return a change that takes events away."""
    return lambda rows: rows.update(events=[r for r in rows["events"] if r["event"] not in events])


def drop_layer(layer: str) -> Change:
    """Return a change that takes a whole layer away, as if it had not been recorded."""
    return lambda rows: rows.update(events=[r for r in rows["events"] if r["layer"] != layer])


def add(table: str, **values: Any) -> Change:
    """Return a change that adds a row."""
    return lambda rows: rows[table].append(values)


def empty(table: str) -> Change:
    """Return a change that empties a table."""
    return lambda rows: rows.update({table: []})


_CS = {"event": 50, "ts_ns": 8_000, "layer": "ioctl", "name": "DRM_IOCTL_AMDGPU_CS", "process": 0}
_SECOND_INIT = {"event": 51, "ts_ns": 1_160, "layer": "mqd", "name": "init_mqd_v9_4_3", "parent": 3, "process": 0}
_SECOND_STORE = {"event": 52, "ts_ns": 5_500, "layer": "doorbell", "name": "doorbell", "queue": 0, "packet_index": 0}

FAILS: list[tuple[str, Change, dict[str, int | None], list[int]]] = [
    ("nothing_lost", add("losses", source="ftrace", cpu=0, from_ns=5_000, to_ns=5_100, count=7), {"loss_spans": 1,
     "records_lost": 7}, []),
    ("nothing_lost", put("ledger", 0, bytes=90), {"unaccounted_files": 1}, []),
    ("clock_aligned", put("clock_map", 1, method="unaligned"), {"unaligned": 1}, []),
    ("clock_aligned", put("clock_map", 1, violated=1), {"contradictions": 1}, []),
    ("clock_aligned", put("clock_map", 1, hi_ns=200_000), {"wider_than_limit": 1}, []),
    ("causality", put("links", 1, gap_ns=-10), {"broken": 1}, [21]),
    ("compute_uses_doorbell", add("events", **_CS), {"drm_command_submissions": 1}, [50]),
    ("doorbell_per_packet", put("launches", 0, doorbell_event=25), {"own_store": 1, "batched": 1}, [20]),
    ("doorbell_per_packet", add("events", **_SECOND_STORE), {"stores": 3, "stored_twice": 1}, [21, 52]),
    ("packet_sequence_complete", put("launches", 1, packet_index=2), {"missing": 1}, [20]),
    ("packet_sequence_complete", put("launches", 1, packet_index=0), {"repeated": 1}, [20]),
    ("copies_use_user_sdma", put("queues", 1, type="compute_aql"), {"sdma_queues": 0}, [28]),
    ("copies_use_user_sdma", put_event(10, result="EINVAL"), {"sdma_queues": 0, "refused_sdma_queues": 1}, [10]),
    ("no_kcq_use", put("drm_jobs", 1, process=0), {"kcq_jobs_of_these_processes": 1}, [41]),
    ("queue_creation_complete", put_event(3, result="EINVAL"), {"refused": 1}, [3]),
    ("queue_creation_complete", drop_events(5), {"with_MQD": 0}, [9]),
    ("kfd_create_under_1ms", put_event(3, dur_ns=1_000_001), {"slower": 1, "longest_ns": 1_000_001}, [3]),
    ("rocr_create_time", put_event(9, ts_ns=1_050 + 10_000_001), {"slower": 1, "longest_ns": 10_000_001}, [9]),
    ("mqd_ops_per_queue", drop_events(5), {"mqd_operations": 1, "init_by_create": 1}, [3]),
    ("mqd_ops_per_queue", add("events", **_SECOND_INIT), {"mqd_operations": 3, "init_by_create": 3}, [3]),
    ("scheduler_mode", put("gpus", 0, scheduler="MES"), {"gpus_MES": 1, "gpus_HWS": None}, [12]),
    ("priority_reaches_hardware", put("args", 0, u64=7), {}, [6]),
    ("priority_reaches_hardware", put("queues", 0, priority_log=1), {}, [6]),
    ("priority_reaches_hardware", put("hqd", 1, queue_priority=7), {}, [6]),
    ("priority_reaches_hardware", put_event(6, result="EINVAL"), {"refused_updates": 1}, [6]),
    ("queue_backlog", put("launches", 1, wptr=16_000), {"full_queues": 1, "peak_packets": 16001}, [24]),
    ("hqd_quantum", put("hqd", 1, quantum=0x110), {"without_quantum": 1}, []),
]  # fmt: skip
# What each verdict counts in the run as it is, and the events that it names.
COUNTED: dict[str, tuple[dict[str, int], list[int]]] = {
    "nothing_lost": ({"records_read": 18, "loss_spans": 0, "records_lost": 0, "unaccounted_files": 0}, []),
    "clock_aligned": ({"clocks": 2, "unaligned": 0, "unproven": 0, "wider_than_limit": 0, "contradictions": 0,
     "pairs": 9, "limit_ns": 100_000}, []),
    "causality": ({"links": 2, "checked": 2, "not_judged": 0, "broken": 0}, []),
    "compute_uses_doorbell": ({"packets": 2, "recorded": 2, "inferred": 0, "intercepted_packets": 0,
     "drm_command_submissions": 0, "syscalls_in_setup_launches": 0, "syscalls_in_steady_launches": 0}, []),
    "doorbell_per_packet": ({"packets": 2, "stores": 2, "own_store": 2, "batched": 0, "without": 0, "stored_twice":
     0}, []),
    "packet_sequence_complete": ({"queues": 1, "packets": 2, "indexed": 2, "missing": 0, "repeated": 0}, []),
    "copies_use_user_sdma": ({"engine_copies": 1, "sdma_queues": 1, "drm_jobs": 2, "drm_jobs_of_these_processes": 0,
     "blit_kernels": 0, "host_memcpy_steps": 0, "copies_of_unnamed_engine": 0}, [10]),
    "no_kcq_use": ({"drm_jobs": 2, "kcq_jobs": 1, "kcq_jobs_of_these_processes": 0,
     "kcq_jobs_of_unknown_submitters": 0}, []),
    "queue_creation_complete": ({"queues": 1, "with_ioctl": 1, "with_driver_function": 1, "with_MQD": 1,
     "with_doorbell_mapping": 1, "refused": 0}, [3]),
    "kfd_create_under_1ms": ({"create_queue_ioctls": 2, "successful": 2, "limit_ns": 1_000_000, "slower": 0,
     "longest_ns": 300, "without_duration": 0}, [3, 10]),
    "rocr_create_time": ({"queues": 1, "slower": 0, "longest_ns": 850, "limit_ns": 10_000_000}, [9]),
    "mqd_ops_per_queue": ({"queues_created": 2, "mqd_operations": 2, "init_by_create": 2}, [5, 11]),
    "scheduler_mode": ({"functions_HWS": 1, "active_hiq_HWS": 1, "gpus_HWS": 1}, [12]),
    "priority_reaches_hardware": ({"queues": 1, "with_special_priority": 1, "refused_updates": 0}, [6]),
    "queue_backlog": ({"queues": 1, "full_queues": 0, "peak_packets": 2, "ring_packets": 16384}, [24]),
    "hqd_quantum": ({"snapshots": 1, "slots": 2, "active_compute_slots": 1, "without_quantum": 0,
     "different_quanta": 1}, []),
}  # fmt: skip
UNKNOWNS: list[tuple[str, Change]] = [
    ("nothing_lost", empty("ledger")),
    ("clock_aligned", put("clock_map", 1, method="same_clock", pairs=0)),
    ("causality", empty("links")),
    ("compute_uses_doorbell", put("launches", 0, doorbell_evidence="inferred")),
    ("compute_uses_doorbell", put("queues", 0, intercepted=True)),
    ("compute_uses_doorbell", drop_layer("ioctl")),
    ("compute_uses_doorbell", empty("launches")),
    ("doorbell_per_packet", drop_layer("doorbell")),
    ("doorbell_per_packet", put("launches", 0, doorbell_event=None)),
    ("packet_sequence_complete", put("launches", 1, packet_index=None)),
    ("copies_use_user_sdma", put("queues", 1, type=None)),
    ("copies_use_user_sdma", lambda rows: rows["launches"].pop()),  # type: ignore[list-item]
    ("no_kcq_use", put("drm_jobs", 1, process=None)),
    ("no_kcq_use", lambda rows: (empty("drm_jobs")(rows), drop_layer("drm_sched")(rows))),  # type: ignore[list-item]
    ("queue_creation_complete", drop_layer("mqd")),
    ("kfd_create_under_1ms", drop_layer("ioctl")),
    ("kfd_create_under_1ms", put_event(3, dur_ns=None)),
    ("kfd_create_under_1ms", put_event(3, dur_ns=None, result=None)),
    ("kfd_create_under_1ms", put("clock_map", 1, source="ftrace:uptime")),
    ("rocr_create_time", drop_events(2)),
    ("mqd_ops_per_queue", drop_layer("mqd")),
    ("mqd_ops_per_queue", lambda rows: (put_event(5, name="update_mqd")(rows), drop_events(11)(rows))),  # type: ignore[list-item]
    ("mqd_ops_per_queue", lambda rows: (put_event(5, parent=None)(rows), put_event(11, parent=None)(rows))),  # type: ignore[list-item]
    ("scheduler_mode", lambda rows: (empty("gpus")(rows), empty("hqd")(rows), drop_events(12)(rows))),  # type: ignore[list-item]
    ("priority_reaches_hardware", empty("args")),
    ("priority_reaches_hardware", put("hqd", 1, queue=None)),
    ("priority_reaches_hardware", empty("queues")),
    ("queue_backlog", put("queues", 0, size=None)),
    ("hqd_quantum", empty("hqd")),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_holds_for_a_whole_run(name: str) -> None:
    (verdict,) = judge_capture(tables_of(make_run()), names=[name])
    found = verdict.finding
    assert (verdict.outcome, found.counts, list(found.events)) == ("PASS", *COUNTED[name])


@pytest.mark.parametrize(("name", "change", "other", "events"), FAILS)
def test_a_claim_that_the_run_contradicts_fails(
    name: str, change: Change, other: dict[str, int | None], events: list[int]
) -> None:
    """The counts are those of the run as it is but for `other`; None = not counted then."""
    rows = make_run()
    change(rows)
    (verdict,) = judge_capture(tables_of(rows), names=[name])
    counts = {key: count for key, count in (COUNTED[name][0] | other).items() if count is not None}
    assert (verdict.outcome, verdict.finding.counts, list(verdict.finding.events)) == ("FAIL", counts, events)


@pytest.mark.parametrize(("name", "change"), UNKNOWNS)
def test_a_claim_without_its_evidence_is_unknown_and_says_what_helps(name: str, change: Change) -> None:
    rows = make_run()
    change(rows)
    outcome, reason, remedy = judge(rows, name)
    assert (outcome, bool(reason), bool(remedy)) == ("UNKNOWN", True, True)


def test_every_verdict_has_all_three_tests() -> None:
    assert {name for name, *_ in FAILS} == {name for name, _ in UNKNOWNS} == set(NAMES)


def test_empty_capture_proves_nothing() -> None:
    found = judge_capture(lambda name: schema.TABLES[name].empty().lazy())
    assert {str(v.outcome) for v in found} == {"UNKNOWN"}
    assert all(v.finding.remedy for v in found)


def test_a_late_doorbell_probe_is_the_reason_given() -> None:
    """Not the probe lacked: it came when the library had been mapped already."""
    entry = {"before_start": False, "probes": ["doorbell__2"], "seen_ns": 1_000, "doorbells_ns": 671_001_000}
    entry["armed_ns"] = 672_000_000
    rows = make_run()
    drop_layer("doorbell")(rows)
    rows["launches"][0].update(doorbell_evidence="inferred")
    for name in ("compute_uses_doorbell", "doorbell_per_packet"):
        told = []
        for late in ([entry], [entry | {"before_start": True}]):
            evidence = Evidence(tables_of(rows), None, {"plan": {"late": late}})
            (verdict,) = judge_capture(evidence, names=[name])
            assert verdict.outcome == "UNKNOWN"
            told.append((verdict.finding.reason, verdict.finding.remedy))
        assert "671.00 ms after the library was mapped" in told[0][0] and "before the start" in told[0][1]
        assert "mapped" not in told[1][0] and "before the start" not in told[1][1]


@pytest.mark.parametrize("name", ["no_kcq_use", "compute_uses_doorbell", "packet_sequence_complete"])
def test_losses_open_what_rests_on_absence(name: str) -> None:
    rows = make_run()
    source = "amd_log" if name == "packet_sequence_complete" else "ftrace"
    rows["losses"].append({"source": source, "cpu": 0, "from_ns": 5_500, "to_ns": 5_600, "count": 1})
    assert judge(rows, name)[0] == "UNKNOWN"
    rows["losses"][0].update(from_ns=1, to_ns=2)  # before HIP did anything
    assert judge(rows, name)[0] == "PASS"


def test_a_lost_update_excuses_the_priority_that_a_queue_was_created_with() -> None:
    rows = make_run()
    drop_events(6, 7)(rows)
    rows["hqd"].clear()
    assert judge(rows, "priority_reaches_hardware")[0] == "FAIL"
    rows["losses"].append({"source": "ftrace", "cpu": 0, "from_ns": 1_500, "to_ns": 2_600, "count": 1})
    assert judge(rows, "priority_reaches_hardware")[0] == "UNKNOWN"


def test_losses_do_not_excuse_what_was_seen() -> None:
    rows = make_run()
    rows["losses"].append({"source": "ftrace", "cpu": 0, "from_ns": 5_500, "to_ns": 5_600, "count": 1})
    rows["events"].append(_CS)
    assert judge(rows, "compute_uses_doorbell")[0] == "FAIL"


def test_a_barrier_store_before_its_line_breaks_no_causality() -> None:
    rows = make_run()
    rows["launches"][0]["kind"] = "barrier_and"
    rows["links"][1]["gap_ns"] = -61_000
    assert judge(rows, "causality")[0] == "PASS"


def test_thresholds_decide_where_a_claim_names_one() -> None:
    rows = make_run()
    assert judge(rows, "kfd_create_under_1ms", thresholds=Thresholds(kfd_create_ns=299))[0] == "FAIL"
    assert judge(rows, "scheduler_mode", thresholds=Thresholds(scheduler="MES"))[0] == "FAIL"
    put("launches", 0, doorbell_event=25)(rows)
    half = Thresholds.from_words(["batched_doorbell_share=0.5"])
    assert judge(rows, "doorbell_per_packet", thresholds=half)[0] == "PASS"


@pytest.mark.parametrize("word", ["nothing=1", "kfd_create_ns=soon", "kfd_create_ns"])
def test_wrong_thresholds_are_refused(word: str) -> None:
    with pytest.raises(InputError):
        Thresholds.from_words([word])


def test_armed_probes_make_absence_known() -> None:
    rows = make_run()
    rows["drm_jobs"] = []
    drop_layer("drm_sched")(rows)
    instance = {"events": [{"system": "gpu_scheduler", "name": "drm_sched_job"}], "functions": []}
    assert judge(rows, "no_kcq_use", info={"plan": {"instances": [instance]}})[0] == "PASS"
    assert judge(rows, "no_kcq_use", info={"plan": {"instances": []}})[0] == "UNKNOWN"


def test_unknown_verdict_is_refused() -> None:
    with pytest.raises(InputError, match="no verdict 'x'"):
        judge_capture(tables_of({}), names=["x"])


def test_a_priority_that_differs_by_an_inferred_ring_proves_nothing() -> None:
    """Up to ROCm 6.1: streams are of the ring, the priority in the log is of the Created line."""
    run = make_run()
    run["queues"][0] |= {"priority_hip": 0}
    assert judge(run, "priority_reaches_hardware")[0] == "FAIL"
    run["queues"][0] |= {"ring_evidence": "inferred"}
    outcome, reason, _ = judge(run, "priority_reaches_hardware")
    assert outcome == "UNKNOWN" and reason.endswith("which ring the line of its creation tells of is inferred")


RECORDED = {
    "mt-threads": {"doorbell_per_packet": "FAIL", "compute_uses_doorbell": "PASS", "packet_sequence_complete": "PASS"},
    "kfd-6.12-t1": {
        "copies_use_user_sdma": "FAIL", "queue_creation_complete": "FAIL", "kfd_create_under_1ms": "UNKNOWN",
        "priority_reaches_hardware": "FAIL", "rocr_create_time": "FAIL", "doorbell_per_packet": "PASS",
    },
    "hip-5.7.1": {
        "clock_aligned": "UNKNOWN", "compute_uses_doorbell": "UNKNOWN", "packet_sequence_complete": "UNKNOWN",
        "queue_backlog": "UNKNOWN", "rocr_create_time": "PASS",
    },
}  # fmt: skip


@pytest.mark.parametrize("capture", RECORDED)
def test_verdicts_on_recorded_runs_are_known(capture: str, data_folder: Path, tmp_path: Path) -> None:
    """RECORDED runs of the null GPU: its driver refuses CREATE_QUEUE, and the verdict says so."""
    folder = data_folder / "captures" / capture
    trace, samples = folder / "ftrace.txt", folder / "clock.json"
    made = import_files(
        tmp_path / "x.tracecorr", [folder / "amd.log"], [trace] if trace.exists() else [],
        clock_samples=samples if samples.exists() else None,
    )  # fmt: skip
    correlate(made.path)
    found = {v.name: str(v.outcome) for v in judge_capture(made.table, info=made.info)}
    assert {name: found[name] for name in RECORDED[capture]} == RECORDED[capture]
    assert found["nothing_lost"] == found["causality"] == "PASS"


@pytest.mark.parametrize(("dump", "quantum"), [("active-32streams", "PASS"), ("idle", "UNKNOWN")])
def test_dumps_of_real_gpus(dump: str, quantum: str, data_folder: Path, tmp_path: Path) -> None:
    """REAL register dumps of 8 x MI308X: busy ones show a quantum, and both that the firmware schedules."""
    made = import_files(
        tmp_path / "x.tracecorr",
        [data_folder / "captures" / "hip-7.2.4" / "amd.log"],
        [],
        hqd=[data_folder / "real" / f"kfd-hqds-mi308x-8gpu-{dump}.txt"],
    )
    correlate(made.path)
    names = ["hqd_quantum", "scheduler_mode"]
    found = {v.name: str(v.outcome) for v in judge_capture(made.table, info=made.info, names=names)}
    assert found == {"hqd_quantum": quantum, "scheduler_mode": "PASS"}


def test_reasons_name_stages_and_what_is_missing_in_words() -> None:
    """Not the names of columns; and without a trace it is the trace that is missing."""
    run = make_run()
    run["files"] = [row for row in run["files"] if row["source"] != "ftrace"]
    run["hqd"] = []
    run["queues"] = [{**row, "priority_ioctl": None, "create_ioctl_event": None} for row in run["queues"]]
    run["events"] = [row for row in run["events"] if row["layer"] in ("hip", "aql", "copy")]
    said = {v.name: v.finding.reason for v in judge_capture(tables_of(run))}
    assert said["copies_use_user_sdma"] == "1 engine copy, but no kernel trace tells which queues were made"
    told = "the priority in the driver is not known of 1 queue; it agrees as far as the log"
    assert said["priority_reaches_hardware"] == told


def test_queues_of_which_the_log_shows_no_priority_are_told() -> None:
    run = make_run()
    run["queues"][0] |= {"priority_hip": None, "priority_log": None}
    run["streams"][0] |= {"priority": None, "create_event": None}
    reason = judge(run, "priority_reaches_hardware")[1]
    assert reason.endswith("; of 1 queue the log shows neither a stream nor its creation")


def test_what_no_duration_shows_of_a_queue_creation_is_told() -> None:
    rows = make_run()
    for event in (3, 10):
        put_event(event, dur_ns=None)(rows)
    told = "the trace does not show how long the 2 that succeeded took"
    assert judge(rows, "kfd_create_under_1ms")[1] == told
    rows["clock_map"][1].update(source="ftrace:counter", method="unaligned")
    assert judge(rows, "kfd_create_under_1ms")[1] == f"{told}: ftrace:counter counts steps that are no nanoseconds"


def test_a_wide_clock_is_told_with_its_width_and_what_it_is_of() -> None:
    run = make_run()
    pieces = ({"lo_ns": 300_000, "hi_ns": 0}, {"lo_ns": 600_000, "hi_ns": 47_190})
    run["clock_map"] += [{"source": "amd_log:boot", "method": "causal_pairs", "violated": 0, **p} for p in pieces]
    (said,) = [v.finding.reason for v in judge_capture(tables_of(run)) if v.name == "clock_aligned"]
    told = "the error of amd_log:boot (the log's GPU times, 647.19 us) is wider than 100.00 us"
    assert said == f"{told}; all others are known to 900 ns"


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
        ("copies_use_user_sdma", "1 engine copy of processes that no kernel trace shows"),
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
        ("queue_creation_complete", _begin_late, "the other queues were made before the kernel trace began"),
        ("copies_use_user_sdma", _forget_processes, "1 engine copy of a process that the log does not name"),
        ("copies_use_user_sdma", _begin_late,
         "1 engine copy of processes that made queues before the kernel trace began"),
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
    told = "the log names no engine of 1 copy: ROCr chose which way to take"
    assert judge(rows, "copies_use_user_sdma")[:2] == ("UNKNOWN", told)


def test_jobs_may_be_those_of_a_process_that_only_the_log_names() -> None:
    rows = _with_a_process_of_a_log_alone()
    outcome, reason, _ = judge(rows, "no_kcq_use")
    assert outcome == "UNKNOWN" and reason.startswith("1 job went to compute rings, and not every process")
    rows["drm_jobs"] = [job for job in rows["drm_jobs"] if job["ring_kind"] != "kcq"]
    assert judge(rows, "no_kcq_use")[0] == "PASS"


def _with_a_second_node(other: Rows) -> Evidence:
    """Return a dataset of the run, none of whose jobs went to a compute ring, and another one on node b."""
    first = make_run()
    first["drm_jobs"] = [job for job in first["drm_jobs"] if job["ring_kind"] != "kcq"]
    a, b = tables_of(first), tables_of(other)
    used = count_keys(a)
    moved = {name: move_table(b(name), name, used, 0) for name in schema.TABLES}
    whole = {name: pl.concat([a(name), moved[name]]) for name in schema.TABLES}
    return Evidence(whole.__getitem__, nodes={"a": a, "b": moved.__getitem__})


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
    copies = "1 engine copy of processes without an SDMA queue: the driver refused 1 that they asked for (EINVAL)"
    assert judge(rows, "copies_use_user_sdma")[1] == copies


def test_packets_before_the_log_began_are_missed_only_where_the_log_shows_the_queue_being_made() -> None:
    rows = make_run()
    for place, index in enumerate((7, 9)):
        put("launches", place, packet_index=index, wptr=index)(rows)
    assert judge(rows, "packet_sequence_complete")[1].startswith("8 indexes are missing and 0 occur twice, on 1 queue:")
    put("queues", 0, created_line_event=None)(rows)
    assert judge(rows, "packet_sequence_complete")[1].startswith("1 index is missing and 0 occur twice, on 1 queue:")
    put("launches", 1, packet_index=8, wptr=8)(rows)
    assert judge(rows, "packet_sequence_complete")[:2] == ("PASS", "2 packets on 1 queue, no index missing")


def test_a_priority_that_did_not_arrive_is_told_stage_by_stage() -> None:
    rows = make_run()
    put("hqd", 1, queue_priority=7)(rows)
    told = "1 queue differs, it is queue 0: HIP -1, log 2, driver 11, HQD 7"
    assert judge(rows, "priority_reaches_hardware")[:2] == ("FAIL", told)


def test_an_unaligned_trace_is_the_reason_only_where_no_ioctl_is_joined() -> None:
    rows = make_run()
    put("clock_map", 1, method="unaligned")(rows)
    drop_events(5)(rows)
    lacking = "1 of 1 queues have no MQD in the trace"
    assert judge(rows, "queue_creation_complete")[:2] == ("FAIL", lacking)
    put("queues", 0, create_ioctl_event=None)(rows)
    told = "the trace is unaligned: no ioctl can be joined to its queue"
    assert judge(rows, "queue_creation_complete")[:2] == ("UNKNOWN", told)


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


def test_slots_that_are_not_active_tell_nothing() -> None:
    rows = make_run()
    add("hqd", snapshot=0, dump="hqds", type="cp", active=False, quantum=0x110)(rows)
    assert judge(rows, "hqd_quantum")[0] == "PASS"
    put("hqd", 0, active=False)(rows)
    (verdict,) = judge_capture(tables_of(rows), names=["scheduler_mode"])
    assert verdict.finding.counts == {"functions_HWS": 1, "gpus_HWS": 1}


def test_functions_of_a_driver_that_schedules_by_itself_are_none_of_the_firmware() -> None:
    """Their names end in those that the driver calls for the firmware."""
    rows = make_run()
    put_event(12, name="create_queue_nocpsch")(rows)
    for table in ("gpus", "hqd"):
        empty(table)(rows)
    assert judge(rows, "scheduler_mode")[:2] == ("FAIL", "the scheduler is none")


def test_other_ways_to_copy_are_counted_apart() -> None:
    rows = make_run()
    add("kernels", kernel=1, name="__amd_rocclr_fillBufferAligned.kd")(rows)
    put("launches", 1, kernel=1)(rows)
    for event, layer, name in ((60, "copy", "memcpy_h2d"), (61, "copy", "staged"), (62, "signal", "memcpy_wait")):
        add("events", event=event, ts_ns=8_000 + event, layer=layer, name=name, process=0)(rows)
    add("drm_jobs", job=2, ring="sdma0", ring_kind="sdma", process=0)(rows)
    (verdict,) = judge_capture(tables_of(rows), names=["copies_use_user_sdma"])
    assert verdict.finding.counts == {
        "engine_copies": 1, "sdma_queues": 1, "drm_jobs": 3, "drm_jobs_of_these_processes": 1, "blit_kernels": 1,
        "host_memcpy_steps": 1, "copies_of_unnamed_engine": 0,
    }  # fmt: skip
    assert verdict.finding.reason.endswith("3 drm jobs ran, 1 of them submitted by these")


def test_only_copies_of_processes_whose_sdma_queues_were_refused_are_told_with_the_refusal() -> None:
    """Process 2 was refused its queue, process 3 asked for none, process 0 has one."""
    rows = make_run()
    add("events", **{**_CS, "name": "AMDKFD_IOC_CREATE_QUEUE", "process": 2, "result": "ENOMEM"})(rows)
    add("queues", queue=2, process=2, type="sdma", create_ioctl_event=50)(rows)
    rows["launches"] += [rows["launches"][2] | {"event": 60 + n, "process": n // 2} for n in (4, 5, 6)]
    told = "2 engine copies of processes without an SDMA queue: the driver refused 1 that they asked for (ENOMEM)"
    assert judge(rows, "copies_use_user_sdma")[:2] == ("FAIL", told)


def _lose(from_ns: int, to_ns: int) -> Rows:
    """Return the run with seven records lost on one CPU, told as the readers tell it: as a span and in the ledger."""
    rows = make_run()
    add("losses", source="ftrace", cpu=0, from_ns=from_ns, to_ns=to_ns, count=7)(rows)
    booked = {"outcome": "lost", "reason": "ring_buffer_overrun", "records": 7, "bytes": 0}
    add("ledger", file=1, source="ftrace", **booked)(rows)
    return rows


def test_text_of_the_program_in_a_log_is_no_record_that_was_read() -> None:
    rows = make_run()
    skipped = {"outcome": "skipped", "reason": "program_output", "records": 81, "bytes": 0}
    add("ledger", file=0, source="amd_log", **skipped)(rows)
    assert judge(rows, "nothing_lost")[1] == "18 records were read, no source reports a loss"


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


def test_stores_whose_value_is_not_known_are_of_no_index_that_was_stored_twice() -> None:
    rows = make_run()
    for event in (60, 61):
        add("events", **_SECOND_STORE | {"event": event, "packet_index": None})(rows)
    assert judge(rows, "doorbell_per_packet")[0] == "PASS"


def test_the_first_twenty_packets_without_a_recorded_doorbell_are_named() -> None:
    rows = make_run()
    inferred = rows["launches"][0] | {"doorbell_evidence": "inferred"}
    rows["launches"][1:1] = [inferred | {"event": event} for event in range(100, 125)]
    (verdict,) = judge_capture(tables_of(rows), names=["compute_uses_doorbell"])
    assert list(verdict.finding.events) == list(range(100, 120))


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
