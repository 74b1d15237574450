"""The experiment: its stamps, its phases in order, its ends. Workloads without a GPU are SYNTHETIC."""

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
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stamp_series import stamps

from tracecorr.analyze.compare.statistics import MIN_VALUES
from tracecorr.analyze.experiment import STAMPS, as_rows
from tracecorr.analyze.report.markdown import render_experiment
from tracecorr.cli import main
from tracecorr.experiment import preempt
from tracecorr.experiment.experiment_report import summarize_experiment, summarize_load
from tracecorr.experiment.preempt import PreemptOptions, Runs, Tried, read_stamps, warn_of_priorities
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


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
    together = [n for phase, role, _, n in phases if phase in ("together", "apart") and role == "high"]
    assert sum(together) == 50
    assert ("sequential", "low", 2, 50) in phases
    beside = report["verdict"]["counts"]["launches_beside"]  # On a busy machine one may end before the other begins.
    assert report["verdict"]["outcome"] == ("PASS" if beside >= MIN_VALUES else "UNKNOWN")
    kept = pl.read_parquet(tmp_path / "x.experiment" / "stamps.parquet")
    assert kept.schema == pl.Schema(STAMPS)
    page = tmp_path / "x.html"
    assert (
        main([*words[:-2], "--rounds", "1", "--policy", "event", "-o", str(tmp_path / "y"), "--html", str(page)]) == 0
    )
    text = page.read_text()
    assert "What the numbers mean" in text and "<svg" in text and "host hold-back" in text
    assert main([*words, "-o", str(tmp_path / "x.experiment")]) == 2  # it is there


def test_ignored_priorities_are_told_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SYNTHETIC library that knows the variable may ignore priorities; one that is told to does."""
    library = tmp_path / "libamdhip64.so.7"
    library.write_bytes(b"\x7fELF..DEBUG_HIP_IGNORE_STREAM_PRIORITY..")
    monkeypatch.setattr(preempt, "installed_libraries", lambda *_: {str(library): library})
    options = PreemptOptions("true", "true", tmp_path / "x.experiment")
    monkeypatch.delenv("DEBUG_HIP_IGNORE_STREAM_PRIORITY", raising=False)
    assert "set DEBUG_HIP_IGNORE_STREAM_PRIORITY=0" in warn_of_priorities(options)
    for value, told in (("1", True), ("0", False)):
        monkeypatch.setenv("DEBUG_HIP_IGNORE_STREAM_PRIORITY", value)
        assert bool(warn_of_priorities(options)) is told
    library.write_bytes(b"\x7fELF")
    monkeypatch.delenv("DEBUG_HIP_IGNORE_STREAM_PRIORITY")
    assert warn_of_priorities(options) == ""


def test_links_that_a_workload_left_in_its_folder_lead_no_result_elsewhere(
    workload: Callable[[int], str], tmp_path: Path
) -> None:
    """The folder is the caller's, whose commands run in it; root writes the results."""
    precious, folder = tmp_path / "precious", tmp_path / "x.experiment"
    precious.write_text("of root")
    names = ("stamps.parquet", "captured.parquet", "experiment.json", "report.json")
    plant = "; ".join(f"ln -sf {shlex.quote(str(precious))} {shlex.quote(str(folder / name))}" for name in names)
    words = ["--high", f"{plant}; {workload(100)}", "--low", workload(100), "--rounds", "1", "--no-capture"]
    assert main(["experiment", "preempt", *words, "-o", str(folder)]) == 0
    assert precious.read_text() == "of root"
    assert not any((folder / name).is_symlink() for name in names)


def test_workloads_that_fail_or_print_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["experiment", "preempt", "--rounds", "1", "--no-capture"]
    assert main([*base, "--high", "exit 3", "--low", "true", "-o", str(tmp_path / "a")]) == 2
    assert "ended with status 3\n" in capsys.readouterr().err
    assert main([*base, "--high", "true", "--low", "true", "-o", str(tmp_path / "b")]) == 2
    assert "printed no stamp" in capsys.readouterr().err
    assert main(["experiment", "nonsense", "--high", "true", "--low", "true"]) == 2


