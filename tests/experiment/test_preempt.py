"""The experiment: figures from stamps, phases in order, the verdict. Workloads without a GPU are SYNTHETIC."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.analyze.compare.latency import MIN_VALUES
from tracecorr.analyze.experiment import (
    STAMPS,
    as_rows,
    judge_latency,
    measure_overhead,
    measure_yields,
    summarize_phases,
    summarize_throughput,
)
from tracecorr.cli import main
from tracecorr.experiment.figures import summarize_load
from tracecorr.experiment.preempt import Runs
from tracecorr.experiment.report import summarize_experiment
from tracecorr.experiment.stamps import read_stamps
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

NOTHING = pl.DataFrame(schema={"role": pl.String, "ratio": pl.Float64})
judge = partial(judge_latency, kept=1.2)


def stamps(high_alone: int, together: int, count: int = 100, seed: int = 1) -> pl.DataFrame:
    """Return SYNTHETIC launches of a high one that take about so many us alone and together, low ones of 50 us.

    Together the low one goes on until the high one has ended.
    """
    rng = np.random.default_rng(seed)

    def series(mean_us: int, phase: str, role: str, count: int = count) -> pl.DataFrame:
        done = (rng.gamma(20, mean_us / 20, count) * 1000).astype(np.int64)
        start = np.cumsum(done + 1000) - done
        rows = list(
            zip(start.tolist(), (start + 5000).tolist(), (start + np.maximum(done, 5000)).tolist(), strict=True)
        )
        return as_rows(phase, 0, {role: rows})

    return pl.concat([
        series(high_alone, "high_alone", "high"), series(50, "low_alone", "low"), series(together, "together", "high"),
        series(50, "together", "low", count * (together // 50 + 1)),
    ])  # fmt: skip


def test_figures_of_each_phase() -> None:
    rows = {(r["phase"], r["role"]): r for r in summarize_phases(stamps(100, 100)).to_dicts()}
    assert list(rows) == [("high_alone", "high"), ("low_alone", "low"), ("together", "high"), ("together", "low")]
    alone = rows["high_alone", "high"]
    assert (alone["launches"], alone["call_p50_ns"], alone["call_std_ns"]) == (100, 5000, 0)
    assert 90_000 < alone["done_p50_ns"] < 110_000
    assert 8_000 < alone["per_second"] < 12_000


def test_throughput_counts_both() -> None:
    rows = as_rows("together", 0, {"high": [(0, 1, 10**9)], "low": [(0, 1, 5), (5, 6, 10)]})
    assert summarize_throughput(rows).rows() == [("together", 1, 3, 3.0)]


def test_when_the_low_one_stopped_and_resumed() -> None:
    rows = as_rows(
        "together", 0, {"high": [(100, 101, 200), (500, 501, 600)], "low": [(0, 1, 90), (90, 91, 150), (150, 151, 260)]}
    )
    found = measure_yields(rows).select("low_completions", "stop_ns", "resume_ns").rows()
    assert found == [(1, 50, 160), (0, None, None)]


def test_a_second_program_that_is_being_loaded_launches_nothing() -> None:
    rows = as_rows("sequential", 0, {"high": [(0, 1, 10**9)], "low": [(10**11, 10**11 + 1, 10**11 + 10**9)]})
    again = rows.with_columns(pl.lit(1, pl.Int64).alias("round"))
    assert summarize_throughput(pl.concat([rows, again])).rows() == [("sequential", 2, 4, 1.0)]


def test_a_low_one_that_begins_later_does_not_resume() -> None:
    rows = as_rows("together", 0, {"high": [(0, 1, 10), (95, 96, 110)], "low": [(90, 91, 120)]})
    assert measure_yields(rows)["resume_ns"].to_list() == [None, 25]


def apart(low_from_ns: int) -> pl.DataFrame:
    """Return SYNTHETIC stamps of a high one that slows down after half of its time, and a low one from then on."""
    alone = [(i * 10**6, i * 10**6 + 10, i * 10**6 + 100_000) for i in range(100)]
    beside = [(a, b, c + 300_000 * (i >= 50)) for i, (a, b, c) in enumerate(alone)]
    low = [(low_from_ns + i * 10**6, low_from_ns + i * 10**6 + 10, low_from_ns + i * 10**6 + 900_000)
           for i in range(50)]  # fmt: skip
    return pl.concat([as_rows("high_alone", 0, {"high": alone}), as_rows("together", 0, {"high": beside, "low": low})])


def test_launches_that_nobody_disturbed_tell_nothing() -> None:
    """Two programs that start together need not be ready together: here the low one comes when the high one is gone."""
    found = judge(apart(low_from_ns=10**9), NOTHING)
    assert found.outcome == "UNKNOWN"
    assert found.reason.startswith("only 0 of 100 launches of the high one ran while the low one was at work, ")
    rows = {(r["phase"], r["role"]): r["beside"] for r in summarize_phases(apart(low_from_ns=10**9)).to_dicts()}
    assert rows == {("high_alone", "high"): None, ("together", "high"): 0, ("together", "low"): 0}


def test_the_verdict_takes_the_launches_beside_the_low_one() -> None:
    stamps = apart(low_from_ns=50 * 10**6)
    found = judge(stamps, NOTHING)
    assert (found.outcome, found.counts["launches_beside"]) == ("FAIL", 50)
    assert found.reason.endswith("; 50 of 100 launches ran beside it)")
    fast = stamps.filter(
        (pl.col("role") == "low") | (pl.col("start_ns") < 50 * 10**6) | (pl.col("phase") != "together")
    )
    assert judge(fast, NOTHING).outcome == "UNKNOWN"


def test_high_keeps_its_latency() -> None:
    assert judge(stamps(100, 100), NOTHING).outcome == "PASS"
    assert judge(stamps(100, 300), NOTHING).outcome == "FAIL"
    few = judge(stamps(100, 100, count=5), NOTHING)
    assert few.outcome == "UNKNOWN" and few.reason.startswith("5 launches of the high one were stamped, ")


def test_a_limit_that_is_kept_by_what_may_be_chance_is_told_so() -> None:
    """Of 100 launches P95 together lies below the limit, the end of its interval above it."""
    near, sure = (judge(stamps(100, 100), NOTHING, kept=kept) for kept in (1.2, 1.5))
    assert near.reason.endswith("it is not longer than the limit, but that may be chance")
    assert (sure.outcome, sure.reason.endswith("limit 1.5 times that alone)")) == ("PASS", True)


def test_a_limit_that_a_few_launches_exceed_by_chance_is_unknown() -> None:
    """Four of sixty launches waited: P95 lies among them, yet another four might not have."""

    def series(phase: str, waited: tuple[int, ...], all_ns: int = 0) -> pl.DataFrame:
        took = [100_000 + all_ns + i % 7 * 1000 + (1_000_000 if i in waited else 0) for i in range(60)]
        rows = [(i * 10**7, i * 10**7 + 5000, i * 10**7 + ns) for i, ns in enumerate(took)]
        return as_rows(phase, 0, {"high": rows})

    low = as_rows("together", 0, {"low": [(i * 10**6, i * 10**6, i * 10**6 + 50_000) for i in range(600)]})
    late = pl.concat([series("high_alone", ()), series("together", (5, 20, 35, 50)), low])
    found = judge(late, NOTHING)
    assert found.counts["together_p95_ns"] > 2 * found.counts["alone_p95_ns"]
    assert found.counts["low_ns"] <= 0
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but that may be chance")
    assert judge(late, NOTHING, kept=100).outcome == "PASS"
    # All a little later, within the limit: that is sure, but no more than that.
    later = pl.concat([series("high_alone", ()), series("together", (5, 20, 35, 50), all_ns=10_000), low])
    found = judge(later, NOTHING)
    assert 0 < found.counts["low_ns"] < 0.2 * found.counts["alone_p95_ns"]
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but that may be chance")
    assert judge(later, NOTHING, kept=1.05).outcome == "FAIL"


@pytest.mark.parametrize(
    ("together", "outcome"), [(60, "PASS"), (100, "PASS"), (105, "UNKNOWN"), (130, "UNKNOWN"), (400, "FAIL")]
)
def test_few_launches_near_the_limit_are_unknown(together: int, outcome: str) -> None:
    """SYNTHETIC: of 30 launches all lie below P95 with a chance of one in five."""
    few = judge(stamps(100, together, count=30), NOTHING)
    assert (few.outcome, few.reason.endswith("but that may be chance")) == (outcome, outcome == "UNKNOWN")


def test_launches_too_few_to_show_a_percentile_may_all_be_faster() -> None:
    """Of the 30 launches alone 28 are faster than the limit demands, and the interval knows no longer one beside."""

    def rows(phase: str, took_us: list[int]) -> pl.DataFrame:
        return as_rows(
            phase, 0, {"high": [(i * 10**6, i * 10**6, i * 10**6 + us * 1000) for i, us in enumerate(took_us)]}
        )

    low = as_rows("together", 0, {"low": [(i * 10**6, i * 10**6, i * 10**6 + 50_000) for i in range(30)]})
    found = judge(pl.concat([rows("high_alone", [100] * 28 + [130] * 2), rows("together", [125] * 30), low]), NOTHING)
    assert found.outcome == "UNKNOWN"
    assert found.reason.endswith(": so few launches beside the low one may all have been faster than P95")


def test_costly_instrumentation_makes_it_unknown() -> None:
    plain = stamps(100, 100)
    slow = plain.with_columns(pl.col("complete_ns") + 60_000)
    overhead = measure_overhead(plain, slow)
    assert overhead.filter(pl.col("phase") == "high_alone")["ratio"].item() > 1.2
    assert judge(plain, overhead).outcome == "UNKNOWN"
    assert judge(plain, measure_overhead(plain, plain)).outcome == "PASS"


@given(st.lists(st.binary() | st.from_regex(rb"tracecorr-stamp( [0-9]{1,30}){3}", fullmatch=True)))
def test_any_output_is_read(lines: list[bytes]) -> None:
    assert all(a <= b <= c < 2**63 for a, b, c in read_stamps(b"\n".join(lines)))


def test_numbers_that_are_no_times_are_left_out() -> None:
    long = b"9" * 5000
    assert read_stamps(b"tracecorr-stamp 1 2 %b\ntracecorr-stamp 1 2 9223372036854775808\n" % long) == []


def test_stamps_among_other_output() -> None:
    text = b"epoch 1\ntracecorr-stamp 5 6 7\r\nxtracecorr-stamp 1 2 3\ntracecorr-stamp 3 2 1\ntracecorr-stamp 8 8 8"
    assert read_stamps(text) == [(5, 6, 7), (8, 8, 8)]


@pytest.fixture
def workload(tmp_path: Path, repo: Path) -> Callable[[int], str]:
    """Return a function that gives the command of a SYNTHETIC workload: it sleeps instead of using a GPU."""
    script = tmp_path / "sleeper.py"
    script.write_text(
        "import sys, time\nfrom stamps import Stamps\ns = Stamps()\n"
        "for _ in range(25):\n    s.time(lambda: None, lambda: time.sleep(int(sys.argv[1]) / 1e6))\ns.print()\n"
    )
    path = shlex.quote(str(repo / "samples" / "workloads"))
    return lambda us: f"PYTHONPATH={path} {shlex.quote(sys.executable)} {shlex.quote(str(script))} {us}"


def test_the_verb_without_capture(
    workload: Callable[[int], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "preempt", "--high", workload(500), "--low", workload(900), "--rounds", "2", "--no-capture"]
    # A limit that holds on a busy machine, too.
    words += ["--kept", "1e6"]
    assert main([*words, "-o", str(tmp_path / "x.experiment"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    ran = [("high", workload(500)), ("low", workload(900))]
    assert [(row["role"], row["command"]) for row in report["sections"]["workloads"]] == ran
    phases = [(r["phase"], r["role"], r["rounds"], r["launches"]) for r in report["sections"]["phases"]]
    assert ("together", "high", 2, 50) in phases
    assert ("sequential", "low", 2, 50) in phases
    beside = report["verdict"]["counts"]["launches_beside"]  # On a busy machine one may end before the other begins.
    assert report["verdict"]["outcome"] == ("PASS" if beside >= MIN_VALUES else "UNKNOWN")
    kept = pl.read_parquet(tmp_path / "x.experiment" / "stamps.parquet")
    assert kept.schema == pl.Schema(STAMPS)
    assert main([*words, "-o", str(tmp_path / "x.experiment")]) == 2  # it is there


def test_workloads_that_fail_or_print_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["experiment", "preempt", "--rounds", "1", "--no-capture"]
    assert main([*base, "--high", "exit 3", "--low", "true", "-o", str(tmp_path / "a")]) == 2
    assert "ended with status 3\n" in capsys.readouterr().err
    assert main([*base, "--high", "true", "--low", "true", "-o", str(tmp_path / "b")]) == 2
    assert "printed no stamp" in capsys.readouterr().err
    assert main(["experiment", "nonsense", "--high", "true", "--low", "true"]) == 2


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    words = ["experiment", "preempt", "--high", "true", "--low", "true", "--no-capture", "-o"]
    assert main([*words, str(tmp_path / "file" / "x")]) == 2
    assert f"cannot make {tmp_path / 'file' / 'x'}: Not a directory\n" in capsys.readouterr().err


def test_a_capture_without_a_queue_is_one(tmp_path: Path) -> None:
    """Of a workload that writes no HIP log, here SYNTHETIC."""
    trace = tmp_path / "trace.txt"
    trace.write_text("            a-1     [000] .....     1.000000: sys_munmap(addr: 1000, len: 1000)\n")
    made = import_files(tmp_path / "x.tracecorr", [], [trace])
    correlate(made.path)
    none = pl.DataFrame(schema=STAMPS)
    for captures, said in (
        ({"high_alone": made.path}, "UNKNOWN: no captured round shows a queue of HIP"), ({}, "nothing was captured"),
    ):  # fmt: skip
        runs = Runs(stamps(100, 100), none, captures, {"high": "a", "low": "b"})
        sections = {s.key: s for s in summarize_experiment(runs, 1.2).sections}
        assert (sections["priorities"].frame.is_empty(), sections["priorities"].nothing) == (True, said)


def interrupt(words: list[str], ready: Callable[[], bool], times: int = 1) -> tuple[int, str]:
    """Run a command in a session of its own, as a terminal's job, and send Ctrl-C to all of it once it is ready.

    Returns: its exit status and what it said.
    """
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:  # fmt: skip
        try:
            wait_until(lambda: ready() or process.poll() is not None)
            for _ in range(times):
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(0.2)
            return process.wait(300), process.communicate()[1]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 300  # only what hangs takes that long
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_ctrl_c_while_both_run_ends_both_of_them(tmp_path: Path) -> None:
    """Each takes longer to end than Python waits for a child of its own, as a runtime that frees its queues does."""
    script = tmp_path / "workload.py"
    script.write_text(
        "import pathlib, sys, time\nme = pathlib.Path(sys.argv[1])\nprint('tracecorr-stamp 1 2 3')\n"
        "if me.exists():\n"  # It ran alone and in turn: now both run.
        "    me.with_suffix('.up').touch()\n    try:\n        time.sleep(15)\n    except KeyboardInterrupt:\n"
        "        time.sleep(1)\n        me.with_suffix('.down').touch()\n"
        "elif me.with_suffix('.one').exists():\n    me.touch()\nelse:\n    me.with_suffix('.one').touch()\n"
    )
    commands = {role: shlex.join([sys.executable, str(script), str(tmp_path / role)]) for role in ("high", "low")}
    words = [sys.executable, "-m", "tracecorr", "experiment", "preempt", "--no-capture", "--rounds", "1"]
    words += ["--high", commands["high"], "--low", commands["low"], "-o", str(tmp_path / "x.experiment")]
    ends = [tmp_path / name for name in ("high.down", "low.down")]
    status, said = interrupt(words, lambda: (tmp_path / "high.up").exists() and (tmp_path / "low.up").exists())
    assert (status, [end.exists() for end in ends]) == (130, [True, True])
    assert f"interrupted: {tmp_path / 'x.experiment'} holds" in said


def test_a_workload_that_does_not_heed_ctrl_c_is_not_waited_for_twice(tmp_path: Path) -> None:
    up, ended = tmp_path / "up", tmp_path / "ended"
    deaf = f"trap '' INT; touch {shlex.quote(str(up))}; sleep 20; touch {shlex.quote(str(ended))}"
    words = [sys.executable, "-m", "tracecorr", "experiment", "preempt", "--no-capture", "--rounds", "1"]
    words += ["--high", deaf, "--low", "true", "-o", str(tmp_path / "x.experiment")]
    assert interrupt(words, up.exists, times=2)[0] == 130
    assert not ended.exists()


def test_ctrl_c_lets_the_capture_take_away_what_it_armed(tmp_path: Path) -> None:
    """SYNTHETIC capture: it takes a second to close its folder, and may be asked twice."""
    fake = tmp_path / "python"
    fake.write_text(
        f"#!{sys.executable}\nimport pathlib, signal, sys, time\nhere = pathlib.Path({str(tmp_path)!r})\nasked = []\n"
        "if '--dry-run' in sys.argv:\n    sys.exit()\n"
        "signal.signal(signal.SIGINT, lambda *_: asked.append(1))\n(here / 'up').touch()\n"
        "while not asked:\n    time.sleep(0.01)\n"
        "end = time.monotonic() + 1\nwhile time.monotonic() < end:\n    time.sleep(0.01)\n(here / 'undone').touch()\n"
    )
    fake.chmod(0o755)
    stamp = "echo tracecorr-stamp 1 2 3"
    words = ["experiment", "preempt", "--rounds", "1", "--high", stamp, "--low", stamp, "-o", str(tmp_path / "x")]
    driver = f"import sys; sys.executable = {str(fake)!r}; from tracecorr.cli import main; sys.exit(main({words!r}))"
    status, _ = interrupt([sys.executable, "-c", driver], (tmp_path / "up").exists, times=2)
    assert (status, (tmp_path / "undone").exists()) == (130, True)


def test_a_machine_that_cannot_capture_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the plain rounds either, which may take an hour: without the captured ones there would be no report."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'error: this needs root' >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    high = f"echo tracecorr-stamp 1 2 3; touch {shlex.quote(str(tmp_path / 'ran'))}"
    words = ["experiment", "preempt", "--high", high, "--low", high, "-o", str(tmp_path / "x")]
    assert main(words) == 3
    assert "error: this needs root" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [fake]


def test_a_card_without_a_counter_is_a_card() -> None:
    """SYNTHETIC samples: not every GPU tells how busy its memory is."""
    tables = {name: pl.LazyFrame(schema=schema.TABLES[name].schema) for name in ("launches", "queues")}
    tables["samples"] = pl.LazyFrame({"gpu": [0], "name": ["gpu_busy_percent"], "value": [93.0]})
    load = summarize_load(cast(Capture, SimpleNamespace(table=tables.__getitem__)))
    known = dict(load.select("figure", "known").rows())
    assert known["GPU busy"] == "recorded"
    assert known["memory busy"] == "UNKNOWN: no card in sysfs shows mem_busy_percent"


@pytest.mark.parametrize(("high", "low"), [(0, 0), (3, 0), (0, 4), (3, 4)])
def test_the_status_of_both(tmp_path: Path, capsys: pytest.CaptureFixture[str], high: int, low: int) -> None:
    """Alone and in turn both end well, together with these: the low one's tells, else the high one's."""
    count = f"echo x >> {shlex.quote(str(tmp_path))}/$me; n=$(wc -l < {shlex.quote(str(tmp_path))}/$me)"
    commands = [f"me={role}; {count}; echo tracecorr-stamp 1 2 3; [ $n -lt 3 ] || exit {status}"
                for role, status in (("high", high), ("low", low))]  # fmt: skip
    words = ["experiment", "preempt", "--no-capture", "--rounds", "1", "--high", commands[0], "--low", commands[1]]
    assert main([*words, "-o", str(tmp_path / "x")]) == (2 if high or low else 0)
    said = capsys.readouterr().err
    assert (f"the phase together ended with status {low or high}" in said) == bool(high or low)


@pytest.fixture
def null_gpu(repo: Path) -> Path:
    """Return the null-GPU rig's run.sh, or skip."""
    rig = Path(os.environ.get("TRACECORR_RIGS") or repo.parent / "shared" / "rigs") / "nullgpu" / "run.sh"
    cache = Path(os.environ.get("NULLGPU_CACHE") or rig.parent / "cache")
    if os.geteuid() != 0 or not rig.is_file() or not (cache / "lib" / "libnullgpu.so").is_file():
        pytest.skip("needs root and the null-GPU rig, built (NULLGPU_CACHE)")
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs mount namespaces")
    return rig


