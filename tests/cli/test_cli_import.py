"""The verb `import`: bad input stops it with a message and nothing is left behind; odd input is a warning."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from cli_inputs import Result, write_log

from tracecorr.pipeline import import_files
from tracecorr.store.new_folder import lock_capture

Run = Callable[..., Result]


def assert_refused(result: Result, tmp_path: Path, *words: str) -> None:
    """Check exit status 2, a message with a next step, and that nothing is half written."""
    assert result.status == 2, result.err
    assert "error: " in result.err
    assert "next step: " in result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    for word in words:
        assert word in result.err
    assert [p.name for p in tmp_path.iterdir() if "tracecorr" in p.name] == []


def test_an_import_of_nothing_names_the_options(run: Run, tmp_path: Path) -> None:
    assert_refused(run("import", "-o", "x"), tmp_path, "--amd-log", "--ftrace")


@pytest.mark.parametrize("option", ["--amd-log", "--ftrace", "--hqd", "--clock-samples"])
def test_a_file_that_is_missing_is_named(run: Run, tmp_path: Path, log_file: Path, option: str) -> None:
    words = [] if option == "--amd-log" else ["--amd-log", log_file]
    assert_refused(run("import", *words, option, "absent.xyz", "-o", "x"), tmp_path, "absent.xyz")


@pytest.mark.parametrize("option", ["--amd-log", "--ftrace"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"dear diary,\ntoday it rained\n", bytes(range(256)) * 64, b"\x1f\x8b\x08\x00rubbish"],
    ids=["empty", "blank", "other text", "binary", "broken gzip"],
)
def test_a_file_of_another_kind_is_named(run: Run, tmp_path: Path, option: str, content: bytes) -> None:
    (tmp_path / "useless.dat").write_bytes(content)
    assert_refused(run("import", option, "useless.dat", "-o", "x"), tmp_path, "useless.dat")


def test_what_a_wrong_file_looks_like(run: Run, tmp_path: Path, log_file: Path, trace_file: Path) -> None:
    (tmp_path / "utf16.log").write_bytes(log_file.read_text().encode("utf-16"))
    (tmp_path / "packed.log.xz").write_bytes(lzma.compress(log_file.read_bytes()))
    (tmp_path / "cpu0.bin").write_bytes(bytes(4096))
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(4096))
    (tmp_path / "perf.txt").write_text("   gemm 305/307 [000] 62.358716: syscalls:sys_enter_ioctl: fd: 0x00000007\n")
    for option, name, told in (
        ("--ftrace", log_file.name, "it looks like a HIP log: give it to --amd-log"),
        ("--amd-log", trace_file.name, "it looks like a kernel trace: give it to --ftrace"),
        ("--amd-log", "utf16.log", "iconv -f UTF-16 -t UTF-8"),
        ("--amd-log", "packed.log.xz", "it is packed with xz: unpack it first"),
        ("--ftrace", "cpu0.bin", "pages are read by their folder"),
        ("--ftrace", "perf.data", "perf made it"),
        ("--ftrace", "perf.txt", "perf made it"),
    ):
        assert_refused(run("import", option, name, "-o", "x"), tmp_path, told)


def test_an_interrupted_import_says_how_to_go_on(run: Run, log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tracecorr.pipeline.correlate", interrupt)
        result = run("import", "--amd-log", log_file, "-o", "x")
    assert result.status == 130
    assert (
        "x.tracecorr contains the files, but no tables yet: tracecorr correlate x.tracecorr builds them" in result.err
    )
    assert run("correlate", "x").status == 0
    assert run("report", "x").status == 0


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_capture_that_another_import_replaces_is_not_trusted(
    run: Run, tmp_path: Path, log_file: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Tables of one import beside the files of another would name wrong lines."""

    def build(path: Path, **_: object) -> list[str]:
        if moment == "before":
            raise FileNotFoundError(2, "No such file", str(path / "tables" / "gpus.parquet"))
        import_files(tmp_path / "x.tracecorr", [], [trace_file], force=True)
        return []

    with monkeypatch.context() as patched:
        patched.setattr("tracecorr.pipeline.correlate", build)
        result = run("import", "--amd-log", log_file, "-o", "x")
    assert result.status == 2
    assert "x.tracecorr was replaced or removed while its tables were built" in result.err
    assert "tracecorr correlate x.tracecorr" in result.err


