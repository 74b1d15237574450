"""Wrong usage of each verb: one clear error with the next step, status 2, and nothing written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import typer
from cli_inputs import Result

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _capture(imported: Path, tmp_path: Path) -> None:
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["report", "a", "--strict"], "without --check"),
        (["capture", "--pid", "1", "--pid", "2"], "--pid was given 2 times (1, 2)"),
        (["report", "a", "--json", "--html", "x.html"], "cannot be combined"),
        (["report", "a", "--threshold", "kfd_create_ns=-5"], "not a limit"),
        (["report", "a", "--threshold", "kfd_create_ns=1e3"], "no whole number"),
        (["report", "a", "--force"], "without --html"),
        (["report", "a", "--html", "amd.log"], "amd.log exists"),
        (["report", "a", "--html", "a.tracecorr/capture.json", "--force"], "belongs to the capture"),
        (["export", "a", "--to", "chrome", "-o", "a.tracecorr/capture.json", "--force"], "belongs to the capture"),
        (["export", "a", "--to", "csv", "-o", ".", "--force"], "holds a.tracecorr, which no export wrote"),
        (["export", "a", "--to", "csv", "-o", "amd.log", "--force"], "it is no folder"),
        (["export", "a", "--to", "chrome", "-o", "/dev/null", "--force"], "it is no regular file"),
        (["query", "a"], "no SQL"),
        (["query", "a", "DROP TABLE events"], "can only read"),
        (["export", "a", "--process", "7", "-o", "x"], "no process 7"),
        (["correlate", "a", "a.tracecorr", "-o", "x"], "given twice"),
        (["import", "--amd-log", "amd.log", "-o", ""], "is not a folder name"),
        (["import", "--amd-log", "amd.log", "-o", "x", "--ftrace-clock", "mono"], "without --ftrace"),
        (["import", "--amd-log", "a.tracecorr", "-o", "x"], "a.tracecorr is a folder"),
        (["query", "SELECT 1", "a"], "before the capture"),
        (["query", "a", "SELECT 1", "--example", "queues"], "--example cannot be combined with a query"),
        (["query", "--schema", "--examples"], "--schema and --examples cannot be combined"),
        (["hqd", "--interval", "3"], "--interval has no effect without --watch"),
        (["hqd", "amd.log", "--debugfs", "."], "--debugfs reads this machine"),
        (["hqd", "--slots", "--json"], "--slots has no effect with --json"),
        (["correlate", "a", "--force"], "--force has no effect without -o"),
        (["correlate", "a", "--cluster", "local", "-j", "2"], "--jobs sets the processes of this machine"),
        (["capture", "--hqd-interval", "3", "--", "true"], "--hqd-interval has no effect without --hqd"),
        (["capture", "--kill", "--pid", "1"], "--kill has no effect without a COMMAND"),
        (["capture", "--as-root", "--image", "x"], "--as-root has no effect without a COMMAND on the host"),
        (["report", "a", "--threshold", "scheduler=hws"], "no scheduler 'hws'"),
        (["info", "a", "b"], "unexpected extra argument(s) (b)"),
        (["record", "--", "true"], "no such command 'record': here it is called capture"),
        (["repot"], "no such command 'repot'. Did you mean 'report'"),
        (["export", "a", "--to", "perfeto"], "invalid value for '--to': 'perfeto' is not one of 'perfetto'"),
        (["compare", "a"], "missing argument 'B'"),
        (["report", "a", "--jsn"], "no such option: --jsn"),
        (["experiment", "preempt", "--high", " ", "--low", "true"], "--high is empty"),
        (["experiment", "preempt", "--high", "true", "--low", "true", "--kept", "nan"], "not a positive number"),
        (["doctor", "--pid", "99999999"], "no process 99999999"),
        (["capture", "--dry-run", "--duration", "nan"], "--duration nan must be more than 0"),
        (["capture", "--dry-run", "--hqd", "--hqd-interval", "nan"], "--hqd-interval nan must be more than 0"),
        (["capture", "--dry-run", "--delay", "-5"], "--delay -5 must be 0 or more"),
        (["capture", "--dry-run", "--log-level", "-1"], "--log-level -1 must be 0 or more"),
        (["capture", "--run-option=--ipc=host", "--", "true"], "without --image"),
        (["experiment", "preempt", "--high", "true", "--low", "true", "--no-capture", "-o", "no/e"], "cannot make"),
        (["capture", "--dry-run", "--range", "step"], "--range step is not a range"),
        (["capture", "-o", "", "--", "true"], "is not a folder name"),
    ],
)
def test_wrong_usage_is_one_error_with_a_next_step_and_leaves_no_file(
    run: Run, tmp_path: Path, words: list[str], told: str
) -> None:
    before = sorted(tmp_path.iterdir())
    found = run(*words)
    said = found.err.splitlines()
    assert (found.status, found.out, sorted(tmp_path.iterdir())) == (2, "", before)
    assert said[-2].startswith("error: ") and told in said[-2]
    assert said[-1].startswith("next step: ")


@pytest.mark.parametrize(
    "words", [["query", "a", "--example"], ["import", "--amd-log"], ["--traceback", "import", "-o"]]
)
def test_an_option_without_its_value_names_the_help_of_its_verb(run: Run, words: list[str]) -> None:
    verb = next(word for word in words if not word.startswith("-"))
    found = run(*words)
    assert (found.status, found.out) == (2, "")
    assert found.err.splitlines()[-1] == f"next step: tracecorr {verb} --help shows its arguments"


@pytest.mark.parametrize(
    ("words", "told"), [(["-o", "a", "--force"], "a.tracecorr is one of the captures"), (["-o", "b"], "already exists")]
)
def test_a_dataset_that_has_no_place_is_refused_before_any_work(
    run: Run, tmp_path: Path, words: list[str], told: str
) -> None:
    assert run("correlate", "a", "-o", "b").status == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    found = run("correlate", "a", *words)
    assert (found.status, found.out) == (2, "")
    assert told in found.err and "next step: " in found.err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["import", "amd.log"], "tracecorr import --amd-log amd.log"),
        (["import", "-o", "x", "ftrace.txt", "amd.log"], "tracecorr import --ftrace ftrace.txt --amd-log amd.log"),
        (["import", "pages"], "tracecorr import --ftrace pages"),
        (["import", "a.tracecorr"], "tracecorr report a.tracecorr"),
        (["import", "a.tracecorr/capture.json"], "--amd-log for a HIP log"),
        (["info", "amd.log"], "tracecorr import --amd-log amd.log"),
        (["info", "a.tracecorr/capture.json"], "make one with `tracecorr import`"),
        (["report", "b"], "captures there: a.tracecorr"),
        (["report", "more/gemm-17"], "did you mean more/gemm-7.tracecorr?"),
        (["report", "more"], "captures there: more/gemm-7.tracecorr"),
        (["report", "pages"], "make one with `tracecorr import`"),
        (["query", "SELECT * FROM queues", "a"], "tracecorr query a 'SELECT * FROM queues'"),
        (["info", "a", "b"], "tracecorr info --help"),
    ],
)
def test_the_next_step_says_what_was_meant(run: Run, tmp_path: Path, words: list[str], hint: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "cpu0.bin").write_bytes(b"\0" * 4096)
    shutil.copytree(tmp_path / "a.tracecorr", tmp_path / "more" / "gemm-7.tracecorr")
    found = run(*words)
    assert (found.status, found.out) == (2, "")
    assert hint in found.err.splitlines()[-1] and found.err.splitlines()[-1].startswith("next step: ")


@pytest.mark.parametrize("words", [["--amd-log", "n\udce9.log"], ["--amd-log", "amd.log", "-o", "n\udce9"]])
def test_a_name_that_is_no_text_is_refused_before_the_work(run: Run, tmp_path: Path, words: list[str]) -> None:
    shutil.copy(tmp_path / "amd.log", tmp_path / "n\udce9.log")
    before = sorted(tmp_path.iterdir())
    found = run("import", *words)
    assert (found.status, sorted(tmp_path.iterdir())) == (2, before)
    assert "is no path in UTF-8\nnext step: rename it" in found.err


@pytest.mark.parametrize(
    "words", [["import", "-o", "x", "--amd-log"], ["import", "-o", "x", "--ftrace"], ["import", "--rocprof"], ["hqd"]]
)
def test_a_pipe_is_refused_before_anything_is_read_of_it(run: Run, tmp_path: Path, words: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    found = run(*words, "pipe")  # without a writer it would wait for ever
    assert (found.status, found.out, sorted(tmp_path.iterdir())) == (2, "", before)
    assert "pipe is no regular file" in found.err and found.err.splitlines()[-1].startswith("next step: ")


def test_paths_of_next_steps_are_quoted_for_the_shell(run: Run, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "amd.log", tmp_path / "a b.log")
    shutil.copytree(tmp_path / "a.tracecorr", tmp_path / "a b.tracecorr")
    (tmp_path / "cpu 0").mkdir()
    (tmp_path / "cpu 0" / "cpu0.bin").write_bytes(b"\0" * 4096)
    for words, hint in (
        (["import", "a b.log"], "tracecorr import --amd-log 'a b.log'"),
        (["import", "a b.tracecorr"], "tracecorr report 'a b.tracecorr'"),
        (["info", "a b.log"], "make one of it: tracecorr import --amd-log 'a b.log'"),
        (["import", "--amd-log", "cpu 0"], "name them: --amd-log 'cpu 0'/*"),
        (["import", "--ftrace", "cpu 0/cpu0.bin"], "pages are read by their folder: --ftrace 'cpu 0'"),
        (["query", "SELECT 1", "a b.tracecorr"], "write it last: tracecorr query 'a b.tracecorr' 'SELECT 1'"),
    ):
        assert run(*words).err.splitlines()[-1] == f"next step: {hint}"


def test_without_a_verb_all_are_shown(run: Run) -> None:
    found = run()
    assert found.status == 2
    assert "Usage: tracecorr" in found.out and "correlate" in found.out


@pytest.mark.parametrize("sql", [" -- why\nSELECT 1", "(SELECT 1)", "/* x */ with t as (select 1) select * from t"])
def test_a_query_that_reads_runs(run: Run, sql: str) -> None:
    assert run("query", "a", sql).status == 0


@pytest.mark.parametrize("verb", [["info"], ["report"], ["query"], ["export", "-o", "x"]])
def test_a_table_that_was_cut_names_what_builds_it_again(run: Run, tmp_path: Path, verb: list[str]) -> None:
    table = tmp_path / "a.tracecorr" / "tables" / "events.parquet"
    table.write_bytes(table.read_bytes()[:-3])
    found = run(verb[0], "a", *verb[1:], *(["SELECT 1"] if verb[0] == "query" else []))
    assert found.status == 2
    assert "events.parquet is damaged" in found.err and "tracecorr correlate a.tracecorr" in found.err


@pytest.mark.parametrize("verb", [["report"], ["query"], ["export", "-o", "x"]])
def test_a_table_with_other_bytes_in_it_names_what_builds_it_again(run: Run, tmp_path: Path, verb: list[str]) -> None:
    table = tmp_path / "a.tracecorr" / "tables" / "events.parquet"
    whole = table.read_bytes()
    table.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    found = run(verb[0], "a", *verb[1:], *(["SELECT * FROM events"] if verb[0] == "query" else []))
    assert found.status == 2
    assert "a table of the capture is damaged" in found.err and "tracecorr correlate" in found.err


@pytest.mark.parametrize("verb", [["info"], ["report"], ["query", "SELECT 1"], ["export", "-o", "x"]])
@pytest.mark.parametrize(
    ("column", "others"),
    [
        ("queue", [pl.exclude("queue")]),
        ("queue", [pl.exclude("queue"), pl.col("queue").cast(pl.UInt8)]),
        ("more", [pl.all(), pl.lit(1).alias("more")]),
    ],
)
def test_a_table_of_another_version_names_its_columns_and_what_builds_it_again(
    run: Run, tmp_path: Path, verb: list[str], column: str, others: list[pl.Expr]
) -> None:
    table = tmp_path / "a.tracecorr" / "tables" / "launches.parquet"
    pl.read_parquet(table).select(others).write_parquet(table)
    found = run(verb[0], "a", *verb[1:])
    assert found.status == 2
    assert f"its columns differ ({column})" in found.err
    assert "tracecorr correlate a.tracecorr" in found.err


def test_a_full_disk_is_said_without_a_trace(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(typer, "echo", fail)
    found = run("info", "a")
    assert (found.status, found.err.splitlines()[0]) == (1, "error: cannot write the output: No space left on device")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_leaves_nothing_half_written_and_is_no_wrong_usage(tmp_path: Path) -> None:
    """One status wherever the disk is full."""
    script = """