def test_on_the_null_gpu(
    null_gpu: Path, repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real HIP on a GPU that does not exist: high and low priority streams, captured where this machine can."""
    programs = shlex.quote(str(repo / "samples" / "workloads"))
    monkeypatch.setenv("NULLGPU_BIND", f"{programs}:/workloads {tmp_path}:{tmp_path}")
    base = f"{shlex.quote(str(null_gpu))} python3 /workloads/hip_fill.py --iterations 30 --size 64 --priority"
    words = ["experiment", "preempt", "--high", f"{base} -1", "--low", f"{base} 1", "--rounds", "1", "--json"]
    status = main([*words, "-o", str(tmp_path / "x.experiment")])
    out, err = capsys.readouterr()
    if status == 3:
        pytest.skip(f"this machine cannot capture: {err.strip().splitlines()[-1]}")
    assert status == 0, err
    sections = json.loads(out)["sections"]
    assert {(r["phase"], r["role"]) for r in sections["phases"]} >= {("together", "high"), ("together", "low")}
    asked = {(r["phase"], r["priority_hip"]) for r in sections["priorities"]}
    assert {("high_alone", -1), ("low_alone", 1), ("together", -1), ("together", 1)} <= asked


@pytest.mark.torch
@pytest.mark.parametrize(
    "program", ["gemm", "cnn", "transformer", "stream_priority", "time_slicing", "event_cooperation"]
)
def test_torch_workloads_on_the_cpu(repo: Path, program: str) -> None:
    path = repo / "samples" / "workloads" / f"{program}.py"
    words = [os.environ["TRACECORR_TORCH_PYTHON"], str(path), "--device", "cpu", "--iterations", "2", "--size", "64"]
    done = subprocess.run(words, capture_output=True, check=True)
    assert len(read_stamps(done.stdout)) == 2
