"""Verbs that read a capture: names, formats, and what they say when something is missing."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_inputs import Result

Run = Callable[..., Result]


@pytest.fixture
def capture(run: Run, tmp_path: Path, log_file: Path, trace_file: Path) -> Path:
    """Return a capture folder with tables."""
    result = run("import", "--amd-log", log_file, "--ftrace", trace_file, "--ftrace-clock", "mono", "-o", "x")
    assert result.status == 0, result.err
    return tmp_path / "x.tracecorr"


@pytest.mark.parametrize(
    "verb", [["info"], ["report"], ["correlate"], ["serve", "--no-browser"], ["query", "SELECT 1"]]
)
def test_a_verb_without_a_capture_here_says_what_to_do(run: Run, verb: list[str]) -> None:
    result = run(*verb)
    assert result.status == 2
    assert "next step: " in result.err


def test_a_folder_that_is_no_capture_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    (tmp_path / "y.tracecorr").mkdir()
    assert run("report", "y.tracecorr").status == 2


@pytest.mark.usefixtures("capture")
def test_without_a_name_the_newest_capture_is_read_and_named(run: Run) -> None:
    result = run("info", "--json")
    assert "x.tracecorr" in result.err
    assert json.loads(result.out)["rows"]["queues"] == 1


@pytest.mark.usefixtures("capture")
def test_query_formats_print_addresses_as_text(run: Run) -> None:
    sql = "SELECT queue, hwq AS ring, MAX(size) OVER () AS m FROM queues"
    assert json.loads(run("query", "x", sql, "--format", "json").out)[0]["ring"] == "0x3c00000"
    assert next(csv.DictReader(io.StringIO(run("query", "x", sql, "--format", "csv").out)))["ring"] == "0x3c00000"
    assert "0x3c00000" in run("query", "x", sql).out


@pytest.mark.usefixtures("capture")
def test_query_takes_categoricals_as_strings(run: Run) -> None:
    result = run(
        "query", "SELECT UPPER(name) AS n FROM events WHERE layer = 'hip' AND name LIKE 'hipL%'", "--format", "csv"
    )
    assert result.out.splitlines() == ["n", "HIPLAUNCHKERNEL"]


@pytest.mark.usefixtures("capture")
@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT nope FROM events", "SELECT * FROM nope", "SELECT 1; SELECT 2"])
def test_a_wrong_query_names_where_the_columns_are_listed(run: Run, sql: str) -> None:
    result = run("query", "x", sql)
    assert result.status == 2
    assert "--schema" in result.err
    assert result.out == ""


@pytest.mark.usefixtures("capture")
def test_a_capture_may_be_named_beside_what_needs_none(run: Run) -> None:
    for option in ("--schema", "--examples"):
        assert run("query", "x", option).out == run("query", option).out != ""


def test_a_capture_whose_name_has_a_blank_is_no_sql(run: Run, capture: Path) -> None:
    capture.rename(capture.with_name("two words.tracecorr"))
    assert run("query", "two words", "SELECT 1 AS one", "--format", "csv").out.splitlines() == ["one", "1"]
    assert run("query", "two words", "--schema").out == run("query", "--schema").out != ""
    assert run("query", "two words", "--example", "queues").status == 0
    assert "no SQL" in run("query", "two words").err


def test_a_query_without_sql_is_wrong_usage(run: Run) -> None:
    assert run("query").status == 2
    assert run("query", "x.tracecorr").status == 2


@pytest.mark.usefixtures("capture")
def test_numbers_that_json_lacks_are_null_in_it(run: Run) -> None:
    sql = "SELECT CAST(event AS DOUBLE) / 0 AS x, event FROM events ORDER BY event LIMIT 2"
    rows = json.loads(run("query", "x", sql, "--format", "json").out, parse_constant=pytest.fail)
    assert rows == [{"x": None, "event": 0}, {"x": None, "event": 1}]


@pytest.mark.usefixtures("capture")
def test_no_digit_of_a_number_is_cut(run: Run) -> None:
    sql = "SELECT AVG(4978495614585) AS mean, COUNT(*) * 0 + 1 / 1000000000.0 AS s FROM queues"
    assert run("query", "x", sql).out.splitlines()[-1].split() == ["|", "4978495614585", "|", "0.000000001", "|"]
    assert json.loads(run("query", "x", sql, "--format", "json").out) == [{"mean": 4978495614585.0, "s": 1e-9}]


@pytest.mark.usefixtures("capture")
def test_report_is_markdown_and_json(run: Run) -> None:
    text = run("report", "x", "--full").out
    assert text.startswith("# x\n")
    assert "## Queues" in text
    report = json.loads(run("report", "x", "--json").out)
    assert report["summary"]["dispatches"] == 1
    assert report["sections"]["queues"]["rows"][0]["hwq"] == "0x3c00000"


def test_report_of_a_log_alone_names_the_trace(run: Run, log_file: Path) -> None:
    assert run("import", "--amd-log", log_file, "-o", "x").status == 0
    result = run("report", "x")
    assert result.status == 0
    assert "No ftrace: ioctls and driver functions are unknown; import it with --ftrace." in result.out


def test_report_of_a_trace_alone_names_the_log(run: Run, trace_file: Path) -> None:
    assert run("import", "--ftrace", trace_file, "-o", "x").status == 0
    result = run("report", "x")
    assert result.status == 0
    assert "No AMD log: HIP calls and packets are unknown; import it with --amd-log." in result.out


def test_tables_can_be_deleted_and_built_again(run: Run, capture: Path) -> None:
    shutil.rmtree(capture / "tables")
    refused = run("report", "x")
    assert refused.status == 2
    assert "tracecorr correlate" in refused.err
    assert run("correlate", "x").status == 0
    assert run("report", "x").status == 0


def test_unexpected_failure_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("boom\nmore")

    monkeypatch.setattr("tracecorr.cli.console.newest_capture", fail)
    result = run("info")
    assert result.status == 1
    assert result.err.splitlines()[0] == "error: tracecorr failed: RuntimeError: boom"
    assert "--traceback" in result.err
    assert "Traceback" in run("info", "--traceback").err


@pytest.mark.usefixtures("capture")
def test_report_check_exits_by_verdict(run: Run) -> None:
    assert run("report", "x").status == 0
    one = ("report", "x", "--check", "--verdict")
    assert run(*one, "rocr_create_time").status == 0
    failed = run(*one, "rocr_create_time", "--threshold", "rocr_create_ns=1000", "--strict")
    assert failed.status == 4
    assert "FAIL rocr_create_time" in failed.err
    assert run(*one, "hqd_quantum").status == 0
    assert run(*one, "hqd_quantum", "--strict").status == 5
    assert run(*one, "nonsense").status == 2
    found = json.loads(run("report", "x", "--json").out)["verdicts"]
    assert {v["outcome"] for v in found} <= {"PASS", "FAIL", "UNKNOWN"}


@pytest.mark.usefixtures("capture")
def test_compare_tells_findings_and_refuses_what_it_cannot_read(run: Run) -> None:
    assert "queues with dispatches: 1 in A, 1 in B" in run("compare", "x", "x").out
    assert json.loads(run("compare", "x", "x", "--json").out)["a"] == "x"
    assert run("compare", "x", "x", "--confidence", "2").status == 2
    assert run("compare", "x", "nothing").status == 2


@pytest.mark.usefixtures("capture")
def test_pages_are_written_and_examples_of_queries_run(run: Run, tmp_path: Path) -> None:
    assert run("report", "x", "--html", "r.html").status == 0
    assert run("compare", "x", "x", "--html", "c.html").status == 0
    assert all("</html>" in (tmp_path / name).read_text() for name in ("r.html", "c.html"))
    assert run("report", "x", "--html", "no/r.html").status == 2
    assert "slowest-launches" in run("query", "--examples").out
    assert json.loads(run("query", "x", "--example", "queues", "--format", "json").out)[0]["hwq"] == "0x3c00000"
    assert run("query", "x", "--example", "nonsense").status == 2


def test_info_says_what_was_recorded_in_few_lines(run: Run, capture: Path) -> None:
    path = capture / "capture.json"
    info = json.loads(path.read_text())
    event = {"system": "syscalls", "name": "sys_enter_ioctl", "filter": ""}
    instance = {"name": "workload", "clock": "mono", "follows_workload": True, "events": [event], "functions": []}
    info |= {
        "plan": {
            "instances": [instance],
            "probes": [{"instance": "workload", "name": "doorbell"}],
            "absent": [{"what": "events amdgpu/*", "why": "the driver is not loaded"}],
        },
        "processes": [
            {"pid": 300, "namespace_pid": 7, "exe": "/usr/bin/gemm", "how": "started"},
            *({"pid": 301 + n, "how": "child"} for n in range(50)),
        ],
    }
    path.write_text(json.dumps(info))
    out = run("info").out
    assert "recorded of the workload (workload): 1 kind of event, 0 functions, 1 probe, clock mono" in out
    assert "not recorded: events amdgpu/*: the driver is not loaded" in out
    assert "process 300 (7 in its container): /usr/bin/gemm, started" in out
    assert "and 50 children of these, seen in /proc; the table processes has all" in out
    assert len(out.splitlines()) < 45
