"""A dataset of many nodes, on SYNTHETIC tables: no node's state is told of another, and rows name their node."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from analyze_tables import Rows
from judging import COMMAND_SUBMISSION, join_runs
from synthetic_run import make_run

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.answers import Report, Section
from tracecorr.analyze.report.markdown import describe_summary
from tracecorr.analyze.verdicts import judge_capture
from tracecorr.analyze.verdicts.model import Finding
from tracecorr.pipeline import correlate, import_files, make_dataset


def _trace_alone(*, lossy: bool = False) -> Rows:
    """Return a node on which no HIP program ran: a kernel trace whose clock nothing tells."""
    return {
        "events": [{"event": 0, "ts_ns": 5_000, "layer": "drm_sched", "name": "drm_sched_job", "source": "ftrace"}],
        "drm_jobs": [{"job": 0, "dev": "0000:03:00.0", "ring": "sdma0", "ring_kind": "sdma", "queue_event": 0}],
        "links": [{"from_event": 0, "to_event": 0, "rule": "drm_job"}],
        "clock_map": [{"source": "ftrace:unknown", "method": "unaligned", "pairs": 0, "violated": 0}],
        "files": [{"file": 0, "path": "raw/ftrace/0-ftrace.txt", "source": "ftrace", "size": 9}],
        "ledger": [{"file": 0, "source": "ftrace", "outcome": "used", "reason": "", "records": 1, "bytes": 9}],
        "losses": [{"source": "ftrace", "cpu": 0, "from_ns": 4_000, "to_ns": 6_000, "count": 9}] if lossy else [],
    }


def _find(dataset: Evidence, name: str) -> Finding:
    (verdict,) = judge_capture(dataset, names=[name])
    return verdict.finding


def _lose(rows: Rows, cpu: int, count: int) -> Rows:
    rows["losses"].append({"source": "ftrace", "cpu": cpu, "from_ns": 5_000, "to_ns": 5_100, "count": count})
    return rows


@pytest.mark.parametrize("name", ["compute_uses_doorbell", "doorbell_per_packet", "kfd_create_under_1ms"])
def test_losses_of_another_node_leave_a_claim_as_it_is(name: str) -> None:
    found = _find(join_runs(a=make_run(), b=_trace_alone(lossy=True)), name)
    assert (str(found.outcome), found.reason.startswith("a: "), "; not judged on b: " in found.reason) == (
        "PASS", True, True,
    )  # fmt: skip
    assert (found.counts["nodes_passed"], found.counts["nodes_not_judged"]) == (1, 1)
    both = _find(join_runs(a=make_run(), b=_lose(make_run(), 0, 9)), name)
    assert str(both.outcome) == "UNKNOWN" and both.reason.startswith("b: records were lost in 1 place while the pro")


def test_a_node_with_one_clock_has_nothing_to_align() -> None:
    dataset = join_runs(a=make_run(), b=_trace_alone())
    for name in ("clock_aligned", "causality"):
        found = _find(dataset, name)
        assert str(found.outcome) == "PASS" and found.reason.startswith("a: ") and "not judged on b: " in found.reason
    alone = _find(join_runs(a=_trace_alone(), b=_trace_alone()), "clock_aligned")
    assert (str(alone.outcome), alone.reason) == ("UNKNOWN", "a, b: there is only one clock: nothing to align")
    apart = make_run()
    apart["clock_map"][1] |= {"method": "unaligned"}
    broken = _find(join_runs(a=make_run(), b=apart, c=_trace_alone()), "clock_aligned")
    assert (str(broken.outcome), broken.reason) == ("FAIL", "b: unaligned: ftrace:mono")


def _clocks(dataset: Evidence) -> str:
    (line,) = (line for line in describe_summary(_report(dataset)) if line.startswith("clocks: "))
    return line


def _report(dataset: Evidence) -> Report:
    return summarize_capture("x", dataset.tables, dataset.info, nodes={n: part.tables for n, part in dataset.parts})


def test_the_summary_names_the_node_of_an_unaligned_clock() -> None:
    assert _clocks(join_runs(a=make_run(), b=_trace_alone())).startswith("clocks: aligned; ")
    assert _clocks(join_runs(a=make_run(), b=_trace_alone())).endswith("; on b there is only one clock")
    assert _clocks(join_runs(a=_trace_alone(), b=_trace_alone())).startswith("clocks: only one, nothing to align")
    apart = make_run()
    apart["clock_map"][1] |= {"method": "unaligned"}
    told = "clocks: UNALIGNED: ftrace:mono of b; none of its events is linked by time"
    assert _clocks(join_runs(a=make_run(), b=apart)) == told


def test_the_worst_node_counts_and_equal_reasons_are_told_once() -> None:
    submits = make_run()
    submits["events"].append(COMMAND_SUBMISSION)
    dataset = join_runs(a=make_run(), b=_lose(make_run(), 0, 1), c=submits, d=submits)
    found = _find(dataset, "compute_uses_doorbell")
    told = "c, d: the process submitted 1 command buffers through the DRM"
    assert (str(found.outcome), found.reason) == ("FAIL", told)
    assert len(found.events) == 2 and found.counts["drm_command_submissions"] == 2
    assert [found.counts[f"nodes_{what}"] for what in ("passed", "failed", "unknown", "not_judged")] == [1, 2, 1, 0]
    limit = _find(join_runs(a=make_run(), b=make_run()), "kfd_create_under_1ms").counts["limit_ns"]
    assert limit == 1_000_000
    many = _find(join_runs(**{f"n{i}": submits for i in range(9)}), "compute_uses_doorbell").reason
    assert many.startswith("n0, n1, n2, n3 and 5 more: ")
    runs = {f"n{i}": _lose(make_run(), 0, i) for i in range(1, 6)}
    reason = _find(join_runs(**runs), "nothing_lost").reason
    assert reason.endswith("n3: 3 records were lost, 0 files are not accounted for; and 2 more nodes"), reason


@pytest.mark.parametrize(("state", "outcome"), [("killed", "UNKNOWN"), ("done", "PASS")])
def test_what_capture_json_tells_of_a_node_counts_for_it(state: str, outcome: str) -> None:
    found = _find(join_runs({"b": {"state": state}}, a=make_run(), b=make_run()), "nothing_lost")
    assert str(found.outcome) == outcome


def _sections(dataset: Evidence) -> dict[str, Section]:
    return {section.key: section for section in _report(dataset).sections}


def test_rows_name_their_node() -> None:
    dataset = join_runs(a=_lose(make_run(), 1, 123), b=_lose(make_run(), 1, 72), c=_trace_alone())
    frames = {key: section.frame for key, section in _sections(dataset).items()}
    assert frames["losses"].select("node", "cpu", "spans", "lost").rows() == [("a", 1, 1, 123), ("b", 1, 1, 72)]
    assert frames["kernels"].select("node", "name", "dispatches").rows() == [("a", "gemm", 2), ("b", "gemm", 2)]
    sdma = frames["drm_jobs"].filter(pl.col("ring") == "sdma0")
    assert sdma.select("node", "jobs").rows() == [("a", 1), ("b", 1), ("c", 1)]
    assert frames["ledger"]["node"].to_list() == ["a", "a", "b", "b", "c"]
    for key, nodes in {"queues": "aabb", "streams": "ab", "clocks": "aabbc", "priorities": "ab"}.items():
        assert "".join(frames[key]["node"]) == nodes, key
    alone = {s.key: s.frame for s in _report(join_runs(a=make_run())).sections}
    assert [key for key, frame in alone.items() if "node" in frame.columns] == ["nodes"]


def test_a_dataset_keeps_what_verdicts_ask_of_each_capture(data_folder: Path, tmp_path: Path) -> None:
    """RECORDED traces; how the second capture ended is SYNTHETIC."""
    trace = data_folder / "vm" / "bookworm-mocksched" / "sched.trace.txt"
    paths = [import_files(tmp_path / f"{name}.tracecorr", [], [trace]).path for name in ("a", "b")]
    for path in paths:
        correlate(path)
    told = paths[1] / "capture.json"
    told.write_text(json.dumps(json.loads(told.read_text()) | {"state": "killed"}))
    made = make_dataset(paths, tmp_path / "fleet.tracecorr")
    report = summarize_capture("x", made.table, made.info, nodes=made.tables_of_nodes())
    said = {v.name: v for v in report.verdicts}
    assert said["nothing_lost"].finding.reason.startswith("b: ") and str(said["nothing_lost"].outcome) == "UNKNOWN"