@pytest.mark.parametrize(
    "before",
    [b"Collecting a wheel :3: of 90 ...\n" * 100_000, bytes(3_000_000)],
    ids=["output of a program", "emptied while it was written"],
)
def test_what_stands_before_a_log_may_be_long(run: Run, tmp_path: Path, log_file: Path, before: bytes) -> None:
    late = tmp_path / "late.log"
    late.write_bytes(before + log_file.read_bytes())
    for name in (log_file, late):
        assert run("import", "--amd-log", name, "-o", name.stem).status == 0
    rows = "select count(*) as n, count(dur_ns) as ended from events"
    assert run("query", "late", rows).out == run("query", log_file.stem, rows).out
    told = run("query", "late", "select reason from ledger where outcome <> 'used'").out
    assert ("nul_bytes" in told) is (before[0] == 0)
    assert "--amd-log" in run("import", "late.log", "-o", "x").err


def test_a_log_within_json_is_to_be_taken_out(run: Run, tmp_path: Path, log_file: Path) -> None:
    lines = log_file.read_text().splitlines(keepends=True)
    kept = [json.dumps({"log": line, "stream": "stderr", "time": "2026-01-01T00:00:00Z"}) for line in lines]
    kept = [line.replace('{"log": ', '{"log":') for line in kept]
    (tmp_path / "a-json.log").write_text("\n".join(kept))
    assert_refused(run("import", "--amd-log", "a-json.log", "-o", "x"), tmp_path, "jq -j .log a-json.log > hip.log")