import subprocess, sys
from tracecorr.cli import main
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "disk"], check=True)
status = main(sys.argv[1:])
left = subprocess.run(["find", "disk", "-name", ".*"], capture_output=True, text=True, check=True).stdout
sys.exit(f"left: {left}" if left else status)
"""
    (tmp_path / "disk").mkdir()
    for words, told in (
        (["import", "--amd-log", "amd.log", "-o", "disk/x"], "error: cannot write disk/x.tracecorr: No space"),
        (["report", "a", "--html", "disk/r.html"], "error: cannot write disk/r.html: No space"),
        (["export", "a", "--to", "csv", "-o", "disk/t"], "error: cannot write disk/t: No space"),
    ):
        command = ["unshare", "-m", sys.executable, "-c", script, *words]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (found.returncode, told in found.stderr) == (1, True), found.stderr


@pytest.mark.parametrize(
    ("user", "step"), [(0, "its file system refuses even root, as NFS and FUSE may"), (1000, "check its owner")]
)
def test_a_folder_without_rights_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, user: int, step: str) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "a.tracecorr/.tables.1")

    monkeypatch.setattr("tracecorr.pipeline.correlate", fail)
    found = run("correlate", "a")
    assert found.status == 2
    assert found.err.startswith(f"error: no right to use a.tracecorr/.tables.1: Permission denied\nnext step: {step}")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up the rights of root")
def test_a_capture_that_may_not_be_read_is_still_called_one(tmp_path: Path) -> None:
    info = tmp_path / "a.tracecorr" / "capture.json"
    info.chmod(0)
    words = [sys.executable, "-c", "import sys\nfrom tracecorr.cli import main\nsys.exit(main(['info', 'a']))"]
    # Root without its capabilities is a user like others.
    found = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith(f"error: no right to read {Path('a.tracecorr', 'capture.json')}: Permission denied")


def test_a_package_that_is_not_installed_is_named_with_its_extra(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "distributed", None)
    found = run("correlate", "a", "--cluster", "local")
    assert (found.status, found.out, sorted(tmp_path.iterdir())) == (3, "", before)
    assert found.err.splitlines()[-1] == f"next step: install it: {sys.executable} -m pip install distributed"


def test_clean_of_another_user_claims_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = run("clean")
    assert (found.status, found.out) == (3, "")
    assert found.err.splitlines()[-1].startswith("next step: sudo ")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EACCES, "no right to listen on port 80"),
        (errno.EADDRNOTAVAIL, "--host 127.0.0.1 is not an address"),
        (errno.EADDRINUSE, "port 80 of 127.0.0.1 is in use"),
    ],
)
def test_why_a_port_cannot_be_used(run: Run, monkeypatch: pytest.MonkeyPatch, number: int, told: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("socket.socket.bind", refuse)
    found = run("serve", "a", "--no-browser", "--port", "80")
    assert found.status == 2
    assert told in found.err
