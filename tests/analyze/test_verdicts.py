"""Each verdict on a run where the claim holds, where it does not, and where the capture cannot tell.

The runs are SYNTHETIC (`synthetic_run.py`), except where a test says that they are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from analyze_tables import Rows, tables_of
from judging import (
    COMMAND_SUBMISSION,
    SECOND_INIT,
    SECOND_STORE,
    Change,
    add,
    drop_events,
    drop_layer,
    empty,
    judge,
    put,
    put_event,
)
from synthetic_run import make_run

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.verdicts import CLAIMS, Thresholds, judge_capture
from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

NAMES = [claim.name for claim in CLAIMS]


def _wait_for_what_stands_behind(rows: Rows) -> None:
    """Let packet 0 wait for the value that packet 1 of its ring would write, and the host for both."""
    put_event(19, name="hipStreamWaitValue64", arg=0x10)(rows)
    put_event(23, name="hipStreamWriteValue64", arg=0x10)(rows)
    put_event(27, name="hipStreamSynchronize", dur_ns=None, flags=1, stream=0)(rows)
    rows["launches"].pop()
    for packet in rows["launches"]:
        packet["header"] = 0xB02


FAILS: list[tuple[str, Change, dict[str, int | None], list[int]]] = [
    ("nothing_lost", add("losses", source="ftrace", cpu=0, from_ns=5_000, to_ns=5_100, count=7), {"loss_spans": 1,
     "records_lost": 7}, []),
    ("nothing_lost", put("ledger", 0, bytes=90), {"unaccounted_files": 1}, []),
    ("clock_aligned", put("clock_map", 1, method="unaligned"), {"unaligned": 1}, []),
    ("clock_aligned", put("clock_map", 1, violated=1), {"contradictions": 1}, []),
    ("clock_aligned", put("clock_map", 1, hi_ns=200_000), {"wider_than_limit": 1}, []),
    ("causality", put("links", 1, gap_ns=-10), {"broken": 1}, [21]),
    ("compute_uses_doorbell", add("events", **COMMAND_SUBMISSION), {"drm_command_submissions": 1}, [50]),
    ("doorbell_per_packet", put("launches", 0, doorbell_event=25), {"own_store": 1, "batched": 1}, [20]),
    ("doorbell_per_packet", add("events", **SECOND_STORE), {"stores": 3, "stored_twice": 1}, [21, 52]),
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
    ("mqd_ops_per_queue", add("events", **SECOND_INIT), {"mqd_operations": 3, "init_by_create": 3}, [3]),
    ("no_deadlock", _wait_for_what_stands_behind, {"open_calls": 1, "circles": 1}, [20, 24, 27]),
    ("scheduler_mode", put("gpus", 0, scheduler="MES"), {"gpus_MES": 1, "gpus_HWS": None}, [12]),
    ("priority_reaches_hardware", put("args", 0, u64=7), {}, [6]),
    ("priority_reaches_hardware", put("queues", 0, priority_log=1), {}, [6]),
    ("priority_reaches_hardware", put("hqd", 1, queue_priority=7), {}, [6]),
    ("priority_reaches_hardware", put("hqd", 1, queue_priority=0, pipe_priority=1), {}, [6]),
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
    "no_deadlock": ({"open_calls": 0, "circles": 0}, []),
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
    ("no_deadlock", put_event(27, dur_ns=None, flags=1)),
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
    unseen = {"doorbell_evidence": "inferred", "doorbell_event": None, "doorbell_lo_ns": 5_401, "doorbell_hi_ns": 5_900}
    rows["launches"][0].update(unseen)
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


def test_a_runtime_that_ignores_priorities_is_named_as_the_cause() -> None:
    """Packets print priority 3 (high) and the queue is one of normal priority; or the variable says it."""
    rows = make_run()
    rows["queues"][0]["priority_log"] = 1
    plain = judge(rows, "priority_reaches_hardware")
    asked = {"environment": {"DEBUG_HIP_IGNORE_STREAM_PRIORITY": "1"}}
    by_variable = judge(rows, "priority_reaches_hardware", info=asked)
    rows["launches"][0]["stream_priority"] = 3
    by_packet = judge(rows, "priority_reaches_hardware")
    assert [outcome for outcome, *_ in (plain, by_variable, by_packet)] == ["FAIL"] * 3
    assert "DEBUG_HIP_IGNORE_STREAM_PRIORITY" not in plain[1]
    for _, reason, _ in (by_variable, by_packet):
        assert "ignores stream priorities" in reason and "set DEBUG_HIP_IGNORE_STREAM_PRIORITY=0" in reason


def test_doorbells_that_clr_rings_itself_are_told() -> None:
    rows = make_run()
    drop_layer("doorbell")(rows)
    info = {"environment": {"DEBUG_CLR_DIRECT_DOORBELL": "1"}}
    outcome, reason, remedy = judge(rows, "doorbell_per_packet", info=info)
    assert (outcome, remedy) == ("UNKNOWN", "run without DEBUG_CLR_DIRECT_DOORBELL")
    assert "rings doorbells without a call" in reason


def test_losses_do_not_excuse_what_was_seen() -> None:
    rows = make_run()
    rows["losses"].append({"source": "ftrace", "cpu": 0, "from_ns": 5_500, "to_ns": 5_600, "count": 1})
    rows["events"].append(COMMAND_SUBMISSION)
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
    assert outcome == "UNKNOWN" and reason.endswith("the ring of its creation line is inferred")


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
def test_verdicts_on_recorded_runs_are_known(capture: str, recorded: Callable[..., Capture]) -> None:
    """RECORDED runs of the null GPU: its driver refuses CREATE_QUEUE, and the verdict says so."""
    made = recorded(f"captures/{capture}")
    found = {v.name: str(v.outcome) for v in judge_capture(made.table, info=made.info)}
    assert {name: found[name] for name in RECORDED[capture]} == RECORDED[capture]
    assert found["nothing_lost"] == found["causality"] == "PASS"


@pytest.mark.parametrize(
    ("dump", "logs", "quantum"),
    [("active-32streams", [], "PASS"), ("active-32streams", ["hip-7.2.4"], "UNKNOWN"), ("idle", [], "UNKNOWN")],
)
def test_dumps_of_real_gpus(dump: str, logs: list[str], quantum: str, data_folder: Path, tmp_path: Path) -> None:
    """REAL register dumps of 8 x MI308X: busy ones show a quantum, but not of a log of another run's queues."""
    made = import_files(
        tmp_path / "x.tracecorr",
        [data_folder / "captures" / log / "amd.log" for log in logs],
        [],
        hqd=[data_folder / "real" / f"kfd-hqds-mi308x-8gpu-{dump}.txt"],
    )
    correlate(made.path)
    names = ["hqd_quantum", "scheduler_mode"]
    found = {v.name: str(v.outcome) for v in judge_capture(made.table, info=made.info, names=names)}
    assert found == {"hqd_quantum": quantum, "scheduler_mode": "PASS"}