def test_a_log_whose_compressed_data_breaks_off_before_its_first_line(run: Run, tmp_path: Path) -> None:
    packed = gzip.compress(random.Random(1).randbytes(1_000_000).hex().encode())
    (tmp_path / "cut.log.gz").write_bytes(packed[: len(packed) * 9 // 10])
    assert_refused(run("import", "--amd-log", "cut.log.gz", "-o", "x"), tmp_path, "the gzip data is damaged")


def test_nothing_but_nuls_is_no_log(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(bytes(3_000_000))
    assert_refused(run("import", "--amd-log", "empty.log", "-o", "x"), tmp_path, "holds nothing but NUL bytes")


def test_one_bad_file_beside_a_good_one(run: Run, tmp_path: Path, log_file: Path) -> None:
    (tmp_path / "useless.dat").write_bytes(b"nothing\n")
    assert_refused(run("import", "--amd-log", log_file, "--ftrace", "useless.dat", "-o", "x"), tmp_path, "useless.dat")


def test_a_clock_that_no_trace_has_is_refused(run: Run, tmp_path: Path, trace_file: Path) -> None:
    assert_refused(run("import", "--ftrace", trace_file, "--ftrace-clock", "wall", "-o", "x"), tmp_path, "wall", "mono")


def test_an_existing_capture_is_not_replaced_without_force(run: Run, tmp_path: Path, log_file: Path) -> None:
    assert run("import", "--amd-log", log_file, "-o", "x").status == 0
    before = (tmp_path / "x.tracecorr" / "capture.json").read_bytes()
    refused = run("import", "--amd-log", log_file, "-o", "x")
    assert refused.status == 2
    assert "--force" in refused.err
    assert (tmp_path / "x.tracecorr" / "capture.json").read_bytes() == before
    assert run("import", "--amd-log", log_file, "-o", "x", "--force").status == 0


def test_a_log_and_a_trace_become_one_capture_whose_queue_has_both_addresses(
    run: Run, log_file: Path, trace_file: Path
) -> None:
    result = run("import", "--amd-log", log_file, "--ftrace", trace_file, "--ftrace-clock", "mono", "-o", "x")
    assert result.status == 0, result.err
    assert result.out == "x.tracecorr\n"
    assert "tracecorr report x.tracecorr" in result.err
    query = run("query", "x", "SELECT ring_base FROM queues WHERE hwq = 0x3c00000", "--format", "csv")
    assert query.out.startswith("ring_base\n")
    assert len(query.out.splitlines()) == 2


def test_several_files_after_one_option(run: Run, tmp_path: Path) -> None:
    first = write_log(tmp_path / "a.log", pid=4100)
    second = write_log(tmp_path / "b.log", pid=4200)
    result = run("import", "--amd-log", first, second, "-o", "x")
    assert result.status == 0, result.err
    files = run("query", "x", "SELECT path FROM files", "--format", "csv").out.splitlines()
    assert len(files) == 3


def test_one_log_named_twice(run: Run, tmp_path: Path, log_file: Path) -> None:
    (tmp_path / "copy.log.gz").write_bytes(gzip.compress(log_file.read_bytes()))
    for other in (log_file, "copy.log.gz"):
        assert_refused(run("import", "--amd-log", log_file, other, "-o", "x"), tmp_path, "was given twice")


def test_pieces_of_one_log(run: Run, tmp_path: Path, trace_file: Path) -> None:
    lines = write_log(tmp_path / "whole.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "a.log").write_bytes(b"".join(lines[:5]))
    (tmp_path / "b.log").write_bytes(b"".join(lines[5:]))
    words = ("--ftrace", trace_file, "--ftrace-clock", "mono")
    result = run("import", "--amd-log", "a.log", "b.log", *words, "-o", "x")
    assert result.status == 0, result.err
    assert "a.log + b.log: pieces of one log" in result.err
    result = run("import", "--amd-log", "b.log", "a.log", *words, "-o", "y")
    assert result.status == 2 and "--amd-log a.log b.log" in result.err


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_a_packed_log_is_read_and_its_capture_named_without_the_suffix(
    run: Run, tmp_path: Path, log_file: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = tmp_path / f"packed.log.{suffix}"
    packed.write_bytes(pack(log_file.read_bytes()))
    assert run("import", "--amd-log", packed).status == 0
    assert (tmp_path / "packed.tracecorr").is_dir()


def test_log_without_pid_and_tid(run: Run, tmp_path: Path, trace_file: Path) -> None:
    log = write_log(tmp_path / "level3.log", level=3)
    result = run("import", "--amd-log", log, "--ftrace", trace_file, "--ftrace-clock", "mono", "-o", "x")
    assert result.status == 0, result.err
    assert "warning: " in result.err
    assert "no pid and tid" in result.err
    assert run("report", "x").status == 0


def test_one_process_at_a_time_builds_or_replaces_a_capture(run: Run, tmp_path: Path, log_file: Path) -> None:
    assert run("import", "--amd-log", log_file, "-o", "x").status == 0
    path = tmp_path / "x.tracecorr"
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    with lock_capture(path):
        for words in (("correlate", "x"), ("import", "--amd-log", log_file, "-o", "x", "--force")):
            refused = run(*words)
            assert refused.status == 2, refused.err
            assert "another process builds the tables" in refused.err
        assert run("report", "x").status == 0
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert run("import", "--amd-log", log_file, "-o", "x", "--force").status == 0


def test_what_a_killed_process_left_is_dropped_by_the_next_one(
    run: Run, tmp_path: Path, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    assert run("import", "--amd-log", log_file, "-o", "x").status == 0
    left = tmp_path / "x.tracecorr" / ".tables.99999999" / "parts"
    left.mkdir(parents=True)
    with monkeypatch.context() as without_locks:
        # Where nobody can be kept away, another process may be at work there.
        without_locks.setattr("fcntl.flock", refuse)
        assert run("correlate", "x").status == 0
    assert left.is_dir()
    assert run("correlate", "x").status == 0
    assert not left.parent.exists()


@pytest.mark.parametrize("stage", ["copying", "swapping"])
def test_what_a_killed_import_left_is_named_by_the_next_one(
    run: Run, tmp_path: Path, log_file: Path, stage: str
) -> None:
    assert run("import", "--amd-log", log_file, "-o", "x").status == 0
    place = {"copying": "tracecorr.pipeline._join_logs", "swapping": "shutil.rmtree"}[stage]
    code = f"""
import os, signal, sys
from unittest import mock
from tracecorr.cli import main
with mock.patch("{place}", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)):
    main(sys.argv[1:])
"""
    words = [sys.executable, "-c", code, "import", "--amd-log", str(log_file), "-o", "x", "--force"]
    killed = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])})
    assert killed.wait() == -signal.SIGKILL
    child = killed.pid
    left = tmp_path / f".x.tracecorr.{child}.{'new' if stage == 'copying' else 'old'}"
    assert left.is_dir()
    (tmp_path / f".x.tracecorr.{os.getpid()}.new").mkdir()  # that of a process that lives
    told = run("import", "--amd-log", log_file, "-o", "y")
    assert told.status == 0
    assert [line for line in told.err.splitlines() if " was left by " in line] == [
        f"warning: {left} was left by process {child}, which was killed while it made {tmp_path}/x.tracecorr; "
        f"next step: rm -r {left}"
    ]
    shutil.rmtree(tmp_path / "x.tracecorr")
    if stage == "swapping":
        step = run("import", "--amd-log", log_file, "-o", "z").err.split("next step: ")[1].splitlines()[0]
        assert subprocess.run(step, shell=True, check=False).returncode == 0
        assert run("report", "x").status == 0