def test_a_failed_experiment_leaves_only_what_a_workload_printed(
    tmp_path: Path, workload: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["experiment", "preempt", "--rounds", "1", "--no-capture", "--low", "exit 3", "-o"]
    empty, filled = tmp_path / "empty", tmp_path / "filled"
    assert main([*base, str(empty), "--high", "exit 3"]) == 2
    assert not empty.exists()
    assert "holds" not in capsys.readouterr().err
    assert main([*base, str(filled), "--high", workload(500)]) == 2
    assert f"{filled} holds the outputs of the workloads, but no report" in capsys.readouterr().err
    assert "tracecorr-stamp" in (filled / "high_alone-0-high.txt").read_text()


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


def stamps_apart() -> pl.DataFrame:
    """Return SYNTHETIC stamps of rounds in which the low one ended before the high one began."""
    low = (pl.col("phase") == "together") & (pl.col("role") == "low")
    return pl.concat([stamps(100, 100).filter(~low), as_rows("together", 0, {"low": [(-2000, -1500, -1000)]})])


def test_a_captured_round_that_was_apart_is_not_called_together(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("            a-1     [000] .....     1.000000: sys_munmap(addr: 1000, len: 1000)\n")
    made = import_files(tmp_path / "x.tracecorr", [], [trace])
    correlate(made.path)
    for captured, called in ((stamps_apart(), "apart"), (stamps(100, 100), "together")):
        runs = Runs(stamps(100, 100), captured, {"together": made.path}, {"high": "a", "low": "b"})
        report = summarize_experiment(runs, 1.2)
        sections = {s.key: s.frame for s in report.sections}
        assert {*sections["moves"]["phase"], *sections["utilisation"]["phase"]} == {called}
        assert [notice.split(" rounds")[0] for notice in report.notices] == ["captured"] * (called == "apart")
        assert report.finding.outcome == "PASS"


def test_commands_are_shown_to_their_end_and_what_was_apart_is_told_first() -> None:
    high = f"{'/long' * 40}/fill --priority "
    rows = stamps_apart()
    runs = Runs(rows, rows.clear(), {}, {"high": f"{high}-1", "low": f"{high}1"})
    report = summarize_experiment(runs, 1.2)
    told = render_experiment("x", report.finding, report.sections, report.notices)
    assert f"| high | {high}-1 |\n| low | {high}1 |\n" in told
    first = told.splitlines()[2]
    assert first.startswith("**Not together:** plain rounds of both at once: 0 of 100 launches of the high one ran ")
    assert "more launches of the low one" in first
    assert "| together |" not in told
    assert report.as_dict()["notices"] == list(report.notices)


def test_a_policy_that_held_nothing_and_a_model_of_a_gpu_are_told() -> None:
    """SYNTHETIC stamps: the controller acted, but found nothing to hold; what was measured ran on no GPU."""
    library = {"HSA_MODEL_LIB": "/dev/nullgpu/lib/libnullgpu.so"}
    tried = (
        Tried("none", environment=library),
        Tried("suspend", holds=3, reached=0),
        Tried("stop", holds=3, reached=6),
    )
    own = [stamps(100, 100).with_columns(policy=pl.lit(one.policy)) for one in tried]
    runs = Runs(pl.concat(own), stamps(100, 100).clear(), {}, {"high": "a", "low": "b"}, tried)
    report = summarize_experiment(runs, 1.2)
    (verdicts,) = (section.frame for section in report.sections if section.key == "verdicts")
    told = dict(verdicts.rows())
    assert {policy: "nothing of the low one was held" in said for policy, said in told.items()} == {
        "none": False, "suspend": True, "stop": False,
    }  # fmt: skip
    assert all(
        said.endswith("; model: time slices, no CUs, free switch") for said in [*told.values(), report.finding.reason]
    )


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
        "    try:\n        me.with_suffix('.up').touch()\n        time.sleep(15)\n    except KeyboardInterrupt:\n"
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
    tables = {
        name: pl.LazyFrame(schema=schema.TABLES[name].schema) for name in ("launches", "queues", "events", "args")
    }
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


def test_a_policy_that_is_given_up_ends_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the low one is shows when it runs: here a member of a distributed job, which may not be stopped."""
    busy = 'printf "\\001" | dd of="$TRACECORR_CHANNEL" bs=1 seek=8 conv=notrunc 2> /dev/null'
    high = f'[ -z "$TRACECORR_CHANNEL" ] || {busy}; sleep 0.5; echo tracecorr-stamp 1 2 3'
    words = ["experiment", "preempt", "--no-capture", "--rounds", "1", "--policy", "stop", "--json", "--high", high]
    assert main([*words, "--low", "WORLD_SIZE=8 sleep 1; echo tracecorr-stamp 1 2 3", "-o", str(tmp_path / "x")]) == 0
    out, err = capsys.readouterr()
    sections = json.loads(out)["sections"]
    assert "policy stop was given up" in err and [row["policy"] for row in sections["policies"]] == ["none"]
    told = {row["policy"]: row["verdict"] for row in sections["verdicts"]}
    assert told["stop"].startswith("no result: ") and "WORLD_SIZE=8" in told["stop"]


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
    # Whether both are at work at once is up to the machine.
    both = ("together", "apart")
    assert {r["role"] for r in sections["phases"] if r["phase"] in both} == {"high", "low"}
    asked = {(both[0] if r["phase"] in both else r["phase"], r["priority_hip"]) for r in sections["priorities"]}
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
