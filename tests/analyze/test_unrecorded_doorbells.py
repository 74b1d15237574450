"""SYNTHETIC runs: why packets have no recorded doorbell, each cause counted, and how much of the log a trace covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.evidence import Evidence, describe_coverage, list_partial
from tracecorr.analyze.verdicts import judge_capture
from tracecorr.analyze.verdicts.model import Finding
from tracecorr.store.coverage import Coverage

_LATE = {
    "pid": 100, "probes": ["doorbell__2"], "before_start": False, "seen_ns": 1_000, "doorbells_ns": 6_000,
    "armed_ns": 7_000,
}  # fmt: skip
_BEGAN, _ENDED, _PROBE, _LOST, _OPEN = (
    "before_the_trace", "after_the_trace", "before_the_probe", "in_lost_records", "without_known_cause",
)  # fmt: skip


def _bare(*intervals: tuple[int | None, int | None], process: int = 0) -> Rows:
    """Return the run with packets without a store, by the bounds of each; the trace lasts from 1100 to 7600 ns."""
    rows = make_run()
    packet = {"doorbell_evidence": "inferred", "doorbell_event": None, "process": process}
    rows["launches"] += [
        {**rows["launches"][0], **packet, "event": 100 + n, "doorbell_lo_ns": low, "doorbell_hi_ns": high}
        for n, (low, high) in enumerate(intervals)
    ]
    return rows


def _judge(rows: Rows, info: Mapping[str, Any], name: str = "compute_uses_doorbell") -> Finding:
    (verdict,) = judge_capture(Evidence(tables_of(rows), None, info), names=[name])
    assert verdict.outcome == "UNKNOWN"
    return verdict.finding


def _causes(rows: Rows, info: Mapping[str, Any] | None = None) -> dict[str, int]:
    counts = _judge(rows, info or {}).counts
    return {cause: counts[cause] for cause in (_BEGAN, _ENDED, _PROBE, _LOST, _OPEN) if cause in counts}


@pytest.mark.parametrize(
    ("interval", "cause"),
    [
        ((900, 1_099), _BEGAN), ((900, 1_100), _PROBE), ((5_500, 5_999), _PROBE), ((5_500, 6_000), _OPEN),
        ((7_600, 7_700), _OPEN), ((7_601, 7_700), _ENDED), ((6_500, 6_600), _LOST), ((6_500, 6_549), _OPEN),
        ((None, 900), _BEGAN), ((7_700, None), _ENDED), ((None, None), _OPEN),
    ],
)  # fmt: skip
def test_the_interval_of_a_packet_tells_its_cause(interval: tuple[int | None, int | None], cause: str) -> None:
    rows = _bare(interval)
    rows["losses"].append({"source": "ftrace", "cpu": 0, "from_ns": 6_550, "to_ns": 6_560, "count": 1})
    rows["losses"].append({"source": "amd_log", "from_ns": 1, "to_ns": 9_000, "count": 1})
    assert _causes(rows, {"plan": {"late": [_LATE]}}) == {cause: 1}


def test_the_largest_cause_is_named_first_and_has_the_remedy() -> None:
    rows = _bare((900, 1_000), (7_700, 7_800), (7_701, 7_801))
    for name in ("compute_uses_doorbell", "doorbell_per_packet"):
        finding = _judge(rows, {"state": "killed"}, name)
        told = "2 rang after the kernel trace ended (the capture was killed)"
        assert finding.reason.endswith(f": {told}, 1 rang before its first record")
        assert "not kill -9" in finding.remedy


@pytest.mark.parametrize(
    ("info", "remedy"),
    [
        ({"end_reason": "--duration 1 s is over"}, "longer --duration"),
        ({"end_reason": "the trace cannot be written: No space left on device"}, "make room"),
        ({"end_reason": "the workload ended"}, "last as long as the program"),
    ],
)  # fmt: skip
def test_what_helps_follows_from_why_the_trace_ended(info: dict[str, Any], remedy: str) -> None:
    assert remedy in _judge(_bare((7_700, 7_800)), info).remedy


@pytest.mark.parametrize(
    ("info", "remedy"),
    [
        ({"start_reason": "--start-on-signal"}, "send SIGUSR1 earlier"),
        ({"processes": [{"pid": 1, "how": "attached"}]}, "not --pid"),
        ({}, "before the program"),
    ],
)  # fmt: skip
def test_what_helps_follows_from_why_the_trace_began_late(info: dict[str, Any], remedy: str) -> None:
    assert remedy in _judge(_bare((900, 1_000)), info).remedy


def test_of_another_process_only_the_first_probe_of_all_is_known() -> None:
    """Its library may be another one than that of the process which was seen to map it late."""
    later = _LATE | {"pid": 5, "doorbells_ns": 5_000}
    info = {"plan": {"late": [_LATE, later]}}
    assert _causes(_bare((4_000, 5_500)), info) == {_PROBE: 1}
    assert _causes(_bare((4_000, 5_500), process=1), info) == {_OPEN: 1}
    assert _causes(_bare((4_000, 4_500), process=1), info) == {_PROBE: 1}


def test_what_a_killed_capture_had_not_stored_may_hold_what_lacks_behind_the_last_store() -> None:
    rows = _bare((6_410, 6_500), (6_300, 6_400))
    assert _causes(rows, {"state": "killed"}) == {_LOST: 1, _OPEN: 1}
    assert _causes(rows) == {_OPEN: 2}


def test_a_trace_covers_a_part_of_the_log() -> None:
    second = 1_000_000_000
    part = Coverage(0, 10 * second, 4 * second, 9 * second, "--delay 4", "the capture was killed")
    assert describe_coverage(part) == (
        "the records of the kernel trace span 5.00 s of the 10.00 s of the HIP log: it begins 4.00 s after the begin "
        "of the log (--delay 4), and it ends 1.00 s before the end of the log (the capture was killed)"
    )
    # A trace whose beginning and end nobody knows may have gone on without a record.
    assert describe_coverage(Coverage(0, 10 * second, 4 * second, 9 * second)).endswith(
        ": its first record lies 4.00 s after the begin of the log, and its last record lies 1.00 s before the end of "
        "the log"
    )
    whole = Coverage(4 * second, 9 * second, 0, 10 * second)
    assert (describe_coverage(whole), whole.covered_ns, describe_coverage(None)) == ("", 5 * second, "")


def test_each_node_of_a_dataset_says_what_its_trace_covers() -> None:
    rows = make_run()
    rows["events"].append({**rows["events"][0], "event": 90, "ts_ns": 2 * 10**9})
    nodes = {"n1": tables_of(make_run()), "n2": tables_of(rows)}
    (line,) = list_partial(Evidence(tables_of(rows), nodes=nodes))
    assert line.startswith("n2: the records of the kernel trace span 6.50 us of the 2.00 s of the HIP log")
