"""SYNTHETIC runs whose kernel trace covers a part of the log: told where its counts are compared or missing."""

from __future__ import annotations

from typing import Any

from analyze_tables import tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare import Side, compare_captures
from tracecorr.analyze.evidence import Evidence, name_partial
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.answers import Answer
from tracecorr.analyze.report.markdown import render_comparison

_KILLED = {
    "state": "killed", "problems": ["the capture was killed: what it had not stored, and its exit status, are missing"],
}  # fmt: skip
_PART = "6.50 us of the 2.00 s of the HIP log"
_WHOLE_RUN = tables_of(make_run())


def _shortened() -> Any:
    """Return the tables of the run with a line 2 s behind its trace."""
    rows = make_run()
    rows["events"].append({**rows["events"][0], "event": 90, "ts_ns": 2 * 10**9})
    return tables_of(rows)


def _wrong(info: dict[str, Any]) -> Answer | None:
    report = summarize_capture("x", _shortened(), info)
    return next((answer for answer in report.answers if answer.question == "What went wrong?"), None)


def test_a_comparison_says_whose_trace_is_of_a_part_of_the_run() -> None:
    compared = compare_captures(Side("x", _shortened(), _KILLED), Side("y", _WHOLE_RUN), rounds=20)
    assert compared.findings[0].startswith(f"in A the records of the kernel trace span {_PART}: it ends 2.00 s before ")
    told = [line for line in compared.findings if "ioctls" in line and not line.startswith("in A ")]
    assert told and all(line.endswith(f"(A: for {_PART})") for line in told)
    conditions = dict(compared.frame("conditions").select("condition", "a").iter_rows())
    assert conditions["kernel trace"] == f"yes, for {_PART}"
    assert f"recorded by the trace (A: for {_PART})" in render_comparison(compared)


def test_nodes_whose_traces_are_of_a_part_are_counted() -> None:
    nodes = {"n1": _WHOLE_RUN, "n2": _shortened()}
    assert name_partial(Evidence(_shortened(), nodes=nodes)) == "the traces of 1 of 2 nodes cover a part of their logs"
    assert name_partial(Evidence(_WHOLE_RUN, nodes={"n1": _WHOLE_RUN})) == ""


def test_what_went_wrong_begins_with_the_capture_that_was_killed() -> None:
    answer = _wrong(_KILLED | {"exit_status": 3})
    assert answer is not None
    assert answer.lines[0] == _KILLED["problems"][0]
    assert answer.lines[1].startswith(f"the records of the kernel trace span {_PART}")
    assert answer.lines[2] == "the workload ended with status 3"
    assert _wrong({}) is None  # a trace of a part alone is nothing wrong


def test_no_source_tells_what_a_killed_capture_had_not_stored() -> None:
    for info, told in ((_KILLED, True), ({}, False)):
        report = summarize_capture("x", _WHOLE_RUN, info)
        (nothing,) = (section.nothing for section in report.sections if section.key == "losses")
        assert ("but the capture was killed" in nothing) == told
        assert report.summary["killed"] == told
