"""The experiment: figures from stamps, phases in order, the verdict. Workloads without a GPU are SYNTHETIC."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tracecorr.experiment.stamps import read_stamps

NOTHING = pl.DataFrame(schema={"role": pl.String, "ratio": pl.Float64})


def stamps(high_alone: int, together: int, count: int = 100, seed: int = 1) -> pl.DataFrame:
    """Return SYNTHETIC launches of a high one that take about so many us alone and together, low ones of 50 us."""
    rng = np.random.default_rng(seed)

    def series(mean_us: int, phase: str, role: str) -> pl.DataFrame:
        done = (rng.gamma(20, mean_us / 20, count) * 1000).astype(np.int64)
        start = np.cumsum(done + 1000) - done
        rows = list(
            zip(start.tolist(), (start + 5000).tolist(), (start + np.maximum(done, 5000)).tolist(), strict=True)
        )
        return as_rows(phase, 0, {role: rows})

    return pl.concat([
        series(high_alone, "high_alone", "high"), series(50, "low_alone", "low"), series(together, "together", "high"),
        series(50, "together", "low"),
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


def test_high_keeps_its_latency() -> None:
    assert judge_latency(stamps(100, 100), NOTHING).outcome == "PASS"
    assert judge_latency(stamps(100, 300), NOTHING).outcome == "FAIL"
    few = judge_latency(stamps(100, 100, count=5), NOTHING)
    assert few.outcome == "UNKNOWN" and few.reason.startswith("5 launches of the high one were stamped, ")


def test_a_limit_that_a_few_launches_exceed_by_chance_is_unknown() -> None:
    """Four of sixty launches waited: P95 lies among them, yet another four might not have."""

    def series(phase: str, waited: tuple[int, ...]) -> pl.DataFrame:
        took = [100_000 + i % 7 * 1000 + (1_000_000 if i in waited else 0) for i in range(60)]
        rows = [(i * 10**7, i * 10**7 + 5000, i * 10**7 + ns) for i, ns in enumerate(took)]
        return as_rows(phase, 0, {"high": rows})

    late = pl.concat([series("high_alone", ()), series("together", (5, 20, 35, 50))])
    found = judge_latency(late, NOTHING)
    assert found.counts["together_p95_ns"] > 2 * found.counts["alone_p95_ns"]
    assert found.counts["low_ns"] <= 0
    assert found.outcome == "UNKNOWN" and found.reason.endswith("but that may be chance")
    assert judge_latency(late, NOTHING, kept=100).outcome == "PASS"


def test_costly_instrumentation_makes_it_unknown() -> None:
    plain = stamps(100, 100)
    slow = plain.with_columns(pl.col("complete_ns") + 60_000)
    overhead = measure_overhead(plain, slow)
    assert overhead.filter(pl.col("phase") == "high_alone")["ratio"].item() > 1.2
    assert judge_latency(plain, overhead).outcome == "UNKNOWN"
    assert judge_latency(plain, measure_overhead(plain, plain)).outcome == "PASS"


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
    phases = [(r["phase"], r["role"], r["rounds"], r["launches"]) for r in report["sections"]["phases"]]
    assert ("together", "high", 2, 50) in phases
    assert ("sequential", "low", 2, 50) in phases
    assert report["verdict"]["outcome"] == "PASS"
    kept = pl.read_parquet(tmp_path / "x.experiment" / "stamps.parquet")
    assert kept.schema == pl.Schema(STAMPS)
    assert main([*words, "-o", str(tmp_path / "x.experiment")]) == 2  # it is there


def test_workloads_that_fail_or_print_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["experiment", "preempt", "--rounds", "1", "--no-capture"]
    assert main([*base, "--high", "exit 3", "--low", "true", "-o", str(tmp_path / "a")]) == 2
    assert "ended with status 3" in capsys.readouterr().err
    assert main([*base, "--high", "true", "--low", "true", "-o", str(tmp_path / "b")]) == 2
    assert "printed no stamp" in capsys.readouterr().err
    assert main(["experiment", "nonsense", "--high", "true", "--low", "true"]) == 2


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
